"""A plan says what the run does to each name, whatever happened before."""

import json
from contextlib import suppress
from functools import partialmethod
from inspect import isabstract
from random import Random
from typing import Any

import pytest
from msgspec import to_builtins

from plugin_bridge.server.player_uuids import offline_uuid
from regsvc.allowlist.run import COUNTS
from regsvc.core.clock import epoch_ms
from regsvc.core.errors import Refusal
from regsvc.database.models import Allowed, AuditEntry, OutboxEntry, SyncRecord, User
from regsvc.sync.actions import SyncAction
from regsvc.sync.pages import ReconcileResult
from regsvc.sync.report import Changes, SyncReport
from regsvc.sync.run import SyncRun, SyncRunner
from tests.support.authme.authme_tables import dump_table, find_player, insert_player
from tests.support.authme.game_server import GameServer
from tests.support.ports import free_port
from tests.support.services import MakeServices, ServiceHarness, authme_away

pytestmark = pytest.mark.every_database

PLAYERS, ROUNDS = 40, 12
OLD, NEW = 1_500_000_000_000, 1_950_000_000_000
GONE = "DELETE FROM authme WHERE username = '{key}'"
CHANGED = "UPDATE authme SET password = 'changed-{number}' WHERE username = '{key}'"
CHANGED_BACK = "UPDATE authme SET password = 'the-first' WHERE username = '{key}'"
ANEW = "UPDATE authme SET password = 'another-{number}', regdate = {new} + {number} WHERE username = '{key}'"
SESSION = "UPDATE authme SET hasSession = 1 WHERE username = '{key}'"
SHARED_EMAIL = "UPDATE authme SET email = 'shared{digit}@example.org' WHERE username = '{key}'"
BANNED = "UPDATE regsvc_user SET status = 'banned' WHERE username_key = '{key}'"
OVER = "UPDATE regsvc_user SET ban_expires_at = '2001-01-01 00:00:00' WHERE username_key = '{key}'"
RENAMED = "UPDATE regsvc_user SET username = 'x{key}', username_key = 'x{key}' WHERE username_key = '{key}'"
UNASKED = "UPDATE regsvc_sync_record SET presence = 'unasked' WHERE username_key = '{key}'"
STATE = "UPDATE regsvc_sync_record SET plugin_state = 'absent' WHERE username_key = '{key}'"
END = "UPDATE regsvc_user SET ended_because = 'role' WHERE username_key = '{key}' AND status = 'approved'"
GO_ON = "UPDATE regsvc_user SET ended_because = NULL WHERE username_key = '{key}'"
UNTIL = "UPDATE regsvc_user SET member_until = '2001-01-01', applied_until = '2001-01-01' WHERE username_key = '{key}'"
LAPSED = "UPDATE regsvc_user SET lapses_at = '2001-01-01', lapse = 'idle' WHERE username_key = '{key}'"
ROLE = "UPDATE regsvc_user SET role = 'reviewer', applied_role = 'reviewer' WHERE username_key = '{key}'"
DELETED = "DELETE FROM regsvc_user WHERE username_key = '{key}'"
EVENTS = [
    [END],
    [GO_ON],
    [UNTIL],
    [UNTIL, CHANGED],
    [LAPSED],
    [GONE],
    [CHANGED],
    [CHANGED_BACK],
    [ANEW],
    [SESSION],
    [SHARED_EMAIL],
    [SHARED_EMAIL, CHANGED],
    ["UPDATE authme SET realname = upper(realname) WHERE username = '{key}'"],
    ["UPDATE authme SET realname = 'Somebody' WHERE username = '{key}'"],
    [BANNED],
    [BANNED, OVER],
    ["UPDATE regsvc_user SET status = 'approved' WHERE username_key = '{key}'"],
    ["UPDATE regsvc_user SET status = 'pending' WHERE username_key = '{key}'"],
    ["UPDATE regsvc_user SET username = upper(username) WHERE username_key = '{key}'"],
    [RENAMED],
    [DELETED],
    [UNASKED],
    [STATE],
    ["ban"],
    ["ban", OVER],
    ["unban"],
    ["approve"],
    ["reject"],
    ["delete"],
    ["password"],
    ["join"],
    ["list"],
    ["unlist"],
]
"""What happens to players: statements on either side, decisions while AuthMe's table is away, the game's allowlist."""
STORIES = [
    [["register", "approve"], [UNTIL], [SESSION], [GO_ON]],
    [["register", "approve"], [UNTIL, ROLE], [END]],
    [["register", "approve"], [DELETED]],
    [["register", "approve"], [LAPSED], [END], ["ban"], ["unban"], [GO_ON, GONE]],
    [["join"], [CHANGED], [CHANGED_BACK]],
    [["join"], ["ban"], [SESSION], ["unban"]],
    [["join"], [BANNED, OVER], [RENAMED]],
    [["join"], [STATE]],
    [["register", "approve"], [ANEW], ["ban"]],
    [["join"], [SHARED_EMAIL], [SHARED_EMAIL, CHANGED, RENAMED, BANNED]],
    [["join now"], [GONE]],
    [["join now"], [SHARED_EMAIL, "approve"], [GONE], ["join"]],
    [["register", "approve"], [SHARED_EMAIL], ["delete"]],
    [["register", "approve"], [ANEW], ["keep"], [SESSION]],
    [["register", "approve"], [ANEW], ["take"]],
    [["register", "approve", "join"], [BANNED, OVER, "password"]],
    [["register", "join", UNASKED], ["approve"], ["ban"], ["unban"]],
    [["register"], ["list"], ["unlist"], ["approve"]],
    [["list"], ["unlist"], ["list", BANNED]],
]
"""What happens to somebody new, one part after the other."""


