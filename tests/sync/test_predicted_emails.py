"""A plan reports the same e-mail conflicts as the run does."""

from typing import Any

import pytest

from regsvc.database.models import AuditEntry, Player, User
from regsvc.sync.report import SyncReport
from tests.support.authme.authme_database import DatabaseKind
from tests.support.authme.authme_tables import AuthMeTable, insert_player
from tests.support.services import MakeServices, ServiceHarness

OLD = 1_500_000_000_000


@pytest.fixture(autouse=True)
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four rows in a range, and two on a page of a table without ranges."""
    monkeypatch.setattr("regsvc.sync.run.PAGE", 2)
    for module in ("bulk.in_sync_rows", "bulk.adoption", "run"):
        monkeypatch.setattr(f"regsvc.sync.{module}.BATCH", 4)
    monkeypatch.setattr("regsvc.sync.bulk.adoption._MIN_NEW_ROWS", 1)


def everything() -> list[Any]:
    """Everything on our side: users, sync records, audit."""
    tables: list[tuple[Any, Any]] = [(User, User.id), (Player, Player.username_key), (AuditEntry, AuditEntry.id)]
    return [list(table.select().order_by(key).dicts()) for table, key in tables]


def planned_and_done(services: ServiceHarness) -> SyncReport:
    """Plan and run: the plan changes nothing, and the reports are the same."""
    before = everything()
    planned = services.plan()
    assert everything() == before
    done = services.sync()
    assert planned.counts() == done.counts()
    assert sorted(planned.conflicts, key=str) == sorted(done.conflicts, key=str)
    assert (planned.errors, planned.held_back) == (done.errors, done.held_back) == ([], None)
    return done


def without_email(report: SyncReport) -> set[str]:
    assert {(conflict["field"], conflict["kept"]) for conflict in report.conflicts} <= {("email", "both")}
    return {conflict["username"] for conflict in report.conflicts}


def join(table: AuthMeTable, **emails: str) -> None:
    for name, email in emails.items():
        insert_player(table, username=name, realname=name, password="x", regdate=OLD, email=email)


def test_the_first_of_two_players_gets_their_email_wherever_the_other_one_stands(
    make_services: MakeServices, authme_table: AuthMeTable, database_kind: DatabaseKind
) -> None:
    join(
        authme_table,
        **{"a!": "late@example.org", "alice": "alice@example.org", "bob": "taken@example.org", "carol": "no-at-all"},
        dave="ALICE@example.org",
        erin=" padded@example.org",
        frank="padded@example.org",
        gina="late@example.org",
        heidi='"alice"@example.org',
        ivan="your@email.com",
        judy="your@email.com",
        kim="kim@example.org",
        lara="KIM@example.org\t",
        mia='"nina"@example.org',
        nina="nina@example.org",
        oscar="",
        peggy="peggy@example.org",
        ruth="kay@example.org",
        trent="\u212aay@example.org",  # the sign for Kelvin
    )
    services = make_services()
    services.register("Zoe", email="taken@example.org")
    # an ordinary row is adopted in SQL, before the others of its range
    second = {"frank", "nina"} if database_kind == "sqlite" else {"erin", "mia"}
    done = planned_and_done(services)
    assert done.adopted == 19
    assert without_email(done) == {"bob", "carol", "dave", "gina", "heidi", "lara", "trent"} | second
    assert services.user("a!").email == "late@example.org"
    assert without_email(planned_and_done(services)) == set(), "everything was told"


def test_a_range_that_is_known_in_part_is_planned_as_it_is_adopted(
    make_services: MakeServices, authme_table: AuthMeTable
) -> None:
    services = make_services()
    join(authme_table, bob="bob@example.org", dave="dave@example.org")
    services.sync()
    join(authme_table, alice="dave@example.org", carol="carol@example.org", erin="Carol@example.org")
    planned = services.app.sync.run_alone(is_plan=True, allow_mass_changes=False, is_full=True)
    done = services.app.sync.run_alone(is_plan=False, allow_mass_changes=False, is_full=True)
    assert planned.counts() == done.counts() == {"scanned": 5, "adopted": 3}
    assert without_email(planned) == without_email(done) == {"alice", "erin"}
    assert services.user("carol").email == "carol@example.org"


def test_an_email_that_a_user_changed_in_the_game_is_free_for_who_comes_after(
    make_services: MakeServices, authme_table: AuthMeTable
) -> None:
    join(authme_table, bob="bob@example.org", carol="carol@example.org", dave="dave@example.org")
    services = make_services()
    services.sync()
    for name, email in (("bob", "moved@example.org"), ("carol", "dave@example.org"), ("dave", "no-at-all")):
        authme_table.database.execute(f"UPDATE {authme_table.name} SET email = ? WHERE username = ?", (email, name))
    join(authme_table, erin="bob@example.org", frank="moved@example.org", gina="carol@example.org")
    done = planned_and_done(services)
    assert (done.adopted, done.updated) == (3, 3)
    assert without_email(done) == {"carol", "dave", "frank", "gina"}
    emails = {name: services.user(name).email for name in ("bob", "carol", "dave", "erin", "frank", "gina")}
    assert emails == {
        "bob": "moved@example.org", "carol": "carol@example.org", "dave": "dave@example.org",
        "erin": "bob@example.org", "frank": None, "gina": None,
    }  # fmt: skip


def test_only_a_plan_remembers_emails(services: ServiceHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regsvc.sync.run.PredictedEmails", None)
    services.sync()
    with pytest.raises(TypeError):
        services.plan()
