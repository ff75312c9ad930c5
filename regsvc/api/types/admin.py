"""Types of the admin routes: users, decisions about them, the audit log, the sync."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from regsvc.api.handlers.mails import MailFields
from regsvc.api.handlers.questionnaire import Kind
from regsvc.api.handlers.registration import Platform, Status
from regsvc.api.handlers.users import Address, ClientFields, Origin, PlayerFields, SessionFields, Transition
from regsvc.api.types.messages import (
    Email,
    EpochMilliseconds,
    Language,
    Output,
    PageNumber,
    PageSize,
    Pagination,
    Password,
    Reply,
    Request,
    Username,
    Warnings,
    to_datetime,
)
from regsvc.core.errors import InvalidField
from regsvc.database.audit import ACTIONS
from regsvc.users.transitions import BUILT_IN_REASONS, PasswordChoice

MAX_BATCH = 100

Reason = Annotated[
    str,
    Meta(
        max_length=4000,
        description="Mailed and shown to the user: a text, or the code of a built-in reason, which everyone reads in "
        f"their own language (replies have its words): {', '.join(f'`{code}`' for code in BUILT_IN_REASONS)}.",
        examples=["Too many alts"],
    ),
]
PluginState = Literal["synced", "absent", "locked", "conflict", "returned", "pending", "off"]
Outcome = Annotated[
    str,
    Meta(
        extra_json_schema={"enum": ["pending", "approved", "rejected", "banned", "deleted"]},
        description="The status afterwards; `deleted` if the user no longer exists.",
        examples=["approved"],
    ),
]
Count = Annotated[int, Meta(ge=0, examples=[1])]

# --- Users ---


class UsersQuery(Request, frozen=True, kw_only=True):
    """A filter, with either a page number or a cursor."""

    page: PageNumber | None = None
    size: Annotated[PageSize, Meta(description="Users per page; 20, for `pending` 100.")] | None = None
    search: Annotated[
        Username,
        Meta(
            description="A part of the name or e-mail address, or the client address of the registration: whole, "
            "or its beginning up to a dot or colon.",
            examples=["ali"],
        ),
    ] = ""
    status: Annotated[
        Literal["all", "pending", "approved", "rejected", "banned"], Meta(description="`pending` is the review queue.")
    ] = "all"
    plugin: Annotated[PluginState, Meta(description="The state of the player in AuthMe's table.")] | None = None
    sort: (
        Annotated[Literal["newest", "oldest", "name"], Meta(description="`newest`, for `pending` `oldest`.")] | None
    ) = None
    after: Annotated[str, Meta(description="`nextCursor` of the previous page; excludes `page`.")] | None = None


class LinkedChatFields(Output, frozen=True, kw_only=True):
    """The chat account linked to a user."""

    id: Annotated[str, Meta(examples=["80351110224678912"])]
    username: Annotated[str, Meta(examples=["alice"])] | None


class RejectionFields(Output, frozen=True, kw_only=True):
    """Earlier rejections of this name, or of this e-mail address under any name."""

    count: Count
    last_at: EpochMilliseconds | None
    last_reason: Annotated[str, Meta(examples=["Too young"])] | None


class UserFields(Output, frozen=True, kw_only=True):
    """A user as shown to admins. Never contains a hash, salt, code or token."""

    username: Username
    email: Email | None
    status: Status
    reg_time: EpochMilliseconds
    language: Language | None
    platform: Platform
    reason: str | None
    reviewed_by: str | None
    reviewed_at: EpochMilliseconds | None
    ban_expires_at: EpochMilliseconds | None
    chat: LinkedChatFields | None
    discord_id: str | None
    questionnaire_score: int | None
    questionnaire_passed: bool | None
    questionnaire_review_summary: str | None
    questionnaire_requires_review: Annotated[
        bool | None, Meta(description="Whether an operator has to read answers; null without a questionnaire.")
    ]
    rejections: Annotated[RejectionFields | None, Meta(description="For pending users; else null.")]
    plugin: Annotated[str, Meta(extra_json_schema={"enum": list(get_args(PluginState))}, examples=["synced"])]
    plugin_since: EpochMilliseconds | None
    last_login: EpochMilliseconds | None
    is_operator: Annotated[
        bool, Meta(description="Whether the name is an operator's: approved, the user is an admin.", examples=[False])
    ]


class UsersReply(Reply, frozen=True, kw_only=True):
    """A page of users; `nextCursor` is null on the last page."""

    users: list[UserFields]
    next_cursor: str | None
    pagination: Pagination


# --- Decisions ---


class ReviewRequest(Request, frozen=True, kw_only=True):
    """A decision about one user (`username`) or many (`usernames`), who are notified unless `silent`."""

    username: Username | None = None
    uuid: (
        Annotated[Username, Meta(description="An alias of `username` for older front ends.", examples=["Alice"])] | None
    ) = None
    user_id: (
        Annotated[Username, Meta(description="Another alias of `username` for older front ends.", examples=["Alice"])]
        | None
    ) = None
    usernames: Annotated[list[Username], Meta(min_length=1, max_length=MAX_BATCH)] | None = None
    reason: Reason | None = None
    silent: bool = False

    @property
    def is_batch(self) -> bool:
        return self.usernames is not None

    @property
    def targets(self) -> list[str]:
        """The names in order, without duplicates; raises InvalidField unless exactly one field is given."""
        username = next((name for name in (self.username, self.uuid, self.user_id) if name is not None), None)
        if self.usernames is not None and username is not None:
            raise InvalidField("usernames")
        if self.usernames is not None:
            return list(dict.fromkeys(self.usernames))
        if username is not None:
            return [username]
        raise InvalidField("username")


class ApproveRequest(ReviewRequest, frozen=True, kw_only=True):
    """An approval, of a batch with one choice of the password for all."""

    password_choice: (
        Annotated[
            PasswordChoice,
            Meta(
                description="The password that counts where an approved user's name was registered anew in the game "
                "(`plugin` is `returned`); without it that approval is refused (`password_choice_needed`). `keep` the "
                "one from before, `take` the one it was registered with, or mail the user a `link` to set one, until "
                "when the row stays locked. Where the player is merely gone (`absent`), `link` keeps the password from "
                "before from coming back. Ignored for registrations under review, whose own password counts.",
            ),
        ]
        | None
    ) = None


class RejectRequest(ReviewRequest, frozen=True, kw_only=True):
    """A rejection. `mayReapply`: the name is free again at once, not only after `registration.reapply_after`."""

    may_reapply: bool = False


class BanRequest(ReviewRequest, frozen=True, kw_only=True):
    """A ban until `expiresAt`; null: permanent. If missing, an existing ban keeps its end; a new one has none."""

    expires_at: EpochMilliseconds | msgspec.UnsetType | None = msgspec.UNSET

    @property
    def has_end(self) -> bool:
        """Return whether the field was given, null included."""
        return self.expires_at is not msgspec.UNSET

    @property
    def ends_at(self) -> datetime | None:
        return to_datetime(None if isinstance(self.expires_at, msgspec.UnsetType) else self.expires_at)


class SetPasswordRequest(ReviewRequest, frozen=True, kw_only=True):
    """A new password; without one, a link to set a password is mailed."""

    password: Password | None = None


class DecisionReply(Reply, frozen=True, kw_only=True):
    """The result for one user."""

    username: Username
    status: Outcome
    warnings: Warnings | UnsetType = UNSET


class BulkDecisionResult(Output, frozen=True, kw_only=True):
    """The result for one of many users: the current `status`, and `code` if the decision was refused."""

    success: bool
    message: Annotated[str, Meta(examples=["Alice was approved."])]
    username: Username
    status: Outcome | UnsetType = UNSET
    warnings: Warnings | UnsetType = UNSET
    code: Annotated[str, Meta(examples=["wrong_status"])] | UnsetType = UNSET
    field: str | UnsetType = UNSET


class BulkDecisionReply(Reply, frozen=True, kw_only=True):
    """One result per name, in the order of the request."""

    results: list[BulkDecisionResult]


# --- The audit log ---


class AuditsQuery(Request, frozen=True, kw_only=True):
    """A filter of audit entries."""

    page: PageNumber = 1
    size: PageSize = 20
    action: (
        Annotated[
            str,
            Meta(extra_json_schema={"enum": list(ACTIONS)}, description="The action.", examples=["user.approved"]),
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


# --- The sync ---


class SyncRequest(Request, frozen=True, kw_only=True):
    """With `plan`, the run is only simulated."""

    plan: bool = False


class SyncConflictFields(Output, frozen=True, kw_only=True):
    """A field with different values on the two sides, and the side whose value was kept."""

    username: Username
    field: Annotated[str, Meta(examples=["email"])]
    kept: Annotated[str, Meta(description="The side whose value was kept.", examples=["plugin"])]


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


class SyncReply(Reply, frozen=True, kw_only=True):
    """The report of a run. `enabled` is false, and the report empty, if AuthMe's table is not shared."""

    enabled: bool
    report: SyncReportFields


