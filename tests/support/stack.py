"""A stack for the tests: a game server with AuthMe, a mail server, and the daemon beside them, all real.

One stack serves a whole test file, so every test has its own people: `stack.newcomer("alice")` returns a person whose
name no other test uses. Olivia is the operator; `stack.olivia()` returns her admin token.
"""

import itertools
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.authme.authme_database import AuthMeDatabase, DatabaseKind, MariaDBSchema, SqliteFile
from tests.support.authme.authme_like import Algorithm, AuthMeLike
from tests.support.authme.authme_tables import AuthMeTable, TableShape, create_table
from tests.support.authme.game_server import GameServer, write_game_server
from tests.support.daemon import Daemon, Reply
from tests.support.migrated import fill_file, fill_schema
from tests.support.peers.mariadb import MariaDBServer
from tests.support.peers.smtp import Letter, MailServer

OPERATOR = "Olivia"
OPERATORS_PASSWORD = "olivias-secret"
NO_LIMIT = ["100000 per minute"]
GENEROUS: dict[str, dict[str, Any]] = {
    "sync": {"every": "1 hour"},  # tests run it themselves
    "verification": {
        "limits_per_address": NO_LIMIT,
        "limits_per_client": NO_LIMIT,
        "limits_total": NO_LIMIT,
        "limits_total_forgot": NO_LIMIT,
        "tries_per_client": NO_LIMIT,
    },
    "auth": {"login_limits": NO_LIMIT},
    "database": {"threads": 4},  # more than the default, for more that can happen at once
    "http": {"status_limit": NO_LIMIT},
    "updates": {"enabled": False},
    "log": {"level": "debug"},
}
"""A config whose limits no test reaches by accident."""

