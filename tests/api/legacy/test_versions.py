"""The pages of VerifyMC 1.7.1, of 1.7.9 and of the fork 1.8, as a client that sends what they send and reads replies
as they do: a 401 logs out, any other status that is not 2xx and `success: false` are shown as an error."""

import json
from collections.abc import Mapping
from typing import Any, Final, Literal

import pytest

from tests.support.applicants import insert_applicants
from tests.support.peers.smtp import Letter
from tests.support.refusals import assert_refused_as_200
from tests.support.stack import (
    OPERATOR,
    OPERATORS_PASSWORD,
    MakeStack,
    Person,
    Stack,
    find_code,
    find_link_token,
    has_code,
)

pytestmark = pytest.mark.one_database("sqlite")

Version = Literal["1.7.1", "1.7.9", "1.8"]
VERSIONS: Final[tuple[Version, ...]] = ("1.7.1", "1.7.9", "1.8")

# The actions that their audit log has words for; 1.8 reads other fields, which we do not send.
WORDS: Final = {
    *("approve", "reject", "ban", "unban", "delete", "register", "login", "logout", "password_change"),
    "admin_access_denied",
}


class Refused(Exception):
    """What the page shows as an error."""


class Pages:
    """The pages of one version in one browser."""

    def __init__(self, stack: Stack, version: Version) -> None:
        self._stack = stack
        self.version = version
        self.token: str | None = None
        self.config = self.get("/config")["config"]

    def get(self, endpoint: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        return self._read(self._stack.get(f"/api{endpoint}", query, token=self.token))

    def post(self, endpoint: str, **body: object) -> dict[str, Any]:
        given = {name: value for name, value in body.items() if value is not None}
        return self._read(self._stack.post(f"/api{endpoint}", {**given, "language": "en"}, token=self.token))

    def _read(self, reply: Any) -> dict[str, Any]:
        if reply.status == 401:
            self.token = None
        payload: dict[str, Any] = reply.json
        if not 200 <= reply.status < 300 or payload["success"] is False:
            raise Refused(payload["message"])
        return payload

    @property
    def asks_new_players_for_a_password(self) -> bool:
        authme = self.config["authme"]
        return self.version != "1.7.1" or (authme["enabled"] and authme["requirePassword"])

    @property
    def links_to_its_form_for_forgotten_passwords(self) -> bool:
        forgot = self.config.get("forgotPassword", {})
        methods = {"1.7.9": "allowedMethods", "1.8": "resetMethods"}
        return self.version in methods and forgot.get("enabled") is True and bool(forgot[methods[self.version]])

    @property
    def ways_to_log_in(self) -> list[str]:
        usual = ["username", "email_password"]
        if self.version == "1.8":
            usual += ["email_code", "phone_password", "phone_code"]
        methods: list[str] = self.config.get("login", {}).get("allowedMethods", usual)
        return methods

    def register(self, person: Person) -> dict[str, Any]:
        channel = "email" if self.version == "1.7.9" else None
        letters = sum(map(has_code, self._stack.smtp.letters_to(person.email)))
        self.post("/verify/send", channel=channel, email=person.email)
        code = find_code(self._stack.smtp.wait_for(person.email, letters + 1, counts=has_code).text)
        password = person.password if self.asks_new_players_for_a_password else ""
        return self.post(
            "/register", username=person.name, email=person.email, code=code, password=password, platform="java"
        )

    def log_in(self, name: str, password: str, **fields: object) -> dict[str, Any]:
        kind = "email" if "@" in name else "username"
        body: dict[Version, dict[str, object]] = {
            "1.7.1": {"username": name},
            "1.7.9": {"identifier": name, "identifierType": kind, "authMethod": "password", "code": ""},
            "1.8": {"account": name, "loginMethod": kind},
        }
        if kind == "email":
            body["1.8"]["verifyMethod"] = "password"
        reply = self.post("/login", **{**body[self.version], "password": password, **fields})
        self.token = reply["token"]
        return reply

    def change_password(self, current: str, new: str) -> dict[str, Any]:
        method = {"method": "current_password", "code": ""} if self.version == "1.7.9" else {}
        return self.post("/user/password", currentPassword=current, newPassword=new, **method)

    def ask_for_a_new_password(self, email: str) -> dict[str, Any]:
        if self.version == "1.8":
            return self.post("/forgot-password/code", account=email)
        return self.post("/forgot-password/send", identifier=email, identifierType="email")

    def reset(self, email: str, code: str, password: str) -> dict[str, Any]:
        if self.version == "1.8":
            return self.post("/forgot-password/reset", account=email, code=code, password=password)
        return self.post(
            "/forgot-password/reset", identifier=email, identifierType="email", code=code, newPassword=password
        )


@pytest.fixture(scope="module")
def stack(make_stack: MakeStack) -> Stack:
    return make_stack(config={"http": {"legacy_status": True}})


@pytest.fixture(params=VERSIONS)
def pages(request: pytest.FixtureRequest, stack: Stack) -> Pages:
    return Pages(stack, request.param)


@pytest.fixture(params=["1.7.9", "1.8"])
def newer(request: pytest.FixtureRequest, stack: Stack) -> Pages:
    return Pages(stack, request.param)


def refusal(call: Any, *given: object, **named: object) -> str:
    with pytest.raises(Refused) as caught:
        call(*given, **named)
    return str(caught.value)


def test_a_day_of_a_player_and_an_operator(stack: Stack, pages: Pages) -> None:
    """With the default config: a new player chooses a password, and sees their status with it."""
    alice, bob = stack.newcomer("alice"), stack.newcomer("bob")
    players, operators = Pages(stack, pages.version), pages
    for person in (alice, bob):
        assert players.register(person)["message"]
    assert "Wrong name or password" in refusal(players.log_in, alice.name, "wrong-password")
    for name in (alice.name, alice.email):
        reply = players.log_in(name, alice.password)
        assert (reply["username"], reply["isAdmin"]) == (alice.name, False)
    assert players.get("/user/status", {"language": "en", "username": alice.name})["data"]["status"] == "pending"

    assert operators.log_in(OPERATOR, OPERATORS_PASSWORD)["isAdmin"] is True
    waiting = [
        user["username"] for user in operators.get("/admin/users", {"language": "en", "status": "pending"})["users"]
    ]
    assert {alice.name, bob.name} <= set(waiting)
    operators.post("/admin/user/approve", username=alice.name, action="approve")
    operators.post("/admin/user/reject", username=bob.name, action="reject", reason="Too young")
    operators.post("/admin/sync")
    listed = operators.get("/admin/users", {"page": "1", "size": "10", "search": alice.name})
    assert [user["status"] for user in listed["users"]] == ["approved"]
    operators.post("/admin/user/ban", username=alice.name)
    assert "banned" in refusal(players.log_in, alice.name, alice.password)
    operators.post("/admin/user/unban", username=alice.name)
    operators.post("/admin/user/password", username=alice.name, password="set-by-olivia")

    for endpoint in ("/version", "/server/status", "/downloads"):
        assert players.get(endpoint)["success"] is True
    players.log_in(alice.name, "set-by-olivia")
    assert players.change_password("set-by-olivia", "alices-own-choice")["message"]
    assert stack.authme.login(alice.name, "alices-own-choice")
    players.log_in(bob.name, bob.password)
    assert players.get("/user/status", {"username": bob.name})["data"]["reason"] == "Too young"
    operators.post("/admin/user/delete", username=bob.name)
    actions = {entry["action"] for entry in operators.get("/admin/audits")["audits"] if alice.name == entry["target"]}
    assert {"register", "approve", "ban", "unban", "password_change"} <= actions <= WORDS


def test_the_pages_offer_passwords_only(newer: Pages) -> None:
    assert newer.ways_to_log_in == ["username", "email_password"]
    assert newer.links_to_its_form_for_forgotten_passwords


LOGINS = {
    "1.7.9 by code": {"identifier": "a@b.example", "identifierType": "email", "authMethod": "code", "code": "123456"},
    "1.7.9 by phone": {"identifier": "138", "identifierType": "phone", "authMethod": "password", "countryCode": "+86"},
    "1.8 by code": {"account": "a@b.example", "loginMethod": "email", "verifyMethod": "code", "code": "123456"},
    "1.8 by phone": {"account": "+86138", "loginMethod": "phone", "verifyMethod": "password", "countryCode": "+86"},
}


@pytest.mark.parametrize("login", LOGINS)
def test_a_login_that_is_none_of_ours_is_refused_in_words(stack: Stack, login: str) -> None:
    reply = stack.post("/api/login", {**LOGINS[login], "password": "x", "language": "en"})
    told = assert_refused_as_200(reply, "not_enabled")
    wanted = "enter your password" if "code" in login else "enter your e-mail address"
    assert wanted in told["message"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/verify/send", {"channel": "email", "purpose": "login", "email": "a@b.example"}),
        ("/verify/send", {"channel": "sms", "phone": "13800138000", "countryCode": "+86"}),
        ("/forgot-password/send", {"identifier": "13800138000", "identifierType": "phone", "countryCode": "+86"}),
        ("/forgot-password/code", {"account": "13800138000", "countryCode": "+86"}),
        ("/login/code", {"account": "a@b.example", "loginMethod": "email"}),
        ("/sms/send", {"phone": "13800138000", "countryCode": "+86"}),
    ],
)
def test_no_code_is_sent_that_nothing_takes(stack: Stack, path: str, body: dict[str, object]) -> None:
    for language, words in (("en", ("Codes", "Phone")), ("zh", ("此处不",))):
        reply = stack.post(f"/api{path}", {**body, "language": language})
        told = assert_refused_as_200(reply, "not_enabled", language)
        assert told["message"].startswith(words)
    assert stack.smtp.letters_to("a@b.example") == []


