"""State machine of a user's status, and the effects of each transition on our side.

Every change of a status goes through here, whether made by an admin, the command line, an expired ban or SQL, so that
review, audit entry, mail and revoked sessions are the same. The player's row follows by the reconciler. Everything
runs inside the caller's transaction.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from regsvc.core.clock import Clock, epoch_ms
from regsvc.core.errors import UserNotFound, WrongStatus
from regsvc.database.audit import SQL, SYNC, Actor, Audit
from regsvc.database.bulk import insert_rows
from regsvc.database.models import APPROVED, BANNED, PENDING, REJECTED, STATUSES, Review, User
from regsvc.notifications.mail.queue import MailQueue
from regsvc.notifications.rcon.queue import RconQueue
from regsvc.notifications.webhook.queue import Event, WebhookQueue

DELETED: Final = "deleted"
"""Stands for the status of a deleted user in webhook calls."""


@dataclass(frozen=True)
class Transition:
    """A transition: its source statuses, target status (None: the user is deleted) and event."""

    sources: frozenset[str]
    target: str | None
    event: Event

    @property
    def action(self) -> str:
        """Audit action of the transition."""
        return f"user.{self.event}"


TRANSITIONS: Final[dict[str, Transition]] = {
    "approve": Transition(frozenset({PENDING, REJECTED}), APPROVED, "approved"),
    "reject": Transition(frozenset({PENDING}), REJECTED, "rejected"),
    "ban": Transition(frozenset({PENDING, APPROVED, REJECTED}), BANNED, "banned"),
    "unban": Transition(frozenset({BANNED}), APPROVED, "unbanned"),
    "delete": Transition(frozenset(STATUSES), None, "deleted"),
}


@dataclass(frozen=True)
class DecisionDetails:
    """Details of a decision. `expires_at` is the end of a ban; None: permanent."""

    reason: str | None = None
    expires_at: datetime | None = None
    is_silent: bool = False
    keeps_expiry: bool = False
    """Whether a user already banned keeps the end of that ban; `expires_at` then applies to new bans only."""


def find_transition(source: str, target: str) -> str | None:
    """Return the transition between two statuses, or None."""
    for name, transition in TRANSITIONS.items():
        if source in transition.sources and transition.target == target:
            return name
    return None


class Transitions:
    """Transitions, applied to our user."""

    def __init__(
        self, audit: Audit, mail_queue: MailQueue, webhook: WebhookQueue, console: RconQueue, now: Clock
    ) -> None:
        self._audit = audit
        self._console = console
        self._mail_queue = mail_queue
        self._webhook = webhook
        self._now = now

    def change(self, user: User, name: str, by: Actor, details: DecisionDetails) -> User:
        """Approve, reject, ban or unban. Raises `WrongStatus`, also when another actor changed the user first."""
        transition = TRANSITIONS[name]
        if user.status not in transition.sources:
            raise WrongStatus(user.status)
        changes: dict[str, Any] = {"status": transition.target, "applied_status": transition.target}
        condition = (User.id == user.id) & (User.status == user.status) & (User.applied_status == user.applied_status)
        return self._apply(user, name, by, details, changes, condition)

    def approve_again(self, user: User, by: Actor, details: DecisionDetails) -> User:
        """Confirm the approval of a user whose row in AuthMe's table was removed or registered by another player."""
        condition = (User.id == user.id) & (User.status == APPROVED)
        return self._apply(user, "approve", by, details, {}, condition)

    def change_ban(self, user: User, by: Actor, details: DecisionDetails) -> User:
        """Change the reason or end of a ban. Raises `WrongStatus` when neither differs."""
        reason = details.reason or user.reason
        expires_at = user.ban_expires_at if details.keeps_expiry else details.expires_at
        if user.status != BANNED or (reason, expires_at) == (user.reason, user.ban_expires_at):
            raise WrongStatus(user.status)
        changed = DecisionDetails(reason, expires_at, details.is_silent)
        return self._apply(user, "ban", by, changed, {}, (User.id == user.id) & (User.status == BANNED))

    def apply_sql_edit(self, user: User, by: Actor = SQL) -> str | None:
        """Apply the transition that a status set with SQL stands for.

        Returns its name; None: there is no such transition, and the status was reset.
        """
        name = find_transition(user.applied_status, user.status)
        condition = (User.id == user.id) & (User.status == user.status)
        if name is None:
            User.update(status=user.applied_status).where(condition).execute()
            detail = {"status": user.status, "appliedStatus": user.applied_status}
            self._audit.record("sync.edit_refused", by.name, user.username, detail)
            return None
        before = user.status
        user.status = user.applied_status
        details = DecisionDetails(_sql_reason(user), user.ban_expires_at)
        self._apply(user, name, by, details, {"status": before, "applied_status": before}, condition)
        return name

    def apply_sql_edits(self, users: Collection[User], by: Actor = SQL) -> None:
        """Apply the SQL edits of many users, each a legal transition, with few statements.

        Raises `WrongStatus` when one of the users has changed meanwhile.
        """
        groups: dict[tuple[str, str, str, DecisionDetails], list[User]] = {}
        reasons = _sql_reasons(users)
        for user in users:
            name = find_transition(user.applied_status, user.status)
            assert name is not None, "an illegal edit is reset one by one"
            details = DecisionDetails(reasons.get(user.id), user.ban_expires_at)
            groups.setdefault((name, user.applied_status, user.status, details), []).append(user)
        for (name, before, target, details), group in groups.items():
            self._apply_many(group, name, before, target, by, details)

    def _apply_many(
        self, users: Sequence[User], name: str, before: str, target: str, by: Actor, details: DecisionDetails
    ) -> None:
        moment, ids = self._now(), [user.id for user in users]
        changes = _changes(name, before, by, details, moment) | {"applied_status": target}
        as_seen = (User.status == target) & (User.applied_status == before)
        if User.update(changes).where(User.id.in_(ids) & as_seen).execute() != len(ids):
            raise WrongStatus(target)
        insert_rows(
            User._meta.database, Review, [_review(user, name, before, target, by, details, moment) for user in users]
        )
        newest: Any = (
            Review.select(Review.user_id, Review.id).where(Review.user_id.in_(ids)).order_by(Review.id).tuples()
        )
        review_ids: dict[int, int] = dict(newest)
        names = [user.username for user in users]
        self._audit.record_each(TRANSITIONS[name].action, by.name, names, _detail(details, before), by.ip)
        with self._webhook.batched(), self._mail_queue.batched():
            for user in users:
                user.reason, user.ban_expires_at = details.reason, changes["ban_expires_at"]
                self._webhook.enqueue(
                    TRANSITIONS[name].event, user.username, target, details.reason, user.ban_expires_at
                )
                self._enqueue_command(name, before, user)
                self._enqueue_mail(name, user, review_ids[user.id])

    def end_ban(self, user: User, by: Actor = SYNC) -> User:
        """End an expired ban: restore the status from before the ban."""
        target = user.banned_from or APPROVED
        changes: dict[str, Any] = {"status": target, "applied_status": target}
        condition = (User.id == user.id) & (User.status == BANNED)
        details = DecisionDetails("the ban has ended", is_silent=True)
        return self._apply(user, "unban", by, details, changes, condition)

    def reject_name_conflict(self, user: User, by: Actor = SYNC) -> User:
        """Reject a user whose name belongs to a player registered before."""
        return self.change(user, "reject", by, DecisionDetails("name_taken_in_game"))

    def record_registration(self, user: User, by: Actor) -> None:
        """Record and announce a new user."""
        self._audit.record("user.registered", by.name, user.username, ip=by.ip)
        self._webhook.enqueue("registered", user.username, user.status)

    def record_deletion(self, key: str) -> None:
        """Record and announce the deletion of a user with SQL."""
        self._audit.record("user.deleted", SQL.name, key)
        self._webhook.enqueue("deleted", key, DELETED)
        self._console.on_deletion(key, None, was_banned=_was_banned(key))

    def delete(self, user: User, by: Actor, details: DecisionDetails) -> None:
        """Delete the user and their sessions; the reviews stay. Raises `UserNotFound`."""
        self._write_review(user, "delete", None, by, details)
        if not User.delete().where(User.id == user.id).execute():
            raise UserNotFound
        self._audit.record("user.deleted", by.name, user.username, _detail(details, user.status), by.ip)
        self._webhook.enqueue("deleted", user.username, DELETED, details.reason)
        self._console.on_deletion(user.username, user.id, was_banned=user.status == BANNED)

    def _apply(
        self, user: User, name: str, by: Actor, details: DecisionDetails, changes: dict[str, Any], condition: Any
    ) -> User:
        """Write the change if `condition` still holds, with all its effects. Raises `WrongStatus` otherwise."""
        moment = self._now()
        target = changes.get("status", user.status)
        changes |= _changes(name, user.status, by, details, moment)
        if not User.update(changes).where(condition).execute():
            raise WrongStatus(_status_now(user))
        review = self._write_review(user, name, target, by, details)
        self._audit.record(TRANSITIONS[name].action, by.name, user.username, _detail(details, user.status), by.ip)
        changed = User.get_by_id(user.id)
        self._webhook.enqueue(
            TRANSITIONS[name].event, changed.username, changed.status, details.reason, changed.ban_expires_at
        )
        self._enqueue_command(name, user.status, changed)
        if not details.is_silent:
            self._enqueue_mail(name, changed, review.id)
        return changed

    def _enqueue_command(self, name: str, before: str, changed: User) -> None:
        """Enqueue the console command of a ban or unban, also for silent decisions: banned players must be kicked."""
        if name == "ban" and before != BANNED:
            self._console.on_ban(changed.username, changed.id, changed.reason)
        elif name == "unban":
            self._console.on_unban(changed.username, changed.id)

    def _write_review(self, user: User, name: str, target: str | None, by: Actor, details: DecisionDetails) -> Review:
        review: Review = Review.create(**_review(user, name, user.status, target, by, details, self._now()))
        return review

    def _enqueue_mail(self, name: str, user: User, review_id: int) -> None:
        if name == "approve":
            # an adopted player has a password in the game
            needs_password = user.password_hash is None and user.origin != "adopted"
            self._mail_queue.send_approved(user, review_id, needs_password=needs_password)
        elif name == "reject":
            self._mail_queue.send_rejected(user, review_id)
        elif name == "ban":
            self._mail_queue.send_banned(user, review_id)
        elif name == "unban":
            self._mail_queue.send_unbanned(user, review_id)


