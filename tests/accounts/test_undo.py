"""Undo: what Mallory decided is taken back, and what others decided stays."""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regsvc.accounts.decisions import require_nothing
from regsvc.accounts.undo import UndoFields
from regsvc.auth.entitlement import Principal
from regsvc.core.errors import ActorUnknown, ProtectedOperator, SinceInFuture, UndoOfOneself, UntilBeforeSince
from regsvc.core.rights import EVERYTHING, Permission, Team
from regsvc.database.audit import Actor
from regsvc.database.models import (
    APPROVED,
    BANNED,
    PENDING,
    REJECTED,
    STATUSES,
    AuditEntry,
    Invitation,
    OutboxEntry,
    Token,
    User,
)
from regsvc.users.history import HistoryEntry, find_first, list_standing, stand, undo
from regsvc.users.membership import Term
from regsvc.users.transitions import TRANSITIONS, DecisionDetails
from tests.support.authme.authme_like import AuthMeLike
from tests.support.authme.authme_tables import AuthMeTable
from tests.support.authme.player_rows import insert_player_rows, make_player_rows
from tests.support.manual_clock import ManualClock
from tests.support.services import OLIVIA, PASSWORD, MakeServices, ServiceHarness, authme_away

HOST = Principal(Actor("cli:root"), EVERYTHING)


def of_level(name: str, level: int) -> Principal:
    rights = Team(lambda _name: level).rights_of(User(username=name, status="approved"))
    return Principal(Actor(name), rights, name)


MALLORY = of_level("Mallory", 4)
LEGAL = [(name, it.sources, it.target) for name, it in TRANSITIONS.items() if it.target is not None]


def decide(services: ServiceHarness, by: Principal, transition: str, name: str, **details: Any) -> None:
    services.clock.advance(seconds=1)
    decide = services.app.decisions.decide
    services.app.worker.run_here(decide, name, transition, by, DecisionDetails(**details))


def take_back(
    services: ServiceHarness,
    of: str = "Mallory",
    *,
    by: Principal = HOST,
    plans: bool = False,
    since: timedelta = timedelta(hours=1),
) -> dict[str, UndoFields]:
    undo, run = services.app.undo, services.app.worker.run_here
    span = run(undo.find_span, of, services.clock() - since, None, by)
    names = run(undo.find_names, span)
    planned = run(undo.plan, span, names, by)
    if not plans:
        done, _has_followed = run(undo.run, span, names, by)
        assert done == planned, "a plan and its run say the same"
        run(undo.finish, span, done, by)
    return {outcome.username: outcome for outcome in planned}


def columns_of(user: User) -> dict[str, Any]:
    unlike = ("token_generation", "changed_at", "is_edited")
    return {name: value for name, value in user.__data__.items() if name not in unlike}


def test_what_mallory_decided_is_taken_back(services: ServiceHarness) -> None:
    for name in ("Alice", "Bob", "Carol", "Dave", "Erin"):
        services.register(name)
    decide(services, OLIVIA, "approve", "Bob", reason="welcome")
    decide(services, OLIVIA, "ban", "Carol", reason="griefing", expires_at=services.clock() + timedelta(days=9))
    decide(services, OLIVIA, "reject", "Dave", reason="too short", may_reapply=True)
    before = {name: columns_of(services.user(name)) for name in ("Alice", "Bob", "Carol", "Dave", "Erin")}
    decide(services, MALLORY, "approve", "Alice")
    decide(services, MALLORY, "ban", "Bob", reason="because")
    decide(services, MALLORY, "ban", "Carol", reason="forever")  # another end and reason of a ban
    decide(services, MALLORY, "approve", "Dave")
    decide(services, MALLORY, "reject", "Erin")
    decide(services, MALLORY, "approve", "Erin")

    outcomes = take_back(services)

    assert {name: (it.status_before, it.status) for name, it in outcomes.items()} == {
        "Alice": (APPROVED, PENDING),
        "Bob": (BANNED, APPROVED),
        "Carol": (BANNED, BANNED),
        "Dave": (APPROVED, REJECTED),
        "Erin": (APPROVED, PENDING),
    }
    assert {name: columns_of(services.user(name)) for name in before} == before
    [whole] = AuditEntry.select().where(AuditEntry.action == "undo.run")
    assert (whole.operator, '"users":5' in str(whole.detail)) == ("cli:root", True)
    undone = AuditEntry.select().where(AuditEntry.action == "user.undone")
    assert sorted(str(entry.target) for entry in undone) == ["Alice", "Bob", "Carol", "Dave", "Erin"]
    assert take_back(services) == {}, "what is undone already is nothing"


