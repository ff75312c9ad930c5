"""`companion why`: the first sentence names what keeps a player out, and what to do."""

import json
from collections.abc import Callable

import pytest

from plugin_bridge.authme.players import lock_text
from regsvc.users.gates import NO_PROFILE, NO_UUID, REFUSED
from tests.support.authme.authme_database import AuthMeDatabase, SqliteFile
from tests.support.authme.authme_like import AuthMeLike, long_ago, offline_uuid
from tests.support.authme.authme_tables import AuthMeTable
from tests.support.authme.game_server import GameServer
from tests.support.command_line import Finished
from tests.support.daemon import Daemon
from tests.support.our_tables import ago
from tests.support.ports import free_port

Run = Callable[..., Finished]

WITH_ROW = ["Ron", "Fay", "Liv", "Will", "Oli"]
"""Approved, with a row in AuthMe's table, as those are whose record of the allowlist follows."""
LISTED = {
    "Tina": ("taken_off", None),
    "Nick": ("add", "no_uuid"),
    "Dora": ("add", "uuid_in_doubt"),
    "Rex": ("add", "restart"),
    "Hal": ("add", "held_back"),
    "Prof": ("add", NO_PROFILE),
    "Vito": ("add", REFUSED),
    "Geo": ("add", NO_UUID),
    "Wes": ("add", None),
    "Lea": ("listed", None),
    "Uma": ("listed", None),
    "Sven": ("listed", None),
}
ANSWERS = {
    "Zoe": ("Nobody has registered as Zoe", "register first"),
    "Steva": ("but Steve has", "join under that name"),
    "no way!": ("is no name that players can have", "register under another one"),
    "Nat": ("is in the game, but no user here yet", "companion sync"),
    "Paul": ("has been waiting for an operator’s review since", "approve or reject"),
    "Rita": ("was rejected (too young) and may apply again from", "approve them"),
    "Rob": ("was rejected (too young) and may apply again now", "approve them"),
    "Ben": ("is banned for good (griefing)", "unban them"),
    "Bea": ("is banned until", "unban them"),
    "Bob": ("The ban of Bob ended", "companion sync"),
    "Edd": ("was approved with SQL", "companion sync"),
    "Nora": ("Nora has no password", "companion users password Nora --link"),
    "Max": ("is hashed with MD5VB", "legacyHashes"),
    "Ron": ("was removed in the game", "companion users password Ron"),
    "Fay": ("registered in the game by somebody else, or anew", "which password counts"),
    "Liv": ("is locked in AuthMe’s table", "companion users password Liv --link"),
    "Will": ("is not ready in AuthMe’s table yet", "companion sync"),
    "Oli": ("AuthMe knows Oli as OLI", "join as OLI"),
    "Tina": ("was taken off the allowlist in the game", "choose “Put back on the list”"),
    "Nick": ("The UUID of Nick is not known", "/whitelist add Nick"),
    "Dora": ("The UUID of Dora is in doubt", "set allowlist.uuids"),
    "Rex": ("which the game server reads when it starts again", "restart it"),
    "Hal": ("too many changes of the allowlist at once", "companion sync --plan"),
    "Prof": ("No paid account has the name Prof", "check the spelling"),
    "Vito": ("The game server did not take Vito on its allowlist", "/whitelist add Vito"),
    "Geo": ("who plays the Bedrock edition", "/fwhitelist add Geo"),
    "Wes": ("is about to be put on the allowlist", "companion sync"),
    "Lea": ("is missing in its file", "companion sync"),
    "Uma": ("under another UUID", "companion sync"),
    "Sven": ("The game server does not answer", "start it"),
}

CACHED = "AuthMe caches players and may still see Sven as before"


def own_tables(place: Daemon, table: AuthMeTable) -> AuthMeDatabase:
    is_file = table.database.kind == "sqlite"
    return SqliteFile(place.state_dir / "companion.db") if is_file else table.database


def change(database: AuthMeDatabase, name: str, **values: object) -> None:
    """Write columns of a user, as if it had happened by itself: the status is the one that was applied."""
    values |= {"applied_status": values["status"]} if "applied_status" not in values and "status" in values else {}
    columns = ", ".join(f"{column} = ?" for column in values)
    database.execute(f"UPDATE regsvc_user SET {columns} WHERE username = ?", (*values.values(), name))


