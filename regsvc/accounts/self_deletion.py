"""Ends that users put to their own account and sessions; admins end single sessions of others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from peewee import Database

from regsvc.accounts.access import AccountAccess, AccountForUpdate, Warnings
from regsvc.accounts.decisions import DecisionResult, Decisions
from regsvc.accounts.password_checker import LoginIdentity, PasswordChecker, require_account_owner
from regsvc.auth.entitlement import Principal
from regsvc.auth.second_factor import Totp
from regsvc.auth.sessions import Sessions
from regsvc.config.live import LiveConfig
from regsvc.core import errors
from regsvc.core.addresses import Caller, VerifiedSession
from regsvc.core.clock import Clock
from regsvc.core.rights import Permission
from regsvc.core.shapes import Username
from regsvc.core.text import name_key
from regsvc.database.audit import Actor, Audit
from regsvc.database.engine import Worker
from regsvc.database.models import AskedQuestion, Note, Review, User
from regsvc.http.messages import MessageReply, Password, Reply, to_reply
from regsvc.http.route import USER, Routes, SentAs
from regsvc.notifications.mail.queue import MailQueue
from regsvc.users.retention import find_reapply_at
from regsvc.users.transitions import DecisionDetails
from regsvc.users.user_details import MAX_RECORDS, SessionFields, SessionId, list_sessions

if TYPE_CHECKING:
    from regsvc.http.call import Call

ROUTES: Final = Routes()


@dataclass(frozen=True)
class SelfDeletion:
    """Deletion of the user of a session.

    It does not undo a decision: a ban revokes every session, and a rejected name stays reserved for `reapply_after`.
    Operators cannot delete themselves: anyone could then register their name in the game.
    """

    access: AccountAccess
    worker: Worker
    checker: PasswordChecker
    decisions: Decisions
    mail_queue: MailQueue
    is_operator: Callable[[str], bool]
    live: LiveConfig
    now: Clock

    async def delete(self, session: VerifiedSession, password: str, totp: str | None, caller: Caller) -> DecisionResult:
        """Delete the session's user.

        Raises `WrongPassword` and `TotpRequired` (both counted as failed logins), `ProtectedOperator` and
        `WrongStatus`.
        """
        identity = await self.checker.check_owner_with_totp(session, password, totp, caller)
        decided = await self.worker.run(self._delete, identity, caller)
        self.mail_queue.wake_all()
        return decided

    def _delete(self, identity: LoginIdentity, caller: Caller) -> DecisionResult:
        def work(locked: AccountForUpdate) -> str:
            require_account_owner(locked.user, identity)
            self.decisions.apply_sql_edit(locked)
            user = locked.user
            require_account_owner(user, identity)
            self._require_deletable(user)
            if not self.checker.use_second_factor(identity, user.id, caller):
                raise errors.TotpRequired
            self.decisions.delete(locked, Actor(user.username, caller.address), DecisionDetails(is_silent=True))
            self._remove_address(user)
            return str(user.status)

        status, warnings = self.access.change(identity.key, work, if_missing=errors.Unauthorized)
        return DecisionResult(identity.username, None, tuple(sorted(warnings)), status)

    def _require_deletable(self, user: User) -> None:
        if self.is_operator(user.username):  # the name without a row is free for anyone to register in the game
            raise errors.ProtectedOperator
        if find_reapply_at(user, self.live.current.registration.reapply_after, self.now()) is not None:
            raise errors.WrongStatus(user.status)

    def _remove_address(self, user: User) -> None:
        """Remove the e-mail address from what stays with the name, reviews, notes and questions, and mail the user."""
        models: tuple[Any, ...] = (Note, AskedQuestion, Review)
        for model in models:
            is_own = (model.username_key == user.username_key) & (model.user_id == user.id)
            model.update(email_key=None).where(is_own).execute()
        last = Review.select(Review.id).where(is_own).order_by(Review.id.desc()).first()
        self.mail_queue.send(user, "account_deleted", last.id)


@dataclass(frozen=True)
class SessionEnding:
    """Active sessions of users. Blocking: for a worker thread."""

    database: Database
    sessions: Sessions
    access: AccountAccess
    audit: Audit
    now: Clock

    def list_own(self, session: VerifiedSession) -> list[SessionFields]:
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
        if user.username_key != name_key(by.username):
            self.access.require_permission(user, "session", by)
        self._end(user.id, user.username, session_id, by.actor)
        return str(user.username)

    def _end(self, user_id: int, username: str, session_id: str, by: Actor) -> None:
        with self.database.atomic():
            if not self.sessions.revoke_of(user_id, session_id):
                raise errors.SessionNotFound
            self.audit.record("user.session_ended", by, username)


class DeleteUserReply(Reply, frozen=True, kw_only=True):
    """The user who was deleted."""

    username: Username
    warnings: Warnings


DELETION_REFUSALS: Final = (
    errors.WrongPassword,
    errors.TotpRequired,
    errors.ProtectedOperator,
    errors.WrongStatus,
    errors.RateLimited,
    errors.AuthMeUnavailable,
)


@ROUTES.add("POST", "/api/user/delete", USER, *DELETION_REFUSALS)
async def delete_user(
    call: Call, self_deletion: SelfDeletion, *, current_password: Password, totp: Totp | None = None
) -> DeleteUserReply:
    """Delete your own account, here and in the game. Operators and recently rejected users cannot.

    DeleteUserRequest: The current password, and the second factor if there is one.
    """
    decided = await self_deletion.delete(call.require_session(), current_password, totp, call.caller)
    return to_reply(DeleteUserReply, decided, message=call.message("deleted_own", username=decided.username))


@ROUTES.add("GET", "/api/user/sessions", USER)
async def show_sessions(
    call: Call, session_ending: SessionEnding
) -> Annotated[list[SessionFields], SentAs("sessions", "SessionsReply")]:
    """List your active sessions, newest first."""
    return await call.run(session_ending.list_own, call.require_session())


@ROUTES.add("POST", "/api/user/sessions/end", USER, errors.SessionNotFound)
async def end_session(call: Call, session_ending: SessionEnding, *, session: SessionId) -> MessageReply:
    """End one of your sessions."""
    end = session_ending.end_own
    await call.run(end, call.require_session(), session, call.caller.address)
    return MessageReply(message=call.message("session_ended"))


@ROUTES.add(
    "POST",
    "/api/admin/user/sessions/end",
    Permission.USERS_MANAGE,
    errors.UserNotFound,
    errors.SessionNotFound,
    errors.ProtectedOperator,
)
async def end_user_session(
    call: Call, session_ending: SessionEnding, *, username: Username, session: SessionId
) -> MessageReply:
    """End one session of a user.

    EndUserSessionRequest: The user, and one of the user's sessions.
    """
    end = session_ending.end_of
    username = await call.run(end, username, session, call.principal)
    return MessageReply(message=call.message("session_ended_of", username=username))