def test_what_others_decided_since_is_listed_and_left(services: ServiceHarness) -> None:
    for name in ("Alice", "Bob", "Carol"):
        services.register(name)
    decide(services, MALLORY, "approve", "Alice")
    decide(services, OLIVIA, "ban", "Alice", reason="griefing")
    decide(services, MALLORY, "reject", "Bob")
    decide(services, OLIVIA, "approve", "Bob")
    decide(services, MALLORY, "ban", "Bob")
    decide(services, MALLORY, "delete", "Carol")

    outcomes = take_back(services)

    assert outcomes["Alice"] == UndoFields("Alice", kept="touched", kept_by="Olivia")
    assert services.user("Alice").status == BANNED
    bob = outcomes["Bob"]  # the ban is undone; the rejection, on which Olivia built, stays
    assert (bob.status_before, bob.status, bob.kept, bob.kept_by) == (BANNED, APPROVED, "touched", "Olivia")
    assert outcomes["Carol"] == UndoFields("Carol", kept="deleted", kept_by="Mallory")


def test_a_role_that_went_with_a_ban_comes_back(services: ServiceHarness) -> None:
    for name in ("Rita", "Eve"):
        services.approved(name)
    give = services.app.team_roles.give
    give("Rita", "moderator", OLIVIA)
    services.clock.advance(seconds=1)
    give("Eve", "reviewer", MALLORY)
    decide(services, MALLORY, "ban", "Rita")
    assert services.user("Rita").role is None

    outcomes = take_back(services)

    rita, eve = outcomes["Rita"], outcomes["Eve"]
    assert (rita.status, rita.role_before, rita.role) == (APPROVED, None, "moderator")
    assert (eve.status, eve.role_before, eve.role) == (APPROVED, "reviewer", None)
    assert (services.user("Rita").role, services.user("Rita").applied_role) == ("moderator", "moderator")
    assert services.user("Eve").role is None
    assert services.app.team_roles.note_typed() == 0


def test_a_password_that_was_set_is_followed_by_a_link(services: ServiceHarness) -> None:
    for name in ("Alice", "Bob", "Carol"):
        services.approved(name)
    User.update(email=None, email_key=None).where(User.username == "Carol").execute()
    set_password = services.app.password_changes.set_here
    services.clock.advance(seconds=1)
    for name in ("Alice", "Bob", "Carol"):
        set_password(name, "what-mallory-knows", MALLORY.actor)
    services.clock.advance(seconds=1)
    services.set_password("Bob", "what-only-bob-knows")
    generations = {name: services.user(name).token_generation for name in ("Alice", "Bob")}

    outcomes = take_back(services)

    assert {name: it.link for name, it in outcomes.items()} == {"Alice": "mailed", "Bob": None, "Carol": "needed"}
    mails = OutboxEntry.select().where(OutboxEntry.template == "password_link")
    assert [mail.recipient for mail in mails] == ["alice@example.org"]
    assert services.user("Alice").token_generation == generations["Alice"] + 1, "who knows the password is logged out"
    assert services.user("Bob").token_generation == generations["Bob"]
    assert take_back(services) == {}, "one link is enough"


def test_what_mallory_made_ends_and_what_stays_is_counted(services: ServiceHarness) -> None:
    for name in ("Alice", "Bob"):
        services.register(name)
    app, run, month = services.app, services.app.worker.run_here, timedelta(days=30)
    run(app.invitations.create, 5, month, (), OLIVIA.actor, None)
    run(app.invitations.create, 5, month, (), MALLORY.actor, None)
    run(app.api_tokens.create, "bot", [Permission.USERS_READ], MALLORY.actor, None, None)
    run(app.notes.add, "Alice", "a friend", MALLORY.actor, "Mallory")
    run(app.decisions.ask, "Bob", "Which Bob?", MALLORY)
    services.clock.advance(seconds=1)

    span = run(app.undo.find_span, "Mallory", services.clock() - timedelta(hours=1), None, HOST)
    remainder = run(app.undo.find_remainder, span)

    assert remainder.ended == {"invitations": 1, "tokens": 1}
    assert remainder.stays == {"user.note_added": 1, "user.asked": 1}
    run(app.undo.finish, span, [], HOST)
    assert [it.maker for it in Invitation.select().where(Invitation.revoked_at.is_null())] == [OLIVIA.actor.name]
    assert [it.name for it in Token.select().where(Token.revoked_at.is_null())] == []
    [whole] = services.details("undo.run")
    assert (whole["invitations"], whole["tokens"], whole["links"]) == (1, 1, 0)
    assert run(app.undo.find_remainder, span).ended == {}


