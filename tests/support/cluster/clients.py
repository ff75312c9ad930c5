"""Clients of several companions who do everything to a few names at once, and write down what they are told."""

import http.client
import math
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Final

from tests.support.cluster.account_model import DONE, LOOKS, SOURCES, TARGETS, Operation, has_effect
from tests.support.cluster.companions import Companion
from tests.support.daemon import Reply
from tests.support.stack import Person, find_code, has_code

CLIENTS: Final = 2
"""At each companion."""
NAMES: Final = 3
"""That are in use at a time."""
LENGTH: Final = 60
"""Operations on each name."""
KINDS: Final = {
    "register": 6,
    "decide": 6,
    "login": 6,
    "check": 5,
    "status": 4,
    "logout": 2,
    "change": 2,
    "link": 1,
    "redeem": 3,
}
"""How often clients think of each."""
_PAUSE: Final = 0.02  # seconds between two operations of a client: the load is not what is tested
_PAUSE_WHILE_AWAY: Final = 0.2
_TIMEOUT: Final = 60.0  # seconds that a story waits for progress
_CODE_AGAIN_AFTER: Final = 1.0  # seconds


@dataclass
class Subject:
    """A name, what all clients remember of it, and its history."""

    person: Person
    history: list[Operation] = field(default_factory=list)
    status: str | None = None
    passwords: list[str] = field(default_factory=lambda: [""])
    sessions: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    used_codes: list[str] = field(default_factory=list)
    code_asked_at: float = -_TIMEOUT


@dataclass
class Clients:
    """Threads at each companion. `operators`: their tokens, which are good at every companion. Safe from any thread.

    `answers`: how often each kind was answered with each status and code; status 0: a connection ended without a reply.
    """

    companions: Sequence[Companion]
    operators: Sequence[str]
    seed: int
    subjects: list[Subject] = field(default_factory=list)
    answers: Counter[tuple[str, int, str | None]] = field(default_factory=Counter)
    _done: Counter[str] = field(default_factory=Counter)
    _passwords: Iterator[int] = field(default_factory=lambda: count(1))
    _news: threading.Condition = field(default_factory=threading.Condition)
    _is_over: threading.Event = field(default_factory=threading.Event)

    def wait_for_more(self, number: int, *companions: Companion) -> None:
        """Wait until so many effects more were acknowledged at each of these companions."""
        with self._news:
            wanted = {each.name: self._done[each.name] + number for each in companions}
            has_come = self._news.wait_for(
                lambda: all(self._done[name] >= least for name, least in wanted.items()), _TIMEOUT
            )
        assert has_come, f"{wanted} wanted, {dict(self._done)} done, {dict(self.answers)}"

    def run(self, companion: Companion, number: int) -> None:
        """Let a client do one thing after the other until `stop`."""
        client, chance = f"{companion.name}{number}", Random(f"{self.seed} {companion.name} {number}")
        while not self._is_over.wait(_PAUSE):
            self._act(client, chance, companion, self._choose_subject(chance, companion))

    def stop(self) -> None:
        self._is_over.set()

    def _choose_subject(self, chance: Random, companion: Companion) -> Subject:
        with self._news:
            in_use = [subject for subject in self.subjects if len(subject.history) < LENGTH]
            while len(in_use) < NAMES:
                in_use.append(Subject(companion.newcomer(chance.choice(("alice", "bob", "carol")))))
                self.subjects.append(in_use[-1])
            return chance.choice(in_use)

    def _act(self, client: str, chance: Random, companion: Companion, subject: Subject) -> None:
        """Do something that may succeed, as far as is remembered of the name, or sometimes anything."""
        [kind] = chance.choices(list(KINDS), list(KINDS.values()))
        name, new = {"username": subject.person.name}, f"secret-{next(self._passwords)}-of-{client}"
        password = subject.passwords[-1] if chance.random() < 0.8 else chance.choice(subject.passwords)
        given = ""
        if kind in ("check", "logout", "change", "redeem"):
            known = subject.links if kind == "redeem" else subject.sessions
            if not known:
                return
            given = known[-1] if chance.random() < 0.7 else chance.choice(known[-4:])
        passwords = {"currentPassword": password, "newPassword": new}
        ask = _Asker(self, client, companion, subject, given, password)
        match kind:
            case "register":
                self._register(ask, chance, new)
            case "decide":
                fitting = [name for name, sources in SOURCES.items() if subject.status in sources]
                decision = chance.choice(fitting if fitting and chance.random() < 0.7 else list(SOURCES))
                ask(decision, f"/api/admin/user/{decision}", name, token=chance.choice(self.operators))
            case "login":
                if password:
                    ask("login", "/api/login", {**name, "password": password})
            case "check":
                ask("check", "/api/user/sessions", token=given)
            case "status":
                ask("status", f"/api/user/status?username={subject.person.name}")
            case "logout":
                ask("logout", "/api/logout", {}, token=given)
            case "change":
                ask("change", "/api/user/password", passwords, token=given, new=new)
            case "link":
                ask("link", "/api/admin/user/password-link", name, token=chance.choice(self.operators))
            case "redeem":
                ask("redeem", "/api/password/reset", {"token": given, "newPassword": new}, new=new)

    def _register(self, ask: "_Asker", chance: Random, new: str) -> None:
        """Register with the newest code that was mailed, again and again until there is an answer."""
        person, subject = ask.subject.person, ask.subject
        if subject.status not in (None, "rejected") and chance.random() < 0.8:
            return
        codes = [find_code(it.text) for it in ask.companion.smtp.letters_to(person.email) if has_code(it)]
        is_used = not codes or codes[-1] in subject.used_codes
        if (
            is_used
            and subject.status in (None, "rejected")
            and time.monotonic() > subject.code_asked_at + _CODE_AGAIN_AFTER
        ):
            subject.code_asked_at = time.monotonic()
            self.send(ask.companion, "code", "/api/verify/send", {"email": person.email}, ask.client)
        if not codes or (is_used and chance.random() < 0.8):
            return
        ask.given = codes[-1]
        fields = {"username": person.name, "email": person.email, "password": new, "code": ask.given}
        while not self._is_over.is_set():
            answer = ask("register", "/api/register", fields, new=new)
            if answer is not None:
                subject.used_codes.append(ask.given)
                return
            ask.companion = chance.choice(self.companions)

    def send(
        self,
        companion: Companion,
        kind: str,
        path: str,
        fields: Mapping[str, str] | None,
        client: str,
        token: str | None = None,
    ) -> Reply | None:
        """Send a request and return the reply; None: nobody knows what became of it."""
        headers = {"X-Forwarded-For": f"203.0.113.{int.from_bytes(client.encode()) % 251 + 1}"}
        try:
            if fields is None:
                reply = companion.daemon.get(path, token=token, headers=headers)
            else:
                reply = companion.daemon.post(path, fields, token=token, headers=headers)
        except (OSError, http.client.HTTPException):
            with self._news:
                self.answers[kind, 0, None] += 1
            self._is_over.wait(_PAUSE_WHILE_AWAY)
            return None
        with self._news:
            self.answers[kind, reply.status, reply.code if reply.status >= 400 else None] += 1
        if reply.status == 503:
            self._is_over.wait(_PAUSE_WHILE_AWAY)
            return None
        return reply

    def note(self, subject: Subject, it: Operation, made: str) -> None:
        """Write down what was asked and told, and remember what may be of use."""
        with self._news:
            subject.history.append(it)
            if it.answer != DONE or not has_effect(it):
                return
            subject.status = "pending" if it.kind == "register" else TARGETS.get(it.kind, subject.status)
            if it.new:
                subject.passwords.append(it.new)
            if made:
                (subject.links if it.kind == "link" else subject.sessions).append(made)
            self._done[it.companion] += 1
            self._news.notify_all()


