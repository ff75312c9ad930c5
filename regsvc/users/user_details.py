"""Details of one user for admins: the list item with history, mails, sessions, clients and player."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from plugin_bridge.authme.players import in_milliseconds, known_email
from regsvc.auth.sessions import public_id
from regsvc.core import errors
from regsvc.core.clock import Clock, from_epoch_ms
from regsvc.core.email_address import parse_email
from regsvc.core.errors import Refusal, UserNotFound
from regsvc.core.rights import Permission
from regsvc.core.shapes import Moment, Output, Username
from regsvc.core.text import name_key
from regsvc.database.models import (
    PENDING,
    UNVERIFIED,
    Allowed,
    KnownClient,
    OutboxEntry,
    PlayerAddress,
    Review,
    Session,
    SyncRecord,
    User,
)
from regsvc.http.messages import NameQuery, Status, to_reply
from regsvc.http.route import Routes, SentAs
from regsvc.notifications.mail.history import MailFields, mail_entry
from regsvc.notifications.rcon import CommandFields, list_commands
from regsvc.users.gates import Gates
from regsvc.users.notes import NoteFields, list_notes
from regsvc.users.questions import AskedUserFields, QuestionRecord, list_questions
from regsvc.users.transitions import DecisionName
from regsvc.users.user_list import UserFields, UserList, WordReason, word_reasons

if TYPE_CHECKING:
    from regsvc.http.call import Call

ROUTES: Final = Routes()


class SessionFields(Output, frozen=True):
    """An active session."""

    id: SessionId
    """`regsvc.auth.sessions.public_id` of it."""
    audience: Annotated[str, Meta(extra_json_schema={"enum": ["user", "admin"]}, examples=["user"])]
    ip: Address | None
    started_at: Moment
    last_seen_at: Moment
    expires_at: Moment
    is_current: Annotated[bool, Meta(description="Whether it is the session of this request.", examples=[True])]
    browser: Annotated[str | None, Meta(description="As the browser calls itself at the login.", examples=["Firefox"])]
    system: Annotated[str | None, Meta(examples=["Windows"])]


class ClientFields(Output, frozen=True):
    """A client from which the user has logged in during the last weeks."""

    client: Annotated[str, Meta(description="An IPv4 address or IPv6 network.", examples=["203.0.113.7"])]
    last_login_at: Moment


class GameAddressFields(Output, frozen=True):
    """An address in the game: of the last login (`ip`), or of the registration there (`regip`)."""

    source: Annotated[str, Meta(extra_json_schema={"enum": ["ip", "regip"]}, examples=["ip"])]
    address: Address
    seen_at: Moment


class HistoryFields(Output, frozen=True, kw_only=True):
    """A decision about this user, or about an earlier user with the same name or e-mail address."""

    username: Username
    transition: DecisionName
    status_before: Status
    status_after: Status | None
    reason: str | None
    ban_expires_at: Moment | None
    operator: Annotated[str, Meta(examples=["Olivia"])]
    reviewed_at: Moment
    is_same_user: bool
    is_same_name: bool
    is_same_email: bool


class ReviewRecord(HistoryFields, frozen=True, kw_only=True):
    """A decision as it is recorded."""

    answers: tuple[AnsweredQuestion, ...] | None
    """The answers that the decision was about; None: there were none, or it was about others."""


class PlayerFields(Output, frozen=True):
    """The player in the game, as of the last sync with AuthMe's table."""

    presence: Annotated[
        str, Meta(extra_json_schema={"enum": ["unasked", "absent", "present", "gone"]}, examples=["present"])
    ]
    plugin: Annotated[str, Meta(examples=["synced"])]
    since: Moment
    realname: Username | None
    email: str | None
    registered_at: Moment | None
    wish: Annotated[str, Meta(description="The pending change to the player's row.", examples=["provision"])] | None
    lock_reason: Annotated[str, Meta(examples=["banned"])] | None
    locked_at: Moment | None
    premium_uuid: str | None
    """Moved out of the user's own row while that is locked."""
    conflicts: Annotated[
        tuple[str, ...], Meta(description="Fields that differ between the two sides.", examples=[["email"]])
    ]


