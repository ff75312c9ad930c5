"""The status of applications, as those who have their tokens see it, once or as a live stream.

While at least one client listens, the applications that clients listen to are loaded together every 1.5 seconds, and at
once after a change made in this process: what another process, the sync or SQL changes is not missed. Of several
changes between two loads, a client receives the last state.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta, tzinfo
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import UNSET, Meta, UnsetType, structs
from peewee import Case, fn

from regsvc.auth.derived_secrets import ApplicationToken, ApplicationTokens
from regsvc.config.live import LiveConfig
from regsvc.core import errors
from regsvc.core.addresses import Caller, public_game_address
from regsvc.core.clock import Clock, is_over
from regsvc.core.errors import ApplicationNotFound, TooManyStreams
from regsvc.core.rights import Permission
from regsvc.core.shapes import Moment, Output, Username
from regsvc.core.shared_lookup import SharedLookup
from regsvc.database.audit import AUTOMATIC, SYNC
from regsvc.database.engine import Worker
from regsvc.database.models import APPROVED, AWAITS_REVIEW, ENDED, IS_ASKED, PENDING, Review, SyncRecord, User
from regsvc.http.live_streams import EVENT_STREAM, LiveStream, LiveStreams, send_events
from regsvc.http.messages import Count, Email, Reply, Request, Status, to_reply
from regsvc.http.route import APPLICATION_TOKEN, APPLICATION_TOKEN_HEADER, PUBLIC, Routes
from regsvc.registration.questionnaire.service import OptionId, QuestionId, Questionnaires
from regsvc.runtime.event_streams import HEARTBEAT, PREAMBLE, encode_event
from regsvc.runtime.game_status import GameServers
from regsvc.runtime.join_facts import OwnWhyReply, WhyNot, explain_to_player
from regsvc.users.gates import access_of
from regsvc.users.membership import HAS_ENDED
from regsvc.users.questions import ANSWER_BY, AskedFields, find_questions
from regsvc.users.retention import find_reapply_at
from regsvc.users.transitions import needs_password
from regsvc.users.user_details import AnsweredQuestion
from regsvc.users.user_list import waiting_for
from regsvc.users.user_query import WaitingForText, count_users, has_membership

if TYPE_CHECKING:
    from regsvc.http.call import Call


ROUTES: Final = Routes()

_DECISIONS: Final = 50
_FEWEST_DECISIONS: Final = 5
_READ_REVIEWS: Final = 1000
"""The newest reviews, among which the decisions are searched: few of them are about users who waited."""
_KEPT_FOR: Final = timedelta(minutes=1)
_BY_NOBODY: Final = (AUTOMATIC.name, SYNC.name)
"""Who decides without a person: approvals where none is asked for, and rejections of who never answered."""
_DAYS: Final = 7
_MOST_DECISIONS: Final = 10_000
"""Decisions that are counted by day."""


def find_places(user_ids: Collection[int]) -> tuple[dict[int, int], int]:
    """Return the places of these users, who await review, in the line, from 1, by their id; and the line's length.

    Two statements, however many are asked for.
    """
    is_waiting = AWAITS_REVIEW
    line = (
        User.select(User.id, fn.ROW_NUMBER().over(order_by=[User.created_at, User.id]).alias("place"))
        .where(is_waiting)
        .alias("line")
    )
    asked = line.select_from(line.c.id, line.c.place).where(line.c.id.in_(sorted(user_ids))) if user_ids else None
    rows: Any = () if asked is None else asked.tuples()
    return dict(rows), int(User.select(fn.COUNT(User.id)).where(is_waiting).scalar())


class UsualWait:
    """Median time from registrations to their reviews, computed at most once a minute."""

    def __init__(self, now: Clock) -> None:
        self._now = now
        self._found_at: datetime | None = None
        self._seconds: int | None = None

    def find_seconds(self) -> int | None:
        """Return the median of the last decisions in seconds, or None if there were too few."""
        moment = self._now()
        if self._found_at is None or is_over(self._found_at, _KEPT_FOR, moment):
            self._seconds, self._found_at = _find_median(), moment
        return self._seconds


def _find_median() -> int | None:
    """Return the median of the last first decisions on registrations; automatic ones do not count."""
    newest = Review.select(fn.MAX(Review.id)).scalar() or 0
    rows: Any = (
        Review.select(Review.reviewed_at, User.created_at)
        .join(User, on=(User.id == Review.user_id))
        .where(
            Review.id > newest - _READ_REVIEWS,
            Review.status_before == PENDING,
            Review.transition.in_(("approve", "reject")),
            Review.operator.not_in(_BY_NOBODY),
            User.origin == "registered",
        )
        .order_by(Review.id.desc())
        .limit(_DECISIONS)
    )
    waits = [max(0.0, (reviewed_at - created_at).total_seconds()) for reviewed_at, created_at in rows.tuples()]
    return round(median(waits)) if len(waits) >= _FEWEST_DECISIONS else None


class DecidedFields(Output, frozen=True):
    """Number of approvals and rejections that people made on a day."""

    day: Annotated[str, Meta(description="In the host's time zone.", examples=["2026-11-27"])]
    approved: Count = 0
    rejected: Count = 0


class OverviewReply(Reply, frozen=True, kw_only=True):
    """The review queue in figures."""

    waiting: Annotated[Count | None, Meta(description="Users who wait for the team; null: very many.")]
    asked: Annotated[Count | None, Meta(description="Users who have to answer a question first; null: very many.")]
    ending_this_week: Annotated[
        Count | None, Meta(description="Users whose membership ends within a week; null: very many.")
    ]
    stay_asked: Annotated[Count | None, Meta(description="Users who asked to stay; null: very many.")]
    oldest: Annotated[Username | None, Meta(description="Who has waited longest for the team.")]
    oldest_since: Annotated[Moment | None, Meta(description="When they registered.")]
    usual_seconds: Annotated[
        int | None, Meta(description="How long reviews usually take; null: too few were made.", examples=[7200])
    ]
    decided: Annotated[
        tuple[DecidedFields, ...] | None,
        Meta(description="The last seven days, today last; null: very many decisions."),
    ]


class Applications:
    """Look-ups of applications by token; those that arrive at the same time share queries."""

    def __init__(
        self, worker: Worker, tokens: ApplicationTokens, questionnaires: Questionnaires, live: LiveConfig, now: Clock
    ) -> None:
        self._worker = worker
        self._tokens = tokens
        self._questionnaires = questionnaires
        self._live = live
        self._now = now
        self._usual_wait = UsualWait(now)
        self._lookup: SharedLookup[str, ApplicationReply] = SharedLookup(self.find_all)

    async def find(self, token: str) -> ApplicationReply:
        """Return the application of this token. Raises `ApplicationNotFound`."""
        found = await self._lookup.find(token)
        if found is None:
            raise ApplicationNotFound
        return found

    async def find_all(self, tokens: Sequence[str]) -> Mapping[str, ApplicationReply]:
        """Return the applications of these tokens, without those that are not valid."""
        return await self._worker.run(self._load, tokens)

    def overview(self) -> OverviewReply:
        """Return the review queue in figures, each from an index. Blocking: for a worker thread."""
        oldest, now = find_oldest(), self._now()
        states = has_membership("ending", now), has_membership("asked", now)
        waiting, asked, ending, stay_asked = count_users(AWAITS_REVIEW, IS_ASKED, *states)
        return OverviewReply(
            waiting=waiting,
            asked=asked,
            ending_this_week=ending,
            stay_asked=stay_asked,
            oldest=None if oldest is None else oldest.username,
            oldest_since=None if oldest is None else oldest.created_at,
            usual_seconds=self._usual_wait.find_seconds(),
            decided=count_decided(now, self._live.current.server.zone),
        )

    def _load(self, tokens: Sequence[str]) -> Mapping[str, ApplicationReply]:
        """Load any number of applications with few statements."""
        users = self._tokens.find_users(tokens)
        if not users:
            return {}
        places, waiting = find_places({user.id for user in users.values() if user.status == PENDING})
        answers = self._questionnaires.results.find_all_of({user.id for user in users.values()})
        questions = find_questions(users.values())
        with_password = _find_players_with_password([user for user in users.values() if user.status == APPROVED])
        usual_seconds = self._usual_wait.find_seconds()
        config = self._live.current
        requires_code = config.registration.requires_code
        game_address = public_game_address(config.game.address)
        statuses = {}
        for token, user in users.items():
            result = answers.get(user.id)
            is_pending = user.status == PENDING
            statuses[token] = ApplicationReply(
                username=user.username,
                email=user.email,
                status=user.status,
                received_at=user.created_at,
                place=places.get(user.id),
                waiting=waiting,
                usual_seconds=usual_seconds,
                reason=user.reason or None,
                reviewed_at=user.reviewed_at,
                reapply_at=find_reapply_at(user, config.registration.reapply_after, self._now()),
                ban_expires_at=user.ban_expires_at,
                has_password=not needs_password(user) or user.id in with_password,
                can_correct_email=is_pending and may_correct_email(user, requires_code=requires_code),
                waiting_for=waiting_for(user),
                answer_by=config.registration.answer_by(user.unanswered_since),
                questions=tuple(to_reply(AskedFields, it) for it in questions.get(user.id, ())),
                answers=None if result is None else tuple(map(_given_answer, result.answers)),
                can_edit_answers=is_pending and result is not None and self._questionnaires.is_enabled,
                has_ended=access_of(user) == ENDED or UNSET,
                game_address=game_address,
            )
        return statuses


def find_oldest() -> User | None:
    """Return name and registration of the user who has waited longest for the team, or None.

    The first is found in the index; asked for in order, MariaDB may read all users up to it instead.
    """
    waiting = User.alias()
    is_waiting = (waiting.status == PENDING) & (waiting.is_asked == False)  # noqa: E712 - SQL
    first = waiting.select(fn.MIN(waiting.created_at)).where(is_waiting)
    found = User.select(User.username, User.created_at).where(AWAITS_REVIEW, User.created_at == first)
    return found.order_by(User.id).first()  # type: ignore[no-any-return]


def count_decided(now: datetime, zone: tzinfo | None) -> tuple[DecidedFields, ...] | None:
    """Return what people decided on each of the last days, today last; `zone` None: the machine's.

    None: more than `_MOST_DECISIONS` were made, with those that nobody made.
    """
    days = [now.astimezone(zone).date() - timedelta(days=ago) for ago in range(_DAYS)]
    starts = [datetime.combine(day, time(), zone).astimezone(UTC) for day in days]
    day = Case(None, [(Review.reviewed_at >= start, number) for number, start in enumerate(starts)])
    is_of_person = Review.operator.not_in(_BY_NOBODY)
    newest = (
        Review.select(day.alias("day"), Review.transition, is_of_person.alias("is_of_person"))
        .where(Review.reviewed_at >= starts[-1])
        .order_by(Review.reviewed_at.desc())
        .limit(_MOST_DECISIONS + 1)
        .alias("newest")
    )
    columns = newest.c.day, newest.c.transition, newest.c.is_of_person
    rows: Any = newest.select_from(*columns, fn.COUNT(1)).group_by(*columns).tuples()
    counts = {(number, transition, bool(by_person)): count for number, transition, by_person, count in rows}
    if sum(counts.values()) > _MOST_DECISIONS:
        return None
    return tuple(
        DecidedFields(str(day), *(counts.get((number, decision, True), 0) for decision in ("approve", "reject")))
        for number, day in reversed(list(enumerate(days)))
    )


def may_correct_email(user: User, *, requires_code: bool) -> bool:
    """Return whether the address of a user is a note that nothing proves, which may be replaced by another one."""
    return not requires_code and not user.is_email_verified


def _find_players_with_password(users: Sequence[User]) -> set[int]:
    """Return the ids of those users who have a password in the game."""
    ids = [user.id for user in users if needs_password(user)]
    if not ids:
        return set()
    rows = SyncRecord.select(SyncRecord.user_id).where(SyncRecord.user_id.in_(ids), SyncRecord.base_hash.is_null(False))
    return {row.user_id for row in rows if row.user_id is not None}


@ROUTES.add("GET", "/api/admin/overview", Permission.USERS_READ)
async def show_overview(call: Call, applications: Applications) -> OverviewReply:
    """Tell how many applications wait, since when, how long reviews take, and what was decided in the last days."""
    return await call.run(applications.overview)


class ApplicationQuery(Request, frozen=True, kw_only=True):
    """The token of the application, where it is not in the header `X-Application-Token`."""

    token: Annotated[ApplicationToken, Meta(description="Better sent as a header: proxies log addresses.")] | None = (
        None
    )


class GivenAnswerFields(Output, frozen=True, kw_only=True):
    """An answer that the applicant gave, in the host's language. Several options are on lines of their own."""

    question_id: QuestionId
    question: Annotated[str, Meta(examples=["What do you do?"])]
    answer: Annotated[str, Meta(description="Empty: skipped.", examples=["I talk to the player."])]
    selected_option_ids: list[OptionId]