def kinds_of(base: type[SyncAction]) -> set[type[SyncAction]]:
    """Return the concrete kinds of action."""
    found = {kind for kind in base.__subclasses__() if not isabstract(kind)}
    return found.union(*map(kinds_of, base.__subclasses__()))


def as_told(report: SyncReport) -> dict[str, Any]:
    """Return everything that a report says."""
    listed = report.listed
    if listed is not None and not listed.counts and not listed.held_back:
        listed = None  # a run that is not due has none
    return {
        "counts": report.counts(),
        "changes": names(report.changes),
        "held back": report.held_back,
        "conflicts": sorted(to_builtins(report.conflicts), key=str),
        "errors": sorted(to_builtins(report.errors), key=str),
        "list": None if listed is None else {kind: sorted(listed.names[kind]) for kind in listed.counts},
        "held back of the list": None if listed is None else listed.held_back,
    }


def names(changes: dict[str, Changes]) -> dict[str, list[str]]:
    """Return the names by kind of change."""
    assert all(each.count == len(each.names) == len(set(each.names)) for each in changes.values())
    return {kind: sorted(each.names) for kind, each in changes.items()}


def everything(services: ServiceHarness) -> list[Any]:
    """Return everything that a run may write."""
    ours = [list(table.select().order_by(table._meta.primary_key).dicts()) for table in (User, SyncRecord, AuditEntry)]
    path = services.game.directory / "whitelist.json"
    noted = list(Allowed.select().order_by(Allowed.username_key).dicts())
    return [*ours, noted, OutboxEntry.select().count(), dump_table(services.table), path.exists() and path.read_text()]


def let_happen(services: ServiceHarness, random: Random, number: int, key: str, events: list[str]) -> None:
    has_list, has_authme = services.app.gates.keeps_list(), services.app.reconciler.is_enabled
    for event in events:
        if event.endswith("list"):
            if has_list:
                change_list(services, key, is_added=event == "list")
        elif not has_authme and ("authme" in event or event.startswith("join")):
            continue
        elif event.startswith("join"):
            join(services, random, key, OLD if event == "join" else epoch_ms(services.clock()))
        elif " " in event:
            database = services.ours if "regsvc" in event else services.table.database
            statement = event.replace("authme ", f"{services.table.name} ")
            database.execute(statement.format(key=key, number=number, new=NEW, digit=random.randrange(9)))
        elif event == "register":
            services.register(key)
        else:
            with authme_away(services), suppress(Refusal):
                decide(services, event, key)


