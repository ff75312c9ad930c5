"""Access tokens: issued at login, and verified at every request against the current state of the database.

JWT with HS256 only. A token carries no rights: it names a session; the session, its user and the operator list decide.
Everything here is synchronous SQL.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast

from regsvc.auth.entitlement import EndCause, MakerState, OpenThing, Origin, find_cause
from regsvc.auth.keys import SigningKeys
from regsvc.core.addresses import Audience, Caller, VerifiedSession
from regsvc.core.clock import Clock
from regsvc.core.errors import Forbidden, Unauthorized
from regsvc.core.rights import NO_RIGHTS, Permission, Rights, Team
from regsvc.database import models
from regsvc.database.audit import Actor, Audit
from regsvc.database.bulk import PreparedQuery, redate, slot, upsert_query
from regsvc.database.engine import catch_up
from regsvc.database.models import KnownClient

if TYPE_CHECKING:
    from jwt.types import Options

_ALGORITHM: Final = "HS256"
_AUDIENCES: Final[tuple[Audience, ...]] = ("user", "admin")
# PyJWT would read the system clock; `Sessions` checks the times itself, with its own.
_OPTIONS: Final["Options"] = {
    "require": ["sub", "aud", "jti", "iat", "exp"],
    "verify_exp": False,
    "verify_iat": False,
    "verify_nbf": False,
}

# Ours have about 300 characters. Longer ones are refused before anything is decoded.
_MAX_TOKEN_LENGTH: Final = 512
_LAST_SEEN_INTERVAL: Final = timedelta(minutes=1)
_DENIAL_TALLY_PERIOD: Final = timedelta(hours=1)
# A successful login resets the login limits, so they do not bound how many sessions one user can open.
_MAX_SESSIONS_PER_USER: Final = 200
# By the first part that is found: most browsers call themselves Chrome as well, and Chrome calls itself Safari.
_BROWSERS: Final = {
    "Edg": "Edge",
    "OPR/": "Opera",
    "SamsungBrowser": "Samsung Internet",
    "Vivaldi": "Vivaldi",
    "YaBrowser": "Yandex Browser",
    "MicroMessenger": "WeChat",
    "MQQBrowser": "QQ Browser",
    "UCBrowser": "UC Browser",
    "Firefox/": "Firefox",
    "FxiOS": "Firefox",
    "CriOS": "Chrome",
    "Chrome/": "Chrome",
    "Safari/": "Safari",
}
_SYSTEMS: Final = {
    "Windows": "Windows",
    "Android": "Android",
    "iPhone": "iPhone",
    "iPad": "iPad",
    "CrOS": "ChromeOS",
    "Mac OS X": "macOS",
    "Linux": "Linux",
}


def name_device(user_agent: str) -> str | None:
    """Return browser and system in words of ours, "Firefox/Windows", of which either may be empty; None: neither."""
    names = [next((own[part] for part in own if part in user_agent), "") for own in (_BROWSERS, _SYSTEMS)]
    return "/".join(names) if any(names) else None


_PUBLIC_ID_LENGTH: Final = 24


class IssuedToken(NamedTuple):
    """A new access token and its expiry (UTC, whole seconds). Its repr does not show the token."""

    token: str
    expires_at: datetime

    def __repr__(self) -> str:
        return f"IssuedToken(expires_at={self.expires_at!r})"


def public_id(jti: str) -> str:
    """Return the id of a session in replies: not its `jti`, which an attacker with our signing key still lacks."""
    return hashlib.sha256(f"session {jti}".encode()).hexdigest()[:_PUBLIC_ID_LENGTH]


class SessionOwner(Protocol):
    """A user as far as sessions are concerned."""

    @property
    def id(self) -> Any: ...
    @property
    def token_generation(self) -> Any: ...


class Sessions:
    """Issues, verifies and revokes access tokens and their sessions.

    `team` knows the rights of users at this moment, `needs_second_factor` returns whether those who have these rights
    need to have shown a second factor.
    """

    def __init__(
        self,
        *,
        signing: SigningKeys,
        now: Clock,
        user_lifetime: timedelta,
        admin_lifetime: timedelta,
        user_idle: timedelta,
        admin_idle: timedelta,
        team: Team,
        needs_second_factor: Callable[[Rights], bool],
        audit: Audit,
    ) -> None:
        self._signing = signing
        self._now = now
        self._lifetimes: dict[Audience, timedelta] = {"user": user_lifetime, "admin": admin_lifetime}
        self._longest_idle: dict[str, timedelta] = {"user": user_idle, "admin": admin_idle}
        self._last_seen_interval = min(_LAST_SEEN_INTERVAL, user_idle / 4, admin_idle / 4)
        self._team = team
        self._needs_second_factor = needs_second_factor
        self._audit = audit

    def issue(
        self,
        user: SessionOwner,
        audience: Audience,
        caller: Caller,
        *,
        has_second_factor: bool = False,
        session_count: int | None = None,
    ) -> IssuedToken:
        """Create a session of this user and return its token, valid once the caller's transaction commits.

        Revokes the user's oldest session if there are too many. `has_second_factor`: whether the login showed one.
        `session_count`: how many there were a moment ago; None: not known.
        """
        now, jti = self._now(), secrets.token_hex(16)
        expires_at = (now + self._lifetimes[audience]).replace(microsecond=0)
        models.Session.insert(
            jti=jti,
            user=user.id,
            audience=audience,
            token_generation=user.token_generation,
            ip=caller.address,
            created_at=now,
            last_seen_at=now,
            expires_at=expires_at,
            has_second_factor=has_second_factor,
            device=name_device(caller.user_agent),
        ).execute()
        if session_count is None or session_count >= _MAX_SESSIONS_PER_USER:
            self._revoke_oldest(user.id)
        claims = {
            "sub": str(user.id),
            "aud": audience,
            "jti": jti,
            "iat": int(now.timestamp()),
            "exp": int(expires_at.timestamp()),
        }
        import jwt

        headers = {"kid": self._signing.current_kid}
        return IssuedToken(jwt.encode(claims, self._signing.current, _ALGORITHM, headers), expires_at)

    def authenticate(self, bearer: str | None, *, is_activity: bool = True) -> VerifiedSession:
        """Return the session of a token (what follows "Bearer "): one query, and once a minute a write.

        A session that is not found may have begun on another node of a cluster of databases: it is looked for again.

        Without `is_activity` nothing is written, and an idle admin session goes on expiring.
        Raises `Unauthorized`, whatever is wrong with the token.
        """
        claims = self._verified_claims(bearer)
        now = self._now()
        row: models.Session | None = _FIND_SESSION.first(jti=claims["jti"])
        if row is None and catch_up(models.Session._meta.database):
            row = _FIND_SESSION.first(jti=claims["jti"])
        # the session belongs to the token, has not expired and was not revoked
        if row is None or (claims["aud"], claims["sub"]) != (row.audience, str(row.user.id)):
            raise Unauthorized
        expires_at = claims["exp"]
        if not isinstance(expires_at, int | float) or expires_at <= now.timestamp() or not self._is_active(row, now):
            raise Unauthorized
        if is_activity and now - row.last_seen_at >= self._last_seen_interval:
            models.Session.update(last_seen_at=now).where(models.Session.jti == row.jti).execute()
        return VerifiedSession(
            jti=row.jti,
            user_id=row.user.id,
            username=row.user.username,
            audience=cast(Audience, row.audience),
            expires_at=row.expires_at,
            language=row.user.language,
            started_at=row.created_at,
            token_generation=row.token_generation,
            rights=self._rights_of(row),
            has_second_factor=row.has_second_factor,
        )

    def authenticate_admin(
        self, bearer: str | None, caller: Caller, permission: Permission | None = None, *, is_activity: bool = True
    ) -> VerifiedSession:
        """Return the session of a token on an admin route. Call it outside a transaction that may be rolled back.

        A refusal is recorded in the audit log, and a rollback would undo that. Raises `Unauthorized`, and `Forbidden`
        for a user's token or if its user lacks the permission; None: any will do.
        """
        session = self.authenticate(bearer, is_activity=is_activity)
        if session.rights.may(permission):
            return session
        assert not models.AuditEntry._meta.database.in_transaction(), "the audit entry would be rolled back"
        self._audit.tally(
            "admin.denied",
            Actor(session.username, caller.address),
            client=caller.limit_key,
            per=_DENIAL_TALLY_PERIOD,
        )
        raise Forbidden(permission=permission)

    def is_still_admin(self, session: VerifiedSession) -> bool:
        """Return whether a streaming response to this session may go on. Read-only: listening is no activity."""
        row: models.Session | None = _FIND_SESSION.first(jti=session.jti)
        if row is None or not self._is_active(row, self._now()):
            return False
        return self._rights_of(row).may(Permission.USERS_READ)

    def revoke(self, jti: str) -> None:
        """Revoke one session, if it exists."""
        models.Session.delete().where(models.Session.jti == jti).execute()

    def revoke_of(self, user_id: int, session_id: str) -> bool:
        """Revoke the session of this user with this `public_id`; return whether there was one."""
        rows = models.Session.select(models.Session.jti).where(models.Session.user == user_id)
        jti = next((row.jti for row in rows if public_id(row.jti) == session_id), None)
        return jti is not None and bool(models.Session.delete().where(models.Session.jti == jti).execute())

    def revoke_all(
        self, user_id: int, changes: Mapping[Any, Any] = MappingProxyType({}), *, kept: str | None = None
    ) -> None:
        """Revoke every session of a user, including those being issued concurrently.

        `changes` are further columns of the user to be written. `kept` is the `jti` of a session that stays as it is.
        """
        generation = models.User.token_generation
        models.User.update({**changes, generation: generation + 1}).where(models.User.id == user_id).execute()
        sessions = models.Session.user == user_id
        if kept is not None:
            is_kept = models.Session.jti == kept
            follows = {models.Session.token_generation: models.Session.token_generation + 1}
            models.Session.update(follows).where(sessions, is_kept).execute()
            sessions &= ~is_kept
        models.Session.delete().where(sessions).execute()

    def record_second_factor(self, jti: str) -> None:
        """Record that the user of this session has just shown a second factor."""
        models.Session.update(has_second_factor=True).where(models.Session.jti == jti).execute()

    def list_open(self, owner: str | None = None) -> Iterator[OpenThing]:
        """Return the sessions at /admin, as `MadeThings` does."""
        user = models.User
        columns = (models.Session, user.username, user.username_key, user.status, user.role)
        query = models.Session.select(*columns).join(user).where(models.Session.audience == "admin")
        for row in query if owner is None else query.where(user.username_key == owner):
            cause = self._find_cause(row, self._team.kept_rights_of(row.user))
            yield OpenThing(row.jti, row.user.username_key, f"{row.created_at:%Y-%m-%d %H:%M}", cause)

    def end(self, ids: Sequence[str]) -> None:
        """Revoke the sessions with these `jti`."""
        models.Session.delete().where(models.Session.jti.in_(list(ids))).execute()

    def purge_expired(self) -> int:
        """Delete expired sessions; returns their number."""
        now = self._now()
        redate(now, models.Session.created_at, models.Session.expires_at, models.Session.last_seen_at)
        redate(now, models.Session.last_seen_at)
        is_over = models.Session.expires_at <= now
        for audience, longest in self._longest_idle.items():
            is_over |= (models.Session.audience == audience) & (models.Session.last_seen_at <= now - longest)
        removed: int = models.Session.delete().where(is_over).execute()
        return removed

    def _verified_claims(self, bearer: str | None) -> dict[str, Any]:
        """Return the claims of a token signed by us; its times are not checked yet."""
        if not bearer or len(bearer) > _MAX_TOKEN_LENGTH or not bearer.isascii():
            raise Unauthorized
        import jwt

        try:
            key = self._signing.by_kid.get(jwt.get_unverified_header(bearer).get("kid", ""))
            if key is None:
                raise Unauthorized
            return jwt.decode(
                bearer,
                key,
                algorithms=[_ALGORITHM],
                audience=_AUDIENCES,
                options=_OPTIONS,
            )
        except jwt.PyJWTError:
            raise Unauthorized from None

    def _is_active(self, row: models.Session, now: datetime) -> bool:
        return (
            now < row.expires_at
            and row.token_generation == row.user.token_generation
            and row.user.status != models.BANNED
            and now < row.last_seen_at + self._longest_idle.get(row.audience, timedelta())
            and not (row.audience == "admin" and self._lacks_second_factor(row))
        )

    def _lacks_second_factor(self, row: models.Session) -> bool:
        return self._find_cause(row, self._team.kept_rights_of(row.user)) == "second_factor"

    def _find_cause(self, row: models.Session, rights: Rights) -> EndCause | None:
        """Return why a session at /admin gives no rights (`regsvc.auth.entitlement`), or None."""
        origin = Origin(row.user.username, row.created_at, row.has_second_factor)
        return find_cause(origin, None, MakerState(rights, self._needs_second_factor(rights)), self._now())

    def _rights_of(self, row: models.Session) -> Rights:
        if row.audience != "admin":
            return NO_RIGHTS
        rights = self._team.rights_of(row.user)
        return rights if self._find_cause(row, rights) is None else NO_RIGHTS

    def _revoke_oldest(self, user_id: int) -> None:
        newest_first = (
            models.Session.select(models.Session.jti)
            .where(models.Session.user == user_id)
            .order_by(models.Session.created_at.desc(), models.Session.jti)
        )
        surplus = [row.jti for row in newest_first.offset(_MAX_SESSIONS_PER_USER).limit(100)]
        if surplus:
            models.Session.delete().where(models.Session.jti.in_(surplus)).execute()


def _session_with_user() -> Any:
    user = models.User
    columns = (user.id, user.username, user.status, user.role, user.token_generation, user.language)
    query = models.Session.select(models.Session, *columns).join(user)
    return query.where(models.Session.jti == slot(models.Session.jti))


_FIND_SESSION: Final = PreparedQuery(models.Session, _session_with_user)

_KNOWN_CLIENT_PERIOD: Final = timedelta(days=30)
_PAST_LOGINS: Final = (
    "SELECT (SELECT last_login_at FROM regsvc_known_client WHERE user_id = {mark} AND client = {mark}), "
    "(SELECT COUNT(*) FROM regsvc_session WHERE user_id = {mark})"
)


class PastLogins(NamedTuple):
    """Traces of a user's earlier logins."""

    is_known_client: bool = False
    is_recorded: bool = False
    """Whether a login from this client has been recorded within the last minute: no need to record the next one."""
    session_count: int | None = None
    """The user's sessions; None: not known."""


