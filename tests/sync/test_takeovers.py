"""Attempts of Mallory to take over accounts of others."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pytest

from regsvc.accounts.access import AccountAccess
from regsvc.auth.hashing import StoredPassword
from regsvc.core import errors
from regsvc.database.models import Session, User
from regsvc.sync.records import AccountLoader
from tests.support.authme.authme_tables import insert_player
from tests.support.meanwhile import meanwhile
from tests.support.services import CALLER, OLIVIA, PASSWORD, MakeServices, ServiceHarness


def forgot(services: ServiceHarness, email: str) -> str | None:
    """Request a reset link and return the token that is mailed, or None if none is."""
    asyncio.run(services.app.password_mails.forgot(email, CALLER))
    return services.find_mailed_link()


def reset(services: ServiceHarness, token: str, password: str) -> None:
    asyncio.run(services.app.password_changes.reset(token, password, CALLER))


def test_a_link_mailed_to_one_address_proves_no_other(services: ServiceHarness) -> None:
    services.authme.register("Mallory", "mallorys-secret", email="mallory@example.org")
    services.sync()
    services.decide("approve", "Mallory", is_silent=True)
    token = forgot(services, "mallory@example.org")
    assert token is not None
    services.authme.set_email("Mallory", "victim@bank.example")
    services.sync()
    assert services.user("Mallory").email == "victim@bank.example"
    with pytest.raises(errors.ResetTokenInvalid):
        reset(services, token, "another-secret")
    assert not services.user("Mallory").is_email_verified


def test_a_link_for_an_address_that_is_not_the_users_any_more_is_not_mailed(services: ServiceHarness) -> None:
    services.authme.register("Mallory", "mallorys-secret", email="mallory@example.org")
    services.sync()
    services.decide("approve", "Mallory", is_silent=True)
    asyncio.run(services.app.password_mails.forgot("mallory@example.org", CALLER))
    services.authme.set_email("Mallory", "victim@bank.example")
    services.sync()
    assert services.find_mailed_link() is None


def test_the_next_owner_of_a_name_inherits_no_password(services: ServiceHarness) -> None:
    """Mallory played under the name, left, and was rejected; a foreign row appeared; Bob gets the name."""
    services.authme.register("Zoe", "zoes-secret")  # without her the table would be suddenly empty
    services.authme.register("Steve", "mallorys-secret")
    services.sync()  # adopted, waits for review
    services.authme.unregister_from_console("Steve")
    services.sync()
    services.decide("reject", "Steve")
    services.authme.register("Steve", "foreign-secret")
    services.sync()
    assert services.is_locked("steve")
    services.clock.advance(days=2)
    services.register("Steve", password=None)
    services.decide("approve", "Steve")
    services.sync()
    assert services.is_locked("steve")
    for password in ("mallorys-secret", "foreign-secret"):
        assert not services.authme.login("Steve", password)
        with pytest.raises(errors.BadCredentials):
            services.login("Steve", password)


def test_a_change_that_waited_does_not_undo_an_admins_reset(services: ServiceHarness) -> None:
    """Olivia replaces the stolen password while the one that Mallory has chosen is being hashed."""
    services.approved("Alice")
    session = services.app.sessions.authenticate(services.login("Alice", PASSWORD).token)
    changes = services.app.password_changes
    reset_it = partial(services.set_password, "Alice", "chosen-by-olivia")
    with meanwhile(changes.hashing, "hash_in_pool", reset_it), pytest.raises(errors.Unauthorized):
        asyncio.run(changes.change_own(session, PASSWORD, "mallorys-secret", CALLER))
    assert services.authme.login("Alice", "chosen-by-olivia")


def test_a_login_with_the_password_that_was_just_replaced_opens_no_session(services: ServiceHarness) -> None:
    """Alice resets the stolen password while that of Mallory's login is being hashed."""
    services.approved("Alice")
    hashing = services.app.hashing
    reset_it = partial(services.set_password, "Alice", "chosen-by-alice")
    with meanwhile(hashing, "verify_in_pool", reset_it), pytest.raises(errors.BadCredentials):
        services.login("Alice", PASSWORD)
    assert services.sessions("Alice") == 0


@pytest.mark.parametrize("read", ["AuthMe's row", "our rows"])
def test_nor_does_one_that_is_replaced_between_two_reads(services: ServiceHarness, read: str) -> None:
    """The row that was read has the stolen password, our rows already say that all earlier logins are over."""
    services.approved("Alice")
    loader = services.app.reconciler.loader
    owner, name = (loader.players, "find_many") if read == "AuthMe's row" else (AccountLoader, "_find")
    reset_it = partial(services.set_password, "Alice", "chosen-by-alice")
    with meanwhile(owner, name, reset_it, after=True), pytest.raises(errors.BadCredentials):
        services.login("Alice", PASSWORD)
    assert services.sessions("Alice") == 0