def test_a_field_that_is_missing_is_named(stack: Stack) -> None:
    nobody = {"identifier": "", "identifierType": "username", "authMethod": "password", "password": "x"}
    assert assert_refused_as_200(stack.post("/api/login", nobody), "invalid_field")["field"] == "username"
    nothing = {**nobody, "identifier": "Alice", "password": ""}
    assert assert_refused_as_200(stack.post("/api/login", nothing), "invalid_field")["field"] == "password"


def test_the_player_changes_the_password_with_the_old_one_only(stack: Stack) -> None:
    bob = stack.approved("bob")
    pages = Pages(stack, "1.7.9")
    pages.log_in(bob.name, bob.password)
    assert "enter your password" in refusal(pages.post, "/user/password/code", method="email_code")
    body = {"method": "email_code", "currentPassword": "", "code": "123456", "newPassword": "another-secret"}
    assert "enter your password" in refusal(pages.post, "/user/password", **body)
    assert pages.token is not None
    assert stack.login(bob).json["success"] is True


def has_link(letter: Letter) -> bool:
    return "/set-password#token=" in letter.text


def test_a_forgotten_password_is_set_behind_the_mailed_link(stack: Stack, newer: Pages) -> None:
    bob = stack.approved("bob")
    told = newer.ask_for_a_new_password(bob.email)["message"]
    assert told == newer.ask_for_a_new_password(f"nobody.{bob.email}")["message"]
    assert "a link to set a password" in told
    letter = stack.smtp.wait_for(bob.email, 1, counts=has_link)
    assert "open the link" in refusal(newer.reset, bob.email, "123456", "another-secret")
    body = {"token": find_link_token(letter.text), "newPassword": "another-secret"}
    assert stack.post("/api/password/reset", body).json["success"] is True
    newer.log_in(bob.name, "another-secret")


