"""Bulk steps have the same effect as the steps for each name alone."""

import json
from collections.abc import Callable, Collection, Sequence
from typing import Any

import pytest

from plugin_bridge.authme.players import PlayerRow
from regsvc.core.errors import WrongStatus
from regsvc.database.models import APPROVED, AuditEntry, OutboxEntry, Player, Review, User
from regsvc.sync.bulk.steps import BulkResult, BulkSteps
from regsvc.sync.records import UserRecord
from regsvc.sync.sync_records import SyncRecords
from regsvc.users.transitions import Transitions
from tests.support.authme.authme_database import DatabaseKind
from tests.support.authme.authme_tables import AuthMeTable, insert_player
from tests.support.services import MakeServices, ServiceHarness

OLD = 1_500_000_000_000
apply_sql_edits = Transitions.apply_sql_edits
PREMIUM = "11111111-2222-4333-8444-555555555555"
OF_THE_MOMENT = {"id", "user_id", "row_id", "changed_at", "review_id"}


@pytest.fixture
def database_kind() -> DatabaseKind:
    """One transaction holds both sides."""
    return "mariadb"


@pytest.fixture
def services(make_services: MakeServices) -> ServiceHarness:
    return make_services(sync__max_changes="100 and 100%")


def adopt_group(services: ServiceHarness, table: AuthMeTable, group: str) -> None:
    """Adopt twelve players of a group, alike except for their names."""
    for number in range(12):
        name = f"{group}{number:02}"
        premium = PREMIUM if number % 3 == 0 else None
        email = f"{name}@example.org" if number % 2 else None
        values = {"username": name, "realname": name.capitalize(), "password": f"$SHA$x${number}", "regdate": OLD}
        insert_player(table, **values, email=email, premiumUUID=premium, hasSession=number % 2)
    services.sync()
    services.sync()


def change_group(services: ServiceHarness, group: str) -> None:
    """Change the accounts of a group, and run the sync."""
    run_sql = services.ours.execute
    banned = "UPDATE regsvc_user SET status = 'banned'{} WHERE username_key IN ({})"
    run_sql(banned.format("", names(group, 0, 1, 2)), ())
    run_sql(banned.format(", reason = 'griefing', ban_expires_at = '2033-01-01'", names(group, 3, 4)), ())
    run_sql(banned.format(", reason = 'long ago', ban_expires_at = '2020-01-01'", names(group, 5)), ())
    run_sql(f"UPDATE regsvc_user SET status = 'pending' WHERE username_key IN ({names(group, 6)})", ())
    for number in (7, 8):
        services.table.database.execute(
            f"UPDATE {services.table.name} SET password = ? WHERE username = ?", ("$SHA$y$new", f"{group}{number:02}")
        )
    left = names(group, 8, 9, 10)
    services.table.database.execute(f"DELETE FROM {services.table.name} WHERE username IN ({left})")
    services.sync(allow_mass_changes=True)
    run_sql(f"UPDATE regsvc_user SET status = 'approved' WHERE username_key IN ({names(group, 0, 3)})", ())
    services.sync(allow_mass_changes=True)


def names(group: str, *numbers: int) -> str:
    return ", ".join(f"'{group}{number:02}'" for number in numbers)


def read_group(services: ServiceHarness, group: str, since: int) -> Any:
    """Return everything lasting about a group, with the group's name replaced."""
    keys = [f"{group}{number:02}" for number in range(12)]
    tables: list[Any] = [
        User.select().where(User.username_key.in_(keys)).order_by(User.username_key),
        Player.select().where(Player.username_key.in_(keys)).order_by(Player.username_key),
        Review.select().where(Review.username_key.in_(keys)).order_by(Review.username_key, Review.id),
    ]
    told = AuditEntry.select().where((AuditEntry.id > since) & AuditEntry.target.is_null(False))
    mails = OutboxEntry.select().where(OutboxEntry.recipient_key.startswith(group))
    lasting: list[Any] = [
        [{n: v for n, v in row.items() if n not in OF_THE_MOMENT} for row in query.dicts()] for query in tables
    ]
    lasting.append(sorted((entry.action, entry.operator, entry.target, entry.detail) for entry in told))
    lasting.append(sorted((entry.template, entry.recipient, entry.row_id is None) for entry in mails))
    lasting.append([row for key in keys if (row := find(services, key))])
    text = json.dumps(lasting, default=str)
    return json.loads(text.replace(group, "group").replace(group.capitalize(), "Group"))


