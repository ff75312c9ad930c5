"""Which config a command reads, which state directory it works on, and what their relative paths count from."""

import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from regsvc.config import places
from regsvc.config.loader import load_config
from regsvc.config.places import SystemPlaces, find_config_file, find_credential_source, find_shadowed_config
from regsvc.config.sections import ConfigError
from tests.support.config_text import problems, write
from tests.support.other_user import USER_ID, can_be_another

Environment = Mapping[str, str]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a root folder with /etc, /var/lib and a home directory, which is the current folder."""
    for name in ("etc", "var/lib", "home"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr(places, "_ETC", tmp_path / "etc")
    monkeypatch.setattr(places, "_VAR_LIB", tmp_path / "var/lib")
    monkeypatch.chdir(tmp_path / "home")
    return tmp_path


def config_at(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return write(path, text)


def start_installation(state_dir: Path) -> None:
    state_dir.mkdir(parents=True)
    (state_dir / places.LOCATION_FILE).touch()


def test_the_nearest_config_is_read(machine: Path) -> None:
    """Each one that is added comes before those that were there."""

    def find(given: str | None = None, instance: str | None = None, environ: Environment | None = None) -> Path | None:
        return find_config_file(given, instance, environ or {})

    assert find() is None
    only = config_at(machine / "etc/companion/companion.toml")
    assert find() == only
    local = config_at(machine / "home/conf/companion.toml", "[server]\nport = 8081\n")
    assert find() == local
    named = config_at(machine / "home/other.toml")
    assert find(environ={"COMPANION_CONFIG": "other.toml"}) == named
    many = config_at(machine / "etc/companion@lobby/companion.toml")
    assert find(instance="lobby", environ={"COMPANION_CONFIG": "other.toml"}) == many
    assert find(str(only), environ={"COMPANION_CONFIG": "other.toml"}) == only


def test_a_config_that_another_one_hides_is_named(machine: Path) -> None:
    system = config_at(machine / "etc/companion/companion.toml", "#port = 1\n")
    local = config_at(machine / "home/conf/companion.toml", "[server]\nport = 8081\n")
    assert find_shadowed_config(local, {}) is None  # a sample that nobody touched
    write(system, "[server]\nport = 8080\n")
    assert find_shadowed_config(local, {}) == system
    assert find_shadowed_config(system, {}) is None
    named = config_at(machine / "home/other.toml")
    environ = {"COMPANION_CONFIG": str(named)}
    assert find_shadowed_config(named, environ) == local
    local.unlink()
    assert find_shadowed_config(named, environ) == system
    assert find_shadowed_config(system, {"COMPANION_CONFIG": str(system)}) is None
    [sentence] = load_config(named, {}, shadowed=system).without_effect
    assert sentence == f"{system} is not read, since {named} is."


def test_a_folder_of_another_user_is_named_and_no_config_that_nobody_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder of a container is its state, a volume: of the wrong user, for example."""
    user = os.geteuid()
    with TemporaryDirectory() as state:
        monkeypatch.setattr(places, "_ETC", Path("/nowhere"))
        monkeypatch.chdir(state)
        Path(state).chmod(0)
        os.seteuid(USER_ID if can_be_another() else user)
        try:
            with pytest.raises(ConfigError, match=f"{state}: user .* may not enter .* belongs to user {user}; run"):
                find_config_file(None, None, {})
        finally:
            os.seteuid(user)
            Path(state).chmod(0o700)
        monkeypatch.undo()


@pytest.mark.parametrize("text", ["", "# [server]\n#port = 8081\n", "[server]\n#port = 8081\n[mail]\n"])
def test_the_sample_is_never_taken_for_a_config(machine: Path, text: str) -> None:
    config_at(machine / "home/conf/companion.toml", text)
    assert find_config_file(None, None, {}) is None


def test_a_config_with_a_mistake_is_read_and_told(machine: Path) -> None:
    broken = config_at(machine / "home/conf/companion.toml", "[server\n")
    assert find_config_file(None, None, {}) == broken


def test_a_config_that_is_named_must_be_there(machine: Path) -> None:
    assert f"{machine}/home/missing.toml: there is no such file" in problems(
        lambda: find_config_file("missing.toml", None, {})
    )
    assert "companion@lobby/companion.toml: there is no such file" in problems(
        lambda: find_config_file(None, "lobby", {})
    )
    assert "COMPANION_CONFIG" in problems(lambda: find_config_file(None, None, {"COMPANION_CONFIG": "missing.toml"}))
    for name in ("", "../lobby", "a/b", ".hidden", "x" * 65):
        with pytest.raises(ConfigError, match="name of an instance"):
            find_config_file(None, name, {})