@pytest.mark.every_database
def test_who_came_in_by_mallorys_invitations_is_named(services: ServiceHarness) -> None:
    for name in ("Alice", "Bob", "Carol", "Dave", "Erin"):
        services.approved(name)
        services.clock.advance(minutes=1)
    User.update(invited_by="Mallory").where(User.username != "Dave").execute()
    User.update(created_at=services.clock() - timedelta(days=9)).where(User.username == "Erin").execute()
    services.decide("ban", "Carol")
    app, run = services.app, services.app.worker.run_here
    run(app.notes.add, "Dave", "a friend", MALLORY.actor, "Mallory")
    services.clock.advance(seconds=1)
    span = run(app.undo.find_span, "Mallory", services.clock() - timedelta(hours=1), None, HOST)
    remainder = run(app.undo.find_remainder, span)
    assert (remainder.invited, remainder.invited_count) == (["Alice", "Bob"], 2)


def test_waiting_mails_are_dropped_and_sent_ones_followed(services: ServiceHarness) -> None:
    for name in ("Alice", "Bob", "Carol"):
        services.register(name)
    for name in ("Alice", "Bob", "Carol"):
        decide(services, MALLORY, "approve", name)
    OutboxEntry.update(outcome="sent", done_at=services.clock(), next_attempt_at=None).where(
        OutboxEntry.template == "approved", OutboxEntry.recipient == "bob@example.org"
    ).execute()
    OutboxEntry.update(attempts=1).where(  # it may be on its way
        OutboxEntry.template == "approved", OutboxEntry.recipient == "carol@example.org"
    ).execute()

    take_back(services)

    mails = {mail.recipient: mail for mail in OutboxEntry.select().where(OutboxEntry.template == "approved")}
    assert {name: mail.outcome for name, mail in mails.items()} == {
        "alice@example.org": "dropped",
        "bob@example.org": "sent",
        "carol@example.org": "dropped",
    }
    assert mails["alice@example.org"].next_attempt_at is None
    told = list(OutboxEntry.select().where(OutboxEntry.template == "decision_undone"))
    assert sorted(mail.recipient for mail in told) == ["bob@example.org", "carol@example.org"]
    text = services.app.mail_renderer.render(told[0]).message.get_body(("plain",))
    assert text is not None
    assert "Your application waits for review." in text.get_content()


def test_a_ban_that_would_be_over_is_over(services: ServiceHarness) -> None:
    services.approved("Bob")
    decide(services, OLIVIA, "reopen", "Bob")
    decide(services, OLIVIA, "ban", "Bob", expires_at=services.clock() + timedelta(minutes=10))
    decide(services, MALLORY, "unban", "Bob")
    services.clock.advance(minutes=20)

    [bob] = take_back(services).values()

    assert (bob.status_before, bob.status) == (APPROVED, PENDING), "as the end of Olivia's ban would have left him"
    assert services.user("Bob").reason == "ban_ended"


def test_an_undo_can_be_undone(services: ServiceHarness) -> None:
    services.register("Alice")
    decide(services, MALLORY, "approve", "Alice", reason="a friend")
    approved = columns_of(services.user("Alice"))
    services.clock.advance(seconds=1)
    take_back(services, by=OLIVIA)
    assert services.user("Alice").status == PENDING
    services.clock.advance(seconds=1)

    [again] = take_back(services, "Olivia").values()

    assert (again.status_before, again.status) == (PENDING, APPROVED)
    assert columns_of(services.user("Alice")) == approved


def test_a_person_is_undone_in_chats_too_and_a_token_by_itself(services: ServiceHarness) -> None:
    services.app.api_tokens.create("Mallory", [Permission.USERS_REVIEW], Actor("Olivia"), None, None)
    in_chat, with_token = (replace(MALLORY, actor=Actor(f"Mallory ({it})")) for it in ("Telegram", "Olivia"))
    for name, by in (("Alice", in_chat), ("Bob", with_token), ("Carol", replace(MALLORY, actor=Actor("MalloryX (Z)")))):
        services.register(name)
        decide(services, by, "approve", name)

    assert take_back(services, "Mallory").keys() == {"Alice"}
    assert take_back(services, "token:Mallory", by=OLIVIA).keys() == {"Bob"}
    assert services.user("Carol").status == APPROVED