def find(services: ServiceHarness, key: str) -> dict[str, Any] | None:
    rows = services.table.database.query(f"SELECT * FROM {services.table.name} WHERE username = ?", (key,))
    return {name: value for name, value in rows[0].items() if name != "id"} if rows else None


def newest_entry() -> int:
    return int(AuditEntry.select(AuditEntry.id).order_by(AuditEntry.id.desc()).limit(1).scalar() or 0)


def test_together_is_as_one_by_one(
    services: ServiceHarness, authme_table: AuthMeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    for group in ("elm", "oak"):
        adopt_group(services, authme_table, group)
    before = newest_entry()
    change_group(services, "elm")
    together = read_group(services, "elm", before)
    monkeypatch.setattr(BulkSteps, "apply", lambda *given: BulkResult())
    before = newest_entry()
    change_group(services, "oak")
    assert together == read_group(services, "oak", before)
    assert services.plugin("elm01") == "locked"
    assert not services.is_locked("elm00")
    assert not services.sync().has_effects


def test_what_was_done_together_is_not_looked_at_again(services: ServiceHarness, authme_table: AuthMeTable) -> None:
    adopt_group(services, authme_table, "elm")
    services.ours.execute("UPDATE regsvc_user SET status = 'banned' WHERE LEFT(username_key, 3) = 'elm'", ())
    assert services.sync().locked == 12
    for table in (User, Player):
        assert table.select().where(table.changed_at.is_null(False)).count() == 0


@pytest.mark.parametrize("at", ["row", "user"])
def test_one_that_is_another_by_now_keeps_nobody_waiting(
    services: ServiceHarness, authme_table: AuthMeTable, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """A row changes between loading the page and writing it."""
    adopt_group(services, authme_table, "elm")
    services.ours.execute("UPDATE regsvc_user SET status = 'banned' WHERE LEFT(username_key, 3) = 'elm'", ())
    with monkeypatch.context() as patched:
        if at == "row":
            patched.setattr(services.app.context.location.players, "update", not_as_seen(services, "elm05"))
        else:
            patched.setattr(Transitions, "apply_sql_edits", refuse_many)
        report = services.sync()
    assert (report.locked, report.errors) == (12, [])
    assert all(services.is_locked(f"elm{number:02}") for number in range(12))
    assert len(services.audits("user.banned")) == 12
    assert not services.sync().has_effects


def refuse_many(transitions: Transitions, users: Sequence[User]) -> None:
    if len(users) > 1:
        raise WrongStatus("approved")
    apply_sql_edits(transitions, users)


def not_as_seen(services: ServiceHarness, key: str) -> Callable[..., bool]:
    """The first write of this name's row finds it changed."""
    update, met = services.app.context.location.players.update, set()

    def updating(seen: PlayerRow, changes: Any) -> bool:
        if seen.username == key and key not in met:
            met.add(key)
            return False
        return update(seen, changes)

    return updating


def test_a_password_set_on_the_web_meanwhile_is_the_one_that_counts(
    services: ServiceHarness, authme_table: AuthMeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The password is set after the run decided to merge the game's, and before it locks the page."""
    adopt_group(services, authme_table, "elm")
    for name in ("elm07", "elm08"):
        services.authme.set_password(name, "changed-in-game")
    find_users, is_late = SyncRecords.find_users, [True]

    def finding(sync_records: SyncRecords, keys: Collection[str], *, for_update: bool = False) -> dict[str, UserRecord]:
        if for_update and len(keys) > 1 and is_late:
            is_late.clear()
            services.set_password("Elm07", "set-on-the-web")
        return find_users(sync_records, keys, for_update=for_update)

    monkeypatch.setattr(SyncRecords, "find_users", finding)
    assert services.sync().updated == 1
    assert not is_late
    services.sync()
    for name, password in (("Elm07", "set-on-the-web"), ("Elm08", "changed-in-game")):
        assert services.authme.login(name, password)
        assert services.login(name, password).status == APPROVED
