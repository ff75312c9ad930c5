"""Health status and counts of waiting work, for probes and monitoring: cheap, and free of names and secrets.

A process is unhealthy whose installation was removed or replaced: its state directory or its SQLite file.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from peewee import PeeweeException, fn

from regsvc.core.clock import Clock
from regsvc.core.errors import DatabaseUnavailable, Refusal
from regsvc.core.exceptions import describe_exception
from regsvc.core.shared_lookup import CachedCall
from regsvc.database.engine import Worker
from regsvc.database.location import find_installation_fingerprint
from regsvc.database.models import AWAITS_REVIEW, Allowed, OutboxEntry, SyncRecord, User
from regsvc.http.messages import Reply
from regsvc.http.route import Access, Routes
from regsvc.notifications.outbox import Backlog, Outbox
from regsvc.runtime.backups import find_backups
from regsvc.runtime.reload import PendingRestart
from regsvc.sync.service import SyncService
from regsvc.users.gates import UNSETTLED, Gates
from regsvc.users.user_query import count_users, has_membership

if TYPE_CHECKING:
    from regsvc.http.call import Call


log = logging.getLogger(__name__)

_STATE_DIR: Final = "the state directory"
_DATABASE: Final = "the database"

FileId = tuple[int, int]


class InstallationWatch:
    """Watches for a state directory or an SQLite file that is removed, or replaced, while the process uses it.

    The process would go on with the removed file, and everything written to it would be lost at its end. Methods block.
    """

    def __init__(self, state_dir: Path, database_file: Path | None, config_file: Path | None = None) -> None:
        """`database_file` None: our database is on a server. `config_file` says where backups are made each night."""
        self._state_dir = state_dir
        self._config_file = config_file
        self._files = {_STATE_DIR: state_dir} | ({_DATABASE: database_file} if database_file is not None else {})
        self._opened: dict[str, FileId | None] = {}
        self.fingerprint = find_installation_fingerprint(state_dir)
        """What other processes may know it by; None before its first start."""
        self.is_lost = False
        """Whether a file was missing, or another one, at the last check."""

    def open(self) -> None:
        """Remember which files are in use from now on."""
        self.fingerprint = find_installation_fingerprint(self._state_dir)
        self._opened = {what: _file_id(path) for what, path in self._files.items()}

    def find_backup_time(self) -> float:
        """Return the time of the newest backup, as `Backups.timestamp` tells it; NaN if they may not be looked for."""
        try:
            return find_backups(self._config_file, self._state_dir).timestamp
        except OSError:
            return math.nan

    def has_changed(self, is_open: bool) -> bool:
        """Return whether the files in use were removed, or are back, while our database is, or is not, open."""
        return (is_open or self.is_lost) and self.check() != is_open

    def check(self) -> bool:
        """Compare with the files in use, log what has changed since the last check, and return whether all is well."""
        lost = [what for what, opened in self._opened.items() if _file_id(self._files[what]) != opened]
        was_lost, self.is_lost = self.is_lost, bool(lost)  # first: what the log says is then true
        if lost and not was_lost:
            log.error(
                "%s %s removed or replaced while the companion uses it (%s): requests get 503, and what is not in a "
                "backup is lost. Stop the companion, restore a backup, and start it again",
                " and ".join(lost),
                "was" if len(lost) == 1 else "were",
                ", ".join(str(self._files[what]) for what in lost),
            )
        elif was_lost and not lost:
            log.info("the state directory and the database are there again")
        return not lost


def _file_id(path: Path) -> FileId | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


PROBES: Final = Routes()

_MAX_AGE: Final = timedelta(seconds=1)
_WORK_MAX_AGE: Final = timedelta(minutes=1)
_SETTINGS_MAX_AGE: Final = timedelta(minutes=5)
_TIMEOUT: Final = timedelta(seconds=3)  # shorter than the timeouts of common probes
_RETRY_AFTER: Final = 2


class BridgeState(StrEnum):
    """State of a gate, AuthMe's table or the game's allowlist, as the last run found it."""

    UP = "up"
    AWAY = "away"
    UNKNOWN = "unknown"
    """No run yet, none for minutes, or our database cannot be used."""
    OFF = "off"
    """There is no AuthMe here, or the allowlist is not kept."""


@dataclass(frozen=True)
class HealthStatus:
    """`refusal` is the error that requests needing the database get now; None means ready.

    `is_writable` is None while the database does not answer.
    `waiting_mails` (`MAX_COUNT` at most) and `oldest_mail_age` are None while the database does not answer; the age
    also if no mail waits.
    `restart_needed`: keys of config files that have changed and take effect at the next start.
    `not_durable`: the database's settings under which a commit can be lost; None while they are unknown.
    """

    refusal: Refusal | None
    is_writable: bool | None
    bridge: BridgeState
    allowlist: BridgeState
    has_held_back_changes: bool
    waiting_mails: int | None
    oldest_mail_age: timedelta | None
    restart_needed: tuple[str, ...]
    seconds_since_sync: float
    not_durable: tuple[str, ...] | None

    @property
    def is_ready(self) -> bool:
        """Return whether the database is reachable, has our tables, and accepts changes."""
        return self.refusal is None

    @property
    def is_reachable(self) -> bool:
        """Return whether the database is reachable and has our tables."""
        return self.waiting_mails is not None


@dataclass(frozen=True)
class WaitingCounts:
    """Numbers of pending users, memberships that end within a week, and other work that waits.

    `disputed_players`: those whose address differs from their user's until an admin decides. `listed`: users by their
    state on the game's allowlist, without those who are as they should be.
    """

    pending_users: int
    ending: int
    disputed_players: int
    listed: Mapping[str, int]
    untold_since: datetime | None = None
    """When the oldest message for the team's chats that was not sent yet was enqueued."""
    backup_time: float = math.nan
    """When the newest backup was made, in seconds; 0: there is none, NaN: none is expected."""