def test_sql_and_deletions_are_left(services: ServiceHarness) -> None:
    for name in ("Alice", "Bob", "Carol"):
        services.register(name)
        decide(services, MALLORY, "approve", name)
    User.delete().where(User.username == "Bob").execute()
    services.sync()
    User.update(status=BANNED).where(User.username == "Alice").execute()  # the sync has not seen it yet
    User.update(status=REJECTED, applied_status=REJECTED).where(User.username == "Carol").execute()

    outcomes = take_back(services)

    assert (outcomes["Alice"].kept, outcomes["Alice"].kept_by) == ("touched", "sql")
    assert outcomes["Bob"].kept == "deleted"
    assert (outcomes["Carol"].kept, outcomes["Carol"].kept_by) == ("touched", "sql")


def test_whose_name_was_registered_anew_is_left(services: ServiceHarness) -> None:
    services.register("Alice")
    decide(services, MALLORY, "reject", "Alice", may_reapply=True)
    services.clock.advance(seconds=1)
    services.register("Alice", email="another@example.org")

    [alice] = take_back(services).values()

    assert alice == UndoFields("Alice", kept="registered_anew")
    assert services.user("Alice").status == PENDING


@pytest.mark.parametrize(
    ("of", "since", "until", "refusal"),
    [
        ("cli:root", -1, None, UndoOfOneself),
        ("CLI:Root", -1, None, UndoOfOneself),
        ("Nobody", -1, None, ActorUnknown),
        ("token:nothing", -1, None, ActorUnknown),
        ("", -1, None, ActorUnknown),
        ("Olivia", 1, None, SinceInFuture),
        ("Olivia", -1, -1, UntilBeforeSince),
        ("Olivia", -1, -2, UntilBeforeSince),
    ],
)
def test_what_cannot_be_meant_is_refused(
    services: ServiceHarness, of: str, since: int, until: int | None, refusal: type[Exception]
) -> None:
    now = services.clock()
    end = None if until is None else now + timedelta(hours=until)
    with pytest.raises(refusal):
        services.app.undo.find_span(of, now + timedelta(hours=since), end, HOST)


def test_an_operator_is_below_the_host(services: ServiceHarness) -> None:
    services.register("Alice")
    decide(services, OLIVIA, "reject", "Alice")
    decide(services, HOST, "approve", "Alice")
    services.app.audit.record("sync.run", Actor("sync"))
    since = services.clock() - timedelta(hours=1)
    for above in ("cli:root", "sync"):
        with pytest.raises(ProtectedOperator):
            services.app.undo.find_span(above, since, None, MALLORY)
    assert services.app.undo.find_span("Olivia", since, None, MALLORY), "equals may"


def test_the_game_follows_once_authmes_table_is_back(services: ServiceHarness, authme: AuthMeLike) -> None:
    authme.register("Bob", "bobs-password")
    services.sync()
    decide(services, MALLORY, "ban", "Bob")
    undoing, run = services.app.undo, services.app.worker.run_here
    span = run(undoing.find_span, "Mallory", services.clock() - timedelta(minutes=1), None, HOST)

    with authme_away(services):
        [bob], has_followed = run(undoing.run, span, ["bob"], HOST)
    assert (bob.status, has_followed) == (APPROVED, False)
    assert services.is_locked("bob")
    assert run(undoing.run, span, ["bob"], HOST) == ([], True)

    assert not services.is_locked("bob")
    assert authme.login("Bob", "bobs-password")


class _Killed(Exception):
    pass


