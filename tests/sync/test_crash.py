"""Killed around the moment in which AuthMe's row is written: the next run ends where the story was going.

On SQLite our side has promised, and the next run keeps it. On MariaDB one transaction holds both sides, so that
nothing has happened at all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.authme_tables import dump_table, find_player
from tests.support.services import PASSWORD, House


class Killed(BaseException):
    """Nothing of ours catches it."""


def nothing(house: House) -> None:
    """Nobody did anything before."""


@dataclass(frozen=True)
class Story:
    """What was before, what is being done when we are killed, and how one sees that it is done."""

    act: Callable[[House], object]
    is_done: Callable[[House], bool]
    before: Callable[[House], object] = nothing


def pending(house: House) -> None:
    house.register("Alice")


def approved(house: House) -> None:
    house.approved("Alice")


def banned(house: House) -> None:
    house.approved("Alice")
    house.decide("ban", "Alice")


def with_stranger(house: House) -> None:
    house.register("Alice")
    house.authme.register("Alice", "strangers-password")


def with_locked_stranger(house: House) -> None:
    with_stranger(house)
    house.sync()


def without_email(house: House) -> None:
    house.approved("Alice")
    house.authme.set_email("Alice", "your@email.com")


def plays(house: House, password: str = PASSWORD) -> bool:
    return house.authme.login("Alice", password) and house.plugin("Alice") == "synced"


STORIES = {
    "approve": Story(lambda house: house.decide("approve", "Alice"), plays, pending),
    "ban": Story(
        lambda house: house.decide("ban", "Alice"),
        lambda house: house.is_locked("alice") and house.plugin("Alice") == "locked",
        approved,
    ),
    "unban": Story(lambda house: house.decide("unban", "Alice"), plays, banned),
    "delete": Story(
        lambda house: house.decide("delete", "Alice"),
        lambda house: find_player(house.table, "alice") is None and house.find_user("Alice") is None,
        approved,
    ),
    "set a password": Story(
        lambda house: house.set_password("Alice", "newer-password"),
        lambda house: plays(house, "newer-password"),
        approved,
    ),
    "lock a stranger": Story(
        lambda house: house.sync(),
        lambda house: (
            house.is_locked("alice")
            and house.plugin("Alice") == "conflict"
            and house.details("sync.player_locked") == [{"reason": "pending"}]
        ),
        with_stranger,
    ),
    "open a stranger's row": Story(lambda house: house.decide("approve", "Alice"), plays, with_locked_stranger),
    "write an e-mail": Story(
        lambda house: house.sync(),
        lambda house: plays(house) and house.row("alice")["email"] == "alice@example.org",
        without_email,
    ),
}


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_a_kill_leaves_nothing_half_done(
    house: House, story: Story, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.before(house)
    assert not story.is_done(house)
    before = dump_table(house.table)
    with monkeypatch.context() as patched:
        kill_at(moment, house, patched)
        with pytest.raises(Killed):
            story.act(house)
    is_one_transaction = house.app.reconciler.is_one_transaction
    house.restart()
    if is_one_transaction:
        assert dump_table(house.table) == before
        story.act(house)
    assert house.sync().errors == []
    assert story.is_done(house)
    rows = dump_table(house.table)
    assert not house.sync().has_effects
    assert dump_table(house.table) == rows


def kill_at(moment: str, house: House, patched: pytest.MonkeyPatch) -> None:
    """The next write of a row ends the process, before or after it."""
    players = house.app.context.location.players

    def dying(write: Callable[..., Any]) -> Callable[..., Any]:
        def die(*arguments: Any) -> Any:
            if moment == "after":
                write(*arguments)
            raise Killed

        return die

    for name in ("insert", "update", "delete"):
        patched.setattr(players, name, dying(getattr(players, name)))
