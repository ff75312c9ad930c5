"""`companion users show`: what it prints about a user."""

import json
from collections.abc import Callable
from pathlib import Path

from tests.support.command_line import Finished

Run = Callable[..., Finished]


def test_an_applicant_is_shown_with_rejections_whose_built_in_reason_is_in_words(run: Run, tmp_path: Path) -> None:
    run("migrate")
    (tmp_path / "users.csv").write_text("username,email,status\nAlice,alice@example.org,pending\n", encoding="utf-8")
    assert run("import", str(tmp_path / "users.csv")).status == 0
    shown = json.loads(run("users", "show", "Alice").output)
    assert (shown["status"], shown["reviewed_at"]) == ("pending", None)
    assert shown["second_factor"] == "none"
    assert shown["rejections"] == {"count": 0, "last_at": None, "last_reason": None}
    assert run("users", "reject", "Alice", "--reason", "reject.has_account").status == 0
    assert json.loads(run("users", "show", "Alice").output)["reason"] == "You already have an account here."
    exported = run("export", "--format", "json", "--output", "-").output
    assert json.loads(exported)["users"][0]["reason"] == "reject.has_account"  # an import words it again


def test_a_linked_chat_account_is_shown(run: Run, tmp_path: Path) -> None:
    run("migrate")
    alice = {"username": "Alice", "email": "alice@example.org", "status": "approved"}
    chat = {"platform": "discord", "id": "80351110224678912", "username": "alice_in_chat"}
    (tmp_path / "users.json").write_text(json.dumps({"users": [alice | {"chat": chat}]}), encoding="utf-8")
    assert run("import", str(tmp_path / "users.json")).status == 0
    shown = json.loads(run("users", "show", "Alice").output)
    assert {name: shown["chat"][name] for name in chat} == chat
    assert shown["discord_id"] == chat["id"]
