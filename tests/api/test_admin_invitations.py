"""GET /api/admin/invitations, and `companion users invite --list`."""

from tests.support.command_line import companion
from tests.support.refusals import assert_refused
from tests.support.stack import Stack


def test_the_host_invites_lists_and_revokes(stack: Stack) -> None:
    config = stack.daemon.config_file
    made = companion("users", "invite", "--uses", "2", "--for", "3 days", "--without", "review", config=config)
    token = made.output.strip().partition("#invite=")[2]
    alice = stack.newcomer("alice")
    assert stack.register(alice, invitation=token).json["status"] == "approved"
    row_id = token.partition(".")[0]
    listed = companion("users", "invite", "--list", config=config).output
    assert any(line.startswith(row_id) and "used 1 of 2; no_review" in line for line in listed.splitlines())
    assert "revoked" in companion("users", "invite", "--revoke", row_id, config=config).output
    refused = stack.register(stack.newcomer("bob"), invitation=token)
    assert_refused(refused, 409, "invitation_revoked", field="invitation")
