"""Behaviour of all commands: names, mistakes, pipes, refusals."""

import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from companion import main
from regsvc.cli import commands
from regsvc.cli.command_line import parse
from tests.conftest import MakeDaemon
from tests.support.authme.authme_database import DatabaseKind
from tests.support.command_line import companion, companion_here
from tests.support.daemon import Daemon, clean_environment
from tests.support.peers.mariadb import MariaDBServer
from tests.support.quick_start import PROGRAM

EX_USAGE = 2
EX_STOPPED = 130
EX_PIPE = 141
EX_PORT_IN_USE = 75
EX_CONFIG = 78


@pytest.fixture
def database_kind() -> DatabaseKind:
    return "sqlite"


def test_help_leaves_names_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    for command, word in (("sync", "with AuthMe's players once."), ("export", "as CSV or JSON.")):
        with pytest.raises(SystemExit):
            parse([command, "--help"])
        assert word in " ".join(capsys.readouterr().out.split())


def test_a_folder_without_authme_is_told_of(place: Daemon, tmp_path: Path) -> None:
    told = companion_here("check-config", "--game-dir", str(tmp_path / "tpyo"), config=place.config_file)
    assert f"there is no AuthMe ({tmp_path}/tpyo/plugins/AuthMe/config.yml)" in told.output
    assert (told.status, "AuthMe: none" in told.output) == (0, True)


def test_a_source_without_a_target_is_a_mistake() -> None:
    told = companion_here("migrate", "--from", "mysql://a:s3cr3t@b/c")
    assert (told.status, "--from works together with --to only" in told.errors) == (EX_USAGE, True)
    assert "s3cr3t" not in told.errors


def test_a_reader_that_has_enough_is_no_error(place: Daemon) -> None:
    with subprocess.Popen(
        [sys.executable, str(PROGRAM), "check-config", "--config", str(place.config_file)],
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as told:
        assert told.stdout is not None
        assert told.stderr is not None
        told.stdout.close()
        assert told.stderr.read() == b""
    assert told.returncode == EX_PIPE


def test_a_command_that_is_stopped_with_ctrl_c_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_until_stopped(*_given: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "run_command", run_until_stopped)
    assert main(["users", "list"]) == EX_STOPPED


def test_a_login_that_may_not_make_tables_is_told_so(daemon: MakeDaemon, mariadb: MariaDBServer) -> None:
    with mariadb.fresh_database() as schema:
        mariadb.run_as_root(
            "CREATE USER 'reader'@'%' IDENTIFIED BY 's3cr3t'", f"GRANT SELECT ON {schema.name}.* TO 'reader'@'%'"
        )
        url = f"mysql://reader:s3cr3t@{schema.host}:{schema.port}/{schema.name}"
        place = daemon({"database": {"url": url}})
        for command in (("migrate",), ("serve",)):
            told = companion(*command, config=place.config_file)
            assert (told.status, "Traceback" in told.errors) == (EX_CONFIG, False), told
            assert f"/{schema.name}) cannot be used: CREATE command denied to user 'reader'" in told.errors
            assert "s3cr3t" not in told.errors
        mariadb.run_as_root("DROP USER 'reader'@'%'")


def test_unlock_all_needs_a_stopped_daemon_and_an_authme(place: Daemon, daemon: MakeDaemon) -> None:
    place.start()  # it would lock them again at its next sync run
    told = companion("unlock-all", config=place.config_file)
    assert (told.status, told.output, "stop it first" in told.errors) == (1, "", True)
    place.stop()
    told = companion("unlock-all", config=place.config_file)
    assert (told.status, told.output) == (0, "unlocked 0 players\n")
    assert told.errors.startswith(f"installation: {place.state_dir} (")
    elsewhere = daemon({"game": {"directory": ""}}, directory=place.directory.parent / "elsewhere")
    assert companion("migrate", config=elsewhere.config_file).status == 0
    told = companion("release", config=elsewhere.config_file)
    assert (told.status, "AuthMe was not found" in told.errors) == (1, True)
    told = companion("sync", config=elsewhere.config_file)
    assert (told.status, "AuthMe was not found" in told.errors) == (0, True)


def test_without_a_command_a_beginner_reads_what_to_type(tmp_path: Path) -> None:
    told = companion(directory=tmp_path)
    assert (told.status, told.output) == (EX_USAGE, "")
    for word in ("install", "doctor", "companion --help", "companion COMMAND --help", "companion serve"):
        assert word in told.errors
    assert len(told.errors.splitlines()) <= 20, "it fits on a screen"
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (("--config", "c.toml"), {}),
        (("--game-dir", "."), {"COMPANION_SERVER_PORT": "-1"}),
        ((), {"INVOCATION_ID": "0f3a", "COMPANION_CONFIG": "c.toml"}),
        ((), {"COMPANION_SERVER_PORT": "-1"}),
    ],
)
def test_a_unit_of_the_first_version_goes_on(
    words: tuple[str, ...], environment: dict[str, str], tmp_path: Path
) -> None:
    """`serve` was the default then."""
    (tmp_path / "c.toml").write_text("[server]\nport = -1\n")
    told = companion(*words, directory=tmp_path, environment=environment)
    assert (told.status, told.errors.partition("\n")[0]) == (
        EX_CONFIG,
        "companion: write `companion serve`: without a command it only prints help by now",
    )


