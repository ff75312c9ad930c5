"""A locked row opens nothing: not a session, a premium account or a proxy, and who got in by one is kicked."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.authme.authme_tables import TableShape
from tests.support.peers.mariadb import MariaDBServer
from tests.support.peers.rcon_server import RconServer, rcon_server
from tests.support.stack import Person, Stack
from tests.support.watching import ask_until

ANNAS_UUID = "b50ad385-829d-3141-a216-7e7d7539ba7f"
UNACTIVATED = 7
GROUPS = {
    "ExternalBoardOptions.mySQLColumnGroup": "usergroup",
    "ExternalBoardOptions.nonActivedUserGroup": UNACTIVATED,
}


@pytest.fixture(scope="module")
def console() -> Iterator[RconServer]:
    """The game's console, switched on."""
    with rcon_server() as running:
        yield running


@pytest.fixture(scope="module", params=["sqlite", "mariadb"])
def stack(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, console: RconServer
) -> Iterator[Stack]:
    """A server with sessions, premium accounts and a proxy, and a companion that looks every second."""
    server = request.getfixturevalue("mariadb") if request.param == "mariadb" else None
    config = {"sync": {"every": "1 second"}}
    directory = tmp_path_factory.mktemp("stack")
    with Stack(request.param, directory, server, config=config, properties=console.properties) as stack:
        stack.authme.has_sessions = True
        yield stack


def player(stack: Stack, console: RconServer) -> Person:
    """Return Anna, who is approved, plays, and has a session that stays open when she quits."""
    anna = stack.approved("anna")
    ask_until(lambda: stack.authme.find(anna.name), bool)
    assert stack.authme.login(anna.name, anna.password)
    stack.authme.quit(anna.name)
    assert stack.authme.get(anna.name)["hasSession"] == 1
    console.online.add(anna.name)
    return anna


def wait_for_kick(console: RconServer, anna: Person) -> None:
    """Wait until Anna is no longer in the game, and let the console list her again."""
    ask_until(lambda: anna.name in console.online, lambda is_online: not is_online)
    console.online.add(anna.name)


def wait_until_closed(stack: Stack, anna: Person) -> None:
    """Wait until neither a session nor a premium account lets Anna in."""
    ask_until(lambda: stack.authme.get(anna.name), lambda row: (row["hasSession"], row["premiumUUID"]) == (0, None))


def test_a_login_from_a_stale_cache_leaves_no_session_behind(stack: Stack, console: RconServer) -> None:
    anna = player(stack, console)
    stack.decides("ban", anna)
    wait_for_kick(console, anna)
    # a game server that still has the old row in its cache lets her in, and opens a session
    assert stack.authme.join_through_proxy(anna.name)
    wait_for_kick(console, anna)
    stack.authme.quit(anna.name)
    wait_until_closed(stack, anna)
    assert not stack.authme.resume_session(anna.name)
    assert not stack.authme.login(anna.name, anna.password)
    stack.decides("unban", anna)
    assert stack.authme.get(anna.name)["hasSession"] == 0
    assert stack.authme.login(anna.name, anna.password)


def test_each_login_that_a_proxy_orders_is_answered_with_one_kick(stack: Stack, console: RconServer) -> None:
    anna = player(stack, console)
    stack.decides("ban", anna)
    wait_for_kick(console, anna)
    for _server in ("survival", "creative"):
        assert stack.authme.join_through_proxy(anna.name)
        wait_for_kick(console, anna)
        wait_until_closed(stack, anna)
    kicks = [command for command in console.commands if command.startswith(f"kick {anna.name} ")]
    before = len(kicks)
    # the game server crashed: the mark stays, and means nothing any more
    assert stack.authme.get(anna.name)["isLogged"] == 1
    assert stack.sync()["locked"] == 0
    assert len([command for command in console.commands if command.startswith(f"kick {anna.name} ")]) == before


def test_a_login_with_sessions_off_is_seen_too(stack: Stack, console: RconServer) -> None:
    anna = player(stack, console)
    stack.decides("ban", anna)
    wait_for_kick(console, anna)
    stack.authme.has_sessions = False
    try:
        assert stack.authme.join_through_proxy(anna.name)
    finally:
        stack.authme.has_sessions = True
    wait_for_kick(console, anna)
    assert stack.authme.get(anna.name)["hasSession"] == 0


