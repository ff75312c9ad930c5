"""Mailed links that set a password."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from peewee import Database

from regsvc.auth.derived_secrets import DerivedSecrets
from regsvc.auth.entitlement import Origin
from regsvc.auth.password_links import PasswordLinks, link_address, proves_address
from regsvc.core.errors import ResetTokenInvalid, Unauthorized
from regsvc.core.rights import Team
from regsvc.database.models import Link, Review, Token, User
from tests.support.database_fixtures import InParallel, MakeUser
from tests.support.mail_parts import MailHarness
from tests.support.manual_clock import ManualClock
from tests.support.meanwhile import meanwhile


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
        f"{int(row_id) + 99}.{mac}",
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


def test_a_link_that_is_redeemed_between_look_and_use_is_lost(links: PasswordLinks, alice: User) -> None:
    token = issue(links, alice)

    def redeem_first() -> None:
        links.redeem(token)

    with meanwhile(links, "find", redeem_first, after=True), pytest.raises(ResetTokenInvalid):
        links.redeem(token)


def test_an_undo_ends_by_its_own_users_earlier_ones_alone(
    links: PasswordLinks, alice: User, make_user: MakeUser, clock: ManualClock
) -> None:
    """Alice gives up her address; Bob registers with it, and changes it, too."""
    bob, address = make_user("Bob"), str(alice.email_key)
    reset = issue(links, alice)
    assert links.find_undo(alice.id, address) is None, "hers is an ordinary link"
    for user in (alice, bob):
        links.issue_undo(user.id, address)
    hers, his = links.find_undo(alice.id, address), links.find_undo(bob.id, address)
    assert hers is not None
    assert his is not None
    assert (hers.user, his.user) == (alice, bob)
    bobs = issue(links, bob)
    links.redeem(reset)
    assert links.find_by_id(hers.id) is not None, "a new password does not end it"
    undone = links.redeem(links.token_of(hers))
    assert undone.undoes
    assert links.find_by_id(his.id) is not None
    assert links.find(bobs) is not None


def test_the_later_undo_leaves_the_earlier_one(links: PasswordLinks, alice: User) -> None:
    """A thief changes her address twice; who reads the second one has not the last word."""
    addresses = (str(alice.email_key), "thief@example.org")
    for address in addresses:
        links.issue_undo(alice.id, address)
    first, second = (links.find_undo(alice.id, address) for address in addresses)
    assert first is not None
    assert second is not None
    links.redeem(links.token_of(second))
    assert links.find_by_id(first.id) is not None


def test_a_link_counts_from_now_once_the_clock_was_set_back(
    links: PasswordLinks, alice: User, clock: ManualClock
) -> None:
    token = issue(links, alice)
    clock.advance(days=-700)
    assert links.purge_expired() == 0
    clock.advance(minutes=29)
    assert links.find(token) is not None
    clock.advance(minutes=1)
    assert links.find(token) is None


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
    assert [it.expires_at for it in Link.select()] == [bot.expires_at]
    for revoked_at in (clock(), None):
        Token.update(revoked_at=revoked_at).execute()
        assert (links.find(token) is None) is (revoked_at is not None)
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


def test_a_link_works_as_long_as_its_maker_could_hand_it_over(
    our_database: Database, alice: User, make_user: MakeUser, clock: ManualClock
) -> None:
    make_user("Olivia", status="approved", role="moderator")
    levels, kept, needs_factor = {"Olivia": 3}, {"Olivia": 3}, False
    team = Team(lambda name: levels.get(name, 0), lambda name: kept.get(name, 0), lambda rights: needs_factor)
    links = PasswordLinks(DerivedSecrets(b"k" * 32), clock, team)

    def hand_over(*, has_second_factor: bool = False) -> Callable[[], tuple[bool, object]]:
        origin = Origin("olivia", clock(), has_second_factor)
        token = links.token_of(links.issue_for_handover(alice.id, "Olivia", origin, None))
        return lambda: (links.find(token) is not None, next(it.cause for it in links.list_open("olivia")))

    look = hand_over()
    assert look() == (True, None)
    levels.clear()  # AuthMe holds her op, at its login prompt
    assert look() == (False, None)
    kept.clear()  # she is a moderator, who may not hand over a link
    assert look() == (False, "not_in_team")
    levels["Olivia"] = kept["Olivia"] = 3
    needs_factor = True
    assert look() == (False, "second_factor")
    look = hand_over(has_second_factor=True)
    assert look() == (True, None)
    kept["Alice"] = 2
    assert look() == (True, None)
    kept["Alice"] = 3
    assert look() == (False, "target_has_rank")
    kept["Alice"] = 0
    review = {"user_id": 1, "username": "Olivia", "username_key": "olivia", "transition": "ban", "operator": "Otto"}
    Review.create(**review, status_before="approved", status_after="banned", reviewed_at=clock())
    assert look() == (False, "not_in_team"), "the ban ended it, also when it is over"
    clock.advance(seconds=1)
    assert hand_over(has_second_factor=True)() == (True, None)


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