@pytest.mark.parametrize("command", [("serve",), ("migrate",), ("restore", "backup"), ("import", "users.csv")])
def test_nothing_is_made_where_no_config_says_so(command: tuple[str, ...], tmp_path: Path) -> None:
    """As where root types it in /."""
    (tmp_path / "users.csv").write_text("username\nAlice\n")
    told = companion(*command, directory=tmp_path)
    assert (told.status, told.output) == (EX_CONFIG, "")
    assert f"an installation would be made in {tmp_path}/var. To set up a server: companion install" in told.errors
    assert {path.name for path in tmp_path.iterdir()} == {"users.csv"}


def serve_until_the_port_is_asked_for(folder: Path, **environment: str) -> str:
    """Return what `companion serve` logs where its port, another program's, is all that stops it."""
    with closing(socket.socket()) as holder:
        holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]
        told = companion("serve", directory=folder, environment={"COMPANION_SERVER_PORT": str(port), **environment})
    assert (told.status, f"cannot listen on 127.0.0.1:{port}" in told.errors) == (EX_PORT_IN_USE, True), told
    return told.errors


def test_variables_are_a_config_and_so_is_the_sample_of_a_clone(tmp_path: Path) -> None:
    """A container and a panel's server have no file; in a clone the state is beside the sample."""
    serve_until_the_port_is_asked_for(tmp_path, COMPANION_SERVER_STATE_DIR=str(tmp_path / "state"))
    assert {path.name for path in tmp_path.iterdir()} == {"state"}
    clone = tmp_path / "clone"
    (clone / "conf").mkdir(parents=True)
    (clone / "conf/companion.toml").write_text("#port = 8080\n")
    assert companion("migrate", directory=clone).status == 0
    (clone / "conf/companion.toml").unlink()
    assert companion("migrate", directory=clone).output == "nothing to migrate\n", "it is an installation now"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("stauts", "status"),
        ("help", "--help"),
        ("users aprove Bob", "approve"),
        ("users approve Bob --sielnt", "--silent"),
        ("users list --status aproved", "approved"),
        ("token creat bot", "create"),
        ("--confg companion.toml status", "--config"),
        ("config st server.port 80", "set"),
        ("install --mial-host=x", "--mail-host"),
        ("users invite --withuot mail", "--without"),
    ],
)
def test_a_mistyped_word_is_told_which_was_meant(typed: str, meant: str) -> None:
    told = companion_here(*typed.split())
    assert (told.status, told.errors.endswith(f"; did you mean {meant}?\n")) == (EX_USAGE, True), told
    assert "choose from" not in told.errors


def test_a_word_like_no_other_gets_all_there_are() -> None:
    told = companion_here("xyzzy")
    assert (told.status, "'xyzzy' (choose from" in told.errors, "unlock-all" in told.errors) == (EX_USAGE, True, True)
    told = companion_here("status", "--xyzzy")
    assert told.errors.endswith("companion status: error: unrecognized arguments: --xyzzy\n")