def test_a_decision_during_a_login_makes_no_password_wrong(services: ServiceHarness) -> None:
    """What ends Alice's sessions says nothing of her password, which is checked again."""
    services.approved("Alice")

    def ban_and_unban() -> None:
        services.decide("ban", "Alice")
        services.decide("unban", "Alice")

    hashing = services.app.hashing
    with meanwhile(hashing, "verify_in_pool", ban_and_unban):
        services.login("Alice", PASSWORD)
    assert services.sessions("Alice") == 1
    with meanwhile(hashing, "verify_in_pool", partial(services.decide, "ban", "Alice")), pytest.raises(errors.Banned):
        services.login("Alice", PASSWORD)


def test_a_session_that_ended_after_its_request_was_let_in_changes_no_password(services: ServiceHarness) -> None:
    """Mallory knows the password, and Olivia has banned the account before it is looked up."""
    services.approved("Alice")
    session = services.app.sessions.authenticate(services.login("Alice", PASSWORD).token)
    services.decide("ban", "Alice")
    with pytest.raises(errors.Unauthorized):
        asyncio.run(services.app.checker.check_owner_with_totp(session, PASSWORD, None, CALLER))
    with pytest.raises(errors.Unauthorized):
        asyncio.run(services.app.password_changes.change_own(session, PASSWORD, "mallorys-secret", CALLER))


def test_a_session_that_ended_meanwhile_changes_no_address(services: ServiceHarness) -> None:
    """Without the password a fresh session is enough, and Mallory's was when her request arrived."""
    services.approved("Alice")
    session = services.app.sessions.authenticate(services.login("Alice", PASSWORD).token)
    services.set_password("Alice", "chosen-by-alice")
    checker = services.app.checker
    with pytest.raises(errors.Unauthorized):
        asyncio.run(checker.recognize_owner(session, CALLER))


def test_an_admins_password_ends_the_links_that_were_mailed_before(services: ServiceHarness) -> None:
    services.approved("Alice")
    token = forgot(services, "alice@example.org")
    assert token is not None
    services.set_password("Alice", "chosen-by-olivia")
    with pytest.raises(errors.ResetTokenInvalid):
        reset(services, token, "another-secret")


# R51
def test_every_name_in_ops_json_is_reserved(make_services: MakeServices) -> None:
    """The name of an operator whose level is too low for the web is reserved too."""
    services = make_services(auth__min_operator_level=3)
    services.game.write_operators("Olivia", "Oscar", levels={"Oscar": 2})
    with pytest.raises(errors.ReservedUsername):
        services.register("oscar")


def test_an_operator_is_not_reached_by_an_address_nobody_proved(services: ServiceHarness) -> None:
    services.authme.register("Olivia", "olivias-secret", email="somebody@example.org")
    services.sync()
    assert services.user("Olivia").email == "somebody@example.org"
    assert forgot(services, "somebody@example.org") is None


def test_wrong_logins_do_not_bypass_the_mass_change_guard(services: ServiceHarness) -> None:
    names = [f"Player{number}" for number in range(40)]
    for name in names:
        insert_player(services.table, username=name.lower(), realname=name, password="$SHA$x$y", regdate=1)
    services.sync()
    services.table.database.execute(f"DELETE FROM {services.table.name} WHERE username <> 'olivia'")
    assert services.sync().held_back is not None
    for name in names:
        with pytest.raises(errors.BadCredentials):
            services.login(name, "a-guess")
    assert [name for name in names if services.player(name).presence != "present"] == []


@pytest.mark.parametrize("mallory", ["a user", "a player"])
@pytest.mark.parametrize("victor", ["a user", "a player"])
def test_the_name_changes_hands_while_the_password_is_checked(
    services: ServiceHarness, mallory: str, victor: str
) -> None:
    """It was Mallory's when her login began; when the password was checked, it was Victor's."""
    services.authme.register("Zoe", "zoes-secret")  # without her the table would be suddenly empty
    join(services, mallory, "mallorys-secret")
    logins, checker = services.app.logins, services.app.checker
    candidate = services.app.worker.run_here(checker.find_identity, "Victor", CALLER)
    services.authme.unregister_from_console("Victor")
    if mallory == "a user":
        services.decide("delete", "Victor")
    join(services, victor, "victors-secret")
    outcome = services.app.worker.run_here(logins._complete, candidate, "user", CALLER)
    assert isinstance(outcome, errors.BadCredentials)
    assert Session.select().count() == 0


