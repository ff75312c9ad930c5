"""Asking until something is so: what a daemon tells of itself may be a second old."""

import time
from collections.abc import Callable
from typing import TypeVar

from prometheus_client.parser import text_string_to_metric_families

from tests.support.daemon import Daemon

TIMEOUT = 60.0  # seconds
T = TypeVar("T")


def ask_until(ask: Callable[[], T], is_so: Callable[[T], bool]) -> T:
    """The first answer that is so; AssertionError with the last one when none is for some seconds."""
    deadline = time.monotonic() + TIMEOUT
    while not is_so(answer := ask()):
        assert time.monotonic() < deadline, f"the last answer was {answer}"
    return answer


class Figures(dict[tuple[str, frozenset[tuple[str, str]]], float]):
    """What a scrape tells: name and labels → value."""

    def of(self, name: str, **labels: str) -> float:
        """One sample; 0.0 where it was never counted."""
        return self.get((name, frozenset(labels.items())), 0.0)


def scrape(daemon: Daemon) -> Figures:
    """All samples of `/metrics`, read as Prometheus does."""
    reply = daemon.get("/metrics")
    assert reply.status == 200, reply.text
    return Figures(
        ((sample.name, frozenset(sample.labels.items())), sample.value)
        for family in text_string_to_metric_families(reply.text)
        for sample in family.samples
    )
