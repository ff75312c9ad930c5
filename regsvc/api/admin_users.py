"""Admin routes for users: list them, show one, decide about them, their passwords and sessions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, Final, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from regsvc.accounts.decisions import DecisionResult
from regsvc.accounts.team_credentials import LINK_REFUSALS, OwnPassword
from regsvc.api.admin import Count, MailFields
from regsvc.api.base import ApiHandler
from regsvc.api.messages import (
    Email,
    EpochMilliseconds,
    Language,
    MessageReply,
    NameQuery,
    Output,
    PageNumber,
    PageSize,
    Pagination,
    Password,
    Platform,
    Reply,
    Request,
    Status,
    Totp,
    Username,
    WaitingFor,
    Warnings,
    epoch_milliseconds,
    milliseconds_of,
    to_datetime,
    to_reply,
)
from regsvc.api.questionnaire import Kind
from regsvc.api.route import Routes
from regsvc.api.users import (
    Address,
    AskedUserFields,
    ClientFields,
    Fate,
    GameAddressFields,
    ListedFields,
    Origin,
    PlayerFields,
    SessionFields,
    SessionId,
    SignalFields,
    Transition,
    find_steps,
)
from regsvc.config.host_sections import COMMAND_EVENTS
from regsvc.core import errors
from regsvc.core.errors import InvalidField, Refusal
from regsvc.core.rights import ROLES, Permission
from regsvc.core.text import MAX_REASON
from regsvc.runtime.why import Helper, Verdict, word
from regsvc.users.gates import ListedState
from regsvc.users.transitions import BUILT_IN_REASONS, TRANSITIONS, DecisionDetails, PasswordChoice
from regsvc.users.user_list import UserListItem
from regsvc.users.user_query import UserQuery

ROUTES: Final = Routes()

MAX_BATCH = 100

Reason = Annotated[
    str,
    Meta(
        max_length=MAX_REASON,
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

# --- Users ---


class UsersQuery(Request, frozen=True, kw_only=True):
    """A filter, with either a page number or a cursor."""

    page: PageNumber | None = None
    size: Annotated[PageSize, Meta(description="Users per page; 20, for `pending` 100.")] | None = None
    search: Annotated[
        Username,
        Meta(
            description="A part of the name or e-mail address, or the client address of the registration: whole, "
            "or its beginning up to a dot or colon. For `pending` also a part of an answer.",
            examples=["ali"],
        ),
    ] = ""
    match: Annotated[
        Literal["part", "whole"],
        Meta(description="`whole`: `search` is the whole name or e-mail address, which an index finds."),
    ] = "part"
    status: Annotated[
        Literal["all", "pending", "approved", "rejected", "banned"], Meta(description="`pending` is the review queue.")
    ] = "all"
    plugin: Annotated[PluginState, Meta(description="The state of the player in AuthMe's table.")] | None = None
    allowlist: Annotated[ListedState, Meta(description="The state on the game's allowlist.")] | None = None
    sort: (
        Annotated[
            Literal["newest", "oldest", "name", "score"],
            Meta(
                description="`newest`, for `pending` `oldest`. `score`, the highest first, is for `pending`. There, in "
                "every order, who waits for the team comes before who has to answer a question."
            ),
        ]
        | None
    ) = None
    platform: Annotated[Literal["java", "bedrock"], Meta(description="For `pending`.")] | None = None
    user_language: Annotated[Language, Meta(description="The applicants' language; for `pending`.")] | None = None
    below_pass: Annotated[bool, Meta(description="Fewer points so far than are needed; for `pending`.")] = False
    has_signal: Annotated[bool, Meta(description="With a signal; for `pending`. The total is not counted.")] = False
    waiting_for: (
        Annotated[
            Literal["review", "applicant"],
            Meta(description="Who waits for the team, or has to answer its question; for `pending`."),
        ]
        | None
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
    waiting_for: Annotated[WaitingFor | None, Meta(description="For pending users; else null.")]
    answered_at: Annotated[
        EpochMilliseconds | None, Meta(description="When a pending user answered the team's last question.")
    ]
    signals: Annotated[list[SignalFields], Meta(description="What to know before deciding; for pending users.")]
    plugin: Annotated[str, Meta(extra_json_schema={"enum": list(get_args(PluginState))}, examples=["synced"])]
    plugin_since: EpochMilliseconds | None
    allowlist: Annotated[
        str,
        Meta(
            extra_json_schema={"enum": list(get_args(ListedState))},
            description="The state on the game's allowlist. `waiting`: about to be added or removed; `removed`: taken "
            "off in the game, until an approval puts the user back; `conflict`: known players contradict the UUID.",
            examples=["listed"],
        ),
    ]
    last_login: EpochMilliseconds | None
    is_operator: Annotated[
        bool, Meta(description="Whether the name is an operator's: approved, the user is an admin.", examples=[False])
    ]
    role: Annotated[
        str | None,
        Meta(extra_json_schema={"enum": [*ROLES, None]}, description="The role in the team.", examples=["reviewer"]),
    ]


class UsersReply(Reply, frozen=True, kw_only=True):
    """A page of users; `nextCursor` is null on the last page."""

    users: list[UserFields]
    next_cursor: str | None
    pagination: Pagination


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


class NoteFields(Output, frozen=True, kw_only=True):
    """A note of the team about this user, or about an earlier user with the same name or e-mail address."""

    text: Annotated[str, Meta(examples=["Plays with Bob."])]
    author: Annotated[str, Meta(examples=["Olivia"])]
    created_at: EpochMilliseconds
    is_same_user: bool


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


class CommandFields(Output, frozen=True, kw_only=True):
    """A console command of the host's own, which follows a decision about the user (`game.commands`)."""

    event: Annotated[str, Meta(extra_json_schema={"enum": list(COMMAND_EVENTS)}, examples=["approved"])]
    command: Annotated[
        str,
        Meta(
            description="As it was sent; `{uuid}` while that is not known.",
            examples=["lp user 5627dd98-e6be-3c21-b8a8-e92344183641 parent add member"],
        ),
    ]
    server: Annotated[str, Meta(description='The game server; "" is the main one.', examples=[""])]
    state: Fate
    created_at: EpochMilliseconds
    done_at: EpochMilliseconds | None
    reply: Annotated[str, Meta(description="What the console replied, which proves nothing.", examples=[""])] | None
    last_error: Annotated[str, Meta(description="Why the last attempt failed.")] | None