class UserDetailsQuery(Request, frozen=True, kw_only=True):
    """The user's name, in any case."""

    username: Username


class HistoryFields(Output, frozen=True, kw_only=True):
    """A decision about this user, or about an earlier user with the same name or e-mail address."""

    username: Username
    transition: Transition
    status_before: Status
    status_after: Status | None
    reason: str | None
    ban_expires_at: EpochMilliseconds | None
    operator: Annotated[str, Meta(examples=["Olivia"])]
    reviewed_at: EpochMilliseconds
    is_same_user: bool
    is_same_name: bool
    is_same_email: bool


class ScoredAnswerFields(Output, frozen=True, kw_only=True):
    """A question as it was asked, with the answers and their points; `points` is null until a person has read them."""

    question_id: Annotated[int, Meta(examples=[1])]
    type: Kind
    question: Annotated[str, Meta(examples=["What do you do?"])]
    answers: Annotated[list[str], Meta(examples=[["I talk to the player."]])]
    points: Annotated[int, Meta(examples=[10])] | None
    max_points: Annotated[int, Meta(examples=[10])]
    note: Annotated[str, Meta(description="The remark of the scoring service.", examples=[""])]


class QuestionnaireResultFields(Output, frozen=True, kw_only=True):
    """The result of the questionnaire that the user registered with."""

    score: Annotated[int, Meta(examples=[80])]
    max_score: Annotated[int, Meta(examples=[100])]
    pass_score: Annotated[int, Meta(examples=[60])]
    is_passed: bool
    requires_review: bool
    summary: Annotated[str, Meta(examples=["80 of 100 points; 60 are needed."])]
    submitted_at: EpochMilliseconds
    answers: list[ScoredAnswerFields]


class UserDetailsFields(UserFields, frozen=True, kw_only=True):
    """The user as in the list, with further details. Lists are newest first and have at most 100 entries."""

    is_email_verified: bool
    origin: Origin
    registration_ip: Address | None
    password_set_at: EpochMilliseconds | None
    banned_from: Annotated[Status, Meta(description="The status that returns when the ban ends.")] | None
    questionnaire: QuestionnaireResultFields | None
    history: list[HistoryFields]
    mails: list[MailFields]
    sessions: list[SessionFields]
    clients: list[ClientFields]
    player: PlayerFields | None


class UserDetailsReply(Reply, frozen=True, kw_only=True):
    user: UserDetailsFields


class PasswordLinkRequest(Request, frozen=True, kw_only=True):
    """The user to make a link for."""

    username: Username


class PasswordLinkReply(Reply, frozen=True, kw_only=True):
    """A link that sets the user's password once, until `expiresAt`. It is in this reply only."""

    username: Username
    status: Status
    link: Annotated[str, Meta(examples=["https://play.example.org/set-password#token=7.c2VjcmV0"])]
    expires_at: EpochMilliseconds
