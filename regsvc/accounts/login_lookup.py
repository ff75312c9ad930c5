"""Whom a name at login means, and what the password shown with it is checked against."""

from dataclasses import dataclass, field

from peewee import Database

from plugin_bridge.authme.players import PlayersUnavailable
from regsvc.auth.hashing import StoredPassword
from regsvc.auth.sessions import KnownClients
from regsvc.core import errors
from regsvc.core.caller import Caller
from regsvc.core.email_address import parse_email
from regsvc.core.errors import Refusal, Unauthorized
from regsvc.database.models import BANNED, GONE, VERIFIED, User
from regsvc.sync.reconciler import Reconciler
from regsvc.sync.records import Account

_NOBODY = "@"
"""A name that no player has: an unknown e-mail is looked up as long as a known one."""


@dataclass(frozen=True)
class LoginIdentity:
    """Whom a login may turn out to be. `stored` None: nobody, or nobody with a password."""

    key: str
    """The lower-case name that was meant; what was typed, where it names nobody."""
    username: str
    stored: StoredPassword | None = field(repr=False)
    user_id: int | None = None
    token_generation: int = 0
    is_known_client: bool = False
    is_own_password: bool = False
    """Whether `stored` is what the user set through us, so that it opens a row that came back."""
    totp_secret: str | None = field(default=None, repr=False)
    """The second factor of the player; None: the password alone will do."""
    last_totp_step: int | None = None
    totp_step: int | None = None
    """The half minute of the code that was shown; it is still to be spent."""
    rehashed: StoredPassword | None = field(default=None, repr=False)
    """What is to stand in the player's row instead of `stored`, which is of a legacy algorithm; None: nothing else."""


class LoginLookup:
    """Looks names up. Blocking: a rule for a worker thread."""

    def __init__(self, reconciler: Reconciler, known_clients: KnownClients) -> None:
        self._reconciler = reconciler
        self._known_clients = known_clients

    def find(self, name: str, caller: Caller) -> LoginIdentity:
        """Whom this name, or verified e-mail, means.

        Raises `AuthMeUnavailable`: a row that cannot be read may have a lock, another password or a second factor.
        """
        key = _key_of(name)
        try:
            # nobody has proven anything yet: what is braked for many names stays for a run of the sync
            self._reconciler.reconcile(key or _NOBODY, may_adopt=False, is_guarded=True)
            account = self._reconciler.load(key or _NOBODY)
        except PlayersUnavailable as error:
            raise errors.AuthMeUnavailable from error
        if key is None:
            return LoginIdentity(name.lower(), name, None)
        if account.user is None:
            return LoginIdentity(key, name, _players_password(account), totp_secret=_second_factor(account))
        user = User.get_or_none(User.id == account.user.id)
        if user is None:  # deleted since
            return LoginIdentity(key, name, None)
        stored, is_own = _password_of(account)
        return LoginIdentity(
            key=key,
            username=user.username,
            stored=stored,
            user_id=user.id,
            token_generation=user.token_generation,
            is_known_client=self._known_clients.is_known(user.id, caller.limit_key),
            is_own_password=is_own,
            totp_secret=_second_factor(account),
            last_totp_step=user.totp_step,
        )


def _key_of(name: str) -> str | None:
    """The lower-case name; with an @ that of the user with this verified e-mail. None: there cannot be one."""
    if "@" not in name:
        return name.lower() if 0 < len(name) <= 255 else None
    try:
        address = parse_email(name)
    except Refusal:
        return None
    row = User.get_or_none((User.email_key == address.key) & User.is_email_verified)
    return row.username_key if row is not None else None


def _players_password(account: Account) -> StoredPassword | None:
    """Of a name that only AuthMe knows."""
    player = account.player
    if player is None or player.is_locked:
        return None
    return StoredPassword(player.hash, player.salt, None)


def _password_of(account: Account) -> tuple[StoredPassword | None, bool]:
    """What a user's password is checked against, and whether it is the one set through us.

    The row only if it is that of the last sync_record and not locked; never a hash from a row that appeared.
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


def _second_factor(account: Account) -> str | None:
    """The secret in the player's row, locked or not, whichever password is checked.

    Not one in a row that appeared: it is the stranger's, and the owner's password empties it.
    """
    player, sync_record = account.player, account.sync_record
    if player is None or not player.totp or not player.totp.strip():
        return None
    if account.user is not None and (sync_record is None or sync_record.is_different_row(player)):
        return None
    return player.totp


def require_account_owner(database: Database, identity: LoginIdentity) -> User:
    """The user, held until the transaction ends.

    Raises `Unauthorized` where his sessions have ended since the password was checked: whatever did that (an admin's
    reset, a ban, a deletion) is the newer word.
    """
    query = User.select().where(User.username_key == identity.key)
    user: User | None = (query.for_update() if database.for_update else query).first()
    if user is None or user.id != identity.user_id or user.status == BANNED:
        raise Unauthorized
    if user.token_generation != identity.token_generation:
        raise Unauthorized
    return user
