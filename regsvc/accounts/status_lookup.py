"""The public status of a name, and its details for the owner and for admins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import UNSET, Meta, UnsetType
from peewee import Database, Field

from regsvc.auth.derived_secrets import ApplicationTokens
from regsvc.auth.rate_limits import StatusRateLimits
from regsvc.auth.verification_codes import VerificationCodes
from regsvc.config.live import LiveConfig
from regsvc.core import errors
from regsvc.core.addresses import VerifiedSession
from regsvc.core.clock import Clock
from regsvc.core.errors import InvalidCode
from regsvc.core.shapes import Moment, Output, Username
from regsvc.core.shared_lookup import SharedLookup
from regsvc.core.text import name_key, turkish_key
from regsvc.database.bulk import select_rows
from regsvc.database.engine import Worker
from regsvc.database.models import APPROVED, ENDED, REJECTED, User
from regsvc.http.messages import ANSWER_BY, ANSWERS_WITH, CAN_BE_MAILED, REAPPLY_AT, Email, NameQuery, Reply, Status
from regsvc.http.route import ACCESS_TOKEN, ADDRESS_PROOF, PROOF_HEADER, PUBLIC, Routes, SentAs
from regsvc.users.gates import access_of
from regsvc.users.membership import OwnMembershipFields, own_membership_fields
from regsvc.users.retention import find_reapply_at

if TYPE_CHECKING:
    from regsvc.http.call import Call

ROUTES: Final = Routes()


@dataclass(frozen=True)
class UserStatus:
    """The status of a name. The fields after `has_details` are for its owner and for admins, and empty for others."""

    username: str
    status: str
    has_details: bool = False
    email: str | None = None
    can_be_mailed: bool = False
    """Whether there is an address that mails about the user are sent to."""
    reason: str | None = None
    reviewed_at: datetime | None = None
    ban_expires_at: datetime | None = None
    reapply_at: datetime | None = None
    """When a rejected name becomes free, None if it is; also for clients who may register."""
    application_token: str | None = None
    """For the owner alone, while a question waits for their answer: opens the page where it is given."""
    answer_by: datetime | None = None
    membership: OwnMembershipFields | None = None
    """For the owner and admins; others learn whether it `has_ended`."""
    has_ended: bool = False


Keys = tuple[str, str]
"""The key of a name, and the one that AuthMe may have given it under a Java whose locale is Turkish."""


class StatusLookup:
    """Look-ups of the status by name. Those without a session, by far the most common, share queries."""

    def __init__(
        self,
        database: Database,
        worker: Worker,
        codes: VerificationCodes,
        tokens: ApplicationTokens,
        live: LiveConfig,
        now: Clock,
    ) -> None:
        self._database = database
        self._worker = worker
        self._codes = codes
        self._tokens = tokens
        self._live = live
        self._now = now
        self._public: SharedLookup[Keys, UserStatus] = SharedLookup(self._find_public)

    async def find(self, username: str, session: VerifiedSession | None, proof: str | None = None) -> UserStatus | None:
        """Return as much of the status as this session may see, or None for a name without a user.

        `proof`: of an address to register with. Raises `DatabaseUnavailable` and `Overloaded`.
        """
        keys = name_key(username), turkish_key(username)
        if session is None and proof is None:
            return await self._public.find(keys)
        return await self._worker.run(self._select_for, keys, session, proof)

    async def _find_public(self, names: Sequence[Keys]) -> Mapping[Keys, UserStatus]:
        found = await self._worker.run(self._select_public, list(dict.fromkeys(key for keys in names for key in keys)))
        return {keys: found.get(keys[0]) or found[keys[1]] for keys in names if not found.keys().isdisjoint(keys)}

    def _select_public(self, keys: Sequence[str]) -> Mapping[str, UserStatus]:
        """Return the public status by key."""
        fields: list[Field] = [User.username_key, User.username, User.status, User.ended_because]
        is_open_to_all = self._is_open_to_all
        if is_open_to_all:
            fields += [User.reviewed_at, User.may_reapply]
        rows = select_rows(self._database, User, fields, User.username_key, keys)
        if not is_open_to_all:
            return {
                key: UserStatus(username, status, has_ended=status == APPROVED and ended_because is not None)
                for key, username, status, ended_because in rows
            }
        names = [field.name for field in fields]
        users = [User(__no_default__=True, **dict(zip(names, row, strict=True))) for row in rows]
        return {user.username_key: self._public_status(user, self._find_reapply_at(user)) for user in users}

    def _select_for(self, keys: Keys, session: VerifiedSession | None, proof: str | None) -> UserStatus | None:
        found = {user.username_key: user for user in User.select().where(User.username_key.in_(set(keys)))}
        user = found.get(keys[0]) or found.get(keys[1])
        if user is None:
            return None
        reapply_at = self._find_reapply_at(user)
        is_owner = session is not None and session.user_id == user.id
        answer_by = self._live.current.registration.answer_by(user.unanswered_since)
        has_to_answer = answer_by is not None
        may_reapply = user.status == REJECTED and user.is_email_verified and reapply_at is None
        if session is not None and (session.is_admin or is_owner):
            return UserStatus(
                user.username,
                user.status,
                has_details=True,
                email=user.email,
                can_be_mailed=user.email_key is not None,
                reason=user.reason,
                reviewed_at=user.reviewed_at,
                ban_expires_at=user.ban_expires_at,
                reapply_at=reapply_at,
                application_token=self._tokens.token_of(user) if is_owner and (has_to_answer or may_reapply) else None,
                answer_by=answer_by,
                membership=own_membership_fields(
                    user, self._now(), may_ask=self._live.current.membership.renew == "ask"
                ),
                has_ended=access_of(user) == ENDED,
            )
        is_told = self._is_open_to_all or self._proves(proof)
        return self._public_status(user, reapply_at if is_told else None)

    def _public_status(self, user: User, reapply_at: datetime | None) -> UserStatus:
        return UserStatus(user.username, user.status, reapply_at=reapply_at, has_ended=access_of(user) == ENDED)

    @property
    def _is_open_to_all(self) -> bool:
        """Whether nobody has to prove an address to register."""
        return not self._live.current.registration.requires_code

    def _find_reapply_at(self, user: User) -> datetime | None:
        return find_reapply_at(user, self._live.current.registration.reapply_after, self._now())

    def _proves(self, proof: str | None) -> bool:
        try:
            return proof is not None and bool(self._codes.find_proven_address(proof, "register"))
        except InvalidCode:
            return False


HAS_ENDED: Final = Meta(description="True: the user is approved, but the membership has ended.", examples=[True])


class ReviewStatusReply(Reply, frozen=True, kw_only=True):
    """The status of a registration. Only the owner and admins see more than the first two fields."""

    username: Username
    status: Status
    reason: str | UnsetType | None = UNSET
    email: Email | UnsetType | None = UNSET
    can_be_mailed: Annotated[bool, CAN_BE_MAILED] | UnsetType = UNSET
    reviewed_at: Moment | UnsetType | None = UNSET
    ban_expires_at: Moment | UnsetType | None = UNSET
    reapply_at: Annotated[Moment, REAPPLY_AT] | UnsetType = UNSET
    application_token: Annotated[str, ANSWERS_WITH] | UnsetType = UNSET
    answer_by: Annotated[Moment, ANSWER_BY] | UnsetType = UNSET
    has_ended: Annotated[bool, HAS_ENDED] | UnsetType = UNSET
    membership: OwnMembershipFields | UnsetType = UNSET


class NameStatusFields(Output, frozen=True, kw_only=True):
    """State of a name: whether it is registered, and the fields that the caller may see."""

    username: Username | UnsetType = UNSET
    status: Status | UnsetType = UNSET
    reason: str | UnsetType | None = UNSET
    email: Email | UnsetType | None = UNSET
    can_be_mailed: Annotated[bool, CAN_BE_MAILED] | UnsetType = UNSET
    reviewed_at: Moment | UnsetType | None = UNSET
    ban_expires_at: Moment | UnsetType | None = UNSET
    reapply_at: Annotated[Moment, REAPPLY_AT] | UnsetType = UNSET
    application_token: Annotated[str, ANSWERS_WITH] | UnsetType = UNSET
    answer_by: Annotated[Moment, ANSWER_BY] | UnsetType = UNSET
    has_ended: Annotated[bool, HAS_ENDED] | UnsetType = UNSET
    membership: OwnMembershipFields | UnsetType = UNSET
    registered: Annotated[bool, Meta(examples=[True])]


async def find_status(
    call: Call, status_limits: StatusRateLimits, statuses: StatusLookup, username: str
) -> UserStatus | None:
    """Return the status of the user with this name, or None; raises `RateLimited`."""
    status_limits.hit(call.address)
    return await statuses.find(username, call.session, call.request.headers.get(PROOF_HEADER))


@ROUTES.add(
    "GET",
    "/api/review/status",
    PUBLIC,
    errors.UserNotFound,
    errors.RateLimited,
    credentials=(ACCESS_TOKEN, ADDRESS_PROOF),
)
async def show_review_status(
    call: Call, status_limits: StatusRateLimits, statuses: StatusLookup, query: NameQuery
) -> ReviewStatusReply:
    """Show the status of a registration. Only its owner and admins see more than the status.

    With the proof of an address, or where none is required, a rejected registration also has the time when its name
    is free again.
    """
    found = await find_status(call, status_limits, statuses, query.username)
    if found is None:
        raise errors.UserNotFound
    return ReviewStatusReply(**_visible_fields(call, found))


@ROUTES.add("GET", "/api/user/status", PUBLIC, errors.RateLimited, credentials=(ACCESS_TOKEN, ADDRESS_PROOF))
async def show_user_status(
    call: Call, status_limits: StatusRateLimits, statuses: StatusLookup, query: NameQuery
) -> Annotated[NameStatusFields, SentAs("data", "UserStatusReply")]:
    """Show whether a name is registered, and its status. Only the owner and admins see more.

    With the proof of an address, or where none is required, a rejected name also has the time when it is free
    again.
    """
    found = await find_status(call, status_limits, statuses, query.username)
    if found is None:
        return NameStatusFields(registered=False)
    return NameStatusFields(registered=True, **_visible_fields(call, found))


def _visible_fields(call: Call, found: UserStatus) -> dict[str, Any]:
    """Return the fields of a status that the caller may see."""
    fields = {
        "username": found.username,
        "status": found.status,
        "reapply_at": UNSET if found.reapply_at is None else found.reapply_at,
        "has_ended": found.has_ended or UNSET,
    }
    if not found.has_details:
        return fields
    return fields | {
        "reason": call.word_reason(found.reason),
        "email": found.email,
        "can_be_mailed": found.can_be_mailed,
        "reviewed_at": found.reviewed_at,
        "ban_expires_at": found.ban_expires_at,
        "application_token": found.application_token or UNSET,
        "answer_by": found.answer_by or UNSET,
        "membership": found.membership or UNSET,
    }
