"""Lists of sessions, and the end of a single one: by its user, and by an admin."""

from dataclasses import dataclass

from peewee import Database

from regsvc.accounts.access import AccountAccess, Principal
from regsvc.auth.sessions import Sessions
from regsvc.core import errors
from regsvc.core.caller import VerifiedSession
from regsvc.core.clock import Clock
from regsvc.core.names import name_key
from regsvc.database.audit import Actor, Audit
from regsvc.database.models import User
from regsvc.users.user_details import MAX_RECORDS, SessionRecord, list_sessions


@dataclass(frozen=True)
class SessionEnding:
    """Active sessions of users. Blocking: for a worker thread."""

    database: Database
    sessions: Sessions
    access: AccountAccess
    audit: Audit
    now: Clock

    def list_own(self, session: VerifiedSession) -> list[SessionRecord]:
        """Return the active sessions of the session's user, newest first. Raises `Unauthorized`."""
        user = User.get_or_none(User.id == session.user_id)
        if user is None:
            raise errors.Unauthorized
        return list_sessions(user, self.now(), MAX_RECORDS, current_jti=session.jti)

    def end_own(self, session: VerifiedSession, session_id: str, ip: str) -> None:
        """End one of the sessions of the session's user, which may be the session itself. Raises `SessionNotFound`."""
        self._end(session.user_id, session.username, session_id, Actor(session.username, ip))

    def end_of(self, username: str, session_id: str, by: Principal) -> str:
        """End one session of a user and return the user's name; operators may end their own.

        Raises `UserNotFound`, `SessionNotFound`, and `ProtectedOperator` for operators of the same or a higher level.
        """
        user = User.get_or_none(User.username_key == name_key(username))
        if user is None:
            raise errors.UserNotFound
        if user.username_key != name_key(by.actor.name):
            self.access.require_permission(user.username, "session", by)
        self._end(user.id, user.username, session_id, by.actor)
        return str(user.username)

    def _end(self, user_id: int, username: str, session_id: str, by: Actor) -> None:
        with self.database.atomic():
            if not self.sessions.revoke_of(user_id, session_id):
                raise errors.SessionNotFound
            self.audit.record("user.session_ended", by.name, username, ip=by.ip)
