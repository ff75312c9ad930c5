"""Registration where the host wants it otherwise: without mail, closed, automatic, without AuthMe."""

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pytest

from tests.support.authme.authme_database import DatabaseKind, MariaDBSchema
from tests.support.authme.authme_tables import TableShape, find_player
from tests.support.authme.game_server import write_game_server
from tests.support.captchas import post_with_guesses
from tests.support.crash.brief_outage import file_missing, table_missing
from tests.support.daemon import Reply
from tests.support.each import assert_each
from tests.support.our_tables import count_rows, everything_stored, tries_of
from tests.support.refusals import TRANSLATIONS, assert_refused
from tests.support.stack import NO_LIMIT, OPERATOR, MakeStack, Person, Stack, find_code, find_link_token
from tests.support.together import at_once

# POST /api/register where the host wants it otherwise: closed, automatic, without AuthMe, with rules of its own.


KINDS = ["sqlite", "mariadb"]
ANY_CODE = "000000"

# --- While AuthMe's table is away ---


@pytest.mark.every_database
def test_nobody_is_told_that_a_name_is_free_while_authme_is_away(stack: Stack) -> None:
    alice = stack.newcomer("alice")
    code = stack.code_for(alice.email)
    with (file_missing if stack.kind == "sqlite" else table_missing)(stack):
        reply = stack.register(alice, code=code, language="zh")
    assert_refused(reply, 503, "players_away", language="zh")
    assert stack.status(alice) is None
    assert tries_of(stack, alice.email) == 0
    assert stack.register(alice, code=code).status == 201


# --- Without review ---


@pytest.fixture(scope="module", params=KINDS)
def automatic(request: pytest.FixtureRequest, make_stack: MakeStack) -> Stack:
    return make_stack(request.param, config={"registration": {"approval": False}})


@pytest.mark.every_database
def test_without_review_alice_plays_at_once(automatic: Stack) -> None:
    alice = automatic.newcomer("alice")
    reply = automatic.register(alice, language="zh")
    assert (reply.status, reply.json["status"]) == (201, "approved")
    assert reply.json["message"] == TRANSLATIONS.text("message.registered_approved", "zh", username=alice.name)
    assert automatic.authme.login(alice.name, alice.password)
    assert automatic.user(alice)["plugin"] == "synced"
    assert [entry["operator"] for entry in automatic.audits(alice, "user.approved")] == ["registration"]


def test_without_review_and_password_a_link_makes_the_player(automatic: Stack) -> None:
    bob = automatic.newcomer("bob")
    assert automatic.register(bob, password=None).json["status"] == "approved"
    assert find_player(automatic.table, bob.key) is None
    token = find_link_token(automatic.smtp.wait_for(bob.email, 2).text)
    assert automatic.post("/api/password/reset", {"token": token, "newPassword": bob.password}).status == 200
    assert automatic.authme.login(bob.name, bob.password)


def test_no_registration_waits_for_the_mail_server(automatic: Stack) -> None:
    alice = automatic.newcomer("alice")
    code = automatic.code_for(alice.email)
    automatic.smtp.hold()
    assert automatic.register(alice, code=code).status == 201
    assert len(automatic.smtp.letters_to(alice.email)) == 1
    automatic.smtp.release()
    assert automatic.smtp.wait_for(alice.email, 2).subject.startswith("Welcome")


# --- Without AuthMe ---


@pytest.fixture(scope="module")
def lonely(make_stack: MakeStack, tmp_path_factory: pytest.TempPathFactory) -> Stack:
    """A game server without plugins."""
    bare = write_game_server(tmp_path_factory.mktemp("bare") / "game")
    return make_stack(config={"game": {"directory": str(bare.directory)}, "registration": {"approval": False}})


def test_without_authme_alice_registers_and_logs_in(lonely: Stack) -> None:
    alice = lonely.newcomer("alice")
    assert lonely.register(alice).json["status"] == "approved"
    assert lonely.login(alice).status == 200
    assert lonely.login(alice, "wrong-password").status == 401
    again = lonely.register(lonely.newcomer("eve"), username=alice.name.upper())
    assert_refused(again, 409, "username_taken", field="username")


def test_without_authme_its_default_rules_hold(lonely: Stack) -> None:
    alice = lonely.newcomer("alice")
    reply = lonely.register(alice, code=ANY_CODE, password="x" * 31)
    assert assert_refused(reply, 422, "invalid_password", field="password")["fault"] == "too_long"


