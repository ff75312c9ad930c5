"""A plan reports what the run does, for odd rows and shared e-mails too, and changes nothing."""

from typing import Any

import pytest
from msgspec import to_builtins

from plugin_bridge.authme.players import lock_text
from regsvc.database.models import AuditEntry, SyncRecord, User
from regsvc.sync.report import SyncReport
from tests.support.authme.authme_tables import AuthMeTable, TableShape, dump_table, insert_player
from tests.support.manual_clock import ManualClock
from tests.support.services import MakeServices, ServiceHarness

OLD, MINUTE = 1_500_000_000_000, 60_000


def odd_rows(clock: ManualClock, shape: TableShape) -> list[dict[str, Any]]:
    """Rows as real tables hold them, each named after what is odd about it."""
    now = int(clock().timestamp() * 1000)
    emails: list[str | None] = [
        "alice@example.org", "ALICE@Example.ORG", "taken@example.org", " padded@example.org", "a@b", "no-at-all",
        "two@@example.org", "dot.@example.org", 'quo"ted"@example.org', "x@example.invalid", "x@sub-.example.org",
        "x@xn--bcher-kva.example.org", "x@a--b.example.org", "x+tag@example.co.uk", "line@example.org\n",
        "your@email.com", "YOUR@email.com", "your@email.com ", "", "  ", "a" * 65 + "@example.org",
        "b\u00fcro@example.org", '"alice"@example.org',
    ]  # fmt: skip
    if shape is not TableShape.OLD:  # there it cannot be NULL
        emails.append(None)
    rows: list[dict[str, Any]] = [
        {"username": f"mail{index:02}", "realname": f"Mail{index:02}", "password": "x", "regdate": OLD, "email": email}
        for index, email in enumerate(emails)
    ]
    names = [
        ("bob", "BoB"), ("carol", "Player"), ("player", "Player"), ("dave", "Robert"), ("e b", "E b"), ("..", ".."),
        ("\u00e9mile", "\u00c9mile"), ("x" * 100, "X" * 100), ("frank", ""), ("olivia", "Olivia"),
    ]  # fmt: skip
    rows += [{"username": key, "realname": name, "password": "y", "regdate": OLD} for key, name in names]
    dates = [0, -5, 1, 1_600_000_000, now - MINUTE, now + MINUTE, 9_000_000_000_000_000]
    rows += [
        {"username": f"date{index}", "realname": f"Date{index}", "password": "z", "regdate": date}
        for index, date in enumerate(dates)
    ]
    rows.append({"username": "locked", "realname": "Locked", "password": lock_text("h" * 40), "regdate": OLD})
    return rows


def everything() -> list[Any]:
    """Return everything on our side: users, sync records, audit."""
    tables: list[tuple[Any, Any]] = [
        (User, User.id),
        (SyncRecord, SyncRecord.username_key),
        (AuditEntry, AuditEntry.id),
    ]
    return [list(table.select().order_by(key).dicts()) for table, key in tables]


def planned_and_done(services: ServiceHarness, *, is_full: bool = False) -> SyncReport:
    """Plan and run: the plan changes nothing, and the reports are the same."""
    before = everything()
    planned = services.app.sync.plan_alone(allow_mass_changes=True, is_full=is_full, max_names=0)
    assert everything() == before
    done = services.app.sync.run_alone(allow_mass_changes=True, is_full=is_full)
    assert planned.counts() == done.counts()
    assert sorted(to_builtins(planned.conflicts), key=str) == sorted(to_builtins(done.conflicts), key=str)
    assert planned.errors == done.errors == []
    return done


def without_email(report: SyncReport) -> set[str]:
    return {str(conflict.username) for conflict in report.conflicts if conflict.field == "email"}


def join(table: AuthMeTable, **emails: str) -> None:
    for name, email in emails.items():
        insert_player(table, username=name, realname=name, password="x", regdate=OLD, email=email)


@pytest.mark.parametrize("authme_shape", list(TableShape), ids=lambda shape: shape.value)
@pytest.mark.parametrize("existing", ["approved", "pending"])
def test_odd_rows_are_adopted_as_planned(
    make_services: MakeServices, authme_table: AuthMeTable, authme_shape: TableShape, clock: ManualClock, existing: str
) -> None:
    rows = odd_rows(clock, authme_shape)
    for row in rows:
        insert_player(authme_table, **row)
    services = make_services(sync__existing_players=existing)
    services.game.write_operators("Olivia")
    services.register("Zoe", email="taken@example.org")
    done = planned_and_done(services)
    assert done.adopted == len(rows)
    assert {"mail02", "mail04", "mail05"} <= without_email(done)
    assert {f"mail{number:02}" for number in range(15, 20)} & without_email(done) == set()
    assert [services.user(name).username for name in ("bob", "carol", "dave")] == ["BoB", "carol", "dave"]
    assert (services.user("olivia").status, services.user("locked").status) == ("approved", "banned")
    assert services.user("date1").created_at <= services.clock()
    open_rows = dump_table(authme_table)
    services.sync()
    assert not services.sync().has_effects
    assert dump_table(authme_table) == open_rows


def test_of_players_who_share_an_email_one_gets_it(make_services: MakeServices, authme_table: AuthMeTable) -> None:
    join(
        authme_table,
        alice="alice@example.org",
        bob="taken@example.org",
        carol="no-at-all",
        dave="ALICE@example.org",
        erin=" padded@example.org",
        frank="padded@example.org",
        ivan="your@email.com",
        mia='"nina"@example.org',
        nina="nina@example.org",
        ruth="kay@example.org",
        trent="\u212aay@example.org",  # the sign for Kelvin
    )
    services = make_services()
    services.register("Zoe", email="taken@example.org")
    done = planned_and_done(services)
    assert done.adopted == 11
    refused = without_email(done)
    assert refused > {"bob", "carol"}
    for pair in (("alice", "dave"), ("erin", "frank"), ("mia", "nina"), ("ruth", "trent")):
        [loser] = set(pair) & refused
        assert services.user(loser).email_key is None
    assert len(refused) == 2 + 4
    assert planned_and_done(services).conflicts == [], "everything was told"


def test_known_and_new_players_are_planned_together(make_services: MakeServices, authme_table: AuthMeTable) -> None:
    services = make_services()
    join(authme_table, bob="bob@example.org", dave="dave@example.org")
    services.sync()
    join(authme_table, alice="dave@example.org", carol="carol@example.org", erin="erin@example.org")
    done = planned_and_done(services, is_full=True)
    assert done.counts() == {"scanned": 5, "adopted": 3}
    assert without_email(done) == {"alice"}


def test_an_email_given_up_in_the_game_is_free_for_the_next(
    make_services: MakeServices, authme_table: AuthMeTable
) -> None:
    """Whether in the same page or the next: nobody loses an address to an unproven claim, or keeps two."""
    join(authme_table, bob="bob@example.org", carol="carol@example.org")
    services = make_services()
    services.sync()
    authme_table.database.execute(f"UPDATE {authme_table.name} SET email = 'moved@example.org' WHERE username = 'bob'")
    services.sync()
    join(authme_table, erin="bob@example.org", frank="moved@example.org", gina="carol@example.org")
    done = services.sync()
    assert (done.adopted, without_email(done)) == (3, {"frank", "gina"})
    keys = [services.user(name).email_key for name in ("bob", "carol", "erin", "frank", "gina")]
    assert keys == ["moved@example.org", "carol@example.org", "bob@example.org", None, None]
