"""Ends of what is kept: data older than `retention.*`, and the wait of rejected applicants."""

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from peewee import Database

from regsvc.config.host_sections import RetentionSection
from regsvc.core.clock import Clock, is_over
from regsvc.core.units import format_duration
from regsvc.database.audit import Actor, Audit
from regsvc.database.models import (
    REJECTED,
    AuditEntry,
    BaseModel,
    Installation,
    KnownClient,
    OutboxEntry,
    PlayerAddress,
    Review,
    Session,
    User,
)

log = logging.getLogger(__name__)

_BATCH_SIZE: Final = 500
_DOUBT: Final = timedelta(days=7)
_GAP: Final = timedelta(days=37)

AUDIT: Final = "audit entries"
OUTBOX: Final = "mails and calls that are over"
_ADDRESSES: Final = "addresses of clients: "
REGISTRATIONS: Final = f"{_ADDRESSES}registrations"
SESSIONS: Final = f"{_ADDRESSES}sessions"
AUDITS: Final = f"{_ADDRESSES}audit entries"
CLIENTS: Final = f"{_ADDRESSES}known ones"
PLAYERS: Final = f"{_ADDRESSES}players"
MAILS: Final = f"{_ADDRESSES}mails"


@dataclass(frozen=True)
class _Task:
    """Due rows of one kind. `apply` gets the keys of a batch and returns the number of rows it changed."""

    label: str
    key: Any
    due: Any
    apply: Callable[[list[Any]], int]


@dataclass
class PurgeRun:
    """One pass over everything that is due. `counts`: number of rows so far, by label."""

    tasks: list[_Task]
    counts: dict[str, int] = field(default_factory=dict)
    _after: Any = None

    def run_batch(self) -> bool:
        """Process the next batch; returns False when none is left. Blocking. The next call retries a failed batch."""
        if not self.tasks:
            return False
        task = self.tasks[0]
        beyond = () if self._after is None else (task.key > self._after,)
        query = task.key.model.select(task.key).where(task.due, *beyond).order_by(task.key).limit(_BATCH_SIZE)
        keys = [key for (key,) in query.tuples()]
        if keys:
            self.counts[task.label] = self.counts.get(task.label, 0) + task.apply(keys)
        if len(keys) < _BATCH_SIZE:
            self.tasks.pop(0)
            self._after = None
        else:
            self._after = keys[-1]
        return True

    def batches(self) -> Iterator[int]:
        """Process every batch on this thread, yielding the number of rows of each."""
        before = 0
        while self.run_batch():
            done = sum(self.counts.values())
            yield done - before
            before = done


