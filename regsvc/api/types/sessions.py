"""Types of the routes for sessions."""

from __future__ import annotations

from regsvc.api.types.messages import Reply, Request, Username
from regsvc.api.types.users import SessionFields, SessionId


class SessionsReply(Reply, frozen=True, kw_only=True):
    sessions: list[SessionFields]


class EndSessionRequest(Request, frozen=True, kw_only=True):
    session: SessionId


class EndUserSessionRequest(Request, frozen=True, kw_only=True):
    """The user, and one of the user's sessions."""

    username: Username
    session: SessionId
