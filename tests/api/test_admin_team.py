"""GET /api/admin/team: who is in the team."""

from tests.api.test_admin_user_role import with_role
from tests.support.stack import OPERATOR, Stack


def test_the_team_is_operators_then_roles(stack: Stack) -> None:
    rita, _token = with_role(stack, "reviewer")
    reply = stack.get("/api/admin/team", token=stack.olivia()).json
    members = {member["username"]: member for member in reply["members"]}
    assert members[OPERATOR] == {"username": OPERATOR, "role": "operator", "level": 4, "isActive": True}
    assert members[rita.name] == {"username": rita.name, "role": "reviewer", "level": 0, "isActive": True}
    assert reply["members"][0]["role"] == "operator"
