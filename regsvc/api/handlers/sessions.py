"""Routes for sessions: list your own and end one; as an admin, end one of a user's."""

from __future__ import annotations

from regsvc.api.base import ApiHandler
from regsvc.api.endpoint import endpoint
from regsvc.api.handlers.admin import DecisionHandler
from regsvc.api.replies import to_reply
from regsvc.api.types.messages import MessageReply
from regsvc.api.types.sessions import EndSessionRequest, EndUserSessionRequest, SessionsReply
from regsvc.api.types.users import SessionFields
from regsvc.core import errors


class SessionsHandler(ApiHandler):
    @endpoint()
    async def get(self) -> SessionsReply:
        """List your active sessions, newest first."""
        sessions = await self.run(self.services.session_ending.list_own, self.require_session())
        return SessionsReply(sessions=[to_reply(SessionFields, session) for session in sessions])


class EndSessionHandler(ApiHandler):
    @endpoint(errors.SessionNotFound)
    async def post(self, request: EndSessionRequest) -> MessageReply:
        """End one of your sessions."""
        end = self.services.session_ending.end_own
        await self.run(end, self.require_session(), request.session, self.caller.address)
        return MessageReply(message=self.message("session_ended"))


class EndUserSessionHandler(DecisionHandler):
    @endpoint(errors.UserNotFound, errors.SessionNotFound, errors.ProtectedOperator)
    async def post(self, request: EndUserSessionRequest) -> MessageReply:
        """End one session of a user."""
        end = self.services.session_ending.end_of
        username = await self.run(end, request.username, request.session, self.principal)
        return MessageReply(message=self.message("session_ended_of", username=username))
