"""GET /api/admin/server: what is set on the running server, for those who may read it."""

from tests.api.test_admin_user_role import with_role
from tests.support.refusals import assert_refused
from tests.support.stack import Stack


def test_nothing_is_set_at_first(stack: Stack) -> None:
    reply = stack.get("/api/admin/server", token=stack.olivia()).json
    assert (reply["isOpen"], reply["mayOpen"], reply["opensAt"], reply["announcements"]) == (True, True, None, {})
    assert (reply["registrationChanged"], reply["announcementChanged"]) == (None, None)


def test_reviewers_do_not_see_it(stack: Stack) -> None:
    _rita, token = with_role(stack, "reviewer")
    assert_refused(stack.get("/api/admin/server", token=token), 403, "forbidden")