def keep_out(run: Run, place: Daemon, table: AuthMeTable, game_server: GameServer) -> None:
    """Keep each of the players out by another cause."""
    ours, early, now = own_tables(place, table), long_ago(table), AuthMeLike(table)
    run("migrate")
    for name in (*WITH_ROW, *LISTED):
        early.register(name, "a-password")
    assert run("sync").status == 0
    others = ["Steve", "Paul", "Rita", "Rob", "Ben", "Bea", "Bob", "Edd", "Nora", "Max"]
    lines = "".join(f"{name},{name.lower()}@example.org,pending\n" for name in others)
    (place.directory / "users.csv").write_text(f"username,email,status\n{lines}", encoding="utf-8")
    assert run("import", str(place.directory / "users.csv")).status == 0
    change(ours, "Rita", status="rejected", reason="too young", reviewed_at=ago(minutes=5))
    change(ours, "Rob", status="rejected", reason="too young", reviewed_at=ago(minutes=5), may_reapply=True)
    change(ours, "Ben", status="banned", reason="griefing")
    change(ours, "Bea", status="banned", reason="griefing", ban_expires_at=ago(days=-1))
    change(ours, "Bob", status="banned", reason="griefing", ban_expires_at=ago(minutes=5))
    change(ours, "Geo", platform="bedrock")
    change(ours, "Edd", status="approved", applied_status="pending")
    change(ours, "Nora", status="approved")
    change(ours, "Max", status="approved", password_hash="x", password_algorithm="MD5VB")
    now.register("Nat", "a-password")
    now.unregister_from_console("Ron")
    now.unregister_from_console("Fay")
    now.register("Fay", "another-one")
    write = f"UPDATE {table.name} SET password = ? WHERE username = ?"
    table.database.execute(write, ("!locked!mark", "liv"))
    ours.execute("UPDATE regsvc_sync_record SET base_hash = NULL WHERE username_key = 'liv'")
    table.database.execute(write, (lock_text(str(now.get("Will")["password"])), "will"))
    table.database.execute(f"UPDATE {table.name} SET realname = 'OLI' WHERE username = 'oli'")
    for name, (state, reason) in LISTED.items():
        ours.execute(
            "INSERT INTO regsvc_allowlist (username_key, username, state, uuid, reason, since) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (name.lower(), name, state, offline_uuid(name), reason, ago(minutes=5)),
        )
    entries = [{"uuid": offline_uuid("Sven"), "name": "Sven"}, {"uuid": offline_uuid("uma"), "name": "Uma"}]
    (game_server.directory / "whitelist.json").write_text(json.dumps(entries), encoding="utf-8")
    of_an_account = [{"name": "Sven", "uuid": "4566e69f-c907-48ee-8d71-d7ba5aa00d20", "expiresOn": "later"}]
    (game_server.directory / "usercache.json").write_text(json.dumps(of_an_account), encoding="utf-8")
    game_server.write_properties(white_list="true", server_port=free_port())


@pytest.mark.every_database
def test_the_first_sentence_names_the_cause_and_the_remedy(
    run: Run, place: Daemon, authme_table: AuthMeTable, game_server: GameServer
) -> None:
    keep_out(run, place, authme_table, game_server)
    wrong = {}
    for name, (cause, remedy) in ANSWERS.items():
        told = run("why", name)
        first = told.output.splitlines()[0] if told.output else told.errors
        if told.status != 1 or cause not in first or remedy not in first:
            wrong[name] = first
    assert wrong == {}
    assert len(ANSWERS) >= 25

    everything = run("why", "sven", "--all").output
    assert "ok: Sven is on the game’s allowlist." in everything
    assert "problem: The name is Sven, and the game tells upper from lower case: join as Sven." in everything
    shown = json.loads(run("why", "Sven", "--json").output)
    assert (shown["answer"]["code"], shown["answer"]["helper"]) == ("server_off", "host")
    assert [step["verdict"] for step in shown["steps"]] == ["ok"] * (len(shown["steps"]) - 1) + ["problem"]

    game_server.write_properties(white_list="true", online_mode="true", server_port=free_port())
    assert "join as" not in run("why", "nora", "--all").output, "the game takes the name as the account has it"

    game_server.write_properties(white_list="true", server_port=free_port())
    game_server.change_authme({"DataSource.caching": True})
    sure, *unsure = run("why", "Sven").output.splitlines()
    assert sure.startswith("The game server does not answer")
    assert [line.split(": wait")[0] for line in unsure] == [f"  problem: {CACHED}"]
    assert AuthMeLike(authme_table).login("Sven", "a-password"), "AuthMe has seen the row by then"
    assert "caches" not in run("why", "Sven").output
    game_server.write_properties(white_list="false", server_port=free_port())
    authme_table.database.execute(f"DROP TABLE {authme_table.name}")
    assert run("why", "Nora").output.startswith("AuthMe’s table cannot be read")
    assert "unknown: AuthMe’s table cannot be read" in run("why", "Will").output, "who was in it may be in it still"