class UserDetailsFields(UserFields, frozen=True, kw_only=True):
    """The user as in the list, with further details. Lists are newest first and have at most 100 entries."""

    is_email_verified: bool
    origin: Origin
    registration_ip: Address | None
    invited_by: Annotated[str | None, Meta(description="Whose invitation was used.")]
    password_set_at: EpochMilliseconds | None
    banned_from: Annotated[Status, Meta(description="The status that returns when the ban ends.")] | None
    questionnaire: QuestionnaireResultFields | None
    earlier_answers: Annotated[
        list[ScoredAnswerFields] | None,
        Meta(description="Those that an earlier decision or question was about, for pending users; else null."),
    ]
    history: list[HistoryFields]
    notes: list[NoteFields]
    questions: list[AskedUserFields]
    mails: list[MailFields]
    commands: list[CommandFields]
    sessions: list[SessionFields]
    clients: list[ClientFields]
    game_addresses: list[GameAddressFields]
    player: PlayerFields | None
    gates: Annotated[
        list[Literal["authme", "allowlist"]],
        Meta(description="What keeps players out of the game until they are approved; empty: nothing does."),
    ]
    listed: ListedFields | None


class UserDetailsReply(Reply, frozen=True, kw_only=True):
    user: UserDetailsFields


@ROUTES.add("GET", "/api/admin/users", Permission.USERS_READ)
async def list_users(call: ApiHandler, query: UsersQuery) -> UsersReply:
    """List users, by page or, for large tables, by cursor. `status=pending` is the review queue."""
    run = call.run if query.search and query.match == "whole" else call.run_list
    page = await run(
        call.services.users.list_users,
        UserQuery(
            page=query.page,
            size=query.size,
            search=query.search,
            match=query.match,
            status=query.status,
            plugin=query.plugin or "all",
            allowlist=query.allowlist or "all",
            sort=query.sort,
            after=query.after,
            platform=query.platform,
            language=query.user_language,
            below_pass=query.below_pass,
            has_signal=query.has_signal,
            waiting_for=query.waiting_for,
        ),
    )
    return UsersReply(
        users=[user_fields(call, entry) for entry in page.entries],
        next_cursor=page.next_cursor,
        pagination=Pagination(
            current_page=page.page,
            page_size=page.size,
            total_count=page.total,
            total_pages=page.total_pages,
            has_next=page.has_next,
            has_prev=page.has_prev,
        ),
    )


@ROUTES.add("GET", "/api/admin/user", Permission.USERS_READ, errors.UserNotFound)
async def show_user(call: ApiHandler, query: NameQuery) -> UserDetailsReply:
    """Show all details of a user: history of the name and the e-mail address, mails, commands, sessions, the player."""
    details = await call.run(call.services.user_details.get, query.username)
    return UserDetailsReply(
        user=to_reply(
            UserDetailsFields,
            details,
            **msgspec.structs.asdict(user_fields(call, details.entry)),
            history=[
                to_reply(HistoryFields, review, reason=call.word_reason(review.reason)) for review in details.history
            ],
        )
    )


