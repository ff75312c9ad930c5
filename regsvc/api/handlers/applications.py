"""Routes of an application, which its token opens: status."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from regsvc.api.base import ApiHandler
from regsvc.api.endpoint import APPLICATION_TOKEN, endpoint
from regsvc.api.replies import to_reply
from regsvc.api.types.applications import ApplicationQuery, ApplicationReply, GivenAnswerFields
from regsvc.core import errors
from regsvc.registration.applications.status import ApplicationStatus

APPLICATION_TOKEN_HEADER: Final = "X-Application-Token"  # noqa: S105 - a name


class ApplicationHandler(ApiHandler):
    @endpoint(errors.ApplicationNotFound, errors.RateLimited, credentials=(APPLICATION_TOKEN,))
    async def get(self, query: ApplicationQuery) -> ApplicationReply:
        """Show an application to clients with its token, which opens nothing else.

        The token is in the reply to the registration and in the receipt's link. It ends with the application, and when
        the user's address changes.
        """
        self.services.status_limits.hit(self.caller)
        found = await self.services.applications.find(self.application_token(query))
        return application_reply(replace(found, reason=self.word_reason(found.reason)))

    def application_token(self, query: ApplicationQuery) -> str:
        """Return the token in the header or else in the query; empty if there is none."""
        return self.request.headers.get(APPLICATION_TOKEN_HEADER) or query.token or ""


def application_reply(found: ApplicationStatus) -> ApplicationReply:
    answers = None
    if found.answers is not None:
        answers = [to_reply(GivenAnswerFields, answer, answer="\n".join(answer.answers)) for answer in found.answers]
    return to_reply(ApplicationReply, found, answers=answers)