def test_where_nothing_is_mailed_no_link_is_offered(make_stack: MakeStack) -> None:
    stack = make_stack(config={"http": {"legacy_status": True}, "registration": {"methods": ["captcha"]}})
    for version in VERSIONS:
        assert not Pages(stack, version).links_to_its_form_for_forgotten_passwords


def test_no_password_is_asked_for_where_none_is_taken(make_stack: MakeStack) -> None:
    stack = make_stack(config={"http": {"legacy_status": True}, "registration": {"password": "off"}})
    assert not Pages(stack, "1.7.1").asks_new_players_for_a_password


def test_without_authme_new_players_choose_a_password_too(make_stack: MakeStack) -> None:
    stack = make_stack(config={"http": {"legacy_status": True}, "authme": {"enabled": False}})
    alice = stack.newcomer("alice")
    pages = Pages(stack, "1.7.1")
    pages.register(alice)
    assert pages.log_in(alice.name, alice.password)["username"] == alice.name


def test_all_who_wait_are_on_the_one_page(make_stack: MakeStack) -> None:
    stack = make_stack(config={"http": {"legacy_status": True}})
    names = insert_applicants(stack, 130)
    pages = Pages(stack, "1.7.9")
    pages.log_in(OPERATOR, OPERATORS_PASSWORD)
    reply = pages.get("/admin/users", {"language": "en", "status": "pending"})
    assert [user["username"] for user in reply["users"]] == names
    earlier = insert_applicants(stack, 400)  # who registered before them, and came here later
    reply = pages.get("/admin/users", {"language": "en", "status": "pending"})
    shown = [user["username"] for user in reply["users"]]
    assert (len(shown), shown[:200]) == (500, earlier[:200])
    assert (reply["pagination"]["totalCount"], reply["pagination"]["hasNext"]) == (530, True)
    assert len(pages.get("/admin/users", {"status": "pending", "page": "1"})["users"]) == 100
    assert_refused_as_200(stack.get("/api/admin/users", {"size": "101"}, token=pages.token), "invalid_field")


def test_the_audit_log_of_1_8_is_asked_in_its_words(stack: Stack) -> None:
    bob = stack.approved("bob")
    pages = Pages(stack, "1.8")
    pages.log_in(OPERATOR, OPERATORS_PASSWORD)
    query = {"page": "1", "size": "20", "action": "approve", "keyword": bob.name}
    entries = pages.get("/admin/audits", query)["audits"]
    assert {entry["action"] for entry in entries} == {"approve"}
    assert bob.name in [entry["target"] for entry in entries]
    assert "email_update" not in json.dumps(pages.get("/admin/audits"))
