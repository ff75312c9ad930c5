"""The UUID in AuthMe's table, where its config names a column for it and the server makes it of the name."""

import pytest

from tests.support.authme_tables import TableShape
from tests.support.game_server import GameServer
from tests.support.services import House, MakeHouse

has_uuid = pytest.mark.parametrize("authme_shape", [TableShape.FULL])


@has_uuid
def test_a_new_row_has_the_uuid_of_the_exact_name(house: House) -> None:
    house.approved("Notch")
    assert house.row("notch")["uuid"] == "b50ad385-829d-3141-a216-7e7d7539ba7f"


@has_uuid
def test_in_online_mode_the_game_writes_it_itself(game_server: GameServer, house: House) -> None:
    game_server.write_properties(online_mode="true")  # noticed without a restart
    house.approved("Notch")
    assert house.row("notch")["uuid"] is None


@has_uuid
def test_where_the_config_names_no_column_none_is_written(
    game_server: GameServer, authme_table: object, make_house: MakeHouse
) -> None:
    game_server.change_authme({"DataSource.mySQLPlayerUUID": ""})
    house = make_house()
    house.approved("Notch")
    assert house.row("notch")["uuid"] is None


def test_where_the_table_has_no_such_column_the_row_is_there_without(
    game_server: GameServer, authme_table: object, make_house: MakeHouse
) -> None:
    game_server.change_authme({"DataSource.mySQLPlayerUUID": "uuid"})
    house = make_house()
    house.approved("Notch")
    assert "uuid" not in house.row("notch")


@has_uuid
def test_a_bedrock_player_has_another_that_we_do_not_know(
    game_server: GameServer, authme_table: object, make_house: MakeHouse
) -> None:
    house = make_house(bedrock__enabled=True)
    house.register("Steve Smith", platform="bedrock", email="steve@example.org")
    house.decide("approve", ".Steve_Smith")
    assert (house.row(".steve_smith")["uuid"], house.row(".steve_smith")["realname"]) == (None, ".Steve_Smith")