def test_a_premium_account_confirmed_after_the_ban_opens_nothing_and_is_not_lost(
    stack: Stack, console: RconServer
) -> None:
    anna = player(stack, console)
    stack.decides("ban", anna)
    wait_for_kick(console, anna)
    assert stack.authme.set_premium(anna.name, ANNAS_UUID)
    wait_for_kick(console, anna)
    wait_until_closed(stack, anna)
    assert not stack.authme.join_as_premium(anna.name, ANNAS_UUID)
    stack.decides("unban", anna)
    assert stack.authme.join_as_premium(anna.name, ANNAS_UUID)


def test_whoever_registers_in_the_game_does_not_play_until_approved(stack: Stack, console: RconServer) -> None:
    carol = stack.newcomer("carol")
    stack.authme.register(carol.name, carol.password)
    assert stack.authme.login(carol.name, carol.password)
    console.online.add(carol.name)
    wait_for_kick(console, carol)
    stack.authme.quit(carol.name)
    wait_until_closed(stack, carol)
    assert not stack.authme.resume_session(carol.name)
    stack.decides("approve", carol)
    assert stack.authme.login(carol.name, carol.password)


@pytest.mark.parametrize("original", [0, 3, None])
def test_where_authme_has_groups_a_banned_player_is_let_in_by_nothing(
    mariadb: MariaDBServer, tmp_path: Path, original: int | None
) -> None:
    with Stack("mariadb", tmp_path, mariadb, authme=GROUPS, shape=TableShape.GROUPED) as stack:
        stack.authme.has_sessions, stack.authme.closed_group = True, ("usergroup", UNACTIVATED)
        anna = stack.approved("anna")
        set_group(stack, anna, original)
        assert stack.authme.join_through_proxy(anna.name)
        stack.decides("ban", anna)
        assert stack.authme.get(anna.name)["usergroup"] == UNACTIVATED
        assert not stack.authme.join_through_proxy(anna.name)
        # somebody types an e-mail recovery: the lock is written again, and the kept group stays
        assert stack.authme.set_password(anna.name, "recovered-secret-1")
        assert stack.sync()["locked"] == 1
        set_group(stack, anna, original)
        assert stack.sync()["locked"] == 1
        assert stack.sync()["locked"] == 0
        assert not stack.authme.join_through_proxy(anna.name)
        stack.decides("unban", anna)
        assert stack.authme.get(anna.name)["usergroup"] == (original or 0)
        assert stack.authme.login(anna.name, "recovered-secret-1")


@pytest.mark.parametrize(("number", "later"), [(9, 3), (-1, 3)])
def test_the_group_before_the_lock_survives_another_number(
    mariadb: MariaDBServer, tmp_path: Path, number: int, later: int
) -> None:
    with Stack("mariadb", tmp_path, mariadb, authme=GROUPS, shape=TableShape.GROUPED) as stack:
        anna = stack.approved("anna")
        set_group(stack, anna, 3)
        stack.decides("ban", anna)
        stack.game.install_authme(stack.table, {**GROUPS, "ExternalBoardOptions.nonActivedUserGroup": number})
        stack.restart_with({})
        stack.sync()
        stack.decides("unban", anna)
        assert stack.authme.get(anna.name)["usergroup"] == later


def test_a_group_of_the_forum_that_nobody_knows_is_left_alone(mariadb: MariaDBServer, tmp_path: Path) -> None:
    """Anna was not activated, and banned, before AuthMe's config named the groups."""
    with Stack("mariadb", tmp_path, mariadb, shape=TableShape.GROUPED) as stack:
        stack.table.database.execute(f"ALTER TABLE {stack.table.name} MODIFY usergroup INT NOT NULL DEFAULT 0")
        anna = stack.approved("anna")
        set_group(stack, anna, UNACTIVATED)
        stack.decides("ban", anna)
        stack.game.install_authme(stack.table, GROUPS)
        stack.restart_with({})
        stack.sync()
        assert "warnings" not in stack.decides("unban", anna).json
        assert stack.authme.get(anna.name)["usergroup"] == UNACTIVATED
        assert stack.authme.login(anna.name, anna.password)


def set_group(stack: Stack, anna: Person, group: int | None) -> None:
    stack.table.database.execute(f"UPDATE {stack.table.name} SET usergroup = ? WHERE username = ?", (group, anna.key))