class ListedFields(Output, frozen=True):
    """The user's entry on the game's allowlist, or the one to be added or removed, and what it waits for."""

    uuid: Annotated[str, Meta(examples=["5627dd98-e6be-3c21-b8a8-e92344183641"])] | None
    reason: (
        Annotated[str, Meta(examples=["no_uuid", "no_profile", "uuid_in_doubt", "restart", "refused", "held_back"])]
        | None
    )
    since: Moment


def list_sessions(user: User, moment: datetime, limit: int, *, current_jti: str | None = None) -> list[SessionFields]:
    """Return the active sessions, newest first."""
    stands = (Session.expires_at > moment) & (Session.token_generation == user.token_generation)
    rows = _newest(Session.select().where(Session.user == user.id, stands), Session.created_at, limit)
    devices = [(row.device or "/").partition("/") for row in rows]
    return [
        SessionFields(
            id=public_id(row.jti),
            audience=row.audience,
            ip=row.ip,
            started_at=row.created_at,
            last_seen_at=row.last_seen_at,
            expires_at=row.expires_at,
            is_current=row.jti == current_jti,
            browser=browser or None,
            system=system or None,
        )
        for row, (browser, _slash, system) in zip(rows, devices, strict=True)
    ]


def list_clients(user: User, limit: int) -> list[ClientFields]:
    """Return the known clients, latest login first."""
    rows = _newest(KnownClient.select().where(KnownClient.user == user.id), KnownClient.last_login_at, limit)
    return [ClientFields(row.client, row.last_login_at) for row in rows]


def list_game_addresses(user: User, limit: int) -> list[GameAddressFields]:
    """Return the addresses that the user's player had in the game, the newest first."""
    rows = _newest(PlayerAddress.select().where(PlayerAddress.user == user.id), PlayerAddress.seen_at, limit)
    return [GameAddressFields(row.source, row.address, row.seen_at) for row in rows]


def list_mails(user: User, limit: int) -> list[MailFields]:
    """Return the mails about the user, newest first, and those to their proven address."""
    is_own = OutboxEntry.user_id == user.id
    if user.proven_key is not None:
        is_own = is_own | (OutboxEntry.recipient_key == user.proven_key)
    rows = _newest(OutboxEntry.select().where(OutboxEntry.kind == "mail", is_own), OutboxEntry.id, limit)
    return [mail_entry(row, user.username if row.user_id == user.id else None) for row in rows]


def list_own_reviews(user: User, limit: int) -> list[ReviewRecord]:
    """Return the decisions about this very user, newest first."""
    is_own = (Review.username_key == user.username_key) & (Review.user_id == user.id)
    return [_review(row, user) for row in _newest(Review.select().where(is_own), Review.id, limit)]


def list_history(user: User, limit: int) -> list[ReviewRecord]:
    """Return the decisions about this user and about earlier users of the name or the proven mailbox, newest first."""
    belongs = Review.username_key == user.username_key
    if user.proven_mailbox is not None:
        belongs = belongs | (Review.mailbox == user.proven_mailbox)
    return [_review(row, user) for row in _newest(Review.select().where(belongs), Review.id, limit)]


def find_player(user: User) -> PlayerFields | None:
    """Return the sync record of this user's name, or None."""
    row = SyncRecord.get_or_none(SyncRecord.username_key == user.username_key)
    if row is None:
        return None
    return PlayerFields(
        presence=row.presence,
        plugin=row.plugin_state,
        since=row.plugin_since,
        realname=row.base_realname,
        email=known_email(row.base_email),
        registered_at=_game_time(row.base_regdate),
        wish=row.intent,
        lock_reason=row.lock_reason,
        locked_at=row.locked_at,
        premium_uuid=row.kept_premium_uuid if row.kept_origin != UNVERIFIED else None,
        conflicts=tuple(row.conflict.split(",")) if row.conflict else (),
    )