class WhyStepFields(Output, frozen=True, kw_only=True):
    """A thing that may keep the player out, what is to be said about it, and who can do something."""

    name: Annotated[str, Meta(examples=["review"])]
    verdict: Annotated[str, Meta(extra_json_schema={"enum": list(get_args(Verdict))}, examples=["problem"])]
    code: Annotated[str, Meta(description="Names the sentence; more may come.", examples=["pending"])]
    text: Annotated[str, Meta(examples=["Alice has been waiting for an operator's review: approve or reject them."])]
    helper: Annotated[str, Meta(extra_json_schema={"enum": list(get_args(Helper))}, examples=["operator"])]


class WhyReply(Reply, frozen=True, kw_only=True):
    """Why a player cannot join: `answer` is the first problem of `steps`, null if there is none."""

    answer: WhyStepFields | None
    steps: list[WhyStepFields]


@ROUTES.add("GET", "/api/admin/user/why", Permission.USERS_READ)
async def explain(call: ApiHandler, query: NameQuery) -> WhyReply:
    """Tell why a player cannot join. Also answers for names that nobody has registered."""
    translations, language = call.services.translations, call.language
    steps = [
        to_reply(WhyStepFields, step, text=word(step, translations, language))
        for step in await find_steps(call, query.username)
    ]
    return WhyReply(answer=next((step for step in steps if step.verdict == "problem"), None), steps=steps)


def user_fields(call: ApiHandler, entry: UserListItem) -> UserFields:
    """Return a user as all admin routes show users."""
    rejections = entry.rejections
    return to_reply(
        UserFields,
        entry,
        reason=call.word_reason(entry.reason),
        reg_time=milliseconds_of(entry.registered_at),
        rejections=None
        if rejections is None
        else to_reply(RejectionFields, rejections, last_reason=call.word_reason(rejections.last_reason)),
        last_login=epoch_milliseconds(entry.last_login_at),
    )


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
                "before from coming back. `take` requires `users.manage`, and mails the user even if `silent`. Ignored "
                "for registrations under review, whose own password counts.",
            ),
        ]
        | None
    ) = None


class RejectRequest(ReviewRequest, frozen=True, kw_only=True):
    """A rejection. `mayReapply`: the name is free again at once, not only after `registration.reapply_after`."""

    may_reapply: bool = False


class ReopenRequest(ReviewRequest, frozen=True, kw_only=True):
    """Users who are to wait for review again; with `silent` false they are mailed."""

    silent: bool = True


class BanRequest(ReviewRequest, frozen=True, kw_only=True):
    """A ban until `expiresAt`; null: permanent. If missing, an existing ban keeps its end; a new one has none."""

    expires_at: EpochMilliseconds | UnsetType | None = UNSET


class SetPasswordRequest(ReviewRequest, frozen=True, kw_only=True):
    """A new password; without one, a link to set a password is mailed."""

    password: Password | None = None


class DecisionReply(Reply, frozen=True, kw_only=True):
    """The result for one user."""

    kind: Annotated[str, Meta(extra_json_schema={"const": "one"}, examples=["one"])] = "one"
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
    permission: Annotated[str, Meta(description="The one that is missing.", examples=["users.ban"])] | UnsetType = UNSET


class BulkDecisionReply(Reply, frozen=True, kw_only=True):
    """One result per name, in the order of the request."""

    kind: Annotated[str, Meta(extra_json_schema={"const": "many"}, examples=["many"])] = "many"
    results: list[BulkDecisionResult]


DECISION_REFUSALS: Final = (errors.UserNotFound, errors.WrongStatus, errors.ProtectedOperator)

Decide = Callable[[str], Awaitable[DecisionResult]]
MessageKey = Callable[[DecisionResult], str]


@ROUTES.add(
    "POST",
    "/api/admin/user/approve",
    TRANSITIONS["approve"].permission,
    *DECISION_REFUSALS,
    errors.PlayerReplaced,
    errors.PasswordChoiceNeeded,
    errors.AuthMeUnavailable,
    errors.MailUnavailable,
)
async def approve(call: ApiHandler, request: ApproveRequest) -> DecisionReply | BulkDecisionReply:
    """Approve a pending or rejected registration, so that the player may join.

    A player who is approved already, but was removed from the game or its allowlist, or registered there anew, is let
    in again.
    """
    return await change_status(call, request, "approve", "approved", password_choice=request.password_choice)