def test_locks_are_not_held_back_and_an_interrupted_undo_goes_on(
    make_services: MakeServices, authme_table: AuthMeTable, clock: ManualClock
) -> None:
    """A hundred approvals are far more than the sync locks by itself (`sync.max_changes`)."""
    insert_player_rows(authme_table, make_player_rows(120, clock))
    services = make_services(sync__max_changes="5 and 1%", sync__existing_players="pending")
    services.sync(allow_mass_changes=True)
    names = sorted(user.username_key for user in User.select())
    services.clock.advance(hours=2)
    for name in names:
        decide(services, MALLORY, "approve", name)
    undoing, run = services.app.undo, services.app.worker.run_here
    span = run(undoing.find_span, "Mallory", services.clock() - timedelta(hours=1), None, HOST)
    found = run(undoing.find_names, span)
    assert sorted(found) == names

    def die(_names: Sequence[str]) -> None:
        raise _Killed

    run(undoing.run, span, found[:40], HOST)
    with pytest.MonkeyPatch.context() as patch:  # after the commit, before AuthMe's rows follow
        patch.setattr(undoing.reconciler, "reconcile_names", die)
        with pytest.raises(_Killed):
            run(undoing.run, span, found[40:80], HOST)
    assert User.select().where(User.status == PENDING).count() == 80, "whole users are done"

    rest = [it for page in undoing.pages(found) for it in run(undoing.run, span, page, HOST)[0]]

    assert len(rest) == 40
    assert all(services.is_locked(name) for name in names)
    assert services.sync().held_back is None


# --- Memberships: what a decision gave or took of one ---


def set_membership(services: ServiceHarness, by: Principal, name: str, term: Term) -> None:
    services.clock.advance(seconds=1)
    services.app.worker.run_here(services.app.membership_changes.set, name, term, by)


WITH_ROLES: Final[Mapping[str, object]] = {
    "chat__platform": "discord",
    "chat__client_id": "1",
    "chat__client_secret": "secret",
    "chat__guild_id": "5",
    "chat__bot_token": "token-of-the-bot",
    "membership__role_ids": ["7"],
}


def test_memberships_are_as_before(make_services: MakeServices) -> None:
    services = make_services(membership__ends="30 days", **WITH_ROLES)
    names = ("Alice", "Bob", "Carol", "Dave", "Erin", "Frank")
    for name in names:
        services.approved(name)
    lose_role(services, ["Carol", "Dave"])
    before = {name: columns_of(services.user(name)) for name in names}
    assert (before["Carol"]["ended_because"], services.is_locked("carol")) == ("role", True)
    services.clock.advance(days=2)
    set_membership(services, MALLORY, "Alice", Term())
    set_membership(services, MALLORY, "Alice", Term(duration=timedelta(days=1)))
    decide(services, MALLORY, "reopen", "Bob")
    decide(services, MALLORY, "approve", "Bob", member_until=None)
    set_membership(services, MALLORY, "Carol", Term())
    decide(services, MALLORY, "ban", "Dave")
    set_membership(services, MALLORY, "Erin", Term())
    set_membership(services, OLIVIA, "Erin", Term(duration=timedelta(days=90)))
    decide(services, MALLORY, "reopen", "Frank")
    decide(services, MALLORY, "approve", "Frank", member_until=None)
    lose_role(services, ["Frank"])
    for name in ("Alice", "Carol"):
        OutboxEntry.update(outcome="sent", next_attempt_at=None).where(
            OutboxEntry.template == "membership_renewed", OutboxEntry.recipient == f"{name.lower()}@example.org"
        ).execute()
    services.clock.advance(days=2)
    services.sync()
    timed_out = services.user("Alice").member_until
    assert services.user("Alice").ended_because == "date"

    outcomes = take_back(services, since=timedelta(days=9))

    month = before["Alice"]["member_until"]
    assert (outcomes["Alice"].until_before, outcomes["Alice"].until) == (timed_out, month)
    assert outcomes["Erin"] == UndoFields("Erin", kept="touched", kept_by="Olivia")
    for name in ("Alice", "Bob", "Carol", "Dave"):
        assert columns_of(services.user(name)) == before[name], name
    frank = services.user("Frank")
    assert (frank.member_until, frank.ended_because) == (month, "role"), "nobody decided that Frank's membership ended"
    services.sync()
    locked = [name for name in names if services.is_locked(name.lower())]
    assert locked == ["Carol", "Dave", "Frank"]
    assert services.mails("Alice")[-1] == "membership_renewed"
    assert services.mails("Carol")[-1] == "membership_ended"


CHAT: Final = {"platform": "discord", "token": "t", "public_key": "0" * 64, "channel": "1"}