class ApplicationReply(Reply, frozen=True, kw_only=True):
    """An application: its status, its place in the line of those who wait, and what the applicant may do.

    `waitingFor` is "applicant" until the newest of `questions`, which are oldest first, is answered, and null once the
    application is decided. `place` is null unless it waits for review, `usualSeconds` where too few reviews were made,
    `reapplyAt` unless it was rejected and its name is not free yet, `answers` where no questionnaire was asked.
    """

    username: Username
    email: Email | None
    status: Status
    received_at: Moment
    place: Annotated[int, Meta(description="The place in the line, from 1.", examples=[3])] | None
    waiting: Annotated[int, Meta(description="The number of applications that wait for review.", examples=[12])]
    usual_seconds: Annotated[int, Meta(description="How long reviews usually take.", examples=[7200])] | None
    reason: str | None
    reviewed_at: Moment | None
    reapply_at: Moment | None
    ban_expires_at: Moment | None
    has_password: Annotated[
        bool, Meta(description="False: with AuthMe, a link to set one is mailed with the approval.")
    ]
    can_correct_email: bool
    waiting_for: WaitingForText | None
    answer_by: Annotated[Moment, ANSWER_BY] | None
    questions: Annotated[tuple[AskedFields, ...], Meta(description="Oldest first; only the newest can be answered.")]
    answers: tuple[GivenAnswerFields, ...] | None
    can_edit_answers: bool
    has_ended: Annotated[bool, HAS_ENDED] | UnsetType = UNSET
    game_address: (
        Annotated[str, Meta(description="The address to type into the game.", examples=["play.example.org"])] | None
    )


