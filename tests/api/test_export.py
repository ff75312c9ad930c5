"""GET /api/user/export: everything kept about the caller, without secrets and without other people."""

import json
import time
from typing import Any

from tests.support.our_tables import our_database
from tests.support.stack import Person, Stack

PATH = "/api/user/export"
HOME = {"X-Forwarded-For": "198.51.100.23"}
ALL_LISTS = ("reviews", "notes", "questions", "sessions", "clients", "gameAddresses", "mails", "audits")


def export(stack: Stack, token: str) -> dict[str, Any]:
    reply = stack.get(PATH, token=token)
    assert reply.status == 200, reply.text
    payload: dict[str, Any] = reply.json
    return payload


def log_in_from_home(stack: Stack, person: Person) -> str:
    body = {"username": person.name, "password": person.password}
    reply = stack.post("/api/login", body, headers=HOME)
    token: str = reply.json["token"]
    return token


# --- What is in it ---


def test_alice_takes_everything_away(stack: Stack) -> None:
    alice = stack.approved("alice", language="zh")
    payload = export(stack, log_in_from_home(stack, alice))
    assert payload.keys() == {
        "success",
        "message",
        "exportedAt",
        "user",
        *ALL_LISTS,
        "chat",
        "questionnaire",
        "player",
        "listed",
        "truncated",
    }
    assert abs(payload["exportedAt"] / 1000 - time.time()) < 60
    user = payload["user"]
    assert (user["username"], user["email"], user["isEmailVerified"]) == (alice.name, alice.email, True)
    assert (user["status"], user["language"], user["platform"], user["origin"]) == (
        "approved",
        "zh",
        "java",
        "registered",
    )
    assert user["registrationIp"] == "127.0.0.1"
    assert user["registeredAt"] <= user["passwordSetAt"] <= user["reviewedAt"] <= user["lastLoginAt"]
    assert (payload["chat"], payload["questionnaire"], payload["truncated"]) == (None, None, [])
    player = payload["player"]
    assert (player["presence"], player["plugin"], player["realname"]) == ("present", "synced", alice.name)
    assert (player["email"], player["lockReason"], player["conflicts"], player["wish"]) == (alice.email, None, [], None)
    assert abs(player["registeredAt"] / 1000 - time.time()) < 60


def test_the_end_of_a_membership_is_told(stack: Stack) -> None:
    alice = stack.approved("alice")
    end = round(time.time() * 1000) + 30 * 86_400_000
    stack.decides("membership", alice, until=end)
    user = export(stack, stack.user_token(alice))["user"]
    assert (user["memberUntil"], user["endedBecause"], user["endedAt"], user["stayAskedAt"]) == (end, None, None, None)


def test_decisions_sessions_and_clients(stack: Stack) -> None:
    alice = stack.pending("alice")
    stack.decides("approve", alice, reason="Welcome")
    stack.user_token(alice)
    payload = export(stack, log_in_from_home(stack, alice))
    [review] = payload["reviews"]
    assert (review["transition"], review["statusBefore"], review["statusAfter"]) == ("approve", "pending", "approved")
    assert review["reason"] == "Welcome"
    assert [(session["ip"], session["isCurrent"]) for session in payload["sessions"]] == [
        ("198.51.100.23", True),
        ("127.0.0.1", False),
    ]
    assert {client["client"] for client in payload["clients"]} == {"127.0.0.1", "198.51.100.23"}


def test_what_was_done_by_her_and_to_her(stack: Stack) -> None:
    alice = stack.approved("alice")
    stack.login(alice, "wrong-password")
    audits = export(stack, log_in_from_home(stack, alice))["audits"]
    payload = [(entry["action"], entry["by"], entry["ip"]) for entry in audits]
    assert payload == [
        ("user.logged_in", "you", "198.51.100.23"),
        ("user.login_failed", "nobody", None),
        ("user.approved", "operator", None),
        ("user.registered", "you", "127.0.0.1"),
    ]


def test_an_adopted_player_has_an_export_too(stack: Stack) -> None:
    """What was mailed to an address that the player never proved is not in it."""
    bob = stack.newcomer("bob")
    stack.code_for(bob.email)  # somebody else began to register with it
    stack.authme.register(bob.name, bob.password, email=bob.email)
    payload = export(stack, stack.user_token(bob))
    assert (payload["user"]["origin"], payload["user"]["isEmailVerified"]) == ("adopted", False)
    assert payload["player"]["lockReason"] == "pending"
    assert "user.adopted" in {entry["action"] for entry in payload["audits"]}
    assert payload["mails"] == []


def test_the_linked_chat_account(stack: Stack) -> None:
    alice = stack.approved("alice")
    [row] = our_database(stack).query("SELECT id FROM regsvc_user WHERE username = ?", (alice.name,))
    our_database(stack).execute(
        "INSERT INTO regsvc_chat_link"
        " (user_id, claimed_account, platform, account_id, username, discriminator, global_name, token_hash, linked_at)"
        " VALUES (?, ?, 'discord', ?, 'alice', '0', 'Alice A.', ?, '2031-05-04 12:00:00.000')",
        (row["id"], f"discord:{row['id']}", str(row["id"]), str(row["id"]).zfill(64)),
    )
    assert export(stack, stack.user_token(alice))["chat"] == {
        "platform": "discord",
        "id": str(row["id"]),
        "username": "alice",
        "discriminator": "0",
        "avatar": None,
        "globalName": "Alice A.",
    }


