"""Which database is ours, and which is AuthMe's: resolved from the config, recorded at the first start, and kept."""

import json
import logging
import os
import ssl
import uuid
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from peewee import Database, MySQLDatabase, SqliteDatabase

from plugin_bridge.authme.config import AuthMeConfig, AuthMeConfigError, Backend, read_authme_config
from plugin_bridge.authme.players import NoPlayers, Players
from plugin_bridge.authme.sqlite import SqlitePlayers
from plugin_bridge.authme.table import MySqlPlayers
from regsvc.config.database_url import split_database_url
from regsvc.config.sections import Config, ConfigError
from regsvc.core.addresses import is_loopback
from regsvc.core.clock import Clock
from regsvc.database.engine import open_database, open_mysql, open_sqlite
from regsvc.database.models import Installation

log = logging.getLogger(__name__)

_STATE_FILE = "home.json"

COPYING = "copying to: "
COPIED = "copied to: "
MOVED = "moved to: "
"""What `regsvc_installation.home` begins with where everything is being moved to, or was moved away from."""


@dataclass(frozen=True)
class DatabaseLocation:
    """Our database and AuthMe's table. `name` tells this home from another one; it holds no secret."""

    name: str
    database: Database
    players: Players


def read_authme(config: Config) -> AuthMeConfig | None:
    """AuthMe's config with the overrides of ours; None where there is no AuthMe. Raises `ConfigError`."""
    if config.authme.enabled is False:
        return None
    path = config.authme_config_path
    overrides = config.authme.overrides
    try:
        if path is not None and path.exists():
            return read_authme_config(path).with_overrides(**overrides)
        if "backend" in overrides:
            return AuthMeConfig().with_overrides(**overrides)
    except AuthMeConfigError as error:
        raise ConfigError([str(error)]) from error
    except OSError as error:
        raise ConfigError([f"{path} cannot be looked at: {error.strerror}."]) from error
    if config.authme.enabled is True:
        raise ConfigError(
            ["[authme] enabled = true, but its config.yml is not found: set game.directory or authme.config."]
        )
    if path is not None:
        log.warning(
            "AuthMe's config is not at %s: nobody is let into the game. Name the game server's folder; if there is no "
            "AuthMe, say so: authme.enabled = false.",
            path,
        )
    return None


def resolve_location(config: Config, authme: AuthMeConfig | None) -> DatabaseLocation:
    """Where our tables are and where AuthMe's is. Opens nothing yet. Raises `ConfigError`."""
    if authme is not None and authme.backend == Backend.POSTGRESQL:
        raise ConfigError(["AuthMe's backend is POSTGRESQL, which is not supported yet: use MYSQL, MARIADB or SQLITE."])
    is_shared = authme is not None and authme.backend in (Backend.MYSQL, Backend.MARIADB)
    if config.database.url != "auto":
        return _configured_location(config, authme if is_shared else None, authme)
    database: Database
    if authme is not None and is_shared:
        database = _open_authmes_server(config, authme, authme.database)
        players: Players = MySqlPlayers(database, authme.table, authme.columns)
        return DatabaseLocation(f"mysql:{_canonical(authme.host)}:{authme.port}/{authme.database}", database, players)
    database = open_sqlite(config.server.state_dir / "companion.db", config.database.busy_timeout)
    return DatabaseLocation("sqlite:companion.db", database, _separate_players(config, authme))


def _configured_location(config: Config, shared: AuthMeConfig | None, authme: AuthMeConfig | None) -> DatabaseLocation:
    parts = split_database_url(config.database.url)
    if shared is None:
        database = open_database(config.database.url, config.database.busy_timeout)
        if authme is not None and isinstance(database, SqliteDatabase):
            _require_own_file(Path(database.database), authme.sqlite_file)
        return DatabaseLocation(location_name(config.database.url), database, _separate_players(config, authme))
    same_server = parts.scheme in ("mysql", "mariadb") and (
        _canonical(parts.hostname or "") == _canonical(shared.host) and (parts.port or 3306) == shared.port
    )
    if not same_server:
        raise ConfigError(
            [
                "[database] url names another server than AuthMe's config.yml "
                f"({shared.host}:{shared.port}). Both sides change in one transaction: use the same server."
            ]
        )
    database = open_database(config.database.url, config.database.busy_timeout, _tls(shared))
    players = MySqlPlayers(database, shared.table, shared.columns, schema=shared.database)
    return DatabaseLocation(location_name(config.database.url), database, players)


def _require_own_file(ours: Path, authmes: Path) -> None:
    if ours.resolve() == authmes.resolve():
        raise ConfigError(
            [f'[database] url names {authmes}, which is AuthMe\'s own file and stays so: name another one, or "auto".']
        )