class Health:
    """The health status, computed by asking the database at most once a second. Use on the event loop only."""

    def __init__(
        self,
        worker: Worker,
        outbox: Outbox,
        sync: SyncService,
        now: Clock,
        pending_restart: PendingRestart,
        installation: InstallationWatch,
        gates: Gates,
        *,
        timeout: timedelta = _TIMEOUT,
    ) -> None:
        """`timeout`: how long the database may take to answer before it counts as away."""
        self._worker = worker
        self._outbox = outbox
        self._sync = sync
        self._now = now
        self.pending_restart = pending_restart
        self.installation = installation
        self.gates = gates
        self._timeout = timeout
        self._backlog = CachedCall(self._query_backlog, _MAX_AGE, "health")
        self._lossy = CachedCall(lambda: worker.run(worker.read_lossy), _SETTINGS_MAX_AGE, "durability")
        self._waiting = CachedCall(lambda: worker.run(_count_waiting, installation, now), _WORK_MAX_AGE, "waiting work")

    async def status(self) -> HealthStatus:
        """Return the current status. Problems are part of the status and never raised."""
        query = self._backlog.start()
        await asyncio.wait([query], timeout=self._timeout.total_seconds())  # does not cancel it: others wait, too
        found = query.result() if query.done() else DatabaseUnavailable(retry_after=_RETRY_AFTER)
        backlog = None if isinstance(found, Refusal) else found
        oldest_at = None if backlog is None else backlog.oldest_at
        refusal = found if isinstance(found, Refusal) else None
        is_unwritable = self._worker.outage_log.write_problem is not None
        if is_unwritable:
            refusal = DatabaseUnavailable("unwritable", retry_after=_RETRY_AFTER)
        return HealthStatus(
            refusal=refusal,
            is_writable=False if is_unwritable else None if backlog is None else True,
            bridge=self.find_bridge_state(is_ready=refusal is None),
            allowlist=self.find_list_state(),
            has_held_back_changes=self._sync.has_held_back_changes,
            waiting_mails=None if backlog is None else backlog.count,
            oldest_mail_age=None if oldest_at is None else max(self._now() - oldest_at, timedelta(0)),
            restart_needed=self.pending_restart.keys,
            seconds_since_sync=self._sync.seconds_since_run,
            not_durable=None if backlog is None else await self._find_lossy(),
        )

    async def waiting_work(self) -> WaitingCounts | None:
        """Return what waits for an admin, counted at most once a minute; None while the database does not answer."""
        try:
            return await self._waiting.get()
        except (Refusal, PeeweeException):  # the health status says so, and logs it
            return None

    def find_bridge_state(self, *, is_ready: bool) -> BridgeState:
        """Return the state of AuthMe's table, which no sync looks at unless our database `is_ready`."""
        if not self.gates.has_authme:
            return BridgeState.OFF
        report = self._sync.last_report
        if report is None or not is_ready or self._sync.stands_still:
            return BridgeState.UNKNOWN
        return BridgeState.UP if report.unavailable is None else BridgeState.AWAY

    def find_list_state(self) -> BridgeState:
        """Return the state of the game's allowlist; away: it cannot be used, or UUIDs are in doubt."""
        if "allowlist" not in self.gates.names:
            return BridgeState.OFF
        report = self._sync.list_report
        if report is None:
            return BridgeState.UNKNOWN
        return BridgeState.AWAY if report.unavailable or report.doubt else BridgeState.UP

    async def _query_backlog(self) -> Backlog | Refusal:
        try:
            return await self._worker.run(self._look)
        except Refusal as refusal:
            return refusal
        except PeeweeException as error:  # the server answers, but our tables are missing or changed
            log.error("the database answered unexpectedly: %s", describe_exception(error))
            return DatabaseUnavailable(retry_after=_RETRY_AFTER)

    async def _find_lossy(self) -> tuple[str, ...] | None:
        try:
            settings = await asyncio.wait_for(self._lossy.get_last(), self._timeout.total_seconds())
        except (Refusal, PeeweeException, TimeoutError):  # the next look at the backlog says so, and logs it
            return None
        return tuple(setting.found for setting in settings)

    def _look(self) -> Backlog:
        self._worker.look_for_write_problem()
        return self._outbox.backlog()


