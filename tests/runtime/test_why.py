"""The rules of "why can't I join?": causes that `companion why` meets rarely."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from plugin_bridge.authme.players import PlayerRow
from plugin_bridge.server.allowlist import Entry
from plugin_bridge.server.status_ping import ListedPlayer, ServerStatus
from regsvc.core.clock import epoch_ms
from regsvc.core.i18n import load_translations
from regsvc.runtime.game_status import LastStatus
from regsvc.runtime.join_facts import JoinFacts, ListFacts, find_answer, find_steps, word
from regsvc.sync.records import Account, Policy, SyncValues, UserRecord
from regsvc.users.gates import NO_PROFILE, NO_UUID, REFUSED, RESTART

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=30)
HASH, OTHERS = "$SHA$salt$hash", Entry("5627dd98-e6be-3c21-b8a8-e92344183641", "Bob")
ALICE = UserRecord(7, "Alice", "alice", None, None, False, "approved", "approved", LONG_AGO, None, None)
ROW = PlayerRow("alice", "Alice", HASH, regdate=1_700_000_000_000)
RECORD = SyncValues(
    "alice", 7, "present", HASH, base_realname="Alice", base_regdate=ROW.regdate, plugin_state="synced",
    plugin_since=LONG_AGO,
)  # fmt: skip
POLICY = Policy("approve", "pending", "respect", "lock", "game", LONG_AGO, frozenset({"SHA256"}), is_bridge_on=True)
ACCOUNT = Account("alice", ALICE, RECORD, ROW, is_operator=False, now=NOW)
OPEN = ListFacts("off", is_used=False, entries=())
UP = LastStatus(ServerStatus(3, 20, (), "Paper", "", 0.1), NOW)
WELCOME = JoinFacts("Alice", ACCOUNT, POLICY, OPEN, UP)
NO_AUTHME = replace(POLICY, is_bridge_on=False)


def test_nothing_keeps_alice_out() -> None:
    steps = find_steps(WELCOME)
    assert find_answer(steps) is None
    assert {step.verdict for step in steps} == {"ok"}
    assert [step.code for step in steps] == ["registered", "email_not_proven", "approved", "row", "server_up"]


@pytest.mark.parametrize(
    ("changes", "code", "helper"),
    [
        ({"lacks_chat": "discord"}, "chat", "player"),
        ({"server": replace(UP, status=ServerStatus(20, 20, (), "Paper", "", 0.1))}, "server_full", "nobody"),
        ({"server": LastStatus(None, NOW)}, "server_off", "host"),
        ({"policy": NO_AUTHME, "listed": ListFacts("off")}, "no_gate", "host"),
        ({"listed": ListFacts("off", is_used=True, entries=())}, "list_not_kept", "host"),
        ({"listed": ListFacts("waiting", "restart")}, "list_restart", "host"),
        ({"listed": ListFacts("waiting", REFUSED)}, "list_refused", "host"),
        ({"listed": ListFacts("waiting", NO_PROFILE)}, "list_no_profile", "player"),
        ({"listed": ListFacts("waiting", NO_UUID, is_on_bedrock=True)}, "list_no_uuid_bedrock", "operator"),
        ({"account": replace(ACCOUNT, user=replace(ALICE, status="rejected"))}, "rejected", "player"),
        ({"listed": ListFacts("waiting"), "stands_still": True}, "sync_stopped", "host"),
        ({"listed": ListFacts("listed", uuid=OTHERS.uuid, entries=(OTHERS,), joined_uuid="x")}, "list_uuid", "nobody"),
        ({"account": replace(ACCOUNT, player=replace(ROW, group=3, lock_group=3))}, "row_group", "host"),
        (
            {"account": replace(ACCOUNT, user=replace(ALICE, applied_status="pending")), "is_held_back": True},
            "edit_held_back",
            "operator",
        ),
        (
            {
                "account": replace(ACCOUNT, player=None, sync_record=replace(RECORD, presence="absent")),
                "policy": replace(POLICY, may_provision=False),
            },
            "forum_table",
            "host",
        ),
    ],
)
def test_what_keeps_alice_out_and_who_can_help(changes: dict[str, Any], code: str, helper: str) -> None:
    answer = find_answer(find_steps(replace(WELCOME, **changes)))
    assert answer is not None
    assert (answer.code, answer.helper) == (code, helper)
    text = word(answer, load_translations(), "en")
    assert "{" not in text
    assert "None" not in text
    assert text.endswith(".")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"server": LastStatus()}, "server_unknown"),
        ({"server": LastStatus(None, NOW, is_hidden=True)}, "server_unknown"),
        ({"listed": ListFacts("listed")}, "list_unread"),
        ({"account": replace(ACCOUNT, player=None, is_player_known=False)}, "authme_away"),
    ],
)
def test_what_cannot_be_seen_is_not_guessed(changes: dict[str, Any], code: str) -> None:
    steps = find_steps(replace(WELCOME, **changes))
    assert find_answer(steps) is None
    assert [step.code for step in steps if step.verdict == "unknown"] == [code]


def test_what_surely_keeps_alice_out_comes_first() -> None:
    """Then what passes by itself, and last what only may keep her out; she typed another case than she registered."""
    row_comes = replace(ACCOUNT, player=None, sync_record=replace(RECORD, plugin_since=NOW, intent="provision"))
    unnamed = replace(WELCOME, name="alice", is_cached=True, listed=ListFacts("removed"), account=row_comes)
    for server, told in (
        (LastStatus(None, NOW), ["list_removed", "row_waiting", "server_off", "spelling", "cached"]),
        (FULL.server, ["list_removed", "row_waiting", "spelling", "cached", "server_full"]),
    ):
        steps = find_steps(replace(unnamed, server=server))
        assert [step.code for step in steps if step.verdict == "problem"] == told


# --- What AuthMe's row or the game's list of players refutes ---

APPROVED_AT = NOW - timedelta(minutes=2)
CACHED = replace(
    WELCOME, is_cached=True, account=replace(ACCOUNT, sync_record=replace(RECORD, plugin_since=APPROVED_AT))
)
RESTART_NEEDED = replace(WELCOME, listed=ListFacts("waiting", RESTART, entries=(), since=APPROVED_AT))
FULL = replace(WELCOME, server=replace(UP, status=ServerStatus(20, 20, (), "Paper", "", 0.1)))
every_refuted = pytest.mark.parametrize(("facts", "code"), [(CACHED, "cached"), (RESTART_NEEDED, "list_restart")])


def logged_in(facts: JoinFacts, at: datetime, *, is_online: bool = True) -> JoinFacts:
    player = replace(ROW, is_logged=int(is_online), last_login=epoch_ms(at))
    return replace(facts, account=replace(facts.account, player=player))


@every_refuted
@pytest.mark.parametrize("is_online", [True, False], ids=["in the game", "has left"])
def test_who_was_let_in_since_then_is_not_kept_out(facts: JoinFacts, code: str, is_online: bool) -> None:
    after = logged_in(facts, APPROVED_AT + timedelta(seconds=30), is_online=is_online)
    assert find_answer(find_steps(after)) is None


@every_refuted
def test_an_earlier_login_proves_nothing(facts: JoinFacts, code: str) -> None:
    """AuthMe leaves the mark of who is online where the game crashes."""
    for earlier in (facts, logged_in(facts, APPROVED_AT - timedelta(seconds=30))):
        answer = find_answer(find_steps(earlier))
        assert answer is not None
        assert answer.code == code


@every_refuted
def test_a_login_on_one_server_proves_nothing_about_the_others(facts: JoinFacts, code: str) -> None:
    answer = find_answer(find_steps(replace(logged_in(facts, NOW), is_shared=True)))
    assert answer is not None
    assert answer.code == code


def test_a_full_server_keeps_nobody_out_who_is_on_it() -> None:
    listed = tuple(ListedPlayer(name, "") for name in ("Bob", "Alice"))
    status = replace(UP, status=ServerStatus(20, 20, listed, "Paper", "", 0.1))
    assert find_answer(find_steps(replace(FULL, server=status))) is None
    answer = find_answer(find_steps(FULL))
    assert answer is not None
    assert answer.code == "server_full"


def test_without_authme_and_with_an_unused_list_everybody_gets_in() -> None:
    steps = find_steps(replace(WELCOME, policy=NO_AUTHME))
    assert "open" in [step.code for step in steps]
    assert find_answer(steps) is None