def change_list(services: ServiceHarness, key: str, *, is_added: bool) -> None:
    """Change the file as the game server does."""
    path = services.game.directory / "whitelist.json"
    entries = json.loads(path.read_text()) if path.exists() else []
    others = [entry for entry in entries if entry["name"].lower() != key]
    new = [{"uuid": offline_uuid(key), "name": key}] if is_added else []
    path.write_text(json.dumps(others + new))


def decide(services: ServiceHarness, decision: str, key: str) -> None:
    if decision == "password":
        services.set_password(key, "set-on-the-web")
    elif decision in ("keep", "take"):
        services.decide("approve", key, password_choice=decision)
    else:
        services.decide(decision, key)


def join(services: ServiceHarness, random: Random, key: str, regdate: int) -> None:
    """Let a player register in the game, who may have an e-mail address, and one nobody else's."""
    email = random.choice(["your@email.com", f"{key}@example.org", f"shared{random.randrange(9)}@example.org"])
    if find_player(services.table, key) is None:
        row = {"username": key, "realname": key, "password": "the-first", "regdate": regdate, "email": email}
        insert_player(services.table, **row)


def disturb(services: ServiceHarness, random: Random, number: int, told: dict[str, list[list[str]]]) -> None:
    """Let things happen to some players, and one of them to a crowd now and then; go on with the stories."""
    for count in [1] * random.randrange(9) + [20] * random.randrange(2):
        events = random.choice(EVENTS[:-8] if count > 1 else EVENTS)
        for index in random.sample(range(PLAYERS), count):
            let_happen(services, random, number, f"player{index:02}", events)
    for index, story in enumerate(STORIES[number % 3 :: 3]):
        told[f"new{number}x{index}"] = list(story)
    for key, parts in told.items():
        if parts:
            let_happen(services, random, number, key, parts.pop(0))
    services.clock.advance(minutes=11)


# R99
@pytest.mark.parametrize(("gates", "removed"), [("authme", "respect"), ("both", "restore"), ("allowlist", "respect")])
def test_a_plan_says_what_the_run_does(
    game_server: GameServer, make_services: MakeServices, monkeypatch: pytest.MonkeyPatch, gates: str, removed: str
) -> None:
    email = "settings.registration.email"
    expiry = {f"{email}.unregisterOnEmailVerificationFailure": True, f"{email}.unregisterAfterMinutes": 10}
    game_server.change_authme({"settings.registration.enabled": True, "settings.registration.type": "EMAIL", **expiry})
    game_server.write_properties(online_mode="false", white_list="true", server_port=str(free_port()))
    settings: dict[str, object] = {"sync__new_players": "pending", "sync__on_player_removed": removed}
    settings |= {"authme__enabled": gates != "allowlist", "allowlist__enabled": gates != "authme"}
    services = make_services(sync__max_changes="8 and 5%", **settings)
    monkeypatch.setattr(SyncRunner, "run", partialmethod(SyncRunner.run, max_names=1_000))
    kinds, listed, record = set[type[SyncAction]](), set[str](), SyncRun.record

    def recording(run: SyncRun, key: str, result: ReconcileResult) -> None:
        kinds.update(type(action) for action in result.applied if not run.is_plan)
        record(run, key, result)

    monkeypatch.setattr(SyncRun, "record", recording)
    random, stories = Random(gates), dict[str, list[list[str]]]()
    for index in range(PLAYERS if gates != "allowlist" else 0):
        join(services, random, f"player{index:02}", OLD)
    for number in range(ROUNDS):
        story = f"{gates}, round {number}"
        before = everything(services)
        planned = services.plan(max_names=1_000)
        allowed = services.app.sync.plan_alone(allow_mass_changes=True, is_full=False, max_names=1_000)
        assert everything(services) == before, story
        if planned.held_back is not None and random.randrange(4):
            planned = allowed
        done = services.sync(allow_mass_changes=planned is allowed)
        assert as_told(planned) == as_told(done), story
        listed |= done.listed.counts.keys() if done.listed is not None else set()
        disturb(services, random, number, stories)
    assert kinds == kinds_of(SyncAction) or gates == "allowlist"
    assert listed == {"authme": set(), "both": set(COUNTS) - {"adopted", "taken_off"}, "allowlist": set(COUNTS)}[gates]
