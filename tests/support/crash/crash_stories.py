"""Stories during which the daemon is killed, and snapshots of one person that show whether a story is done.

Snapshots of two people are comparable: names, addresses, moments and ids are left out or replaced by placeholders,
passwords and hashes by what they log in to.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from plugin_bridge.authme.players import locked_hash
from tests.support.authme.authme_like import StoredPassword
from tests.support.authme.authme_tables import find_player
from tests.support.daemon import Reply
from tests.support.our_tables import our_database
from tests.support.stack import Person, Stack, find_code, has_code

IN_GAME = "typed-in-the-game"
Snapshot = Mapping[str, object]


@dataclass(frozen=True)
class Story:
    """A story: `act` is what the kill interrupts.

    `is_asked`: a client requested it, and repeats the request if there was no reply and nothing happened. Otherwise
    the sync does it in any case.
    """

    prepare: Callable[[Stack], Person]
    act: Callable[[Stack, Person], Reply]
    is_asked: bool = True


def with_code(stack: Stack) -> Person:
    person = stack.newcomer()
    stack.code_for(person.email)
    return person


def register(stack: Stack, person: Person) -> Reply:
    """Register with the mailed code; may be repeated."""
    [letter] = [letter for letter in stack.smtp.letters_to(person.email) if has_code(letter)]
    return stack.register(person, code=find_code(letter.text))


def decide(transition: str) -> Callable[[Stack, Person], Reply]:
    return lambda stack, person: stack.decide(transition, person)


def banned(stack: Stack) -> Person:
    person = stack.approved()
    stack.decides("ban", person, reason="griefing")
    return person


def sync(stack: Stack, person: Person) -> Reply:
    return stack.post("/api/admin/sync", {}, token=stack.olivia())


def changed_in_game(stack: Stack) -> Person:
    person = stack.approved()
    stack.authme.set_password(person.name, IN_GAME)
    return person


def approved_by_sql(stack: Stack) -> Person:
    person = stack.pending()
    our_database(stack).execute("UPDATE regsvc_user SET status = 'approved' WHERE username_key = ?", (person.key,))
    return person


def with_foreign_row(stack: Stack) -> Person:
    person = stack.pending()
    stack.authme.register(person.name, IN_GAME)
    return person


def only_a_player(stack: Stack) -> Person:
    person = stack.newcomer()
    stack.authme.register(person.name, IN_GAME, person.email)
    return person


class Owner:
    """Story of users who change their own account (`act`), with a token issued before."""

    def __init__(self, act: Callable[[Stack, Person, str], Reply]) -> None:
        self._act = act
        self._tokens: dict[str, str] = {}

    def prepare(self, stack: Stack) -> Person:
        person = stack.approved()
        stack.post("/api/verify/send", {"email": new_address(person), "purpose": "change_email"})
        stack.smtp.wait_for(new_address(person), counts=has_code)
        self._tokens[person.key] = stack.user_token(person)
        return person

    def act(self, stack: Stack, person: Person) -> Reply:
        return self._act(stack, person, self._tokens[person.key])


def new_address(person: Person) -> str:
    return f"new.{person.email}"


def leave(stack: Stack, person: Person, token: str) -> Reply:
    return stack.post("/api/user/delete", {"currentPassword": person.password}, token=token)


def change_address(stack: Stack, person: Person, token: str) -> Reply:
    """Change the address with the mailed code; may be repeated."""
    [letter] = [letter for letter in stack.smtp.letters_to(new_address(person)) if has_code(letter)]
    body = {"email": new_address(person), "code": find_code(letter.text), "currentPassword": person.password}
    return stack.post("/api/user/update", body, token=token)


LEAVING, CHANGING_ADDRESS = Owner(leave), Owner(change_address)

STORIES: Mapping[str, Story] = {
    "register": Story(with_code, register),
    "approve": Story(Stack.pending, decide("approve")),
    "ban": Story(Stack.approved, decide("ban")),
    "unban": Story(banned, decide("unban")),
    "delete": Story(Stack.approved, decide("delete")),
    "leave": Story(LEAVING.prepare, LEAVING.act),
    "change the address": Story(CHANGING_ADDRESS.prepare, CHANGING_ADDRESS.act),
    "sync takes a password": Story(changed_in_game, sync, is_asked=False),
    "sync provisions": Story(approved_by_sql, sync, is_asked=False),
    "sync locks": Story(with_foreign_row, sync, is_asked=False),
    "sync adopts": Story(only_a_player, sync, is_asked=False),
}


def take_snapshot(stack: Stack, person: Person) -> Snapshot:
    """Read everything stored about this person, on both sides."""
    ours = our_database(stack)
    users = ours.query("SELECT * FROM regsvc_user WHERE username_key = ?", (person.key,))
    players = ours.query("SELECT * FROM regsvc_sync_record WHERE username_key = ?", (person.key,))
    audits = ours.query("SELECT action, operator FROM regsvc_audit WHERE LOWER(target) = ?", (person.key,))
    reviews = ours.query("SELECT transition, operator FROM regsvc_review WHERE username_key = ?", (person.key,))
    mails = ours.query("SELECT template FROM regsvc_outbox WHERE recipient_key = ?", (person.email,))
    row = find_player(stack.table, person.key)
    known = players[0] if players else {}
    return {
        "row": _in_general(row or {}, person),
        "user": [_in_general(user, person) for user in users],
        "player": _in_general(known, person),
        "is the user's": [user["id"] for user in users] == [known.get("user_id")],
        "is the row's": row is not None and row["regdate"] == known.get("base_regdate"),
        "audits": _sorted(audits, person),
        "reviews": _sorted(reviews, person),
        "mails": _sorted(mails, person),
    }


def subjects_mailed(stack: Stack, person: Person) -> set[str]:
    """Return the subjects of the mails to this person, who is called `NAME` in them, except those with a code."""
    letters = stack.smtp.letters_to(person.email)
    return {letter.subject.replace(person.name, "NAME") for letter in letters if not has_code(letter)}


def wait_for_letter(stack: Stack, person: Person, subject: str) -> None:
    """Wait for a mail with this subject; AssertionError if none comes."""
    wanted = subject.replace("NAME", person.name)
    stack.smtp.wait_for(person.email, counts=lambda letter: letter.subject == wanted)


def logins(stack: Stack, person: Person) -> dict[str, int]:
    """Return the status code of a web login with each password."""
    return {
        "the web's": stack.login(person).status,
        "the game's": stack.login(person, IN_GAME).status,
    }


_MOMENTS_AND_NUMBERS = ("_at", "since", "regdate", "lastlogin", "_ip", "ip")
# none of the players is online, so no login of theirs is one to be kicked for; `look_key` and `mailbox` are made from
# name and address
_LEFT_OUT = ("id", "user_id", "look_key", "mailbox", "token_generation", "password_salt", "kicked_login")


def _in_general(row: Mapping[str, Any], person: Person) -> dict[str, object]:
    general = {
        name: value is not None if name.endswith(_MOMENTS_AND_NUMBERS) else _general(value, person)
        for name, value in row.items()
        if name not in _LEFT_OUT
    }
    if (marks := general.get("earlier_hashes")) is not None:
        general["earlier_hashes"] = len(str(marks).split())  # every salt makes others
    return general


def _general(value: object, person: Person) -> object:
    if not isinstance(value, str):
        return value
    kept = locked_hash(value)
    if kept is not None:
        return f"locked: {_general(kept, person)}"
    for password, name in ((person.password, "the web password"), (IN_GAME, "the game's password")):
        if StoredPassword(value).is_made_from(password):
            return name
    return value.replace(person.email, "EMAIL").replace(person.name, "NAME").replace(person.key, "KEY")


def _sorted(rows: list[dict[str, Any]], person: Person) -> list[str]:
    return sorted(" ".join(str(_general(value, person)) for value in row.values()) for row in rows)