def count_pending() -> int:
    """Return the number of users who wait for a review; one statement, which an index answers."""
    return int(User.select(fn.COUNT(User.id)).where(AWAITS_REVIEW).scalar())


def _count_waiting(installation: InstallationWatch, now: Clock) -> WaitingCounts:
    """Count with four statements, and look for the newest backup."""
    disputed = SyncRecord.select(fn.COUNT(SyncRecord.username_key)).where(
        SyncRecord.plugin_state == "conflict", SyncRecord.conflict.is_null(False)
    )
    states: Any = Allowed.select(Allowed.shown_as, fn.COUNT(1)).where(Allowed.shown_as.in_(UNSETTLED))
    listed = dict.fromkeys(UNSETTLED, 0) | dict(states.group_by(Allowed.shown_as).tuples())
    is_untold = (OutboxEntry.kind == "team_chat") & OutboxEntry.outcome.is_null()
    oldest = OutboxEntry.select(OutboxEntry.created_at).where(is_untold).order_by(OutboxEntry.id).first()
    untold_since = None if oldest is None else oldest.created_at
    pending, ending = count_users(AWAITS_REVIEW, has_membership("ending", now()), most=None)
    others = untold_since, installation.find_backup_time()
    return WaitingCounts(pending or 0, ending or 0, int(disputed.scalar()), listed, *others)


class AliveReply(Reply, frozen=True, kw_only=True):
    """`installation` tells installations apart and reveals nothing; null before the first start."""

    status: str = "alive"
    installation: str | None


class ReadyReply(Reply, frozen=True, kw_only=True):
    """`bridge` is the state of AuthMe's table, `allowlist` that of the game's list: up, away, unknown or off.

    `restart_needed`: the keys that take effect at the next start.
    `sync_seconds`: since the sync last ran, or since the start.
    `not_durable`: the database's settings under which a commit can be lost; null: unknown.
    """

    status: str = "ready"
    writable: bool = True
    bridge: str
    allowlist: str
    braked: bool
    oldest_mail_seconds: int | None
    restart_needed: tuple[str, ...]
    sync_seconds: int
    not_durable: tuple[str, ...] | None


@PROBES.add("GET", "/health/alive", Access.PROBE)
async def show_alive(call: Call, health: Health) -> AliveReply:
    """Answer that the process and its event loop run."""
    return AliveReply(installation=health.installation.fingerprint)


@PROBES.add("GET", "/health/ready", Access.PROBE)
async def show_ready(call: Call, health: Health) -> ReadyReply | None:
    """Show whether the database is reachable, has our tables, and accepts changes.

    AuthMe's table, the mass-change guard and waiting mails are reported but do not make the process unready: no other
    process could answer better. A refusal has the waiting keys, since a restart may help, whether our files were
    removed, since none would, and whether the database accepts changes (null: it does not answer).
    """
    status = await health.status()
    if status.refusal is not None:
        is_lost = health.installation.is_lost
        told = {"writable": status.is_writable, "restartNeeded": status.restart_needed, "stateLost": is_lost}
        call.write_refusal(status.refusal, **told)
        call.finish()
        return None
    age = status.oldest_mail_age
    return ReadyReply(
        bridge=status.bridge,
        allowlist=status.allowlist,
        braked=status.has_held_back_changes,
        oldest_mail_seconds=None if age is None else round(age.total_seconds()),
        restart_needed=status.restart_needed,
        sync_seconds=round(status.seconds_since_sync),
        not_durable=status.not_durable,
    )
