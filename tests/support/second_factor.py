"""A second factor that a person sets up on the web."""

from typing import Any

from tests.support.authenticator import Authenticator
from tests.support.daemon import Reply
from tests.support.stack import Person, Stack

STATE, BEGIN, CONFIRM = "/api/user/totp", "/api/user/totp/begin", "/api/user/totp/confirm"
CODES, OFF = "/api/user/totp/recovery-codes", "/api/user/totp/off"
OFF_STATE = {"enabled": False, "inGame": False, "required": False, "recoveryCodesLeft": 0}


class Enrolled:
    """A person who has set up the second factor, with the session that they did it in."""

    def __init__(self, stack: Stack, person: Person) -> None:
        self.person = person
        self.token = stack.user_token(person)
        self.app = begin(stack, person, self.token)
        reply = confirm(stack, person, self.token, self.app.code())
        assert reply.status == 200, reply.text
        self.reply: dict[str, Any] = reply.json
        self.codes: list[str] = reply.json["recoveryCodes"]


def begin(stack: Stack, person: Person, token: str) -> Authenticator:
    reply = stack.post(BEGIN, {"currentPassword": person.password}, token=token)
    assert reply.status == 200, reply.text
    return Authenticator(reply.json["secret"])


def confirm(stack: Stack, person: Person, token: str, code: str) -> Reply:
    return stack.post(CONFIRM, {"currentPassword": person.password, "totp": code}, token=token)


def log_in(stack: Stack, person: Person, totp: str | None = None, path: str = "/api/login") -> Reply:
    body = {"username": person.name, "password": person.password}
    return stack.post(path, body if totp is None else {**body, "totp": totp})


def state(stack: Stack, token: str) -> dict[str, Any]:
    reply = stack.get(STATE, token=token)
    assert reply.status == 200, reply.text
    return {name: value for name, value in reply.json.items() if name != "success"}
