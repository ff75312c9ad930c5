"""Operations of users on their second factor: set it up, replace its recovery codes, switch it off."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Final, Literal

from msgspec import Meta
from msgspec.structs import replace
from peewee import Database

from plugin_bridge.authme.players import PlayerRefused, Players, PlayersUnavailable
from regsvc.accounts.password_checker import LoginIdentity, PasswordChecker, find_players_totp, require_account_owner
from regsvc.auth.derived_secrets import new_nonce
from regsvc.auth.entitlement import Principal
from regsvc.auth.rate_limits import DurableLimits
from regsvc.auth.second_factor import SecondFactors, Totp, count_recovery_codes, find_time_step, provisioning_uri
from regsvc.auth.sessions import Sessions
from regsvc.config.live import LiveConfig
from regsvc.core import errors
from regsvc.core.addresses import Caller, VerifiedSession
from regsvc.core.clock import Clock
from regsvc.core.rights import Team
from regsvc.core.text import draw_qr_code, name_key
from regsvc.core.units import RateLimit
from regsvc.database.audit import Actor, Audit
from regsvc.database.engine import Worker
from regsvc.database.models import User
from regsvc.http.messages import Password, Reply, Request
from regsvc.http.route import USER, Routes
from regsvc.notifications.mail.queue import MailQueue
from regsvc.sync.reconciler import Reconciler
from regsvc.sync.records import Account

if TYPE_CHECKING:
    from regsvc.http.call import Call

ROUTES: Final = Routes()

log = logging.getLogger(__name__)

_LIMITS: Final = (RateLimit(10, timedelta(days=1)),)
"""How often a user may switch it on. Each time is two mails, and nobody may use up what the host can send."""


class BeginSecondFactorReply(Reply, frozen=True, kw_only=True):
    """A new secret for an authenticator app, as text and as a QR code. It counts once a code confirms it."""

    secret: Annotated[str, Meta(description="In Base32.", examples=["JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"])]
    uri: Annotated[str, Meta(examples=["otpauth://totp/Server:Alice?secret=JBSWY3DP&issuer=Server"])]
    image: Annotated[str, Meta(description="The QR code.", examples=["data:image/png;base64,…"])]


@dataclass(frozen=True)
class SecondFactorSetup:
    """Second factors: set up, replaced and switched off by their users, and reset by operators."""

    database: Database
    worker: Worker
    players: Players
    reconciler: Reconciler
    checker: PasswordChecker
    second_factors: SecondFactors
    sessions: Sessions
    limits: DurableLimits
    mail_queue: MailQueue
    audit: Audit
    team: Team
    live: LiveConfig
    now: Clock

    def describe(self, session: VerifiedSession) -> SecondFactorReply:
        """Return the state of the session's user. Blocking. Raises `AuthMeUnavailable` and `Unauthorized`."""
        account = self.load(name_key(session.username))
        user = account.user
        if user is None or user.id != session.user_id:
            raise errors.Unauthorized
        is_in_game = find_players_totp(account) is not None
        rights = self.team.kept_rights_of(user)
        return SecondFactorReply(
            enabled=is_in_game or user.totp_enabled_at is not None,
            in_game=is_in_game,
            required=bool(rights.permissions) and self.live.current.auth.needs_totp(is_operator=rights.is_operator),
            recovery_codes_left=count_recovery_codes(user.id),
        )

    async def begin(self, session: VerifiedSession, password: str, caller: Caller) -> BeginSecondFactorReply:
        """Make a new secret, which does not count until a code confirms it.

        Raises `WrongPassword` (counted as a failed login) and `TotpAlreadyOn`.
        """
        identity = await self.checker.check_owner(session, password, caller)
        _require_off(identity)
        return await self.worker.run(self._begin, identity)

    async def confirm(
        self, session: VerifiedSession, password: str, code: str, caller: Caller
    ) -> ConfirmSecondFactorReply:
        """Switch the second factor on with a code of the app, and end all other sessions.

        Raises `WrongPassword` (counted as a failed login), `TotpAlreadyOn`, `TotpNotOn` and `InvalidTotp`.
        """
        identity = await self.checker.check_owner(session, password, caller)
        _require_off(identity)
        codes, secret = await self.worker.run(self._switch_on, identity, session, code, caller)
        self.mail_queue.wake_all()
        try:
            is_in_game = await self.worker.run(self.give, identity.key, secret)
        except errors.Refusal:  # the database is away now; the codes are shown this once
            is_in_game = False
        return ConfirmSecondFactorReply(recovery_codes=codes, in_game=is_in_game)

    async def replace_recovery_codes(
        self, session: VerifiedSession, password: str, totp: str | None, caller: Caller
    ) -> list[str]:
        """Return new recovery codes in place of the earlier ones.

        Raises `WrongPassword` and `TotpRequired` (both counted as failed logins), and `TotpNotOn`.
        """
        identity = await self.checker.check_owner_with_totp(session, password, totp, caller)
        _require_on(identity)
        return await self.worker.run(self._replace_codes, identity, caller)

    async def switch_off(self, session: VerifiedSession, password: str, totp: str | None, caller: Caller) -> bool:
        """Switch the second factor off, and end all other sessions. Returns whether the game still asks for one.

        Raises `WrongPassword` and `TotpRequired` (both counted as failed logins), `TotpNotOn`, and `AuthMeUnavailable`:
        the second factor counts on then.
        """
        identity = await self.checker.check_owner_with_totp(session, password, totp, caller)
        _require_on(identity)
        await self.worker.run(self.use_code, identity, caller)  # not repeated with what follows
        is_in_game = await self.worker.run(self._switch_off, identity, session, caller)
        self.mail_queue.wake_all()
        return is_in_game

    def find_origin(self, username: str) -> Literal["web", "game"] | None:
        """Return where the second factor that counts was set up; None: there is none. Raises `AuthMeUnavailable`."""
        account = self.load(name_key(username))
        if account.user is not None and account.user.totp_enabled_at is not None:
            return "web"
        return "game" if find_players_totp(account) is not None else None

    def reset(self, username: str, by: Principal) -> bool:
        """Remove the second factor of a user who has lost it, here and in the game, and end all sessions.

        Returns whether there was one. Raises `UserNotFound` and `AuthMeUnavailable`.
        """
        account = self.load(name_key(username))
        user, is_in_game = account.user, find_players_totp(account) is not None
        if user is None:
            raise errors.UserNotFound
        if is_in_game:
            self._remove_from_row(account)
        had_one = is_in_game or user.totp_enabled_at is not None
        with self.database.atomic():
            self._remove(user.id, kept=None)
            row = User.get_or_none(User.id == user.id)
            if row is None:  # deleted meanwhile
                raise errors.UserNotFound
            if had_one:
                self.audit.record("user.totp_disabled", by.actor, row.username)
                self.mail_queue.send(row, "totp_reset")
        return had_one

    # --- blocking: on worker threads ---

    def _begin(self, identity: LoginIdentity) -> BeginSecondFactorReply:
        secret = self._store_nonce(identity)
        uri = provisioning_uri(secret, identity.username, self.live.current.server.name)
        return BeginSecondFactorReply(secret=secret, uri=uri, image=draw_qr_code(uri))

    def _store_nonce(self, identity: LoginIdentity) -> str:
        """Store a new nonce and return its secret; an earlier, unconfirmed one is void. Raises `TotpAlreadyOn`."""
        assert identity.user_id is not None
        nonce = new_nonce()
        is_off = (User.id == identity.user_id) & User.totp_enabled_at.is_null()
        if not User.update(totp_nonce=nonce).where(is_off).execute():
            raise errors.TotpAlreadyOn
        return self.second_factors.secret_of(identity.user_id, nonce)

    def _switch_on(
        self, identity: LoginIdentity, session: VerifiedSession, code: str, caller: Caller
    ) -> tuple[list[str], str]:
        """Switch the second factor on; return its recovery codes, and its secret for `give`.

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
            self.sessions.record_second_factor(session.jti)
            codes = self.second_factors.replace_recovery_codes(user.id)
            self.limits.hit("totp.enabled", str(user.id), _LIMITS)
            self.audit.record("user.totp_enabled", Actor(user.username, caller.address), user.username)
            self.mail_queue.send(user, "totp_enabled")
        return codes, secret

    def _replace_codes(self, identity: LoginIdentity, caller: Caller) -> list[str]:
        """Use up the code that was shown, and return new recovery codes. Raises `TotpRequired`."""
        with self.database.atomic():
            user = self._use_code(identity, caller)
            codes = self.second_factors.replace_recovery_codes(user.id)
            self.audit.record("user.recovery_codes_replaced", Actor(user.username, caller.address), user.username)
        return codes

    def use_code(self, identity: LoginIdentity, caller: Caller) -> None:
        """Use up the code that was shown. Raises `TotpRequired` if another request has."""
        with self.database.atomic():
            self._use_code(identity, caller)

    def _switch_off(self, identity: LoginIdentity, session: VerifiedSession, caller: Caller) -> bool:
        """Switch the second factor off; return whether the game still asks for another one.

        Raises `AuthMeUnavailable`; the second factor counts on then.
        """
        account = self.load(identity.key)
        in_game = find_players_totp(account)
        if in_game == identity.totp_secret:
            self._remove_from_row(account)
        # an admin's session that began with a second factor does not outlive it
        kept = session.jti if session.audience == "user" else None
        with self.database.atomic():
            user = self._lock_user(identity)
            self._remove(user.id, kept=kept)
            self.audit.record("user.totp_disabled", Actor(user.username, caller.address), user.username)
            self.mail_queue.send(user, "totp_disabled")
        return in_game not in (None, identity.totp_secret)

    def _lock_user(self, identity: LoginIdentity) -> User:
        """Lock and return the user whose password was checked. Raises `Unauthorized`."""
        found = self.reconciler.loader.load_user_for_update(identity.key, lambda: None)
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

    def load(self, key: str) -> Account:
        """Return the account of this name. Raises `AuthMeUnavailable`."""
        try:
            return self.reconciler.load(key)
        except PlayersUnavailable as error:
            raise errors.AuthMeUnavailable from error

    # --- in the player's row: by compare-and-set, outside of our transactions ---

    def give(self, key: str, secret: str) -> bool:
        """Write the secret to the player's own row, if there is one without a secret; return whether it holds it."""
        try:
            player = self.reconciler.load(key).own_player
            if player is None:
                return False
            if (player.totp or "").strip():
                return player.totp == secret  # by an earlier try
            self.players.update(player, {"totp": secret})
            return find_players_totp(self.reconciler.load(key)) == secret
        except (PlayersUnavailable, PlayerRefused) as error:
            log.warning("a second factor counts on the web only; AuthMe's table did not take it: %s", error)
            return False

    def _remove_from_row(self, account: Account) -> None:
        """Empty the column of the player's row as it was seen. Raises `AuthMeUnavailable`."""
        assert account.player is not None
        try:
            is_written = self.players.update(account.player, {"totp": None})
        except (PlayersUnavailable, PlayerRefused) as error:
            raise errors.AuthMeUnavailable from error
        if not is_written:  # the row has changed since
            raise errors.AuthMeUnavailable


