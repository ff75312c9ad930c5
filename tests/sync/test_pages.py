"""Pages of accounts: the same effects as one by one, few statements, and a failure concerns one name alone."""

import json
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from typing import Any, Final

import pytest
from msgspec import to_builtins
from peewee import DataError, IntegrityError

from plugin_bridge.authme.players import RowWrite, WriteResult
from plugin_bridge.authme.sqlite import SqliteWriter
from regsvc.core.errors import WrongStatus
from regsvc.database.engine import OwnSqlite
from regsvc.database.models import APPROVED, AuditEntry, OutboxEntry, Review, SyncRecord, User
from regsvc.sync import rules
from regsvc.sync.actions import SyncAction
from regsvc.sync.effects import Effects, SyncContext
from regsvc.sync.pages import Page, ReconcileResult
from regsvc.sync.records import Account, AccountLoader, Policy
from regsvc.users.transitions import Transitions
from tests.support.authme.authme_database import MariaDBSchema
from tests.support.authme.authme_tables import find_player, insert_player
from tests.support.meanwhile import assert_locked, meanwhile
from tests.support.services import MakeServices, ServiceHarness
from tests.support.statements import recorded_statements

pytestmark = pytest.mark.every_database

OLD: Final = 1_500_000_000_000
NEW: Final = 1_950_000_000_000
PREMIUM: Final = "11111111-2222-4333-8444-555555555555"
OF_THE_MOMENT: Final = {"id", "user_id", "row_id", "changed_at", "review_id"}
GROUP: Final = 24
MANY: Final = 200


@pytest.fixture
def services(make_services: MakeServices) -> ServiceHarness:
    return make_services(sync__max_changes="1000 and 100%")


def adopt_group(services: ServiceHarness, group: str, size: int = GROUP) -> None:
    """Adopt players of a group, alike except for their names."""
    for number in range(size):
        name = f"{group}{number:03}"
        values = {"username": name, "realname": name.capitalize(), "password": f"$SHA$x${number}", "regdate": OLD}
        email = f"{name}@example.org" if number % 2 else "your@email.com"
        premium = PREMIUM if number % 3 == 0 else None
        insert_player(services.table, **values, email=email, premiumUUID=premium, hasSession=number % 2)
    services.sync()
    services.sync()


def names(group: str, *numbers: int) -> str:
    return ", ".join(f"'{group}{number:03}'" for number in numbers)


def change_users(services: ServiceHarness, assignments: str, which: str) -> None:
    services.ours.execute(f"UPDATE regsvc_user SET {assignments} WHERE username_key IN ({which})")


def change_rows(services: ServiceHarness, assignments: str, which: str) -> None:
    services.table.database.execute(f"UPDATE {services.table.name} SET {assignments} WHERE username IN ({which})")


def change_group(services: ServiceHarness, group: str) -> None:
    """Change the accounts of a group on both sides, and run the sync after each round."""
    change_users(services, "status = 'banned'", names(group, 0, 1, 2, 15))
    change_users(services, "status = 'banned', reason = 'griefing', ban_expires_at = '2033-01-01'", names(group, 3, 4))
    change_users(services, "status = 'banned', ban_expires_at = '2020-01-01'", names(group, 5))
    change_users(services, "status = 'pending'", names(group, 6))
    change_users(services, "username = 'Renamed', username_key = 'renamed'", names(group, 11))
    change_rows(services, "password = '$SHA$y$new'", names(group, 7, 8, 12, 15))
    change_rows(services, f"email = '{group}-moved@example.org'", names(group, 12))
    change_rows(services, "email = 'none at all'", names(group, 14))
    change_rows(services, f"email = '{group}001@example.org'", names(group, 16))
    change_rows(services, f"password = 'foreign', regdate = {NEW}", names(group, 17, 18))
    change_rows(services, f"realname = '{group.upper()}019'", names(group, 19))
    change_rows(services, "realname = 'another'", names(group, 20))
    gone = names(group, 8, 9, 10)
    services.table.database.execute(f"DELETE FROM {services.table.name} WHERE username IN ({gone})")
    services.ours.execute(f"DELETE FROM regsvc_user WHERE username_key IN ({names(group, 21)})")
    services.sync(allow_mass_changes=True)
    change_users(services, "status = 'approved'", names(group, 0, 3, 15))
    change_rows(services, "password = 'foreign again'", names(group, 17))
    for number in (9, 17, 22):
        services.set_password(f"{group}{number:03}", "set-on-the-web")
    services.decide("approve", f"{group}018", password_choice="keep")
    services.sync(allow_mass_changes=True)


