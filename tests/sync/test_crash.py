"""Kills around the write of AuthMe's row: the next run ends in the state that the story was to reach.

On SQLite the intent was recorded, and the next run carries it out. On MariaDB one transaction holds both sides, so
nothing has happened.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.authme.authme_tables import dump_table, find_player
from tests.support.services import PASSWORD, ServiceHarness

pytestmark = pytest.mark.every_database


class Killed(BaseException):
    """Ends the process: no code of ours catches it."""


def nothing(services: ServiceHarness) -> None:
    """Prepare nothing."""


@dataclass(frozen=True)
class Story:
    """A story: the state before, the operation that the kill interrupts, and the check that it was done."""

    act: Callable[[ServiceHarness], object]
    is_done: Callable[[ServiceHarness], bool]
    before: Callable[[ServiceHarness], object] = nothing


def pending(services: ServiceHarness) -> None:
    services.register("Alice")


def approved(services: ServiceHarness) -> None:
    services.approved("Alice")


def banned(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.decide("ban", "Alice")


def with_foreign_row(services: ServiceHarness) -> None:
    services.register("Alice")
    services.authme.register("Alice", "foreign-password")


def with_locked_foreign_row(services: ServiceHarness) -> None:
    with_foreign_row(services)
    services.sync()


def registered_anew(services: ServiceHarness) -> None:
    approved(services)
    services.authme.unregister_from_console("Alice")
    services.clock.advance(hours=1)
    services.authme.register("Alice", "new-password")
    services.sync()


def without_email(services: ServiceHarness) -> None:
    services.approved("Alice")
    services.authme.set_email("Alice", "your@email.com")


def plays(services: ServiceHarness, password: str = PASSWORD) -> bool:
    return services.authme.login("Alice", password) and services.plugin("Alice") == "synced"


STORIES = {
    "approve": Story(lambda services: services.decide("approve", "Alice"), plays, pending),
    "ban": Story(
        lambda services: services.decide("ban", "Alice"),
        lambda services: services.is_locked("alice") and services.plugin("Alice") == "locked",
        approved,
    ),
    "unban": Story(lambda services: services.decide("unban", "Alice"), plays, banned),
    "delete": Story(
        lambda services: services.decide("delete", "Alice"),
        lambda services: find_player(services.table, "alice") is None and services.find_user("Alice") is None,
        approved,
    ),
    "set a password": Story(
        lambda services: services.set_password("Alice", "newer-password"),
        lambda services: plays(services, "newer-password"),
        approved,
    ),
    "lock a foreign row": Story(
        lambda services: services.sync(),
        lambda services: (
            services.is_locked("alice")
            and services.plugin("Alice") == "conflict"
            and services.details("sync.player_locked") == [{"reason": "pending"}]
        ),
        with_foreign_row,
    ),
    "reclaim a row": Story(lambda services: services.decide("approve", "Alice"), plays, with_locked_foreign_row),
    "take a row": Story(
        lambda services: services.decide("approve", "Alice", password_choice="take"),
        lambda services: plays(services, "new-password") and services.user("Alice").password_hash is None,
        registered_anew,
    ),
    "write an e-mail": Story(
        lambda services: services.sync(),
        lambda services: plays(services) and services.row("alice")["email"] == "alice@example.org",
        without_email,
    ),
}


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_a_kill_leaves_nothing_half_done(
    services: ServiceHarness, story: Story, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.before(services)
    assert not story.is_done(services)
    before = dump_table(services.table)
    with monkeypatch.context() as patched:
        kill_at(moment, services, patched)
        with pytest.raises(Killed):
            story.act(services)
    is_one_transaction = services.app.reconciler._context.players.shares_transactions
    services.restart()
    if is_one_transaction:
        assert dump_table(services.table) == before
        story.act(services)
    assert services.sync().errors == []
    assert story.is_done(services)
    rows = dump_table(services.table)
    assert not services.sync().has_effects
    assert dump_table(services.table) == rows


def kill_at(moment: str, services: ServiceHarness, patched: pytest.MonkeyPatch) -> None:
    """Kill the process before or after the next write of a row."""
    players = services.app.context.location.players

    def dying(write: Callable[..., Any]) -> Callable[..., Any]:
        def die(*arguments: Any) -> Any:
            if moment == "after":
                write(*arguments)
            raise Killed

        return die

    patched.setattr(players, "write_many", dying(players.write_many))