def _changes(name: str, before: str, by: Actor, details: DecisionDetails, moment: datetime) -> dict[str, Any]:
    """Return the columns of the user that a transition writes besides the status."""
    changes: dict[str, Any] = {"reason": details.reason, "reviewed_by": by.name, "reviewed_at": moment}
    if name != "ban":
        return changes | {"ban_expires_at": None, "banned_from": None}
    changes |= {"ban_expires_at": details.expires_at, "token_generation": User.token_generation + 1}
    return changes if before == BANNED else changes | {"banned_from": before}


def _review(
    user: User, name: str, before: str, target: str | None, by: Actor, details: DecisionDetails, moment: datetime
) -> dict[str, Any]:
    return {
        "user_id": user.id,
        "username": user.username,
        "username_key": user.username_key,
        "transition": name,
        "status_before": before,
        "status_after": target,
        "reason": details.reason,
        "ban_expires_at": details.expires_at if name == "ban" else None,
        "operator": by.name,
        "reviewed_at": moment,
        "email_key": user.email_key,
    }


def _sql_reasons(users: Collection[User]) -> dict[int, str]:
    """Return the reasons set with SQL by user id; users without one are left out."""
    ids = [user.id for user in users if user.reason]
    if not ids:
        return {}
    reviews: Any = (
        Review.select(Review.user_id, Review.reason).where(Review.user_id.in_(ids)).order_by(Review.id).tuples()
    )
    last: dict[int, str | None] = dict(reviews)
    return {user.id: str(user.reason) for user in users if user.reason and last.get(user.id) != user.reason}


def _sql_reason(user: User) -> str | None:
    """Return the reason set with SQL together with the status; None if it is that of the last review."""
    last = Review.select(Review.reason).where(Review.user_id == user.id).order_by(Review.id.desc()).first()
    is_new = last is None or user.reason != last.reason
    return str(user.reason) if user.reason and is_new else None


def _was_banned(key: str) -> bool:
    """Whether the last review of a deleted user's name was a ban."""
    last = Review.select(Review.status_after).where(Review.username_key == key).order_by(Review.id.desc()).first()
    return last is not None and last.status_after == BANNED


def _status_now(user: User) -> str:
    row = User.get_or_none(User.id == user.id)
    if row is None:
        raise UserNotFound
    return str(row.status)


def _detail(details: DecisionDetails, status_before: str) -> dict[str, Any]:
    detail: dict[str, Any] = {"statusBefore": status_before}
    if details.reason is not None:
        detail["reason"] = details.reason
    if details.expires_at is not None:
        detail["expiresAt"] = epoch_ms(details.expires_at)
    return detail
