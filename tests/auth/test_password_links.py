"""Mailed links that set a password."""

from datetime import timedelta

import pytest
from peewee import Database

from regsvc.auth.entitlement import Origin
from regsvc.auth.password_links import PasswordLinks, link_address, proves_address
from regsvc.core.errors import ResetTokenInvalid, Unauthorized
from regsvc.database.models import Link, Token, User
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


# --- links that are handed over ---


def test_a_link_that_is_handed_over_lives_for_an_hour_and_proves_no_address(
    links: PasswordLinks, alice: User, make_user: MakeUser, clock: ManualClock
) -> None:
    make_user("Olivia", status="approved")
    origin = Origin("olivia", clock(), has_second_factor=True)
    mailed = issue(links, alice)
    first = links.token_of(links.issue_for_handover(alice.id, "Olivia", origin, None))
    made = links.issue_for_handover(alice.id, "Olivia", origin, clock() + timedelta(hours=2))
    assert (made.issued_by, made.maker, made.token_id, made.has_second_factor) == ("olivia", "Olivia", None, True)
    token = links.token_of(made)
    User.update(email_key="new@example.org").where(User.id == alice.id).execute()
    found = links.find(token)
    assert found is not None
    assert not proves_address(found)
    assert links.find(first) is None, "a later one ends it"
    assert links.find(mailed) is None, "her address is another one by now"
    assert Link.select().where(Link.redeemed_at.is_null()).count() == 2
    clock.advance(minutes=59, seconds=59)
    assert links.find(token) is not None
    clock.advance(seconds=1)
    assert links.find(token) is None


def test_a_link_ends_with_the_token_that_made_it_and_with_its_maker(
    links: PasswordLinks, alice: User, make_user: MakeUser, clock: ManualClock
) -> None:
    olivia = make_user("Olivia", status="approved")
    columns = {"name": "bot", "public_part": "bot", "hash": "", "permissions": "", "maker": "Olivia"}
    bot = Token.create(**columns, created_at=clock(), expires_at=clock() + timedelta(minutes=5))
    origin = Origin("olivia", clock(), token_id=bot.id)
    token = links.token_of(links.issue_for_handover(alice.id, "bot (Olivia)", origin, bot.expires_at))
    assert links.find(token) is not None
    User.update(status="banned").where(User.id == olivia.id).execute()
    assert links.find(token) is None
    User.update(status="approved").where(User.id == olivia.id).execute()
    clock.advance(minutes=4, seconds=59)
    assert links.find(token) is not None
    clock.advance(seconds=1)
    assert links.find(token) is None
    with pytest.raises(Unauthorized):
        links.issue_for_handover(alice.id, "bot (Olivia)", origin, bot.expires_at)
    command_line = links.issue_for_handover(alice.id, "companion", Origin(None, clock()), None)
    assert links.find(links.token_of(command_line)) is not None


def test_what_a_member_handed_over_is_listed_and_ended(
    links: PasswordLinks, alice: User, make_user: MakeUser, clock: ManualClock
) -> None:
    make_user("Olivia", status="approved")
    bob = make_user("Bob")
    issue(links, alice)
    links.issue_for_handover(alice.id, "companion", Origin(None, clock()), None)
    theirs = links.issue_for_handover(bob.id, "Mona", Origin("mona", clock()), None)
    hers = links.issue_for_handover(bob.id, "Olivia", Origin("olivia", clock()), None)
    assert links.find_by_id(theirs.id) is None, "one at a time"
    carol = make_user("Carol")
    theirs = links.issue_for_handover(carol.id, "Mona", Origin("mona", clock()), None)
    listed = [(it.id, it.owner, it.label, it.cause) for it in links.list_open()]
    assert sorted(listed) == [(hers.id, "olivia", "Bob", None), (theirs.id, "mona", "Carol", "not_in_team")]
    assert [it.id for it in links.list_open("olivia")] == [hers.id]
    links.end([hers.id])
    assert [it.id for it in links.list_open()] == [theirs.id]
    clock.advance(hours=1)
    assert list(links.list_open()) == []


def test_a_mailed_link_proves_the_address_and_has_its_token_in_the_fragment(links: PasswordLinks, alice: User) -> None:
    found = links.find(issue(links, alice))
    assert found is not None
    assert proves_address(found)
    assert (found.user.username, found.undoes) == ("Alice", False)
    assert link_address("https://example.org", "1.x") == "https://example.org/set-password#token=1.x"


def test_an_undo_is_prolonged_and_not_made_twice(links: PasswordLinks, alice: User, clock: ManualClock) -> None:
    address = str(alice.email_key)
    for _change in range(2):
        links.issue_undo(alice.id, address)
        clock.advance(days=2)
    assert Link.select().count() == 1
    undo = links.find_undo(alice.id, address)
    assert undo is not None
    assert undo.purpose == "reset"
    clock.advance(days=1)
    assert links.find_undo(alice.id, address) is None, "it is over"
    links.issue_undo(alice.id, address)
    assert Link.select().count() == 2
    again = links.find_undo(alice.id, address)
    assert again is not None
    issue(links, alice)
    assert links.find_by_id(again.id) is not None, "a later link of another kind leaves it alone"
