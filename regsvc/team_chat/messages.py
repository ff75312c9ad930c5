"""Messages in the team's chats about applications: enqueued with their cause, and kept as the application is now.

A message in the outbox names an applicant, not a text: as it is sent, it brings the chats up to date.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Any, ClassVar, Final
from urllib.parse import quote

from regsvc.config.host_sections import TeamChat, WebhookEvent
from regsvc.core.clock import Clock, from_epoch_ms
from regsvc.core.i18n import Translations
from regsvc.core.text import name_key, shorten
from regsvc.database.bulk import redate
from regsvc.database.models import (
    PENDING,
    ChatLink,
    OutboxEntry,
    TeamChatEvent,
    TeamChatMessage,
    User,
)
from regsvc.notifications.delivery import Drop, Transport
from regsvc.notifications.outbox import Outbox, Outcome, Recipient, RetryPolicy
from regsvc.team_chat.platform import MessageContent, MessageGone, Platform
from regsvc.users.password_notices import Place
from regsvc.users.questions import find_questions
from regsvc.users.signals import SignalFields
from regsvc.users.user_details import QuestionnaireResult
from regsvc.users.user_list import UserFields, UserList

KIND: Final = "team_chat"
_UPDATE: Final = "update"
"""Template of entries that bring a chat up to date once they are due; they are sent to nobody."""
_UPDATE_EVERY: Final = timedelta(minutes=1)
"""Period in which a chat is told at most once of one application's changed answers: as they are then."""
TEST: Final = "test"
"""Verb of the button in the message that `companion team-chat test` sends."""
_NEWS: Final = frozenset({"registered", "reopened", "question_answered", "stay_asked"})
"""Events after which there is a new message, since an edited one is not noticed."""
_STAY_DECIDED: Final = "stay_decided"
_CHANGES: Final = frozenset({"approved", "rejected", "banned", "deleted", "question_asked", _STAY_DECIDED})
_ANSWERS_CHANGED: Final = "answers_changed"
_VERBS: Final = ("approve", "reject", "ask")
_EVENTS_KEPT: Final = timedelta(minutes=15)
_MAX_NAME: Final = 100
_MAX_LINE: Final = 500
_RETRY_POLICY: Final = RetryPolicy(
    first_retry=timedelta(seconds=1),
    longest_retry=timedelta(minutes=1),
    max_age=timedelta(days=3),
)


