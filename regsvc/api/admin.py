"""Admin routes about the service: the audit log, mails, the sync, the doctor's findings."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from regsvc.api.base import ApiHandler
from regsvc.api.messages import (
    Email,
    EpochMilliseconds,
    Language,
    Output,
    PageNumber,
    PageSize,
    Pagination,
    Reply,
    Request,
    Username,
    milliseconds_of,
    to_datetime,
    to_reply,
)
from regsvc.api.route import Routes
from regsvc.api.users import Fate, MailName
from regsvc.core import errors
from regsvc.core.errors import InvalidField, Refusal
from regsvc.core.rights import Permission
from regsvc.database.audit import ACTIONS, DECISIONS, AuditRecord
from regsvc.notifications.mail import history
from regsvc.notifications.mail.history import WAITING
from regsvc.sync.report import SyncReport

if TYPE_CHECKING:
    from regsvc.doctor.checkup import Checkup

ROUTES: Final = Routes()

Count = Annotated[int, Meta(ge=0, examples=[1])]


def _pagination(query: AuditsQuery | MailsQuery, total: int | None, *, has_next: bool) -> Pagination:
    return Pagination(
        current_page=query.page,
        page_size=query.size,
        total_count=total,
        total_pages=None if total is None else -(-total // query.size),
        has_next=has_next,
        has_prev=query.page > 1,
    )


# --- The audit log ---


class AuditsQuery(Request, frozen=True, kw_only=True):
    """A filter of audit entries."""

    page: PageNumber = 1
    size: PageSize = 20
    action: (
        Annotated[
            str,
            Meta(
                extra_json_schema={"enum": ["decisions", *ACTIONS]},
                description="The action; `decisions` for those that change the status of a user.",
                examples=["user.approved"],
            ),
        ]
        | None
    ) = None
    operator: Annotated[Username, Meta(description="The user who acted.", examples=["Olivia"])] | None = None
    target: Annotated[Username, Meta(description="The user who was affected.", examples=["Alice"])] | None = None
    since: EpochMilliseconds | None = msgspec.field(default=None, name="from")
    until: EpochMilliseconds | None = msgspec.field(default=None, name="to")

    @property
    def since_at(self) -> datetime | None:
        return to_datetime(self.since)

    @property
    def until_at(self) -> datetime | None:
        return to_datetime(self.until)


class AuditFields(Output, frozen=True, kw_only=True):
    """An action by `operator` on `target`. `operator` is empty if unknown."""

    id: Annotated[int, Meta(examples=[1])]
    action: Annotated[str, Meta(examples=["user.approved"])]
    operator: Annotated[str, Meta(examples=["Olivia"])]
    target: Username | None
    detail: dict[str, Any] | None
    ip: Annotated[str, Meta(examples=["192.0.2.1"])] | None
    timestamp: EpochMilliseconds


class AuditsReply(Reply, frozen=True, kw_only=True):
    """A page of audit entries, newest first."""

    audits: list[AuditFields]
    pagination: Pagination


@ROUTES.add("GET", "/api/admin/audits", Permission.AUDIT_READ)
async def list_audits(call: ApiHandler, query: AuditsQuery) -> AuditsReply:
    """Read the audit log, newest first."""
    if query.action not in {None, "decisions", *ACTIONS}:
        raise errors.InvalidField("action")
    page = await call.run_list(
        call.services.audit.list_entries,
        query.page,
        query.size,
        action=DECISIONS if query.action == "decisions" else query.action,
        operator=query.operator,
        target=query.target,
        since=query.since_at,
        until=query.until_at,
    )
    return AuditsReply(
        audits=[_audit(call, entry) for entry in page.entries],
        pagination=_pagination(query, page.total, has_next=page.has_next),
    )


def _audit(call: ApiHandler, entry: AuditRecord) -> AuditFields:
    detail = entry.detail
    if detail is not None and isinstance(detail.get("reason"), str):
        detail = detail | {"reason": call.word_reason(detail["reason"])}
    if entry.occurrences > 1:
        detail = (detail or {}) | {"occurrences": entry.occurrences}
    return to_reply(AuditFields, entry, detail=detail, timestamp=milliseconds_of(entry.created_at))


# --- Mails ---

MAX_RESENT = 100

MailId = Annotated[int, Meta(ge=1, le=2**63 - 1, examples=[1])]


class MailsQuery(Request, frozen=True, kw_only=True):
    """A filter of mails."""

    page: PageNumber = 1
    size: PageSize = 20
    to: (
        Annotated[Username, Meta(description="An e-mail address or a player's name.", examples=["alice@example.org"])]
        | None
    ) = None
    state: (
        Annotated[Literal["waiting", "sent", "failed", "dropped"], Meta(description="The state of the mail.")] | None
    ) = None


class MailFields(Output, frozen=True, kw_only=True):
    """A mail and its state: `waiting` is retried at `nextAttemptAt`, `failed` was given up.

    `username` is the user that the mail concerns: null if they are not registered yet, or no longer.
    """

    id: MailId
    template: MailName
    to: Email
    username: Username | None
    language: Language
    state: Fate
    attempts: Annotated[int, Meta(ge=0, examples=[1])]
    created_at: EpochMilliseconds
    next_attempt_at: EpochMilliseconds | None
    done_at: EpochMilliseconds | None
    last_error: Annotated[str, Meta(description="Why the last attempt failed, or why the mail was dropped.")] | None


class MailsReply(Reply, frozen=True, kw_only=True):
    """A page of mails, newest first."""

    mails: list[MailFields]
    pagination: Pagination


class ResendRequest(Request, frozen=True, kw_only=True):
    """One mail (`id`) or many (`ids`)."""

    id: MailId | None = None
    ids: Annotated[list[MailId], Meta(min_length=1, max_length=MAX_RESENT)] | None = None

    @property
    def targets(self) -> list[int]:
        """The ids in order, without duplicates; raises InvalidField unless exactly one field is given."""
        if self.ids is not None:
            if self.id is not None:
                raise InvalidField("ids")
            return list(dict.fromkeys(self.ids))
        if self.id is None:
            raise InvalidField("id")
        return [self.id]


class ResendReply(Reply, frozen=True, kw_only=True):
    """The mail is queued again, under the same id."""

    id: MailId
    state: Fate


class BulkResendResult(Output, frozen=True, kw_only=True):
    """The result for one of many mails: `state` if it is queued again, `code` if it was refused."""

    success: bool
    message: Annotated[str, Meta(examples=["The e-mail to alice@example.org will be sent again."])]
    id: MailId
    state: Fate | UnsetType = UNSET
    code: Annotated[str, Meta(examples=["mail_not_resendable"])] | UnsetType = UNSET


class BulkResendReply(Reply, frozen=True, kw_only=True):
    """One result per id, in the order of the request."""

    results: list[BulkResendResult]


@ROUTES.add("GET", "/api/admin/mails", Permission.SYSTEM_READ)
async def list_mails(call: ApiHandler, query: MailsQuery) -> MailsReply:
    """List the mails of the last weeks and their state, newest first."""
    page = await call.run_list(history.list_mails, query.page, query.size, to=query.to, state=query.state)
    return MailsReply(
        mails=[to_reply(MailFields, entry) for entry in page.entries],
        pagination=_pagination(query, page.total, has_next=page.has_next),
    )


@ROUTES.add(
    "POST",
    "/api/admin/mails/resend",
    Permission.USERS_MANAGE,
    errors.MailNotFound,
    errors.MailNotResendable,
    errors.MailUnavailable,
)
async def resend_mails(call: ApiHandler, request: ResendRequest) -> ResendReply | BulkResendReply:
    """Resend mails that were sent, failed or dropped, if their content is still relevant.

    Expired content is never mailed again; a mailed link is replaced by a new one.
    """
    targets = request.targets
    if request.ids is None:
        to = await _resend(call, targets[0])
        reply: ResendReply | BulkResendReply = ResendReply(
            message=call.message("mail_resent", to=to), id=targets[0], state=WAITING
        )
    else:
        reply = BulkResendReply(results=[await _resend_result(call, mail_id) for mail_id in targets])
    call.services.mail_queue.wake_all()
    return reply


async def _resend(call: ApiHandler, mail_id: int) -> str:
    return await call.run(call.services.mail_resender.resend, mail_id, call.principal.actor)


async def _resend_result(call: ApiHandler, mail_id: int) -> BulkResendResult:
    try:
        to = await _resend(call, mail_id)
    except Refusal as refusal:
        message = call.services.translations.refusal(refusal, call.language)
        return BulkResendResult(success=False, message=message, id=mail_id, code=refusal.code)
    return BulkResendResult(success=True, message=call.message("mail_resent", to=to), id=mail_id, state=WAITING)


# --- The sync ---


class SyncRequest(Request, frozen=True, kw_only=True):
    """With `plan`, the run is only simulated."""

    plan: bool = False


class SyncConflictFields(Output, frozen=True, kw_only=True):
    """A field with different values on the two sides, and the side whose value was kept."""

    username: Username
    field: Annotated[str, Meta(examples=["email"])]
    kept: Annotated[str, Meta(description="The side whose value was kept.", examples=["plugin"])]
    why: (
        Annotated[
            str,
            Meta(
                description="Why both were kept. Of an e-mail: `unproven` (ours is proven, the game's cannot be), "
                "`taken` (the game's is another user's), `invalid` (the game's is no address), `refused` (AuthMe's "
                "table cannot hold ours). Of a name: `unfindable` (AuthMe does not find it), `collides` (AuthMe takes "
                "it for another one), `foreign` (the row may be another person's), `unapproved` (the row of a user who "
                "is not approved was left open).",
                examples=["taken"],
            ),
        ]
        | UnsetType
    ) = UNSET


class SyncErrorFields(Output, frozen=True, kw_only=True):
    """An error with one row, or with the whole table (`username` null)."""

    username: Username | None
    error: Annotated[str, Meta(examples=["the name is no player's name"])]


class SyncHeldBackFields(Output, frozen=True, kw_only=True):
    """Changes that were held back because there were too many at once."""

    removed: Count
    locked: Count
    edited: Count
    passwords: Annotated[Count, Meta(description="Passwords that became earlier ones again.")]
    limit: Annotated[str, Meta(examples=["20 and 5%"])]


class SyncAllowlistFields(Output, frozen=True, kw_only=True):
    """The names added to and removed from the game's allowlist, and what was taken over from it."""

    added: Count
    removed: Count
    adopted: Annotated[Count, Meta(description="Players who got a user.")]
    approved: Annotated[Count, Meta(description="Users who were put on the list in the game.")]
    taken_off: Annotated[Count, Meta(description="Users who were taken off the list in the game.")]
    held_back: Annotated[Count, Meta(description="Changes that were held back because there were too many at once.")]
    limit: Annotated[str, Meta(examples=["20 and 5%"])]
    unavailable: Annotated[str | None, Meta(description="Why the list cannot be read or written.")]
    doubt: Annotated[str | None, Meta(description="A player whose UUID contradicts the server's config.")]
    is_loaded: Annotated[bool, Meta(description="Whether the running server knows the list as it is in the file.")]


