"""Olivia sends mails again: what still has something to say goes out, what has not is refused."""

from functools import partial
from typing import Any

import pytest

from tests.support.daemon import Reply
from tests.support.our_tables import age_code, our_database
from tests.support.refusals import assert_refused
from tests.support.stack import MakeVillage, Person, Village, find_link_token
from tests.support.together import at_once
from tests.support.watching import ask_until


def resend(village: Village, **body: object) -> Reply:
    return village.post("/api/admin/mails/resend", body, token=village.olivia())


def newest(village: Village, person: Person, state: str | None = None) -> dict[str, Any]:
    """The newest mail to somebody, once it is in this state (None: any)."""

    def look() -> dict[str, Any]:
        reply = village.get("/api/admin/mails", {"to": person.email, "size": "1"}, token=village.olivia())
        assert reply.status == 200, reply.text
        [mail] = reply.json["mails"]
        assert isinstance(mail, dict)
        return mail

    return ask_until(look, lambda mail: state is None or mail["state"] == state)


def failed_mail(village: Village, person: Person) -> dict[str, Any]:
    """The mail of a rejection that the server refused; by now it would take it."""
    village.smtp.refuse(person.email)
    village.decides("reject", person, reason="too young")
    mail = newest(village, person, "failed")
    village.smtp.accept(person.email)
    return mail


# --- What goes out again ---


def test_a_mail_that_failed(village: Village) -> None:
    alice = village.pending("alice")
    mail = failed_mail(village, alice)
    reply = resend(village, id=mail["id"])
    assert reply.status == 200, reply.text
    assert reply.json == {
        "success": True,
        "message": f"The mail to {alice.email} is on its way again.",
        "id": mail["id"],
        "state": "waiting",
    }
    assert "too young" in village.smtp.wait_for(alice.email, 2).text
    again = newest(village, alice, "sent")
    assert (again["id"], again["attempts"], again["lastError"]) == (mail["id"], 1, None)
    assert again["createdAt"] > mail["createdAt"]


def test_it_leaves_an_entry(village: Village) -> None:
    alice = village.pending("alice")
    mail = failed_mail(village, alice)
    resend(village, id=mail["id"])
    [entry] = village.audits(alice, "mail.resent")
    assert (entry["operator"], entry["ip"]) == ("Olivia", "127.0.0.1")
    assert entry["detail"] == {"mail": mail["id"], "template": "rejected", "stateBefore": "failed"}


def test_a_mail_that_was_sent_and_got_lost_is_another_one_to_the_mailbox(village: Village) -> None:
    bob = village.approved("bob")
    mail = newest(village, bob, "sent")
    assert resend(village, id=mail["id"]).status == 200
    village.smtp.wait_for(bob.email, 3)
    _code, first, second = village.smtp.letters_to(bob.email)
    assert first.text == second.text
    assert first.message["Message-ID"] != second.message["Message-ID"]


def test_a_code_that_lives(village: Village) -> None:
    alice = village.newcomer("alice")
    code = village.code_for(alice.email)
    assert resend(village, id=newest(village, alice, "sent")["id"]).status == 200
    assert code in village.smtp.wait_for(alice.email, 2).text
    assert village.register(alice, code=code).status == 201


def test_a_link_is_made_anew(village: Village) -> None:
    """The one mailed before may lie in somebody's mailbox: it is dead."""
    bob = village.approved("bob")
    assert village.post("/api/password/forgot", {"email": bob.email}).status == 200
    first = find_link_token(village.smtp.wait_for(bob.email, 3).text)
    assert resend(village, id=newest(village, bob, "sent")["id"]).status == 200
    second = find_link_token(village.smtp.wait_for(bob.email, 4).text)
    assert first != second
    reset = partial(village.post, "/api/password/reset")
    assert_refused(reset({"token": first, "newPassword": "a-new-password"}), 422, "invalid_token", field="token")
    assert reset({"token": second, "newPassword": "a-new-password"}).status == 200


# --- What does not ---


def refused_as(village: Village, mail: dict[str, Any], fault: str) -> None:
    told = assert_refused(resend(village, id=mail["id"]), 409, "mail_not_resendable", field="id")
    assert told["fault"] == fault


def test_a_mail_that_waits_is_left_alone(village: Village) -> None:
    alice = village.pending("alice")
    village.smtp.postpone(alice.email)
    village.decides("reject", alice)
    refused_as(village, newest(village, alice, "waiting"), "waiting")


def test_a_code_that_expired_is_never_mailed_again(village: Village) -> None:
    """R44"""
    alice = village.newcomer("alice")
    village.code_for(alice.email)
    mail = newest(village, alice, "sent")
    age_code(village, alice.email, minutes=6)
    refused_as(village, mail, "pointless")
    assert len(village.smtp.letters_to(alice.email)) == 1


def test_a_code_that_was_used_is_never_mailed_again(village: Village) -> None:
    alice = village.newcomer("alice")
    code = village.code_for(alice.email)
    mail = newest(village, alice, "sent")
    assert village.register(alice, code=code).status == 201
    refused_as(village, mail, "pointless")


