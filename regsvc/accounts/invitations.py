"""Invitations: links with which a member of the team lets players in.

The link carries a token in its fragment (after `#`); the token is not stored (`regsvc.auth.derived_secrets`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta
from peewee import Database

from regsvc.auth.derived_secrets import DerivedSecrets, new_nonce, parse_row_id
from regsvc.auth.entitlement import EndCause, Entitlements, OpenThing, Origin, require_active_token
from regsvc.core import errors
from regsvc.core.clock import Clock
from regsvc.core.errors import (
    Forbidden,
    InvitationExpired,
    InvitationInvalid,
    InvitationRevoked,
    InvitationUsedUp,
    NoSuchInvitation,
    RateLimited,
)
from regsvc.core.rights import GRANTS, MAX_INVITATION, MAX_INVITED, USUAL_INVITATION, Permission, Team
from regsvc.core.shapes import Moment, Output
from regsvc.core.text import name_key
from regsvc.core.units import format_duration
from regsvc.database.audit import Actor, Audit
from regsvc.database.bulk import select_rows
from regsvc.database.models import Invitation, User
from regsvc.http.messages import MessageReply, Reply, to_reply
from regsvc.http.route import PUBLIC, Routes, SentAs
from regsvc.users.membership import read_length

if TYPE_CHECKING:
    from regsvc.http.call import Call

ROUTES: Final = Routes()

_MAX_LISTED: Final = 500
_MOST_MADE: Final = 30
_PERIOD: Final = timedelta(hours=1)
"""A member of the team makes so many invitations in this time; a script that makes more has a mistake."""
_PURPOSE: Final = "invitation"
_PATH: Final = "/register"


InvitationToken = Annotated[
    str, Meta(description="The part of an invitation's link after `#invite=`.", max_length=100, examples=["7.k3…"])
]
InvitationGrant = Annotated[
    str, Meta(extra_json_schema={"enum": ["no_questionnaire", "no_review"]}, examples=["no_questionnaire"])
]
MemberFor = Annotated[
    str,
    Meta(
        description="How long the invited are members, from their approval; null: as `membership.ends` says.",
        examples=["30 days"],
    ),
]


class InvitationFields(Output, frozen=True):
    """An invitation, without its link."""

    id: Annotated[int, Meta(examples=[1])]
    grants: tuple[InvitationGrant, ...]
    uses: Annotated[int, Meta(examples=[3])]
    used: Annotated[int, Meta(examples=[1])]
    made_by: Annotated[str, Meta(examples=["Olivia"])]
    created_at: Moment
    expires_at: Moment
    revoked_at: Moment | None
    member_for: MemberFor | None


class Invitations:
    """Invitations, from making to use. Blocking: for a worker thread."""

    def __init__(self, secrets: DerivedSecrets, team: Team, audit: Audit, now: Clock, base_url: str) -> None:
        self._base_url = base_url
        self._secrets = secrets
        self._entitlements = Entitlements(team, now)
        self._audit = audit
        self._now = now

    def create(
        self,
        uses: int,
        lifetime: timedelta,
        grants: Collection[str],
        by: Actor,
        made_by: str | None,
        ends_at: datetime | None = None,
        *,
        token_id: int | None = None,
        has_second_factor: bool = False,
        attempt_nonce: str | None = None,
        member_for: timedelta | None = None,
    ) -> tuple[str, InvitationFields]:
        """Make an invitation for so many registrations; return its link, which is possible only now, and its record.

        `made_by` is the name of the user with whose right it ends; None: the host. `ends_at`: the end of the API token
        `token_id` with which it is made, which it does not outlive. One that this attempt has made before is
        returned again. `member_for`: how long the memberships of the invited last, from their approval; None: as the
        config says. Raises `Forbidden` for a maker who may not review, `Unauthorized` for a token that has ended, and
        `RateLimited`.
        """
        made_by = None if made_by is None else name_key(made_by)
        moment, database = self._now(), Invitation._meta.database
        length = None if member_for is None else format_duration(member_for)
        with database.atomic():
            require_active_token(token_id, moment)
            origin = Origin(made_by, moment, has_second_factor, token_id)
            if self._entitlements.find_cause(origin, Permission.USERS_REVIEW) is not None:
                raise Forbidden(permission=Permission.USERS_REVIEW)
            granted = " ".join(grant for grant in GRANTS if grant in grants)
            if attempt_nonce is not None:
                asked = (Invitation.uses == uses) & (Invitation.grants == granted)
                made = Invitation.get_or_none((Invitation.nonce == attempt_nonce) & asked)
                if made is not None and made.member_for == length:
                    return self._link_of(made), _record(made)
            if made_by is not None:
                self._require_few(database, made_by, moment)
            row = Invitation.create(
                nonce=attempt_nonce or new_nonce(),
                grants=granted,
                uses=uses,
                used=0,
                made_by=made_by,
                maker=by.name,
                token_id=token_id,
                has_second_factor=has_second_factor,
                created_at=moment,
                expires_at=min(moment + lifetime, ends_at or moment + lifetime),
                member_for=length,
            )
            detail = {"id": row.id, "uses": uses, "grants": row.grants}
            detail |= {} if length is None else {"memberFor": length}
            self._audit.record("invitation.created", by, None, detail)
        return self._link_of(row), _record(row)

    def list_all(self) -> list[InvitationFields]:
        """Return the newest 500 invitations, newest first."""
        return [_record(row) for row in Invitation.select().order_by(Invitation.id.desc()).limit(_MAX_LISTED)]

    def revoke(self, row_id: int, by: Actor) -> None:
        """Revoke an invitation. Raises `NoSuchInvitation` where none of this id is in force."""
        with Invitation._meta.database.atomic():
            if not self._revoke((Invitation.id == row_id) & (Invitation.expires_at > self._now())):
                raise NoSuchInvitation
            self._audit.record("invitation.revoked", by, None, {"id": row_id})

    def find(self, token: str) -> InvitationFields:
        """Return the invitation of this token, which can still be used.

        Raises `InvitationInvalid` for a token that is not ours, `InvitationRevoked` (also where its maker has lost the
        right), `InvitationExpired` and `InvitationUsedUp`.
        """
        row_id = parse_row_id(token)
        row = None if row_id is None else Invitation.get_or_none(Invitation.id == row_id)
        if row is None or not self._secrets.is_link_token(token, int(row.id), row.nonce, _PURPOSE):
            raise InvitationInvalid
        if row.revoked_at is not None or self._find_cause(row) is not None:
            raise InvitationRevoked
        if row.expires_at <= self._now():
            raise InvitationExpired
        if row.used >= row.uses:
            raise InvitationUsedUp
        return _record(row)

    def redeem(self, invitation: InvitationFields) -> None:
        """Use the invitation for a registration, inside the transaction of that; raises as `find` for a lost race."""
        is_open = Invitation.revoked_at.is_null() & (Invitation.used < Invitation.uses)
        used = Invitation.update(used=Invitation.used + 1).where((Invitation.id == invitation.id) & is_open).execute()
        row = Invitation.get_by_id(invitation.id)
        if not used:
            raise InvitationRevoked if row.revoked_at is not None else InvitationUsedUp
        if self._find_cause(row) is not None:
            raise InvitationRevoked

    def list_open(self, owner: str | None = None) -> Iterator[OpenThing]:
        """Return the invitations that can still be used, as `MadeThings` does."""
        is_open = Invitation.revoked_at.is_null() & (Invitation.expires_at > self._now())
        whose = Invitation.made_by.is_null(False) if owner is None else Invitation.made_by == owner
        for row in Invitation.select().where(is_open, whose):
            yield OpenThing(row.id, str(row.made_by), str(row.id), self._find_cause(row, is_kept=True))

    def end(self, ids: Sequence[int]) -> None:
        """Revoke the invitations with these ids."""
        self._revoke(Invitation.id.in_(list(ids)))

    def purge(self, kept: timedelta) -> int:
        """Delete invitations that ended so long ago; return their number."""
        return int(Invitation.delete().where(Invitation.expires_at < self._now() - kept).execute())

    def _link_of(self, row: Invitation) -> str:
        token = self._secrets.link_token(int(row.id), row.nonce, _PURPOSE)
        return f"{self._base_url}{_PATH}#invite={token}"

    def _require_few(self, database: Database, maker: str, moment: datetime) -> None:
        """Raise `RateLimited` where this maker has made too many lately; one request at a time, by the lock."""
        select_rows(database, User, [User.id], User.username_key, [maker], for_update=True)
        is_recent = (Invitation.made_by == maker) & (Invitation.created_at > moment - _PERIOD)
        if Invitation.select().where(is_recent).count() >= _MOST_MADE:
            raise RateLimited(round(_PERIOD.total_seconds()))

    def _find_cause(self, row: Invitation, *, is_kept: bool = False) -> EndCause | None:
        origin = Origin(row.made_by, row.created_at, bool(row.has_second_factor), row.token_id)
        return self._entitlements.find_cause(origin, Permission.USERS_REVIEW, is_kept=is_kept)

    def _revoke(self, which: Any) -> int:
        open_ones = Invitation.update(revoked_at=self._now()).where(which, Invitation.revoked_at.is_null())
        return int(open_ones.execute())


def _record(row: Invitation) -> InvitationFields:
    counts = (row.uses, row.used)
    times = (row.created_at, row.expires_at, row.revoked_at)
    return InvitationFields(int(row.id), tuple(row.grants.split()), *counts, row.maker, *times, row.member_for)


class InvitationReply(Reply, frozen=True, kw_only=True):
    """The grants of an invitation, and the time until which it can be used."""

    made_by: Annotated[str, Meta(examples=["Olivia"])]
    grants: list[InvitationGrant]
    remaining_uses: Annotated[int, Meta(examples=[3])]
    expires_at: Moment
    member_for: MemberFor | None


INVITATION_REFUSALS: Final = (
    errors.InvitationInvalid,
    errors.InvitationRevoked,
    errors.InvitationExpired,
    errors.InvitationUsedUp,
)


@ROUTES.add("POST", "/api/invitation/check", PUBLIC, *INVITATION_REFUSALS, errors.RateLimited, has_status_limit=True)
async def check_invitation(call: Call, invitations: Invitations, *, invitation: InvitationToken) -> InvitationReply:
    """Show what an invitation grants, before registering with it. Uses up nothing.

    InvitationQuery: The token of an invitation: the part of its link after `#invite=`.
    """
    found = await call.run(invitations.find, invitation)
    # who has a shell on the host's machine is nobody else's business
    made_by = call.config.server.name if "cli:" in found.made_by else found.made_by
    grants, remaining = list(found.grants), found.uses - found.used
    return to_reply(InvitationReply, found, made_by=made_by, grants=grants, remaining_uses=remaining)


class InviteReply(Reply, frozen=True, kw_only=True):
    """The link is in this reply only."""

    link: Annotated[str, Meta(examples=["https://play.example.org/register#invite=…"])]
    record: InvitationFields


@ROUTES.add("GET", "/api/admin/invitations", Permission.USERS_REVIEW)
async def list_invitations(
    call: Call, invitations: Invitations
) -> Annotated[list[InvitationFields], SentAs("invitations", "InvitationsReply")]:
    """List the newest 500 invitations.

    InvitationsReply: The newest invitations, newest first.
    """
    return await call.run(invitations.list_all)


@ROUTES.add("POST", "/api/admin/invitation", Permission.USERS_REVIEW, errors.InvalidMembership, errors.RateLimited)
async def invite(
    call: Call,
    invitations: Invitations,
    *,
    uses: Annotated[int, Meta(ge=1, le=MAX_INVITED, examples=[3])] = 1,
    days: Annotated[int, Meta(ge=1, le=MAX_INVITATION.days, examples=[7])] = USUAL_INVITATION.days,
    grants: Annotated[tuple[InvitationGrant, ...], Meta(max_length=10)] = (),
    member_for: MemberFor | None = None,
) -> InviteReply:
    """Make a link with which players register. It ends with your right to review, or when you revoke it.

    One that is made with an API token ends with the token at the latest.

    InviteRequest: For how many registrations and days an invitation is, and what the invited need not do.
    """
    if not set(grants) <= set(GRANTS):
        raise errors.InvalidField("grants")
    by, lifetime = call.principal, timedelta(days=days)
    create = invitations.create
    made_by = by.actor, by.username or None, by.ends_at
    more: Any = {"token_id": by.token_id, "has_second_factor": by.has_second_factor}
    more |= {"attempt_nonce": call.attempt_nonce}
    more |= {"member_for": None if member_for is None else read_length(member_for, "memberFor")}
    link, record = await call.run(create, uses, lifetime, grants, *made_by, **more)
    return InviteReply(message=call.message("invitation_created"), link=link, record=record)


@ROUTES.add("POST", "/api/admin/invitation/revoke", Permission.USERS_REVIEW, errors.NoSuchInvitation)
async def revoke_invitation(
    call: Call, invitations: Invitations, *, id: Annotated[int, Meta(ge=1, le=2**63 - 1, examples=[1])]
) -> MessageReply:
    """Revoke an invitation. Users who registered with it stay registered.

    InvitationIdRequest:
    """
    await call.run(invitations.revoke, id, call.principal.actor)
    return MessageReply(message=call.message("invitation_revoked"))
