"""POST /api/user/made/end: all that a member of the team made ends, but the session that asks."""

from tests.api.test_admin_token_create import is_revoked, make_token
from tests.support.operators import Operators
from tests.support.refusals import assert_refused
from tests.support.stack import Stack

PATH = "/api/user/made/end"


def test_a_bot_and_the_other_sessions_end_and_the_log_says_so(stack: Stack, operators: Operators) -> None:
    oscar = operators.new("oscar")
    session, other = (stack.admin_token(oscar.name, oscar.password) for _ in range(2))
    bot = make_token(stack, "bot-of-oscars", "users.read", by=session)
    wrong = stack.post(PATH, {"currentPassword": "a-guess"}, token=session)
    assert_refused(wrong, 422, "wrong_password", field="currentPassword")
    assert not is_revoked(stack, "bot-of-oscars")
    assert stack.post(PATH, {"currentPassword": oscar.password}, token=session).status == 200
    statuses = [stack.get("/api/admin/users", token=token).status for token in (session, other, bot)]
    assert statuses == [200, 401, 401]
    [entry] = stack.audits(oscar, "user.rights_ended")
    assert (entry["operator"], entry["detail"]["cause"], entry["detail"]["tokens"]) == (
        oscar.name,
        "by_its_maker",
        "bot-of-oscars",
    )