def test_the_chat_is_told_again_who_asks_to_stay_once_the_answer_is_undone(make_services: MakeServices) -> None:
    """A request that was declined stays so, which is told."""
    services = make_services(
        membership__ends="3 days",
        membership__renew="ask",
        team_chat=[CHAT],
        server__base_url="https://play.example.org",
    )
    changes, run = services.app.membership_changes, services.app.worker.run_here
    for name in ("Alice", "Bob"):
        services.approved(name)
        run(changes.ask_to_stay, name, "")
    services.clock.advance(seconds=1)
    run(changes.decline, "Alice", MALLORY)
    run(changes.let_stay, services.user("Bob"), MALLORY, require_nothing)
    span = run(services.app.undo.find_span, "Mallory", services.clock() - timedelta(hours=1), None, HOST)
    assert run(services.app.undo.find_remainder, span).stays == {"membership.declined": 1}
    take_back(services)
    assert [services.user(name).asks_to_stay for name in ("Alice", "Bob")] == [False, True]
    told = OutboxEntry.select().where(OutboxEntry.template.startswith("stay")).order_by(OutboxEntry.id)
    assert [(it.template, json.loads(it.payload or "{}").get("username")) for it in told] == [
        ("stay_asked", "Alice"),
        ("stay_asked", "Bob"),
        ("stay_decided", "Alice"),
        ("stay_decided", "Bob"),
        ("stay_asked", "Bob"),
    ]


def lose_role(services: ServiceHarness, names: Sequence[str]) -> None:
    """Let these memberships lapse, as those do whose users have lost their role."""
    lapsed: Any = User.update(lapses_at=services.clock(), lapse="role", changed_at=User.changed_at)
    lapsed.where(User.username.in_(names)).execute()
    services.sync(allow_mass_changes=True)


BOB, EVE, ZOE = (Principal(Actor(name), EVERYTHING) for name in ("Bob", "Eve", "Zoe"))
Act = Callable[[Principal, str], object]


def choose_act(services: ServiceHarness, name: str, rng: random.Random) -> Act:
    """Return something that can be decided about this user now."""
    user, app, run = services.user(name), services.app, services.app.worker.run_here
    acts = [transition for transition, sources, target in LEGAL if user.status in sources]
    acts += ["membership"] * 3 if user.status == APPROVED else ["approve"]
    act = rng.choice([it for it in acts if TRANSITIONS.get(it) is None or user.status in TRANSITIONS[it].sources])
    until = rng.choice((None, services.clock() + timedelta(days=rng.randrange(1, 4))))
    if act == "membership":
        return lambda by, name: run(app.membership_changes.set, name, Term(until=until), by)
    details = DecisionDetails(member_until=until) if act == "approve" and rng.random() < 0.6 else DecisionDetails()
    return lambda by, name: run(app.decisions.decide, name, act, by, details)


@pytest.mark.every_database
def test_random_histories_are_as_if_eve_had_never_been(make_services: MakeServices) -> None:
    """Each user has a twin about whom nothing is decided after Bob's last decision; what ends by itself, does."""
    services, rng = make_services(membership__ends="3 days", **WITH_ROLES), random.Random(51)
    pairs = [(f"First{number}", f"Twin{number}", rng.randrange(-1, 4)) for number in range(16)]
    for name in (name for first, twin, _last in pairs for name in (first, twin)):
        services.register(name)
    for step in range(7):
        for first, twin, last in pairs:
            by = BOB if step == last or (step < last and rng.random() < 0.5) else EVE
            act = choose_act(services, first, rng)
            for name in (first, twin) if step <= last else (first,):
                act(by, name)
            services.clock.advance(seconds=1)
        current = {user.username for user in User.select().where(User.status == APPROVED, User.ended_because.is_null())}
        losing = [pair[:2] for pair in pairs if {*pair[:2]} <= current and rng.random() < 0.3]
        lose_role(services, [name for pair in losing for name in pair])
        services.clock.advance(days=rng.choice((0, 1, 2, 3)))
        services.sync(allow_mass_changes=True)
    firsts = [first for first, _twin, _last in pairs]
    decided = {name: membership_of(services, name) for name in firsts}
    assert {detail["because"] for detail in services.details("membership.ended")} == {"date", "role"}

    def undo_all(of: str, by: Principal) -> dict[str, dict[str, Any]]:
        services.clock.advance(minutes=1)
        take_back(services, of, by=by, since=timedelta(days=99) if of == "Eve" else timedelta(hours=1))
        return {name: membership_of(services, name) for name in firsts}

    undone = undo_all("Eve", ZOE)
    for first, twin, _last in pairs:
        expected, found = membership_of(services, twin), dict(undone[first])
        for columns in (expected, found):
            until, because = columns["member_until"], columns["ended_because"]
            if because in (None, "date") and until is not None and until <= services.clock():
                columns |= {"ended_because": "date", "ended_at": None}  # sooner, later, or by the next run
        assert found == expected, first
    assert sum(undone[name] != decided[name] for name in firsts) >= 8
    assert undo_all("Eve", HOST) == undone
    assert undo_all("Zoe", HOST) == decided, "an undo that is undone"
    assert undo_all("Eve", BOB) == undone, "and once more"
    services.sync(allow_mass_changes=True)
    for first, twin, _last in pairs:
        assert services.authme.login(first, PASSWORD) == services.authme.login(twin, PASSWORD)


