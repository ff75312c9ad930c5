"""What watchdogs and load balancers ask. It lies beside the API, and asks nobody who he is."""

from __future__ import annotations

from typing import Any, Final

from regsvc.api.base import Access, ApiHandler
from regsvc.api.types.messages import Reply


class AliveReply(Reply, frozen=True, kw_only=True):
    status: str = "alive"


class ReadyReply(Reply, frozen=True, kw_only=True):
    """`bridge` says how AuthMe's table is."""

    status: str = "ready"
    bridge: str
    braked: bool
    oldest_mail_seconds: int | None


class ProbeHandler(ApiHandler):
    """For machines that watch us: a token is neither asked for nor looked at."""

    async def _authorise(self) -> None:
        """Not even a bad token is in the way."""


class AliveHandler(ProbeHandler):
    """The process is there and its loop turns, or nobody would answer."""

    async def get(self) -> None:
        self.send(AliveReply())


class ReadyHandler(ProbeHandler):
    """Requests can be answered: the database is there and has our tables.

    AuthMe's table, the brake and mails that wait are told, and do not count: nobody else could answer better.
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
"""Tornado's rules for them."""