@ROUTES.add(
    "GET",
    "/api/application",
    PUBLIC,
    errors.ApplicationNotFound,
    errors.RateLimited,
    credentials=(APPLICATION_TOKEN,),
    has_status_limit=True,
)
async def show_application(call: Call, applications: Applications, query: ApplicationQuery) -> ApplicationReply:
    """Show an application to clients with its token, which opens nothing else.

    The token is in the reply to the registration and in the receipt's link. It ends with the application, and when
    the user's address changes.
    """
    found = await applications.find(token_of(call, query))
    return application_reply(call, found)


@ROUTES.add(
    "GET",
    "/api/application/why",
    PUBLIC,
    errors.ApplicationNotFound,
    errors.RateLimited,
    credentials=(APPLICATION_TOKEN,),
    has_status_limit=True,
)
async def explain_application(
    call: Call,
    applications: Applications,
    game_servers: GameServers,
    why_not: WhyNot,
    query: ApplicationQuery,
) -> OwnWhyReply:
    """Tell why the applicant cannot join the game, to clients with the token of the application."""
    found = await applications.find(token_of(call, query))
    return await explain_to_player(call, game_servers, why_not, found.username)


def token_of(call: Call, query: ApplicationQuery | None = None) -> str:
    """Return the token in the header or else in the query; empty if there is none."""
    in_query = None if query is None else query.token
    return call.request.headers.get(APPLICATION_TOKEN_HEADER) or in_query or ""


