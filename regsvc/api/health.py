"""Routes for monitoring, outside the API: health probes and metrics. Access tokens are ignored."""

from __future__ import annotations

from hmac import compare_digest
from typing import Any, Final

from regsvc.api.base import ApiHandler
from regsvc.api.messages import Reply
from regsvc.api.route import Access, Routes
from regsvc.core.addresses import is_loopback
from regsvc.core.errors import UnknownPath
from regsvc.runtime.metrics import CONTENT_TYPE

_ROUTES: Final = Routes()


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


@_ROUTES.add("GET", "/health/alive", Access.PROBE)
async def show_alive(call: ApiHandler) -> AliveReply:
    """Answer that the process and its event loop run."""
    return AliveReply(installation=call.services.health.installation.fingerprint)


@_ROUTES.add("GET", "/health/ready", Access.PROBE)
async def show_ready(call: ApiHandler) -> ReadyReply | None:
    """Show whether the database is reachable, has our tables, and accepts changes.

    AuthMe's table, the mass-change guard and waiting mails are reported but do not make the process unready: no other
    process could answer better. A refusal has the waiting keys, since a restart may help, whether our files were
    removed, since none would, and whether the database accepts changes (null: it does not answer).
    """
    health = call.services.health
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


@_ROUTES.add("GET", "/metrics", Access.PROBE)
async def show_metrics(call: ApiHandler) -> None:
    """Show the metrics to scrapers on this machine and those with the scrape token."""
    status = await call.services.health.status()
    waiting = await call.services.health.waiting_work() if status.is_reachable else None
    text = call.services.metrics.text(status, waiting)
    call.set_header("Content-Type", CONTENT_TYPE)
    call.finish(text)


_FORWARDED: Final = frozenset({"forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip"})
_FORWARDED_PREFIX: Final = "x-forwarded"


class MetricsHandler(ApiHandler):
    """Handler of `/metrics`, which does not exist for anybody else."""

    def check_request(self) -> None:
        is_allowed = self._is_from_this_machine or self._has_scrape_token
        if not self.services.config.metrics.enabled or not is_allowed:
            raise UnknownPath
        super().check_request()

    @property
    def _is_from_this_machine(self) -> bool:
        """Whether the connection is local and not that of a proxy on behalf of another client."""
        names = {name.lower() for name in self.request.headers}
        is_forwarded = bool(names & _FORWARDED) or any(name.startswith(_FORWARDED_PREFIX) for name in names)
        context = getattr(self.request.connection, "context", None)  # `request.remote_ip` is the client's address
        return not is_forwarded and is_loopback(getattr(context, "remote_ip", ""))

    @property
    def _has_scrape_token(self) -> bool:
        token = self.services.config.metrics.token
        scheme, _space, given = self.request.headers.get("Authorization", "").partition(" ")
        is_same = compare_digest(given.strip().encode("latin-1", "replace"), token.encode())
        return bool(token) and scheme.lower() == "bearer" and is_same


PROBES: Final[list[tuple[Any, ...]]] = [
    (route.path, MetricsHandler if route.answer is show_metrics else ApiHandler, {"routes": {"GET": route}})
    for route in _ROUTES
]
"""Tornado's rules for the probes and the metrics."""
