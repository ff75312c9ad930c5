"""A host that cannot send mail: `registration.methods = ["captcha"]`. The mail server here works, and gets nothing."""

from typing import Any, cast

import pytest

from tests.support.authme.authme_database import DatabaseKind
from tests.support.captchas import post_with_guesses
from tests.support.daemon import Reply
from tests.support.our_tables import count_rows, everything_stored
from tests.support.refusals import assert_refused
from tests.support.stack import NO_LIMIT, OPERATOR, MakeStack, Person, Stack, find_link_token

pytestmark = pytest.mark.every_database

NEW = "a-new-secret-1"
UNMAILED = {
    "registration": {"methods": ["captcha"], "limits_per_client": NO_LIMIT, "limits_total": NO_LIMIT},
    "captcha": {"answers_per_client": NO_LIMIT, "pictures_per_client": NO_LIMIT},
}


@pytest.fixture(scope="module", params=["sqlite", "mariadb"])
def host(request: pytest.FixtureRequest, make_stack: MakeStack) -> Stack:
    return make_stack(cast(DatabaseKind, request.param), config=UNMAILED)


def register(host: Stack, person: Person, **fields: object) -> Reply:
    body: dict[str, Any] = {"username": person.name, "password": person.password, **fields}
    return post_with_guesses(host, "/api/register", body)


def approved(host: Stack, name: str, **fields: object) -> Person:
    person = host.newcomer(name)
    assert register(host, person, **fields).status == 201
    host.decides("approve", person)
    return person


def link_token(host: Stack, person: Person) -> str:
    """The token in a link that Olivia hands over."""
    made = host.post("/api/admin/user/password-link", {"username": person.name}, token=host.olivia())
    assert made.status == 200, made.text
    return find_link_token(made.json["link"])


def reset(host: Stack, token: str, password: str = NEW) -> Reply:
    return host.post("/api/password/reset", {"token": token, "newPassword": password})


def test_everybody_may_register_and_is_told_when_a_rejected_name_is_free(host: Stack) -> None:
    rick = host.newcomer("rick")
    register(host, rick)
    host.decides("reject", rick)
    public = host.get("/api/user/status", {"username": rick.name}).json["data"]
    assert set(public) == {"registered", "username", "status", "reapplyAt"}
    refused = assert_refused(register(host, rick), 409, "reapply_later", field="username")
    assert refused["reapplyAt"] == public["reapplyAt"] == host.user(rick)["reviewedAt"] + 24 * 60 * 60 * 1000


def test_a_check_tells_no_more_about_a_name_than_its_status(host: Stack) -> None:
    bob, rick, dave, eve = (host.newcomer(name) for name in ("bob", "rick", "dave", "eve"))
    for person in (bob, rick):
        register(host, person)
    host.decides("reject", rick)
    host.authme.register(dave.name, dave.password)  # whom only the game knows

    def check(name: str, **fields: object) -> Reply:
        return host.post("/api/register/check", {"username": name, "password": eve.password, **fields})

    assert_refused(check(bob.name), 409, "username_taken", field="username")
    refused = assert_refused(check(rick.name), 409, "reapply_later", field="username")
    assert refused["reapplyAt"] == host.get("/api/user/status", {"username": rick.name}).json["data"]["reapplyAt"]
    assert [check(name).status for name in (eve.name, dave.name, "registration")] == [200, 200, 200]
    assert_refused(check(eve.name, password="123456"), 422, "invalid_password", field="password")
    assert_refused(check(eve.name, email="eve@"), 422, "invalid_email", field="email")


def test_a_player_gets_in_forgets_the_password_and_gets_in_again(host: Stack) -> None:
    alice = host.newcomer("alice")
    registered = register(host, alice)
    assert registered.status == 201, registered.text
    assert (registered.json["status"], registered.json["email"]) == ("pending", None)
    assert "log in here to see the decision" in registered.json["message"]
    assert host.status(alice) == "pending"
    assert host.login(alice).status == 200  # to see the decision
    assert not host.authme.login(alice.name, alice.password)

    host.decides("approve", alice)
    assert host.status(alice) == "approved"
    assert host.authme.login(alice.name, alice.password)

    assert_refused(host.post("/api/password/forgot", {"email": alice.email}), 503, "mail_unavailable")
    session = host.user_token(alice)
    token = link_token(host, alice)
    assert reset(host, token).json["status"] == "approved"
    assert host.post("/api/logout", {}, token=session).status == 401
    assert host.authme.login(alice.name, NEW)
    assert not host.authme.login(alice.name, alice.password)
    assert host.login(alice, NEW).status == 200
    assert_refused(reset(host, token, "another-secret"), 422, "invalid_token", field="token")

    [made_by] = host.audits(alice, "user.password_link_created")
    assert (made_by["operator"], made_by["ip"]) == (OPERATOR, "127.0.0.1")
    assert token not in everything_stored(host)
    assert not [line for line in host.daemon.log if token in line]
    assert not host.smtp.letters
    assert not count_rows(host)["regsvc_outbox"]


