"""Routes for a user's own account: change the e-mail address, delete the account, export its data, end its sessions."""

from __future__ import annotations

from typing import Annotated, Any, Final, get_args

from msgspec import Meta

from regsvc.api.base import ApiHandler
from regsvc.api.messages import (
    Code,
    CodeProof,
    Email,
    EpochMilliseconds,
    Language,
    MessageReply,
    Output,
    Password,
    Platform,
    Reply,
    Request,
    Status,
    Totp,
    Username,
    Warnings,
    to_reply,
)
from regsvc.api.route import USER, Routes
from regsvc.auth.verification_codes import NO_CODE_OR_PROOF, CodeOrProof
from regsvc.core import errors
from regsvc.runtime.why import JoinStep, find_answer, word_for_player
from regsvc.users.signals import Kind as SignalKind
from regsvc.users.signals import Source as SignalSource

ROUTES: Final = Routes()

Address = Annotated[str, Meta(description="An IP address.", examples=["203.0.113.7"])]
SessionId = Annotated[
    str, Meta(description="Names the session, for a request to end it.", examples=["3f2a9c1be07d4586a1c20b9e"])
]
Transition = Annotated[
    str,
    Meta(extra_json_schema={"enum": ["approve", "reject", "ban", "unban", "reopen", "delete"]}, examples=["approve"]),
]
Fate = Annotated[
    str,
    Meta(
        extra_json_schema={"enum": ["waiting", "sent", "failed", "dropped"]},
        description="`dropped`: no longer relevant, so it was not sent.",
        examples=["sent"],
    ),
]
MailName = Annotated[str, Meta(description="The kind of mail.", examples=["approved"])]
Origin = Annotated[
    str,
    Meta(
        extra_json_schema={"enum": ["registered", "adopted", "created"]},
        description="Whether the user was created on the web, in the game, or by the host.",
        examples=["registered"],
    ),
]

# --- Changing the e-mail address ---


class NeighbourFields(Output, frozen=True, kw_only=True):
    """Another user whom a signal is about."""

    username: Username
    status: Status


class SignalFields(Output, frozen=True, kw_only=True):
    """A fact about an applicant, which refuses nobody; `users` are at most 5, banned ones first."""

    kind: Annotated[
        str,
        Meta(
            extra_json_schema={"enum": list(get_args(SignalKind))},
            description="`same_address`, `same_network`: others had the address, or one of its IPv4 /24 or IPv6 /64. "
            "`same_email`: the proven address was another name's. `earlier_ban`, `earlier_rejection`: of the name or "
            "the proven address. `look_alike`: others' names differ by I, l and 1 or O and 0 alone. `game_first`: "
            "registered in the game. `no_email`, `unproven_email`: where addresses have to be proven. `fast_answers`: "
            "within a tenth of the usual time. `minecraft_account`, `no_minecraft_account`: whether the name is one's.",
            examples=["same_network"],
        ),
    ]
    count: Annotated[int, Meta(ge=0, examples=[1], description="Of other users, or of earlier decisions.")]
    users: list[NeighbourFields]
    sources: Annotated[
        list[Annotated[str, Meta(extra_json_schema={"enum": list(get_args(SignalSource))})]],
        Meta(description="Where the others had the address.", examples=[["registration"]]),
    ]
    seconds: Annotated[int | None, Meta(description="Of `fast_answers`: from the proof of the address to the answers.")]
    usual_seconds: Annotated[int | None, Meta(description="Of `fast_answers`: the median of recent applications.")]


class UpdateUserRequest(Request, frozen=True, kw_only=True):
    """The new e-mail address, with the code that was mailed to it (`purpose: change_email`)."""

    email: Email
    code: Code | None = None
    proof: CodeProof | None = None
    current_password: Password


class UpdateUserReply(Reply, frozen=True, kw_only=True):
    """The current, verified e-mail address."""

    email: Email
    warnings: Warnings


# --- Deleting the account ---


class DeleteUserRequest(Request, frozen=True, kw_only=True):
    """The current password, and the second factor if there is one."""

    current_password: Password
    totp: Totp | None = None


class DeleteUserReply(Reply, frozen=True, kw_only=True):
    """The user who was deleted."""

    username: Username
    warnings: Warnings


# --- Exporting one's data ---


