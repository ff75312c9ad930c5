"""Health probes for watchdogs and load balancers, outside the API and without authentication."""

from __future__ import annotations

from typing import Any, Final

from regsvc.api.base import Access, ApiHandler
from regsvc.api.types.messages import Reply
from regsvc.core.errors import Refusal


class AliveReply(Reply, frozen=True, kw_only=True):
    """`installation` tells installations apart and reveals nothing; null before the first start."""

    status: str = "alive"
    installation: str | None


class ReadyReply(Reply, frozen=True, kw_only=True):
    """`bridge` is the state of AuthMe's table, `restart_needed` the keys that take effect at the next start.

    `sync_seconds`: since the sync last ran, or since the start.
    """

    status: str = "ready"
    bridge: str
    braked: bool
    oldest_mail_seconds: int | None
    restart_needed: tuple[str, ...]
    sync_seconds: int


class ProbeHandler(ApiHandler):
    """Base of handlers for monitoring: access tokens are ignored."""

    async def _authorize(self) -> None:
        """Skip authentication, so that even an invalid token is no obstacle."""


class AliveHandler(ProbeHandler):
    """Liveness probe: an answer means that the process and its event loop run."""

    async def get(self) -> None:
        self.send(AliveReply(installation=self.services.health.installation))


class ReadyHandler(ProbeHandler):
    """Readiness probe: the database is reachable and has our tables.

    AuthMe's table, the mass-change guard and waiting mails are reported but do not make the process unready: no other
    process could answer better.
    """

    def refusal_body(self, refusal: Refusal) -> dict[str, object]:
        """Include the waiting keys, since a restart may help, and whether our files were removed, since none would."""
        health = self.services.health
        return super().refusal_body(refusal) | {
            "restartNeeded": health.restart_needed,
            "stateLost": health.is_state_lost,
        }

    async def get(self) -> None:
        status = await self.services.health.status()
        if status.refusal is not None:
            self.write_refusal(status.refusal)
            self.finish()
            return
        age = status.oldest_mail_age
        self.send(
            ReadyReply(
                bridge=status.bridge,
                braked=status.has_held_back_changes,
                oldest_mail_seconds=None if age is None else round(age.total_seconds()),
                restart_needed=status.restart_needed,
                sync_seconds=round(status.seconds_since_sync),
            )
        )


HEALTH: Final[list[tuple[Any, ...]]] = [
    ("/health/alive", AliveHandler, {"access": {"GET": Access.PUBLIC}}),
    ("/health/ready", ReadyHandler, {"access": {"GET": Access.PUBLIC}}),
]
"""Tornado's rules for the probes."""
