"""Invitations: links with which a member of the team lets players in.

The link carries a token in its fragment (after `#`); the token is not stored (`regsvc.auth.derived_secrets`).
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from peewee import Database

from regsvc.auth.derived_secrets import DerivedSecrets, new_nonce, parse_row_id
from regsvc.auth.sessions import Ended, find_rights, group_ended
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
from regsvc.core.rights import EVERYTHING, GRANTS, Permission, Team
from regsvc.core.text import name_key
from regsvc.database.audit import Actor, Audit
from regsvc.database.bulk import select_rows
from regsvc.database.models import Invitation, User

_MAX_LISTED: Final = 500
_MOST_MADE: Final = 30
_PERIOD: Final = timedelta(hours=1)
"""A member of the team makes so many invitations in this time; a script that makes more has a mistake."""
_PURPOSE: Final = "invitation"
_PATH: Final = "/register"


@dataclass(frozen=True)
class InvitationRecord:
    """An invitation as the team sees it; never its token. `made_by` is its maker as the audit log shows them."""

    id: int
    grants: tuple[str, ...]
    uses: int
    used: int
    made_by: str
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None


class Invitations:
    """Invitations, from making to use. Blocking: for a worker thread."""

    def __init__(self, secrets: DerivedSecrets, team: Team, audit: Audit, now: Clock, base_url: str) -> None:
        self._base_url = base_url
        self._secrets = secrets
        self._team = team
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
    ) -> tuple[str, InvitationRecord]:
        """Make an invitation for so many registrations; return its link, which is possible only now, and its record.

        `made_by` is the name of the user with whose right it ends; None: the host. `ends_at`: the end of the API token
        with which it is made, which it does not outlive. Raises `Forbidden` for a maker who may not review, and
        `RateLimited`.
        """
        made_by = None if made_by is None else name_key(made_by)
        self._require_reviewer(made_by)
        moment, database = self._now(), Invitation._meta.database
        with database.atomic():
            if made_by is not None:
                self._require_few(database, made_by, moment)
            row = Invitation.create(
                nonce=new_nonce(),
                grants=" ".join(grant for grant in GRANTS if grant in grants),
                uses=uses,
                used=0,
                made_by=made_by,
                maker=by.name,
                created_at=moment,
                expires_at=min(moment + lifetime, ends_at or moment + lifetime),
            )
            self._audit.record("invitation.created", by, None, {"id": row.id, "uses": uses, "grants": row.grants})
        token = self._secrets.link_token(int(row.id), row.nonce, _PURPOSE)
        return f"{self._base_url}{_PATH}#invite={token}", _record(row)

    def list_all(self) -> list[InvitationRecord]:
        """Return the newest 500 invitations, newest first."""
        return [_record(row) for row in Invitation.select().order_by(Invitation.id.desc()).limit(_MAX_LISTED)]

    def revoke(self, row_id: int, by: Actor) -> None:
        """Revoke an invitation. Raises `NoSuchInvitation` where none of this id is in force."""
        with Invitation._meta.database.atomic():
            if not self._revoke((Invitation.id == row_id) & (Invitation.expires_at > self._now())):
                raise NoSuchInvitation
            self._audit.record("invitation.revoked", by, None, {"id": row_id})

    def find(self, token: str) -> InvitationRecord:
        """Return the invitation of this token, which can still be used.

        Raises `InvitationInvalid` for a token that is not ours, `InvitationRevoked` (also where its maker has lost the
        right), `InvitationExpired` and `InvitationUsedUp`.
        """
        row_id = parse_row_id(token)
        row = None if row_id is None else Invitation.get_or_none(Invitation.id == row_id)
        if row is None or not self._secrets.is_link_token(token, int(row.id), row.nonce, _PURPOSE):
            raise InvitationInvalid
        if row.revoked_at is not None or not self._is_entitled(row.made_by, row.created_at):
            raise InvitationRevoked
        if row.expires_at <= self._now():
            raise InvitationExpired
        if row.used >= row.uses:
            raise InvitationUsedUp
        return _record(row)

    def redeem(self, invitation: InvitationRecord) -> None:
        """Use the invitation for a registration, inside the transaction of that; raises as `find` for a lost race."""
        is_open = Invitation.revoked_at.is_null() & (Invitation.used < Invitation.uses)
        used = Invitation.update(used=Invitation.used + 1).where((Invitation.id == invitation.id) & is_open)
        if not used.execute():
            is_revoked = Invitation.get_by_id(invitation.id).revoked_at is not None
            raise InvitationRevoked if is_revoked else InvitationUsedUp

    def revoke_of(self, maker: str) -> int:
        """Revoke all invitations that this user made, who has lost the right; return their number."""
        return self._revoke(Invitation.made_by == name_key(maker))

    def revoke_unentitled(self, dismissed: Collection[str]) -> Ended:
        """Revoke those whose makers may not review any more, or are in `dismissed`: none revives with the right."""
        is_open = Invitation.revoked_at.is_null() & (Invitation.expires_at > self._now())
        columns = (Invitation.id, Invitation.made_by, Invitation.created_at)
        rows = Invitation.select(*columns).where(is_open, Invitation.made_by.is_null(False))
        lost = {
            it.id: (str(it.made_by), str(it.id))
            for it in rows
            if it.made_by in dismissed or not self._is_entitled(it.made_by, it.created_at, is_kept=True)
        }
        if lost:
            self._revoke(Invitation.id.in_(list(lost)))
        return group_ended(lost.values())

    def purge(self, kept: timedelta) -> int:
        """Delete invitations that ended so long ago; return their number."""
        return int(Invitation.delete().where(Invitation.expires_at < self._now() - kept).execute())

    def _require_few(self, database: Database, maker: str, moment: datetime) -> None:
        """Raise `RateLimited` where this maker has made too many lately; one request at a time, by the lock."""
        select_rows(database, User, [User.id], User.username_key, [maker], for_update=True)
        is_recent = (Invitation.made_by == maker) & (Invitation.created_at > moment - _PERIOD)
        if Invitation.select().where(is_recent).count() >= _MOST_MADE:
            raise RateLimited(round(_PERIOD.total_seconds()))

    def _require_reviewer(self, maker: str | None) -> None:
        if not self._is_entitled(maker):
            raise Forbidden(permission=Permission.USERS_REVIEW)

    def _is_entitled(self, maker: str | None, since: datetime | None = None, *, is_kept: bool = False) -> bool:
        rights = EVERYTHING if maker is None else find_rights(self._team, maker, since, is_kept=is_kept)
        return rights.may(Permission.USERS_REVIEW)

    def _revoke(self, which: Any) -> int:
        open_ones = Invitation.update(revoked_at=self._now()).where(which, Invitation.revoked_at.is_null())
        return int(open_ones.execute())


def _record(row: Invitation) -> InvitationRecord:
    counts = (row.uses, row.used)
    times = (row.created_at, row.expires_at, row.revoked_at)
    return InvitationRecord(int(row.id), tuple(row.grants.split()), *counts, row.maker, *times)
