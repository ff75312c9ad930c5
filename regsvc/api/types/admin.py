"""What the admin routes carry: the users, the decisions about them, the audit log, the sync."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

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
from regsvc.api.types.registration import Platform, Status
from regsvc.core.errors import InvalidField

MAX_BATCH = 100

Reason = Annotated[
    str, Meta(max_length=4000, description="Mailed to the user and shown to him.", examples=["Griefing"])
]
PluginState = Literal["synced", "absent", "locked", "conflict", "returned", "pending", "off"]
Outcome = Annotated[
    str,
    Meta(
        extra_json_schema={"enum": ["pending", "approved", "rejected", "banned", "deleted"]},
        description="The status afterwards; `deleted` where the user is gone.",
        examples=["approved"],
    ),
]
Count = Annotated[int, Meta(ge=0, examples=[1])]

# --- Users ---


class UsersQuery(Request, frozen=True, kw_only=True):
    """Which users: by pages, or from where the page before ended."""

    page: PageNumber | None = None
    size: Annotated[PageSize, Meta(description="20; of those who are `pending` 100.")] | None = None
    search: Annotated[str, Meta(description="Part of a name or e-mail address.", examples=["ali"])] = ""
    status: Annotated[
        Literal["all", "pending", "approved", "rejected", "banned"], Meta(description="`pending` is the review queue.")
    ] = "all"
    plugin: Annotated[PluginState, Meta(description="How the player in AuthMe's table stands to the user.")] | None = (
        None
    )
    sort: (
        Annotated[
            Literal["newest", "oldest", "name"], Meta(description="`newest`; of those who are `pending` `oldest`.")
        ]
        | None
    ) = None
    after: Annotated[str, Meta(description="`nextCursor` of the page before; not together with `page`.")] | None = None


class LinkedChatFields(Output, frozen=True, kw_only=True):
    """The chat account that is linked to a user."""

    id: Annotated[str, Meta(examples=["80351110224678912"])]
    username: Annotated[str, Meta(examples=["alice"])] | None


class RejectionFields(Output, frozen=True, kw_only=True):
    """How often this name, or this e-mail address under whatever name, was rejected before."""

    count: Count
    last_at: EpochMilliseconds | None
    last_reason: Annotated[str, Meta(examples=["Too young"])] | None


class UserFields(Output, frozen=True, kw_only=True):
    """A user as admins see him. Never a hash, salt, code or token."""

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
    rejections: Annotated[RejectionFields | None, Meta(description="Of who waits for a review; else null.")]
    plugin: Annotated[str, Meta(extra_json_schema={"enum": list(get_args(PluginState))}, examples=["synced"])]
    plugin_since: EpochMilliseconds | None
    last_login: EpochMilliseconds | None


class UsersReply(Reply, frozen=True, kw_only=True):
    """One page of users; `nextCursor` is null on the last one."""

    users: list[UserFields]
    next_cursor: str | None
    pagination: Pagination


# --- Decisions ---


class ReviewRequest(Request, frozen=True, kw_only=True):
    """A transition of one user (`username`) or of many (`usernames`), told to them unless `silent`."""

    username: Username | None = None
    uuid: Annotated[str, Meta(description="What older front ends call `username`.", examples=["Alice"])] | None = None
    usernames: Annotated[list[str], Meta(min_length=1, max_length=MAX_BATCH)] | None = None
    reason: Reason | None = None
    silent: bool = False

    @property
    def is_batch(self) -> bool:
        return self.usernames is not None

    @property
    def targets(self) -> list[str]:
        """The names, each once, in their order; raises InvalidField unless exactly one field is given."""
        username = self.uuid if self.username is None else self.username
        if self.usernames is not None and username is not None:
            raise InvalidField("usernames")
        if self.usernames is not None:
            return list(dict.fromkeys(self.usernames))
        if username is not None:
            return [username]
        raise InvalidField("username")


class BanRequest(ReviewRequest, frozen=True, kw_only=True):
    """`expiresAt` null: without end. Not given, a ban that stands keeps its end, and a new one has none."""

    expires_at: EpochMilliseconds | msgspec.UnsetType | None = msgspec.UNSET

    @property
    def has_end(self) -> bool:
        """Whether an end, or that there is none, was given."""
        return self.expires_at is not msgspec.UNSET

    @property
    def ends_at(self) -> datetime | None:
        return to_datetime(None if isinstance(self.expires_at, msgspec.UnsetType) else self.expires_at)


class SetPasswordRequest(ReviewRequest, frozen=True, kw_only=True):
    """Without a password, a link to set one is mailed."""

    password: Password | None = None


class DecisionReply(Reply, frozen=True, kw_only=True):
    """What became of the one user."""

    username: Username
    status: Outcome
    warnings: Warnings | UnsetType = UNSET


class BulkDecisionResult(Output, frozen=True, kw_only=True):
    """What became of one user of many: `status` as it is now, `code` where it was refused."""

    success: bool
    message: Annotated[str, Meta(examples=["Alice was approved."])]
    username: Username
    status: Outcome | UnsetType = UNSET
    warnings: Warnings | UnsetType = UNSET
    code: Annotated[str, Meta(examples=["wrong_status"])] | UnsetType = UNSET
    field: str | UnsetType = UNSET


class BulkDecisionReply(Reply, frozen=True, kw_only=True):
    """One result for each name, in their order."""

    results: list[BulkDecisionResult]


# --- The audit log ---


class AuditsQuery(Request, frozen=True, kw_only=True):
    """Which entries; `operator` did it, to `target`."""

    page: PageNumber = 1
    size: PageSize = 20
    action: Annotated[str, Meta(description="What was done.", examples=["user.approved"])] | None = None
    operator: Annotated[str, Meta(description="Who did it.", examples=["Olivia"])] | None = None
    target: Annotated[str, Meta(description="To whom it was done.", examples=["Alice"])] | None = None
    since: EpochMilliseconds | None = msgspec.field(default=None, name="from")
    until: EpochMilliseconds | None = msgspec.field(default=None, name="to")

    @property
    def since_at(self) -> datetime | None:
        return to_datetime(self.since)

    @property
    def until_at(self) -> datetime | None:
        return to_datetime(self.until)


class AuditFields(Output, frozen=True, kw_only=True):
    """Who did what to whom. `operator` is empty where nobody is known."""

    id: Annotated[int, Meta(examples=[1])]
    action: Annotated[str, Meta(examples=["user.approved"])]
    operator: Annotated[str, Meta(examples=["Olivia"])]
    target: Username | None
    detail: dict[str, Any] | None
    ip: Annotated[str, Meta(examples=["192.0.2.1"])] | None
    timestamp: EpochMilliseconds


class AuditsReply(Reply, frozen=True, kw_only=True):
    """Newest first."""

    audits: list[AuditFields]
    pagination: Pagination


# --- The sync ---


class SyncRequest(Request, frozen=True, kw_only=True):
    """`plan`: only tell what would be done."""

    plan: bool = False


class SyncConflictFields(Output, frozen=True, kw_only=True):
    """What the two sides cannot agree on, and whose word stands."""

    username: Username
    field: Annotated[str, Meta(examples=["email"])]
    kept: Annotated[str, Meta(description="Whose value stands.", examples=["plugin"])]


class SyncErrorFields(Output, frozen=True, kw_only=True):
    """What one row, or the whole table (`username` null), met."""

    username: Username | None
    error: Annotated[str, Meta(examples=["the name is no player's name"])]


class SyncHeldBackFields(Output, frozen=True, kw_only=True):
    """What was left out because it was too much at once."""

    removed: Count
    locked: Count
    edited: Count
    limit: Annotated[str, Meta(examples=["20 and 5%"])]


class SyncReportFields(Output, frozen=True, kw_only=True):
    """Counts of what was done, or would be."""

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
    """`enabled` is false, and the report empty, where AuthMe's table is not shared."""

    enabled: bool
    report: SyncReportFields
