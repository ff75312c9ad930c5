"""Alice's dates were typed in SQL and are none: whatever lists, shows, exports or cleans up goes on, and names her.

On SQLite a text of hers is not even UTF-8.
"""

import pytest

from tests.support.command_line import Finished, companion_here
from tests.support.our_tables import our_database
from tests.support.stack import Person, Stack
from tests.support.typed_dates import BAD_DATES, type_date

pytestmark = pytest.mark.every_database

DATES = ("created_at", "password_set_at", "reviewed_at", "ban_expires_at", "last_login_at")


@pytest.fixture(scope="module")
def alice(stack: Stack) -> Person:
    """An approved user who logged in once, after others did."""
    alice = stack.approved("alice")
    assert stack.login(alice).status == 200
    stack.sync()
    return alice


@pytest.fixture(params=["dotted", "blob"])
def typed(request: pytest.FixtureRequest, stack: Stack, alice: Person) -> Person:
    for column in DATES:
        type_date(our_database(stack), column, BAD_DATES[request.param], alice.name)
    if stack.kind == "sqlite":  # in a shell that writes Latin-1; a server refuses it
        our_database(stack).execute("UPDATE regsvc_user SET reason = CAST(X'67726574E4' AS TEXT)")
    stack.sync()
    return alice


def run(stack: Stack, *arguments: str) -> Finished:
    return companion_here(*arguments, config=stack.daemon.config_file)


def test_every_admin_sees_every_user(stack: Stack, typed: Person) -> None:
    token = stack.olivia()
    for path in (
        "/api/admin/users?size=100",
        f"/api/admin/users?search={typed.name}",
        f"/api/admin/user?username={typed.name}",
        "/api/admin/users?status=pending",
        "/api/admin/audits",
        "/api/admin/mails",
        "/health/ready",
    ):
        reply = stack.get(path, token=token)
        assert reply.status == 200, (path, reply.text)


def test_she_and_others_do_what_they_do(stack: Stack, typed: Person) -> None:
    bob = stack.approved("bob")
    assert stack.login(bob).status == 200
    assert stack.get("/api/user/export", token=stack.user_token(typed)).status == 200
    assert stack.post("/api/admin/sync", {"plan": True}, token=stack.olivia()).status == 200
    for decision in ("ban", "unban"):
        reply = stack.post(f"/api/admin/user/{decision}", {"username": typed.name}, token=stack.olivia())
        assert reply.status == 200, reply.text


def test_the_command_line_goes_on_and_names_her(stack: Stack, typed: Person) -> None:
    for arguments in (("users", "list"), ("export",), ("export", "--format", "json", "--what", "all")):
        finished = run(stack, *arguments)
        assert finished.status == 0, finished.errors
        assert typed.name in finished.output
    shown = run(stack, "users", "show", typed.name)
    assert (shown.status, '"unreadable_dates"' in shown.output) == (0, True), shown
    assert run(stack, "purge", "--dry-run").status == 0
    assert run(stack, "digest").status == 0
    planned = run(stack, "sync", "--plan")
    assert "ban_expires_at is '" in planned.output
