"""Chat links: one account for one user, however many want it at once."""

import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from peewee import Database

from regsvc.auth.derived_secrets import DerivedSecrets
from regsvc.auth.rate_limits import DurableLimits
from regsvc.core.email_address import parse_email
from regsvc.core.errors import ChatAccountTaken, ChatNotLinked, LinkTokenInvalid, RateLimited
from regsvc.database.audit import Actor, Audit
from regsvc.database.models import BANNED, PENDING, AuditEntry, ChatLink, User
from regsvc.notifications.outbox import Outbox
from regsvc.notifications.webhook import WEBHOOK_RETRY_POLICY, WebhookQueue
from regsvc.users.chat_links import CLAIM_TIMEOUT, ChatAccount, ChatLinks, find_linked_owner
from tests.support.database_fixtures import InParallel, MakeUser
from tests.support.manual_clock import ManualClock

ALICES = ChatAccount("discord", "80351110224678912", "alice", "0", "8342729096ea", "Alice")
BY = Actor("Alice", "198.51.100.7")
ROUNDS = 20
A_MOMENT = timedelta(milliseconds=1)


@pytest.fixture
def links(our_database: Database, clock: ManualClock) -> ChatLinks:
    return ChatLinks(
        DerivedSecrets(b"k" * 32),
        Audit(clock),
        WebhookQueue(Outbox(clock, "webhook", WEBHOOK_RETRY_POLICY), "en", clock, hooks=[]),
        DurableLimits(clock),
        clock,
    )


def keep(links: ChatLinks, token: str, account: ChatAccount = ALICES) -> str:
    """An unclaimed link; comes back with its token."""
    links.create_unclaimed(account, links.token_hash(token))
    return token


def audits() -> list[str]:
    return [entry.action for entry in AuditEntry.select().order_by(AuditEntry.id)]


def in_turns(calls: list[Callable[[], Any]]) -> Callable[[], Any]:
    """A rule for `in_parallel`: each thread gets the next call, and the same again where a transaction is repeated."""
    waiting, own = iter(calls), threading.local()

    def call() -> Any:
        if not hasattr(own, "call"):
            own.call = next(waiting)
        return own.call()

    return call


def atomically(database: Database, call: Callable[[], Any]) -> Callable[[], Any]:
    def rule() -> Any:
        with database.atomic():
            return call()

    return rule


def test_an_account_is_not_linked_and_unlinked_for_ever(links: ChatLinks, alice: User, clock: ManualClock) -> None:
    """Webhooks are told each time: five an hour of one user, and ten a day."""
    accounts = [ChatAccount("discord", str(number), "alice") for number in range(12)]

    def link(account: ChatAccount, token: str) -> None:
        links.link(account, links.token_hash(token), alice, BY)

    for number, account in enumerate(accounts[:5]):
        link(account, f"token {number}")
    links.unlink(alice, BY)
    with pytest.raises(RateLimited) as refused:
        link(accounts[5], "too many")
    assert refused.value.retry_after == 3600
    with pytest.raises(RateLimited):
        links.claim([keep(links, "unclaimed", accounts[5])], alice, BY)
    clock.advance(hours=1)
    for number, account in enumerate(accounts[5:10]):
        link(account, f"later {number}")
    link(accounts[9], "the same again, of which nobody is told")
    clock.advance(hours=1)
    with pytest.raises(RateLimited):
        link(accounts[10], "too many of a day")
    assert (audits().count("chat.linked"), audits().count("chat.unlinked")) == (10, 9)


# --- Claiming ---


def test_a_claimed_link_is_the_users(links: ChatLinks, alice: User) -> None:
    token = keep(links, "token")
    assert links.find_unclaimed([token]) == ALICES
    assert links.find_of(alice.id) is None
    assert links.claim([token], alice, BY) == ALICES
    assert links.find_of(alice.id) == ALICES
    assert links.find_unclaimed([token]) is None
    assert audits() == ["chat.linked"]