def application_reply(call: Call, found: ApplicationReply, message: str | UnsetType = UNSET) -> ApplicationReply:
    """Return the application as its routes show it, with the reason in the caller's language."""
    return structs.replace(found, message=message, reason=call.word_reason(found.reason))


def _given_answer(given: AnsweredQuestion) -> GivenAnswerFields:
    shown, options = "\n".join(given.answers), list(given.option_ids)
    return to_reply(GivenAnswerFields, given, answer=shown, selected_option_ids=options)


MAX_STREAMS: Final = 200
MAX_STREAMS_PER_APPLICATION: Final = 5
HEARTBEAT_INTERVAL: Final = timedelta(seconds=20)
POLL_INTERVAL: Final = timedelta(seconds=1.5)
SHORTEST_PAUSE: Final = timedelta(seconds=0.25)
"""Between two loads, however much changes."""


class ApplicationStream(LiveStream):
    """The last state of one application, for one client. Use on the event loop only."""

    def __init__(self, token: str, status: ApplicationReply, caller: Caller) -> None:
        super().__init__()
        self.token = token
        self.client = caller.limit_key
        self.network = caller.network_key
        self._status = status
        self._has_news.set()

    def put(self, status: ApplicationReply) -> None:
        """Replace the state; the client receives it if it differs."""
        if status != self._status:
            self._status = status
            self._has_news.set()

    async def next_status(self, seconds: float) -> ApplicationReply | None:
        """Return the state once it is new, or None if it is not after `seconds`."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._has_news.wait(), seconds)
        if not self._has_news.is_set():
            return None
        self._has_news.clear()
        return self._status


class ApplicationStreams(LiveStreams[ApplicationStream]):
    """All streams of applications of this process, which are loaded together."""

    contents = "applications"

    def __init__(
        self,
        applications: Applications,
        *,
        heartbeat_interval: timedelta = HEARTBEAT_INTERVAL,
        poll_interval: timedelta = POLL_INTERVAL,
        shortest_pause: timedelta = SHORTEST_PAUSE,
    ) -> None:
        super().__init__(poll_interval, shortest_pause)
        self._applications = applications
        self._heartbeat_interval = heartbeat_interval.total_seconds()

    @contextlib.asynccontextmanager
    async def listen(self, token: str, caller: Caller) -> AsyncIterator[ApplicationStream]:
        """Open a stream. Raises `ApplicationNotFound`, `TooManyStreams` and `DatabaseUnavailable`."""
        stream = ApplicationStream(token, await self._applications.find(token), caller)
        self._make_room(stream)
        self._add(stream)
        try:
            yield stream
        finally:
            self._remove(stream)

    async def statuses(self, stream: ApplicationStream) -> AsyncIterator[ApplicationReply | None]:
        """Yield the application now and after each change, and None as a heartbeat. Ends with the application."""
        while not stream.is_closed:
            status = await stream.next_status(self._heartbeat_interval)
            if not stream.is_closed:
                yield status

    def _make_room(self, newcomer: ApplicationStream) -> None:
        """End a stream for the newcomer if there are `MAX_STREAMS`: the oldest of the client with the most.

        Networks are compared before their clients, so however many addresses a network has, it keeps no other one out.
        Raises `TooManyStreams` if that is the newcomer's own client, or if its application has too many.
        """
        if sum(stream.token == newcomer.token for stream in self._streams) >= MAX_STREAMS_PER_APPLICATION:
            raise TooManyStreams
        if len(self._streams) < MAX_STREAMS:
            return
        streams = (newcomer, *self._streams)
        in_network = Counter(stream.network for stream in streams)
        of_client = Counter(stream.client for stream in streams)
        largest = max(streams, key=lambda stream: (in_network[stream.network], of_client[stream.client]))
        if largest is newcomer:
            raise TooManyStreams
        self._remove(largest)
        largest.close()

    async def _read(self) -> None:
        streams = list(self._streams)
        found = await self._applications.find_all(sorted({stream.token for stream in streams}))
        for stream in streams:
            if stream.token in found:
                stream.put(found[stream.token])
            else:
                stream.close()


@ROUTES.add(
    "GET",
    "/api/application/events",
    PUBLIC,
    errors.ApplicationNotFound,
    errors.RateLimited,
    errors.TooManyStreams,
    media_type=EVENT_STREAM,
    credentials=(APPLICATION_TOKEN,),
    has_status_limit=True,
)
async def stream_application(call: Call, application_streams: ApplicationStreams, query: ApplicationQuery) -> None:
    """Stream an application, at once and within two seconds of any change, to clients with its token.

    Events are `application`; their `data` is what `GET /api/application` replies. A comment is sent every 20
    seconds. The stream ends with the application, and when the user's address changes. The number of streams is
    limited; a client that gets `too_many_streams` can still ask for the application from time to time.
    """
    streams = application_streams
    async with streams.listen(token_of(call, query), call.caller) as stream:
        await send_events(call, stream, _encode_each(call, streams.statuses(stream)))


async def _encode_each(call: Call, statuses: AsyncIterator[ApplicationReply | None]) -> AsyncIterator[bytes]:
    yield PREAMBLE
    async for status in statuses:
        yield HEARTBEAT if status is None else encode_event("application", application_reply(call, status))