def find_listed(key: str) -> ListedFields | None:
    """Return the record of the user with this `username_key` on the game's allowlist, or None."""
    row = Allowed.get_or_none(Allowed.username_key == key)
    return None if row is None else ListedFields(row.uuid, row.reason, row.since)


def _newest(query: Any, column: Any, limit: int) -> Any:
    return query.order_by(column.desc()).limit(limit)


def _review(row: Review, user: User) -> ReviewRecord:
    return ReviewRecord(
        username=row.username,
        transition=row.transition,
        status_before=row.status_before,
        status_after=row.status_after,
        reason=row.reason,
        ban_expires_at=row.ban_expires_at,
        operator=row.operator,
        reviewed_at=row.reviewed_at,
        is_same_user=row.user_id == user.id,
        is_same_name=row.username_key == user.username_key,
        is_same_email=row.mailbox is not None and row.mailbox == user.proven_mailbox,
        answers=None if row.answers is None else _parse_answers(row.answers),
    )


def _parse_answers(stored: str) -> tuple[AnsweredQuestion, ...]:
    return msgspec.json.decode(stored, type=tuple[AnsweredQuestion, ...])


def _game_time(written: int | None) -> datetime | None:
    """Return a time from AuthMe's table; None where the column is empty or out of range."""
    milliseconds = in_milliseconds(written)
    if not milliseconds or milliseconds < 0:
        return None
    try:
        return from_epoch_ms(milliseconds)
    except OverflowError:
        return None


@dataclass(frozen=True)
class AnsweredQuestion:
    """A question as it was asked, in the host's language, and its answer.

    `answers` are the chosen options, or the one text; empty: it was skipped. `points` None: an admin has to read it.
    `note` is the scoring service's reason, or empty. `option_ids` are the ids of the chosen options; results stored by
    earlier versions have none.
    """

    question_id: int
    type: str
    question: str
    answers: tuple[str, ...]
    points: int | None
    max_points: int
    note: str
    option_ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class QuestionnaireResult:
    """A user's answers before registering, with the questions as they were then."""

    score: int
    max_score: int
    pass_score: int
    is_passed: bool
    requires_review: bool
    summary: str
    submitted_at: datetime
    answers: tuple[AnsweredQuestion, ...]


MAX_RECORDS: Final = 100
"""Maximum number of records of one kind; other routes list all mails and audit entries."""


@dataclass(frozen=True)
class UserDetailsLoader:
    """Loader of user details. Blocking: for a worker thread."""

    users: UserList
    gates: Gates
    find_questionnaire: Callable[[int], QuestionnaireResult | None]
    now: Clock

    def find_email_dispute(self, username: str) -> tuple[str | None, str] | None:
        """Return the address in the game that this user did not get, and why ("Bob's", for example), or None."""
        player = SyncRecord.get_or_none(SyncRecord.username_key == name_key(username))
        if player is None or "email" not in (player.conflict or "").split(","):
            return None
        address = known_email(player.base_email)
        try:
            key = parse_email(address or "").key
        except Refusal:
            return address, "no valid address"
        owner = User.get_or_none(User.email_key == key)
        return address, f"{owner.username}'s" if owner is not None else "another one than here"

    def get(self, username: str, word_reason: WordReason) -> UserDetailsFields:
        """Return the details of the user with this name, compared case-insensitively. Raises `UserNotFound`.

        `word_reason` words the reasons of decisions. Lists have at most `MAX_RECORDS` records each.
        """
        user = User.get_or_none(User.username_key == name_key(username))
        entry = self.users.find_user(username)
        if user is None or entry is None:
            raise UserNotFound
        result = self._find_result(user.id, entry)
        history, questions = list_history(user, MAX_RECORDS), list_questions(user, MAX_RECORDS)
        earlier = _find_earlier_answers(history, questions, result) if entry.status == PENDING else None
        return UserDetailsFields(
            **msgspec.structs.asdict(word_reasons(entry, word_reason)),
            is_email_verified=bool(user.is_email_verified),
            origin=user.origin,
            registration_ip=user.registration_ip,
            invited_by=user.invited_by,
            password_set_at=user.password_set_at,
            banned_from=user.banned_from,
            questionnaire=None if result is None else to_reply(QuestionnaireResultFields, result),
            earlier_answers=None if earlier is None else [to_reply(ScoredAnswerFields, it) for it in earlier],
            history=[to_reply(HistoryFields, it, reason=word_reason(it.reason)) for it in history],
            notes=list_notes(user, MAX_RECORDS),
            questions=[to_reply(AskedUserFields, it) for it in questions],
            mails=list_mails(user, MAX_RECORDS),
            commands=list_commands(user, MAX_RECORDS),
            sessions=list_sessions(user, self.now(), MAX_RECORDS),
            clients=list_clients(user, MAX_RECORDS),
            game_addresses=list_game_addresses(user, MAX_RECORDS),
            player=find_player(user),
            gates=list(self.gates.names),
            listed=self.find_listed(user.username),
        )

    def _find_result(self, user_id: int, entry: UserFields) -> QuestionnaireResult | None:
        """Return the result; whether it is to be read is told by the list's entry."""
        result = self.find_questionnaire(user_id)
        is_to_read = bool(entry.questionnaire_requires_review)
        return None if result is None else replace(result, requires_review=is_to_read)

    def find_listed(self, username: str) -> ListedFields | None:
        """Return the record of this name on the game's allowlist; None also if the list is not kept."""
        return find_listed(name_key(username)) if "allowlist" in self.gates.names else None


