"""Settings of an installation, which a host decides on, and the files and folders that follow from them."""

import errno
import grp
import pwd
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from plugin_bridge.authme.config import AuthMeConfig, AuthMeConfigError, Backend, read_authme_config
from plugin_bridge.server.files import PropertiesFile
from regsvc.allowlist.run import keeps_list
from regsvc.cli.config_command import find_key, with_value
from regsvc.cli.shipped_files import read_shipped
from regsvc.config.host_sections import GameSection
from regsvc.config.layers import file_layer
from regsvc.config.places import LOCATION_FILE, SystemPlaces, list_configs
from regsvc.config.sections import Config, ConfigError
from regsvc.core.addresses import is_loopback
from regsvc.core.safe_paths import status_of
from regsvc.doctor.abandonable import call_within
from regsvc.users.gates import Gates, find_gate_problem

GAME_DIRECTORY: Final = "game.directory"
BASE_URL: Final = "server.base_url"
PORT: Final = "server.port"
REGISTRATION_OPEN: Final = "registration.open"
REGISTRATION_METHODS: Final = "registration.methods"
MAIL_BACKEND: Final = "mail.backend"
MAIL_PROVIDER: Final = "mail.http_provider"
MAIL_HOST: Final = "mail.host"
MAIL_PORT: Final = "mail.port"
MAIL_SECURITY: Final = "mail.security"
MAIL_USERNAME: Final = "mail.username"
MAIL_SENDER: Final = "mail.sender"
OPTIONS: Final = {
    GAME_DIRECTORY: "--game-dir",
    BASE_URL: "--base-url",
    PORT: "--port",
    MAIL_HOST: "--mail-host",
    MAIL_PORT: "--mail-port",
    MAIL_SECURITY: "--mail-security",
    MAIL_USERNAME: "--mail-username",
    MAIL_SENDER: "--mail-sender",
    REGISTRATION_METHODS: "--registration-methods",
}
"""Config keys that have an option of `companion install`."""
FIRST_PORT: Final = 8080
AUTHME: Final = Path("plugins/AuthMe")
_LOOKUP_SECONDS: Final = 5.0
_USUAL_FOLDERS: Final = ("srv/*", "srv/*/*", "home/*", "home/*/*", "opt/*", "opt/*/*", "var/lib/*", "var/opt/*")


class InstallProblem(Exception):
    """The command cannot go on, and has written and removed nothing; `str()` says what to do.

    `status` is the exit status: 1, or 2 for an option that is missing or wrong.
    """

    def __init__(self, sentence: str, status: int = 1) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class Settings:
    """`values` are TOML values by "section.key"; `user` is the system user that runs the companion.

    `mail_password` is the key of the service where that sends the mails. `has_backups`: whether the timer makes
    backups; None leaves it as it is.
    """

    places: SystemPlaces
    user: str
    values: Mapping[str, object]
    mail_password: str | None = field(default=None, repr=False)
    has_backups: bool | None = None

    @property
    def game_directory(self) -> Path:
        return self.places.config_file.parent / str(self.values[GAME_DIRECTORY])

    @property
    def state_dir(self) -> Path:
        return state_dir_of(self.places, self.values)


def parse_setting(key: str, written: str) -> object:
    """Return the TOML value of a text that was typed. Raises ValueError with a sentence."""
    declared = find_key(key)
    value, _remarks = declared.read(written, is_typed=True)  # of the quotes that a shell or a file has left
    declared.parse(value)
    return value


def parse_option(key: str, written: str) -> object:
    """Return the TOML value of an option's text. Raises `InstallProblem`."""
    try:
        return parse_setting(key, written)
    except ValueError as error:
        raise InstallProblem(f"{OPTIONS[key]} {written}: {error}.", status=2) from None


def read_values(config_file: Path, text: str | None = None) -> dict[str, object]:
    """Return what a config, or this text, sets, by "section.key". Raises `ConfigError` for a broken config."""
    tables = file_layer(config_file, text).tables
    return {f"{section}.{name}": value for section, table in tables.items() for name, value in table.items()}