def join(services: ServiceHarness, how: str, password: str) -> None:
    """Make Victor a user who registered on the web, or a player whom only AuthMe knows."""
    if how == "a user":
        services.register("Victor", password)
    else:
        services.authme.register("Victor", password)


@pytest.mark.parametrize("what", ["the password is replaced", "the user is banned with SQL", "the name changes hands"])
def test_a_password_that_was_right_a_moment_ago_allows_nothing(services: ServiceHarness, what: str) -> None:
    """Mallory has a session and the password of Victor."""
    services.register("Victor")
    checker, own = services.app.checker, services.app
    identity = services.app.worker.run_here(checker.find_identity, "Victor", CALLER)
    if what == "the password is replaced":
        services.set_password("Victor", "chosen-by-victor")
    elif what == "the user is banned with SQL":
        services.ours.execute("UPDATE regsvc_user SET status = 'banned'", ())
    else:
        services.decide("delete", "Victor")
        services.register("Victor", email="victor2@example.org")
    for change in (own.second_factor.use_code, own.self_deletion._delete):
        with pytest.raises(errors.Unauthorized):
            services.app.worker.run_here(change, identity, CALLER)
    assert services.find_user("Victor") is not None


def test_a_code_of_the_second_factor_allows_one_thing(services: ServiceHarness) -> None:
    """Two requests showed it at once, and both found it unused."""
    services.register("Alice")
    checker, own = services.app.checker, services.app
    found = services.app.worker.run_here(checker.find_identity, "Alice", CALLER)
    identity, store = replace(found, totp_step=5), own.second_factor
    services.app.worker.run_here(store.use_code, identity, CALLER)
    for change in (store.use_code, store._replace_codes, own.self_deletion._delete):
        with pytest.raises(errors.TotpRequired):
            services.app.worker.run_here(change, identity, CALLER)


def test_a_password_that_was_meant_for_the_last_owner_of_a_name_is_not_set_for_the_next(
    services: ServiceHarness,
) -> None:
    """Olivia's request was about Steve; while the password was hashed he was deleted, and Bob registered."""
    services.register("Steve")
    changes = services.app.password_changes
    owner = services.app.worker.run_here(services.app.access.get_user, "Steve", "password", OLIVIA)
    services.decide("delete", "Steve")
    services.register("Steve", "bobs-secret", email="bob@example.org")
    new = StoredPassword("$SHA$a$b", None, "SHA256")
    with pytest.raises(errors.UserNotFound):
        services.app.worker.run_here(changes.set, owner.id, owner.username, new, OLIVIA.actor, "operator")
    assert services.login("Steve", "bobs-secret").username == "Steve"


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_a_deadlock_inside_a_savepoint_repeats_the_whole_rule(services: ServiceHarness) -> None:
    """MySQL rolls back everything, and peewee's rollback to the savepoint fails: that error is raised."""
    database, attempts = services.app.context.location.database, []

    def rule() -> int:
        with database.atomic():
            User.select().count()
            with database.atomic():
                attempts.append(1)
                if len(attempts) == 1:
                    database.execute_sql("ROLLBACK")  # what the server does to the victim of a deadlock
                    database.execute_sql("SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213")
        return len(attempts)

    assert services.app.worker.run_here(rule) == 2


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_a_user_deleted_after_the_login_has_read_it(services: ServiceHarness) -> None:
    """The session refers to a row that is gone: the login is decided again, and refused as any unknown name is."""
    services.register("Bob")
    app = services.app
    identity = app.worker.run_here(app.checker.find_identity, "Bob", CALLER)
    services.decide("approve", "Bob")  # so that the login reads the user again
    logins = app.logins
    find_refusal = logins._find_refusal
    attempts: list[int] = []

    def delete_meanwhile(*args: object) -> object:
        attempts.append(1)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(services.decide, "delete", "Bob").result()
            pool.submit(app.worker.close_here).result()
        return find_refusal(*args)  # type: ignore[arg-type]

    object.__setattr__(logins, "_find_refusal", delete_meanwhile)
    outcome = app.worker.run_here(logins._complete, identity, "user", CALLER)
    assert isinstance(outcome, errors.BadCredentials)
    assert attempts == [1]
    assert not Session.select().count()


def test_no_link_is_made_for_a_user_who_was_deleted_meanwhile(services: ServiceHarness) -> None:
    services.approved("Alice")
    handover = services.app.password_mails
    delete = partial(services.decide, "delete", "Alice")
    with meanwhile(AccountAccess, "get_user", delete, after=True), pytest.raises(errors.UserNotFound):
        services.app.worker.run_here(handover.create_link, "Alice", OLIVIA)