class TeamChatQueue:
    """Queue of what the chats are to be told. Messages of one chat are sent in order."""

    def __init__(
        self,
        chats: Sequence[TeamChat],
        language: str,
        now: Clock,
        on_finished: Callable[[OutboxEntry, Outcome], None] = lambda message, outcome: None,
    ) -> None:
        """`language`: that of chats that have none of their own."""
        self.chats = {chat.name: chat for chat in chats}
        self.is_on = bool(chats)
        """Whether any chat is configured."""
        self._language = language
        self._now = now
        self.platforms = sorted({chat.platform for chat in chats})
        """The platforms on which players are told what concerns them, where their account is linked."""
        self._on_finished = on_finished
        self.outbox = Outbox(now, KIND, _RETRY_POLICY, on_sent=self._keep_told, on_finished=self._count)

    def language_of(self, chat: TeamChat) -> str:
        """Return the language of the chat's messages."""
        return chat.language or self._language

    def enqueue(self, event: WebhookEvent | str, username: str) -> None:
        """Enqueue what every chat is to show of this user, in the transaction of the event.

        Changed answers, as many as the applicant likes, are one update a minute; the transaction has locked the user.
        """
        if event == _ANSWERS_CHANGED:
            self._enqueue_updates(username)
        elif event in _NEWS or event in _CHANGES:
            for chat in self.chats.values():
                self._put(event, chat, username)

    def refresh(self, username: str) -> None:
        """Enqueue at once what every chat is to show of this user: a member has met what is out of date."""
        for chat in self.chats.values():
            self._put(_ANSWERS_CHANGED, chat, username)

    def _put(self, event: str, chat: TeamChat, username: str) -> None:
        payload = json.dumps({"username": username}, ensure_ascii=False)
        self.outbox.put(event, Recipient(chat.name, chat.name), self.language_of(chat), payload=payload)

    def _enqueue_updates(self, username: str) -> None:
        """Enqueue an update for every chat, unless one waits, which will tell this change, too.

        It has a recipient of its own, so that no other application waits for it, and becomes an entry of the chat.
        """
        payload = json.dumps({"update": username}, ensure_ascii=False)
        for name, chat in self.chats.items():
            recipient = Recipient(name, f"{name} {name_key(username)}")
            due_at = self.outbox.find_next_due(recipient, _UPDATE_EVERY)
            if due_at is not None:
                self.outbox.put(_UPDATE, recipient, self.language_of(chat), payload=payload, due_at=due_at)

    def enqueue_notice(self, key: str) -> None:
        """Enqueue a message about no application for every chat; `key`: of its text."""
        for chat in self.chats.values():
            self.outbox.put(key, Recipient(chat.name, chat.name), self.language_of(chat), payload='{"notice":true}')

    def enqueue_test(self, chat: TeamChat, number: int) -> None:
        """Enqueue a test message, for the daemon that is connected."""
        language, payload = self.language_of(chat), json.dumps({"test": number})
        self.outbox.put(TEST, Recipient(chat.name, chat.name), language, payload=payload)

    def hasten(self, names: Sequence[str]) -> None:
        """Make messages to these recipients due that were to wait for long, since nothing was connected.

        A recipient is the name of a chat, or of a platform: what applicants are told there.
        """
        is_waiting = OutboxEntry.next_attempt_at > self._now() + 2 * _RETRY_POLICY.claim  # and not being sent
        to_them = (OutboxEntry.kind == KIND) & OutboxEntry.recipient_key.in_(names)
        OutboxEntry.update(next_attempt_at=self._now()).where(to_them, is_waiting).execute()

    def tell_applicant(self, user: User) -> None:
        """Enqueue what an approved or rejected user is told on the platforms where their account is linked."""
        self._tell(user, f"told_{user.status}", {"status": user.status, "reason": user.reason})

    def tell_of_password(self, user: User, place: Place, at: int) -> None:
        """Enqueue what a user is told whose password was changed; `at`: milliseconds since 1970."""
        self._tell(user, "told_password_changed", {"reason": None, "place": place, "at": at})

    def _tell(self, user: User, template: str, facts: Mapping[str, object]) -> None:
        if not self.platforms:
            return
        for link in ChatLink.select().where(ChatLink.user == user.id, ChatLink.platform.in_(self.platforms)):
            recipient = Recipient(link.platform, link.platform)
            payload = json.dumps({"account": link.account_id, **facts})
            self.outbox.put(template, recipient, user.language or self._language, payload=payload)

    def _keep_told(self, message: OutboxEntry) -> None:
        """Record which messages there are, as `TeamChatTransport.send` left them in the payload."""
        payload = json.loads(message.payload or "{}")
        if message.template == _UPDATE:
            self._put(_ANSWERS_CHANGED, self.chats[message.recipient], payload["update"])
        for row_id, changes in payload.get("told", {}).items():
            changed = {**changes, "changed_at": self._now()}
            TeamChatMessage.update(changed).where(TeamChatMessage.id == int(row_id)).execute()

    def _count(self, message: OutboxEntry, outcome: Outcome) -> None:
        if message.template != _UPDATE:  # which is followed by the message
            self._on_finished(message, outcome)


@dataclass
class _MessageUpdate:
    """A message to be posted or edited."""

    content: MessageContent
    row: TeamChatMessage
    is_new: bool


@dataclass
class _Plan:
    """Messages that an entry of the outbox posts and edits."""

    platform: Platform
    updates: list[_MessageUpdate]


@dataclass(frozen=True)
class _PersonalMessage:
    """Text for a person."""

    platform: Platform
    account_id: str
    text: str


