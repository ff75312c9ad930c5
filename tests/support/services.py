"""The daemon's services on one thread beside AuthMe's table, with a manual clock: no HTTP, no background job.

`services.sync()` is a sync run; `services.restart()` closes the app and opens another one on the same data.
"""

import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plugin_bridge.authme.config import read_authme_config
from regsvc.accounts.decisions import DecisionResult
from regsvc.accounts.login import LoggedIn
from regsvc.app.app import App
from regsvc.app.context import open_context
from regsvc.auth.entitlement import Principal
from regsvc.auth.verification_codes import CodeOrProof
from regsvc.config.loader import load_config
from regsvc.core.addresses import Caller
from regsvc.core.email_address import parse_email
from regsvc.core.rights import Team
from regsvc.database.audit import Actor
from regsvc.database.models import AuditEntry, Link, OutboxEntry, Session, SyncRecord, User
from regsvc.notifications.delivery import Drop
from regsvc.registration.registration import RegistrationRequest
from regsvc.sync.report import SyncReport
from regsvc.users.transitions import DecisionDetails
from tests.support.authme.authme_database import AuthMeDatabase, MariaDBSchema, Row, SqliteFile
from tests.support.authme.authme_like import AuthMeLike
from tests.support.authme.authme_tables import AuthMeTable, find_player
from tests.support.authme.game_server import GameServer
from tests.support.daemon import to_toml
from tests.support.manual_clock import ManualClock
from tests.support.migrated import fill_file, fill_schema
from tests.support.quick_yaml import quick_yaml

CALLER = Caller("198.51.100.7", "198.51.100.7", "en", "request-1")
OLIVIA = Principal(
    Actor("Olivia", "198.51.100.9"),
    Team(lambda name: 4).rights_of(User(username="Olivia", status="approved")),
    "Olivia",
)
PASSWORD = "the-web-password"

Settings = Mapping[str, object]


@dataclass
class ServiceHarness:
    """The services of one process. Make it with `open_services`; `close` it at the end."""

    game: GameServer
    table: AuthMeTable
    clock: ManualClock
    directory: Path
    given: Settings
    app: App
    authme: AuthMeLike

    @property
    def ours(self) -> AuthMeDatabase:
        """Our tables, for tests that use SQL."""
        is_shared = self.table.database.kind == "mariadb"
        return self.table.database if is_shared else SqliteFile(self.directory / "companion.db")

    # --- the sync ---

    def sync(self, *, allow_mass_changes: bool = False) -> SyncReport:
        return self.app.sync.run_alone(allow_mass_changes=allow_mass_changes)

    def plan(self, max_names: int = 0) -> SyncReport:
        return self.app.sync.plan_alone(allow_mass_changes=False, is_full=False, max_names=max_names)

    def pass_days(self, days: int) -> SyncReport:
        """Let days pass, with a run every three of them at most; return the report of the last."""
        for passed in range(0, days, 3):
            self.clock.advance(days=min(3, days - passed))
            report = self.sync()
        return report

    # --- what people do on the web ---

    def register(
        self, name: str, password: str | None = PASSWORD, email: str | None = None, platform: str = "java"
    ) -> str:
        """Register and return the status."""
        address = email or f"{name.lower()}@example.org"
        key = parse_email(address).key
        codes = self.app.codes
        issued = codes.find_sendable(codes.issue(key, "register", CALLER))
        assert issued is not None
        application = RegistrationRequest(name, address, CodeOrProof(codes.code_of(issued)), password, platform, "en")
        return asyncio.run(self.app.registration.register(application, CALLER)).status

    def approved(self, name: str, password: str | None = PASSWORD) -> User:
        """Register and approve a user."""
        self.register(name, password)
        self.decide("approve", name)
        return self.user(name)

    def decide(self, transition: str, name: str, **details: Any) -> DecisionResult:
        return self.app.worker.run_here(self.app.decisions.decide, name, transition, OLIVIA, DecisionDetails(**details))

    def ask(self, name: str, question: str = "Which Bob?") -> DecisionResult:
        return self.app.worker.run_here(self.app.decisions.ask, name, question, OLIVIA)

    def answer(self, name: str, text: str = "The builder.") -> None:
        """Answer the newest question, with the token of the application."""
        token = self.app.application_tokens.token_of(self.user(name))
        asyncio.run(self.app.application_changes.answer_question(token, text, CALLER))

    def set_password(self, name: str, password: str) -> DecisionResult:
        """Set a password as the command line does."""
        return self.app.password_changes.set_here(name, password, Actor(name))

    def login(self, name: str, password: str) -> LoggedIn:
        return asyncio.run(self.app.logins.log_in(name, password, "user", CALLER))

    # --- what is there ---

    def find_user(self, name: str) -> User | None:
        user: User | None = User.get_or_none(User.username_key == name.lower())
        return user

    def user(self, name: str) -> User:
        """Return the user; AssertionError if there is none."""
        user = self.find_user(name)
        assert user is not None, f"there is no user {name}"
        return user

    def player(self, name: str) -> SyncRecord:
        """Return the sync record of this name."""
        player: SyncRecord = SyncRecord.get_by_id(name.lower())
        return player

    def plugin(self, name: str) -> str:
        return str(self.player(name).plugin_state)

    def row(self, name: str) -> Row:
        """Return AuthMe's row of exactly this name; AssertionError if there is none."""
        row = find_player(self.table, name)
        assert row is not None, f"AuthMe has no {name}"
        return row

    def is_locked(self, name: str) -> bool:
        return str(self.row(name)["password"]).startswith("!locked!")

    def audits(self, action: str, target: str | None = None) -> list[AuditEntry]:
        """Return the audit entries, oldest first."""
        entries = AuditEntry.select().where(AuditEntry.action == action).order_by(AuditEntry.id)
        return [entry for entry in entries if target is None or entry.target == target]

    def details(self, action: str, target: str | None = None) -> list[dict[str, Any]]:
        return [json.loads(entry.detail or "{}") for entry in self.audits(action, target)]

    def mails(self, name: str) -> list[str]:
        """Return the templates mailed to this user, oldest first, without the receipt."""
        key = self.user(name).email_key
        query = OutboxEntry.select().where(OutboxEntry.recipient_key == key).order_by(OutboxEntry.id)
        return [entry.template for entry in query if entry.template != "received"]

    def find_mailed_link(self) -> str | None:
        """Deliver the mails that are due, and return the token of the newest link, or None if there is none."""
        app = self.app
        for [mail] in iter(lambda: app.outbox.claim_due(1), []):
            try:
                with app.context.location.database.atomic():
                    app.mail_renderer.render(mail)
            except Drop as reason:
                app.outbox.drop(mail, str(reason))
            else:
                app.outbox.record_sent(mail)
        link = Link.select().order_by(Link.id.desc()).first()
        return app.links.token_of(link) if link else None

    def sessions(self, name: str) -> int:
        """Return the number of the user's active sessions."""
        user = self.user(name)
        query = Session.select().where((Session.user == user) & (Session.token_generation == user.token_generation))
        return int(query.count())

    # --- the process ---

    def apply_authme(self) -> None:
        """Take AuthMe's config after a change, as the daemon does."""
        authme = read_authme_config(self.game.authme_config)
        self.app.live.apply_authme(authme)
        self.app.context.operators.follow(authme)

    def restart(self, **changes: object) -> None:
        """Restart with changed config keys, with two underscores for the dot."""
        self.close()
        self.given = {**self.given, **named(changes)}
        self.app = open_app(self.game, self.directory, self.clock, self.given)

    def close(self) -> None:
        self.app.worker.close_here()
        self.app.sync_worker.close_here()
        self.app.close()


