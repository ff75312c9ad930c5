"""Export of everything stored about one user, for that user.

It does not identify other people: operators are not named, and IP addresses appear only on the user's own actions. It
contains no secrets in any form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta
from msgspec.structs import replace

from regsvc.core import errors
from regsvc.core.addresses import VerifiedSession
from regsvc.core.clock import Clock
from regsvc.core.errors import Unauthorized
from regsvc.core.shapes import Moment, Output, Username
from regsvc.database.audit import AUTOMATED_ACTORS, UNDONE, Audit, AuditRecord
from regsvc.database.models import User
from regsvc.http.messages import Email, Language, Platform, Reply, Status, to_reply
from regsvc.http.route import USER, Routes
from regsvc.notifications.mail.history import MailName
from regsvc.notifications.outbox import Fate
from regsvc.users.chat_links import ChatAccount
from regsvc.users.membership import Asked, Because
from regsvc.users.notes import list_notes
from regsvc.users.questions import AskedFields, list_questions
from regsvc.users.transitions import DecisionName
from regsvc.users.user_details import (
    Address,
    ClientFields,
    GameAddressFields,
    ListedFields,
    Origin,
    PlayerFields,
    QuestionnaireResult,
    SessionFields,
    find_listed,
    find_player,
    list_clients,
    list_game_addresses,
    list_mails,
    list_own_reviews,
    list_sessions,
)

if TYPE_CHECKING:
    from regsvc.http.call import Call

ROUTES: Final = Routes()

MAX_RECORDS: Final = 1000
"""Maximum number of records of one kind."""

YOU: Final = "you"
OPERATOR: Final = "operator"
SYSTEM: Final = "system"
NOBODY: Final = "nobody"
_FIRST_ACTIONS: Final = ("user.registered", "user.adopted", "user.deleted")


@dataclass(frozen=True)
class UserExport:
    """Export of a user's data. Blocking: for a worker thread."""

    audit: Audit
    find_chat: Callable[[int], ChatAccount | None]
    find_questionnaire: Callable[[int], QuestionnaireResult | None]
    now: Clock

    def export(self, session: VerifiedSession) -> ExportUserReply:
        """Return the export of the session's user. Raises `Unauthorized` if the user was deleted meanwhile."""
        user = User.get_or_none(User.id == session.user_id)
        if user is None:
            raise Unauthorized
        lists: dict[str, Any] = {
            "reviews": [to_reply(ExportedReview, it) for it in list_own_reviews(user, MAX_RECORDS)],
            "notes": [to_reply(ExportedNote, it) for it in list_notes(user, MAX_RECORDS) if it.is_same_user],
            "questions": [to_reply(AskedFields, it) for it in list_questions(user, MAX_RECORDS) if it.is_same_user],
            "sessions": list_sessions(user, self.now(), MAX_RECORDS, current_jti=session.jti),
            "clients": list_clients(user, MAX_RECORDS),
            "game_addresses": list_game_addresses(user, MAX_RECORDS),
            "mails": [to_reply(ExportedMail, it) for it in list_mails(user, MAX_RECORDS)],
            "audits": self._list_audits(user),
        }
        chat, questionnaire = self.find_chat(user.id), self.find_questionnaire(user.id)
        return ExportUserReply(
            exported_at=self.now(),
            user=_own_user(user),
            chat=None if chat is None else to_reply(ExportedChat, chat),
            questionnaire=None if questionnaire is None else to_reply(ExportedQuestionnaire, questionnaire),
            player=_own_player(find_player(user)),
            listed=find_listed(user.username_key),
            truncated=[name for name, found in lists.items() if len(found) >= MAX_RECORDS],
            **lists,
        )

    def _list_audits(self, user: User) -> list[ExportedAudit]:
        """Return the actions on and by this user, without those of earlier users of the name."""
        since, first_id = user.created_at, self._find_first_id(user)
        done_to = self.audit.list_entries(1, MAX_RECORDS, target=user.username, since=since).entries
        done_by = self.audit.list_entries(1, MAX_RECORDS, operator=user.username, since=since).entries
        if user.username_key in AUTOMATED_ACTORS:  # a player with one of the program's names did not do what it did
            done_by = ()
        told = (entry for entry in (*done_to, *done_by) if entry.id >= first_id and not _is_about_email_conflict(entry))
        entries = {entry.id: entry for entry in told}
        newest = sorted(entries.values(), key=lambda entry: entry.id, reverse=True)
        return [_own_audit(entry, user) for entry in newest[:MAX_RECORDS]]

    def _find_first_id(self, user: User) -> int:
        """Return the id of the audit entry that created this user or deleted the one before; 0 without such an entry.

        `created_at` alone does not tell: an adopted player may be years older than other users of the name here.
        """
        marks = (self.audit.list_entries(1, 1, action=action, target=user.username) for action in _FIRST_ACTIONS)
        return max((entry.id for mark in marks for entry in mark.entries), default=0)