def test_the_state_directory_follows_the_config(machine: Path) -> None:
    """Where several apply, the earlier one does."""

    def state_dir(file: Path | None, environ: Environment | None = None) -> Path:
        return load_config(file, environ or {}).server.state_dir

    only = config_at(machine / "etc/companion/companion.toml")
    many = config_at(machine / "etc/companion@lobby/companion.toml")
    elsewhere = config_at(machine / "home/server/companion.toml")
    assert state_dir(only) == machine / "var/lib/companion"
    assert state_dir(many) == machine / "var/lib/companion@lobby"
    assert state_dir(elsewhere) == machine / "home/server/var"
    assert state_dir(None) == machine / "home/var"
    start_installation(machine / "var/lib/companion")
    assert state_dir(elsewhere) == state_dir(None) == machine / "var/lib/companion"
    assert state_dir(many) == machine / "var/lib/companion@lobby"
    environ = {"STATE_DIRECTORY": "/srv/companion:/srv/other"}
    assert state_dir(many, environ) == Path("/srv/companion")
    set_there = config_at(machine / "home/server/companion.toml", '[server]\nstate_dir = "/srv/state"\n')
    assert state_dir(set_there, environ) == Path("/srv/state")
    assert state_dir(set_there, {"COMPANION_SERVER_STATE_DIR": "here"}) == machine / "home/here"


def test_mails_go_to_a_folder_in_the_state_directory(machine: Path) -> None:
    file = config_at(machine / "etc/companion/companion.toml")
    assert load_config(file, {}).mail.folder == machine / "var/lib/companion/mail"
    config_at(file, '[mail]\nfolder = "/srv/mail"\n')
    assert load_config(file, {}).mail.folder == Path("/srv/mail")


def test_relative_paths_count_from_the_config(machine: Path) -> None:
    server = machine / "home/server"
    for folder in ("texts", "templates"):
        (server / folder).mkdir(parents=True)
    write(server / "password", "a mail password")
    file = config_at(
        server / "companion.toml",
        """
        [server]
        state_dir = "state"
        translations = "texts"
        [game]
        directory = "../game"
        [mail]
        password_file = "password"
        templates = "templates"
        [database]
        url = "sqlite:///our%20own.db"
        """,
    )
    (server / "password").chmod(0o600)
    config = load_config(file, {}, {"game.ops_file": "ops.json"})
    assert config.file == file
    assert config.server.state_dir == server / "state"
    assert config.server.translations == server / "texts"
    assert config.game.directory == server / "../game"
    assert config.game.ops_file == machine / "home/ops.json"
    assert config.mail.password == "a mail password"
    assert config.database.url == f"sqlite:///{server}/our%20own.db"


def test_every_place_of_a_server_follows_from_its_name() -> None:
    single, lobby = SystemPlaces.of_instance(None), SystemPlaces.of_instance("lobby")
    assert (single.unit, str(single.secrets_dir)) == ("companion.service", "/etc/companion/secrets")
    assert (lobby.unit, str(lobby.config_file)) == ("companion@lobby.service", "/etc/companion@lobby/companion.toml")
    assert SystemPlaces.of_config(lobby.config_file) == lobby
    assert SystemPlaces.of_config(Path("/etc/companions/companion.toml")) is None
    assert SystemPlaces.of_config(Path("/srv/companion/companion.toml")) is None


@pytest.mark.parametrize(
    ("credential", "source"),
    [
        ("/run/credentials/companion.service/secrets_mail", "/etc/companion/secrets/mail"),
        ("/run/credentials/companion@lobby.service/secrets_a_b", "/etc/companion@lobby/secrets/a_b"),
        ("/run/credentials/other.service/secrets_mail", None),
        ("/run/credentials/companion.service/mail", None),
        ("/srv/companion.service/secrets_mail", None),
    ],
)
def test_a_credential_is_made_from_a_file_in_the_folder_of_secrets(credential: str, source: str | None) -> None:
    assert find_credential_source(Path(credential)) == (None if source is None else Path(source))