@dataclass(frozen=True)
class MessageRenderer:
    """Renderer of what messages show of an application, as far as the chat is to be told."""

    users: UserList
    find_questionnaire: Callable[[int], QuestionnaireResult | None]
    translations: Translations
    base_url: str

    def version_of(self, user: User) -> str:
        """Return the checksum of the answers of an applicant, and of which applicant it is."""
        result = self.find_questionnaire(user.id)
        answers = [(it.question, it.answers) for it in result.answers] if result is not None else []
        conversation = [(it.question, it.answer) for it in find_questions([user]).get(user.id, []) if it.answer]
        return sha256(json.dumps([user.id, answers, conversation]).encode()).hexdigest()[:12]

    def render(self, user: User, number: int, platform: Platform, language: str) -> MessageContent:
        """Return the content of an application's message as it is now."""
        entry = self.users.find_user(user.username)
        assert entry is not None, "the caller has just loaded the user"
        words = _Words(self.translations, language, platform.escape)
        status = self.describe_status(user, words)
        is_pending, asks = user.status == PENDING, user.asks_to_stay
        lines = [] if status is None else [status]
        lines += self._facts(user, entry, platform.chat, words) if is_pending else []
        verbs = _VERBS if is_pending else ("approve",) if asks else ()
        is_named, queue = "name" in platform.chat.tells, f"{self.base_url}/admin#queue"
        url = f"{queue}?name={quote(user.username, safe='')}" if is_named else queue
        return MessageContent(
            number,
            words(
                "stay_asked" if asks else "application",
                username=words.quote(user.username, _MAX_NAME) if is_named else f"#{number}",
            ),
            tuple(_fit(lines, platform.longest)),
            f"{self.base_url}/admin#users?membership=asked" if asks else url,
            self.version_of(user),
            {verb: words(f"{platform.labels}{verb}", number=number) for verb in verbs},
        )

    def close(self, known: MessageContent, key: str, platform: Platform, language: str) -> MessageContent:
        """Return the content of a message in which there is nothing to decide any more."""
        words = _Words(self.translations, language, platform.escape)
        return MessageContent(known.number, known.title, (words(key),), known.url, known.version)

    def deleted(self, row: TeamChatMessage, platform: Platform, language: str) -> MessageContent:
        """Return the content of a message about an application that is gone."""
        words = _Words(self.translations, language, platform.escape)
        return MessageContent(row.id, words("application", username=f"#{row.id}"), (words("deleted"),), "", row.version)

    def describe_status(self, user: User, words: "_Words") -> str | None:
        """Return what was decided and by whom; None while nothing was."""
        if user.status == PENDING or user.asks_to_stay:
            return None
        by = words.quote(user.reviewed_by or "", _MAX_NAME)
        line = words(f"decided_{user.status}", by=by)
        reason = self.translations.reason(user.reason, words.language)
        return line if not reason else f"{line} {words.quote(reason)}"

    def _facts(self, user: User, entry: UserFields, chat: TeamChat, words: "_Words") -> Iterator[str]:
        result = self.find_questionnaire(user.id)
        if "score" in chat.tells and result is not None:
            facts = {"score": result.score, "max_score": result.max_score, "pass_score": result.pass_score}
            yield self.translations.text("questionnaire.points", words.language, **facts)
        for signal in entry.signals if "signals" in chat.tells else ():
            yield words.describe(signal, tells_names="name" in chat.tells)
        for asked in find_questions([user]).get(user.id, []):
            yield words("asked", by=words.quote(asked.author, _MAX_NAME), question=words.quote(asked.question))
            if asked.answer is not None:
                yield words("answered", answer=words.quote(asked.answer if "answers" in chat.tells else "/admin"))
        for answered in result.answers if "answers" in chat.tells and result is not None else ():
            answer = "; ".join(answered.answers) or "–"
            yield f"{words.quote(answered.question)} — {words.quote(answer)}"


@dataclass(frozen=True)
class _Words:
    """Texts of `[team_chat]` in one language, and those of other people, escaped."""

    translations: Translations
    language: str
    escape: Callable[[str], str]

    def __call__(self, key: str, /, **facts: object) -> str:
        return self.translations.text(f"team_chat.{key}", self.language, **facts)

    def describe(self, signal: SignalFields, *, tells_names: bool) -> str:
        """Return a signal as /admin words it, with the names of the others, and whether they were banned.

        One of them may be, or look like, the applicant's own.
        """
        if signal.kind == "earlier_rejection":
            return self("rejected_before", count=signal.count)
        found = ", ".join(self.translations.text(f"page.admin.source_{it}", self.language) for it in signal.sources)
        facts = {"count": signal.count, "from": found, "seconds": signal.seconds, "usual": signal.usual_seconds}
        text = self.translations.text(f"page.admin.signal_{signal.kind}", self.language, **facts)
        others = (
            f"{self.quote(it.username, _MAX_NAME)} ({self.translations.text(f'status.{it.status}', self.language)})"
            for it in (signal.users if tells_names else ())
        )
        return f"{text} {', '.join(others)}".rstrip()

    def quote(self, text: str, length: int = _MAX_LINE) -> str:
        """Return another person's text, cut and escaped."""
        return self.escape(shorten(text, length))