# --- What is not ---


def test_no_secret_is_in_it(stack: Stack) -> None:
    alice = stack.approved("alice")
    token = stack.user_token(alice)
    text = json.dumps(export(stack, token))
    [row] = our_database(stack).query(
        "SELECT u.password_hash, p.base_hash, s.jti FROM regsvc_user u"
        " JOIN regsvc_sync_record p ON p.user_id = u.id JOIN regsvc_session s ON s.user_id = u.id WHERE u.username = ?",
        (alice.name,),
    )
    stored = stack.authme.get(alice.name)["password"]
    for secret in (alice.password, token, stored, *row.values()):
        assert secret not in text
    for word in ("hash", "salt", "jti", "nonce", "token"):
        assert f'{word}"' not in text.lower()


def test_nobody_else_is_in_it(stack: Stack) -> None:
    alice, bob = stack.approved("alice"), stack.approved("bob")
    stack.decides("ban", alice, reason="A pause")
    stack.decides("unban", alice)
    text = json.dumps(export(stack, stack.user_token(alice)))
    assert "Olivia" not in text
    assert bob.name not in text
    assert "A pause" in text, "the reason was told to her anyway"


def test_what_an_operator_did_to_others_stays_theirs(stack: Stack) -> None:
    alice = stack.approved("alice")
    stack.decides("ban", alice, reason="Alices own business")
    audits = export(stack, stack.olivia())["audits"]
    entry = next(entry for entry in audits if entry["action"] == "user.banned")
    assert (entry["by"], entry["detail"]) == ("you", None)
    assert alice.name not in json.dumps(audits)


def test_who_had_the_name_before_stays_private(stack: Stack) -> None:
    alice = stack.approved("alice")
    log_in_from_home(stack, alice)
    stack.decides("delete", alice, reason="Alices own business")
    carl = Person(alice.name, f"carl.{alice.email}", alice.password)
    assert stack.register(carl).status == 201
    payload = export(stack, stack.user_token(carl))
    assert payload["reviews"] == []
    text = json.dumps(payload)
    for foreign in ("Alices own business", "198.51.100.23", '"alice.'):
        assert foreign not in text
    assert [entry["action"] for entry in payload["audits"]] == ["user.logged_in", "user.registered"]


def test_a_player_of_the_game_is_not_told_of_the_registration_that_wanted_his_name(stack: Stack) -> None:
    """The player was there first: its regdate precedes everything that happened to the earlier user of this name."""
    rick = stack.pending("rick")
    stack.decides("reject", rick)
    stack.decides("delete", rick)
    stack.authme.register(rick.name, "the-players-secret")
    column = stack.table.column("regdate")
    stack.table.database.execute(f"UPDATE {stack.table.name} SET {column} = 1 WHERE username = ?", (rick.key,))
    stack.sync()
    audits = export(stack, stack.user_token(rick, "the-players-secret"))["audits"]
    assert [entry["action"] for entry in audits if not entry["action"].startswith("sync.")] == [
        "user.logged_in",
        "user.adopted",
    ]


def test_a_foreign_premium_account_is_not_the_owners(stack: Stack) -> None:
    alice = stack.pending("alice")
    stack.authme.register(alice.name, "foreign-password")
    foreign_uuid, column = "00000000-0000-4000-8000-000000000000", stack.table.column("premiumUUID")
    stack.table.database.execute(
        f"UPDATE {stack.table.name} SET {column} = ? WHERE username = ?", (foreign_uuid, alice.key)
    )
    stack.sync()
    payload = export(stack, stack.user_token(alice))
    assert payload["player"]["lockReason"] == "pending"
    assert foreign_uuid not in json.dumps(payload)


def test_a_player_called_like_the_program_is_not_told_what_it_did(stack: Stack) -> None:
    namesake = Person("Sync", "sync@example.org", "secret-of-namesake")
    stack.authme.register(namesake.name, namesake.password)
    stack.sync()
    stack.authme.register(stack.newcomer("bob").name, "secret-of-bob")
    stack.sync()
    payload = export(stack, stack.user_token(namesake))
    assert {(entry["action"], entry["by"]) for entry in payload["audits"]} == {
        ("user.adopted", "system"),
        ("sync.player_locked", "system"),
        ("user.logged_in", "system"),  # nobody can tell the two apart
    }
    assert len([entry for entry in payload["audits"] if entry["action"] == "user.adopted"]) == 1


def test_a_long_story_is_cut_and_says_so(stack: Stack) -> None:
    alice = stack.approved("alice")
    token = stack.user_token(alice)
    ours = our_database(stack)
    several = ",".join(["('user.logged_out', ?, ?, '2031-01-01 00:00:00.000', 1)"] * 100)
    for _batch in range(11):
        ours.execute(
            f"INSERT INTO regsvc_audit (action, operator, target, created_at, occurrences) VALUES {several}",
            (alice.name, alice.name) * 100,
        )
    payload = export(stack, token)
    assert len(payload["audits"]) == 1000
    assert payload["truncated"] == ["audits"]
