"""The main use case from end to end: Alice registers, Olivia reviews, Alice plays."""

from plugin_bridge.hashers import HASHERS, HashedPassword
from tests.support.authme.authme_tables import find_player
from tests.support.stack import Stack, find_link_token


def test_alice_registers_is_reviewed_and_plays(stack: Stack) -> None:
    alice = stack.newcomer("alice")
    reply = stack.register(alice)
    assert (reply.status, reply.json["status"]) == (201, "pending")
    assert stack.status(alice) == "pending"
    assert find_player(stack.table, alice.key) is None

    stack.decides("approve", alice)
    row = stack.authme.get(alice.name)
    assert row["username"] == alice.key
    assert row["realname"] == alice.name
    assert row["email"] == alice.email
    assert row["regip"] == "127.0.0.1"
    assert (row["ip"], row["lastlogin"]) == (None, None)
    assert row["regdate"] > 1_700_000_000_000
    assert HASHERS["SHA256"].verify(alice.password, HashedPassword(row["password"]), alice.name)
    assert stack.smtp.wait_for(alice.email, 2).subject.startswith("Welcome")
    assert stack.authme.login(alice.name, alice.password)

    token = stack.user_token(alice)
    stack.decides("ban", alice, reason="griefing")
    assert stack.authme.get(alice.name)["password"].startswith("!locked!")
    assert not stack.authme.login(alice.name, alice.password)
    assert stack.post("/api/logout", {}, token=token).status == 401
    refused = stack.login(alice)
    assert (refused.status, refused.json["reason"]) == (403, "griefing")

    stack.decides("unban", alice)
    assert stack.authme.login(alice.name, alice.password)

    token = stack.user_token(alice)
    assert stack.authme.change_password(alice.name, alice.password, "changed-in-game")
    assert stack.sync()["updated"] == 1
    assert stack.post("/api/logout", {}, token=token).status == 401
    assert stack.login(alice).status == 401
    assert stack.login(alice, "changed-in-game").status == 200

    stack.decides("delete", alice)
    assert stack.status(alice) is None
    assert find_player(stack.table, alice.key) is None
    assert stack.sync()["adopted"] == 0


def test_bob_gives_only_the_four_documented_fields(stack: Stack) -> None:
    bob = stack.newcomer("bob")
    assert stack.register(bob, password=None).status == 201
    stack.decides("approve", bob)
    assert find_player(stack.table, bob.key) is None
    token = find_link_token(stack.smtp.wait_for(bob.email, 2).text)

    reply = stack.post("/api/password/reset", {"token": token, "newPassword": bob.password})
    assert reply.status == 200, reply.text
    assert stack.authme.login(bob.name, bob.password)
    assert stack.login(bob).status == 200
    again = stack.post("/api/password/reset", {"token": token, "newPassword": bob.password})
    assert (again.status, again.code) == (422, "invalid_token")