@ROUTES.add("POST", "/api/admin/user/reject", TRANSITIONS["reject"].permission, *DECISION_REFUSALS)
async def reject(call: ApiHandler, request: RejectRequest) -> DecisionReply | BulkDecisionReply:
    """Reject a pending registration."""
    return await change_status(call, request, "reject", "rejected", may_reapply=request.may_reapply)


@ROUTES.add("POST", "/api/admin/user/ban", TRANSITIONS["ban"].permission, *DECISION_REFUSALS, errors.RateLimited)
async def ban(call: ApiHandler, request: BanRequest) -> DecisionReply | BulkDecisionReply:
    """Ban a user, temporarily or permanently, or change a ban."""
    end = request.expires_at
    expires_at = None if isinstance(end, UnsetType) else to_datetime(end)

    def message(decided: DecisionResult) -> str:
        return "ban_changed" if decided.status_before == decided.status else "banned"

    return await change_status(call, request, "ban", message, expires_at=expires_at, keeps_expiry=end is UNSET)


@ROUTES.add(
    "POST",
    "/api/admin/user/unban",
    TRANSITIONS["unban"].permission,
    *DECISION_REFUSALS,
    errors.PlayerReplaced,
    errors.AuthMeUnavailable,
    errors.RateLimited,
)
async def unban(call: ApiHandler, request: ReviewRequest) -> DecisionReply | BulkDecisionReply:
    """Lift a ban: the user is approved.

    A player whose row AuthMe deleted meanwhile is in the game again; one that was registered there anew stays locked,
    with a warning.
    """
    return await change_status(call, request, "unban", "unbanned")


@ROUTES.add("POST", "/api/admin/user/reopen", TRANSITIONS["reopen"].permission, *DECISION_REFUSALS, errors.RateLimited)
async def reopen(call: ApiHandler, request: ReopenRequest) -> DecisionReply | BulkDecisionReply:
    """Let a rejected user wait for review again, or, with `users.ban`, an approved one, who may not play until then."""
    return await change_status(call, request, "reopen", "reopened")


@ROUTES.add("POST", "/api/admin/user/delete", TRANSITIONS["delete"].permission, *DECISION_REFUSALS)
async def delete(call: ApiHandler, request: ReviewRequest) -> DecisionReply | BulkDecisionReply:
    """Delete a user and their player."""
    return await change_status(call, request, "delete", "deleted")


@ROUTES.add(
    "POST",
    "/api/admin/user/password",
    Permission.USERS_MANAGE,
    *DECISION_REFUSALS,
    errors.InvalidPassword,
    errors.PasswordRequired,
    errors.MailUnavailable,
)
async def set_password(call: ApiHandler, request: SetPasswordRequest) -> DecisionReply | BulkDecisionReply:
    """Set a user's password, or mail the user a link to set one. A new password ends all of their sessions."""
    by = call.principal
    if request.password is None:
        mail_link = partial(call.services.password_mails.mail_link, by=by)
        return await apply(call, request, mail_link, "reset_link_sent")
    decide = partial(call.services.password_changes.set_by_admin, password=request.password, by=by)
    kept = "player_password_kept"  # by a row that stays locked
    return await apply(call, request, decide, lambda it: "player_password_set" if it.status == "approved" else kept)


async def apply(
    call: ApiHandler, request: ReviewRequest, decide: Decide, message_key: str | MessageKey
) -> DecisionReply | BulkDecisionReply:
    """Apply `decide` to the targets; `message_key` is the key of the message, or derives it from the result."""
    if request.usernames is not None:
        reply: DecisionReply | BulkDecisionReply = BulkDecisionReply(
            results=[await _result(call, name, decide, message_key) for name in request.targets]
        )
    else:
        reply = decision_reply(call, await decide(request.targets[0]), message_key)
    call.services.mail_queue.wake_all()
    return reply


def decision_reply(call: ApiHandler, decided: DecisionResult, message_key: str | MessageKey) -> DecisionReply:
    """Return the reply about one user."""
    return DecisionReply(**_outcome(call, decided, message_key))


async def change_status(
    call: ApiHandler, request: ReviewRequest, transition: str, message_key: str | MessageKey, **details: Any
) -> DecisionReply | BulkDecisionReply:
    """Apply a transition to the targets; `details` are further ones of the decision."""
    decision = DecisionDetails(request.reason, is_silent=request.silent, **details)
    decide = partial(call.services.decisions.decide, transition=transition, by=call.principal, details=decision)
    return await apply(call, request, partial(call.run, decide), message_key)


