"""Lookup of the account that a login names, and of the password to check."""

from dataclasses import dataclass, field

from plugin_bridge.authme.players import PlayersUnavailable
from regsvc.auth.hashing import StoredPassword
from regsvc.auth.second_factor import SecondFactors
from regsvc.auth.sessions import NO_LOGINS, KnownClients, PastLogins
from regsvc.core import errors
from regsvc.core.caller import Caller
from regsvc.core.email_address import parse_email
from regsvc.core.errors import Refusal, Unauthorized
from regsvc.core.names import name_key
from regsvc.database.models import BANNED, GONE, VERIFIED, User
from regsvc.sync.reconciler import Reconciler
from regsvc.sync.records import Account, UserRecord

_NOBODY = "@"
"""A name that no player has, so that looking up an unknown e-mail address takes as long as a known one."""


@dataclass(frozen=True)
class LoginIdentity:
    """The account a login names. `stored` None: there is no such account, or it has no password."""

    key: str
    """The lower-case name of the account; what was typed if there is none."""
    username: str
    stored: StoredPassword | None = field(repr=False)
    user: UserRecord | None = None
    """None: there is no user of this name yet, perhaps a player."""
    past_logins: PastLogins = NO_LOGINS
    is_own_password: bool = False
    """Whether `stored` was set through us, so that it reclaims a row that another player registered."""
    is_returned: bool = False
    """Whether the name's row was registered by another player, and is kept from its owner until it is reclaimed."""
    totp_secret: str | None = field(default=None, repr=False)
    """The second factor; None: the password is enough."""
    totp_step: int | None = None
    """The time step of the code that was shown, still to be used (`PasswordChecker.use_second_factor`)."""
    recovery_code: str | None = field(default=None, repr=False)
    """The hash of the recovery code that was shown in place of it, still to be used."""
    counter: str | None = None
    """Counter of failures that the attempt was counted in (`LoginDelays`)."""
    rehashed: StoredPassword | None = field(default=None, repr=False)
    """Replacement in the player's row for `stored`, which uses a legacy algorithm; None: no replacement."""

    @property
    def user_id(self) -> int | None:
        """The user's id; None: there is no user."""
        return self.user.id if self.user is not None else None

    @property
    def is_known_client(self) -> bool:
        """Whether the user logged in from this client lately."""
        return self.past_logins.is_known_client

    @property
    def token_generation(self) -> int:
        """The user's token generation when the password was looked up; 0 without a user."""
        return self.user.token_generation if self.user is not None else 0

    @property
    def has_shown_code(self) -> bool:
        """Whether a code of the second factor was shown."""
        return self.totp_step is not None or self.recovery_code is not None

    @property
    def last_totp_step(self) -> int | None:
        """The time step of the last code that was used, or None."""
        return self.user.totp_step if self.user is not None else None


class LoginLookup:
    """Lookup of accounts for logins. Blocking: for a worker thread."""

    def __init__(self, reconciler: Reconciler, known_clients: KnownClients, second_factors: SecondFactors) -> None:
        self._reconciler = reconciler
        self._known_clients = known_clients
        self._second_factors = second_factors

    def find(self, name: str, caller: Caller) -> LoginIdentity:
        """Return the account with this name or verified e-mail address.

        Raises `AuthMeUnavailable`: a row that cannot be read may have a lock, another password or a second factor.
        """
        key = _key_of(name)
        try:
            # the client has proven nothing yet: mass changes that are held back wait for a sync run
            done = self._reconciler.reconcile(key or _NOBODY, may_adopt=False, is_guarded=True)
            account = done.account or self._reconciler.load(key or _NOBODY)
        except PlayersUnavailable as error:
            raise errors.AuthMeUnavailable from error
        if key is None:
            return LoginIdentity(name_key(name), name, None)
        user = account.user
        if user is None:
            return LoginIdentity(key, name, _players_password(account), totp_secret=find_players_totp(account))
        stored, is_own = _password_of(account)
        return LoginIdentity(
            key=key,
            username=user.username,
            stored=stored,
            user=user,
            past_logins=self._known_clients.find_past_logins(user.id, caller.limit_key),
            is_own_password=is_own,
            is_returned=is_own and self._reconciler.is_returned(account),
            totp_secret=self._find_totp_secret(user, account),
        )

    def _find_totp_secret(self, user: UserRecord, account: Account) -> str | None:
        """Return the secret that was set up on the web, which nothing in the game changes; else the player's."""
        if user.totp_enabled_at is not None and user.totp_nonce is not None:
            return self._second_factors.secret_of(user.id, user.totp_nonce)
        return find_players_totp(account)


def _key_of(name: str) -> str | None:
    """Return the lower-case name; for an e-mail address that of its verified owner. None: there is no such account."""
    if "@" not in name:
        return name_key(name) if 0 < len(name) <= 255 else None
    try:
        address = parse_email(name)
    except Refusal:
        return None
    row = User.get_or_none((User.email_key == address.key) & User.is_email_verified)
    return row.username_key if row is not None else None


def _players_password(account: Account) -> StoredPassword | None:
    """Return the password of a player without a user, or None if locked."""
    player = account.player
    if player is None or player.is_locked:
        return None
    return StoredPassword(player.hash, player.salt, None)


def _password_of(account: Account) -> tuple[StoredPassword | None, bool]:
    """Return the password to check for a user, and whether it was set through us.

    AuthMe's row counts only if it is the last synced one and not locked; a row that appeared since never counts.
    """
    user, sync_record, player = account.user, account.sync_record, account.player
    assert user is not None
    if player is not None and sync_record is not None and sync_record.is_playable(player):
        return StoredPassword(player.hash, player.salt, None), False
    if user.password is not None:
        return user.password, True
    if sync_record is None:
        return None, False
    if sync_record.kept_hash is not None and sync_record.kept_origin == VERIFIED:
        salt = player.salt if player is not None else sync_record.base_salt
        return StoredPassword(sync_record.kept_hash, salt, None), False
    if (player is None or sync_record.presence == GONE) and sync_record.base_hash is not None:
        return StoredPassword(sync_record.base_hash, sync_record.base_salt, None), False
    return None, False


def find_players_totp(account: Account) -> str | None:
    """Return the TOTP secret in the player's row, locked or not, whichever password is checked.

    A secret in a row that appeared since the last sync is not the owner's: reclaiming the row empties it.
    """
    player = account.player if account.user is None else account.own_player
    if player is None or not player.totp or not player.totp.strip():
        return None
    return player.totp


def require_account_owner(user: User, identity: LoginIdentity) -> None:
    """Check that this is the user of a checked password.

    Raises `Unauthorized` if the user's sessions were revoked since the password was checked: the cause (an admin's
    reset, a ban, a deletion) is the newer decision.
    """
    if user.id != identity.user_id or user.status == BANNED or user.token_generation != identity.token_generation:
        raise Unauthorized