def _separate_players(config: Config, authme: AuthMeConfig | None) -> Players:
    if authme is None:
        return NoPlayers()
    return SqlitePlayers(authme.sqlite_file, authme.table, authme.columns, config.database.busy_timeout)


def _open_authmes_server(config: Config, authme: AuthMeConfig, name: str) -> MySQLDatabase:
    return open_mysql(
        host=authme.host,
        port=authme.port,
        user=authme.user,
        password=authme.password,
        name=name,
        busy_timeout=config.database.busy_timeout,
        ssl=_tls(authme),
    )


def _tls(authme: AuthMeConfig) -> ssl.SSLContext | None:
    """TLS as AuthMe's keys say; on loopback there is nobody to hide from."""
    if is_loopback(authme.host):
        return None
    if not authme.use_ssl:
        log.warning("the connection to the database at %s is not encrypted: AuthMe's mySQLUseSSL is false", authme.host)
        return None
    context = ssl.create_default_context()
    context.check_hostname = False  # AuthMe's driver looks at the authority alone
    if not authme.check_server_certificate:
        context.verify_mode = ssl.CERT_NONE
    return context


def _canonical(host: str) -> str:
    return "127.0.0.1" if is_loopback(host) else host.lower()


def location_name(url: str) -> str:
    """What the home at this URL is called; holds no secret. Raises ValueError with a sentence."""
    parts = split_database_url(url)
    if parts.scheme == "sqlite":
        return f"sqlite:{unquote(parts.path.removeprefix('/'))}"
    return f"mysql:{_canonical(parts.hostname or '')}:{parts.port or 3306}{unquote(parts.path)}"


class WrongDatabase(Exception):
    """The database is not the one this installation lives in; `str()` says what to do."""


def check_recorded_location(state_dir: Path, home: DatabaseLocation) -> None:
    """Refuse to start elsewhere than at the first start. Raises `WrongDatabase`."""
    recorded = read_recorded_location(state_dir)
    if recorded is not None and recorded["home"] != home.name:
        raise WrongDatabase(
            f"This installation lives in {recorded['home']}, but the config now leads to {home.name}. "
            "Users and reviews would be left behind. Set database.url to the old place, "
            "or move everything: companion migrate --to URL (or --to auto)."
        )


def bind_installation(state_dir: Path, home: DatabaseLocation, key_fingerprint: str, now: Clock) -> None:
    """Record this installation in the database and in the state directory, or check that it is the one recorded.

    Runs after the migrations. Raises `WrongDatabase`.
    """
    recorded = read_recorded_location(state_dir)
    with home.database.atomic():
        row = Installation.get_or_none(Installation.id == 1)
        if row is None:
            row = Installation.create(
                id=1,
                installation_id=recorded["installation_id"] if recorded else str(uuid.uuid4()),
                home=home.name,
                key_fingerprint=key_fingerprint,
                first_started_at=now(),
            )
    _check_mark(row, home, recorded)
    if row.key_fingerprint != key_fingerprint:
        raise WrongDatabase(
            "The database was made with another installation key: mailed codes and links would not be valid. "
            "Copy the key of the first one (auth.installation_key, or installation.key in its state directory)."
        )
    if recorded is not None and recorded["installation_id"] != row.installation_id:
        raise WrongDatabase(
            "The database belongs to another installation than the state directory. "
            "Restore the database that belongs to it, or start with an empty state directory."
        )
    if recorded is None:
        record_location(state_dir, row.installation_id, home.name)


def _check_mark(row: Installation, home: DatabaseLocation, recorded: dict[str, str] | None) -> None:
    """Refuse a database that was left behind, or that not everything has arrived in. Raises `WrongDatabase`."""
    if row.home.startswith(MOVED):
        raise WrongDatabase(
            f"Everything in {home.name} was {row.home}. Set database.url to that place; what is here is a copy of "
            "how it was before."
        )
    if row.home.startswith((COPYING, COPIED)):
        if recorded is None or not row.home.startswith(COPIED):
            raise WrongDatabase(
                f"A move into {home.name}, or a restore, was interrupted. Run it again, or set database.url to the "
                "old place."
            )
        Installation.update(home=home.name).where(Installation.id == 1).execute()  # all but the last step was done


def read_recorded_location(state_dir: Path) -> dict[str, str] | None:
    """The `installation_id` and the `home` of the first start; None before it. Raises `WrongDatabase`."""
    try:
        state: dict[str, str] = json.loads((state_dir / _STATE_FILE).read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise WrongDatabase(f"{state_dir / _STATE_FILE} cannot be read: {type(error).__name__}.") from error
    return state


def record_location(state_dir: Path, installation_id: str, home: str) -> None:
    """From now on this installation lives there."""
    path = state_dir / _STATE_FILE
    new = path.with_suffix(".new")
    with new.open("w", encoding="utf-8") as file:
        json.dump({"installation_id": installation_id, "home": home}, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
