"""What the mailbox hears when its account gets another address, or is deleted by its owner."""

import pytest
from peewee import Database

from regsvc.database.models import User
from tests.support.database_fixtures import MakeUser
from tests.support.mail_parts import PostOffice
from tests.support.manual_clock import StandingClock


@pytest.fixture
def office(our_database: Database, clock: StandingClock) -> PostOffice:
    return PostOffice(our_database, clock)


def delivered(office: PostOffice) -> str:
    """Recipient, subject and both texts of the one mail that waits."""
    [mail] = office.outbox.claim_due(5)
    message = office.renderer.render(mail).message
    parts = [str(part.get_content()) for part in message.walk() if part.get_content_maintype() == "text"]
    return "\n".join([str(message["To"]), str(message["Account"]), *parts])


def test_the_old_address_is_told_even_if_a_thief_deletes_the_account_next(office: PostOffice, alice: User) -> None:
    office.mails.send_email_changed(alice)
    User.delete().execute()
    text = delivered(office)
    assert text.lower().startswith("alice@example.org\n")
    assert "another one was entered there" in text
    assert "The account is" not in text, "nobody is called that any more"


def test_it_goes_to_the_address_there_was(office: PostOffice, alice: User) -> None:
    office.mails.send_email_changed(alice)
    User.update(email="new@example.org", email_key="new@example.org").execute()
    text = delivered(office)
    assert "The account is Alice." in text
    assert "new@example.org" not in text


def test_who_is_gone_is_told_by_the_name_he_had(office: PostOffice, alice: User) -> None:
    office.mails.send_account_deleted(alice, office.review(alice, "delete"))
    User.delete().execute()
    assert "Hello Alice" in delivered(office)


def test_without_an_address_nobody_is_told(office: PostOffice, make_user: MakeUser) -> None:
    bob = make_user("Bob", email=None)
    office.mails.send_email_changed(bob)
    office.mails.send_account_deleted(bob, office.review(bob, "delete"))
    assert office.outbox.claim_due(5) == []
