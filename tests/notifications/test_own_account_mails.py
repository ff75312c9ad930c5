"""Notices to the user when their account gets another address or is deleted by them."""

import pytest
from peewee import Database

from regsvc.database.models import User
from tests.support.database_fixtures import MakeUser
from tests.support.mail_parts import MailHarness
from tests.support.manual_clock import ManualClock

pytestmark = pytest.mark.one_database("sqlite")


@pytest.fixture
def mail_harness(our_database: Database, clock: ManualClock) -> MailHarness:
    return MailHarness(our_database, clock)


def delivered(mail_harness: MailHarness) -> str:
    """Recipient, subject and both texts of the only mail in the outbox."""
    [mail] = mail_harness.outbox.claim_due(5)
    message = mail_harness.renderer.render(mail).message
    parts = [str(part.get_content()) for part in message.walk() if part.get_content_maintype() == "text"]
    return "\n".join([str(message["To"]), str(message["Subject"]), *parts])


def test_the_old_address_is_told_even_if_a_thief_deletes_the_account_next(
    mail_harness: MailHarness, alice: User
) -> None:
    mail_harness.mail_queue.send(alice, "email_changed")
    User.delete().execute()
    text = delivered(mail_harness)
    assert text.lower().startswith("alice@example.org\n")
    assert "It was replaced by another address" in text
    assert "Account:" not in text, "nobody is called that any more"


def test_it_goes_to_the_address_there_was(mail_harness: MailHarness, alice: User) -> None:
    mail_harness.mail_queue.send(alice, "email_changed")
    User.update(email="new@example.org", email_key="new@example.org").execute()
    text = delivered(mail_harness)
    assert "Account: Alice" in text
    assert "new@example.org" not in text


def test_who_is_gone_is_told_by_the_name_he_had(mail_harness: MailHarness, alice: User) -> None:
    mail_harness.mail_queue.send(alice, "account_deleted", mail_harness.review(alice, "delete"))
    User.delete().execute()
    assert "Hello Alice" in delivered(mail_harness)


def test_without_an_address_nobody_is_told(mail_harness: MailHarness, make_user: MakeUser) -> None:
    bob = make_user("Bob", email=None)
    mail_harness.mail_queue.send(bob, "email_changed")
    mail_harness.mail_queue.send(bob, "account_deleted", mail_harness.review(bob, "delete"))
    assert mail_harness.outbox.claim_due(5) == []
