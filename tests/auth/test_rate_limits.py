"""Rate limits: exact with fifty concurrent requests, kept across restarts, and bounded in memory."""

import tracemalloc
from datetime import timedelta

import pytest
from peewee import Database

from regsvc.accounts.invitations import Invitations
from regsvc.auth.derived_secrets import DerivedSecrets
from regsvc.auth.rate_limits import DurableLimits, MemoryLimits, client_checks
from regsvc.core.errors import RateLimited
from regsvc.core.rights import Team
from regsvc.core.units import RateLimit
from regsvc.database.audit import Actor, Audit
from regsvc.database.models import Invitation, RateLimitWindow, User
from tests.support.database_fixtures import InParallel
from tests.support.manual_clock import ManualClock

PER_ADDRESS = (RateLimit.parse("1 per minute"), RateLimit.parse("10 per day"))
PER_CLIENT = (RateLimit.parse("3 per minute"),)
DAY_SECONDS = 24 * 3600


@pytest.fixture
def durable(our_database: Database, clock: ManualClock) -> DurableLimits:
    return DurableLimits(clock)


@pytest.fixture
def memory(clock: ManualClock) -> MemoryLimits:
    return MemoryLimits(clock)


def stored_hits() -> dict[tuple[str, str, int], int]:
    return {(row.scope, row.subject, row.period_seconds): row.hits for row in RateLimitWindow.select()}


# --- In the database ---


def test_it_tells_how_long_to_wait(durable: DurableLimits, clock: ManualClock) -> None:
    durable.hit("mail", "alice@example.org", PER_ADDRESS)
    clock.advance(seconds=12.5)

    with pytest.raises(RateLimited) as refused:
        durable.hit("mail", "alice@example.org", PER_ADDRESS)

    assert refused.value.retry_after == 48
    assert refused.value.facts == {"remainingSeconds": 48}
    assert durable.remaining_seconds([("mail", "alice@example.org", PER_ADDRESS)]) == 48
    assert durable.remaining_seconds([("mail", "bob@example.org", PER_ADDRESS)]) == 0


def test_who_waits_as_told_gets_through(durable: DurableLimits, clock: ManualClock) -> None:
    for _day in range(10):
        durable.hit("mail", "alice@example.org", PER_ADDRESS)
        clock.advance(seconds=60)

    with pytest.raises(RateLimited) as refused:
        durable.hit("mail", "alice@example.org", PER_ADDRESS)
    assert refused.value.retry_after == DAY_SECONDS - 600

    clock.advance(seconds=refused.value.retry_after)
    durable.hit("mail", "alice@example.org", PER_ADDRESS)
    assert durable.remaining_seconds([("mail", "alice@example.org", PER_ADDRESS)]) == 60


def test_a_refusal_counts_nothing(durable: DurableLimits) -> None:
    durable.hit("mail", "alice@example.org", PER_ADDRESS)
    for _attempt in range(5):
        with pytest.raises(RateLimited):
            durable.hit("mail", "alice@example.org", PER_ADDRESS)

    assert stored_hits() == {
        ("mail", "alice@example.org", 60): 1,
        ("mail", "alice@example.org", DAY_SECONDS): 1,
    }


def test_no_scope_is_counted_if_one_is_used_up(durable: DurableLimits) -> None:
    total = (RateLimit.parse("100 per hour"),)
    for address in ("alice@example.org", "bob@example.org", "carol@example.org"):
        durable.hit_all([("address", address, PER_ADDRESS), ("client", "::1", PER_CLIENT), ("total", "", total)])

    with pytest.raises(RateLimited):
        durable.hit_all(
            [("address", "dave@example.org", PER_ADDRESS), ("client", "::1", PER_CLIENT), ("total", "", total)]
        )

    hits = stored_hits()
    assert hits["client", "::1", 60] == 3
    assert hits["total", "", 3600] == 3
    assert durable.remaining_seconds([("address", "dave@example.org", PER_ADDRESS)]) == 0


