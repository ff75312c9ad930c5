"""The main job, told once from end to end: Alice registers, Olivia reviews, Alice plays."""

from plugin_bridge.hashers import HASHERS, HashedPassword
from tests.support.authme_tables import find_player
from tests.support.stack import Village, find_link_token


def test_alice_registers_is_reviewed_and_plays(village: Village) -> None:
    alice = village.newcomer("alice")
    reply = village.register(alice)
    assert (reply.status, reply.json["status"]) == (201, "pending")
    assert village.status(alice) == "pending"
    assert find_player(village.table, alice.key) is None

    village.decides("approve", alice)
    row = village.authme.get(alice.name)
    assert row["username"] == alice.key
    assert row["realname"] == alice.name
    assert row["email"] == alice.email
    assert row["regip"] == "127.0.0.1"
    assert (row["ip"], row["lastlogin"]) == (None, None)
    assert row["regdate"] > 1_700_000_000_000
    assert HASHERS["SHA256"].verify(alice.password, HashedPassword(row["password"]), alice.name)
    assert village.smtp.wait_for(alice.email, 2).subject.startswith("Welcome")
    assert village.authme.login(alice.name, alice.password)

    token = village.user_token(alice)
    village.decides("ban", alice, reason="griefing")
    assert village.authme.get(alice.name)["password"].startswith("!locked!")
    assert not village.authme.login(alice.name, alice.password)
    assert village.post("/api/logout", {}, token=token).status == 401
    refused = village.login(alice)
    assert (refused.status, refused.json["reason"]) == (403, "griefing")

    village.decides("unban", alice)
    assert village.authme.login(alice.name, alice.password)

    token = village.user_token(alice)
    assert village.authme.change_password(alice.name, alice.password, "changed-in-game")
    assert village.sync()["updated"] == 1
    assert village.post("/api/logout", {}, token=token).status == 401
    assert village.login(alice).status == 401
    assert village.login(alice, "changed-in-game").status == 200

    village.decides("delete", alice)
    assert village.status(alice) is None
    assert find_player(village.table, alice.key) is None
    assert village.sync()["adopted"] == 0


def test_bob_gives_only_the_four_documented_fields(village: Village) -> None:
    bob = village.newcomer("bob")
    assert village.register(bob, password=None).status == 201
    village.decides("approve", bob)
    assert find_player(village.table, bob.key) is None
    token = find_link_token(village.smtp.wait_for(bob.email, 2).text)

    reply = village.post("/api/password/reset", {"token": token, "newPassword": bob.password})
    assert reply.status == 200, reply.text
    assert village.authme.login(bob.name, bob.password)
    assert village.login(bob).status == 200
    again = village.post("/api/password/reset", {"token": token, "newPassword": bob.password})
    assert (again.status, again.code) == (422, "invalid_token")
