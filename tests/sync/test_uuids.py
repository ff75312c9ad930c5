"""The UUID in AuthMe's table, where its config names a column for it and the server derives it from the name."""

import json

import pytest

from tests.support.authme.authme_tables import TableShape
from tests.support.authme.game_server import GameServer
from tests.support.services import MakeServices, ServiceHarness

has_uuid = pytest.mark.parametrize("authme_shape", [TableShape.FULL])


@has_uuid
def test_a_new_row_has_the_uuid_of_the_exact_name(services: ServiceHarness) -> None:
    services.approved("Notch")
    assert services.row("notch")["uuid"] == "b50ad385-829d-3141-a216-7e7d7539ba7f"


@has_uuid
def test_in_online_mode_the_game_writes_it_itself(game_server: GameServer, services: ServiceHarness) -> None:
    game_server.write_properties(online_mode="true")
    services.app.context.properties_files[""].refresh()  # as the watcher does
    services.approved("Notch")
    assert services.row("notch")["uuid"] is None


@has_uuid
def test_behind_a_proxy_only_who_has_joined_is_known(
    game_server: GameServer, authme_table: object, make_services: MakeServices
) -> None:
    """An online-mode proxy forwards Mojang's UUID: the offline one would be another player's."""
    (game_server.directory / "spigot.yml").write_text("settings: {bungeecord: true}", "utf-8")
    mojangs = "069a79f4-44e9-4726-a5be-fca90e38aaf5"
    cache = [{"name": "Notch", "uuid": mojangs, "expiresOn": "2020-01-01 00:00:00 +0000"}]
    (game_server.directory / "usercache.json").write_text(json.dumps(cache), "utf-8")
    services = make_services()
    services.approved("Notch")
    services.approved("Jeb_")
    assert (services.row("notch")["uuid"], services.row("jeb_")["uuid"]) == (mojangs, None)


@has_uuid
def test_where_the_config_names_no_column_none_is_written(
    game_server: GameServer, authme_table: object, make_services: MakeServices
) -> None:
    game_server.change_authme({"DataSource.mySQLPlayerUUID": ""})
    services = make_services()
    services.approved("Notch")
    assert services.row("notch")["uuid"] is None


def test_where_the_table_has_no_such_column_the_row_is_there_without(
    game_server: GameServer, authme_table: object, make_services: MakeServices
) -> None:
    game_server.change_authme({"DataSource.mySQLPlayerUUID": "uuid"})
    services = make_services()
    services.approved("Notch")
    assert "uuid" not in services.row("notch")


@has_uuid
def test_a_bedrock_player_has_another_that_we_do_not_know(
    game_server: GameServer, authme_table: object, make_services: MakeServices
) -> None:
    services = make_services(bedrock__enabled=True)
    services.register("Steve Smith", platform="bedrock", email="steve@example.org")
    services.decide("approve", ".Steve_Smith")
    assert (services.row(".steve_smith")["uuid"], services.row(".steve_smith")["realname"]) == (None, ".Steve_Smith")