def test_a_refusal_leaves_no_rows_of_other_keys(our_database: Database, durable: DurableLimits) -> None:
    total = ("total", "", (RateLimit.parse("1 per hour"),))
    durable.hit_all([total])

    with our_database.atomic():
        for number in range(20):
            with pytest.raises(RateLimited):
                durable.hit_all([("address", f"{number}@example.org", PER_ADDRESS), total])

    assert stored_hits() == {("total", "", 3600): 1}


def test_no_limits_count_nothing(durable: DurableLimits) -> None:
    durable.hit("status", "::1", [])
    assert durable.remaining_seconds([("status", "::1", [])]) == 0
    assert stored_hits() == {}


def test_of_two_limits_with_one_period_the_narrower_counts(durable: DurableLimits) -> None:
    limits = [RateLimit.parse("5 per minute"), RateLimit.parse("1 per minute")]
    durable.hit("mail", "alice@example.org", limits)
    with pytest.raises(RateLimited):
        durable.hit("mail", "alice@example.org", limits)


def test_what_is_rolled_back_was_not_counted(our_database: Database, durable: DurableLimits) -> None:
    with our_database.atomic() as transaction:
        durable.hit("mail", "alice@example.org", PER_ADDRESS)
        transaction.rollback()
    durable.hit("mail", "alice@example.org", PER_ADDRESS)


def test_a_restart_forgets_nothing(durable: DurableLimits, clock: ManualClock) -> None:
    durable.hit("mail", "alice@example.org", PER_ADDRESS)
    with pytest.raises(RateLimited):
        DurableLimits(clock).hit("mail", "alice@example.org", PER_ADDRESS)


def test_a_clock_set_back_locks_nobody_out_for_years(durable: DurableLimits, clock: ManualClock) -> None:
    durable.hit("mail", "alice@example.org", PER_ADDRESS)
    clock.advance(days=-1000)
    durable.hit("mail", "alice@example.org", PER_ADDRESS)
    assert durable.remaining_seconds([("mail", "alice@example.org", PER_ADDRESS)]) == 60


def test_windows_that_are_over_are_purged(durable: DurableLimits, clock: ManualClock) -> None:
    durable.hit("mail", "alice@example.org", PER_ADDRESS)
    clock.advance(minutes=2)

    assert durable.purge(timedelta()) == 1
    assert stored_hits() == {("mail", "alice@example.org", DAY_SECONDS): 1}


def test_it_is_exact_when_fifty_ask_at_once(
    our_database: Database, durable: DurableLimits, in_parallel: InParallel, clock: ManualClock
) -> None:
    limits = [RateLimit.parse("7 per minute"), RateLimit.parse("1000 per day")]

    def ask() -> str:
        with our_database.atomic():
            durable.hit_all([("client", "::1", limits), ("total", "", limits)])
        return "counted"

    for _day in range(2):  # on the first the windows are made, on the second they are found
        answers = in_parallel(ask, 50)
        assert answers.count("counted") == 7
        assert sum(isinstance(answer, RateLimited) for answer in answers) == 43
        assert set(stored_hits().values()) == {7}
        clock.advance(days=1)


def test_the_order_of_subjects_deadlocks_nobody(
    our_database: Database, durable: DurableLimits, in_parallel: InParallel
) -> None:
    limits = [RateLimit.parse("1000 per day")]
    orders = [[("a", "1", limits), ("b", "2", limits)], [("b", "2", limits), ("a", "1", limits)]] * 10

    def ask() -> None:
        with our_database.atomic():
            durable.hit_all(orders.pop())

    assert in_parallel(ask, 20) == [None] * 20
    assert set(stored_hits().values()) == {20}