MakeServices = Callable[..., ServiceHarness]


def open_services(
    game: GameServer, table: AuthMeTable, clock: ManualClock, directory: Path, **given: object
) -> ServiceHarness:
    """Start for the first time. `given` are keys of the config, with two underscores for the dot."""
    authme = AuthMeLike(table, now=clock)
    settings = named(given)
    if "database.url" not in settings:
        _make_tables(table, directory)
        if settings.get("authme.enabled") is False and isinstance(table.database, MariaDBSchema):
            settings["database.url"] = table.database.database.url  # which "auto" would take from AuthMe's config
    return ServiceHarness(game, table, clock, directory, settings, open_app(game, directory, clock, settings), authme)


def _make_tables(table: AuthMeTable, directory: Path) -> None:
    """Create the tables as the migrator would, which then only checks them."""
    if isinstance(table.database, MariaDBSchema):
        fill_schema(table.database.database)
    else:
        fill_file(directory / "companion.db")


def open_app(game: GameServer, directory: Path, clock: ManualClock, given: Settings) -> App:
    usual: dict[str, object] = {
        "server.state_dir": str(directory),
        "game.directory": str(game.directory),
        "mail.backend": "folder",
        "mail.folder": str(directory / "mail"),
        "mail.sender": "companion@example.org",
        "auth.login_limits": ["100000 per minute"],
        "database.busy_timeout": "200 ms",
    }
    named = {**usual, **given}
    file = to_toml({"team_chat": named.pop("team_chat", [])})  # type: ignore[dict-item]
    config = load_config(directory / "companion.toml", {}, named, file)
    with quick_yaml():
        context = open_context(config, now=clock)
    app = App(context, "http://127.0.0.1:8080")
    context.prepare()
    app.open()
    return app


def named(changes: Mapping[str, object]) -> dict[str, object]:
    return {name.replace("__", "."): value for name, value in changes.items()}


class Away:
    """Context manager that keeps AuthMe's SQLite file locked."""

    def __init__(self, table: AuthMeTable) -> None:
        assert isinstance(table.database, SqliteFile)
        self._connection: sqlite3.Connection = table.database.connect()

    def __enter__(self) -> None:
        self._connection.execute("BEGIN EXCLUSIVE")

    def __exit__(self, *exc_info: object) -> None:
        self._connection.execute("ROLLBACK")
        self._connection.close()


@contextmanager
def authme_away(services: ServiceHarness) -> Iterator[None]:
    """Rename the table for the duration."""
    table = services.table
    table.database.execute(f"ALTER TABLE {table.name} RENAME TO elsewhere")
    try:
        yield
    finally:
        table.database.execute(f"ALTER TABLE elsewhere RENAME TO {table.name}")
