"""The stored part of second factors: switched on and off, with their recovery codes, on our side and in AuthMe's row.

A second factor set up here counts here until it is switched off here: nothing in the game changes it, or those who may
use AuthMe's commands could take it from an operator. Where the player has a row, AuthMe gets the secret too, so that
one app entry serves both. Our side is the first to ask and the last to stop asking.
"""

from dataclasses import dataclass
from typing import Literal

from peewee import Database

from regsvc.accounts.access import Principal
from regsvc.accounts.login_lookup import LoginIdentity, find_players_totp, require_account_owner
from regsvc.accounts.password_checker import PasswordChecker
from regsvc.accounts.player_totp import PlayerTotp
from regsvc.accounts.second_factor_notices import SecondFactorNotices
from regsvc.auth.derived_secrets import new_nonce
from regsvc.auth.second_factor import SecondFactors
from regsvc.auth.sessions import Sessions
from regsvc.auth.totp import find_time_step
from regsvc.core import errors
from regsvc.core.caller import Caller, VerifiedSession
from regsvc.core.clock import Clock
from regsvc.core.names import name_key
from regsvc.database.models import User
from regsvc.sync.accounts_loader import AccountsLoader


@dataclass(frozen=True)
class SecondFactorStore:
    """Second factors of users whose password, and code where one is needed, was checked. Blocking."""

    database: Database
    accounts: AccountsLoader
    checker: PasswordChecker
    second_factors: SecondFactors
    sessions: Sessions
    player_totp: PlayerTotp
    notices: SecondFactorNotices
    now: Clock

    def find_origin(self, username: str) -> Literal["web", "game"] | None:
        """Return where the second factor that counts was set up; None: there is none. Raises `AuthMeUnavailable`."""
        account = self.player_totp.load(name_key(username))
        if account.user is not None and account.user.totp_enabled_at is not None:
            return "web"
        return "game" if find_players_totp(account) is not None else None

    def begin(self, identity: LoginIdentity) -> str:
        """Store a new nonce and return its secret; an earlier, unconfirmed one is void. Raises `TotpAlreadyOn`."""
        assert identity.user_id is not None
        nonce = new_nonce()
        is_off = (User.id == identity.user_id) & User.totp_enabled_at.is_null()
        if not User.update(totp_nonce=nonce).where(is_off).execute():
            raise errors.TotpAlreadyOn
        return self.second_factors.secret_of(identity.user_id, nonce)

    def confirm(
        self, identity: LoginIdentity, session: VerifiedSession, code: str, caller: Caller
    ) -> tuple[list[str], str]:
        """Switch the second factor on; return its recovery codes, and its secret for `PlayerTotp.give`.

        Raises `TotpAlreadyOn`, `TotpNotOn`, `InvalidTotp`, and `RateLimited` if that happens too often.
        """
        with self.database.atomic():
            user = self._lock_user(identity)
            if user.totp_enabled_at is not None:
                raise errors.TotpAlreadyOn
            if user.totp_nonce is None:
                raise errors.TotpNotOn
            secret = self.second_factors.secret_of(user.id, user.totp_nonce)
            step = find_time_step(secret, code, self.now(), after=user.totp_step)
            if step is None:
                raise errors.InvalidTotp
            changes = {"totp_enabled_at": self.now(), "totp_step": step}
            self.sessions.revoke_all(user.id, changes, kept=session.jti)
            codes = self.second_factors.replace_recovery_codes(user.id)
            self.notices.enabled(user, caller)
        return codes, secret

    def replace_recovery_codes(self, identity: LoginIdentity, caller: Caller) -> list[str]:
        """Use up the code that was shown, and return new recovery codes. Raises `TotpRequired`."""
        with self.database.atomic():
            user = self._use_code(identity, caller)
            codes = self.second_factors.replace_recovery_codes(user.id)
            self.notices.replaced_codes(user, caller)
        return codes

    def use_code(self, identity: LoginIdentity, caller: Caller) -> None:
        """Use up the code that was shown. Raises `TotpRequired` if another request has."""
        with self.database.atomic():
            self._use_code(identity, caller)

    def switch_off(self, identity: LoginIdentity, session: VerifiedSession, caller: Caller) -> bool:
        """Switch the second factor off; return whether the game still asks for another one.

        Raises `AuthMeUnavailable`; the second factor counts on then.
        """
        account = self.player_totp.load(identity.key)
        in_game = find_players_totp(account)
        if in_game == identity.totp_secret:
            self.player_totp.remove(account)
        # an admin's session that began with a second factor does not outlive it
        kept = session.jti if session.audience == "user" else None
        with self.database.atomic():
            user = self._lock_user(identity)
            self._remove(user.id, kept=kept)
            self.notices.disabled(user, caller)
        return in_game not in (None, identity.totp_secret)

    def reset(self, username: str, by: Principal) -> bool:
        """Remove the second factor of a user who has lost it, here and in the game, and end all sessions.

        Returns whether there was one. Raises `UserNotFound` and `AuthMeUnavailable`.
        """
        account = self.player_totp.load(name_key(username))
        user, is_in_game = account.user, find_players_totp(account) is not None
        if user is None:
            raise errors.UserNotFound
        if is_in_game:
            self.player_totp.remove(account)
        had_one = is_in_game or user.totp_enabled_at is not None
        with self.database.atomic():
            self._remove(user.id, kept=None)
            row = User.get_or_none(User.id == user.id)
            if row is None:  # deleted meanwhile
                raise errors.UserNotFound
            if had_one:
                self.notices.reset(row, by.actor)
        return had_one

    def _lock_user(self, identity: LoginIdentity) -> User:
        """Lock and return the user whose password was checked. Raises `Unauthorized`."""
        found = self.accounts.lock_user(identity.key, lambda: None)
        if found is None:
            raise errors.Unauthorized
        require_account_owner(found[0], identity)
        return found[0]

    def _use_code(self, identity: LoginIdentity, caller: Caller) -> User:
        user = self._lock_user(identity)
        if not self.checker.use_second_factor(identity, user.id, caller):
            raise errors.TotpRequired
        return user

    def _remove(self, user_id: int, *, kept: str | None) -> None:
        self.sessions.revoke_all(user_id, {"totp_nonce": None, "totp_enabled_at": None}, kept=kept)
        self.second_factors.delete_recovery_codes(user_id)