def membership_of(services: ServiceHarness, name: str) -> dict[str, Any]:
    columns = ("status", "banned_from", "member_until", "applied_until", "renewed_at", "ended_because", "ended_at")
    return {column: getattr(services.user(name), column) for column in columns}


# --- The rule, for random histories of two actors ---

START = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
Move = tuple[str, int, str]


def play(moves: Sequence[Move], status: str = PENDING) -> list[HistoryEntry]:
    """Return the history of these moves of actors: each chooses among what is possible then."""
    history, role = list[HistoryEntry](), None
    for number, (by, choice, reason) in enumerate(moves):
        at = START + timedelta(seconds=number)
        possible: list[Any] = [(name, target) for name, sources, target in LEGAL if status in sources]
        possible += [("ban", BANNED)] if status == BANNED else []
        possible += [("role", it) for it in ("reviewer", "moderator", None) if it != role and status == APPROVED]
        name, target = possible[choice % len(possible)]
        if name == "role":
            history.append(HistoryEntry(f"a{number}", "role", by, at, before=role, after=target))
            role = target
            continue
        entry = HistoryEntry(f"r{number}", "status", by, at, before=status, after=target, reason=reason)
        end = at + timedelta(days=choice) if name == "ban" and choice % 2 else None
        may_reapply = name == "reject" and choice % 3 == 0
        history.append(replace(entry, ban_expires_at=end, may_reapply=may_reapply, role_before=role))
        status, role = target, role if target == APPROVED else None
    return history


MOVES = st.lists(
    st.tuples(st.sampled_from(["Mallory", "Bob"]), st.integers(0, 30), st.sampled_from(["", "because", "no"])),
    max_size=12,
)


@given(MOVES, st.sampled_from(STATUSES))
@settings(deadline=None)
def test_undoing_one_leaves_what_the_other_alone_would_have_done(moves: list[Move], status: str) -> None:
    history = play(moves, status)
    targets = {entry.id for entry in history if entry.by == "Mallory"}
    first = find_first(history, status, None)

    undoing = undo(history, targets, first)

    own = [entry for entry in history if entry.by == "Bob"]
    last = max((history.index(entry) for entry in own), default=-1)
    is_built_on = any(entry.id in targets for entry in history[: max(last, 0)])
    assert (undoing.kept_by == "Bob") == is_built_on
    assert [entry.id for entry in undoing.undone] == [it.id for it in reversed(history[last + 1 :])]
    assert undoing.standing == stand(first, history[: last + 1]), "as after Bob's last decision"
    if not is_built_on:
        assert undoing.standing == stand(first, own), "as Bob alone would have left it"


@given(MOVES, st.sampled_from(STATUSES))
@settings(deadline=None)
def test_what_was_undone_is_as_if_it_had_never_been(moves: list[Move], status: str) -> None:
    history = play(moves, status)
    targets = {entry.id for entry in history if entry.by == "Mallory"}
    first = find_first(history, status, None)
    undoing = undo(history, targets, first)
    ids = frozenset(entry.id for entry in undoing.undone)
    at = START + timedelta(hours=1)
    left = HistoryEntry("r99", "status", "Olivia", at, before=PENDING, after=undoing.standing.status)
    done = [*history, left, HistoryEntry("a99", "undo", "Olivia", at, undoes=ids, review="r99")]

    again = undo(done, targets, first)

    assert again.undone == ()
    assert again.standing == stand(first, done) == undoing.standing
    assert [it for it in list_standing(done) if it.kind != "undo"] == [
        entry for entry in history if entry.id not in ids
    ]
    assert undo(done, {"a99"}, first).standing == stand(first, history), "an undo that is undone revives what it undid"
