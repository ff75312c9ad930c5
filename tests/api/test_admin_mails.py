"""The mails as Olivia sees them: what was promised to whom, and what became of each."""

import time
from typing import Any

import pytest

from tests.support.our_tables import our_database
from tests.support.refusals import assert_refused
from tests.support.stack import Person, Village
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


def ask(village: Village, **query: object) -> dict[str, Any]:
    """A page that is there."""
    named = {name: str(value) for name, value in query.items()}
    reply = village.get("/api/admin/mails", named, token=village.olivia())
    assert reply.status == 200, reply.text
    told: dict[str, Any] = reply.json
    return told


def mails_to(village: Village, person: Person) -> list[dict[str, Any]]:
    """Newest first."""
    mails: list[dict[str, Any]] = ask(village, to=person.email, size=100)["mails"]
    return mails


def newest(village: Village, person: Person, state: str) -> dict[str, Any]:
    """The newest mail to somebody, once it is in this state."""
    return ask_until(lambda: mails_to(village, person)[0], lambda mail: mail["state"] == state)


# --- A line ---


def test_a_mail_that_was_sent(village: Village) -> None:
    bob = village.approved("bob")
    mail = newest(village, bob, "sent")
    assert set(mail) == FIELDS
    assert (mail["template"], mail["to"], mail["username"], mail["language"]) == ("approved", bob.email, bob.name, "en")
    assert (mail["attempts"], mail["nextAttemptAt"], mail["lastError"]) == (1, None, None)
    assert abs(mail["createdAt"] - time.time() * 1000) < MINUTE
    assert mail["createdAt"] <= mail["doneAt"]


def test_a_mail_that_was_refused(village: Village) -> None:
    alice = village.pending("alice")
    village.smtp.refuse(alice.email)
    village.decides("reject", alice)
    mail = newest(village, alice, "failed")
    assert (mail["template"], mail["attempts"], mail["lastError"]) == ("rejected", 1, "550 5.1.1 No such mailbox")
    assert mail["doneAt"] is not None


def test_a_mail_that_is_tried_again(village: Village) -> None:
    alice = village.pending("alice")
    village.smtp.postpone(alice.email)
    village.decides("reject", alice)
    mail = ask_until(lambda: mails_to(village, alice)[0], lambda mail: mail["lastError"] is not None)
    assert (mail["state"], mail["lastError"], mail["doneAt"]) == ("waiting", "451 4.3.0 Try again later", None)
    assert mail["nextAttemptAt"] > time.time() * 1000


def test_a_mail_that_became_pointless(village: Village) -> None:
    nobody = village.newcomer("nobody")
    assert village.post("/api/password/forgot", {"email": nobody.email}).status == 200
    mail = newest(village, nobody, "dropped")
    assert (mail["template"], mail["username"]) == ("reset_password", None)
    assert mail["lastError"] == "nobody has this account, or no longer"


def test_no_secret_stands_in_it(village: Village) -> None:
    """R23: neither the code nor the link, although the mail had them."""
    alice = village.newcomer("alice")
    code = village.code_for(alice.email)
    assert village.register(alice, code=code, password=None).status == 201
    village.decides("approve", alice)
    newest(village, alice, "sent")
    assert code not in str(mails_to(village, alice))
    assert "token=" not in str(mails_to(village, alice))


def test_other_errands_are_no_mails(village: Village) -> None:
    ours = our_database(village)
    ours.execute(
        "INSERT INTO regsvc_outbox (kind, template, recipient, recipient_key, language, attempts, created_at, done_at,"
        " outcome) VALUES ('webhook', 'approved', 'webhook', 'webhook', 'en', 1, '2026-01-01 00:00:00.000',"
        " '2026-01-01 00:00:00.000', 'failed')"
    )
    assert ask(village, to="webhook")["mails"] == []
    assert "webhook" not in {mail["to"] for mail in ask(village, state="failed", size=100)["mails"]}


# --- Filters and pages ---


def test_by_address_however_it_is_written(village: Village) -> None:
    bob = village.approved("bob")
    newest(village, bob, "sent")
    for spelling in (bob.email, bob.email.upper()):
        mails = ask(village, to=spelling)["mails"]
        assert [mail["template"] for mail in mails] == ["approved", "verification_code"]
    assert ask(village, to="nobody@example.org")["mails"] == []
    assert ask(village, to="no address@")["mails"] == []


def test_by_name_also_after_the_address_changed(village: Village) -> None:
    bob = village.approved("bob")
    newest(village, bob, "sent")
    our_database(village).execute(
        "UPDATE regsvc_user SET email = 'new@example.org', email_key = ? WHERE username_key = ?",
        (f"new.{bob.email}", bob.key),
    )
    for spelling in (bob.name, bob.key):
        assert [mail["template"] for mail in ask(village, to=spelling)["mails"]] == ["approved"]


def test_by_name_also_after_the_user_is_gone(village: Village) -> None:
    bob = village.approved("bob")
    newest(village, bob, "sent")
    village.decides("delete", bob)
    [mail] = ask(village, to=bob.name)["mails"]
    assert (mail["template"], mail["username"]) == ("approved", None)


def test_by_state(village: Village) -> None:
    test_a_mail_that_was_refused(village)
    for state in ("waiting", "sent", "failed", "dropped"):
        page = ask(village, state=state, size=100)
        assert {mail["state"] for mail in page["mails"]} <= {state}
    assert ask(village, state="failed")["pagination"]["totalCount"] >= 1


def test_an_empty_filter_is_none(village: Village) -> None:
    village.approved("bob")
    assert ask(village, to="", size=1)["mails"] != []


def test_newest_first_page_by_page(village: Village) -> None:
    bob = village.approved("bob")
    for transition in ("ban", "unban"):
        village.decides(transition, bob)
    everything = [mail["id"] for mail in mails_to(village, bob)]
    assert everything == sorted(everything, reverse=True)
    assert len(everything) == 4
    found = []
    for number in (1, 2):
        page = ask(village, to=bob.email, page=number, size=3)
        assert page["pagination"] == {
            "currentPage": number,
            "pageSize": 3,
            "totalCount": 4,
            "totalPages": 2,
            "hasNext": number < 2,
            "hasPrev": number > 1,
        }
        found += [mail["id"] for mail in page["mails"]]
    assert found == everything
    assert ask(village, page=2**31 - 1, size=100)["mails"] == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"page": "0"}, "page"),
        ({"page": "x"}, "page"),
        ({"size": "101"}, "size"),
        ({"state": "lost"}, "state"),
    ],
    ids=str,
)
def test_it_names_the_parameter_that_is_wrong(village: Village, query: dict[str, str], field: str) -> None:
    reply = village.get("/api/admin/mails", query, token=village.olivia())
    assert_refused(reply, 422, "invalid_field", field=field)


def test_it_is_for_admins(village: Village) -> None:
    bob = village.approved("bob")
    assert_refused(village.get("/api/admin/mails"), 401, "unauthorized")
    assert_refused(village.get("/api/admin/mails", token=village.user_token(bob)), 403, "forbidden")
