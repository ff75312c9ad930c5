"""API tokens: what bots send in place of a login. They may do what they name, as far as their maker may today."""

import hashlib
import hmac
import re
import secrets
import threading
from collections.abc import Collection, Iterator, Sequence
from datetime import timedelta
from typing import Annotated, Final

from msgspec import Meta
from peewee import IntegrityError

from regsvc.auth.entitlement import Entitlements, OpenThing, Origin, find_cause, find_rights
from regsvc.auth.rate_limits import MemoryLimits
from regsvc.core.addresses import Caller, VerifiedSession
from regsvc.core.clock import Clock
from regsvc.core.errors import Forbidden, InvalidField, NoSuchToken, TokenNameTaken, Unauthorized
from regsvc.core.rights import (
    EVERYTHING,
    MAX_TOKEN_NAME,
    NO_RIGHTS,
    NOT_FOR_TOKENS,
    TOKEN_NAME_PATTERN,
    Permission,
    Rights,
    Team,
)
from regsvc.core.shapes import Moment, Output
from regsvc.core.text import look_key, name_key
from regsvc.core.units import RateLimit
from regsvc.database.audit import Actor, Audit
from regsvc.database.models import Invitation, Link, Token

API_TOKEN_PREFIX: Final = "cmp_"  # noqa: S105 - it marks a token, and is none
_ALPHABET: Final = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
_PUBLIC, _SECRET = 10, 40
_LENGTH: Final = len(API_TOKEN_PREFIX) + _PUBLIC + 1 + _SECRET
_LIMIT: Final = (RateLimit(600, timedelta(minutes=1)),)
"""Requests of one token; a bot that asks more often has a mistake."""
_USED_EVERY: Final = timedelta(hours=1)
_DENIAL_PERIOD: Final = timedelta(hours=1)
_NEVER: Final = timedelta(days=36500)

TokenName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_TOKEN_NAME,
        description="ASCII letters, digits, dots, hyphens and underscores; earlier versions took others.",
        examples=["discord-bot"],
    ),
]

PermissionName = Annotated[
    str, Meta(extra_json_schema={"enum": [it.value for it in Permission]}, examples=["users.read"])
]


class TokenFields(Output, frozen=True):
    """A token, without its secret part."""

    id: Annotated[int, Meta(examples=[1])]
    name: TokenName
    permissions: list[PermissionName]
    made_by: Annotated[str, Meta(description="Its maker, whose rights limit it.", examples=["Olivia"])]
    created_at: Moment
    expires_at: Moment | None
    last_used_at: Annotated[Moment | None, Meta(description="To the hour.")]
    revoked_at: Moment | None