def test_an_address_proves_nothing_and_is_kept_from_nobody(host: Stack) -> None:
    alice = host.newcomer("alice")
    mallory = approved(host, "mallory", email=alice.email)
    registered = register(host, alice, email=alice.email)
    assert (registered.status, registered.json["email"]) == (201, alice.email)
    host.decides("approve", alice)

    for person in (alice, mallory):
        details = host.get("/api/admin/user", {"username": person.name}, token=host.olivia()).json
        assert (details["user"]["email"], details["user"]["isEmailVerified"]) == (alice.email, False), details
        assert host.authme.get(person.name)["email"] in (None, "your@email.com")
        by_address = host.post("/api/login", {"username": alice.email, "password": person.password})
        assert_refused(by_address, 401, "bad_credentials")
    reset(host, link_token(host, mallory))
    assert host.login(mallory, NEW).status == 200
    assert not host.smtp.letters

    host.restart_with({"registration": {"methods": ["email"]}})
    carol = host.newcomer("carol")
    assert host.register(Person(carol.name, alice.email, carol.password)).status == 201
    host.decides("approve", carol)
    by_address = host.post("/api/login", {"username": alice.email, "password": carol.password})
    assert by_address.json["username"] == carol.name
    assert host.sync()["conflicts"] == []
    host.restart_with(UNMAILED)


@pytest.mark.one_database("sqlite")
def test_what_is_required(host: Stack) -> None:
    alice = host.newcomer("alice")
    body = {"username": alice.name, "password": alice.password}
    assert_refused(host.post("/api/register", body), 422, "captcha_required", field="captchaToken")
    no_password = post_with_guesses(host, "/api/register", {"username": alice.name})
    assert_refused(no_password, 422, "password_required", field="password")
    assert_refused(register(host, alice, email="alice@"), 422, "invalid_email", field="email")
    olivia = Person(OPERATOR.lower(), alice.email, alice.password)
    assert_refused(register(host, olivia), 422, "reserved_username", field="username")
    assert register(host, alice, email="", code="").status == 201  # as front ends send them
    assert register(host, alice).status == 201, "the reply may have been lost"
    other = register(host, alice, password="another-secret")
    assert_refused(other, 409, "username_taken", field="username")


@pytest.mark.one_database("sqlite")
def test_without_authme_no_password_is_needed_and_nobody_else_takes_the_name(host: Stack) -> None:
    host.olivia()
    host.restart_with({"authme": {"enabled": False}})
    alice = host.newcomer("alice")
    assert host.get("/api/config").json["config"]["registration"]["password"] == "optional"
    assert register(host, alice, password=None).status == 201
    for password in (None, "mallorys-secret"):
        refused = register(host, alice, password=password)
        assert_refused(refused, 409, "username_taken", field="username")
    assert_refused(host.login(alice, "mallorys-secret"), 401, "bad_credentials")
    host.decides("approve", alice)
    assert reset(host, link_token(host, alice)).status == 200
    assert host.login(alice, NEW).status == 200
    host.restart_with({"authme": {"enabled": True}})


@pytest.mark.one_database("sqlite")
def test_front_ends_are_told(host: Stack) -> None:
    config = host.get("/api/config").json["config"]
    assert config["authMethods"] == ["captcha"]
    assert config["captcha"]["emailEnabled"] is False
    registration = config["registration"]
    assert (registration["email"], registration["password"], registration["passwordReset"]) == (
        "optional",
        "required",
        "operator",
    )
    assert config["authme"]["requirePassword"] is True


@pytest.mark.one_database("sqlite")
def test_a_client_registers_a_few_names_and_refusals_do_not_count(host: Stack) -> None:
    host.restart_with({"registration": {"limits_per_client": ["2 per hour"]}})
    alice, bob, carol = (host.newcomer(name) for name in ("alice", "bob", "carol"))
    assert register(host, alice).status == 201
    assert register(host, alice, password="another-secret").json["code"] == "username_taken"
    assert register(host, bob).status == 201
    assert_refused(register(host, carol), 429, "rate_limited")
    assert host.status(carol) is None
    host.restart_with(UNMAILED)