def state_dir_of(places: SystemPlaces, values: Mapping[str, object]) -> Path:
    """Return the state directory: that in the config, relative to it, or the one that follows from the name."""
    configured = values.get("server.state_dir")
    return places.config_file.parent / str(configured) if configured else places.state_dir


def help_of(key: str) -> str:
    """Return the help text of a key, to follow a colon."""
    text = str(find_key(key).help).rstrip(".")
    return text[0].lower() + text[1:]


def find_game_directory(instance: str | None) -> Path | None:
    """Return the folder of a game server with AuthMe: the only one, or the one named like the instance."""
    found = sorted({folder for pattern in _USUAL_FOLDERS for folder in _list_matches(pattern)})
    named = [folder for folder in found if folder.name == instance]
    candidates = named or found
    return candidates[0] if len(candidates) == 1 else None


def _list_matches(pattern: str) -> Iterator[Path]:
    with suppress(OSError):
        yield from (path.parents[1] for path in Path("/").glob(f"{pattern}/{AUTHME}"))


def find_owner(game_directory: Path) -> str | None:
    """Return the user who owns AuthMe's folder, or the game server's; None for unknown users."""
    for folder in (game_directory / AUTHME, game_directory):
        with suppress(OSError, KeyError):
            return pwd.getpwuid(status_of(folder).st_uid).pw_name
    return None


def describe_roots_game(game_directory: Path) -> str:
    """Return what to do where the game runs as root.

    The game as root can write files of any owner, and SQLite gives the journals that root makes to the owner of the
    database, so that both can use AuthMe's file. An allowlist is replaced in the game's own folder: its owner could
    plant a plugin there, which root would run.
    """
    told = (
        f"the game in {game_directory} belongs to root, and so runs as root. As root, one hole in the companion, a web "
        "service, would open the whole machine."
    )
    if keeps_list_of(game_directory):
        return (
            f"{told} Its allowlist is in the folder from which root loads plugins, so a user for the companion alone "
            "is no help: give the game a user of its own (chown -R, and User= of its unit), then: companion install"
        )
    give = f"chown -R companion: {game_directory / AUTHME}; " if writes_authme_file(game_directory) else ""
    return (
        f"{told} Let it have a user of its own, which the game as root does not notice: "
        f"useradd --system companion; {give}companion install --user companion"
    )


def writes_authme_file(game_directory: Path) -> bool:
    """Return whether AuthMe's table is a file in its folder, or may be."""
    try:
        return read_authme_config(game_directory / AUTHME / "config.yml").backend == Backend.SQLITE
    except (OSError, AuthMeConfigError):
        return True


def find_mail_account(game_directory: Path) -> str | None:
    """Return the address of AuthMe's own mail account, None if it has none."""
    with suppress(OSError, AuthMeConfigError):
        mail = read_authme_config(game_directory / AUTHME / "config.yml").mail
        return mail.address if mail.is_set_up else None
    return None


def find_other_server(etc: Path, own_config: Path, key: str, value: object) -> Path | None:
    """Return the config of another server below `etc` that has this value, too; "" and 0 are no such value."""
    for config, values in _list_configs(etc).items():
        if value and config != own_config and values.get(key) == value:
            return config
    return None


def find_free_port(etc: Path) -> int:
    """Return the first port from 8080 that nothing listens on and no config of the companion below `etc` names."""
    taken = {values.get(PORT, FIRST_PORT) for values in _list_configs(etc).values()}
    return next(port for port in range(FIRST_PORT, 65536) if port not in taken and is_free(port))


def _list_configs(etc: Path) -> dict[Path, dict[str, object]]:
    """Return the values of every server's config that can be read, by file."""
    found = {}
    for config in list_configs(etc):
        with suppress(ConfigError):
            found[config] = read_values(config)
    return found


def is_free(port: int) -> bool:
    """Return whether nothing listens on this port of this machine."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            return error.errno != errno.EADDRINUSE
    return True


def keeps_list_of(game_directory: Path) -> bool:
    """Return whether the game's allowlist is kept by default: its server.properties has white-list=true."""
    config = Config(game=GameSection(directory=game_directory))
    return keeps_list(config, PropertiesFile(game_directory / "server.properties").current)