def test_a_link_is_claimed_once(links: ChatLinks, alice: User, make_user: MakeUser) -> None:
    token = keep(links, "token")
    links.claim([token], alice, BY)
    with pytest.raises(LinkTokenInvalid):
        links.claim([token], make_user("Bob"), BY)
    with pytest.raises(LinkTokenInvalid):
        links.claim([], alice, BY)


def test_it_waits_for_an_hour(links: ChatLinks, alice: User, clock: ManualClock) -> None:
    token = keep(links, "token")
    clock.advance(seconds=(CLAIM_TIMEOUT - A_MOMENT).total_seconds())
    assert links.purge_expired() == 0
    assert links.find_unclaimed([token]) == ALICES
    clock.advance(seconds=A_MOMENT.total_seconds())
    assert links.find_unclaimed([token]) is None
    with pytest.raises(LinkTokenInvalid):
        links.claim([token], alice, BY)
    with pytest.raises(LinkTokenInvalid):
        links.discard(token)
    assert links.purge_expired() == 1
    assert ChatLink.select().count() == 0


def test_what_is_claimed_stays(links: ChatLinks, alice: User, clock: ManualClock) -> None:
    links.claim([keep(links, "token")], alice, BY)
    clock.advance(days=1000)
    assert links.purge_expired() == 0
    assert links.find_of(alice.id) == ALICES


def test_the_newest_of_several_counts(links: ChatLinks, alice: User) -> None:
    other = ChatAccount("discord", "2", "other")
    tokens = [keep(links, "first"), keep(links, "second", other), "one that never came back"]
    assert links.find_unclaimed(tokens) == other
    assert links.claim(tokens, alice, BY) == other


def test_the_same_number_elsewhere_is_another_account(links: ChatLinks, alice: User, make_user: MakeUser) -> None:
    links.claim([keep(links, "here")], alice, BY)
    elsewhere = ChatAccount("custom", ALICES.id, "alice")
    links.claim([keep(links, "there", elsewhere)], make_user("Bob"), BY)
    assert ChatLink.select().count() == 2


@pytest.mark.parametrize("status", [PENDING, BANNED])
def test_an_account_that_is_somebodys_is_taken(links: ChatLinks, make_user: MakeUser, status: str) -> None:
    alice, bob = make_user("Alice", status=status), make_user("Bob")
    links.claim([keep(links, "alices")], alice, BY)
    token = keep(links, "bobs")
    with pytest.raises(ChatAccountTaken):
        links.require_free(ALICES)
    with pytest.raises(ChatAccountTaken):
        links.claim([token], bob, BY)
    with pytest.raises(ChatAccountTaken):
        links.link(ALICES, links.token_hash("another"), bob, BY)
    assert links.find_of(alice.id) == ALICES


def test_a_deleted_user_frees_the_account(links: ChatLinks, alice: User, make_user: MakeUser) -> None:
    links.claim([keep(links, "alices")], alice, BY)
    User.delete().where(User.id == alice.id).execute()
    assert ChatLink.select().count() == 0
    links.claim([keep(links, "bobs")], make_user("Bob"), BY)


def test_one_user_has_one_account(links: ChatLinks, alice: User) -> None:
    links.claim([keep(links, "first")], alice, BY)
    other = ChatAccount("discord", "2", "other")
    links.link(other, links.token_hash("second"), alice, BY)
    assert links.find_of(alice.id) == other
    assert audits() == ["chat.linked", "chat.unlinked", "chat.linked"]


def test_the_same_account_again_brings_its_new_name_and_is_no_news(links: ChatLinks, alice: User) -> None:
    links.claim([keep(links, "first")], alice, BY)
    renamed = ChatAccount("discord", ALICES.id, "alice_2")
    links.claim([keep(links, "second", renamed)], alice, BY)
    assert links.find_of(alice.id) == renamed
    assert audits() == ["chat.linked"]


# --- Unlinking ---


def test_unlinking_frees_the_account(links: ChatLinks, alice: User, make_user: MakeUser) -> None:
    links.claim([keep(links, "alices")], alice, BY)
    links.unlink(alice, BY)
    with pytest.raises(ChatNotLinked):
        links.unlink(alice, BY)
    links.claim([keep(links, "bobs")], make_user("Bob"), BY)
    assert audits() == ["chat.linked", "chat.unlinked", "chat.linked"]