class ExportedUser(Output, frozen=True, kw_only=True):
    """The account itself."""

    username: Username
    email: Email | None
    is_email_verified: bool
    status: Status
    language: Language | None
    platform: Platform
    origin: Origin
    registered_at: EpochMilliseconds
    registration_ip: Address | None
    invited_by: Annotated[str | None, Meta(description="operator or system: whose invitation was used.")]
    reason: str | None
    reviewed_at: EpochMilliseconds | None
    password_set_at: EpochMilliseconds | None
    last_login_at: EpochMilliseconds | None
    totp_enabled_at: Annotated[
        EpochMilliseconds | None, Meta(description="When the second factor was set up here; null: it was not.")
    ]


class ExportedAnswer(Output, frozen=True, kw_only=True):
    """A question as it was asked, with the answers, but without their points."""

    question: Annotated[str, Meta(examples=["What do you do?"])]
    answers: Annotated[list[str], Meta(examples=[["I talk to the player."]])]


class ExportedReview(Output, frozen=True, kw_only=True):
    """A decision about the account."""

    transition: Transition
    status_before: Status
    status_after: Status | None
    reason: str | None
    ban_expires_at: EpochMilliseconds | None
    reviewed_at: EpochMilliseconds
    answers: Annotated[list[ExportedAnswer] | None, Meta(description="The answers that the decision was about.")]


class ExportedNote(Output, frozen=True, kw_only=True):
    """A note that the team wrote about the user."""

    text: Annotated[str, Meta(examples=["Plays with Bob."])]
    created_at: EpochMilliseconds


class AskedFields(Output, frozen=True, kw_only=True):
    """A question of the team about an application, and the answer."""

    question: Annotated[str, Meta(examples=["Which Bob do you know?"])]
    asked_at: EpochMilliseconds
    answer: Annotated[str, Meta(examples=["The one who builds bridges."])] | None
    answered_at: EpochMilliseconds | None


class AskedUserFields(AskedFields, frozen=True, kw_only=True):
    """A question to this user, or to an earlier user with the same name or e-mail address, and the answer."""

    author: Annotated[str, Meta(examples=["Olivia"])]
    is_same_user: bool


class SessionFields(Output, frozen=True, kw_only=True):
    """An active session."""

    id: SessionId
    audience: Annotated[str, Meta(extra_json_schema={"enum": ["user", "admin"]}, examples=["user"])]
    ip: Address | None
    started_at: EpochMilliseconds
    last_seen_at: EpochMilliseconds
    expires_at: EpochMilliseconds
    is_current: Annotated[bool, Meta(description="Whether it is the session of this request.", examples=[True])]


class GameAddressFields(Output, frozen=True, kw_only=True):
    """An address in the game: of the last login (`ip`), or of the registration there (`regip`)."""

    source: Annotated[str, Meta(extra_json_schema={"enum": ["ip", "regip"]}, examples=["ip"])]
    address: Address
    seen_at: EpochMilliseconds


class ClientFields(Output, frozen=True, kw_only=True):
    """A client from which the user has logged in during the last weeks."""

    client: Annotated[str, Meta(description="An IPv4 address or IPv6 network.", examples=["203.0.113.7"])]
    last_login_at: EpochMilliseconds


class ExportedMail(Output, frozen=True, kw_only=True):
    """A mail to the user, without its text: that is rendered when the mail is sent, and not stored."""

    template: MailName
    to: Email
    language: Language
    created_at: EpochMilliseconds
    state: Fate
    done_at: EpochMilliseconds | None


class ExportedAudit(Output, frozen=True, kw_only=True):
    """An action by or on the user. `nobody`: the actor is unknown, such as the client of a failed login."""

    action: Annotated[str, Meta(examples=["user.logged_in"])]
    by: Annotated[str, Meta(extra_json_schema={"enum": ["you", "operator", "system", "nobody"]}, examples=["you"])]
    timestamp: EpochMilliseconds
    ip: Address | None
    occurrences: Annotated[int, Meta(ge=1, examples=[1])]
    detail: dict[str, Any] | None


class ExportedChat(Output, frozen=True, kw_only=True):
    """The linked chat account."""

    platform: Annotated[str, Meta(examples=["discord"])]
    id: Annotated[str, Meta(examples=["80351110224678912"])]
    username: Annotated[str, Meta(examples=["alice"])]
    discriminator: Annotated[str, Meta(examples=["0"])]
    avatar: str | None
    global_name: str | None