@pytest.mark.every_database
def test_forty_invitations_at_once_are_thirty(in_parallel: InParallel, clock: ManualClock, olivia: User) -> None:
    secrets, team = DerivedSecrets(bytes(32)), Team(lambda name: 4)
    invitations = Invitations(secrets, team, Audit(clock), clock, "https://play.example.org")

    def invite() -> None:
        invitations.create(1, timedelta(days=7), (), Actor(olivia.username), olivia.username)

    assert in_parallel(invite, 40).count(None) == Invitation.select().count() == 30


# --- In memory ---


def test_memory_counts_by_the_same_rules(memory: MemoryLimits, clock: ManualClock) -> None:
    for _attempt in range(3):
        memory.hit("login", "::1", PER_CLIENT)
    clock.advance(seconds=20)

    with pytest.raises(RateLimited) as refused:
        memory.hit("login", "::1", PER_CLIENT)
    assert refused.value.retry_after == 40
    memory.hit("login", "::2", PER_CLIENT)
    memory.hit("status", "::1", PER_CLIENT)

    clock.advance(seconds=40)
    memory.hit("login", "::1", PER_CLIENT)


def test_memory_counts_all_or_none(memory: MemoryLimits) -> None:
    once = (RateLimit.parse("1 per minute"),)
    memory.hit("login.account", "alice ::1", once)

    with pytest.raises(RateLimited):
        memory.hit_all([("login.client", "::1", once), ("login.account", "alice ::1", once)])
    memory.hit("login.client", "::1", once)


def test_an_ipv6_network_is_counted_with_all_its_clients(memory: MemoryLimits) -> None:
    def ask(address: str) -> None:
        memory.hit_all(client_checks("status.client", address, PER_CLIENT))

    for number in range(12):  # four times what a client may
        ask(f"2001:db8:1:{number:x}::1")
    with pytest.raises(RateLimited):
        ask("2001:db8:1:ffff::1")
    ask("2001:db8:2::1")


def test_a_right_login_clears_its_limit(memory: MemoryLimits) -> None:
    once = (RateLimit.parse("1 per minute"), RateLimit.parse("1 per hour"))
    memory.hit("login", "::1", once)
    memory.clear("login", "::1")
    memory.hit("login", "::1", once)
    memory.clear("login", "never heard of")


def test_a_clock_set_back_does_not_freeze_the_memory(memory: MemoryLimits, clock: ManualClock) -> None:
    memory.hit("login", "::1", (RateLimit.parse("1 per minute"),))
    clock.advance(days=-1000)
    memory.hit("login", "::1", (RateLimit.parse("1 per minute"),))


def test_what_is_over_leaves_the_memory(memory: MemoryLimits, clock: ManualClock) -> None:
    for number in range(100):
        memory.hit("login", f"client {number}", PER_CLIENT)
    clock.advance(minutes=1)
    memory.hit("login", "::1", PER_CLIENT)
    assert len(memory) == 1


def test_no_limits_take_no_memory(memory: MemoryLimits) -> None:
    memory.hit("status", "::1", [])
    assert len(memory) == 0


def test_a_hundred_thousand_clients_fill_no_memory(clock: ManualClock) -> None:
    memory = MemoryLimits(clock, max_keys=1000)
    for number in range(100_000):
        memory.hit("login", str(number), PER_CLIENT)
    assert len(memory) == 1000


def test_long_names_take_no_more_memory_than_short_ones(clock: ManualClock) -> None:
    memory = MemoryLimits(clock)
    tracemalloc.start()
    for number in range(100):
        memory.hit("login", str(number) * 100_000, PER_CLIENT)
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept < 200_000


def test_other_clients_do_not_evict_one_that_keeps_trying(clock: ManualClock) -> None:
    memory = MemoryLimits(clock, max_keys=10)
    for number in range(9):
        memory.hit("login", "mallory", (RateLimit(1000, timedelta(hours=1)),))
        memory.hit("login", f"client {number}", PER_CLIENT)
    for number in range(8):
        memory.hit("login", f"other client {number}", PER_CLIENT)
    with pytest.raises(RateLimited):
        memory.hit("login", "mallory", (RateLimit(9, timedelta(hours=1)),))
