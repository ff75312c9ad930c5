"""Routes of an application, which its token opens: its status, and a stream of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from regsvc.api.base import ApiHandler
from regsvc.api.endpoint import APPLICATION_TOKEN, endpoint
from regsvc.api.replies import to_reply
from regsvc.api.streaming import EVENT_STREAM, StreamHandler
from regsvc.api.types.applications import ApplicationQuery, ApplicationReply, GivenAnswerFields
from regsvc.core import errors
from regsvc.registration.applications.status import ApplicationStatus
from regsvc.runtime.server_sent_events import HEARTBEAT, PREAMBLE, encode_event

APPLICATION_TOKEN_HEADER: Final = "X-Application-Token"  # noqa: S105 - a name


class ApplicationHandler(ApiHandler):
    @endpoint(errors.ApplicationNotFound, errors.RateLimited, credentials=(APPLICATION_TOKEN,))
    async def get(self, query: ApplicationQuery) -> ApplicationReply:
        """Show an application to clients with its token, which opens nothing else.

        The token is in the reply to the registration and in the receipt's link. It ends with the application, and when
        the user's address changes.
        """
        self.services.status_limits.hit(self.caller)
        found = await self.services.applications.statuses.find(application_token(self, query))
        return application_reply(self, found)


class ApplicationEventsHandler(StreamHandler):
    @endpoint(
        errors.ApplicationNotFound,
        errors.RateLimited,
        errors.TooManyStreams,
        media_type=EVENT_STREAM,
        credentials=(APPLICATION_TOKEN,),
    )
    async def get(self, query: ApplicationQuery) -> None:
        """Stream an application, at once and within two seconds of any change, to clients with its token.

        Events are `application`; their `data` is what `GET /api/application` replies. A comment is sent every 20
        seconds. The stream ends with the application, and when the user's address changes. The number of streams is
        limited; a client that gets `too_many_streams` can still ask for the application from time to time.
        """
        self.services.status_limits.hit(self.caller)
        streams = self.services.applications.streams
        async with streams.listen(application_token(self, query), self.caller) as stream:
            await self.send_events(stream, _encode_each(self, streams.statuses(stream)))

    def head(self) -> None:
        self.set_stream_headers()


def application_token(handler: ApiHandler, query: ApplicationQuery) -> str:
    """Return the token in the header or else in the query; empty if there is none."""
    return handler.request.headers.get(APPLICATION_TOKEN_HEADER) or query.token or ""


async def _encode_each(handler: ApiHandler, statuses: AsyncIterator[ApplicationStatus | None]) -> AsyncIterator[bytes]:
    yield PREAMBLE
    async for status in statuses:
        yield HEARTBEAT if status is None else encode_event("application", application_reply(handler, status))


def application_reply(handler: ApiHandler, found: ApplicationStatus) -> ApplicationReply:
    answers = None
    if found.answers is not None:
        answers = [to_reply(GivenAnswerFields, answer, answer="\n".join(answer.answers)) for answer in found.answers]
    return to_reply(ApplicationReply, found, reason=handler.word_reason(found.reason), answers=answers)