class SyncReportFields(Output, frozen=True, kw_only=True):
    """The numbers of changes that were made, or would be made by a planned run."""

    started_at: EpochMilliseconds
    duration_ms: Count
    scanned: Count
    adopted: Count
    provisioned: Count
    updated: Count
    locked: Count
    restored: Count
    removed: Count
    conflicts: list[SyncConflictFields]
    errors: list[SyncErrorFields]
    braked: SyncHeldBackFields | None
    allowlist: Annotated[SyncAllowlistFields | None, Meta(description="Null if nothing was to do.")]


class SyncReply(Reply, frozen=True, kw_only=True):
    """The report of a run. `enabled` is false, and the report empty, if no gate is in force."""

    enabled: bool
    report: SyncReportFields


@ROUTES.add("POST", "/api/admin/sync", Permission.SYNC_RUN, errors.SyncRunning)
async def run_sync(call: ApiHandler, request: SyncRequest) -> SyncReply:
    """Run the sync of users with AuthMe's players and the game's allowlist now, or report what a run would do."""
    sync, gates = call.services.sync, call.services.gates.names
    report = await (sync.plan() if request.plan else sync.run())
    return SyncReply(
        message=call.message(_sync_message(report, request.plan) if gates else "sync_off"),
        enabled=bool(gates),
        report=msgspec.convert(report.as_json(), SyncReportFields),
    )