def test_only_an_unclaimed_link_can_be_dropped_by_its_token(links: ChatLinks, alice: User) -> None:
    links.discard(keep(links, "first"))
    token = keep(links, "second")
    links.claim([token], alice, BY)
    with pytest.raises(LinkTokenInvalid):
        links.discard(token)
    assert links.find_of(alice.id) == ALICES


# --- Looking ---


def test_the_token_shows_a_claimed_account_for_an_hour(links: ChatLinks, alice: User, clock: ManualClock) -> None:
    token = keep(links, "token")
    links.claim([token], alice, BY)
    assert links.is_token_of(alice.id, [token])
    assert not links.is_token_of(alice.id, ["another"])
    assert not links.is_token_of(alice.id, [])
    clock.advance(hours=1)
    assert not links.is_token_of(alice.id, [token])


def test_a_name_is_found_whatever_its_case(links: ChatLinks, alice: User) -> None:
    assert links.find_by_name("ALICE") is None
    links.claim([keep(links, "token")], alice, BY)
    assert links.find_by_name("ALICE") == (alice.id, ALICES)


def test_an_unlink_code_goes_to_a_proven_address_alone(links: ChatLinks, make_user: MakeUser) -> None:
    address = parse_email("Alice@example.org")
    alice = make_user("Alice", is_email_verified=True)
    assert find_linked_owner(address) is None
    links.claim([keep(links, "token")], alice, BY)
    assert find_linked_owner(address) == alice
    User.update(is_email_verified=False).execute()
    assert find_linked_owner(address) is None


# --- Races ---


def test_two_links_of_one_account_race(
    links: ChatLinks, make_user: MakeUser, our_database: Database, in_parallel: InParallel
) -> None:
    for round_ in range(ROUNDS):
        account = ChatAccount("discord", str(round_), "alice")
        users = [make_user(f"User_{round_}_{number}") for number in range(4)]
        tokens = [keep(links, f"{round_}-{number}", account) for number in range(4)]
        calls = [
            atomically(our_database, partial(links.claim, [token], user, BY))
            for token, user in zip(tokens, users, strict=True)
        ]
        outcomes = in_parallel(in_turns(calls), 4)
        assert [outcome for outcome in outcomes if isinstance(outcome, ChatAccount)] == [account]
        assert sum(isinstance(outcome, ChatAccountTaken) for outcome in outcomes) == 3, outcomes
        assert ChatLink.select().where(ChatLink.claimed_account == account.key).count() == 1


def test_one_token_is_raced_for(
    links: ChatLinks, make_user: MakeUser, our_database: Database, in_parallel: InParallel
) -> None:
    for round_ in range(ROUNDS):
        account = ChatAccount("discord", str(round_), "alice")
        users = [make_user(f"User_{round_}_{number}") for number in range(4)]
        token = keep(links, str(round_), account)
        calls = [atomically(our_database, partial(links.claim, [token], user, BY)) for user in users]
        outcomes = in_parallel(in_turns(calls), 4)
        assert [outcome for outcome in outcomes if isinstance(outcome, ChatAccount)] == [account]
        refused = [outcome for outcome in outcomes if isinstance(outcome, LinkTokenInvalid | ChatAccountTaken)]
        assert len(refused) == 3, outcomes


def test_one_user_races_for_two_accounts(
    links: ChatLinks, make_user: MakeUser, our_database: Database, in_parallel: InParallel
) -> None:
    for round_ in range(ROUNDS):
        user = make_user(f"User_{round_}")
        tokens = [keep(links, f"{round_}-{n}", ChatAccount("discord", f"{round_}-{n}", "a")) for n in range(3)]
        calls = [atomically(our_database, partial(links.claim, [token], user, BY)) for token in tokens]
        outcomes = in_parallel(in_turns(calls), 3)
        assert any(isinstance(outcome, ChatAccount) for outcome in outcomes)
        assert all(isinstance(outcome, ChatAccount | ChatAccountTaken) for outcome in outcomes), outcomes
        assert ChatLink.select().where(ChatLink.user == user).count() == 1
