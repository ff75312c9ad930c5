"""People who register while nodes fail, and what must be true of them afterwards."""

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.support.cluster.companions import Companion, Place
from tests.support.daemon import Reply
from tests.support.stack import Person, find_code, has_code

_TIMEOUT = 60.0  # seconds that a story waits for progress
_PAUSE = 0.1  # seconds between two people at a companion, and before a repetition: the load is not what is tested


@dataclass
class Registrants:
    """Threads at each companion, in which one person after the other registers. Safe from any thread.

    `acknowledged`: the people whose registration was answered with 201, by companion. `answers`: how often each status
    and code came; status 0 stands for a connection that ended without a reply.
    """

    companions: Sequence[Companion]
    acknowledged: dict[str, list[Person]] = field(default_factory=dict)
    answers: Counter[tuple[int, str | None]] = field(default_factory=Counter)
    _news: threading.Condition = field(default_factory=threading.Condition)
    _is_over: threading.Event = field(default_factory=threading.Event)

    def wait_for_more(self, count: int, *companions: Companion) -> None:
        """Wait until this number of people more has registered at each of these companions."""
        with self._news:
            wanted = {each.name: self._count(each) + count for each in companions}
            has_come = self._news.wait_for(
                lambda: all(self._count(each) >= wanted[each.name] for each in companions), _TIMEOUT
            )
        assert has_come, f"{wanted} wanted, {self.summary()}"

    def summary(self) -> str:
        counts = {each.name: self._count(each) for each in self.companions}
        return f"registered: {counts}, answers: {dict(self.answers)}"

    def run_at(self, companion: Companion) -> None:
        """Register one person after the other until `stop`."""
        while not self._is_over.wait(_PAUSE):
            self._register_one(companion)

    def stop(self) -> None:
        self._is_over.set()

    def _register_one(self, companion: Companion) -> None:
        """Try each step again until it is answered: a client does so after a 503 or without an answer."""
        person = companion.newcomer("runner")
        if self._insist(companion, "/api/verify/send", {"email": person.email}) != 200:
            return
        code = find_code(companion.smtp.wait_for(person.email, counts=has_code).text)
        fields = {"username": person.name, "email": person.email, "password": person.password, "code": code}
        if self._insist(companion, "/api/register", fields) == 201:
            with self._news:
                self.acknowledged.setdefault(companion.name, []).append(person)
                self._news.notify_all()

    def _insist(self, companion: Companion, path: str, fields: dict[str, str]) -> int:
        while True:
            try:
                reply: Reply | None = companion.post(path, fields)
            except OSError:
                reply = None
            with self._news:
                self.answers[(reply.status, reply.code) if reply is not None else (0, None)] += 1
            if reply is not None and reply.status != 503:
                return reply.status
            if self._is_over.is_set():
                return 0
            self._is_over.wait(_PAUSE)

    def _count(self, companion: Companion) -> int:
        return len(self.acknowledged.get(companion.name, ()))


@contextmanager
def registering(companions: Sequence[Companion]) -> Iterator[Registrants]:
    """Let people register at all companions meanwhile; each waits for the answer to the end."""
    registrants = Registrants(companions)
    with ThreadPoolExecutor(len(companions)) as pool:
        runs = [pool.submit(registrants.run_at, companion) for companion in companions]
        try:
            yield registrants
        finally:
            registrants.stop()
    for run in runs:
        run.result()


def check_nothing_is_lost(place: Place, registrants: Registrants) -> None:
    """Require that each acknowledged registration is on every node once, and that no mail was sent twice."""
    place.wait_for_replication()
    people = [person for each in registrants.acknowledged.values() for person in each]
    for node in place.nodes:
        users = Counter(row["username"] for row in place.query(node, "SELECT username FROM regsvc_user"))
        audited = Counter(
            row["target"]
            for row in place.query(node, "SELECT target FROM regsvc_audit WHERE action = 'user.registered'")
        )
        assert {person.name: (users[person.name], audited[person.name]) for person in people} == {
            person.name: (1, 1) for person in people
        }, node.name
    sent = Counter(str(letter.message["Message-ID"]) for letter in place.smtp.letters)
    assert [message for message, count in sent.items() if count > 1] == []
    statuses = {status for status, _code in registrants.answers}
    bugs = [line for companion in registrants.companions for line in companion.daemon.log if "bug in" in line]
    assert statuses <= {0, 200, 201, 409, 422, 503}, "\n".join([registrants.summary(), *bugs])
