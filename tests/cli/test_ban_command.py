"""`companion users ban`: of users, of the banned, and of operators."""

import json
from collections.abc import Callable

import pytest

from regsvc.cli.command_line import parse
from tests.support.authme.authme_like import AuthMeLike
from tests.support.authme.authme_tables import find_player
from tests.support.authme.game_server import GameServer
from tests.support.command_line import Finished

Run = Callable[..., Finished]


def ban_end(run: Run) -> str | None:
    end: str | None = json.loads(run("users", "show", "Bob").output)["ban_expires_at"]
    return end


def test_the_end_of_a_ban_is_changed_by_another_one(run: Run, authme: AuthMeLike) -> None:
    authme.register("Bob", "bobs-password")
    run("migrate")
    assert run("users", "ban", "Bob", "--for", "3 days").output == "Bob: banned\n"
    until = str(ban_end(run))
    assert run("users", "ban", "Bob", "--for", "30 days").output == "Bob: banned, with another reason or end\n"
    assert until < str(ban_end(run))
    assert run("users", "ban", "Bob", "--reason", "spam").status == 0
    assert ban_end(run) is not None, "another reason changes no end"
    assert run("users", "ban", "Bob", "--for", "permanent").status == 0
    assert ban_end(run) is None
    assert run("users", "ban", "Bob").status == 1, "there is nothing to change"


def test_a_reason_is_kept_as_one_can_read_it(run: Run, authme: AuthMeLike, capsys: pytest.CaptureFixture[str]) -> None:
    """The last byte is none of a terminal in UTF-8."""
    authme.register("Bob", "bobs-password")
    run("migrate")
    assert run("users", "ban", "Bob", "--reason", "one\r\ntwo\x1b[31m\udcff ").status == 0
    assert json.loads(run("users", "show", "Bob").output)["reason"] == "one\ntwo[31m\N{REPLACEMENT CHARACTER}"
    with pytest.raises(SystemExit):
        parse(["users", "ban", "Bob", "--reason", "x" * 4001])
    assert "it has more than 4,000 characters; shorten it" in capsys.readouterr().err


def test_a_ban_of_an_operator_is_no_accident(run: Run, authme: AuthMeLike, game_server: GameServer) -> None:
    game_server.write_operators("Olivia", "Bob", levels={"Bob": 2})
    authme.register("Bob", "bobs-password")
    run("migrate")
    told = run("users", "ban", "Bob")
    assert (told.status, told.output) == (0, "Bob: banned\n")
    assert "warning: Bob is an operator of the game (level 2)\n" in told.errors
    assert "operator" not in run("users", "unban", "Bob").errors


def test_spaces_around_a_name_are_not_part_of_it(run: Run, authme: AuthMeLike) -> None:
    authme.register("Bob", "bobs-password")
    run("migrate")
    assert run("users", "ban", "Bob ").output == "Bob: banned\n"
    assert not authme.login("Bob", "bobs-password")
    assert run("users", "delete", " bob").output == "Bob: deleted\n"
    assert find_player(authme.table, "bob") is None
