"""What operators do: look at users and the audit log, decide about users, start the sync."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import ClassVar

from regsvc.accounts import Authority, Decided
from regsvc.admin_users import UserEntry, UserQuery
from regsvc.api.base import ApiHandler
from regsvc.api.requests import (
    AuditsQuery,
    BanRequest,
    ReviewRequest,
    SetPasswordRequest,
    SyncRequest,
    UsersQuery,
    epoch_milliseconds,
)
from regsvc.audit import Entry
from regsvc.errors import Refusal
from regsvc.sync.report import SyncReport
from regsvc.transitions import Actor, Decree


class UsersHandler(ApiHandler):
    async def get(self) -> None:
        query = self.query(UsersQuery)
        page = await self.run(
            self.services.users.list_users,
            UserQuery(
                page=query.page,
                size=query.size,
                search=query.search,
                status=query.status,
                plugin=query.plugin or "all",
                sort=query.sort,
                after=query.after,
            ),
        )
        self.reply(
            users=[_user(entry) for entry in page.entries],
            nextCursor=page.next_cursor,
            pagination={
                "currentPage": page.page,
                "pageSize": page.size,
                "totalCount": page.total,
                "totalPages": page.total_pages,
                "hasNext": page.has_next,
                "hasPrev": page.has_prev,
            },
        )


class AuditsHandler(ApiHandler):
    async def get(self) -> None:
        query = self.query(AuditsQuery)
        page = await self.run(
            self.services.audit.list_entries,
            query.page,
            query.size,
            action=query.action,
            operator=query.operator,
            target=query.target,
            since=query.since_at,
            until=query.until_at,
        )
        total_pages = None if page.total is None else -(-page.total // query.size)
        self.reply(
            audits=[_audit(entry) for entry in page.entries],
            pagination={
                "currentPage": query.page,
                "pageSize": query.size,
                "totalCount": page.total,
                "totalPages": total_pages,
                "hasNext": page.has_next,
                "hasPrev": query.page > 1,
            },
        )


class SyncHandler(ApiHandler):
    async def post(self) -> None:
        sync = self.services.sync
        is_plan = self.body(SyncRequest).plan
        report = await (sync.plan() if is_plan else sync.run())
        self.reply(
            message=_sync_message(report, is_plan),
            enabled=report.is_enabled,
            report=report.as_json(),
        )


class DecisionHandler(ApiHandler):
    """A decision about one user, or about each of many in a transaction of its own."""

    request_type: ClassVar[type[ReviewRequest]] = ReviewRequest
    message: ClassVar[str]

    async def post(self) -> None:
        request = self.body(self.request_type)
        admin = self.require_admin()
        by = Authority(Actor(admin.username, self.caller.address))
        if not request.is_batch:
            decided = await self.decide(request.targets[0], request, by)
            self.services.mails.wake()
            self.reply_with(_decision(decided), message=self.message_for(decided, request))
            return
        self.reply(results=[await self._result(username, request, by) for username in request.targets])
        self.services.mails.wake()

    def decide(self, username: str, request: ReviewRequest, by: Authority) -> Awaitable[Decided]:
        """Carry the decision out for one user. Raises its refusals."""
        raise AssertionError("every decision says how it is carried out")

    def message_for(self, decided: Decided, request: ReviewRequest) -> str:
        """The key of what the admin is told of it."""
        return self.message

    async def _result(self, username: str, request: ReviewRequest, by: Authority) -> dict[str, object]:
        try:
            decided = await self.decide(username, request, by)
        except Refusal as refusal:
            return self.refusal_body(refusal) | {"username": username}
        fields = _decision(decided)
        message = self.text(f"message.{self.message_for(decided, request)}", **fields)
        return {"success": True, "message": message, **fields}


class TransitionHandler(DecisionHandler):
    transition: ClassVar[str]

    def decide(self, username: str, request: ReviewRequest, by: Authority) -> Awaitable[Decided]:
        reason = (request.reason or "").strip() or None
        decree = Decree(reason, is_silent=request.silent)
        if isinstance(request, BanRequest):
            decree = Decree(reason, request.ends_at, request.silent, keeps_end=not request.has_end)
        return self.run(self.services.accounts.decide, username, self.transition, by, decree)


class ApproveHandler(TransitionHandler):
    transition, message = "approve", "approved"


class RejectHandler(TransitionHandler):
    transition, message = "reject", "rejected"


class BanHandler(TransitionHandler):
    request_type = BanRequest
    transition = "ban"

    def message_for(self, decided: Decided, request: ReviewRequest) -> str:
        return "ban_changed" if decided.status_before == decided.status else "banned"


class UnbanHandler(TransitionHandler):
    transition, message = "unban", "unbanned"


class DeleteHandler(TransitionHandler):
    transition, message = "delete", "deleted"


class SetPasswordHandler(DecisionHandler):
    request_type = SetPasswordRequest

    def decide(self, username: str, request: ReviewRequest, by: Authority) -> Awaitable[Decided]:
        assert isinstance(request, SetPasswordRequest)
        if request.password is None:
            return self.services.password_changes.mail_link(username, by)
        return self.services.password_changes.set_by_admin(username, request.password, by)

    def message_for(self, decided: Decided, request: ReviewRequest) -> str:
        assert isinstance(request, SetPasswordRequest)
        if request.password is None:
            return "reset_link_sent"
        return "player_password_set" if decided.status == "approved" else "player_password_kept"


def _sync_message(report: SyncReport, is_plan: bool) -> str:
    if not report.is_enabled:
        return "sync_off"
    if is_plan:
        return "sync_planned"
    return "sync_braked" if report.braked is not None else "sync_done"


def _decision(decided: Decided) -> dict[str, object]:
    fields: dict[str, object] = {"username": decided.username, "status": decided.status or "deleted"}
    if decided.warnings:
        fields["warnings"] = list(decided.warnings)
    return fields


def _user(entry: UserEntry) -> dict[str, object]:
    return {
        "username": entry.username,
        "email": entry.email,
        "status": entry.status,
        "regTime": epoch_milliseconds(entry.registered_at),
        "language": entry.language,
        "platform": entry.platform,
        "reason": entry.reason,
        "reviewedBy": entry.reviewed_by,
        "reviewedAt": epoch_milliseconds(entry.reviewed_at),
        "banExpiresAt": epoch_milliseconds(entry.ban_expires_at),
        "chat": entry.chat,
        "discordId": entry.discord_id,
        "questionnaireScore": entry.questionnaire_score,
        "questionnairePassed": entry.questionnaire_passed,
        "questionnaireReviewSummary": entry.questionnaire_review_summary,
        "plugin": entry.plugin,
        "pluginSince": epoch_milliseconds(entry.plugin_since),
        "lastLogin": epoch_milliseconds(entry.last_login_at),
    }


def _audit(entry: Entry) -> dict[str, object]:
    detail = entry.detail
    if entry.occurrences > 1:
        detail = (detail or {}) | {"occurrences": entry.occurrences}
    return {
        "id": entry.id,
        "action": entry.action,
        "operator": entry.operator,
        "target": entry.target,
        "detail": detail,
        "ip": entry.ip,
        "timestamp": epoch_milliseconds(entry.created_at),
    }
