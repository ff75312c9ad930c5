"""Actions of people in the team's chats: they link their accounts, decide and ask, by the rules of /admin."""

import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import ParamSpec, TypeVar

from peewee import IntegrityError

from regsvc.accounts.decisions import Decisions
from regsvc.accounts.membership import MembershipChanges
from regsvc.auth.entitlement import Principal
from regsvc.auth.team_accounts import TeamAccounts, find_codes
from regsvc.config.host_sections import TeamChat
from regsvc.core.clock import Clock
from regsvc.core.errors import (
    AnswersChanged,
    ChatMessageUnknown,
    ChatPersonUnknown,
    Forbidden,
    InternalServerError,
    RateLimited,
    Refusal,
    Unauthorized,
    UserNotFound,
    WrongStatus,
)
from regsvc.core.exceptions import describe_exception
from regsvc.core.i18n import Translations, find_language
from regsvc.core.rights import Permission, Team
from regsvc.database.audit import Actor
from regsvc.database.engine import Worker, violates_unique
from regsvc.database.models import PENDING, TeamChatEvent, TeamChatMessage, User
from regsvc.team_chat.messages import MessageRenderer, TeamChatQueue
from regsvc.users.transitions import DecisionDetails

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Person:
    """An account on a chat platform, as the platform names it."""

    platform: str
    title: str
    """The platform's name, as the audit log shows it."""
    account_id: str
    name: str


@dataclass(frozen=True)
class Click:
    """Action that a person asks for: a verb, the number of the message, and the text that goes with it.

    `version`: that of the answers that the person has seen; None: those that the message shows. `remote_id`: the
    platform's id of the message whose button it is; None: a command or a reply, which names the number alone.
    """

    chat: TeamChat
    person: Person
    verb: str
    number: int
    version: str | None = None
    text: str = ""
    remote_id: str | None = None


@dataclass(frozen=True)
class TeamDecisions:
    """Decisions by people in chats. Blocking: for a worker thread."""

    accounts: TeamAccounts
    team: Team
    decisions: Decisions
    renderer: MessageRenderer
    queue: TeamChatQueue
    now: Clock
    memberships: MembershipChanges

    def is_new(self, platform: str, event_id: str) -> bool:
        """Remember what a platform sent; returns False for what was received before, by any daemon."""
        try:
            with TeamChatEvent._meta.database.atomic():
                TeamChatEvent.create(id=f"{platform}:{event_id}"[:80], received_at=self.now())
        except IntegrityError as error:
            if not violates_unique(error):
                raise
            return False
        return True

    def check(self, click: Click) -> str:
        """Return what the chat calls the applicant if the person may decide about the application as they have seen it.

        Raises `ChatPersonUnknown`, `Forbidden`, `ChatMessageUnknown` and `AnswersChanged`.
        """
        return _called(click, self._check(click)[1])

    def decide(self, click: Click) -> tuple[str, str]:
        """Approve, reject or ask; returns the key of what to say, and what the chat calls the applicant.

        Raises what `check` and the decision raise.
        """
        principal, user, version = self._check(click)
        require = partial(self._require_as_seen, user.id, version, click.verb)
        if user.asks_to_stay:
            self.memberships.let_stay(user, principal, require)
        elif click.verb == "ask":
            self.decisions.ask(user.username, click.text, principal, require)
        else:
            details = DecisionDetails(click.text or None)
            self.decisions.decide(user.username, click.verb, principal, details, require)
        return f"done_{click.verb}", _called(click, user)

    def find_click(self, click: Click, remote_id: str) -> Click:
        """Return the click with the number of the message to which it replies. Raises `ChatMessageUnknown`."""
        is_it = (TeamChatMessage.chat == click.chat.name) & (TeamChatMessage.remote_id == remote_id)
        row = TeamChatMessage.get_or_none(is_it)
        if row is None:
            raise ChatMessageUnknown
        return replace(click, number=int(row.id))

    def answer_test(self, click: Click) -> str:
        """Record who answered the message of `companion team-chat test`; returns their name. Raises as `check` does."""
        user = self._find_member(click.person)
        row = _find_message(replace(click, remote_id=None))  # it decides nothing, and may not be known yet
        if row.user_id != 0:
            raise ChatMessageUnknown
        TeamChatMessage.update(shown=user.username[:64], is_open=False).where(TeamChatMessage.id == row.id).execute()
        return str(user.username)

    def link(self, person: Person, code: str) -> str:
        """Link the account to the member of the team who has the code; return their name.

        Raises `ChatCodeInvalid` and `RateLimited`.
        """
        return self.accounts.redeem(code, person.platform, person.account_id, person.name)

    def void_codes(self, person: Person, found: Collection[str], *, is_command: bool) -> bool:
        """End these codes of a text that others can read; return whether the person is to be told so.

        `is_command`: it was to link an account, which is answered as often as a code may be tried.
        """
        is_void = self.accounts.void_codes(found)
        if is_command and not is_void:
            with suppress(RateLimited):
                self.accounts.count_try(person.platform, person.account_id)
                return True
        return is_void

    def _find_member(self, person: Person) -> User:
        user = self.accounts.find_member(person.platform, person.account_id)
        if user is None:
            raise ChatPersonUnknown
        if not self.team.rights_of(user).may(Permission.USERS_REVIEW):
            raise Forbidden(permission=Permission.USERS_REVIEW)
        return user

    def _check(self, click: Click) -> tuple[Principal, User, str]:
        member = self._find_member(click.person)
        row = _find_message(click)
        user = User.get_or_none(User.id == row.user_id)
        if user is None:
            raise UserNotFound
        version = click.version or row.version
        try:
            self._require_as_seen(user.id, version, click.verb, user)
        except AnswersChanged:
            self.queue.refresh(user.username)
            raise
        actor = Actor(f"{member.username} ({click.person.title})")
        rights, require = self.team.rights_of(member), partial(self._require_member, click.person)
        return Principal(actor, rights, member.username, require_current=require), user, version

    def _require_member(self, person: Person) -> None:
        self._find_member(person)

    def _require_as_seen(self, user_id: int, version: str, verb: str, user: User) -> None:
        """Raise unless this is the applicant of a message, who waits for a decision with the answers that it shows.

        A member who asks to stay may be let stay; the rest is decided at /admin. Chats decide about who waits alone: at
        /admin a rejected user can be approved as well, but that is to be meant.
        """
        if user.id != user_id:
            raise UserNotFound
        if user.status != PENDING and not (verb == "approve" and user.asks_to_stay):
            raise WrongStatus(user.status)
        if self.renderer.version_of(user) != version:
            raise AnswersChanged