def describe_gate(game_directory: Path) -> str:
    """Return how approved users will get into this game, or that they will not, and what to do."""
    if problem := _find_gate_problem(game_directory):
        return f"warning: {' '.join(problem)}"
    gates = Gates((game_directory / AUTHME).is_dir(), lambda: keeps_list_of(game_directory))
    return f"approved users get in by: {gates}"


def _find_gate_problem(game_directory: Path) -> tuple[str, str] | None:
    """Return why approvals will let nobody into this game, and what to do; None if they will."""
    return find_gate_problem(
        Config(game=GameSection(directory=game_directory)),
        PropertiesFile(game_directory / "server.properties").current,
        has_authme=(game_directory / AUTHME).is_dir(),
        keeps_list=keeps_list_of(game_directory),
    )


def command_of(places: SystemPlaces) -> str:
    """Return the command that works on this installation: `companion`, or `companion -i NAME`."""
    program, _at, instance = places.name.partition("@")
    return f"{program} -i {instance}" if instance else program


def list_steps(settings: Settings) -> list[str]:
    """Return what installing leaves to the host, a line for each, as far as it is not seen to be done."""
    return [*_list_web_steps(settings), *_list_game_steps(settings.game_directory), *_list_mail_steps(settings)]


def _list_web_steps(settings: Settings) -> Iterator[str]:
    base_url = str(settings.values.get(BASE_URL, ""))
    host = urlsplit(base_url).hostname or ""
    if not host or is_loopback(host):
        return
    try:
        call_within(_LOOKUP_SECONDS, partial(socket.getaddrinfo, host, None))
    except (OSError, UnicodeError):  # that it takes too long is one, too
        yield f"DNS: {host} is not known; let it point to this machine"
    if base_url.startswith("https:") and "server.tls_cert_file" not in settings.values:
        samples = f"{settings.places.config_file.parent / 'proxy'} (Caddyfile; or nginx-http.conf, then nginx.conf)"
        yield f"web server: use a sample in {samples}, so that {base_url} leads here"


def _list_game_steps(game_directory: Path) -> Iterator[str]:
    if problem := _find_gate_problem(game_directory):
        yield problem[1]
    properties = PropertiesFile(game_directory / "server.properties").current
    has_rcon = properties is not None and properties.rcon_enabled and properties.rcon_password != ""
    with suppress(OSError, AuthMeConfigError):
        if keys := [*_list_authme_keys(read_authme_config(game_directory / AUTHME / "config.yml"), has_rcon)]:
            yield f"{game_directory / AUTHME / 'config.yml'}: {', '.join(keys)}"
    if properties is not None and not has_rcon:
        yield f"{game_directory / 'server.properties'}: enable-rcon=true and a long rcon.password, its port blocked"


def _list_authme_keys(authme: AuthMeConfig, has_rcon: bool) -> Iterator[str]:
    """Yield the keys of AuthMe's config that have another value than docs/install.md gives them."""
    if authme.caching:
        yield "DataSource.caching: false"
    if authme.registration_enabled:
        yield "settings.registration.enabled: false"
    if not authme.kick_non_registered:
        yield "settings.restrictions.kickNonRegistered: true"
    if not has_rcon and authme.sessions_enabled:
        yield "settings.sessions.enabled: false"
    if not has_rcon and authme.premium_enabled:
        yield "settings.enablePremium: false"
    if authme.unrestricted_names:
        yield "settings.unrestrictions.UnrestrictedName: []"
    if authme.bedrock_auto_login:
        yield "3rdPartyFeature.features.bedrockAutoLogin: false"


def _list_mail_steps(settings: Settings) -> Iterator[str]:
    if settings.values.get(REGISTRATION_OPEN) is False:
        yield f"registration is closed; to open it: {command_of(settings.places)} config set {REGISTRATION_OPEN} true"