async def _result(call: ApiHandler, username: str, decide: Decide, message_key: str | MessageKey) -> BulkDecisionResult:
    try:
        decided = await decide(username)
    except Refusal as refusal:
        return BulkDecisionResult(
            success=False,
            message=call.services.translations.refusal(refusal, call.language),
            username=username,
            status=refusal.facts.get("status", UNSET),  # type: ignore[arg-type]  # that of WrongStatus is a text
            code=refusal.code,
            field=refusal.field or UNSET,
            permission=refusal.facts.get("permission", UNSET),  # type: ignore[arg-type]  # that of Forbidden is a text
        )
    return BulkDecisionResult(success=True, **_outcome(call, decided, message_key))


def _outcome(call: ApiHandler, decided: DecisionResult, message_key: str | MessageKey) -> dict[str, Any]:
    """Return the fields that replies about one user and about many have."""
    key = message_key if isinstance(message_key, str) else message_key(decided)
    return {
        "message": call.message(key, username=decided.username),
        "username": decided.username,
        "status": decided.status or "deleted",
        "warnings": list(decided.warnings) or UNSET,
    }


# --- Links and sessions ---


class PasswordLinkRequest(Request, frozen=True, kw_only=True):
    """The user to make a link for; for a member of the team also one's own password."""

    username: Username
    current_password: Password | None = None
    totp: Totp | None = None


class PasswordLinkReply(Reply, frozen=True, kw_only=True):
    """A link that sets the user's password once, until `expiresAt`. It is in this reply only."""

    username: Username
    status: Status
    link: Annotated[str, Meta(examples=["https://play.example.org/set-password#token=7.c2VjcmV0"])]
    expires_at: EpochMilliseconds


@ROUTES.add("POST", "/api/admin/user/password-link", Permission.USERS_MANAGE, *LINK_REFUSALS)
async def make_password_link(call: ApiHandler, request: PasswordLinkRequest) -> PasswordLinkReply:
    """Make a link that sets a user's password once, to hand over yourself: it is shown only now.

    One for a member of the team needs your password, and a code of your second factor if there is one; you are mailed.
    """
    own, by = OwnPassword(request.current_password, request.totp), (call.require_admin(), call.principal)
    created = await call.services.team_credentials.create_link(request.username, *by, own, call.caller)
    return to_reply(PasswordLinkReply, created, message=call.message("link_created", username=created.username))


class CreateUserRequest(Request, frozen=True, kw_only=True):
    """A new user, approved from the start. Without a password, the reply has a link with which they set one."""

    username: Username
    email: Email | None = None
    password: Password | None = None


class CreateUserReply(Reply, frozen=True, kw_only=True):
    """The user; `link` and its end are null if there is a password."""

    username: Username
    status: Status
    link: Annotated[str | None, Meta(examples=["https://play.example.org/set-password#token=7.c2VjcmV0"])]
    expires_at: EpochMilliseconds | None


@ROUTES.add(
    "POST",
    "/api/admin/user/create",
    Permission.USERS_MANAGE,
    errors.InvalidUsername,
    errors.ReservedUsername,
    errors.UsernameTaken,
    errors.ReapplyLater,
    errors.InvalidEmail,
    errors.EmailTaken,
    errors.InvalidPassword,
    errors.AuthMeUnavailable,
    errors.RateLimited,
)
async def create_user(call: ApiHandler, request: CreateUserRequest) -> CreateUserReply:
    """Create an approved user, without e-mail code and review."""
    services, by = call.services, call.principal
    created = await services.registration.create_by_admin(request.username, request.email, request.password, by.actor)
    services.mail_queue.wake_all()
    link = None
    if request.password is None:
        link = await call.run(services.password_mails.create_link, created.username, by)
    return CreateUserReply(
        message=call.message("user_created", username=created.username),
        username=created.username,
        status="approved",
        link=None if link is None else link.link,
        expires_at=None if link is None else milliseconds_of(link.expires_at),
    )


class EndUserSessionRequest(Request, frozen=True, kw_only=True):
    """The user, and one of the user's sessions."""

    username: Username
    session: SessionId


@ROUTES.add(
    "POST",
    "/api/admin/user/sessions/end",
    Permission.USERS_MANAGE,
    errors.UserNotFound,
    errors.SessionNotFound,
    errors.ProtectedOperator,
)
async def end_user_session(call: ApiHandler, request: EndUserSessionRequest) -> MessageReply:
    """End one session of a user."""
    end = call.services.session_ending.end_of
    username = await call.run(end, request.username, request.session, call.principal)
    return MessageReply(message=call.message("session_ended_of", username=username))
