"""Whatever a run does not look at needs nothing: `decide` says so for every account that was left out.

And what it did look at is in the database as it was decided on, although a page is not loaded again after each action.
"""

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from peewee import IntegrityError

from plugin_bridge.authme.players import PlayerRefused, PlayerRow, PlayersUnavailable, RowWrite, WriteResult, lock_text
from regsvc.core.errors import Refusal
from regsvc.database.models import SyncRecord, User
from regsvc.sync.effects import Effects, SyncContext
from regsvc.sync.pages import Page, ReconcileResult
from regsvc.sync.records import Account, AccountLoader
from regsvc.sync.rules import decide
from tests.support.authme.authme_tables import insert_player
from tests.support.services import MakeServices, ServiceHarness

pytestmark = pytest.mark.every_database

NAMES: Final = [f"name{number:02}" for number in range(24)]
LONG_AGO: Final = 1_500_000_000_000
LATER: Final = 1_950_000_000_000
HASHES: Final = ["$SHA$one", "$SHA$two", lock_text("$SHA$one")]
EMAILS: Final = [None, "your@email.com", "one@example.org", "ONE@example.org", "two@example.org", "none at all"]
TIMES: Final = [None, "2020-01-01 00:00:00.000", "2090-01-01 00:00:00.000"]

VALUES: Final[dict[tuple[str, str], list[Any]]] = {
    ("regsvc_user", "status"): ["pending", "approved", "rejected", "banned"],
    ("regsvc_user", "applied_status"): ["pending", "approved", "rejected", "banned"],
    ("regsvc_user", "password_hash"): [None, *HASHES[:2]],
    ("regsvc_user", "is_email_verified"): [0, 1],
    ("regsvc_user", "ban_expires_at"): TIMES,
    ("regsvc_sync_record", "presence"): ["unasked", "absent", "present", "gone"],
    ("regsvc_sync_record", "base_hash"): [None, *HASHES[:2]],
    ("regsvc_sync_record", "base_email"): EMAILS[:5],
    ("regsvc_sync_record", "intent"): [None, "provision", "password", "open"],
    ("regsvc_sync_record", "kept_origin"): [None, "verified", "unverified"],
    ("regsvc_sync_record", "kept_hash"): [None, *HASHES[:2]],
    ("regsvc_sync_record", "locked_at"): TIMES[:2],
    ("regsvc_sync_record", "conflict"): [None, "email", "realname", "email,realname"],
    ("regsvc_sync_record", "plugin_state"): ["synced", "absent", "locked", "conflict", "returned", "pending"],
    ("authme", "password"): HASHES,
    ("authme", "email"): EMAILS[1:],
    ("authme", "regdate"): [0, LONG_AGO, LATER],
    ("authme", "realname"): ["", "Player", "NAME", "another"],
}
"""Columns that are changed with SQL, and values for them."""
EDITS: Final = st.tuples(
    st.sampled_from(NAMES),
    st.sampled_from([*VALUES, "delete a row", "delete a user", "insert a row", "rename", "swap users", "swap ids"])
    | st.sampled_from(["approve", "reject", "ban", "unban", "delete", "register", "password", "operators", "wait"]),
    st.integers(0, 7),
)
FAULTS: Final = st.tuples(
    st.sampled_from(["none", "none", "refused", "failing", "away", "stopped"]),
    st.sampled_from(NAMES),
    st.integers(1, 6),
)
"""What happens during a run, to which name, or at which call."""


@contextmanager
def looked_at(services: ServiceHarness) -> Iterator[set[str]]:
    """Collect the names whose accounts are loaded in the meantime."""
    names, load = set[str](), AccountLoader.load

    def loading(loader: AccountLoader, keys: Collection[str], players: Mapping[str, PlayerRow] | None) -> list[Account]:
        if loader is services.app.reconciler.loader:
            names.update(keys)
        return load(loader, keys, players)

    with mock.patch.object(AccountLoader, "load", loading):
        yield names


@contextmanager
def compared_with_the_database(services: ServiceHarness) -> Iterator[None]:
    """Compare every account that a page returns with the rows in the database."""
    reconcile, load = Page.reconcile, services.app.reconciler.load

    def reconciling(page: Page, accounts: Sequence[Account]) -> dict[str, ReconcileResult]:
        results = reconcile(page, accounts)
        for key, result in results.items():
            if result.account is not None and result.account.is_player_known and result.refused is None:
                assert result.account == replace(load(key), now=result.account.now)
        return results

    with mock.patch.object(Page, "reconcile", reconciling):
        yield


@contextmanager
def faulty(services: ServiceHarness, fault: str, name: str, number: int) -> Iterator[Callable[[], bool]]:
    """Disturb the run. Yields its `may_go_on`."""
    players, write, left = services.app.context.location.players, SyncContext.write, iter(range(number, -1_000, -1))
    write_many, find_many = players.write_many, players.find_many

    def refusing(writes: Sequence[RowWrite]) -> list[WriteResult]:
        others = [one for one in writes if name_of(one) != name]
        results = iter(write_many(others))
        refused = WriteResult(is_written=False, refused=PlayerRefused("no"))
        return [refused if name_of(one) == name else next(results) for one in writes]

    def failing(context: SyncContext, cases: Sequence[tuple[Account, Effects]]) -> list[Account]:
        if any(account.key == name for account, _effects in cases):
            raise IntegrityError
        return write(context, cases)

    def going_away(keys: Collection[str]) -> dict[str, PlayerRow]:
        if next(left) <= 0:
            raise PlayersUnavailable("away")
        return find_many(keys)

    with ExitStack() as stack:
        if fault == "refused":
            stack.enter_context(mock.patch.object(players, "write_many", refusing))
        elif fault == "failing":
            stack.enter_context(mock.patch.object(SyncContext, "write", failing))
        elif fault == "away":
            stack.enter_context(mock.patch.object(players, "find_many", going_away))
        yield lambda: fault != "stopped" or next(left) > 0