def test_a_link_that_was_used_is_not_mailed_again(village: Village) -> None:
    bob = village.approved("bob")
    village.post("/api/password/forgot", {"email": bob.email})
    token = find_link_token(village.smtp.wait_for(bob.email, 3).text)
    mail = newest(village, bob, "sent")
    assert village.post("/api/password/reset", {"token": token, "newPassword": "a-new-password"}).status == 200
    refused_as(village, mail, "pointless")


def test_a_decision_that_was_followed_by_another_is_no_news(village: Village) -> None:
    alice = village.pending("alice")
    mail = failed_mail(village, alice)
    village.decides("approve", alice, silent=True)
    refused_as(village, mail, "pointless")


def test_who_is_gone_gets_nothing(village: Village) -> None:
    alice = village.pending("alice")
    mail = failed_mail(village, alice)
    village.decides("delete", alice)
    refused_as(village, mail, "pointless")


def test_a_refusal_changes_nothing(village: Village) -> None:
    """The trial of the link's mail makes a link, and takes that back."""
    bob = village.approved("bob", password=None)
    mail = newest(village, bob, "sent")
    village.decides("ban", bob, silent=True)
    ours = our_database(village)
    before = ours.query("SELECT * FROM regsvc_link ORDER BY id"), village.audits(bob)
    refused_as(village, mail, "pointless")
    assert (ours.query("SELECT * FROM regsvc_link ORDER BY id"), village.audits(bob)) == before


def test_there_is_no_such_mail(village: Village) -> None:
    assert_refused(resend(village, id=2**40), 404, "mail_not_found", field="id")


def test_what_is_no_mail_is_none(village: Village) -> None:
    ours = our_database(village)
    ours.execute(
        "INSERT INTO regsvc_outbox (kind, template, recipient, recipient_key, language, attempts, created_at, done_at,"
        " outcome) VALUES ('webhook', 'approved', 'webhook', 'webhook', 'en', 1, '2026-01-01 00:00:00.000',"
        " '2026-01-01 00:00:00.000', 'failed')"
    )
    [row] = ours.query("SELECT MAX(id) AS id FROM regsvc_outbox WHERE kind = 'webhook'")
    assert_refused(resend(village, id=int(row["id"])), 404, "mail_not_found", field="id")


@pytest.mark.parametrize("kind", ["sqlite", "mariadb"])
def test_without_mail_nothing_goes_out(make_village: MakeVillage, kind: str) -> None:
    village = make_village(kind)
    alice = village.pending("alice")
    mail = failed_mail(village, alice)
    village.restart_with({"mail": {"backend": "off"}})
    assert_refused(resend(village, id=mail["id"]), 503, "mail_unavailable")


# --- Many at once ---


def test_many(village: Village) -> None:
    alice, dora = village.pending("alice"), village.pending("dora")
    mails = [failed_mail(village, person) for person in (alice, dora)]
    village.decides("approve", dora)
    ids = [mails[0]["id"], 2**40, mails[1]["id"], mails[0]["id"]]
    reply = resend(village, ids=ids)
    assert reply.status == 200, reply.text
    told = [(result["id"], result["success"], result.get("code")) for result in reply.json["results"]]
    assert told == [
        (mails[0]["id"], True, None),
        (2**40, False, "mail_not_found"),
        (mails[1]["id"], False, "mail_not_resendable"),
    ]
    village.smtp.wait_for(alice.email, 2)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "id"),
        ({"id": 0}, "id"),
        ({"id": "1"}, "id"),
        ({"id": 1.5}, "id"),
        ({"ids": [1, 0]}, "ids"),
        ({"ids": []}, "ids"),
        ({"ids": list(range(1, 102))}, "ids"),
        ({"id": 1, "ids": [2]}, "ids"),
    ],
    ids=str,
)
def test_it_names_the_field_that_is_wrong(village: Village, body: dict[str, object], field: str) -> None:
    assert_refused(resend(village, **body), 422, "invalid_field", field=field)


def test_two_admins_at_once_send_one_mail(village: Village) -> None:
    """R39"""
    alice = village.pending("alice")
    mail = failed_mail(village, alice)
    village.smtp.hold()
    replies = at_once([partial(resend, village, id=mail["id"])] * 2)
    village.smtp.release()
    assert sorted(reply.status for reply in replies) == [200, 409]
    assert len(village.audits(alice, "mail.resent")) == 1
    newest(village, alice, "sent")
    assert len(village.smtp.letters_to(alice.email)) == 2


def test_it_is_for_admins(village: Village) -> None:
    bob = village.approved("bob")
    body = {"id": newest(village, bob)["id"]}
    assert_refused(village.post("/api/admin/mails/resend", body), 401, "unauthorized")
    reply = village.post("/api/admin/mails/resend", body, token=village.user_token(bob))
    assert_refused(reply, 403, "forbidden")
