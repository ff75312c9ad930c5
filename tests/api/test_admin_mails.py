"""GET /api/admin/mails: the mails with their recipients and states."""

import time
from typing import Any

from tests.support.our_tables import our_database
from tests.support.stack import Person, Stack
from tests.support.watching import ask_until

MINUTE = 60_000
FIELDS = {
    "id",
    "template",
    "to",
    "username",
    "language",
    "state",
    "attempts",
    "createdAt",
    "nextAttemptAt",
    "doneAt",
    "lastError",
}


def ask(stack: Stack, **query: object) -> dict[str, Any]:
    """A page that is there."""
    named = {name: str(value) for name, value in query.items()}
    reply = stack.get("/api/admin/mails", named, token=stack.olivia())
    assert reply.status == 200, reply.text
    payload: dict[str, Any] = reply.json
    return payload


def mails_to(stack: Stack, person: Person) -> list[dict[str, Any]]:
    """Newest first."""
    mails: list[dict[str, Any]] = ask(stack, to=person.email, size=100)["mails"]
    return mails


def newest(stack: Stack, person: Person, state: str) -> dict[str, Any]:
    """Wait for the newest mail to this address to be in this state, and return it."""
    return ask_until(lambda: mails_to(stack, person)[0], lambda mail: mail["state"] == state)


# --- A line ---


def test_a_mail_that_was_sent(stack: Stack) -> None:
    bob = stack.approved("bob")
    mail = newest(stack, bob, "sent")
    assert set(mail) == FIELDS
    assert (mail["template"], mail["to"], mail["username"], mail["language"]) == ("approved", bob.email, bob.name, "en")
    assert (mail["attempts"], mail["nextAttemptAt"], mail["lastError"]) == (1, None, None)
    assert abs(mail["createdAt"] - time.time() * 1000) < MINUTE
    assert mail["createdAt"] <= mail["doneAt"]


def test_a_mail_that_was_refused(stack: Stack) -> None:
    alice = stack.pending("alice")
    newest(stack, alice, "sent")
    stack.smtp.refuse(alice.email)
    stack.decides("reject", alice)
    mail = newest(stack, alice, "failed")
    assert (mail["template"], mail["attempts"], mail["lastError"]) == ("rejected", 1, "550 5.1.1 No such mailbox")
    assert mail["doneAt"] is not None


def test_a_mail_that_is_tried_again(stack: Stack) -> None:
    alice = stack.pending("alice")
    newest(stack, alice, "sent")  # else the receipt, which comes before the next mail, may be postponed
    stack.smtp.postpone(alice.email)
    stack.decides("reject", alice)
    mail = ask_until(lambda: mails_to(stack, alice)[0], lambda mail: mail["lastError"] is not None)
    assert (mail["state"], mail["lastError"], mail["doneAt"]) == ("waiting", "451 4.3.0 Try again later", None)
    assert mail["nextAttemptAt"] > time.time() * 1000


def test_a_mail_that_became_pointless(stack: Stack) -> None:
    nobody = stack.newcomer("nobody")
    assert stack.post("/api/password/forgot", {"email": nobody.email}).status == 200
    mail = newest(stack, nobody, "dropped")
    assert (mail["template"], mail["username"]) == ("reset_password", None)
    assert mail["lastError"] == "there is no such user"


def test_no_secret_stands_in_it(stack: Stack) -> None:
    """R23: neither the code nor the link, although the mail had them."""
    alice = stack.newcomer("alice")
    code = stack.code_for(alice.email)
    assert stack.register(alice, code=code, password=None).status == 201
    stack.decides("approve", alice)
    newest(stack, alice, "sent")
    assert code not in str(mails_to(stack, alice))
    assert "token=" not in str(mails_to(stack, alice))


# --- Filters and pages ---


def test_by_address_however_it_is_written(stack: Stack) -> None:
    bob = stack.approved("bob")
    newest(stack, bob, "sent")
    for spelling in (bob.email, bob.email.upper()):
        mails = ask(stack, to=spelling)["mails"]
        assert [mail["template"] for mail in mails] == ["approved", "received", "verification_code"]
    assert ask(stack, to="nobody@example.org")["mails"] == []
    assert ask(stack, to="no address@")["mails"] == []


def test_by_name_with_what_was_mailed_to_the_address_that_the_player_has_proven(stack: Stack) -> None:
    """Another one, typed in the game, may be a stranger's, who registers with it."""
    bob = stack.approved("bob")
    newest(stack, bob, "sent")
    about = ["approved", "received"]
    assert [mail["template"] for mail in ask(stack, to=bob.name)["mails"]] == [*about, "verification_code"]
    our_database(stack).execute("UPDATE regsvc_user SET is_email_verified = 0 WHERE username_key = ?", (bob.key,))
    assert [mail["template"] for mail in ask(stack, to=bob.name)["mails"]] == about


def test_by_name_also_after_the_address_changed_and_the_user_is_gone(stack: Stack) -> None:
    bob = stack.approved("bob")
    newest(stack, bob, "sent")
    our_database(stack).execute(
        "UPDATE regsvc_user SET email = 'new@example.org', email_key = ? WHERE username_key = ?",
        (f"new.{bob.email}", bob.key),
    )
    for spelling in (bob.name, bob.key):
        assert [mail["template"] for mail in ask(stack, to=spelling)["mails"]] == ["approved", "received"]
    stack.decides("delete", bob, silent=True)
    mails = ask(stack, to=bob.name)["mails"]
    assert [(mail["template"], mail["username"]) for mail in mails] == [("approved", None), ("received", None)]


def test_by_state(stack: Stack) -> None:
    test_a_mail_that_was_refused(stack)
    for state in ("waiting", "sent", "failed", "dropped"):
        page = ask(stack, state=state, size=100)
        assert {mail["state"] for mail in page["mails"]} <= {state}
    assert ask(stack, state="failed")["pagination"]["totalCount"] >= 1


def test_pages_begin_with_the_newest_mail(stack: Stack) -> None:
    bob = stack.approved("bob")
    for transition in ("ban", "unban"):
        stack.decides(transition, bob)
    everything = [mail["id"] for mail in mails_to(stack, bob)]
    assert everything == sorted(everything, reverse=True)
    pages = [ask(stack, to=bob.email, page=number, size=3) for number in (1, 2)]
    assert [mail["id"] for page in pages for mail in page["mails"]] == everything
    assert pages[0]["pagination"].items() >= {"totalCount": 5, "totalPages": 2, "hasNext": True}.items()
