"""`companion users approve`: of a player who registered anew in the game."""

from collections.abc import Callable

from tests.support.authme.authme_like import AuthMeLike
from tests.support.command_line import Finished

Run = Callable[..., Finished]


def test_an_approval_says_which_password_counts(run: Run, authme: AuthMeLike) -> None:
    run("migrate")
    run("users", "create", "Alice", "--password-stdin", typed="forgotten-1\n")
    authme.unregister_from_console("Alice")
    authme.register("Alice", "in-the-game")
    refused = run("users", "approve", "Alice")
    assert (refused.status, refused.output) == (1, "")
    assert "--password keep, --password take or --password link" in refused.errors
    assert "registered this name again in the game" in refused.errors
    assert run("users", "approve", "Alice", "--password", "link").status == 1, "there is no address to mail it to"
    assert run("users", "approve", "Alice", "--password", "take") == Finished(0, "Alice: approved\n", "")
    assert authme.login("Alice", "in-the-game")
    assert not authme.login("Alice", "forgotten-1")