def _find_message(click: Click) -> TeamChatMessage:
    """Return the message that a click names. Raises `ChatMessageUnknown` unless it is the one that we sent there.

    Who has the token of our bot can write messages with buttons like ours, and say other things above them.
    """
    row: TeamChatMessage | None = TeamChatMessage.get_or_none(
        TeamChatMessage.id == click.number, TeamChatMessage.chat == click.chat.name
    )
    if row is None or click.remote_id not in (None, row.remote_id):
        raise ChatMessageUnknown
    return row


def _called(click: Click, user: User) -> str:
    """Return what the chat calls an applicant, as its messages do: answers may be for all of the group to read."""
    return str(user.username) if "name" in click.chat.tells else f"#{click.number}"


@dataclass(frozen=True)
class ChatReceiver:
    """Runner of the actions that platforms pass on, on a worker thread; and the words for them. For the event loop."""

    decisions: TeamDecisions
    worker: Worker
    translations: Translations
    on_decided: Callable[[], None]
    """Wakes the deliveries."""
    count: Callable[[str, str], None]
    """Counts what came of it: platform, and "done" or the code of a refusal."""
    now: Clock

    async def run(self, platform: str, event_id: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run this part of `TeamDecisions` for what a platform sent.

        Raises `Unauthorized` for what came before, and `InternalServerError` with its id for a bug, which is logged.
        """

        is_new = False

        def run_once() -> T:
            nonlocal is_new  # the worker repeats what lost a race: the event is remembered by then, and nothing is done
            is_new = is_new or self.decisions.is_new(platform, event_id)
            if not is_new:
                raise Unauthorized
            return work(*args, **kwargs)

        try:
            result = await self.worker.run(run_once)
        except Refusal as refusal:
            self.count(platform, refusal.code)
            if isinstance(refusal, AnswersChanged):
                self.on_decided()  # the message is about to show the new ones
            raise
        except Exception as error:
            log.error("%s: what it sent as %s failed: %s", platform, event_id, describe_exception(error))
            bug = InternalServerError(request_id=event_id)
            self.count(platform, bug.code)
            raise bug from error
        self.count(platform, "done")
        self.on_decided()
        return result

    async def void_codes(self, person: Person, text: str, *, is_command: bool = False) -> bool:
        """End the codes in a text that others can read; return whether the person is to be told so.

        `is_command`: the text is a command to link an account.
        """
        found = find_codes(text)
        if not found and not is_command:
            return False
        try:
            return await self.worker.run(self.decisions.void_codes, person, found, is_command=is_command)
        except Refusal as refusal:
            log.warning(
                "%s: a text that others can read may have a code, which was not ended: %s", person.title, refusal
            )
            return False

    def text(self, key: str, language: str, /, **facts: object) -> str:
        """Return a text of `[team_chat]`."""
        return self.translations.text(f"team_chat.{key}", language, **facts)

    def language_of(self, chat: TeamChat, written: object = None) -> str:
        """Return the language of a person if it is known, else that of the chat."""
        found = find_language(self.translations.available, written) if isinstance(written, str) else None
        return found or self.decisions.queue.language_of(chat)