@pytest.fixture(scope="module", params=KINDS)
def vanilla(request: pytest.FixtureRequest, make_stack: MakeStack) -> Stack:
    """A host whose AuthMe is off, and can be turned on."""
    stack: Stack = make_stack(request.param)
    stack.olivia()  # while there is a row to adopt her from
    ours = stack.table.database
    url = {"database": {"url": ours.database.url}} if isinstance(ours, MariaDBSchema) else {}
    stack.restart_with({"authme": {"enabled": False}, **url})
    return stack


def set_by_mail(stack: Stack, person: Person) -> None:
    """Set the person's password with the link that they ask for."""
    assert stack.post("/api/password/forgot", {"email": person.email}).status == 200
    letter = stack.smtp.wait_for(person.email, counts=lambda letter: letter.subject.startswith("Set a password"))
    assert "new password" not in letter.text
    reply = stack.post("/api/password/reset", {"token": find_link_token(letter.text), "newPassword": person.password})
    assert reply.status == 200, reply.text


@pytest.mark.every_database
def test_without_authme_alice_needs_no_password_until_she_wants_to_log_in(vanilla: Stack) -> None:
    alice, mallory = vanilla.newcomer("alice"), vanilla.newcomer("mallory")
    assert vanilla.get("/api/config").json["config"]["registration"]["password"] == "optional"
    code = vanilla.code_for(alice.email)
    registered = vanilla.register(alice, code=code, password=None)
    assert (registered.status, registered.json["status"]) == (201, "pending"), registered.text

    mallorys = vanilla.code_for(mallory.email)
    for password in (None, mallory.password):
        by_name = vanilla.register(mallory, username=alice.name, code=mallorys, password=password)
        assert_refused(by_name, 409, "username_taken", field="username")
        by_address = vanilla.register(alice, code=mallorys, password=password)
        assert_refused(by_address, 422, "invalid_code", field="code")
    repeated = vanilla.register(alice, code=code, password=mallory.password)
    assert_refused(repeated, 422, "invalid_code", field="code")
    assert_refused(vanilla.login(alice, mallory.password), 401, "bad_credentials")
    again = vanilla.register(alice, code=code, password=None)
    assert (again.status, again.json) == (201, registered.json), "the reply may have been lost"

    vanilla.decides("approve", alice)
    letter = vanilla.smtp.wait_for(alice.email, counts=lambda letter: letter.subject.startswith("Welcome"))
    assert "password" not in letter.text
    shown = vanilla.get("/api/application", headers={"X-Application-Token": registered.json["applicationToken"]})
    assert (shown.json["status"], shown.json["hasPassword"]) == ("approved", False)

    set_by_mail(vanilla, alice)
    token = vanilla.user_token(alice)
    new = f"new.{alice.email}"
    vanilla.post("/api/verify/send", {"email": new, "purpose": "change_email"})
    code = find_code(vanilla.smtp.wait_for(new).text)
    body = {"email": new, "code": code, "currentPassword": alice.password}
    assert vanilla.post("/api/user/update", body, token=token).json["email"] == new
    gone = vanilla.post("/api/user/delete", {"currentPassword": alice.password}, token=token)
    assert gone.status == 200, gone.text


@pytest.mark.every_database
def test_with_authme_turned_on_later_players_without_a_password_set_one_first(vanilla: Stack) -> None:
    bob = vanilla.approved("bob", password=None)
    vanilla.restart_with({"authme": {"enabled": True}})
    vanilla.sync()
    assert find_player(vanilla.table, bob.key) is None
    assert vanilla.user(bob)["plugin"] == "absent"
    assert not vanilla.authme.login(bob.name, "")
    set_by_mail(vanilla, bob)
    assert vanilla.authme.login(bob.name, bob.password)
    vanilla.restart_with({"authme": {"enabled": False}})


# --- Passwords ---


def test_where_no_password_is_taken_one_that_is_sent_is_ignored(make_stack: MakeStack) -> None:
    stack = make_stack(config={"registration": {"password": "off"}})
    alice = stack.pending("alice")
    stack.decides("approve", alice)
    assert find_player(stack.table, alice.key) is None
    assert stack.login(alice).status == 401
    assert find_link_token(stack.smtp.wait_for(alice.email, 2).text)


@pytest.fixture(scope="module")
def strict(make_stack: MakeStack) -> Stack:
    """A host with rules in both configs."""
    registration = {"password": "required", "reserved_names": ["Herobrine", "admin"], "email_domains": ["example.org"]}
    authme = {
        "settings.security.minPasswordLength": 8,
        "settings.security.passwordMaxLength": 12,
        "settings.security.unsafePasswords": ["correcthorse"],
        "settings.restrictions.allowedPasswordCharacters": "[a-z0-9 ]*",
        "settings.restrictions.allowedNicknameCharacters": "[a-zA-Z_0-9&&[^-]]*",  # which only Java understands
        "settings.restrictions.minNicknameLength": 4,
        "settings.restrictions.maxNicknameLength": 20,
    }
    return make_stack(config={"registration": registration, "bedrock": {"enabled": True}}, authme=authme)