def _sync_message(report: SyncReport, is_plan: bool) -> str:
    if is_plan:
        return "sync_planned"
    return "sync_braked" if report.has_held_back_changes else "sync_done"


# --- The doctor ---

Severity = Literal["broken", "risky"]
Verdict = Literal["fine", "risky", "broken"]
Words = Annotated[str, Meta(description="A sentence or two, in the language of the reply.")]


class DoctorQuery(Request, frozen=True, kw_only=True):
    """Query of the doctor's route: whether a recent result is good enough."""

    fresh: Annotated[bool, Meta(description="Check again, even if the last check was less than a minute ago.")] = False


class FindingFields(Output, frozen=True, kw_only=True):
    """A problem: `broken`, or `risky` if it works, but not as safely or reliably as it could."""

    id: Annotated[str, Meta(description="A stable id of the kind of finding.", examples=["authme.caching"])]
    severity: Severity
    title: Annotated[Words, Meta(examples=["DataSource.caching is true."])]
    why: Annotated[Words, Meta(examples=["An old password works for minutes after it was changed on the web."])]
    do: Annotated[Words, Meta(examples=["Switch the cache off and restart the game server."])]
    where: Annotated[
        str,
        Meta(
            description="A file and a key with the value it should have, a command, or a statement.",
            examples=["plugins/AuthMe/config.yml: DataSource.caching: false"],
        ),
    ]


class CheckupReply(Reply, frozen=True, kw_only=True):
    """The findings, broken ones first, and the checks that could not run, with the reason."""

    language: Annotated[str, Meta(description="The language of the sentences.", examples=["en"])]
    verdict: Annotated[Verdict, Meta(description="The worst severity of all findings.")]
    findings: list[FindingFields]
    not_examined: Annotated[list[str], Meta(examples=[[]])]
    checked_at: EpochMilliseconds


def _translate(checkup: Checkup, language: str) -> Checkup:
    from regsvc.doctor.report import in_language

    return in_language(checkup, language)


@ROUTES.add("GET", "/api/admin/doctor", Permission.SYSTEM_READ)
async def show_checkup(call: ApiHandler, query: DoctorQuery) -> CheckupReply:
    """List what is broken or risky about this installation and what to change, like `companion doctor`.

    The config is checked as it is in effect, even if the file was changed since. The sentences are in the
    caller's language if the doctor speaks it (`language` of the reply), else in English.
    """
    checkup, made_at = await call.services.doctor.get(force=query.fresh)
    checkup = await call.run(_translate, checkup, call.language)
    return to_reply(CheckupReply, checkup, checked_at=milliseconds_of(made_at))