NO_LOGINS: Final = PastLogins()


@dataclass(frozen=True)
class KnownClients:
    """Clients (an address; of IPv6 its /64) from which users logged in during the last 30 days. Plain SQL."""

    now: Clock

    def find_past_logins(self, user_id: int, client: str) -> PastLogins:
        """Return what is known of the user's logins from this client, and the number of their sessions."""
        database = KnownClient._meta.database
        found = database.execute_sql(_PAST_LOGINS.format(mark=database.param), (user_id, client, user_id))
        [(value, session_count)] = found.fetchall()
        last_login_at = KnownClient.last_login_at.python_value(value)
        if last_login_at is None:
            return PastLogins(session_count=session_count)
        since = self.now() - last_login_at
        return PastLogins(since < _KNOWN_CLIENT_PERIOD, timedelta() <= since < _LAST_SEEN_INTERVAL, session_count)

    def is_known(self, client: str) -> bool:
        """Return whether any user logged in from this client."""
        is_recent = KnownClient.last_login_at > self.now() - _KNOWN_CLIENT_PERIOD
        return bool(KnownClient.select().where((KnownClient.client == client) & is_recent).exists())

    def record(self, user_id: int, client: str) -> None:
        """Record a successful login, in the caller's transaction."""
        row: dict[Any, Any] = {
            KnownClient.user: user_id,
            KnownClient.client: client,
            KnownClient.last_login_at: self.now(),
        }
        unique, overwrite = (KnownClient.user, KnownClient.client), (KnownClient.last_login_at,)
        upsert_query(KnownClient, [row], unique=unique, overwrite=overwrite).execute()

    def purge(self) -> int:
        """Delete expired entries; returns their number."""
        redate(self.now(), KnownClient.last_login_at)
        is_old = KnownClient.last_login_at <= self.now() - _KNOWN_CLIENT_PERIOD
        removed: int = KnownClient.delete().where(is_old).execute()
        return removed
