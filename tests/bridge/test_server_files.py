"""The game server's own files."""

import json
from pathlib import Path

import pytest

from plugin_bridge.server.files import (
    OpsFile,
    PropertiesFile,
    ServerFileError,
    ServerProperties,
    examine_list,
    read_server_properties,
)


def write_ops(path: Path, **levels: object) -> None:
    entries = [
        {"uuid": "0", "name": name, "level": level, "bypassesPlayerLimit": False} for name, level in levels.items()
    ]
    path.write_text(json.dumps(entries), encoding="utf-8")


@pytest.fixture
def ops_path(tmp_path: Path) -> Path:
    path = tmp_path / "ops.json"
    write_ops(path, Olivia=4, Mo=2)
    return path


class TestOpsFile:
    def test_it_knows_the_operators_in_any_case(self, ops_path: Path) -> None:
        ops = OpsFile(ops_path)
        assert [ops.level_of(name) for name in ("Olivia", "OLIVIA", "mo", "alice", "")] == [4, 4, 2, 0, 0]
        assert ops.names() == {"olivia", "mo"}

    def test_spaces_around_a_name_that_a_host_typed_are_not_part_of_it(self, ops_path: Path) -> None:
        write_ops(ops_path, **{" Olivia\t": 3})
        assert OpsFile(ops_path).level_of("Olivia") == 3
        assert OpsFile(ops_path).names() == {"olivia"}

    def test_a_change_shows_at_the_next_question(self, ops_path: Path) -> None:
        ops = OpsFile(ops_path)
        assert ops.level_of("Olivia") == 4
        write_ops(ops_path, Bob=1)
        assert (ops.level_of("Olivia"), ops.level_of("Bob")) == (0, 1)

    def test_a_replaced_file_shows_too(self, ops_path: Path, tmp_path: Path) -> None:
        ops = OpsFile(ops_path)
        assert ops.level_of("Olivia") == 4
        write_ops(tmp_path / "new.json", Ottilia=4)
        (tmp_path / "new.json").replace(ops_path)
        assert ops.names() == {"ottilia"}

    def test_no_file_means_no_operators(self, ops_path: Path, tmp_path: Path) -> None:
        assert OpsFile(tmp_path / "nowhere" / "ops.json").names() == frozenset()
        ops = OpsFile(ops_path)
        assert ops.level_of("Olivia") == 4
        ops_path.unlink()
        assert ops.level_of("Olivia") == 0

    @pytest.mark.parametrize("broken", ['[{"uuid": "0", "na', "", "{}", "null", "[" * 100_000, "\x00"])
    def test_a_half_written_file_keeps_the_last_good_list(
        self, broken: str, ops_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        ops = OpsFile(ops_path)
        assert ops.level_of("Olivia") == 4
        ops_path.write_text(broken, encoding="utf-8")
        assert [ops.level_of("Olivia"), ops.level_of("Mo"), ops.level_of("Bob")] == [4, 2, 0]
        assert len(caplog.records) == 1
        write_ops(ops_path, Bob=3)
        assert [ops.level_of("Olivia"), ops.level_of("Bob")] == [0, 3]

    def test_each_broken_state_is_told_once(self, ops_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        ops = OpsFile(ops_path)
        for state in ("[", "[{", "[{}"):
            ops_path.write_text(state, encoding="utf-8")
            ops.names()
            ops.level_of("Olivia")
        assert len(caplog.records) == 3

    def test_an_unreadable_file_keeps_the_last_good_list(
        self, ops_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        ops = OpsFile(ops_path)
        assert ops.level_of("Olivia") == 4
        ops_path.unlink()
        ops_path.mkdir()
        assert [ops.level_of("Olivia"), ops.level_of("Olivia")] == [4, 4]
        assert len(caplog.records) == 1

    def test_a_path_that_loops_keeps_the_last_good_list(self, ops_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        ops = OpsFile(ops_path)
        assert ops.level_of("Olivia") == 4
        ops_path.unlink()
        ops_path.symlink_to(ops_path)
        assert [ops.level_of("Olivia"), ops.level_of("Olivia")] == [4, 4]
        assert len(caplog.records) == 1

    def test_a_bad_file_at_the_start_means_no_operators(self, ops_path: Path) -> None:
        ops_path.write_text("[", encoding="utf-8")
        assert OpsFile(ops_path, ["Olivia"]).names() == {"olivia"}

    def test_odd_entries_are_no_operators(self, ops_path: Path) -> None:
        odd: list[object] = [{}, {"name": "Bob"}, {"level": 4}, {"name": "Bob", "level": "4"}]
        odd += [{"name": 5, "level": 4}, {"name": "Max", "level": 99}]
        ops_path.write_text(json.dumps(odd), encoding="utf-8")
        ops = OpsFile(ops_path)
        assert (ops.level_of("Bob"), ops.level_of("Max")) == (0, 4)

    @pytest.mark.parametrize(
        "written",
        [
            "// the team\n[{'uuid': 'UUID', 'name': 'Olivia', 'level': '4'}]",
            "[{uuid: UUID, name: Olivia, level: 4.0}]",
            '[{"uuid" = "UUID"; "name" => "Olivia"; "level": 4e0},]',
            '\ufeff[{"uuid": "UUID", "name": "Olivia", "level": 4, "note": "a\tb\nc"}]',
            '[{"name": "\\ud83d", "level": 4}, {"uuid": "UUID", "name": "Olivia", "level": 4}]',
            '[{"uuid": "UUID", "name": "Olivia", "level": 1}, {"uuid": "UUID", "name": "olivia", "level": 4}]',
            '[{"uuid": "UUID", "name": "Olivia", "level": 4, "x": \'Gr\udcfc\udcdfe\'}]',
        ],
    )
    def test_it_reads_what_the_game_reads(self, written: str, ops_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        uuid = "5862580e-aa1b-3ba2-82db-40e501c08259"
        ops_path.write_bytes(written.replace("UUID", uuid).encode(errors="surrogateescape"))
        ops = OpsFile(ops_path)
        assert (ops.level_of("Olivia"), sorted(ops.names())) == (4, ["olivia"])
        assert caplog.messages == []

    @pytest.mark.parametrize(
        ("levels", "counts"),
        [
            (["4", "1"], 1),  # the last entry of a player
            (["1", "4"], 4),
            (["4294967296"], 0),  # the last 32 bits of a number
            (["4294967298"], 2),
            (["-1"], 0),
            (["2.9"], 2),
            (['"+3"'], 3),
            (["3e0"], 3),
            (["1e400"], None),
        ],
    )
    def test_a_level_is_the_one_that_the_game_reads(
        self, levels: list[str], counts: int | None, ops_path: Path
    ) -> None:
        uuid = "5862580e-aa1b-3ba2-82db-40e501c08259"
        entries = [f'{{"uuid": "{uuid}", "name": "Olivia", "level": {level}}}' for level in levels]
        ops_path.write_text(f"[{', '.join(entries)}]", encoding="utf-8")
        listed, _stamp = OpsFile(ops_path).read()
        assert [operator.level for operator in listed.values()] == ([] if counts is None else [counts])

    @pytest.mark.parametrize(
        "odd",
        [
            "null",
            "5",
            '["x"]',
            *(f'{{"name": "Bob", "level": {level}}}' for level in ("null", "true", '"4.0"', '" 4"', '"4_0"', "NaN")),
            '{"name": "Bob", "level": "99999999999"}',
        ],
    )
    def test_who_comes_behind_an_entry_at_which_the_game_stops_is_no_operator(self, odd: str, ops_path: Path) -> None:
        ops_path.write_text(f'[{{"name": "Olivia", "level": 4}}, {odd}, {{"name": "Mo", "level": 4}}]', "utf-8")
        assert OpsFile(ops_path).names() == {"olivia"}
        assert examine_list(ops_path).ignored[-1] == "3 (Mo)"

    def test_the_lowest_level_of_a_name_counts(self, ops_path: Path) -> None:
        write_ops(ops_path, Olivia=4, OLIVIA=1, Mo=-3)
        ops = OpsFile(ops_path)
        assert (ops.level_of("olivia"), ops.level_of("Mo")) == (1, 0)

    def test_extra_names_are_operators_of_level_4(self, ops_path: Path) -> None:
        ops = OpsFile(ops_path, ["Host", "mo"])
        assert [ops.level_of(name) for name in ("HOST", "Mo", "Olivia")] == [4, 4, 4]
        assert OpsFile(None, ["Host"]).names() == {"host"}


def read(path: Path, text: str, encoding: str = "utf-8") -> ServerProperties:
    path.write_bytes(text.encode(encoding))
    return read_server_properties(path)


@pytest.fixture
def properties_path(tmp_path: Path) -> Path:
    return tmp_path / "server.properties"


class TestServerProperties:
    def test_an_address_may_be_in_javas_brackets(self, properties_path: Path) -> None:
        found = read(properties_path, "server-ip=[::1]\nrcon.ip=[2001:db8::1]\n")
        assert (found.server_ip, found.rcon_ip) == ("::1", "2001:db8::1")

    def test_it_reads_what_the_server_writes(self, properties_path: Path) -> None:
        text = "#Minecraft server properties\n#Mon Jan 01\nenable-rcon=true\nmotd=Hello\\: world\n"
        text += "online-mode=false\n"
        text += "rcon.password=s3cret\nrcon.port=25580\nserver-ip=10.0.0.5\nserver-port=25570\nmax-players=50\n"
        assert read(properties_path, text) == ServerProperties(
            server_ip="10.0.0.5",
            server_port=25570,
            online_mode=False,
            rcon_enabled=True,
            rcon_port=25580,
            rcon_password="s3cret",
            motd="Hello: world",
            max_players=50,
        )

    def test_missing_and_unusable_values_are_the_servers_defaults(self, properties_path: Path) -> None:
        assert read(properties_path, "") == ServerProperties()
        bad = read(properties_path, "server-port=x\nrcon.port=70000\nmax-players=\x1e5\nserver-port:0")
        assert bad == ServerProperties()

    def test_rcon_without_a_password_is_off(self, properties_path: Path) -> None:
        assert not read(properties_path, "enable-rcon=true\nrcon.password=\n").rcon_enabled

    @pytest.mark.parametrize(
        ("line", "motd"),
        [
            ("motd=plain", "plain"),
            ("  motd \t:  spaced end ", "spaced end "),
            ("motd no sign", "no sign"),
            ("motd=a=b:c", "a=b:c"),
            (r"motd=tab\tnew\nline\\end", "tab\tnew\nline\\end"),
            (r"motd=\u00a76Gold \ud83d\ude00", "§6Gold 😀"),
            ("motd=one \\\n    two\\\r\n#three", "one two#three"),
            ("motd=ends in backslash\\\\\nx=1", "ends in backslash\\"),
            ("# comment \\\nmotd=after", "after"),
            ("! comment\n\n\r\nmotd=after", "after"),
            (r"mo\td=no" + "\nmotd", ""),
            ("motd=open\\", "open"),
            ("motd=first\nmotd=last", "last"),
            (r"motd=\u12", "u12"),
            (r"motd=half \ud83d", "half \ufffd"),
        ],
    )
    def test_it_understands_javas_format(self, line: str, motd: str, properties_path: Path) -> None:
        assert read(properties_path, line).motd == motd

    def test_older_servers_write_latin_1(self, properties_path: Path) -> None:
        assert read(properties_path, "motd=§6Für alle", "latin-1").motd == "§6Für alle"
        assert read(properties_path, "motd=§6Für alle", "utf-8").motd == "§6Für alle"

    def test_a_missing_file_is_named(self, properties_path: Path) -> None:
        with pytest.raises(ServerFileError, match=r"server\.properties"):
            read_server_properties(properties_path)

    def test_the_password_does_not_show(self, properties_path: Path) -> None:
        assert "s3cret" not in repr(read(properties_path, "rcon.password=s3cret"))


class TestPropertiesFile:
    def test_a_change_shows_at_the_next_refresh_and_not_before(self, properties_path: Path) -> None:
        properties_path.write_text("max-players=5\n", "utf-8")
        file = PropertiesFile(properties_path)
        properties_path.write_text("max-players=50\n", "utf-8")
        assert file.current == ServerProperties(max_players=5)
        assert file.refresh() == file.current == ServerProperties(max_players=50)

    def test_a_file_that_did_not_change_is_not_opened(
        self, properties_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        properties_path.write_text("max-players=5\n", "utf-8")
        file = PropertiesFile(properties_path)
        monkeypatch.setattr(Path, "open", None)
        assert file.refresh() == ServerProperties(max_players=5)

    def test_a_file_that_is_missing_or_broken_is_unknown_until_it_is_back(self, properties_path: Path) -> None:
        file = PropertiesFile(properties_path)
        assert file.current is None
        properties_path.write_text("max-players=5\n", "utf-8")
        assert file.refresh() == ServerProperties(max_players=5)
        properties_path.unlink()
        properties_path.mkdir()
        assert file.refresh() is None
        properties_path.rmdir()
        properties_path.write_text("max-players=6\n", "utf-8")
        assert file.refresh() == ServerProperties(max_players=6)

    def test_without_a_path_nothing_is_known(self) -> None:
        assert PropertiesFile(None).refresh() is None