class ExportedQuestionnaire(Output, frozen=True, kw_only=True):
    """The questionnaire that the user registered with."""

    score: Annotated[int, Meta(examples=[80])]
    max_score: Annotated[int, Meta(examples=[100])]
    pass_score: Annotated[int, Meta(examples=[60])]
    is_passed: bool
    submitted_at: EpochMilliseconds
    answers: list[ExportedAnswer]


class PlayerFields(Output, frozen=True, kw_only=True):
    """The player in the game, as of the last sync with AuthMe's table."""

    presence: Annotated[
        str, Meta(extra_json_schema={"enum": ["unasked", "absent", "present", "gone"]}, examples=["present"])
    ]
    plugin: Annotated[str, Meta(examples=["synced"])]
    since: EpochMilliseconds
    realname: Username | None
    email: str | None
    registered_at: EpochMilliseconds | None
    wish: Annotated[str, Meta(description="The pending change to the player's row.", examples=["provision"])] | None
    lock_reason: Annotated[str, Meta(examples=["banned"])] | None
    locked_at: EpochMilliseconds | None
    premium_uuid: str | None
    conflicts: Annotated[list[str], Meta(description="Fields that differ between the two sides.", examples=[["email"]])]


class ListedFields(Output, frozen=True, kw_only=True):
    """The user's entry on the game's allowlist, or the one to be added or removed, and what it waits for."""

    uuid: Annotated[str, Meta(examples=["5627dd98-e6be-3c21-b8a8-e92344183641"])] | None
    reason: (
        Annotated[str, Meta(examples=["no_uuid", "no_profile", "uuid_in_doubt", "restart", "refused", "held_back"])]
        | None
    )
    since: EpochMilliseconds


class ExportUserReply(Reply, frozen=True, kw_only=True):
    """All data stored about the user, newest first. The lists named in `truncated` are incomplete."""

    exported_at: EpochMilliseconds
    user: ExportedUser
    reviews: list[ExportedReview]
    notes: list[ExportedNote]
    questions: list[AskedFields]
    sessions: list[SessionFields]
    clients: list[ClientFields]
    game_addresses: list[GameAddressFields]
    mails: list[ExportedMail]
    audits: list[ExportedAudit]
    chat: ExportedChat | None
    questionnaire: ExportedQuestionnaire | None
    player: PlayerFields | None
    listed: ListedFields | None
    truncated: Annotated[list[str], Meta(examples=[[]])]


UPDATE_REFUSALS: Final = (
    errors.InvalidEmail,
    errors.DomainNotAllowed,
    errors.WrongPassword,
    errors.InvalidCode,
    errors.EmailTaken,
    errors.RateLimited,
    errors.AuthMeUnavailable,
)


@ROUTES.add("POST", "/api/user/update", USER, *UPDATE_REFUSALS)
async def update_user(call: ApiHandler, request: UpdateUserRequest) -> UpdateUserReply:
    """Change your own e-mail address, or verify the current one. The old address is notified."""
    given = CodeOrProof(request.code, request.proof)
    if given == NO_CODE_OR_PROOF:
        raise errors.InvalidField("code")
    return await change_email(call, request.email, given, request.current_password)


async def change_email(call: ApiHandler, email: str, given: CodeOrProof, password: str | None) -> UpdateUserReply:
    change_own = call.services.email_changes.change_own
    changed = await change_own(call.require_session(), email, given, password, call.caller)
    return to_reply(UpdateUserReply, changed, message=call.message("email_changed"))


DELETION_REFUSALS: Final = (
    errors.WrongPassword,
    errors.TotpRequired,
    errors.ProtectedOperator,
    errors.WrongStatus,
    errors.RateLimited,
    errors.AuthMeUnavailable,
)


@ROUTES.add("POST", "/api/user/delete", USER, *DELETION_REFUSALS)
async def delete_user(call: ApiHandler, request: DeleteUserRequest) -> DeleteUserReply:
    """Delete your own account, here and in the game. Operators and recently rejected users cannot."""
    decided = await call.services.self_deletion.delete(
        call.require_session(), request.current_password, request.totp, call.caller
    )
    return to_reply(DeleteUserReply, decided, message=call.message("deleted_own", username=decided.username))


