"""The mails with their recipients and states, and those that are sent again."""

import time
from functools import partial
from typing import Any

import pytest

from tests.support.daemon import Reply
from tests.support.each import assert_each
from tests.support.our_tables import our_database
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Person, Stack, find_link_token
from tests.support.together import at_once
from tests.support.watching import ask_until

# GET /api/admin/mails: the mails with their recipients and states.


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


# Olivia resends mails: relevant ones are sent, others are refused.


def resend(stack: Stack, **body: object) -> Reply:
    return stack.post("/api/admin/mails/resend", body, token=stack.olivia())


def newest_mail(stack: Stack, person: Person, state: str | None = None) -> dict[str, Any]:
    """Wait for the newest mail to this address to be in this state (None: any), and return it."""

    def look() -> dict[str, Any]:
        reply = stack.get("/api/admin/mails", {"to": person.email, "size": "1"}, token=stack.olivia())
        assert reply.status == 200, reply.text
        [mail] = reply.json["mails"]
        assert isinstance(mail, dict)
        return mail

    return ask_until(look, lambda mail: state is None or mail["state"] == state)


def failed_mail(stack: Stack, person: Person) -> dict[str, Any]:
    """The mail of a rejection that the server refused; by now it would take it."""
    stack.smtp.refuse(person.email)
    stack.decides("reject", person, reason="too young")
    mail = newest_mail(stack, person, "failed")
    stack.smtp.accept(person.email)
    return mail


# --- What goes out again ---


def test_a_mail_that_failed(stack: Stack) -> None:
    alice = stack.pending("alice")
    mail = failed_mail(stack, alice)
    reply = resend(stack, id=mail["id"])
    assert reply.status == 200, reply.text
    assert reply.json == {
        "success": True,
        "message": f"The e-mail to {alice.email} will be sent again.",
        "id": mail["id"],
        "state": "waiting",
    }
    assert "too young" in stack.smtp.wait_for(alice.email, 2).text
    again = newest_mail(stack, alice, "sent")
    assert (again["id"], again["attempts"], again["lastError"]) == (mail["id"], 1, None)
    assert again["createdAt"] > mail["createdAt"]
    [entry] = stack.audits(alice, "mail.resent")
    assert (entry["operator"], entry["ip"]) == ("Olivia", "127.0.0.1")
    assert entry["detail"] == {"mail": mail["id"], "template": "rejected", "stateBefore": "failed"}


def test_a_mail_that_was_sent_and_got_lost_is_another_one_to_the_mailbox(stack: Stack) -> None:
    bob = stack.approved("bob")
    mail = newest_mail(stack, bob, "sent")
    assert resend(stack, id=mail["id"]).status == 200
    stack.smtp.wait_for(bob.email, 3)
    _code, first, second = stack.smtp.letters_to(bob.email)
    assert first.text == second.text
    assert first.message["Message-ID"] != second.message["Message-ID"]


def test_a_code_that_lives(stack: Stack) -> None:
    alice = stack.newcomer("alice")
    code = stack.code_for(alice.email)
    assert resend(stack, id=newest_mail(stack, alice, "sent")["id"]).status == 200
    assert code in stack.smtp.wait_for(alice.email, 2).text
    assert stack.register(alice, code=code).status == 201


def test_a_link_is_made_anew(stack: Stack) -> None:
    """The link mailed before may still be in a mailbox: it no longer works."""
    bob = stack.approved("bob")
    assert stack.post("/api/password/forgot", {"email": bob.email}).status == 200
    first = find_link_token(stack.smtp.wait_for(bob.email, 3).text)
    assert resend(stack, id=newest_mail(stack, bob, "sent")["id"]).status == 200
    second = find_link_token(stack.smtp.wait_for(bob.email, 4).text)
    assert first != second
    reset = partial(stack.post, "/api/password/reset")
    assert_refused(reset({"token": first, "newPassword": "a-new-password"}), 422, "invalid_token", field="token")
    assert reset({"token": second, "newPassword": "a-new-password"}).status == 200


# --- What does not ---


def refused_as(stack: Stack, mail: dict[str, Any], fault: str) -> None:
    payload = assert_refused(resend(stack, id=mail["id"]), 409, "mail_not_resendable", field="id")
    assert payload["fault"] == fault


def test_a_mail_that_waits_is_left_alone(stack: Stack) -> None:
    alice = stack.pending("alice")
    stack.smtp.postpone(alice.email)
    stack.decides("reject", alice)
    refused_as(stack, newest_mail(stack, alice, "waiting"), "waiting")


