"""Admin routes: list users and audit entries, change users' status and passwords, run the sync."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import UNSET

from regsvc.accounts.access import Principal
from regsvc.accounts.decisions import DecisionResult
from regsvc.api.base import ApiHandler, WordReason, to_reply
from regsvc.api.endpoint import endpoint
from regsvc.api.types.admin import (
    ApproveRequest,
    AuditFields,
    AuditsQuery,
    AuditsReply,
    BanRequest,
    BulkDecisionReply,
    BulkDecisionResult,
    DecisionReply,
    LinkedChatFields,
    PasswordLinkReply,
    PasswordLinkRequest,
    RejectionFields,
    RejectRequest,
    ReviewRequest,
    SetPasswordRequest,
    SyncReply,
    SyncReportFields,
    SyncRequest,
    UserFields,
    UsersQuery,
    UsersReply,
)
from regsvc.api.types.messages import Pagination, epoch_milliseconds, milliseconds_of
from regsvc.core import errors
from regsvc.core.errors import Refusal
from regsvc.database.audit import ACTIONS, Actor, AuditRecord
from regsvc.sync.report import SyncReport
from regsvc.users.transitions import DecisionDetails
from regsvc.users.user_list import UserListItem, UserPage
from regsvc.users.user_query import UserQuery

DECISION_REFUSALS: Final = (errors.UserNotFound, errors.WrongStatus, errors.ProtectedOperator)

Decide = Callable[[str], Awaitable[DecisionResult]]
MessageKey = Callable[[DecisionResult], str]


class UsersHandler(ApiHandler):
    @endpoint()
    async def get(self, query: UsersQuery) -> UsersReply:
        """List users, by page or, for large tables, by cursor. `status=pending` is the review queue."""
        return await self.list_users(query)

    async def list_users(self, query: UsersQuery) -> UsersReply:
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
        return UsersReply(
            users=[user_fields(entry, self.word_reason) for entry in page.entries],
            next_cursor=page.next_cursor,
            pagination=_pagination_of(page),
        )


class AuditsHandler(ApiHandler):
    @endpoint()
    async def get(self, query: AuditsQuery) -> AuditsReply:
        """Read the audit log, newest first."""
        return await self.list_audits(query)

    async def list_audits(self, query: AuditsQuery) -> AuditsReply:
        if query.action is not None and query.action not in ACTIONS:
            raise errors.InvalidField("action")
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
        return AuditsReply(
            audits=[_audit(entry, self.word_reason) for entry in page.entries],
            pagination=Pagination(
                current_page=query.page,
                page_size=query.size,
                total_count=page.total,
                total_pages=total_pages,
                has_next=page.has_next,
                has_prev=query.page > 1,
            ),
        )


class SyncHandler(ApiHandler):
    @endpoint(errors.SyncRunning)
    async def post(self, request: SyncRequest) -> SyncReply:
        """Run the sync between users and AuthMe's players now, or report what a run would do."""
        sync = self.services.sync
        report = await (sync.plan() if request.plan else sync.run())
        return SyncReply(
            message=self.message(_sync_message(report, request.plan)),
            enabled=report.is_enabled,
            report=msgspec.convert(report.as_json(), SyncReportFields),
        )


class DecisionHandler(ApiHandler):
    """Base of handlers that decide about one user, or about many, each in a transaction of its own."""

    @property
    def principal(self) -> Principal:
        return Principal(Actor(self.require_admin().username, self.caller.address))

    async def apply(
        self, request: ReviewRequest, decide: Decide, message_key: str | MessageKey
    ) -> DecisionReply | BulkDecisionReply:
        """Apply `decide` to the targets; `message_key` is the key of the message, or derives it from the result."""
        if request.is_batch:
            reply: DecisionReply | BulkDecisionReply = BulkDecisionReply(
                results=[await self._result(name, decide, message_key) for name in request.targets]
            )
        else:
            decided = await decide(request.targets[0])
            reply = DecisionReply(message=self._message(decided, message_key), **_outcome(decided))
        self.services.mail_queue.wake()
        return reply

    async def change_status(
        self, request: ReviewRequest, transition: str, message_key: str | MessageKey
    ) -> DecisionReply | BulkDecisionReply:
        details = _details_of(request)
        accounts, by = self.services.accounts, self.principal

        async def decide(username: str) -> DecisionResult:
            return await self.run(accounts.decide, username, transition, by, details)

        return await self.apply(request, decide, message_key)

    async def _result(self, username: str, decide: Decide, message_key: str | MessageKey) -> BulkDecisionResult:
        try:
            decided = await decide(username)
        except Refusal as refusal:
            return BulkDecisionResult(
                success=False,
                message=self.services.translations.refusal(refusal, self.language),
                username=username,
                status=refusal.facts.get("status", UNSET),  # type: ignore[arg-type]  # that of WrongStatus is a text
                code=refusal.code,
                field=refusal.field or UNSET,
            )
        return BulkDecisionResult(success=True, message=self._message(decided, message_key), **_outcome(decided))

    def _message(self, decided: DecisionResult, message_key: str | MessageKey) -> str:
        key = message_key if isinstance(message_key, str) else message_key(decided)
        return self.message(key, username=decided.username)


