"""Admin routes of front ends that review by id and page the audit log themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from regsvc.api.base import WordReason
from regsvc.api.endpoint import endpoint
from regsvc.api.handlers.admin import AuditsHandler, UsersHandler
from regsvc.api.legacy.types import PlainAuditFields, PlainAuditsReply, UsersWithIdReply, UserWithIdFields
from regsvc.api.types.admin import AuditsQuery, AuditsReply, UsersQuery
from regsvc.api.types.messages import milliseconds_of
from regsvc.core.errors import InvalidField
from regsvc.database.audit import ACTIONS, AuditRecord

KNOWN_ACTIONS: Final[Mapping[str, str]] = {
    "user.registered": "register",
    "user.approved": "approve",
    "user.rejected": "reject",
    "user.banned": "ban",
    "user.unbanned": "unban",
    "user.deleted": "delete",
    "user.logged_in": "login",
    "admin.logged_in": "login",
    "user.logged_out": "logout",
    "user.password_changed": "password_change",
    "user.email_changed": "email_update",
    "admin.denied": "admin_access_denied",
}
"""Audit action → the word front ends have a text for. They show the others as raw keys, so those are left out."""

MAX_PLAIN_AUDITS: Final = 500


class UsersWithIdHandler(UsersHandler):
    @endpoint()
    async def get(self, query: UsersQuery) -> UsersWithIdReply:
        """List users, by page or, for large tables, by cursor. `status=pending` is the review queue."""
        listed = await self.list_users(query)
        return UsersWithIdReply(
            users=[UserWithIdFields(id=user.username, **msgspec.structs.asdict(user)) for user in listed.users],
            next_cursor=listed.next_cursor,
            pagination=listed.pagination,
        )


class PlainAuditsHandler(AuditsHandler):
    @endpoint()
    async def get(self, query: AuditsQuery) -> AuditsReply | PlainAuditsReply:
        """Read the audit log, newest first.

        Without `page` and `size`: the newest entries, at most 500, whose action has a short name such as `approve`.
        """
        if not self._query.keys().isdisjoint(("page", "size")):
            return await self.list_audits(query)
        if query.action is not None and query.action not in {*ACTIONS, *KNOWN_ACTIONS.values()}:
            raise InvalidField("action")
        found = await self.run(
            self.services.audit.list_entries,
            1,
            MAX_PLAIN_AUDITS,
            action=[action for action, word in KNOWN_ACTIONS.items() if query.action in (None, action, word)],
            operator=query.operator,
            target=query.target,
            since=query.since_at,
            until=query.until_at,
        )
        return PlainAuditsReply(audits=[_plain(entry, self.word_reason) for entry in found.entries])


def _plain(entry: AuditRecord, word_reason: WordReason) -> PlainAuditFields:
    return PlainAuditFields(
        id=entry.id,
        action=KNOWN_ACTIONS[entry.action],
        operator=entry.operator,
        target=entry.target or "",
        detail=word_reason(str((entry.detail or {}).get("reason") or "")) or "",
        ip=entry.ip,
        timestamp=milliseconds_of(entry.created_at),
    )
