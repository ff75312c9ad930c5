"""Accounts are not given to strangers: what Mallory tried, and what came of it."""

import asyncio

import pytest

from regsvc.accounts.decisions import PasswordOwner
from regsvc.auth.hashing import StoredPassword
from regsvc.core import errors
from regsvc.database.audit import Actor
from regsvc.database.models import Link, User
from regsvc.notifications.mail.renderer import NothingToSend
from regsvc.notifications.mail.transport import MailStore
from tests.support.authme_tables import insert_player
from tests.support.services import CALLER, House, MakeHouse


def desk(house: House) -> MailStore:
    room = house.app.mail_parts
    return MailStore(house.app.context.location.database, room.outbox, room.codes, room.renderer)


def forgot(house: House, email: str) -> str | None:
    """The token of the link that is mailed; None: nothing is."""
    asyncio.run(house.app.password_changes.forgot(email, CALLER))
    for mail in iter(lambda: desk(house).claim_due(1), []):
        try:
            desk(house).render(mail[0])
        except NothingToSend as reason:
            desk(house).drop(mail[0], str(reason))
        else:
            desk(house).record_sent(mail[0])
    link = Link.select().order_by(Link.id.desc()).first()
    return house.app.mail_parts.links.token_of(link) if link else None


def reset(house: House, token: str, password: str) -> None:
    asyncio.run(house.app.password_changes.reset(token, password, CALLER))


def test_a_link_mailed_to_one_address_proves_no_other(house: House) -> None:
    house.authme.register("Mallory", "mallorys-secret", email="mallory@example.org")
    house.sync()
    house.decide("approve", "Mallory", is_silent=True)
    token = forgot(house, "mallory@example.org")
    assert token is not None
    house.authme.set_email("Mallory", "victim@bank.example")
    house.sync()
    assert house.user("Mallory").email == "victim@bank.example"
    with pytest.raises(errors.ResetTokenInvalid):
        reset(house, token, "another-secret")
    assert not house.user("Mallory").is_email_verified


def test_a_link_for_an_address_that_is_not_the_users_any_more_is_not_mailed(house: House) -> None:
    house.authme.register("Mallory", "mallorys-secret", email="mallory@example.org")
    house.sync()
    house.decide("approve", "Mallory", is_silent=True)
    asyncio.run(house.app.password_changes.forgot("mallory@example.org", CALLER))
    house.authme.set_email("Mallory", "victim@bank.example")
    house.sync()
    [mail] = house.app.mail_parts.outbox.claim_due(1)
    with pytest.raises(NothingToSend):
        desk(house).render(mail)
    assert Link.select().count() == 0


def test_the_next_owner_of_a_name_inherits_no_password(house: House) -> None:
    """Mallory played under the name, left, and was rejected; a stranger's row came; Bob gets the name."""
    house.authme.register("Zoe", "zoes-secret")  # without her the table would be suddenly empty
    house.authme.register("Steve", "mallorys-secret")
    house.sync()  # adopted, waits for review
    house.authme.unregister_from_console("Steve")
    house.sync()
    house.decide("reject", "Steve")
    house.authme.register("Steve", "strangers-secret")
    house.sync()
    assert house.is_locked("steve")
    house.clock.advance(days=2)
    house.register("Steve", password=None)
    house.decide("approve", "Steve")
    house.sync()
    assert house.is_locked("steve")
    for password in ("mallorys-secret", "strangers-secret"):
        assert not house.authme.login("Steve", password)
        with pytest.raises(errors.BadCredentials):
            house.login("Steve", password)


def test_a_change_that_waited_does_not_undo_an_admins_reset(house: House) -> None:
    user = house.approved("Alice")
    before = user.token_generation
    house.set_password("Alice", "chosen-by-olivia")
    owner = PasswordOwner(user.id, "Alice", "alice")
    thiefs = StoredPassword("$SHA$a$b", None, "SHA256")
    with pytest.raises(errors.Unauthorized):
        house.app.worker.run_here(
            house.app.accounts.set_password, owner, thiefs, Actor("Alice"), token_generation=before
        )
    assert house.authme.login("Alice", "chosen-by-olivia")


def test_an_admins_password_ends_the_links_that_were_mailed_before(house: House) -> None:
    house.approved("Alice")
    token = forgot(house, "alice@example.org")
    assert token is not None
    house.set_password("Alice", "chosen-by-olivia")
    with pytest.raises(errors.ResetTokenInvalid):
        reset(house, token, "another-secret")


# R51
def test_every_name_in_ops_json_is_reserved(make_house: MakeHouse) -> None:
    """An operator too low for the web is one in the game all the same."""
    house = make_house(auth__min_operator_level=3)
    house.game.write_operators("Olivia", "Oscar", levels={"Oscar": 2})
    with pytest.raises(errors.ReservedUsername):
        house.register("oscar")


def test_an_operator_is_not_reached_by_an_address_nobody_proved(house: House) -> None:
    house.authme.register("Olivia", "olivias-secret", email="somebody@example.org")
    house.sync()
    assert house.user("Olivia").email == "somebody@example.org"
    assert forgot(house, "somebody@example.org") is None


def test_wrong_logins_do_not_release_the_brake(house: House) -> None:
    names = [f"Player{number}" for number in range(40)]
    for name in names:
        insert_player(house.table, username=name.lower(), realname=name, password="$SHA$x$y", regdate=1)
    house.sync()
    house.table.database.execute(f"DELETE FROM {house.table.name} WHERE username <> 'olivia'")
    assert house.sync().braked is not None
    for name in names:
        with pytest.raises(errors.BadCredentials):
            house.login(name, "a-guess")
    assert [name for name in names if house.player(name).presence != "present"] == []


def test_the_name_changes_hands_while_the_password_is_checked(house: House) -> None:
    """Mallory's row was there when she began to log in; when her turn came, the name was Victor's."""
    house.authme.register("Victor", "mallorys-secret")
    logins = house.app.logins
    candidate = house.app.worker.run_here(logins._candidates.find, "Victor", CALLER)
    house.authme.unregister_from_console("Victor")
    house.register("Victor")
    outcome = house.app.worker.run_here(logins._complete, candidate, "user", CALLER)
    assert isinstance(outcome, errors.BadCredentials)


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_a_deadlock_inside_a_savepoint_repeats_the_whole_rule(house: House) -> None:
    """MySQL rolls back everything, and peewee's way back to the savepoint fails: that is what comes out."""
    database, attempts = house.app.context.location.database, []

    def rule() -> int:
        with database.atomic():
            User.select().count()
            with database.atomic():
                attempts.append(1)
                if len(attempts) == 1:
                    database.execute_sql("ROLLBACK")  # what the server does to the victim of a deadlock
                    database.execute_sql("SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213")
        return len(attempts)

    assert house.app.worker.run_here(rule) == 2