BROKEN_RULES: list[tuple[dict[str, Any], str, str, str | None]] = [
    ({"password": None}, "password_required", "password", None),
    ({"password": "seven77"}, "invalid_password", "password", "too_short"),
    ({"password": "twelve-12-12"}, "invalid_password", "password", "forbidden_characters"),
    ({"password": "thirteen13131"}, "invalid_password", "password", "too_long"),
    ({"password": "CorrectHorse"}, "invalid_password", "password", "unsafe"),
    ({"username": "abc"}, "invalid_username", "username", "too_short"),
    ({"username": "a" * 21}, "invalid_username", "username", "too_long"),
    ({"username": "\u041elivia"}, "invalid_username", "username", "forbidden_characters"),  # a Cyrillic O
    ({"username": "<b>x</b>"}, "invalid_username", "username", "forbidden_characters"),
    ({"username": "herobrine"}, "reserved_username", "username", None),
    ({"username": "Admin"}, "reserved_username", "username", None),
    ({"email": "alice@example.com"}, "domain_not_allowed", "email", None),
    ({"username": "a*b", "platform": "bedrock"}, "invalid_username", "username", "forbidden_characters"),
]


def test_the_hosts_rules_hold(strict: Stack) -> None:
    person = strict.newcomer("alice")

    def check(broken: tuple[dict[str, Any], str, str, str | None]) -> None:
        fields, code, field, fault = broken
        reply = strict.register(person, **{"code": ANY_CODE, "password": "horse 123", "language": "zh", **fields})
        assert assert_refused(reply, 422, code, field=field, language="zh").get("fault") == fault

    assert_each(BROKEN_RULES, check)


def test_what_the_hosts_rules_allow_works_in_the_game(strict: Stack) -> None:
    alice = strict.newcomer("alice")
    assert strict.register(alice, password="HORSE 1 2 3 ").status == 201
    strict.decides("approve", alice)
    assert strict.authme.login(alice.name, "HORSE 1 2 3 ")


def test_bedrock_players_keep_their_prefix(strict: Stack) -> None:
    steve = strict.newcomer("steve")
    reply = strict.register(steve, username=f".{steve.name}", platform="bedrock", password="horse 123")
    assert (reply.status, reply.json["username"]) == (201, f".{steve.name}")


# --- Other answers ---


def test_an_address_the_table_cannot_write_keeps_nobody_out(make_stack: MakeStack) -> None:
    """AuthMe's column is latin1; the player comes without the e-mail."""
    old = make_stack("mariadb", shape=TableShape.OLD)
    zoe = old.newcomer("zoe")
    zoe = replace(zoe, email=f"佐伊.{zoe.key}@example.org")
    assert old.register(zoe).status == 201
    old.decides("approve", zoe)
    assert old.authme.login(zoe.name, zoe.password)
    assert old.authme.get(zoe.name)["email"] == "your@email.com"
    assert old.user(zoe)["email"] == zoe.email


def test_a_closed_registration_is_closed_for_those_with_a_code_too(make_stack: MakeStack) -> None:
    stack = make_stack()
    alice = stack.newcomer("alice")
    code = stack.code_for(alice.email)
    stack.restart_with({"registration": {"open": False}})
    for language in ("en", "zh"):
        reply = stack.register(alice, code=code, language=language)
        assert_refused(reply, 409, "registration_closed", language=language)


def test_more_hashes_than_can_wait_are_told_to_come_back_and_lose_nothing(make_stack: MakeStack) -> None:
    slow = make_stack(
        config={"auth": {"max_concurrent_hashes": 1, "max_waiting_hashes": 1}},
        authme={"settings.security.passwordHash": "BCRYPT", "ExternalBoardOptions.bCryptLog2Round": 11},
    )
    people = [slow.newcomer("alice") for _person in range(6)]
    codes = [slow.code_for(person.email) for person in people]
    replies = at_once([partial(slow.register, person, code=code) for person, code in zip(people, codes, strict=True)])
    outcomes = Counter(reply.status for reply in replies)
    assert outcomes.keys() == {201, 503}, outcomes
    for person, code, reply in zip(people, codes, replies, strict=True):
        if reply.status == 503:
            assert_refused(reply, 503, "overloaded")
            assert slow.register(person, code=code).status == 201


# A host that cannot send mail: `registration.methods = ["captcha"]`. The mail server here works, and gets nothing.


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


@pytest.mark.every_database
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
