"""`companion sync` and `companion sync --plan`, and what hosts are told about disputed addresses."""

import json
from collections.abc import Callable
from typing import Any

from tests.support.authme.authme_like import AuthMeLike
from tests.support.authme.authme_tables import dump_table
from tests.support.command_line import Finished, companion
from tests.support.daemon import Daemon

Run = Callable[..., Finished]


def report_of(finished: Finished, status: int = 0) -> dict[str, Any]:
    assert finished.status == status, finished
    report: dict[str, Any] = json.loads(finished.output)
    return report


def test_a_plan_tells_and_a_sync_does(run: Run, authme: AuthMeLike) -> None:
    authme.register("Bob", "bobs-password")
    before = dump_table(authme.table)
    run("migrate")
    planned = report_of(run("sync", "--plan", "--json"))
    assert (planned["adopted"], planned["braked"], planned["names"]) == (1, None, {"adopted": ["bob"]})
    told = run("sync", "--plan")
    assert (told.status, "1 player gets a user here: bob\n" in told.output) == (0, True), told
    assert report_of(run("sync"))["adopted"] == 1
    assert report_of(run("sync"))["adopted"] == 0
    assert "Bob" in run("users", "list").output
    assert dump_table(authme.table) == before


def test_a_braked_sync_ends_with_1_until_it_is_allowed(run: Run, place: Daemon, authme: AuthMeLike) -> None:
    authme.register("Bob", "bobs-password")
    run("migrate")
    report_of(run("sync"))
    authme.unregister_from_console("Bob")
    assert report_of(run("sync"), 1)["braked"]["removed"] == 1
    told = run("sync", "--plan")
    assert told.status == 1
    for words in ("1 player whose row is gone stays away: bob\n", "If that is meant, run", "restore a newer one"):
        assert words in told.output
    assert report_of(run("sync", "--allow-mass-changes"))["removed"] == 1


def test_disputed_addresses_are_told_with_their_owners(run: Run, place: Daemon, authme: AuthMeLike) -> None:
    """Bob and Carol share a mailbox, and Dave's address is none."""
    for name, email in (("Bob", "home@example.org"), ("Carol", "home@example.org"), ("Dave", "dave at home")):
        authme.register(name, "a-password")
        authme.set_email(name, email)
    run("migrate")
    told = run("sync", "--plan").output
    assert "1 e-mail address differs (each side keeps its own, since the one in the game belongs to another" in told
    assert "): carol\n" in told
    assert "since the one in the game is no valid address): dave\n" in told
    logged = companion("sync", config=place.config_file)
    assert "3 players looked at, 3 adopted; 1 e-mail address differs (each side keeps its own" in logged.errors

    shown = json.loads(run("users", "show", "Carol").output)
    assert (shown["email"], shown["email_in_game"]) == ("home@example.org", "home@example.org")
    assert shown["email_in_game_is"] == "Bob's"
    assert json.loads(run("users", "show", "Dave").output)["email_in_game_is"] == "no valid address"
    assert "email_in_game" not in json.loads(run("users", "show", "Bob").output)

    listed = run("users", "list", "--plugin", "conflict")
    assert [line.split()[0] for line in listed.output.splitlines()] == ["Dave", "Carol"]
    found = run("doctor").output
    assert "2 players differ: carol (the address is Bob’s), dave" in found
    assert "companion users list --plugin conflict" in found
