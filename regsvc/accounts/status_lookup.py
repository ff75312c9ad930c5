"""The public status of a name, and its details for the owner and for admins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace
from peewee import Database, Field

from regsvc.auth.derived_secrets import ApplicationTokens
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
from regsvc.database.models import ENDED, REJECTED, User
from regsvc.http.messages import (
    Email,
    NameQuery,
    Status,
)
from regsvc.http.route import ACCESS_TOKEN, ADDRESS_PROOF, PROOF_HEADER, PUBLIC, Routes, SentAs
from regsvc.users.gates import access_of, find_access
from regsvc.users.membership import HAS_ENDED, OwnMembershipFields, own_membership_fields
from regsvc.users.questions import ANSWER_BY
from regsvc.users.retention import find_reapply_at

if TYPE_CHECKING:
    from regsvc.http.call import Call

ROUTES: Final = Routes()


CAN_BE_MAILED: Final = Meta(description="Whether mails about the user, such as decisions, have an address to go to.")
REAPPLY_AT: Final = Meta(description="When the name of a rejected user can be registered again, until then.")
ANSWERS_WITH: Final = Meta(
    description="For the owner, while a question of the team waits for the answer, or a rejected application can be "
    "made anew: opens the application."
)


class UserStatus(Output, frozen=True, kw_only=True):
    """The status of a registration, and the fields that the caller may see."""

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


class NameStatusFields(UserStatus, frozen=True, kw_only=True):
    """State of a name: whether it is registered, and the fields that the caller may see."""

    username: Username | UnsetType = UNSET  # type: ignore[assignment] # unset for a name without a user
    status: Status | UnsetType = UNSET  # type: ignore[assignment]
    registered: Annotated[bool, Meta(examples=[True])]


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
        self._public: SharedLookup[Keys, NameStatusFields] = SharedLookup(self._find_public)

    async def find(
        self, username: str, session: VerifiedSession | None, proof: str | None = None
    ) -> NameStatusFields | None:
        """Return as much of the status as this session may see, or None for a name without a user.

        `proof`: of an address to register with. Raises `DatabaseUnavailable` and `Overloaded`.
        """
        keys = name_key(username), turkish_key(username)
        if session is None and proof is None:
            return await self._public.find(keys)
        return await self._worker.run(self._select_for, keys, session, proof)

    async def _find_public(self, names: Sequence[Keys]) -> Mapping[Keys, NameStatusFields]:
        found = await self._worker.run(self._select_public, list(dict.fromkeys(chain.from_iterable(names))))
        return {keys: found.get(keys[0]) or found[keys[1]] for keys in names if not found.keys().isdisjoint(keys)}

    def _select_public(self, keys: Sequence[str]) -> Mapping[str, NameStatusFields]:
        """Return the public status by key."""
        fields: list[Field] = [User.username_key, User.username, User.status, User.ended_because]
        is_open_to_all = self._is_open_to_all
        if is_open_to_all:
            fields += [User.reviewed_at, User.may_reapply]
        rows = select_rows(self._database, User, fields, User.username_key, keys)
        if not is_open_to_all:
            return {
                key: NameStatusFields(
                    registered=True,
                    username=username,
                    status=status,
                    has_ended=find_access(status, ended_because) == ENDED or UNSET,
                )
                for key, username, status, ended_because in rows
            }
        names = [field.name for field in fields]
        users = [User(__no_default__=True, **dict(zip(names, row, strict=True))) for row in rows]
        return {user.username_key: self._public_status(user, self._find_reapply_at(user)) for user in users}

    def _select_for(self, keys: Keys, session: VerifiedSession | None, proof: str | None) -> NameStatusFields | None:
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
            return NameStatusFields(
                registered=True,
                username=user.username,
                status=user.status,
                email=user.email,
                can_be_mailed=user.email_key is not None,
                reason=user.reason,
                reviewed_at=user.reviewed_at,
                ban_expires_at=user.ban_expires_at,
                reapply_at=reapply_at or UNSET,
                application_token=self._tokens.token_of(user) if is_owner and (has_to_answer or may_reapply) else UNSET,
                answer_by=answer_by or UNSET,
                membership=own_membership_fields(
                    user, self._now(), may_ask=self._live.current.membership.renew == "ask"
                )
                or UNSET,
                has_ended=access_of(user) == ENDED or UNSET,
            )
        is_told = self._is_open_to_all or self._proves(proof)
        return self._public_status(user, reapply_at if is_told else None)

    def _public_status(self, user: User, reapply_at: datetime | None) -> NameStatusFields:
        return NameStatusFields(
            registered=True,
            username=user.username,
            status=user.status,
            reapply_at=reapply_at or UNSET,
            has_ended=access_of(user) == ENDED or UNSET,
        )

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


@ROUTES.add(
    "GET",
    "/api/review/status",
    PUBLIC,
    errors.UserNotFound,
    errors.RateLimited,
    credentials=(ACCESS_TOKEN, ADDRESS_PROOF),
    has_status_limit=True,
)
async def show_review_status(
    call: Call, statuses: StatusLookup, query: NameQuery
) -> Annotated[UserStatus, SentAs("", "ReviewStatusReply")]:
    """Show the status of a registration. Only its owner and admins see more than the status.

    With the proof of an address, or where none is required, a rejected registration also has the time when its name
    is free again.

    ReviewStatusReply: The status of a registration. Only the owner and admins see more than the first two fields.
    """
    found = await statuses.find(query.username, call.session, call.request.headers.get(PROOF_HEADER))
    if found is None:
        raise errors.UserNotFound
    return _word_reason(call, found)


@ROUTES.add(
    "GET",
    "/api/user/status",
    PUBLIC,
    errors.RateLimited,
    credentials=(ACCESS_TOKEN, ADDRESS_PROOF),
    has_status_limit=True,
)
async def show_user_status(
    call: Call, statuses: StatusLookup, query: NameQuery
) -> Annotated[NameStatusFields, SentAs("data", "UserStatusReply")]:
    """Show whether a name is registered, and its status. Only the owner and admins see more.

    With the proof of an address, or where none is required, a rejected name also has the time when it is free
    again.
    """
    found = await statuses.find(query.username, call.session, call.request.headers.get(PROOF_HEADER))
    return NameStatusFields(registered=False) if found is None else _word_reason(call, found)


def _word_reason(call: Call, found: NameStatusFields) -> NameStatusFields:
    """Return the status with the reason in the caller's language."""
    return replace(found, reason=call.word_reason(found.reason)) if isinstance(found.reason, str) else found