def _fit(lines: Sequence[str], longest: int) -> Iterator[str]:
    """Yield as many whole lines as there is room for."""
    left = longest - 2
    for line in lines:
        if len(line) + 1 > left:
            yield "…"
            return
        left -= len(line) + 1
        yield line


@dataclass(frozen=True)
class TeamChatTransport(Transport):
    """Transport that brings the chats up to date about a user, and tells applicants of decisions."""

    noun: ClassVar[str] = "chat message"

    platforms: Mapping[str, Platform]
    """By the names of their chats."""
    queue: TeamChatQueue
    renderer: MessageRenderer
    translations: Translations
    server_name: str
    now: Clock

    def prepare(self, message: OutboxEntry) -> "_Plan | _PersonalMessage | None":
        payload = json.loads(message.payload or "{}")
        if "account" in payload:
            return self._write(message, payload)
        platform = self.platforms.get(message.recipient)
        if platform is None:
            raise Drop("this chat is not configured any more")
        if message.template == _UPDATE:
            return None
        if "test" in payload:
            row = TeamChatMessage.get_or_none(TeamChatMessage.id == payload["test"], TeamChatMessage.user_id == 0)
            if row is None:
                raise Drop("there is a newer test")
            content = make_test_content(int(row.id), self.translations, message.language, TEST, label=platform.labels)
            return _Plan(platform, [_MessageUpdate(content, row, is_new=True)])
        if "notice" in payload:
            title = self.translations.text(f"team_chat.{message.template}", message.language, server=self.server_name)
            content = MessageContent(0, title, (), f"{self.renderer.base_url}/admin#queue", "")
            return _Plan(platform, [_MessageUpdate(content, TeamChatMessage(id=0, user_id=0), is_new=True)])
        plan = _Plan(platform, list(self._list_updates(message, platform, payload["username"])))
        if not plan.updates:
            raise Drop("there is nothing to tell")
        return plan

    async def send(self, message: OutboxEntry, prepared: "_Plan | _PersonalMessage | None") -> None:
        if prepared is None:  # an update, which becomes an entry of the chat as it is recorded as sent
            return
        if isinstance(prepared, _PersonalMessage):
            await prepared.platform.write_to(prepared.account_id, prepared.text)
            return
        told = dict[int, dict[str, object]]()
        for update in prepared.updates:
            remote_id = None if update.is_new else str(update.row.remote_id)
            try:
                if remote_id is not None:
                    await prepared.platform.edit(remote_id, update.content)
            except MessageGone:
                remote_id = None
            if remote_id is None and (update.is_new or update.content.labels):
                remote_id = await prepared.platform.post(update.content, message.id)
            if not update.row.user_id:  # a test, which may be answered already
                told[update.row.id] = {"remote_id": remote_id}
                continue
            told[update.row.id] = {
                "remote_id": remote_id,
                "shown": update.content.digest,
                "version": update.content.version,
                "is_open": bool(update.content.labels),
            }
        message.payload = json.dumps({"told": told})  # the queue records it together with the success

    def _list_updates(self, message: OutboxEntry, platform: Platform, username: str) -> Iterator[_MessageUpdate]:
        """Yield the messages to post and edit, so that the chat shows the application as it is now."""
        language, key = message.language, name_key(username)
        user = User.get_or_none(User.username_key == key)
        rows = TeamChatMessage.select().where(TeamChatMessage.username_key == key, TeamChatMessage.is_open)
        for other in rows.where(TeamChatMessage.chat == platform.chat.name):
            if other.remote_id is not None and (user is None or other.user_id != user.id):
                yield _MessageUpdate(self.renderer.deleted(other, platform, language), other, is_new=False)
        if user is None:
            return
        own = (TeamChatMessage.chat == platform.chat.name) & (TeamChatMessage.user_id == user.id)
        row: TeamChatMessage | None = TeamChatMessage.get_or_none(own)
        if row is None and user.status != PENDING and not user.asks_to_stay:
            return
        row = row or self._create_row(platform.chat, user)
        content = self.renderer.render(user, int(row.id), platform, language)
        if content.labels and (row.remote_id is None or message.template in _NEWS):
            if row.remote_id is not None and row.is_open:
                yield _MessageUpdate(self.renderer.close(content, "moved", platform, language), row, is_new=False)
            yield _MessageUpdate(content, row, is_new=True)
        elif message.template == _STAY_DECIDED and not content.labels:
            if row.remote_id is not None and row.is_open:
                yield _MessageUpdate(self.renderer.close(content, _STAY_DECIDED, platform, language), row, is_new=False)
        elif row.remote_id is not None and row.shown != content.digest:
            yield _MessageUpdate(content, row, is_new=False)

    def _create_row(self, chat: TeamChat, user: User) -> TeamChatMessage:
        return TeamChatMessage.create(
            chat=chat.name,
            user_id=user.id,
            username_key=user.username_key,
            shown="",
            version="",
            is_open=True,
            changed_at=self.now(),
        )

    def _write(self, message: OutboxEntry, payload: Mapping[str, Any]) -> _PersonalMessage:
        """Return what a player is told on the first chat of the platform. Raises `Drop`."""
        platform = next((it for it in self.platforms.values() if it.chat.platform == message.recipient_key), None)
        if platform is None:
            raise Drop("this platform is not configured any more")
        words = _Words(self.translations, self.translations.offered_for(message.language), platform.escape)
        facts = {}
        if "place" in payload:
            facts["where"] = self.translations.place(payload["place"], None, words.language)
            facts["when"] = self.translations.moment(from_epoch_ms(payload["at"]), words.language, self.now())
        text = words(message.template, server=words.quote(self.server_name), **facts)
        reason = self.translations.reason(payload["reason"], words.language)
        return _PersonalMessage(
            platform, payload["account"], text if not reason else f"{text}\n{words.quote(reason, 1000)}"
        )