def name_of(write: Any) -> str:
    return str(write.seen.username if hasattr(write, "seen") else write.username)


def edit(services: ServiceHarness, name: str, what: tuple[str, str] | str, choice: int) -> None:
    """Make one change: with SQL, past everything that marks changes but the database itself, or with the API."""
    theirs, other = services.table, NAMES[choice]
    if what == "delete a row":
        theirs.database.execute(f"DELETE FROM {theirs.name} WHERE username = ?", (name,))
    elif what == "delete a user":
        services.ours.execute("DELETE FROM regsvc_user WHERE username_key = ?", (name,))
    elif what == "insert a row":
        if not services.app.context.location.players.find_names([name]):
            regdate = [LONG_AGO, LATER][choice % 2]
            insert_player(theirs, username=name, realname=name.capitalize(), password=HASHES[0], regdate=regdate)
    elif what == "rename":
        with suppress(Exception):  # the new name is taken
            new = [f"new{name}", other][choice % 2]
            services.ours.execute(
                "UPDATE regsvc_user SET username = ?, username_key = ? WHERE username_key = ?", (new, new, name)
            )
    elif what == "swap users":
        swap_users(services, name, other)
    elif what == "swap ids":
        swap_ids(services, name, other)
    elif isinstance(what, tuple):
        table, column = what
        value = VALUES[what][choice % len(VALUES[what])]
        if table == "authme":
            theirs.database.execute(f"UPDATE {theirs.name} SET {column} = ? WHERE username = ?", (value, name))
        else:
            services.ours.execute(f"UPDATE {table} SET {column} = ? WHERE username_key = ?", (value, name))
    else:
        with suppress(Refusal, IntegrityError):
            act(services, name, what, choice)


def swap_users(services: ServiceHarness, one: str, other: str) -> None:
    for old, new in ((one, "between"), (other, one), ("between", other)):
        services.ours.execute("UPDATE regsvc_user SET username_key = ? WHERE username_key = ?", (new, old))


def swap_ids(services: ServiceHarness, one: str, other: str) -> None:
    theirs = services.table
    ids = {
        name: rows[0]["id"]
        for name in (one, other)
        if (rows := theirs.database.query(f"SELECT id FROM {theirs.name} WHERE username = ?", (name,)))
    }
    if len(ids) == 2 and all(ids.values()):
        for name, new in ((one, 10_000), (other, ids[one]), (one, ids[other])):
            theirs.database.execute(f"UPDATE {theirs.name} SET id = ? WHERE username = ?", (new, name))


def act(services: ServiceHarness, name: str, what: str, choice: int) -> None:
    """Do what people and time do."""
    if what == "register":
        services.register(name)
    elif what == "password":
        services.set_password(name, f"a-new-password-{choice}")
    elif what == "operators":
        services.game.write_operators("Olivia", *NAMES[: choice % 3], name)
    elif what == "wait":
        services.clock.advance(days=choice)
    elif what == "ban" and choice % 2:
        services.decide("ban", name, expires_at=services.clock() + timedelta(days=choice))
    else:
        services.decide(what, name)


def left_out_in_need(services: ServiceHarness, names: Collection[str]) -> dict[str, Any]:
    """Return the next actions of the accounts with these names that have one."""
    policy, reconciler = services.app.reconciler.policy, services.app.reconciler
    return {name: action for name in names if (action := decide(reconciler.load(name), policy)) is not None}


@pytest.fixture
def services(make_services: MakeServices) -> ServiceHarness:
    return make_services(sync__max_changes="4 and 10%")


def test_what_a_run_leaves_out_needs_nothing(services: ServiceHarness) -> None:
    for name in NAMES:
        insert_player(services.table, username=name, realname=name.capitalize(), password=HASHES[0], regdate=LONG_AGO)
    services.sync()
    services.sync()

    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(EDITS, min_size=1, max_size=12), st.booleans(), FAULTS)
    def check(edits: list[tuple[str, Any, int]], is_allowed: bool, fault: tuple[str, str, int]) -> None:
        for name, what, choice in edits:
            edit(services, name, what, choice)
        services.clock.advance(minutes=random.Random(len(edits)).randint(0, 3))
        with faulty(services, *fault) as may_go_on:
            services.app.sync._runner.run(allow_mass_changes=is_allowed, may_go_on=may_go_on)
        with looked_at(services) as names, compared_with_the_database(services):
            services.sync(allow_mass_changes=is_allowed)
        everyone = {*NAMES, *(row.username_key for table in (User, SyncRecord) for row in table.select())}
        assert left_out_in_need(services, everyone - names) == {}

    check()


def test_a_backup_that_unlocks_a_banned_player_does_not_go_unnoticed(services: ServiceHarness) -> None:
    """The row is then as it was when last synced, but for the lock."""
    for name in NAMES:
        insert_player(services.table, username=name, realname=name.capitalize(), password=HASHES[0], regdate=LONG_AGO)
    services.sync()
    services.decide("ban", NAMES[0])
    for _run in range(3):
        services.clock.advance(minutes=1)
        services.sync()
    services.table.database.execute(
        f"UPDATE {services.table.name} SET password = ? WHERE username = ?", (HASHES[0], NAMES[0])
    )
    assert services.sync().locked == 1
    assert services.is_locked(NAMES[0])
