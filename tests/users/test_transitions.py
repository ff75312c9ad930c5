"""A transition of many users has the effects that it has on each alone, in few statements."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from peewee import Database

from plugin_bridge.server.rcon import RconAddress
from regsvc.config.host_sections import GameSection, OnBan, WebhookSection
from regsvc.core.errors import UserNotFound, WrongStatus
from regsvc.database.audit import Actor, Audit
from regsvc.database.models import APPROVED, BANNED, GENERATED, PENDING, REJECTED, AuditEntry, OutboxEntry, Review, User
from regsvc.notifications.mail.queue import MailQueue
from regsvc.notifications.outbox import Outbox, RetryPolicy
from regsvc.notifications.rcon import RconQueue
from regsvc.notifications.webhook import WebhookQueue
from regsvc.users.gates import Gates
from regsvc.users.transitions import DecisionDetails, Transitions
from tests.support.database_fixtures import MakeUser
from tests.support.mail_parts import rows_of
from tests.support.manual_clock import ManualClock

OLIVIA = Actor("Olivia", "198.51.100.9")
LATER = datetime(2033, 1, 1, tzinfo=UTC)
EARLIER = datetime(2030, 1, 1, tzinfo=UTC)
NAMES = ("Alice", "Bob", "Carol", "Dave", "Eve", "Frank", "Grace")

Operation = Callable[[Transitions, Sequence[User]], None]


def make_transitions(clock: ManualClock, on_ban: OnBan | None = None) -> Transitions:
    """Transitions that mail; with `on_ban` they also post to a webhook and send commands to the game."""
    retries = RetryPolicy(timedelta(minutes=1), timedelta(minutes=1))
    mail_queue = MailQueue(
        Outbox(clock, "mail", retries), "en", is_available=True, wake_all=lambda: None, wake_mails=lambda: None
    )
    address = None if on_ban is None else RconAddress("127.0.0.1", 25575, "secret")
    webhook = WebhookQueue(
        Outbox(clock, "webhook", retries),
        "en",
        clock,
        hooks=[WebhookSection("https://hooks.example.org")] if on_ban else [],
    )
    game = GameSection(
        on_ban=on_ban or "none", commands={"approved": ("say {uuid}", "say {language}"), "deleted": ("say {username}",)}
    )
    consoles = {"": lambda: address}
    console = RconQueue(Outbox(clock, "rcon", retries), consoles, game, "en", lambda players: {}, clock)
    return Transitions(Audit(clock), mail_queue, webhook, console, clock, gates=Gates(True, lambda: False))


def make_users(make_user: MakeUser, clock: ManualClock, status: str) -> None:
    """Users with and without address, password and earlier decisions."""
    with_address = {"password_hash": "$argon2id$", "language": "zh"}
    for name in NAMES:
        make_user(name, status=status, **(with_address if name < "D" else {"email": None}))
    User.update(origin="adopted", email="eve@example.org", email_key="eve@example.org").where(named("Eve")).execute()
    decided = {"reason": "griefing", "reviewed_by": "Olivia", "reviewed_at": EARLIER}
    User.update(decided).where(named("Bob", "Carol", "Frank")).execute()
    if status == BANNED:
        User.update(ban_expires_at=EARLIER).where(named("Alice", "Bob", "Eve")).execute()
        User.update(banned_from=PENDING).where(named("Bob", "Dave")).execute()
    for user in User.select().where(named("Bob", "Dave", "Frank")):
        make_review(user, clock, reason="griefing" if user.username != "Frank" else "something else")


def make_review(user: User, clock: ManualClock, reason: str | None) -> None:
    Review.create(
        user_id=user.id,
        username=user.username,
        username_key=user.username_key,
        transition="ban",
        status_before=APPROVED,
        status_after=BANNED,
        reason=reason,
        operator="Olivia",
        reviewed_at=clock(),
        email_key=user.email_key,
    )


def named(*names: str) -> Any:
    return User.username.in_(names)


def edited(**columns: Any) -> Operation:
    """Set columns with SQL, those of some users to other values, and apply the edits."""

    def edit(transitions: Transitions, users: Sequence[User]) -> None:
        ids = User.id.in_([user.id for user in users])
        User.update(columns).where(ids).execute()
        User.update(reason="typed in SQL").where(ids & named("Alice", "Dave")).execute()
        if columns["status"] == BANNED:
            User.update(ban_expires_at=LATER).where(ids & named("Alice", "Carol")).execute()
        loaded = list(User.select().where(ids).order_by(User.id))
        transitions.apply_sql_edits(loaded)
        assert_as_stored(loaded)

    return edit


def deleted(transitions: Transitions, users: Sequence[User]) -> None:
    keys = [user.username_key for user in users]
    User.delete().where(User.username_key.in_(keys)).execute()
    transitions.record_deletions(dict.fromkeys(keys))


def bans_ended(transitions: Transitions, users: Sequence[User]) -> None:
    transitions.end_bans(users)
    assert_as_stored(users)


def names_taken(transitions: Transitions, users: Sequence[User]) -> None:
    transitions.reject_name_conflicts(users)
    assert_as_stored(users)


def assert_as_stored(users: Sequence[User]) -> None:
    """The objects in memory have the values of the database, except those that it computes."""
    for user in users:
        stored = User.get_by_id(user.id).__data__
        computed = {name: stored[name] for name in stored if name in GENERATED | {"changed_at"}}
        assert {**user.__data__, **computed} == stored


CASES: dict[str, tuple[str, Operation]] = {
    "approve": (PENDING, edited(status=APPROVED)),
    "approve the rejected": (REJECTED, edited(status=APPROVED)),
    "reject": (PENDING, edited(status=REJECTED)),
    "ban": (APPROVED, edited(status=BANNED)),
    "ban the pending": (PENDING, edited(status=BANNED)),
    "unban": (BANNED, edited(status=APPROVED)),
    "no transition": (APPROVED, edited(status=PENDING)),
    "a ban ends": (BANNED, bans_ended),
    "the name is taken": (PENDING, names_taken),
    "delete": (BANNED, deleted),
}


@pytest.mark.parametrize("on_ban", ["kick", "ban"])
@pytest.mark.parametrize("case", CASES)
def test_many_at_once_are_as_each_alone(
    our_database: Database, make_user: MakeUser, clock: ManualClock, case: str, on_ban: OnBan
) -> None:
    status, operation = CASES[case]
    make_users(make_user, clock, status)
    transitions = make_transitions(clock, on_ban)
    with our_database.atomic() as transaction:
        operation(transitions, list(User.select().order_by(User.id)))
        at_once = everything_written()
        transaction.rollback()
    with our_database.atomic() as transaction:
        for user in list(User.select().order_by(User.id)):
            operation(transitions, [user])
        assert everything_written() == at_once
        transaction.rollback()
    assert len(at_once["audit"]) == len(NAMES)


def everything_written() -> dict[str, list[Any]]:
    """Return all rows without what differs each time; a mail refers to its review by the review's content."""
    reviews = {row["id"]: without(row, "id") for row in rows_of(Review)}
    outbox = [without(row, "id") for row in rows_of(OutboxEntry)]
    for row in outbox:
        row["row_id"] = reviews.get(row["row_id"])
        row["payload"] = row["payload"] and without(json.loads(row["payload"]), "delivery")
    written = {
        "users": [without(row, "changed_at") for row in rows_of(User)],
        "reviews": list(reviews.values()),
        "audit": [without(row, "id") for row in rows_of(AuditEntry)],
        "outbox": outbox,
    }
    return {table: sorted(rows, key=str) for table, rows in written.items()}