@ROUTES.add("GET", "/api/user/export", USER, errors.RateLimited)
async def export_user(call: ApiHandler) -> ExportUserReply:
    """Export all data stored about you, without secrets and without data of other people."""
    call.services.status_limits.hit(call.address)
    export = await call.run(call.services.user_export.export, call.require_session())
    return to_reply(
        ExportUserReply,
        export,
        message=call.message("exported"),
        user=to_reply(ExportedUser, export.user, reason=call.word_reason(export.user.reason)),
        reviews=[to_reply(ExportedReview, review, reason=call.word_reason(review.reason)) for review in export.reviews],
    )


class OwnWhyReply(Reply, frozen=True, kw_only=True):
    """Why you cannot join the game, and what to do; `canJoin`: nothing that can be seen keeps you out."""

    can_join: bool
    why: Annotated[str, Meta(examples=["The game server is not running at the moment. Please try again later."])]


@ROUTES.add("GET", "/api/user/why", USER)
async def explain_own(call: ApiHandler) -> OwnWhyReply:
    """Tell why you cannot join the game."""
    return await explain_to_player(call, call.require_session().username)


async def find_steps(call: ApiHandler, username: str) -> tuple[JoinStep, ...]:
    """Return what may keep a player out, with the status of the game server as it was last seen."""
    status, is_game_known = call.services.game_status, call.services.config.game.is_known
    last = status.last_status()
    if is_game_known and last.at is None:
        last = await status.refresh()
    return await call.run(call.services.why_not.find_steps, username, last if is_game_known else None)


async def explain_to_player(call: ApiHandler, username: str) -> OwnWhyReply:
    """Return the answer for this user, in the caller's language."""
    answer = find_answer(await find_steps(call, username))
    text = word_for_player(answer, call.services.translations, call.language)
    return OwnWhyReply(can_join=answer is None, why=text)


class SessionsReply(Reply, frozen=True, kw_only=True):
    sessions: list[SessionFields]


class EndSessionRequest(Request, frozen=True, kw_only=True):
    session: SessionId


@ROUTES.add("GET", "/api/user/sessions", USER)
async def list_sessions(call: ApiHandler) -> SessionsReply:
    """List your active sessions, newest first."""
    sessions = await call.run(call.services.session_ending.list_own, call.require_session())
    return SessionsReply(sessions=[to_reply(SessionFields, session) for session in sessions])


@ROUTES.add("POST", "/api/user/sessions/end", USER, errors.SessionNotFound)
async def end_session(call: ApiHandler, request: EndSessionRequest) -> MessageReply:
    """End one of your sessions."""
    end = call.services.session_ending.end_own
    await call.run(end, call.require_session(), request.session, call.caller.address)
    return MessageReply(message=call.message("session_ended"))


class MadeReply(Reply, frozen=True, kw_only=True):
    """Things that the user made as a member of the team and that have not ended; none for a player."""

    sessions: Annotated[
        list[str], Meta(description="When the sessions at /admin began (UTC).", examples=[["2026-11-28 09:30"]])
    ]
    tokens: Annotated[list[str], Meta(description="Names of API tokens.", examples=[["discord-bot"]])]
    links: Annotated[list[str], Meta(description="For whom password links were handed over.", examples=[["Alice"]])]
    invitations: Annotated[list[str], Meta(description="Ids of invitations.", examples=[["7"]])]
    chat_accounts: Annotated[list[str], Meta(description="Platforms of chat accounts.", examples=[["discord"]])]


class EndMadeRequest(Request, frozen=True, kw_only=True):
    current_password: Password


@ROUTES.add("GET", "/api/user/made", USER)
async def list_made(call: ApiHandler) -> MadeReply:
    """List what outlives a change of your password if you are in the team: sessions at /admin, tokens, links."""
    made = await call.run(call.services.team_credentials.list_own, call.require_session())
    return MadeReply(
        sessions=made.get("sessions", []),
        tokens=made.get("tokens", []),
        links=made.get("links", []),
        invitations=made.get("invitations", []),
        chat_accounts=made.get("chatAccounts", []),
    )


@ROUTES.add("POST", "/api/user/made/end", USER, errors.WrongPassword, errors.RateLimited, errors.AuthMeUnavailable)
async def end_made(call: ApiHandler, request: EndMadeRequest) -> MessageReply:
    """End all of it but this session, as after a password that a stranger may have known."""
    await call.services.team_credentials.end_own(call.require_session(), request.current_password, call.caller)
    return MessageReply(message=call.message("made_ended"))