def _own_user(user: User) -> ExportedUser:
    return ExportedUser(
        username=user.username,
        email=user.email,
        is_email_verified=bool(user.is_email_verified),
        status=user.status,
        language=user.language,
        platform=user.platform,
        origin=user.origin,
        registered_at=user.created_at,
        registration_ip=user.registration_ip,
        invited_by=_kind_of(user.invited_by) if user.invited_by else None,
        reason=user.reason,
        reviewed_at=user.reviewed_at,
        password_set_at=user.password_set_at,
        last_login_at=user.last_login_at,
        totp_enabled_at=user.totp_enabled_at,
        member_until=user.member_until,
        ended_because=user.ended_because,
        ended_at=user.ended_at,
        stay_asked_at=user.stay_asked_at,
    )


def _own_player(player: PlayerFields | None) -> PlayerFields | None:
    """Leave out that an address is disputed: its user would learn that another one has it."""
    if player is None:
        return None
    conflicts = tuple(field for field in player.conflicts if field != "email")
    is_undisputed = player.plugin == "conflict" and not conflicts
    return replace(player, conflicts=conflicts, plugin="synced" if is_undisputed else player.plugin)


def _is_about_email_conflict(entry: AuditRecord) -> bool:
    return entry.action == "sync.conflict" and (entry.detail or {}).get("field") == "email"


def _own_audit(entry: AuditRecord, user: User) -> ExportedAudit:
    is_own_doing = entry.operator.lower() == user.username_key and user.username_key not in AUTOMATED_ACTORS
    is_about_owner = entry.target is None or entry.target.lower() == user.username_key
    detail = entry.detail if is_about_owner else None
    if detail and "invitedBy" in detail:
        detail = {"invitedBy": _kind_of(detail["invitedBy"])}
    if detail and entry.action == UNDONE:  # without whose decisions they were
        detail = {name: value for name, value in detail.items() if name in ("statusBefore", "status")}
    return ExportedAudit(
        action=entry.action,
        by=YOU if is_own_doing else _kind_of(entry.operator),
        timestamp=entry.created_at,
        ip=entry.ip if is_own_doing else None,
        occurrences=entry.occurrences,
        detail=detail,
    )


def _kind_of(operator: str) -> str:
    if not operator:
        return NOBODY
    return SYSTEM if operator.lower() in AUTOMATED_ACTORS or operator.startswith("cli:") else OPERATOR


class ExportedUser(Output, frozen=True, kw_only=True):
    """The account itself."""

    username: Username
    email: Email | None
    is_email_verified: bool
    status: Status
    language: Language | None
    platform: Platform
    origin: Origin
    registered_at: Moment
    registration_ip: Address | None
    invited_by: Annotated[str | None, Meta(description="operator or system: whose invitation was used.")]
    reason: str | None
    reviewed_at: Moment | None
    password_set_at: Moment | None
    last_login_at: Moment | None
    totp_enabled_at: Annotated[
        Moment | None, Meta(description="When the second factor was set up here; null: it was not.")
    ]
    member_until: Annotated[Moment | None, Meta(description="When the membership ends; null: no date is set.")]
    ended_because: Because
    ended_at: Moment | None
    stay_asked_at: Asked


class ExportedAnswer(Output, frozen=True, kw_only=True):
    """A question as it was asked, with the answers, but without their points."""

    question: Annotated[str, Meta(examples=["What do you do?"])]
    answers: Annotated[list[str], Meta(examples=[["I talk to the player."]])]


class ExportedReview(Output, frozen=True, kw_only=True):
    """A decision about the account."""

    transition: DecisionName
    status_before: Status
    status_after: Status | None
    reason: str | None
    ban_expires_at: Moment | None
    reviewed_at: Moment
    answers: Annotated[list[ExportedAnswer] | None, Meta(description="The answers that the decision was about.")]


class ExportedNote(Output, frozen=True, kw_only=True):
    """A note that the team wrote about the user."""

    text: Annotated[str, Meta(examples=["Plays with Bob."])]
    created_at: Moment


class ExportedMail(Output, frozen=True, kw_only=True):
    """A mail to the user, without its text: that is rendered when the mail is sent, and not stored."""

    template: MailName
    to: Email
    language: Language
    created_at: Moment
    state: Fate
    done_at: Moment | None


class ExportedAudit(Output, frozen=True, kw_only=True):
    """An action by or on the user. `nobody`: the actor is unknown, such as the client of a failed login."""

    action: Annotated[str, Meta(examples=["user.logged_in"])]
    by: Annotated[str, Meta(extra_json_schema={"enum": ["you", "operator", "system", "nobody"]}, examples=["you"])]
    timestamp: Moment
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
    submitted_at: Moment
    answers: list[ExportedAnswer]


class ExportUserReply(Reply, frozen=True, kw_only=True):
    """All data stored about the user, newest first. The lists named in `truncated` are incomplete."""

    exported_at: Moment
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


@ROUTES.add("GET", "/api/user/export", USER, errors.RateLimited, has_status_limit=True)
async def export_user(call: Call, user_export: UserExport) -> ExportUserReply:
    """Export all data stored about you, without secrets and without data of other people."""
    export = await call.run(user_export.export, call.require_session())
    return replace(
        export,
        message=call.message("exported"),
        user=replace(export.user, reason=call.word_reason(export.user.reason)),
        reviews=[replace(review, reason=call.word_reason(review.reason)) for review in export.reviews],
    )
