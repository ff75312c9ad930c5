"""Operations of users on their second factor: set it up, replace its recovery codes, switch it off."""

from collections.abc import Callable
from dataclasses import dataclass, field

from regsvc.accounts.login_lookup import LoginIdentity, find_players_totp
from regsvc.accounts.password_checker import PasswordChecker
from regsvc.accounts.player_totp import PlayerTotp
from regsvc.accounts.second_factor_store import SecondFactorStore
from regsvc.auth.second_factor import count_recovery_codes
from regsvc.auth.totp import provisioning_uri
from regsvc.config.live import LiveConfig
from regsvc.core import errors
from regsvc.core.caller import Caller, VerifiedSession
from regsvc.core.names import name_key
from regsvc.core.qr_code import draw_qr_code
from regsvc.database.engine import Worker
from regsvc.database.models import APPROVED


@dataclass(frozen=True)
class SecondFactorState:
    """State of a second factor, as its user sees it."""

    is_enabled: bool
    """Whether a login asks for a code."""
    is_in_game: bool
    """Whether AuthMe asks for one, too."""
    is_required: bool
    """Whether this user, an operator, cannot log in as admin without one."""
    recovery_codes_left: int


@dataclass(frozen=True)
class AppEntry:
    """Entry for an authenticator app, shown once: the secret, and a QR code of `uri` as a `data:` address."""

    secret: str = field(repr=False)
    uri: str = field(repr=False)
    image: str = field(repr=False)


@dataclass(frozen=True)
class EnabledSecondFactor:
    """A second factor that counts from now on. `recovery_codes` are shown once."""

    recovery_codes: list[str] = field(repr=False)
    is_in_game: bool


@dataclass(frozen=True)
class SecondFactorSetup:
    """The second factor of a session's user."""

    worker: Worker
    checker: PasswordChecker
    store: SecondFactorStore
    player_totp: PlayerTotp
    is_operator: Callable[[str], bool]
    live: LiveConfig
    wake: Callable[[], None]
    """Delivers the mails of committed changes."""

    def describe(self, session: VerifiedSession) -> SecondFactorState:
        """Return the state of the session's user. Blocking. Raises `AuthMeUnavailable` and `Unauthorized`."""
        account = self.player_totp.load(name_key(session.username))
        user = account.user
        if user is None or user.id != session.user_id:
            raise errors.Unauthorized
        is_in_game = find_players_totp(account) is not None
        is_admin = user.status == APPROVED and self.is_operator(user.username)
        return SecondFactorState(
            is_enabled=is_in_game or user.totp_enabled_at is not None,
            is_in_game=is_in_game,
            is_required=is_admin and self.live.current.auth.operators_need_totp,
            recovery_codes_left=count_recovery_codes(user.id),
        )

    async def begin(self, session: VerifiedSession, password: str, caller: Caller) -> AppEntry:
        """Make a new secret, which does not count until a code confirms it.

        Raises `WrongPassword` (counted as a failed login) and `TotpAlreadyOn`.
        """
        identity = await self.checker.check_owner(session, password, caller)
        _require_off(identity)
        return await self.worker.run(self._begin, identity)

    async def confirm(self, session: VerifiedSession, password: str, code: str, caller: Caller) -> EnabledSecondFactor:
        """Switch the second factor on with a code of the app, and end all other sessions.

        Raises `WrongPassword` (counted as a failed login), `TotpAlreadyOn`, `TotpNotOn` and `InvalidTotp`.
        """
        identity = await self.checker.check_owner(session, password, caller)
        _require_off(identity)
        codes, secret = await self.worker.run(self.store.confirm, identity, session, code, caller)
        self.wake()
        try:
            is_in_game = await self.worker.run(self.player_totp.give, identity.key, secret)
        except errors.Refusal:  # the database is away now; the codes are shown this once
            is_in_game = False
        return EnabledSecondFactor(codes, is_in_game)

    async def replace_recovery_codes(
        self, session: VerifiedSession, password: str, totp: str | None, caller: Caller
    ) -> list[str]:
        """Return new recovery codes in place of the earlier ones.

        Raises `WrongPassword` and `TotpRequired` (both counted as failed logins), and `TotpNotOn`.
        """
        identity = await self.checker.check_owner_with_totp(session, password, totp, caller)
        _require_on(identity)
        return await self.worker.run(self.store.replace_recovery_codes, identity, caller)

    async def switch_off(self, session: VerifiedSession, password: str, totp: str | None, caller: Caller) -> bool:
        """Switch the second factor off, and end all other sessions. Returns whether the game still asks for one.

        Raises `WrongPassword` and `TotpRequired` (both counted as failed logins), `TotpNotOn`, and `AuthMeUnavailable`:
        the second factor counts on then.
        """
        identity = await self.checker.check_owner_with_totp(session, password, totp, caller)
        _require_on(identity)
        await self.worker.run(self.store.use_code, identity, caller)  # not repeated with what follows
        is_in_game = await self.worker.run(self.store.switch_off, identity, session, caller)
        self.wake()
        return is_in_game

    def _begin(self, identity: LoginIdentity) -> AppEntry:
        secret = self.store.begin(identity)
        uri = provisioning_uri(secret, identity.username, self.live.current.server.name)
        return AppEntry(secret, uri, draw_qr_code(uri))


def _require_off(identity: LoginIdentity) -> None:
    if identity.totp_secret is not None:
        raise errors.TotpAlreadyOn


def _require_on(identity: LoginIdentity) -> None:
    if identity.totp_secret is None:
        raise errors.TotpNotOn
