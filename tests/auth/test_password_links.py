"""Mailed links that set a password."""

import pytest
from peewee import Database

from regsvc.auth.password_links import PasswordLinks
from regsvc.core.errors import ResetTokenInvalid
from regsvc.database.models import User
from tests.support.database_fixtures import InParallel, MakeUser
from tests.support.mail_parts import MailHarness
from tests.support.manual_clock import ManualClock


@pytest.fixture
def links(our_database: Database, clock: ManualClock) -> PasswordLinks:
    return MailHarness(our_database, clock).links


def issue(links: PasswordLinks, user: User, purpose: str = "reset") -> str:
    return links.token_of(links.issue(user.id, purpose, user.email_key))  # type: ignore[arg-type]


def test_a_link_is_found_as_often_as_one_looks_and_redeemed_once(links: PasswordLinks, alice: User) -> None:
    token = issue(links, alice)
    for look in range(3):
        assert links.find(token) is not None, look
    assert links.redeem(token).user == alice
    assert links.find(token) is None
    with pytest.raises(ResetTokenInvalid):
        links.redeem(token)


@pytest.mark.parametrize(("purpose", "minutes"), [("reset", 30), ("first_password", 7 * 24 * 60)])
def test_a_link_expires(links: PasswordLinks, alice: User, clock: ManualClock, purpose: str, minutes: int) -> None:
    token = issue(links, alice, purpose)
    clock.advance(minutes=minutes, seconds=-1)
    assert links.find(token) is not None
    clock.advance(seconds=1)
    assert links.find(token) is None
    with pytest.raises(ResetTokenInvalid):
        links.redeem(token)


def test_a_later_link_ends_the_earlier(links: PasswordLinks, alice: User) -> None:
    first, second = issue(links, alice), issue(links, alice)
    assert links.find(first) is None
    assert links.find(second) is not None


def test_a_link_that_undoes_a_change_outlives_the_next_ones(
    links: PasswordLinks, alice: User, clock: ManualClock
) -> None:
    """Whoever changes the account again prolongs it; only its use ends it, or its time."""
    address = str(alice.email_key)
    links.issue_undo(alice.id, address)
    undo = links.find_undo(alice.id, address)
    assert undo is not None
    token = links.token_of(undo)
    clock.advance(days=2)
    links.revoke_all(alice.id)
    links.redeem(issue(links, alice))
    User.update(email_key="thief@example.org").execute()
    links.issue_undo(alice.id, address)
    links.issue_undo(alice.id, "thief@example.org")
    clock.advance(days=3, seconds=-1)
    assert links.find(token) is not None
    assert links.find_undo(alice.id, "bob@example.org") is None
    assert links.redeem(token).undoes
    assert links.find_undo(alice.id, "thief@example.org") is None, "it came later"
    clock.advance(days=3)
    assert links.find_undo(alice.id, address) is None


def test_a_reset_request_revokes_no_first_password_link(links: PasswordLinks, alice: User) -> None:
    welcome = issue(links, alice, "first_password")
    issue(links, alice, "reset")
    assert links.find(welcome) is not None


def test_one_password_set_ends_all_links_of_that_user(links: PasswordLinks, alice: User, make_user: MakeUser) -> None:
    welcome, reset = issue(links, alice, "first_password"), issue(links, alice, "reset")
    bobs = issue(links, make_user("Bob"))
    links.redeem(reset)
    assert links.find(welcome) is None
    assert links.find(bobs) is not None


def test_no_other_token_opens_it(links: PasswordLinks, alice: User, make_user: MakeUser) -> None:
    token = issue(links, alice)
    bobs = issue(links, make_user("Bob"))
    row_id, mac = token.split(".")
    forged = [
        f"{row_id}.{bobs.split('.')[1]}",
        f"{row_id}.",
        f"{row_id}.{mac[:-1]}",
        f"{row_id}.{mac}=",
        mac,
        "",
        "1.\ud800",
        f"-1.{mac}",
        f"１.{mac}",
        f"{'9' * 40}.{mac}",
    ]
    for other in forged:
        assert links.find(other) is None, other
        with pytest.raises(ResetTokenInvalid):
            links.redeem(other)
    assert links.find(token) is not None


def test_one_link_in_many_hands_has_one_winner(
    links: PasswordLinks, our_database: Database, alice: User, in_parallel: InParallel
) -> None:
    token = issue(links, alice)

    def redeem() -> str:
        with our_database.atomic():
            links.redeem(token)
        return "won"

    results = in_parallel(redeem, 10)
    assert sorted(str(result) for result in results) == ["invalid_token"] * 9 + ["won"]


def test_the_expired_are_purged(links: PasswordLinks, alice: User, clock: ManualClock) -> None:
    issue(links, alice)
    welcome = issue(links, alice, "first_password")
    clock.advance(hours=1)
    assert links.purge_expired() == 1
    assert links.find(welcome) is not None
