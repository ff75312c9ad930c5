"""POST /api/admin/team-chat/unlink: a chat account that acts for nobody any more."""

from tests.support.our_tables import ago, our_database
from tests.support.stack import Person, Stack

UNLINK = "/api/admin/team-chat/unlink"


def link(stack: Stack, person: Person, account: str) -> None:
    ours = our_database(stack)
    [row] = ours.query("SELECT id FROM regsvc_user WHERE username = ?", (person.name,))
    ours.execute(
        "INSERT INTO regsvc_team_chat_link (user_id, platform, account, name, created_at, linked_at)"
        " VALUES (?, 'discord', ?, 'rita', ?, ?)",
        (row["id"], f"discord:{account}", ago(seconds=0), ago(seconds=0)),
    )


def test_members_end_their_own_link_and_operators_any(stack: Stack) -> None:
    rita, rob = stack.approved("rita"), stack.approved("rob")
    for person, account in ((rita, "61"), (rob, "62")):
        stack.decides("role", person, role="reviewer")
        link(stack, person, account)
    body, ritas = {"username": rob.name, "platform": "discord"}, stack.admin_token(rita.name, rita.password)
    assert stack.post(UNLINK, body, token=ritas).json["permission"] == "team.manage"
    assert stack.post(UNLINK, {**body, "username": rita.name}, token=ritas).status == 200
    assert stack.post(UNLINK, body, token=stack.olivia()).status == 200
    assert stack.post(UNLINK, body, token=stack.olivia()).code == "user_not_found"
    [audit] = stack.audits(rob, "team_chat.unlinked")
    assert audit["operator"] == "Olivia"
    assert stack.get("/api/admin/team-chat", token=stack.olivia()).json["accounts"] == []