def test_a_code_that_was_used_is_never_mailed_again(stack: Stack) -> None:
    alice = stack.newcomer("alice")
    code = stack.code_for(alice.email)
    mail = newest_mail(stack, alice, "sent")
    assert stack.register(alice, code=code).status == 201
    refused_as(stack, mail, "pointless")


def test_a_decision_that_was_followed_by_another_is_no_news(stack: Stack) -> None:
    for next_one in ("approve", "delete"):
        alice = stack.pending("alice")
        mail = failed_mail(stack, alice)
        stack.decides(next_one, alice, silent=True)
        refused_as(stack, mail, "pointless")


def test_a_refusal_changes_nothing(stack: Stack) -> None:
    """The trial of the link's mail makes a link, and takes that back."""
    bob = stack.approved("bob", password=None)
    mail = newest_mail(stack, bob, "sent")
    stack.decides("ban", bob, silent=True)
    ours = our_database(stack)
    before = ours.query("SELECT * FROM regsvc_link ORDER BY id"), stack.audits(bob)
    refused_as(stack, mail, "pointless")
    assert (ours.query("SELECT * FROM regsvc_link ORDER BY id"), stack.audits(bob)) == before


def test_there_is_no_such_mail(stack: Stack) -> None:
    assert_refused(resend(stack, id=2**40), 404, "mail_not_found", field="id")


def test_what_is_no_mail_is_none(stack: Stack) -> None:
    ours = our_database(stack)
    ours.execute(
        "INSERT INTO regsvc_outbox (kind, template, recipient, recipient_key, language, attempts, created_at, done_at,"
        " outcome) VALUES ('webhook', 'approved', 'webhook', 'webhook', 'en', 1, '2026-01-01 00:00:00.000',"
        " '2026-01-01 00:00:00.000', 'failed')"
    )
    [row] = ours.query("SELECT MAX(id) AS id FROM regsvc_outbox WHERE kind = 'webhook'")
    assert_refused(resend(stack, id=int(row["id"])), 404, "mail_not_found", field="id")
    for query in ({"to": "webhook"}, {"state": "failed", "size": "100"}):
        listed = stack.get("/api/admin/mails", query, token=stack.olivia()).json["mails"]
        assert "webhook" not in {mail["to"] for mail in listed}


@pytest.mark.parametrize("kind", ["sqlite", "mariadb"])
def test_without_mail_nothing_goes_out(make_stack: MakeStack, kind: str) -> None:
    stack = make_stack(kind)
    alice = stack.pending("alice")
    mail = failed_mail(stack, alice)
    stack.restart_with({"mail": {"backend": "off"}})
    assert_refused(resend(stack, id=mail["id"]), 503, "mail_unavailable")


# --- Many at once ---


def test_many(stack: Stack) -> None:
    alice, dora = stack.pending("alice"), stack.pending("dora")
    mails = [failed_mail(stack, person) for person in (alice, dora)]
    stack.decides("approve", dora)
    ids = [mails[0]["id"], 2**40, mails[1]["id"], mails[0]["id"]]
    reply = resend(stack, ids=ids)
    assert reply.status == 200, reply.text
    payload = [(result["id"], result["success"], result.get("code")) for result in reply.json["results"]]
    assert payload == [
        (mails[0]["id"], True, None),
        (2**40, False, "mail_not_found"),
        (mails[1]["id"], False, "mail_not_resendable"),
    ]
    stack.smtp.wait_for(alice.email, 2)


def test_it_names_the_field_that_is_wrong(stack: Stack) -> None:
    bodies: dict[str, list[dict[str, object]]] = {
        "id": [{}, {"id": 0}, {"id": "1"}, {"id": 1.5}],
        "ids": [{"ids": [1, 0]}, {"ids": []}, {"ids": list(range(1, 102))}, {"id": 1, "ids": [2]}],
    }
    for field, wrong in bodies.items():
        assert_each(wrong, lambda body: assert_refused(resend(stack, **body), 422, "invalid_field", field=field))  # noqa: B023


def test_two_admins_at_once_send_one_mail(stack: Stack) -> None:
    """R39"""
    alice = stack.pending("alice")
    mail = failed_mail(stack, alice)
    stack.smtp.hold()
    replies = at_once([partial(resend, stack, id=mail["id"])] * 2)
    stack.smtp.release()
    assert sorted(reply.status for reply in replies) == [200, 409]
    assert len(stack.audits(alice, "mail.resent")) == 1
    newest_mail(stack, alice, "sent")
    assert len(stack.smtp.letters_to(alice.email)) == 2
