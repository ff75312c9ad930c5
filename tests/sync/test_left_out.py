"""Whatever a run does not look at needs nothing: `decide` says so for every account that was left out."""

import random
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plugin_bridge.authme.players import PlayerRow, lock_text
from regsvc.sync.plan import decide
from regsvc.sync.records import Account
from tests.support.authme.authme_tables import insert_player
from tests.support.services import MakeServices, ServiceHarness

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
    ("regsvc_player", "presence"): ["unasked", "absent", "present", "gone"],
    ("regsvc_player", "base_hash"): [None, *HASHES[:2]],
    ("regsvc_player", "base_email"): EMAILS[:5],
    ("regsvc_player", "wish"): [None, "provision", "password", "open"],
    ("regsvc_player", "kept_origin"): [None, "agreed", "stranger"],
    ("regsvc_player", "kept_hash"): [None, *HASHES[:2]],
    ("regsvc_player", "locked_at"): TIMES[:2],
    ("regsvc_player", "conflict"): [None, "email", "realname", "email,realname"],
    ("regsvc_player", "plugin_state"): ["synced", "absent", "locked", "conflict", "returned", "pending"],
    ("authme", "password"): HASHES,
    ("authme", "email"): EMAILS[1:],
    ("authme", "regdate"): [0, LONG_AGO, LATER],
    ("authme", "realname"): ["", "Player", "NAME", "another"],
}
"""Columns that are changed with SQL, and values for them."""
EDITS: Final = st.tuples(
    st.sampled_from(NAMES),
    st.sampled_from([*VALUES, "delete a row", "delete a user", "insert a row"]),
    st.integers(0, 7),
)


@contextmanager
def looked_at(services: ServiceHarness) -> Iterator[set[str]]:
    """Collect the names whose accounts are loaded in the meantime."""
    reconciler, names = services.app.reconciler, set[str]()
    load_many = reconciler.load_many

    def loading(keys: Collection[str], players: Mapping[str, PlayerRow] | None) -> list[Account]:
        names.update(keys)
        return load_many(keys, players)

    reconciler.load_many = loading  # type: ignore[method-assign]
    try:
        yield names
    finally:
        reconciler.load_many = load_many  # type: ignore[method-assign]


def edit(services: ServiceHarness, name: str, what: tuple[str, str] | str, choice: int) -> None:
    """Make one change with SQL, past everything that marks changes but the database itself."""
    theirs = services.table
    if what == "delete a row":
        theirs.database.execute(f"DELETE FROM {theirs.name} WHERE username = ?", (name,))
    elif what == "delete a user":
        services.ours.execute("DELETE FROM regsvc_user WHERE username_key = ?", (name,))
    elif what == "insert a row":
        if not services.app.context.location.players.find_names([name]):
            regdate = [LONG_AGO, LATER][choice % 2]
            insert_player(theirs, username=name, realname=name.capitalize(), password=HASHES[0], regdate=regdate)
    else:
        assert isinstance(what, tuple)
        table, column = what
        value = VALUES[what][choice % len(VALUES[what])]
        if table == "authme":
            theirs.database.execute(f"UPDATE {theirs.name} SET {column} = ? WHERE username = ?", (value, name))
        else:
            services.ours.execute(f"UPDATE {table} SET {column} = ? WHERE username_key = ?", (value, name))


def left_out_in_need(services: ServiceHarness, names: Collection[str]) -> dict[str, Any]:
    """Return the next actions of the accounts with these names that have one."""
    policy, reconciler = services.app.reconciler.policy, services.app.reconciler
    return {name: action for name in names if (action := decide(reconciler.load(name), policy)) is not None}


@pytest.fixture
def services(make_services: MakeServices) -> ServiceHarness:
    return make_services(sync__max_changes="100 and 100%")


def test_what_a_run_leaves_out_needs_nothing(services: ServiceHarness) -> None:
    for name in NAMES:
        insert_player(services.table, username=name, realname=name.capitalize(), password=HASHES[0], regdate=LONG_AGO)
    services.sync()
    services.sync()

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(EDITS, min_size=1, max_size=12), st.booleans())
    def check(edits: list[tuple[str, Any, int]], is_held_back: bool) -> None:
        for name, what, choice in edits:
            edit(services, name, what, choice)
        services.clock.advance(minutes=random.Random(len(edits)).randint(0, 3))
        with looked_at(services) as names:
            services.sync(allow_mass_changes=not is_held_back)
        assert left_out_in_need(services, set(NAMES) - names) == {}

    check()