class Retention:
    """Deletion of old data, by the retention periods of the config (section `retention`)."""

    def __init__(self, database: Database, config: RetentionSection, audit: Audit, now: Clock) -> None:
        self._database = database
        self._config = config
        self._audit = audit
        self._now = now
        self._contradicted_at: float | None = None

    def start_unattended(self) -> PurgeRun:
        """Return a run as `start` does, of nothing while the clock may be years ahead: what is deleted is gone.

        It is trusted by an audit entry of the last weeks that is not from the last days, or after days without one.
        """
        now, doubt = self._now(), min(_DOUBT, self._config.audit / 2)  # later entries are kept
        if AuditEntry.select().where(AuditEntry.created_at.between(now - _GAP, now - doubt)).exists():
            self._contradicted_at = None
            return self.start()
        if self._contradicted_at is None:
            self._contradicted_at = time.monotonic()
        if time.monotonic() - self._contradicted_at > doubt.total_seconds():
            return self.start()
        if self.count():
            log.warning(
                "old data is not deleted for %s: our audit log has no entry of the weeks before, and the clock may be "
                "wrong. If it is right, companion purge deletes it now",
                format_duration(doubt),
            )
        return PurgeRun([])

    def start(self) -> PurgeRun:
        """Return a new run; the caller processes its batches."""
        return PurgeRun(self._tasks())

    def count(self) -> dict[str, int]:
        """Return the number of due rows by label, changing nothing."""
        found = {task.label: task.key.model.select().where(task.due).count() for task in self._tasks()}
        return {label: count for label, count in found.items() if count}

    def record(self, run: PurgeRun, by: str) -> None:
        """Add an audit entry with the counts of the run, unless nothing was due."""
        if run.counts:
            with self._database.atomic():
                self._audit.record("data.purged", Actor(by), detail=dict(run.counts))

    def _tasks(self) -> list[_Task]:
        moment = self._now()
        audit, addresses = moment - self._config.audit, moment - self._config.addresses
        is_notice = (OutboxEntry.template == "password_changed") & OutboxEntry.payload.is_null(False)
        return [
            _Task(
                AUDIT,
                AuditEntry.id,
                AuditEntry.created_at < audit,
                self._as_purge(audit, self._deleting(AuditEntry.id)),
            ),
            _Task(
                AUDITS,
                AuditEntry.id,
                AuditEntry.ip.is_null(False) & (AuditEntry.created_at < addresses) & (AuditEntry.created_at >= audit),
                self._as_purge(addresses, self._changing(AuditEntry.id, ip=None)),
            ),
            _Task(
                REGISTRATIONS,
                User.id,
                User.registration_ip.is_null(False) & (User.created_at < addresses),
                self._changing(User.id, registration_ip=None),
            ),
            _Task(
                SESSIONS,
                Session.jti,
                Session.ip.is_null(False) & (Session.created_at < addresses),
                self._changing(Session.jti, ip=None),
            ),
            _Task(CLIENTS, KnownClient.id, KnownClient.last_login_at < addresses, self._deleting(KnownClient.id)),
            _Task(PLAYERS, PlayerAddress.id, PlayerAddress.seen_at < addresses, self._deleting(PlayerAddress.id)),
            _Task(
                MAILS,
                OutboxEntry.id,
                (OutboxEntry.done_at < addresses) & is_notice,
                self._changing(OutboxEntry.id, payload=None),
            ),
            _Task(
                OUTBOX,
                OutboxEntry.id,
                OutboxEntry.done_at < moment - self._config.outbox,
                self._deleting(OutboxEntry.id),
            ),
        ]

    def _deleting(self, key: Any) -> Callable[[list[Any]], int]:
        def delete(keys: list[Any]) -> int:
            model: type[BaseModel] = key.model
            with self._database.atomic():
                return int(model.delete().where(key.in_(keys)).execute())

        return delete

    def _changing(self, key: Any, **changes: Any) -> Callable[[list[Any]], int]:
        def change(keys: list[Any]) -> int:
            model: type[BaseModel] = key.model
            with self._database.atomic():
                return int(model.update(changes).where(key.in_(keys)).execute())

        return change

    def _as_purge(self, before: datetime, apply: Callable[[list[Any]], int]) -> Callable[[list[Any]], int]:
        """Wrap `apply` so that the triggers guarding the audit log allow it to change entries older than `before`."""

        def run(keys: list[Any]) -> int:
            with self._database.atomic():
                Installation.update(purging_audit_before=before).execute()
                done = apply(keys)
                Installation.update(purging_audit_before=None).execute()
                return done

        return run


def find_reapply_at(user: User, reapply_after: timedelta, now: datetime) -> datetime | None:
    """Return when the name of this user becomes free, or None where no rejection holds it any more.

    That is at once if the operator who rejected the user allowed it.
    """
    if user.status != REJECTED or user.reviewed_at is None or user.may_reapply:
        return None
    return None if is_over(user.reviewed_at, reapply_after, now) else user.reviewed_at + reapply_after


def find_reapply_at_after(review: Review, reapply_after: timedelta, now: datetime) -> datetime | None:
    """Return when the name that this review rejected becomes free, or None if it is, as in `find_reapply_at`."""
    may_reapply = User.select().where((User.id == review.user_id) & User.may_reapply).exists()
    rejected = User(status=review.status_after, reviewed_at=review.reviewed_at, may_reapply=may_reapply)
    return find_reapply_at(rejected, reapply_after, now)
