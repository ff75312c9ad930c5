"""Input that may become part of a command for the game's console, and input that never does."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugin_bridge.server.rcon import MAX_COMMAND_BYTES, UnsafeName, ban, is_surely_offline, kick, pardon, plain


@pytest.mark.parametrize("name", ["Bob", "x", "_", ".Steve_1", "-Steve", "+Steve", "a" * 32, "Bob_2.0"])
def test_names_of_both_editions_are_spoken_as_they_are(name: str) -> None:
    assert kick(name, "Bye") == f"kick {name} Bye"
    assert ban(name, "Bye") == f"ban {name} Bye"
    assert pardon(name) == f"pardon {name}"


def test_a_name_with_an_asterisk_is_quoted_where_the_game_reads_a_word() -> None:
    assert kick("*Steve", "Bye") == 'kick "*Steve" Bye'
    assert ban("*Steve", "Bye") == "ban *Steve Bye"


@pytest.mark.parametrize(
    "name",
    ["", " ", "Bob Smith", "Bob\n", "Bob\nop Mallory", "@a", "@e[type=player]", "*", "**", ".", "-", "Böb", "ＢＯＢ",
     "Bob;op", '"Bob"', "Bob\\", "/Bob", "§cBob", "Bob\u202e", "Bob\0", "a" * 33, "Bob\u2028", "鲍勃"],
)  # fmt: skip
def test_no_other_name_is_ever_spoken(name: str) -> None:
    with pytest.raises(UnsafeName):
        kick(name, "Bye")
    with pytest.raises(UnsafeName):
        ban(name, "Bye")
    with pytest.raises(UnsafeName):
        pardon(name)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("griefing", "griefing"),
        ("", ""),
        ("two\nlines\r\nop Mallory", "two lines op Mallory"),
        ("§4§lred §", "red"),
        ("  much \t room  ", "much room"),
        ("to @a and @e[limit=1]", "to ＠a and ＠e[limit=1]"),
        ("turned\u202earound\u2028and\0on", "turned around and on"),
        ("破坏建筑", "破坏建筑"),
        ("\ud800", ""),
        ("a" * 500, "a" * 240),
    ],
)
def test_a_reason_is_one_plain_line(typed: str, said: str) -> None:
    assert plain(typed) == said
    assert kick("Bob", typed) == f"kick Bob {said}".rstrip()


@settings(max_examples=30)
@given(name=st.text(max_size=40), reason=st.text(max_size=300))
def test_whatever_people_type_a_command_is_one_line_about_one_name(name: str, reason: str) -> None:
    try:
        commands = [kick(name, reason), ban(name, reason), pardon(name)]
    except UnsafeName:
        return
    for command in commands:
        assert command.isprintable()
        assert len(command.encode()) <= MAX_COMMAND_BYTES
        assert command.split(" ")[1].strip('"') == name
        assert not {"@", "§"} & set(command)


@pytest.mark.parametrize(
    ("listed", "is_offline"),
    [
        ("There are 0 of a max of 20 players online: ", True),
        ("There are 0 of a max of 20 players online:", True),
        ("There are 2 of a max of 20 players online: Alice, Carol", True),
        ("There are 2 of a max 20 players online: Alice, Carol", True),
        ("There are 2/20 players online:\nAlice, Carol", True),
        ("There are 2 of a max of 20 players online: Alice, bob", False),
        ("There are 2 of a max of 20 players online: Alice, [Admin] Bob", False),
        ("There are 1 of a max of 20 players online: Bobby", False),  # a doubt is enough
        ("§6There are §c1 §6out of maximum §c20 §6players online.\ndefault: Alice", False),
        ("当前共有 0 名玩家在线", False),
        ("Unknown command", False),
        ("", False),
    ],
)
def test_a_list_tells_who_is_surely_not_there(listed: str, is_offline: bool) -> None:
    assert is_surely_offline("Bob", listed) is is_offline