def _find_earlier_answers(
    history: Sequence[ReviewRecord], questions: Sequence[QuestionRecord], result: QuestionnaireResult | None
) -> tuple[AnsweredQuestion, ...] | None:
    """Return the answers that an earlier decision or question about an applicant was about.

    Of this very user, the last that are others than now: nothing has changed since they were asked or reopened.
    """
    found = [(it.reviewed_at, it.answers, it.is_same_user) for it in history if it.answers is not None]
    found += [(it.asked_at, _parse_answers(it.about), it.is_same_user) for it in questions if it.about is not None]
    now = None if result is None else [(it.question, it.answers) for it in result.answers]
    for _at, answers, may_be_same in sorted(found, key=lambda it: it[0], reverse=True):
        if not may_be_same or [(it.question, it.answers) for it in answers] != now:
            return answers
    return None


Kind = Annotated[
    str,
    Meta(
        extra_json_schema={"enum": ["single_choice", "multiple_choice", "text"]},
        examples=["single_choice"],
    ),
]

Address = Annotated[str, Meta(description="An IP address.", examples=["203.0.113.7"])]

SessionId = Annotated[
    str, Meta(description="Names the session, for a request to end it.", examples=["3f2a9c1be07d4586a1c20b9e"])
]


Origin = Annotated[
    str,
    Meta(
        extra_json_schema={"enum": ["registered", "adopted", "created"]},
        description="Whether the user was created on the web, in the game, or by the host.",
        examples=["registered"],
    ),
]


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
    submitted_at: Moment
    answers: list[ScoredAnswerFields]


class UserDetailsFields(UserFields, frozen=True, kw_only=True):
    """The user as in the list, with further details. Lists are newest first and have at most 100 entries."""

    is_email_verified: bool
    origin: Origin
    registration_ip: Address | None
    invited_by: Annotated[str | None, Meta(description="Whose invitation was used.")]
    password_set_at: Moment | None
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


@ROUTES.add("GET", "/api/admin/user", Permission.USERS_READ, errors.UserNotFound)
async def show_user(
    call: Call, user_details: UserDetailsLoader, query: NameQuery
) -> Annotated[UserDetailsFields, SentAs("user", "UserDetailsReply")]:
    """Show all details of a user: history of the name and the e-mail address, mails, commands, sessions, the player."""
    word_reason = partial(call.translations.reason, language=call.language)
    return await call.run(user_details.get, query.username, word_reason)
