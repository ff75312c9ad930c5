"""Health probes for watchdogs and load balancers, outside the API and without authentication."""

from __future__ import annotations

from typing import Any, Final

from regsvc.api.base import Access, ApiHandler
from regsvc.api.types.messages import Reply


class AliveReply(Reply, frozen=True, kw_only=True):
    status: str = "alive"


class ReadyReply(Reply, frozen=True, kw_only=True):
    """`bridge` is the state of AuthMe's table."""

    status: str = "ready"
    bridge: str
    braked: bool
    oldest_mail_seconds: int | None


class ProbeHandler(ApiHandler):
    """Base of handlers for monitoring: access tokens are ignored."""

    async def _authorize(self) -> None:
        """Skip authentication, so that even an invalid token is no obstacle."""


class AliveHandler(ProbeHandler):
    """Liveness probe: an answer means that the process and its event loop run."""

    async def get(self) -> None:
        self.send(AliveReply())


class ReadyHandler(ProbeHandler):
    """Readiness probe: the database is reachable and has our tables.

    AuthMe's table, the mass-change guard and waiting mails are reported but do not make the process unready: no other
    process could answer better.
    """

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
            )
        )


HEALTH: Final[list[tuple[Any, ...]]] = [
    ("/health/alive", AliveHandler, {"access": {"GET": Access.PUBLIC}}),
    ("/health/ready", ReadyHandler, {"access": {"GET": Access.PUBLIC}}),
]
"""Tornado's rules for the probes."""
