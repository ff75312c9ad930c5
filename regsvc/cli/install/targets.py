"""Files and folders of an installation, as they should be."""

import grp
import pwd
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from regsvc.cli.config_command import with_value
from regsvc.cli.install.settings import (
    AUTHME,
    BASE_URL,
    MAIL_BACKEND,
    PORT,
    Settings,
    keeps_list_of,
    read_values,
    writes_authme_file,
)
from regsvc.cli.shipped_files import read_shipped
from regsvc.config.places import LOCATION_FILE, SystemPlaces

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
