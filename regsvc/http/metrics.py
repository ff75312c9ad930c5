"""Metrics of requests and connections. Names, addresses, request paths and secrets are never used as labels."""

from collections.abc import Iterable
from typing import Final

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_BUCKETS: Final = (0.005, 0.02, 0.1, 0.25, 1, 2.5, 10)  # seconds

# `_created` series would double the scrape, and say no more than `process_start_time_seconds`.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]


def make_counter(registry: CollectorRegistry, name: str, about: str, label: str, values: Iterable[str] = ()) -> Counter:
    """Return a counter by a label; one with these values is shown from 0, so its first failure is an increase."""
    created = Counter(name, about, [label], registry=registry)
    for value in values:
        created.labels(value)
    return created


class HttpMetrics:
    """Metrics of requests and connections, for the event loop."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "companion_http_requests", "Requests answered.", ["route", "method", "status"], registry=registry
        )
        self._durations = Histogram(
            "companion_http_request_seconds",
            "From a request to its answer.",
            ["route", "method"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self._answered: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self.refusals = make_counter(registry, "companion_http_refusals", "Requests refused, by code.", "code")
        self.token_requests = make_counter(
            registry, "companion_api_token_requests", "Requests of API tokens, without those refused.", "token"
        )
        self.connections = Gauge("companion_http_connections", "Open connections.", registry=registry)
        self.refused_connections = make_counter(
            registry,
            "companion_http_connections_refused",
            "Connections refused, by the limit that was reached.",
            "limit",
            ("all", "client"),
        )
        self.cut_connections = make_counter(
            registry,
            "companion_http_connections_cut",
            "Connections closed to make room (idle), or because the client did not read its answer (unread).",
            "reason",
            ("idle", "unread"),
        )

    def count_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count an answered request. `route` is a path from the route table, never one a client made up."""
        labels = (route, method, status)
        counters = self._answered.get(labels)
        if counters is None:
            counters = self._answered[labels] = (self._requests.labels(*labels), self._durations.labels(route, method))
        requests, durations = counters
        requests.inc()
        durations.observe(seconds)