class ApproveHandler(DecisionHandler):
    @endpoint(
        *DECISION_REFUSALS,
        errors.PlayerReplaced,
        errors.PasswordChoiceNeeded,
        errors.AuthMeUnavailable,
        errors.MailUnavailable,
    )
    async def post(self, request: ApproveRequest) -> DecisionReply | BulkDecisionReply:
        """Approve a pending or rejected registration, so that the player may join.

        A player who is approved already, but was removed from the game or registered there anew, is let in again.
        """
        return await self.change_status(request, "approve", "approved")


class RejectHandler(DecisionHandler):
    @endpoint(*DECISION_REFUSALS)
    async def post(self, request: RejectRequest) -> DecisionReply | BulkDecisionReply:
        """Reject a pending registration."""
        return await self.change_status(request, "reject", "rejected")


class BanHandler(DecisionHandler):
    @endpoint(*DECISION_REFUSALS)
    async def post(self, request: BanRequest) -> DecisionReply | BulkDecisionReply:
        """Ban a user, temporarily or permanently, or change a ban."""
        return await self.change_status(request, "ban", _ban_message)


class UnbanHandler(DecisionHandler):
    @endpoint(*DECISION_REFUSALS, errors.PlayerReplaced, errors.AuthMeUnavailable)
    async def post(self, request: ReviewRequest) -> DecisionReply | BulkDecisionReply:
        """Lift a ban."""
        return await self.change_status(request, "unban", "unbanned")


class DeleteHandler(DecisionHandler):
    @endpoint(*DECISION_REFUSALS)
    async def post(self, request: ReviewRequest) -> DecisionReply | BulkDecisionReply:
        """Delete a user and their player."""
        return await self.change_status(request, "delete", "deleted")


class SetPasswordHandler(DecisionHandler):
    @endpoint(*DECISION_REFUSALS, errors.InvalidPassword, errors.PasswordRequired, errors.MailUnavailable)
    async def post(self, request: SetPasswordRequest) -> DecisionReply | BulkDecisionReply:
        """Set a user's password, or mail the user a link to set one. A new password ends all of their sessions."""
        by = self.principal
        if request.password is None:
            mail_link = partial(self.services.password_mails.mail_link, by=by)
            return await self.apply(request, mail_link, "reset_link_sent")
        decide = partial(self.services.password_changes.set_by_admin, password=request.password, by=by)
        return await self.apply(request, decide, _password_message)


class PasswordLinkHandler(DecisionHandler):
    @endpoint(errors.UserNotFound, errors.ProtectedOperator)
    async def post(self, request: PasswordLinkRequest) -> PasswordLinkReply:
        """Make a link that sets a user's password once, to hand over yourself: it is shown only now."""
        created = await self.run(self.services.password_mails.create_link, request.username, self.principal)
        return to_reply(PasswordLinkReply, created, message=self.message("link_created", username=created.username))


def _ban_message(decided: DecisionResult) -> str:
    return "ban_changed" if decided.status_before == decided.status else "banned"


def _password_message(decided: DecisionResult) -> str:
    return "player_password_set" if decided.status == "approved" else "player_password_kept"


def _sync_message(report: SyncReport, is_plan: bool) -> str:
    if not report.is_enabled:
        return "sync_off"
    if is_plan:
        return "sync_planned"
    return "sync_braked" if report.held_back is not None else "sync_done"


def _outcome(decided: DecisionResult) -> dict[str, Any]:
    return {
        "username": decided.username,
        "status": decided.status or "deleted",
        "warnings": list(decided.warnings) or UNSET,
    }


def _pagination_of(page: UserPage) -> Pagination:
    return Pagination(
        current_page=page.page,
        page_size=page.size,
        total_count=page.total,
        total_pages=page.total_pages,
        has_next=page.has_next,
        has_prev=page.has_prev,
    )


def _details_of(request: ReviewRequest) -> DecisionDetails:
    details = DecisionDetails((request.reason or "").strip() or None, is_silent=request.silent)
    if isinstance(request, ApproveRequest):
        return replace(details, password_choice=request.password_choice)
    if isinstance(request, RejectRequest):
        return replace(details, may_reapply=request.may_reapply)
    if isinstance(request, BanRequest):
        return replace(details, expires_at=request.ends_at, keeps_expiry=not request.has_end)
    return details


def user_fields(entry: UserListItem, word_reason: WordReason) -> UserFields:
    """Return a user as all admin routes show users."""
    rejections = entry.rejections
    return to_reply(
        UserFields,
        entry,
        reason=word_reason(entry.reason),
        reg_time=milliseconds_of(entry.registered_at),
        chat=None if entry.chat is None else to_reply(LinkedChatFields, entry.chat),
        rejections=None
        if rejections is None
        else to_reply(RejectionFields, rejections, last_reason=word_reason(rejections.last_reason)),
        last_login=epoch_milliseconds(entry.last_login_at),
    )


def _audit(entry: AuditRecord, word_reason: WordReason) -> AuditFields:
    detail = entry.detail
    if detail is not None and isinstance(detail.get("reason"), str):
        detail = detail | {"reason": word_reason(detail["reason"])}
    if entry.occurrences > 1:
        detail = (detail or {}) | {"occurrences": entry.occurrences}
    return to_reply(AuditFields, entry, detail=detail, timestamp=milliseconds_of(entry.created_at))