UNITS: Final = Path("/etc/systemd/system")
PACKAGED_UNITS: Final = (Path("/usr/lib/systemd/system"), Path("/lib/systemd/system"))
_DROP_IN_HEADER: Final = "# Written by `companion install`. Put lines of your own into another file: systemctl edit."
_PROGRAM: Final = r"/opt/companion/\S+"
_SAMPLE_ADDRESS: Final = "127.0.0.1:8080"
_SAMPLE_HOST: Final = "play.example.org"
_SAMPLE_PATH: Final = "/reg"

NEW_CONFIG: Final = """\
# The config of the companion: the keys of this server. All others have their defaults.
# All keys:   companion docs conf/companion.toml
# To set one: companion config set KEY VALUE
"""


def fill_config(text: str, values: Mapping[str, object]) -> str:
    """Return a config with these values by "section.key"; those that are "" are unset. Raises `ConfigError`."""
    present = read_values(Path(), text)
    for key, value in values.items():
        if present.get(key) != value and (value != "" or key in present):
            text = with_value(text, key, None if value == "" else value)
    return text


@dataclass(frozen=True)
class Target:
    """A file or, without `content`, a folder. `path` is that of the installed system.

    `sample` is the shipped text that the content was made from: only what differs is shown. `is_adapted`: it was made
    from what is there, edited by the host.
    """

    path: Path
    mode: int
    owner: str = "root"
    group: str = "root"
    content: str | None = None
    sample: str | None = None
    is_secret: bool = False
    is_adapted: bool = False


def list_targets(
    settings: Settings, program: list[str], root: Path, config: str | None, *, is_edited: bool = False
) -> Iterator[Target]:
    """Yield everything that an installation consists of, folders before what is in them.

    `program` is the command that runs the companion; `config` the text of the config that is there, which the host may
    have edited. The unit is left out where a package has installed it. Raises `ConfigError` if that config cannot be
    changed.
    """
    places = settings.places
    group = grp.getgrgid(pwd.getpwnam(settings.user).pw_gid).gr_name
    folder = places.config_file.parent
    yield Target(folder, 0o755)
    config = config or NEW_CONFIG
    text = fill_config(config, _config_values(settings))
    yield Target(places.config_file, 0o640, group=group, content=text, sample=config, is_adapted=is_edited)
    yield Target(places.secrets_dir, 0o700)
    if settings.mail_password is not None:
        file = places.secrets_dir / _mail_secret(settings)
        yield Target(file, 0o600, content=f"{settings.mail_password}\n", is_secret=True)
    yield Target(settings.state_dir, 0o700, owner=settings.user, group=group)
    yield Target(places.backups, 0o700, owner=settings.user, group=group)
    yield Target(folder / "proxy", 0o755)
    for name in ("Caddyfile", "nginx-http.conf", "nginx.conf"):
        shipped = read_shipped(f"packaging/proxy/{name}")
        filled = _fill_proxy_sample(shipped, settings)
        yield Target(folder / "proxy" / name, 0o644, content=filled, sample=shipped)
    for unit in shared_units(places):
        if not any((root / path.relative_to("/") / unit.name).exists() for path in PACKAGED_UNITS):
            shipped = read_shipped(f"systemd/{unit.name}")
            yield Target(unit, 0o644, content=shipped, sample=shipped)
    own_lines = {
        places.unit: [
            *(
                "[Unit]",
                f"RequiresMountsFor={_quoted(str(settings.game_directory))} {_quoted(str(settings.state_dir))}",
            ),
            *("[Service]", f"User={settings.user}"),
            *_exec_lines(places.unit, program),
            *_writable_folders(settings),
        ],
        places.backup_unit: [*_backup_source(settings), *_exec_lines(places.backup_unit, program)],
    }
    for name, lines in own_lines.items():
        drop_in = drop_in_file(name)
        yield Target(drop_in.parent, 0o755)
        yield Target(drop_in, 0o644, content="\n".join([_DROP_IN_HEADER, *lines, ""]))


def shared_units(places: SystemPlaces) -> list[Path]:
    """Return the paths of the units: daemon, backup and its timer. All servers of many share templates."""
    names = (places.unit, places.backup_unit, places.backup_timer)
    return [UNITS / _unit_name(name) for name in names]