def without(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


def test_edits_of_all_kinds_in_one_list(our_database: Database, make_user: MakeUser, clock: ManualClock) -> None:
    """Alice is banned, Bob unbanned, Carol approved, Dave's edit stands for no transition, and Eve has none."""
    statuses = (("Alice", APPROVED, BANNED), ("Bob", BANNED, APPROVED), ("Carol", PENDING, APPROVED))
    for name, before, after in (*statuses, ("Dave", APPROVED, PENDING), ("Eve", APPROVED, APPROVED)):
        make_user(name, status=before)
        User.update(status=after).where(named(name)).execute()
    users = list(User.select().order_by(User.id))
    make_transitions(clock).apply_sql_edits(users)
    assert_as_stored(users)
    assert [user.status for user in users] == [BANNED, APPROVED, APPROVED, APPROVED, APPROVED]
    recorded = {(entry.action, entry.target) for entry in AuditEntry.select()}
    assert recorded == {
        ("user.banned", "Alice"),
        ("user.unbanned", "Bob"),
        ("user.approved", "Carol"),
        ("sync.edit_refused", "Dave"),
    }


def test_a_decision_meanwhile_refuses_the_whole_list(
    our_database: Database, make_user: MakeUser, clock: ManualClock
) -> None:
    for name in ("Alice", "Bob"):
        make_user(name, status=BANNED)
    users = list(User.select())
    User.update(status=APPROVED, applied_status=APPROVED).where(named("Bob")).execute()
    transitions = make_transitions(clock)
    with pytest.raises(WrongStatus) as refused, our_database.atomic():
        transitions.end_bans(users)
    assert refused.value.facts["status"] == APPROVED
    assert [user.status for user in users] == [BANNED, BANNED]
    assert User.select().where(User.status == BANNED).count() == 1
    User.delete().where(named("Bob")).execute()
    with pytest.raises(UserNotFound), our_database.atomic():
        transitions.end_bans(users)
    assert Review.select().count() == 0


def test_the_user_returned_is_as_stored(our_database: Database, make_user: MakeUser, clock: ManualClock) -> None:
    """Olivia approves Bob, approves him again, bans him until an odd time, makes it permanent, and lifts the ban."""
    transitions, bob = make_transitions(clock), make_user("Bob")
    until = LATER.replace(microsecond=123_999)
    transitions.change(bob, "approve", OLIVIA, DecisionDetails())
    assert_as_stored([bob])
    transitions.approve_again(bob, OLIVIA, DecisionDetails())
    assert_as_stored([bob])
    transitions.change(bob, "ban", OLIVIA, DecisionDetails("griefing", until))
    assert_as_stored([bob])
    assert bob.ban_expires_at == until.replace(microsecond=123_000)
    transitions.change_ban(bob, OLIVIA, DecisionDetails())
    assert_as_stored([bob])
    assert (bob.reason, bob.ban_expires_at, bob.banned_from) == ("griefing", None, APPROVED)
    transitions.change(bob, "unban", OLIVIA, DecisionDetails())
    assert_as_stored([bob])
    transitions.delete(bob, OLIVIA, DecisionDetails())
    assert [row["transition"] for row in rows_of(Review)] == ["approve", "approve", "ban", "ban", "unban", "delete"]


# --- The number of statements ---


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_one_ban_takes_four_statements(our_database: Database, make_user: MakeUser, clock: ManualClock) -> None:
    """The user, the review, the audit record and the mail."""
    bob = make_user("Bob", status=APPROVED)
    transitions, details = make_transitions(clock), DecisionDetails("griefing")
    assert count_statements(our_database, lambda: transitions.change(bob, "ban", OLIVIA, details)) == 4
    assert OutboxEntry.select().count() == 1


@pytest.mark.parametrize("database_kind", ["mariadb"])
@pytest.mark.parametrize(("on_ban", "statements"), [(None, 6), ("kick", 9), ("ban", 8)])
def test_many_bans_take_few_statements(
    our_database: Database, make_user: MakeUser, clock: ManualClock, on_ban: OnBan | None, statements: int
) -> None:
    """Five hundred, each with a reason and an end of its own."""
    with our_database.atomic():
        for number in range(500):
            make_user(f"Player{number}", status=APPROVED)
    User.update(status=BANNED, reason=User.username, ban_expires_at=LATER).execute()
    users = list(User.select())
    transitions = make_transitions(clock, on_ban)
    assert count_statements(our_database, lambda: transitions.apply_sql_edits(users)) == statements
    assert Review.select().where(Review.reason == Review.username).count() == 500
    assert OutboxEntry.select().count() == (500 if on_ban is None else 1500)


def count_statements(database: Database, action: Callable[[], object]) -> int:
    """Return the number of statements that the action executes on this connection."""
    counts = []
    for step in (lambda: None, action):
        step()
        [(_, count)] = database.execute_sql("SHOW SESSION STATUS LIKE 'Questions'").fetchall()
        counts.append(int(count))
    return counts[1] - counts[0] - 1