def read_group(services: ServiceHarness, group: str, since: int) -> Any:
    """Return everything lasting about a group, with the group's name replaced."""
    keys = [f"{group}{number:03}" for number in range(GROUP)]
    tables: list[Any] = [
        User.select().where(User.username_key.in_(keys)).order_by(User.username_key),
        SyncRecord.select().where(SyncRecord.username_key.in_(keys)).order_by(SyncRecord.username_key),
        Review.select().where(Review.username_key.in_(keys)).order_by(Review.username_key, Review.id),
    ]
    told = AuditEntry.select().where((AuditEntry.id > since) & AuditEntry.target.is_null(False))
    mails = OutboxEntry.select().where(OutboxEntry.recipient_key.startswith(group))
    random = {"password_hash", "base_hash"}  # of the passwords set on the web
    lasting: list[Any] = [
        [{n: v for n, v in row.items() if n not in OF_THE_MOMENT | random} for row in query.dicts()] for query in tables
    ]
    lasting.append(sorted((entry.action, entry.operator, entry.target, entry.detail) for entry in told))
    lasting.append(sorted((entry.template, entry.recipient, entry.row_id is None) for entry in mails))
    lasting.append([row_of(services, key) for key in keys])
    text = json.dumps(lasting, default=str)
    return json.loads(text.replace(group, "group").replace(group.capitalize(), "Group").replace(group.upper(), "GROUP"))


def row_of(services: ServiceHarness, key: str) -> dict[str, Any] | None:
    row = find_player(services.table, key)
    if row is None:
        return None
    is_random = str(row["password"]).startswith("$SHA$") and len(str(row["password"])) > 60
    return {name: value for name, value in row.items() if name != "id" and not (is_random and name == "password")}


def newest_entry() -> int:
    return int(AuditEntry.select(AuditEntry.id).order_by(AuditEntry.id.desc()).limit(1).scalar() or 0)


# --- the same effects ---


