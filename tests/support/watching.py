"""Polling of a daemon until a condition holds, and reading of its metrics."""

import time
from collections.abc import Callable
from typing import TypeVar

from prometheus_client.parser import text_string_to_metric_families

from tests.support.daemon import Daemon

TIMEOUT = 60.0  # seconds
FIRST_PAUSE, LONGEST_PAUSE = 0.002, 0.2  # seconds; each answer takes time of a core from the other tests
T = TypeVar("T")


def ask_until(ask: Callable[[], T], is_so: Callable[[T], bool]) -> T:
    """Return the first answer for which `is_so` is true; raises AssertionError with the last one after `TIMEOUT`."""
    deadline, pause = time.monotonic() + TIMEOUT, FIRST_PAUSE
    while not is_so(answer := ask()):
        assert time.monotonic() < deadline, f"the last answer was {answer}"
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
    return answer


class Samples(dict[tuple[str, frozenset[tuple[str, str]]], float]):
    """The samples of a scrape: name and labels → value."""

    def of(self, name: str, **labels: str) -> float:
        """Return one sample; 0.0 if it does not exist."""
        return self.get((name, frozenset(labels.items())), 0.0)


def scrape(daemon: Daemon) -> Samples:
    """Return all samples of `/metrics`, parsed as Prometheus does."""
    reply = daemon.get("/metrics")
    assert reply.status == 200, reply.text
    return Samples(
        ((sample.name, frozenset(sample.labels.items())), sample.value)
        for family in text_string_to_metric_families(reply.text)
        for sample in family.samples
    )
