"""AuthMe's session ends with every password that we write, so that a player who joins again has to log in."""

from collections.abc import Callable, Collection

import pytest

from tests.support.crash.brief_outage import table_missing
from tests.support.services import ServiceHarness
from tests.support.stack import Person, Stack, find_link_token

NEW = "a-new-secret-1"
FOREIGN = "a-foreign-secret-1"


def open_session(stack: Stack, person: Person) -> str:
    """Give the player a session, as AuthMe does at a quit with sessions on; return the stored password."""
    assert stack.authme.find(person.name) is not None
    column = stack.table.column("hasSession")
    condition = f"{stack.table.column('username')} = ?"
    stack.table.database.execute(f"UPDATE {stack.table.name} SET {column} = 1 WHERE {condition}", (person.key,))
    assert stack.authme.get(person.name)["hasSession"] == 1
    return str(stack.authme.get(person.name)["password"])


def assert_ended(stack: Stack, person: Person, before: str) -> None:
    """Check that another password was written and that the session is over."""
    row = stack.authme.get(person.name)
    assert row["password"] != before
    assert row["hasSession"] == 0


def change_own(stack: Stack, bob: Person) -> None:
    body = {"currentPassword": bob.password, "newPassword": NEW}
    assert stack.post("/api/user/password", body, token=stack.user_token(bob)).status == 200


def set_by_olivia(stack: Stack, bob: Person) -> None:
    stack.decides("password", bob, password=NEW)


def set_by_link(stack: Stack, bob: Person) -> None:
    assert stack.post("/api/password/forgot", {"email": bob.email}).status == 200
    letter = stack.smtp.wait_for(bob.email, counts=lambda letter: "/set-password#token=" in letter.text)
    body = {"token": find_link_token(letter.text), "newPassword": NEW}
    assert stack.post("/api/password/reset", body).status == 200


def merge_later(stack: Stack, bob: Person) -> None:
    """Set the password while AuthMe's table is away; the sync writes it."""
    with table_missing(stack):
        set_by_olivia(stack, bob)
    stack.sync()


@pytest.mark.parametrize("change", [change_own, set_by_olivia, set_by_link, merge_later])
def test_a_new_password_ends_the_session(stack: Stack, change: Callable[[Stack, Person], None]) -> None:
    bob = stack.approved()
    before = open_session(stack, bob)
    change(stack, bob)
    assert_ended(stack, bob, before)
    assert stack.authme.login(bob.name, NEW)


def test_many_new_passwords_in_one_run_end_the_sessions(stack: Stack) -> None:
    people = [stack.approved() for _person in range(3)]
    before = {bob.name: open_session(stack, bob) for bob in people}
    with table_missing(stack):
        for bob in people:
            set_by_olivia(stack, bob)
    assert stack.sync(allowMassChanges=True)["errors"] == []
    for bob in people:
        assert_ended(stack, bob, before[bob.name])
        assert stack.authme.login(bob.name, NEW)


def test_a_lock_and_the_restored_password_end_the_session(stack: Stack) -> None:
    bob = stack.approved()
    before = open_session(stack, bob)
    stack.decides("ban", bob)
    assert_ended(stack, bob, before)
    locked = open_session(stack, bob)
    stack.decides("unban", bob)
    assert_ended(stack, bob, locked)
    assert stack.authme.login(bob.name, bob.password)


def test_a_lock_that_the_sync_writes_ends_the_session(stack: Stack) -> None:
    carol, dave = stack.newcomer("carol"), stack.newcomer("dave")
    for person in (carol, dave):
        stack.authme.register(person.name, person.password)
    before = {person.name: open_session(stack, person) for person in (carol, dave)}
    stack.sync(allowMassChanges=True)
    for person in (carol, dave):
        assert_ended(stack, person, before[person.name])
        assert not stack.authme.login(person.name, person.password)
    locked = open_session(stack, carol)
    stack.decides("approve", carol)
    assert_ended(stack, carol, locked)


def approve(stack: Stack, bob: Person) -> None:
    stack.decides("approve", bob, passwordChoice="keep")


def log_in(stack: Stack, bob: Person) -> None:
    assert stack.login(bob).status == 200


@pytest.mark.parametrize("reclaim", [approve, log_in])
def test_a_row_that_came_back_is_locked_and_reclaimed_without_a_session(
    stack: Stack, reclaim: Callable[[Stack, Person], None]
) -> None:
    bob = stack.approved()
    stack.sync()
    stack.authme.unregister_from_console(bob.name)
    stack.sync(allowMassChanges=True)
    stack.authme.register(bob.name, FOREIGN)
    foreign = open_session(stack, bob)
    stack.sync(allowMassChanges=True)
    assert stack.user(bob)["plugin"] == "returned"
    assert_ended(stack, bob, foreign)
    locked = open_session(stack, bob)
    reclaim(stack, bob)
    assert_ended(stack, bob, locked)
    assert stack.authme.login(bob.name, bob.password)
    assert not stack.authme.login(bob.name, FOREIGN)


@pytest.mark.parametrize(("column", "value"), [("hasSession", 1), ("premiumUUID", "b50ad385-829d-3141-a216-7e7d75")])
def test_what_opens_a_row_while_it_is_given_back_does_not_stay(
    services: ServiceHarness, monkeypatch: pytest.MonkeyPatch, column: str, value: object
) -> None:
    """The other player gets a session, or confirms `/premium`, after the row was read and before it is written."""
    services.approved("Alice")
    services.authme.unregister_from_console("Alice")
    services.sync(allow_mass_changes=True)
    services.authme.register("Alice", FOREIGN)
    services.sync(allow_mass_changes=True)
    players = services.app.context.location.players
    lock, done = players.lock, list[bool]()

    def open_first(keys: Collection[str]) -> None:
        if not done:
            done.append(True)
            services.table.database.execute(
                f"UPDATE {services.table.name} SET {column} = ? WHERE username = 'alice'", (value,)
            )
        lock(keys)

    monkeypatch.setattr(players, "lock", open_first)
    services.decide("approve", "Alice", password_choice="keep")
    services.sync()
    row = services.row("alice")
    assert (row["hasSession"], row["premiumUUID"], services.plugin("Alice")) == (0, None, "synced")