def make_test_content(
    number: int, translations: Translations, language: str, key: str, tester: str = "", label: str = ""
) -> MessageContent:
    """Return what the message of a test shows; `key` "test": with a button, or what `Platform.labels` begins."""
    title = translations.text(f"team_chat.{key}", language, username=tester)
    labels = {TEST: translations.text(f"team_chat.{label}test_button", language, number=number)} if key == TEST else {}
    return MessageContent(number, title, (), "", "", labels)


def begin_test(chat: TeamChat, now: Clock) -> int:
    """Return the number of a new test message of this chat; an earlier one does not count any more."""
    with TeamChatMessage._meta.database.atomic():
        TeamChatMessage.delete().where(TeamChatMessage.chat == chat.name, TeamChatMessage.user_id == 0).execute()
        columns = {"shown": "", "version": "", "is_open": True, "changed_at": now()}
        return int(TeamChatMessage.create(chat=chat.name, user_id=0, username_key="", **columns).id)


def find_tester(number: int) -> str | None:
    """Return who has answered this test message, or None."""
    row = TeamChatMessage.get_or_none(TeamChatMessage.id == number, ~TeamChatMessage.is_open)
    return None if row is None else str(row.shown)


def purge_messages(now: Clock, kept: timedelta) -> None:
    """Forget what platforms sent long ago, and messages about which there has been nothing to decide for so long."""
    redate(now(), TeamChatEvent.received_at)
    TeamChatEvent.delete().where(TeamChatEvent.received_at < now() - _EVENTS_KEPT).execute()
    is_unsent, is_gone = TeamChatMessage.remote_id.is_null(), TeamChatMessage.user_id.not_in(User.select(User.id))
    is_over = ~TeamChatMessage.is_open | is_unsent | is_gone
    TeamChatMessage.delete().where(is_over, TeamChatMessage.changed_at < now() - kept).execute()