class ApiTokens:
    """API tokens, from making to revoking. Blocking: for a worker thread."""

    def __init__(self, team: Team, audit: Audit, now: Clock) -> None:
        self._team = team
        self._entitlements = Entitlements(team, now)
        self._audit = audit
        self._now = now
        self._limits = MemoryLimits(now)
        self._limits_lock = threading.Lock()

    def create(
        self,
        name: str,
        permissions: Collection[Permission],
        by: Actor,
        made_by: str | None,
        lifetime: timedelta | None,
        *,
        has_second_factor: bool = False,
    ) -> tuple[str, TokenFields]:
        """Make a token and return it, which is possible only now, with its record.

        `made_by` is the name of the user whose rights limit it; None: the host. `lifetime` None: until it is revoked.
        `has_second_factor`: whether the maker has shown one.
        Raises `Forbidden` for what no token may do, or its maker may not, `InvalidField` for a name that no token may
        have, and `TokenNameTaken` for that of an active one, or one that looks like it.
        """
        if re.fullmatch(TOKEN_NAME_PATTERN, name) is None or len(name) > MAX_TOKEN_NAME:
            raise InvalidField("name")
        allowed = EVERYTHING if made_by is None else find_rights(self._team, made_by)
        for permission in sorted(permissions):
            if permission in NOT_FOR_TOKENS or not allowed.may(permission):
                raise Forbidden(permission=permission)
        public, secret = _random(_PUBLIC), _random(_SECRET)
        bearer, moment = f"{API_TOKEN_PREFIX}{public}_{secret}", self._now()
        try:
            with Token._meta.database.atomic():
                active = Token.select(Token.active_name).where(Token.active_name.is_null(False))
                if look_key(name) in {look_key(str(row.active_name)) for row in active}:
                    raise TokenNameTaken
                row = Token.create(
                    name=name,
                    active_name=name_key(name),
                    public_part=public,
                    hash=_hash(bearer),
                    permissions=" ".join(sorted(permissions)),
                    made_by=None if made_by is None else name_key(made_by),
                    maker=by.name,
                    has_second_factor=has_second_factor,
                    created_at=moment,
                    expires_at=None if lifetime is None else moment + lifetime,
                )
                self._audit.record("token.created", by, None, {"name": name, "permissions": row.permissions})
        except IntegrityError:
            raise TokenNameTaken from None
        return bearer, _record(row)

    def list_all(self) -> list[TokenFields]:
        """Return the tokens, active ones first, then the newest."""
        rows = Token.select().order_by(Token.active_name.is_null(), Token.id.desc()).limit(500)
        return [_record(row) for row in rows]

    def revoke(self, name: str, by: Actor) -> str:
        """Revoke the active token of this name and return its name as written. Raises `NoSuchToken`.

        Invitations and password links that were made with it end, too.
        """
        with Token._meta.database.atomic():
            row = Token.get_or_none(Token.active_name == name_key(name))
            if row is None or not self._revoke(Token.id == row.id):
                raise NoSuchToken
            now, token_id = self._now(), int(row.id)  # in this order: what is being made waits for the token's lock
            is_open = Invitation.revoked_at.is_null()
            Invitation.update(revoked_at=now).where(Invitation.token_id == token_id, is_open).execute()
            Link.update(redeemed_at=now).where(Link.token_id == token_id, Link.redeemed_at.is_null()).execute()
            self._audit.record("token.revoked", by, None, {"name": row.name})
        return str(row.name)

    def list_open(self, owner: str | None = None) -> Iterator[OpenThing]:
        """Return the active tokens, as `MadeThings` does."""
        active = Token.active_name.is_null(False)
        whose = Token.made_by.is_null(False) if owner is None else Token.made_by == owner
        for row in Token.select().where(active, whose):
            cause = self._entitlements.find_cause(_origin(row), None, is_kept=True)
            yield OpenThing(row.id, str(row.made_by), row.name, cause)

    def end(self, ids: Sequence[int]) -> None:
        """Revoke the tokens with these ids."""
        self._revoke(Token.id.in_(list(ids)))

    def authenticate(self, bearer: str, caller: Caller, permission: Permission | None) -> VerifiedSession:
        """Return the token as a session of its maker.

        Raises `Unauthorized`, one answer for unknown, expired and revoked ones, `RateLimited`, and `Forbidden` without
        the permission.
        """
        row = self._find(bearer)
        if row is None:
            raise Unauthorized
        with self._limits_lock:
            self._limits.hit("token", row.public_part, _LIMIT)
        session = self._as_session(row)
        if not session.is_admin:
            raise Unauthorized  # its maker may do nothing of this today
        now = self._now()
        if row.last_used_at is None or now - row.last_used_at >= _USED_EVERY:
            hour = now.replace(minute=0, second=0, microsecond=0)
            Token.update(last_used_at=hour).where(Token.id == row.id).execute()
        if not session.rights.may(permission):
            actor = Actor(session.username, caller.address)
            self._audit.tally("admin.denied", actor, client=caller.limit_key, per=_DENIAL_PERIOD)
            raise Forbidden(permission=permission)
        return session

    def require_current(self, session: VerifiedSession, permission: Permission | None) -> None:
        """Raise `Unauthorized` if the token has ended, and `Forbidden` if it lacks the permission by now."""
        row = Token.get_or_none(Token.public_part == session.jti)
        if row is None or not self._is_active(row):
            raise Unauthorized
        if not self._rights_of(row).may(permission):
            raise Forbidden(permission=permission)

    def is_still_valid(self, session: VerifiedSession) -> bool:
        """Return whether a streaming response to this token may go on."""
        row = Token.get_or_none(Token.public_part == session.jti)
        return row is not None and self._is_active(row) and self._rights_of(row).may(Permission.USERS_READ)

    def _find(self, bearer: str) -> Token | None:
        if len(bearer) != _LENGTH or not bearer.isascii():
            return None
        row = Token.get_or_none(Token.public_part == bearer[len(API_TOKEN_PREFIX) : len(API_TOKEN_PREFIX) + _PUBLIC])
        if row is None or not hmac.compare_digest(row.hash, _hash(bearer)) or not self._is_active(row):
            return None
        return row

    def _is_active(self, row: Token) -> bool:
        return row.revoked_at is None and (row.expires_at is None or bool(self._now() < row.expires_at))

    def _rights_of(self, row: Token) -> Rights:
        state = self._entitlements.state_of(_origin(row))
        if find_cause(_origin(row), None, state, self._now()) is not None:
            return NO_RIGHTS
        named = {permission for permission in state.rights.permissions if permission in row.permissions.split()}
        # below the host, so that no token acts on the highest operators
        return Rights(frozenset(named) - NOT_FOR_TOKENS, min(state.rights.rank, EVERYTHING.rank - 1))

    def _as_session(self, row: Token) -> VerifiedSession:
        return VerifiedSession(
            jti=row.public_part,
            user_id=-int(row.id),
            username=_shown(row),
            audience="token",
            expires_at=row.expires_at or self._now() + _NEVER,
            language=None,
            started_at=row.created_at,
            token_generation=0,
            rights=self._rights_of(row),
            maker=row.made_by or "",
            token_id=int(row.id),
            has_second_factor=bool(row.has_second_factor),
        )

    def _revoke(self, which: object) -> int:
        is_active = Token.revoked_at.is_null()
        return int(Token.update(revoked_at=self._now(), active_name=None).where(which, is_active).execute())


def _origin(row: Token) -> Origin:
    return Origin(row.made_by, row.created_at, bool(row.has_second_factor))


def _shown(row: Token) -> str:
    """Return who acts with the token, as the audit log shows them."""
    return f"{row.name} ({row.maker})"


def _record(row: Token) -> TokenFields:
    times = (row.created_at, row.expires_at, row.last_used_at, row.revoked_at)
    return TokenFields(int(row.id), row.name, row.permissions.split(), row.maker, *times)


def _random(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def _hash(bearer: str) -> str:
    return hashlib.sha256(bearer.encode()).hexdigest()