@dataclass
class _Asker:
    """One request of a client about a name."""

    clients: Clients
    client: str
    companion: Companion
    subject: Subject
    given: str
    password: str

    def __call__(
        self, kind: str, path: str, fields: Mapping[str, str] | None = None, *, token: str | None = None, new: str = ""
    ) -> str | None:
        """Send it, and write it down with its answer, which is returned; None: nobody knows."""
        started = time.monotonic()
        reply = self.clients.send(self.companion, kind, path, fields, self.client, token)
        ended, answer, made = time.monotonic(), None, ""
        if reply is not None and reply.status < 400:
            answer = str(reply.json["data"].get("status")) if kind in LOOKS else DONE
            made = str(reply.json.get("token") or "")
            if kind == "link":
                made = str(reply.json["link"]).partition("#token=")[2]
        elif reply is not None:
            answer = str(reply.code)
            if reply.status == 429:
                return answer
        it = Operation(
            self.client,
            self.companion.name,
            kind,
            started,
            ended if answer is not None else math.inf,
            answer,
            shorten(self.given),
            self.password,
            new,
            shorten(made),
        )
        if answer is not None or has_effect(it):
            self.clients.note(self.subject, it, made)
        return answer


@contextmanager
def acting(companions: Sequence[Companion], operators: Sequence[str], seed: int) -> Iterator[Clients]:
    """Let clients act at all companions meanwhile; each waits for its last answer at the end."""
    clients = Clients(companions, operators, seed)
    with ThreadPoolExecutor(CLIENTS * len(companions)) as pool:
        runs = [pool.submit(clients.run, companion, number) for companion in companions for number in range(CLIENTS)]
        try:
            yield clients
        finally:
            clients.stop()
    for run in runs:
        run.result()


def shorten(token: str) -> str:
    """Return what tells a session, or a link, from others of a history."""
    return token[-8:]
