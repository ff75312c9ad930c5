"""Clients do everything to a few names at once while nodes and companions fail; an order explains all they were told.

What is promised is in `tests/support/cluster/history.py`. `make torture` runs it for many seeds.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.support.authme.authme_like import AuthMeLike, StoredPassword
from tests.support.cluster.account_model import AUDITED, Operation
from tests.support.cluster.clients import Clients, Subject, acting
from tests.support.cluster.companions import Companion, Place, open_place, running
from tests.support.cluster.galera import GaleraNode
from tests.support.cluster.history import Unexplained, find_order
from tests.support.watching import ask_until

FIRST_SEED: Final = int(os.environ.get("COMPANION_TEST_SEED", "1"))
SEEDS: Final = range(FIRST_SEED, FIRST_SEED + int(os.environ.get("COMPANION_TEST_HISTORIES", "1")))
FEW: Final = 10
LAGS: Final = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
"""Seconds: what a node shows after it hung may be as old as that was long."""
OPERATORS: Final = ("Olivia", "Oscar", "Ophelia")
PASSWORD: Final = "the password of each operator"


@pytest.fixture
def place(running_nodes: Sequence[GaleraNode], tmp_path: Path) -> Iterator[Place]:
    with open_place(tmp_path, running_nodes) as place:
        yield place


@pytest.fixture
def companions(place: Place) -> Iterator[Sequence[Companion]]:
    """Three, each at its node: a and b read what it has, c waits for what was committed on the others."""
    for name in OPERATORS[1:]:
        AuthMeLike(place.table).register(name, PASSWORD)
    place.game.write_operators(*OPERATORS)
    config: dict[str, dict[str, object]] = {
        "http": {"trusted_proxies": ["127.0.0.1"]},
        "registration": {"reapply_after": "0 seconds"},
    }
    always: dict[str, dict[str, object]] = {**config, "database": {"causal_reads": "always"}}
    beside = zip("abc", place.nodes, (config, config, always), strict=True)
    with running([Companion(place, name, node.port, given) for name, node, given in beside]) as companions:
        yield companions


@dataclass(frozen=True)
class Faults:
    """What may happen to a node or a companion while clients act at all."""

    place: Place
    companions: Sequence[Companion]
    clients: Clients

    def kill_companion(self, number: int) -> None:
        companion = self.companions[number]
        companion.daemon.kill()
        self.clients.wait_for_more(FEW, *self._others(number))
        companion.daemon.start()

    def kill_node(self, number: int) -> None:
        self.place.nodes[number].kill()
        self.clients.wait_for_more(FEW, *self._others(number))
        self.place.nodes[number].start()

    def cut_off(self, number: int) -> None:
        node = self.place.nodes[number]
        node.cut_off()
        try:
            self.clients.wait_for_more(FEW, *self._others(number))
        finally:
            node.reconnect()

    def hang(self, number: int) -> None:
        node = self.place.nodes[number]
        node.pause()
        try:
            self.clients.wait_for_more(FEW, *self._others(number))
        finally:
            node.resume()

    def _others(self, number: int) -> list[Companion]:
        return [companion for other, companion in enumerate(self.companions) if other != number]


@pytest.mark.parametrize("seed", SEEDS)
def test_an_order_explains_every_answer(place: Place, companions: Sequence[Companion], seed: int) -> None:
    tokens = [companions[0].olivia(), *(companions[0].admin_token(name, PASSWORD) for name in OPERATORS[1:])]
    place.wait_for_replication()
    with acting(companions, tokens, seed) as clients:
        faults = Faults(place, companions, clients)
        chance = Random(seed)
        happens: list[Callable[[int], None]] = [faults.kill_companion, faults.kill_node, faults.cut_off, faults.hang]
        for happen in chance.sample(happens, len(happens)):
            clients.wait_for_more(FEW, *companions)
            happen(chance.randrange(len(companions)))
        clients.wait_for_more(FEW, *companions)
    place.wait_for_replication()
    check(place, clients)


def check(place: Place, clients: Clients) -> None:
    """Require an order for each name, with what all nodes have in the end, and that the game follows."""
    print(summarize(clients), flush=True)
    assert {status for _kind, status, _code in clients.answers} <= {0, 200, 201, 401, 403, 404, 409, 422, 429, 503}
    bugs = [line for companion in clients.companions for line in companion.daemon.log if "bug in" in line]
    assert bugs == []
    sent = Counter(str(letter.message["Message-ID"]) for letter in place.smtp.letters)
    assert [message for message, number in sent.items() if number > 1] == []
    problems, lags = [], Counter[float]()
    for subject in clients.subjects:
        looks, audited = look(place, subject)
        history = [*subject.history, *looks]
        for lag in LAGS:
            try:
                find_order(history, {"a": lag, "b": lag}, audited)
                lags[lag] += 1
                break
            except Unexplained as error:
                asked = "\n".join(f"  {it}" for it in sorted(history, key=lambda it: it.started))
                problem = f"{subject.person.name}: {error}\nof all these:\n{asked}"
        else:
            problems.append(problem)
    print(*problems, sep="\n\n", flush=True)
    print(f"explained with a lag of seconds: {dict(sorted(lags.items()))}")
    assert problems == [], "\n\n".join(problems)
    for subject in clients.subjects:
        ask_until(partial(find_wrong_row, place, subject), lambda wrong: wrong is None)


def summarize(clients: Clients) -> str:
    told = [it for subject in clients.subjects for it in subject.history]
    unknown = sum(it.answer is None for it in told)
    kinds = Counter(it.kind for it in told)
    return (
        f"{len(clients.subjects)} names, {len(told)} operations, {unknown} without an answer: {dict(kinds)}\n"
        f"answers: {dict(sorted(clients.answers.items(), key=str))}"
    )


def look(place: Place, subject: Subject) -> tuple[list[Operation], Counter[str]]:
    """Return what all nodes have in the end, seen long after the last answer, and their audit entries."""
    moment = max((it.started for it in subject.history), default=0.0) + 1000
    looks, audited = [], list[Counter[str]]()
    for node in place.nodes:
        query = "SELECT status, password_hash, password_salt FROM regsvc_user WHERE username_key = ?"
        rows = place.query(node, query, (subject.person.key,))
        seen = {"status": "None", "password": ""}
        for row in rows:
            stored = StoredPassword(row["password_hash"], row["password_salt"])
            opened = [it.new for it in subject.history if it.new and stored.is_made_from(it.new)]
            seen = {"status": row["status"], "password": opened[0] if opened else "unknown"}
        looks += [Operation(node.name, "all", kind, moment, moment, answer) for kind, answer in seen.items()]
        entries = place.query(node, "SELECT action FROM regsvc_audit WHERE target = ?", (subject.person.name,))
        audited.append(Counter(row["action"] for row in entries if row["action"] in AUDITED.values()))
    assert audited[0] == audited[1] == audited[2]
    return looks, audited[0]


def find_wrong_row(place: Place, subject: Subject) -> str | None:
    """Return what is wrong with the player's row in the game: the password opens it if the user is approved."""
    [node, *_others] = place.nodes
    query = "SELECT status, password_hash, password_salt FROM regsvc_user WHERE username_key = ?"
    users = place.query(node, query, (subject.person.key,))
    rows = place.query(node, f"SELECT password FROM {place.table.name} WHERE username = ?", (subject.person.key,))
    ever = [it.new for it in subject.history if it.new]
    opened = {it for it in ever for row in rows if StoredPassword(row["password"]).is_made_from(it)}
    wanted = {
        it
        for it in ever
        for user in users
        if user["status"] == "approved"
        and StoredPassword(user["password_hash"], user["password_salt"]).is_made_from(it)
    }
    return None if opened == wanted else f"{subject.person.name}: {opened} opens the row, not {wanted}"