_CODE = re.compile(r"^\s+(\d{6,10})\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Person:
    """A person with a name, an e-mail address and a password."""

    name: str
    email: str
    password: str

    @property
    def key(self) -> str:
        """The name as AuthMe stores it."""
        return self.name.lower()


class Stack:
    """A context manager; `config` replaces `GENEROUS` section by section, key by key."""

    def __init__(
        self,
        kind: DatabaseKind,
        directory: Path,
        mariadb: MariaDBServer | None = None,
        *,
        config: Mapping[str, Mapping[str, Any]] | None = None,
        shape: TableShape = TableShape.FRESH,
        collation: str = "",
        authme: Mapping[str, object] | None = None,
        properties: Mapping[str, object] | None = None,
        environment: Mapping[str, str] | None = None,
        is_quick: bool = True,
    ) -> None:
        """Take `authme` as changes of AuthMe's config.yml, by path, and `properties` for server.properties."""
        self.kind = kind
        self._directory = directory
        self._mariadb = mariadb
        self._config = config or {}
        self._shape = shape
        self._collation = collation
        self._authme_changes = authme
        self._properties = properties or {}
        self._environment = environment
        self._is_quick = is_quick
        self._numbers = itertools.count(1)
        self._olivias_token: str | None = None
        self._passwords: dict[str, str] = {}  # of those whose sessions at /admin these are
        self._olivias_test: str | None = None  # in which the token was last known to be valid
        self.game: GameServer
        self.table: AuthMeTable
        self.authme: AuthMeLike
        self.smtp: MailServer
        self.daemon: Daemon

    def __enter__(self) -> "Stack":
        with ExitStack() as stack:
            self.game = write_game_server(self._directory / "game")
            self.game.write_properties(**self._properties)
            self.game.authme_directory.mkdir(parents=True)
            self.table = AuthMeTable(self._place(stack), shape=self._shape, collation=self._collation)
            create_table(self.table)
            self.game.install_authme(self.table, self._authme_changes)
            self.authme = AuthMeLike(self.table, self._algorithm())
            self.authme.register(OPERATOR, OPERATORS_PASSWORD)
            self.smtp = MailServer()
            self.smtp.start()
            stack.callback(self.smtp.stop)
            self.daemon = Daemon(
                self._directory / "daemon", self._sections(), self._environment, is_quick=self._is_quick
            )
            if self._is_quick and "database" not in self._config:
                self._make_tables()
            self.daemon.start()
            stack.callback(lambda: self.daemon.stop() if self.daemon.is_running else None)
            self._open = stack.pop_all()
        self._made = self._shared_state()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._open.close()

    def is_as_made(self) -> bool:
        """Return whether another test file may have it: what concerns more than this one's people is unchanged.

        And nothing is due for any of these, so that the next one's reports are about its own.
        """
        return self.daemon.is_running and self._shared_state() == self._made and self._is_in_sync()

    def _is_in_sync(self) -> bool:
        try:
            self.sync()  # for what is due
            report = self.sync()
        except AssertionError:  # Olivia cannot, or no longer
            return False
        return not any(report[name] for name in report.keys() - {"startedAt", "durationMs", "scanned", "allowlist"})

    def _shared_state(self) -> object:
        """Return the process, its config, the game's files, and the settings that operators may change."""
        files = [file for file in self.game.directory.rglob("*") if file.is_file() and file.suffix[:3] != ".db"]
        ours = self.table.database if self.kind == "mariadb" else SqliteFile(self.daemon.state_dir / "companion.db")
        settings = ours.query("SELECT name, value FROM regsvc_setting")
        return self.daemon.pid, {file: file.read_bytes() for file in [*files, self.daemon.config_file]}, settings

    def restart_with(self, config: Mapping[str, Mapping[str, Any]]) -> None:
        """Restart the daemon on the same data, with its config changed key by key."""
        sections = {*self._config, *config}
        self._config = {name: {**self._config.get(name, {}), **config.get(name, {})} for name in sections}
        self.daemon.stop()
        self.daemon.write_config(self._sections())
        self.daemon.start()

    def make_another_daemon(self, directory: Path) -> Daemon:
        """Return a daemon beside this one, on the same database and with the same config. Start and stop it."""
        return Daemon(directory, self._sections(), self._environment, is_quick=self._is_quick)

    # --- people ---

    def newcomer(self, name: str = "alice") -> Person:
        """Return a person with an unused name, which begins no other's: pages are searched for names."""
        number = next(self._numbers)
        return Person(f"{name.capitalize()}_{number:03}", f"{name}.{number}@example.org", f"{name}-secret-{number}")

    def olivia(self) -> str:
        """Return the operator's admin token, checked once per test; a new one after a 401."""
        test = os.environ.get("PYTEST_CURRENT_TEST")
        if self._olivias_token is not None and (test is None or test != self._olivias_test):
            self.get("/api/admin/verify", token=self._olivias_token)
        if self._olivias_token is None:
            self._olivias_token = self.admin_token(OPERATOR, OPERATORS_PASSWORD)
        self._olivias_test = test
        return self._olivias_token

    def admin_token(self, name: str, password: str) -> str:
        reply = self.post("/api/admin/login", {"username": name, "password": password})
        assert reply.status == 200, reply.text
        token: str = reply.json["token"]
        self._passwords[token] = password
        return token

    def confirmed(self, admin_token: str, **body: object) -> dict[str, object]:
        """Return the body of a request that needs the password of whose session this is."""
        return {**body, "currentPassword": self._passwords[admin_token]}

    def chat_code(self, admin_token: str) -> str:
        """Return a code that links a chat account to the member of the team with this session."""
        reply = self.post("/api/admin/team-chat/code", self.confirmed(admin_token), token=admin_token)
        assert reply.status == 200, reply.text
        code: str = reply.json["code"]
        return code

    def user_token(self, person: Person, password: str | None = None) -> str:
        reply = self.login(person, password)
        assert reply.status == 200, reply.text
        token: str = reply.json["token"]
        return token

    # --- what people do ---

    def code_for(self, email: str) -> str:
        """Request a code and read it from the mail."""
        letters = sum(map(has_code, self.smtp.letters_to(email)))
        reply = self.post("/api/verify/send", {"email": email})
        assert reply.status == 200, reply.text
        return find_code(self.smtp.wait_for(email, letters + 1, counts=has_code).text)

    def register(self, person: Person, **fields: object) -> Reply:
        """Register with a new code. A field that is None is left out."""
        body = {
            "username": person.name,
            "email": person.email,
            "password": person.password,
            "code": fields.pop("code", None) or self.code_for(person.email),
            **fields,
        }
        return self.post("/api/register", {name: value for name, value in body.items() if value is not None})

    def pending(self, name: str = "alice", **fields: object) -> Person:
        """Return a new person who has registered and is pending."""
        person = self.newcomer(name)
        reply = self.register(person, **fields)
        assert reply.status == 201, reply.text
        return person

    def approved(self, name: str = "bob", **fields: object) -> Person:
        """Return a new person who has registered and was approved."""
        person = self.pending(name, **fields)
        self.decides("approve", person)
        return person

    def decides(self, transition: str, person: Person, **fields: object) -> Reply:
        """Make a decision as Olivia; it must succeed."""
        reply = self.decide(transition, person, **fields)
        assert reply.status == 200, reply.text
        return reply

    def decide(self, transition: str, person: Person, **fields: object) -> Reply:
        """Make a decision as Olivia, whatever the reply."""
        body = {"username": person.name, **fields}
        return self.post(f"/api/admin/user/{transition}", body, token=self.olivia())

    def login(self, person: Person, password: str | None = None) -> Reply:
        return self.post("/api/login", {"username": person.name, "password": password or person.password})

    def sync(self, **fields: object) -> dict[str, Any]:
        """Run the sync and return its report."""
        reply = self.post("/api/admin/sync", fields, token=self.olivia())
        assert reply.status == 200, reply.text
        report: dict[str, Any] = reply.json["report"]
        return report

    def status(self, person: Person) -> str | None:
        """Return the status that the status route reports, or None if the name is unknown."""
        reply = self.get("/api/user/status", {"username": person.name})
        status: str | None = reply.json["data"].get("status")
        return status

    def user(self, person: Person) -> dict[str, Any]:
        """Return the user as the admin's list shows it."""
        reply = self.get("/api/admin/users", {"search": person.name}, token=self.olivia())
        [user] = [user for user in reply.json["users"] if user["username"].lower() == person.key]
        assert isinstance(user, dict)
        return user

    def audits(self, person: Person, action: str | None = None) -> list[dict[str, Any]]:
        """Return the audit entries about a person, newest first."""
        query = {"target": person.name, "size": "100"} | ({"action": action} if action else {})
        reply = self.get("/api/admin/audits", query, token=self.olivia())
        audits: list[dict[str, Any]] = reply.json["audits"]
        return audits

    # --- HTTP ---

    def get(self, path: str, query: Mapping[str, str] | None = None, **options: Any) -> Reply:
        return self._met(self.daemon.get(path, query, **options), options)

    def post(self, path: str, body: object = None, **options: Any) -> Reply:
        return self._met(self.daemon.post(path, body, **options), options)

    def _met(self, reply: Reply, options: Mapping[str, Any]) -> Reply:
        """Forget Olivia's token if it was refused."""
        if reply.status == 401 and options.get("token") == self._olivias_token:
            self._olivias_token = None
        return reply

    def _place(self, stack: ExitStack) -> AuthMeDatabase:
        if self.kind == "sqlite":
            return SqliteFile(self.game.authme_directory / "authme.db")
        assert self._mariadb is not None
        return MariaDBSchema(stack.enter_context(self._mariadb.fresh_database()))

    def _make_tables(self) -> None:
        """Create our tables as the migrator would, which then only checks them."""
        if isinstance(self.table.database, MariaDBSchema):
            fill_schema(self.table.database.database)
        else:
            fill_file(self.daemon.state_dir / "companion.db")

    def _algorithm(self) -> Algorithm:
        """Return the algorithm of AuthMe's config, as far as the stand-in knows it."""
        algorithm: Algorithm = (self._authme_changes or {}).get("settings.security.passwordHash", "SHA256")  # type: ignore[assignment]
        return algorithm

    def _sections(self) -> dict[str, dict[str, Any]]:
        sections: dict[str, dict[str, Any]] = {name: dict(keys) for name, keys in GENEROUS.items()}
        sections["game"] = {"directory": str(self.game.directory)}
        sections["mail"] = {
            "backend": "smtp",
            "host": self.smtp.host,
            "port": self.smtp.port,
            "security": "none",
            "sender": "companion@example.org",
        }
        given: Mapping[str, Any] = self._config
        for name, keys in given.items():
            if isinstance(keys, list):  # [[name]]
                sections[name] = keys  # type: ignore[assignment]
            else:
                sections.setdefault(name, {}).update(keys)
        return sections


class SpareStack:
    """A stack of the default config that one test file after the other borrows, as long as none changes it."""

    def __init__(self, make: Callable[[], Stack]) -> None:
        self._make = make
        self._spare: Stack | None = None

    @contextmanager
    def lent(self) -> Iterator[Stack]:
        stack, self._spare = self._spare or self._make().__enter__(), None
        stack.daemon.log.clear()  # no test is to find what another one caused
        try:
            yield stack
        finally:
            if stack.is_as_made():
                self._spare = stack
            else:
                stack.__exit__()

    def close(self) -> None:
        if self._spare is not None:
            self._spare.__exit__()


MakeStack = Callable[..., Stack]
"""Creates a stack, from a kind of database and the options of `Stack`, that is kept until the end of the test file."""


def has_code(letter: Letter) -> bool:
    """Return whether this mail contains a verification code."""
    return _CODE.search(letter.text) is not None


def find_code(text: str) -> str:
    """Return the code in such a mail."""
    match = _CODE.search(text)
    assert match is not None, text
    return match[1]


def find_link_token(text: str) -> str:
    """Return the token in a mailed link."""
    match = re.search(r"/set-password#token=(\S+)", text)
    assert match is not None, text
    return match[1]