def _require_off(identity: LoginIdentity) -> None:
    if identity.totp_secret is not None:
        raise errors.TotpAlreadyOn


def _require_on(identity: LoginIdentity) -> None:
    if identity.totp_secret is None:
        raise errors.TotpNotOn


RecoveryCodeList = Annotated[
    list[str],
    Meta(description="Each stands in for a code once. They are in this reply only.", examples=[["0417 9920 3186"]]),
]

IsInGame = Annotated[bool, Meta(description="Whether AuthMe asks for the same codes in the game.", examples=[True])]


class SecondFactorReply(Reply, frozen=True, kw_only=True):
    """The second factor of the user. `required`: without it, the user cannot log in as an admin."""

    enabled: Annotated[bool, Meta(description="Whether a login needs a code.", examples=[True])]
    in_game: Annotated[bool, Meta(description="Whether AuthMe asks for one in the game.", examples=[True])]
    required: bool
    recovery_codes_left: Annotated[int, Meta(ge=0, examples=[10])]


class ConfirmSecondFactorReply(Reply, frozen=True, kw_only=True):
    recovery_codes: RecoveryCodeList
    in_game: IsInGame


class SecondFactorRequest(Request, frozen=True, kw_only=True):
    """The current password, and a code of the app or a recovery code."""

    current_password: Password
    totp: Totp | None = None