def drop_in_file(unit: str) -> Path:
    """Return the path of the lines of a unit that are this host's, and this server's alone."""
    return UNITS / f"{unit}.d" / "install.conf"


def is_template(unit: Path) -> bool:
    """Return whether the unit is for many servers."""
    return unit.stem.endswith("@")


def _unit_name(unit: str) -> str:
    """Return the name of the unit's file: that of the template for one of many servers."""
    return re.sub(r"@.*\.", "@.", unit)


def _config_values(settings: Settings) -> dict[str, object]:
    values = dict(settings.values)
    if settings.mail_password is not None:
        name = _mail_secret(settings)
        key = "mail.http_key_file" if name == "mail_key" else "mail.password_file"
        values[key] = f"/run/credentials/{settings.places.unit}/secrets_{name}"
    return values


def _mail_secret(settings: Settings) -> str:
    """Return the name of the file with the mail account's password, or the service's key."""
    return "mail_key" if settings.values.get(MAIL_BACKEND) == "http" else "mail_password"


def _fill_proxy_sample(text: str, settings: Settings) -> str:
    """Return a proxy sample with this installation's host name, port and path."""
    address = urlsplit(str(settings.values[BASE_URL]))
    host = address.hostname or _SAMPLE_HOST
    text = below_path(text, address.path) if address.path else text
    port = settings.values.get(PORT, _SAMPLE_ADDRESS.rpartition(":")[2])
    own_lines = [
        line if line.startswith("#") else line.replace(_SAMPLE_ADDRESS, f"127.0.0.1:{port}").replace(_SAMPLE_HOST, host)
        for line in text.splitlines()
    ]
    return "\n".join(own_lines) + "\n"


def below_path(text: str, path: str) -> str:
    """Return a proxy sample that takes the path of `server.base_url` off."""
    lines = re.sub(r"^(\s*)#(?=(?:rewrite|redir|uri) )", r"\1", text, flags=re.MULTILINE)
    return lines.replace(_SAMPLE_PATH, path)


def _exec_lines(unit: str, program: list[str]) -> list[str]:
    """Return the unit's commands with the program where it is; an empty line before them discards the unit's own."""
    here = " ".join(_quoted(word) for word in program)
    lines = re.findall(r"^Exec(?:Start|Reload)=.*$", read_shipped(f"systemd/{_unit_name(unit)}"), re.MULTILINE)
    keys = dict.fromkeys(line.partition("=")[0] for line in lines)
    return [*(f"{key}=" for key in keys), *(re.sub(_PROGRAM, lambda found: here, line) for line in lines)]


def _backup_source(settings: Settings) -> list[str]:
    """Return what the backup's unit says of the state directory, which it expects where the unit's name says."""
    if settings.state_dir == settings.places.state_dir:
        return ["[Service]"]
    recorded = str(settings.state_dir / LOCATION_FILE).replace("%", "%%")
    # the folder for backups was made along with this file
    return ["[Unit]", "ConditionPathExists=", f"ConditionPathExists={recorded}", "[Service]", "ExecStartPre="]


def _writable_folders(settings: Settings) -> list[str]:
    folders = [f"-{settings.game_directory / AUTHME}"] if writes_authme_file(settings.game_directory) else []
    if keeps_list_of(settings.game_directory):  # a new allowlist takes the place of the old one, in the folder itself
        folders.append(f"-{settings.game_directory}")
    if settings.state_dir != settings.places.state_dir:
        folders.append(str(settings.state_dir))
    url = str(settings.values.get("database.url", ""))
    if url.startswith("sqlite:////"):
        folders.append(f"-{Path(unquote(url.removeprefix('sqlite:///'))).parent}")
    return ["ReadWritePaths=", *(f"ReadWritePaths={_quoted(folder)}" for folder in folders)]


def _quoted(word: str) -> str:
    """Return a word of a unit's line: quoted where needed, without specifiers."""
    escaped = word.replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if re.search(r'[\s"\'\\;]', word) else escaped