def test_a_page_has_the_effects_of_its_accounts_one_by_one(
    services: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    for group in ("elm", "oak"):
        adopt_group(services, group)
    before = newest_entry()
    change_group(services, "elm")
    together = read_group(services, "elm", before)
    monkeypatch.setattr(Page, "reconcile", one_by_one(Page.reconcile))
    before = newest_entry()
    change_group(services, "oak")
    assert together == read_group(services, "oak", before)
    assert [services.plugin(f"elm{number:03}") for number in (1, 8, 14, 18)] == [
        "locked",
        "absent",
        "conflict",
        "synced",
    ]
    services.sync()
    assert not services.sync().has_effects


def one_by_one(reconcile: Callable[..., dict[str, ReconcileResult]]) -> Callable[..., dict[str, ReconcileResult]]:
    def reconciling(page: Page, accounts: Sequence[Account]) -> dict[str, ReconcileResult]:
        for account in accounts:
            reconcile(page, [account])
        return page.results

    return reconciling


def test_names_that_were_swapped_are_given_back(services: ServiceHarness) -> None:
    adopt_group(services, "elm", 3)
    ids = [services.user(f"elm{number:03}").id for number in range(3)]
    services.ours.execute("UPDATE regsvc_user SET username_key = 'free' WHERE id = ?", (ids[0],))
    for user_id, name in ((ids[1], "elm000"), (ids[2], "elm001"), (ids[0], "elm002")):
        values = (name, name.capitalize(), user_id)
        services.ours.execute("UPDATE regsvc_user SET username_key = ?, username = ? WHERE id = ?", values)
    assert services.sync().errors == []
    assert [services.user(f"elm{number:03}").id for number in range(3)] == ids
    assert len(services.audits("sync.edit_refused")) == 3
    services.sync()
    assert not services.sync().has_effects


@pytest.mark.parametrize("at", ["row", "user"])
def test_a_row_that_changes_meanwhile_delays_no_other(
    services: ServiceHarness, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """A row of AuthMe's changes between loading the page and writing it; or the transition of a page is refused."""
    adopt_group(services, "elm", 12)
    services.ours.execute("UPDATE regsvc_user SET status = 'banned'")
    with monkeypatch.context() as patched:
        if at == "row":
            players = services.app.context.location.players
            patched.setattr(players, "write_many", not_as_seen(services, players.write_many, "elm005"))
        else:
            apply_sql_edits = Transitions.apply_sql_edits
            patched.setattr(Transitions, "apply_sql_edits", refused_for_many(apply_sql_edits))
        report = services.sync()
    assert (report.locked, report.errors) == (12, [])
    assert all(services.is_locked(f"elm{number:03}") for number in range(12))
    assert len(services.audits("user.banned")) == 12
    services.sync()
    assert not services.sync().has_effects


def not_as_seen(
    services: ServiceHarness, write_many: Callable[..., list[WriteResult]], key: str
) -> Callable[..., list[WriteResult]]:
    """Return a `write_many` before whose first call AuthMe writes this row."""
    is_late = [True]

    def writing(writes: Sequence[RowWrite]) -> list[WriteResult]:
        if is_late:
            is_late.clear()
            result = write_many([write for write in writes if username_of(write) != key])
            at = next(number for number, write in enumerate(writes) if username_of(write) == key)
            return [*result[:at], WriteResult(is_written=False), *result[at:]]
        return write_many(writes)

    return writing


def username_of(write: Any) -> str:
    return str(write.seen.username)


def refused_for_many(apply_sql_edits: Callable[..., None]) -> Callable[..., None]:
    def applying(transitions: Transitions, users: Sequence[User], **options: Any) -> None:
        if len(users) > 1:
            raise WrongStatus("approved")
        apply_sql_edits(transitions, users, **options)

    return applying


def test_a_password_set_on_the_web_meanwhile_is_the_one_that_counts(
    services: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The password is set after the run decided to merge the game's, and before it locks the page."""
    adopt_group(services, "elm", 12)
    for name in ("elm007", "elm008"):
        services.authme.set_password(name, "changed-in-game")
    lock, is_late = AccountLoader.load_for_update, [True]

    def locking(loader: AccountLoader, keys: Collection[str], *, with_players: bool = True) -> list[Account]:
        if len(keys) > 1 and is_late:
            is_late.clear()
            services.set_password("Elm007", "set-on-the-web")
        return lock(loader, keys, with_players=with_players)

    monkeypatch.setattr(AccountLoader, "load_for_update", locking)
    services.sync()
    assert not is_late
    services.sync()
    for name, password in (("Elm007", "set-on-the-web"), ("Elm008", "changed-in-game")):
        assert services.authme.login(name, password)
        assert services.login(name, password).status == APPROVED


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_an_address_proven_on_the_web_meanwhile_is_the_one_that_counts(services: ServiceHarness) -> None:
    """The run merges the game's with a password, has written the row, and has not recorded that yet."""
    adopt_group(services, "elm", 3)
    change_rows(services, "email = 'typed@example.org'", names("elm", 1))
    change_users(services, "password_hash = '$SHA$y$new', password_algorithm = 'SHA256'", names("elm", 1))
    proven = "email = 'proven@example.org', email_key = 'proven@example.org', is_email_verified = 1"
    players = services.app.context.location.players
    with meanwhile(players, "write_many", lambda: change_users(services, proven, names("elm", 1)), after=True):
        services.sync()
    services.sync()
    user = services.user("elm001")
    assert (user.email, user.is_email_verified) == ("proven@example.org", True)


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_every_row_of_a_page_is_locked_before_one_is_written(services: ServiceHarness) -> None:
    """Else we would wait for a row while AuthMe waits for another one, and the server rolls AuthMe's statement back."""
    adopt_group(services, "elm", 3)
    change_users(services, "status = 'banned'", names("elm", 0, 1, 2))

    def look() -> None:
        for number in range(3):
            assert_locked(services.ours, services.table.name, f"username = {names('elm', number)}")

    with meanwhile(services.app.context.location.players, "write_many", look):
        assert services.sync().locked == 3


# --- a failure concerns one name ---


@pytest.mark.parametrize("error", [IntegrityError, DataError, ValueError, AssertionError, WrongStatus])
def test_what_fails_for_one_name_is_reported_for_that_name_alone(
    services: ServiceHarness, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    adopt_group(services, "elm", 50)
    change_rows(services, "password = '$SHA$y$new'", names("elm", *range(50)))
    with monkeypatch.context() as patched:
        patched.setattr(SyncContext, "write", failing_for("elm023", SyncContext.write, error("approved")))
        report = services.sync()
    assert to_builtins(report.errors) == [{"username": "elm023", "error": error.__name__}]
    assert len(services.audits("user.password_changed")) == 49
    assert services.sync().errors == []
    assert services.player("elm023").base_hash == "$SHA$y$new"


def failing_for(key: str, write: Callable[..., list[Account]], error: Exception) -> Callable[..., list[Account]]:
    def writing(context: SyncContext, cases: Sequence[tuple[Account, Effects]]) -> list[Account]:
        if key in {account.key for account, _effects in cases}:
            raise error
        return write(context, cases)

    return writing


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_a_row_that_another_transaction_holds_delays_no_other(
    services: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator changed a user in an SQL shell, and has not committed yet."""
    monkeypatch.setattr("regsvc.sync.run._TRIES", 1)
    adopt_group(services, "elm", 30)
    change_users(services, "status = 'banned'", names("elm", *range(30)))
    waits = count_calls(monkeypatch, Page, "reconcile", is_counted=lambda accounts, *_: "elm011" in keys_of(accounts))
    schema = services.ours
    assert isinstance(schema, MariaDBSchema)
    with closing(schema.database.connect()) as shell:
        shell.begin()
        shell.cursor().execute("UPDATE regsvc_user SET reason = 'spam' WHERE username_key = 'elm011'")
        report = services.sync()
    assert [error.username for error in report.errors] == ["elm011"]
    assert report.locked == 29
    assert len(waits) == 3, "postponed, tried as one of a page, and tried alone"
    assert services.sync().locked == 1


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_a_row_that_another_transaction_holds_ends_no_run(
    services: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host's shell holds a user whose mark could be cleared, and another who is to be marked since a change failed.

    Neither is needed: the next run looks at the one, or at all that this one looked at.
    """
    monkeypatch.setattr("regsvc.sync.run._TRIES", 1)
    adopt_group(services, "elm", 4)
    schema = services.ours
    assert isinstance(schema, MariaDBSchema)
    with closing(schema.database.connect()) as shell:
        change_users(services, "language = 'de'", names("elm", 1, 2))
        change_rows(services, "email = 'moved@example.org'", names("elm", 3))
        shell.begin()
        shell.cursor().execute(f"SELECT 1 FROM regsvc_user WHERE username_key IN ({names('elm', 1, 3)}) FOR UPDATE")
        assert [error.username for error in services.sync().errors] == ["elm003"]
        assert User.select().where(User.changed_at.is_null(False)).count() == 2, "elm001 and elm002"
    report = services.sync()
    assert (report.errors, report.updated, services.user("elm003").email) == ([], 1, "moved@example.org")
    services.sync()
    assert not User.select().where(User.changed_at.is_null(False)).exists()


def keys_of(accounts: Sequence[Account]) -> set[str]:
    return {account.key for account in accounts}


def count_calls(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, is_counted: Callable[..., bool] = lambda *given: True
) -> list[None]:
    """Return a list that grows with each call of a method for which `is_counted` returns True."""
    calls, method = list[None](), getattr(owner, name)

    def calling(self: Any, *given: Any, **named: Any) -> Any:
        if is_counted(*given):
            calls.append(None)
        return method(self, *given, **named)

    monkeypatch.setattr(owner, name, calling)
    return calls


# --- their cost ---


def change_many(services: ServiceHarness, what: str) -> None:
    everyone = names("elm", *range(MANY))
    if what == "passwords":
        change_rows(services, "password = CONCAT('$SHA$y$', id)" if is_mariadb(services) else NEW_HASH, everyone)
    elif what == "e-mails":
        change_rows(services, EMAILS["mariadb" if is_mariadb(services) else "sqlite"], everyone)
    else:
        change_users(services, "status = 'banned', reason = username", everyone)


NEW_HASH: Final = "password = '$SHA$y$' || username"
EMAILS: Final = {"mariadb": "email = CONCAT(username, '@new.org')", "sqlite": "email = username || '@new.org'"}


def is_mariadb(services: ServiceHarness) -> bool:
    return services.table.database.kind == "mariadb"


@pytest.mark.parametrize("database_kind", ["mariadb"])
@pytest.mark.parametrize(("what", "bound"), [("passwords", 46), ("e-mails", 46), ("bans", 46)])
def test_many_changes_take_few_statements(services: ServiceHarness, what: str, bound: int) -> None:
    adopt_group(services, "elm", MANY)
    change_many(services, what)
    with recorded_statements() as statements:
        report = services.sync()
    assert (report.updated, report.locked) == ((0, MANY) if what == "bans" else (MANY, 0))
    assert len(statements) <= bound, "\n".join([f"{len(statements)}:", *(sql[:150] for sql in statements)])


@pytest.mark.parametrize("database_kind", ["sqlite"])
@pytest.mark.parametrize(("what", "ours", "theirs"), [("passwords", 9, 0), ("e-mails", 9, 0), ("bans", 9, 1)])
def test_many_changes_take_few_commits(
    services: ServiceHarness, monkeypatch: pytest.MonkeyPatch, what: str, ours: int, theirs: int
) -> None:
    adopt_group(services, "elm", MANY)
    change_many(services, what)
    monkeypatch.setattr("plugin_bridge.authme.sqlite._MAX_SECONDS", 1_000)
    our_commits = count_calls(monkeypatch, OwnSqlite, "commit")
    their_commits = count_calls(monkeypatch, SqliteWriter, "_run", is_counted=lambda sql, *_: sql == "COMMIT")
    report = services.sync()
    assert (report.updated, report.locked) == ((0, MANY) if what == "bans" else (MANY, 0))
    assert len(our_commits) <= ours
    assert len(their_commits) == theirs


def test_a_full_run_decides_on_every_account(services: ServiceHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on those without a row, and without a user."""
    adopt_group(services, "elm", 30)
    services.register("Zoe")
    services.sync()
    decided: set[str] = set()

    def deciding(account: Account, policy: Policy, **more: bool) -> SyncAction | None:
        decided.add(account.key)
        return rules.decide(account, policy, **more)

    monkeypatch.setattr("regsvc.sync.pages.decide", deciding)
    services.app.sync.run_alone(allow_mass_changes=False, is_full=True)
    assert decided == {"zoe", *(f"elm{number:03}" for number in range(30))}