class RecoveryCodesReply(Reply, frozen=True, kw_only=True):
    recovery_codes: RecoveryCodeList


class SwitchOffSecondFactorReply(Reply, frozen=True, kw_only=True):
    """`inGame`: the player has set up another one with AuthMe, which logins need from now on."""

    in_game: bool


_PASSWORD_REFUSALS: Final = (errors.WrongPassword, errors.RateLimited, errors.AuthMeUnavailable)


@ROUTES.add("GET", "/api/user/totp", USER, errors.AuthMeUnavailable)
async def show_second_factor(call: Call, second_factor: SecondFactorSetup) -> SecondFactorReply:
    """Tell whether you have a second factor, set up here or in the game, and how many recovery codes are left."""
    return await call.run(second_factor.describe, call.require_session())


@ROUTES.add("POST", "/api/user/totp/begin", USER, *_PASSWORD_REFUSALS, errors.TotpAlreadyOn)
async def begin_second_factor(
    call: Call, second_factor: SecondFactorSetup, *, current_password: Password
) -> BeginSecondFactorReply:
    """Make the secret of a new second factor. It does not count until `confirm`; an earlier one is void."""
    return await second_factor.begin(call.require_session(), current_password, call.caller)


@ROUTES.add(
    "POST",
    "/api/user/totp/confirm",
    USER,
    *_PASSWORD_REFUSALS,
    errors.TotpAlreadyOn,
    errors.TotpNotOn,
    errors.InvalidTotp,
)
async def confirm_second_factor(
    call: Call,
    second_factor: SecondFactorSetup,
    *,
    current_password: Password,
    totp: Annotated[str, Meta(examples=["123456"])],
) -> ConfirmSecondFactorReply:
    """Switch the second factor on, here and for the player in the game. Ends all your other sessions.

    ConfirmSecondFactorRequest: The password once more, and a code of the app.
    """
    enabled = await second_factor.confirm(call.require_session(), current_password, totp, call.caller)
    return replace(enabled, message=call.message("totp_enabled"))


@ROUTES.add("POST", "/api/user/totp/recovery-codes", USER, *_PASSWORD_REFUSALS, errors.TotpRequired, errors.TotpNotOn)
async def replace_recovery_codes(
    call: Call, second_factor: SecondFactorSetup, request: SecondFactorRequest
) -> RecoveryCodesReply:
    """Replace your recovery codes."""
    codes = await second_factor.replace_recovery_codes(
        call.require_session(), request.current_password, request.totp, call.caller
    )
    return RecoveryCodesReply(message=call.message("recovery_codes_replaced"), recovery_codes=codes)


@ROUTES.add("POST", "/api/user/totp/off", USER, *_PASSWORD_REFUSALS, errors.TotpRequired, errors.TotpNotOn)
async def switch_off_second_factor(
    call: Call, second_factor: SecondFactorSetup, request: SecondFactorRequest
) -> SwitchOffSecondFactorReply:
    """Switch your second factor off, here and in the game. Ends all your other sessions, and an admin's own."""
    in_game = await second_factor.switch_off(
        call.require_session(), request.current_password, request.totp, call.caller
    )
    return SwitchOffSecondFactorReply(message=call.message("totp_disabled"), in_game=in_game)
