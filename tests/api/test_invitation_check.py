"""POST /api/invitation/check: what an invitation grants, or why it cannot be used."""

from tests.api.test_admin_invitation import invite
from tests.support.our_tables import our_database
from tests.support.refusals import assert_refused
from tests.support.stack import Stack


def test_revoked_expired_and_foreign_ones_each_say_so(stack: Stack) -> None:
    alice, olivia = stack.newcomer("alice"), stack.olivia()
    revoked, revoked_token = invite(stack)
    assert stack.post("/api/admin/invitation/revoke", {"id": revoked}, token=olivia).status == 200
    again = stack.post("/api/admin/invitation/revoke", {"id": revoked}, token=olivia)
    assert_refused(again, 404, "no_such_invitation", field="id")
    expired, expired_token = invite(stack)
    our_database(stack).execute("UPDATE regsvc_invitation SET expires_at = created_at WHERE id = ?", (expired,))
    _id, good = invite(stack)

    for token, status, code in [
        (revoked_token, 409, "invitation_revoked"),
        (expired_token, 409, "invitation_expired"),
        (f"{good}x", 422, "invalid_invitation"),
        ("nonsense", 422, "invalid_invitation"),
    ]:
        assert_refused(stack.post("/api/invitation/check", {"invitation": token}), status, code, field="invitation")
        assert_refused(stack.register(alice, invitation=token), status, code, field="invitation")
    body = {"grants": ["everything"]}
    assert_refused(stack.post("/api/admin/invitation", body, token=olivia), 422, "invalid_field", field="grants")
    assert stack.register(alice, invitation=good).json["status"] == "pending", "it grants nothing but says who"
