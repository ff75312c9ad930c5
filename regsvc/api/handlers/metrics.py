"""Prometheus metrics for authorized scrapers; everyone else gets a 404."""

from __future__ import annotations

from hmac import compare_digest
from typing import Any, Final

from regsvc.api.base import Access
from regsvc.api.handlers.health import ProbeHandler
from regsvc.core.addresses import is_loopback
from regsvc.core.errors import UnknownPath
from regsvc.runtime.metrics import CONTENT_TYPE

_FORWARDED: Final = frozenset({"forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip"})
_FORWARDED_PREFIX: Final = "x-forwarded"


class MetricsHandler(ProbeHandler):
    """Handler of `/metrics`, for scrapers on this machine and those with the scrape token."""

    async def get(self) -> None:
        status = await self.services.health.status()
        waiting = await self.services.waiting_work.counts() if status.is_ready else None
        text = self.services.metrics.text(status, waiting)
        self.set_header("Content-Type", CONTENT_TYPE)
        self.finish(text)

    def _check_request(self) -> None:
        is_allowed = self._is_from_this_machine or self._has_scrape_token
        if not self.services.config.metrics.enabled or not is_allowed:
            raise UnknownPath
        super()._check_request()

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


METRICS: Final[list[tuple[Any, ...]]] = [("/metrics", MetricsHandler, {"access": {"GET": Access.PUBLIC}})]
"""Tornado's rule for the metrics."""
