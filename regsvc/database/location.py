"""Location of our database and of AuthMe's: resolved from the config, recorded at the first start, then enforced."""

import hashlib
import json
import logging
import os
import ssl
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote

from peewee import Database, MySQLDatabase, SqliteDatabase

from plugin_bridge.authme.config import MAX_FILE_BYTES, AuthMeConfig, AuthMeConfigError, Backend, read_authme_config
from plugin_bridge.authme.mysql import MySqlPlayers
from plugin_bridge.authme.players import NoPlayers, Players
from plugin_bridge.authme.sqlite import SqlitePlayers
from plugin_bridge.server.files import read_bounded, require_regular_file
from plugin_bridge.server.versions import PluginJar
from regsvc.config.places import LOCATION_FILE
from regsvc.config.sections import Config, ConfigError
from regsvc.config.value_checks import split_database_url
from regsvc.core.addresses import is_loopback
from regsvc.core.clock import Clock
from regsvc.core.exceptions import EX_TEMPFAIL, StartupError
from regsvc.database.engine import ReadCommittedMySQL, open_database, open_mysql, open_sqlite
from regsvc.database.models import Installation

log = logging.getLogger(__name__)

OWN_FILE = "sqlite:companion.db"
"""Name of the location that `database.url = "auto"` means without a database server: a file in the state directory."""

_SERVER = "mysql:"

_HOST = "DataSource.mySQLHost, DataSource.mySQLPort"
_DATABASE = "DataSource.mySQLDatabase"
_LOGIN = "DataSource.mySQLUsername, DataSource.mySQLPassword"
_KEYS_OF_ERRORS = {1044: _DATABASE, 1045: _LOGIN, 1049: _DATABASE, 1698: _LOGIN, 2003: _HOST, 2005: _HOST}
_AUTHME_KEYS = {
    "DataSource.mySQLHost": "host",
    "DataSource.mySQLPort": "port",
    "DataSource.mySQLDatabase": "database",
    "DataSource.mySQLUsername": "user",
    "DataSource.mySQLPassword": "password",
    "DataSource.mySQLTablename": "table",
}
"""Keys of AuthMe's config about its connection, and ours that replace them."""
_AUTHME_CONFIG = "AuthMe's config.yml"
_KEPT_AUTHME = "authme-config.yml"
"""Copy of it in the state directory, as it was when it could last be used."""

COPYING = "copying to: "
COPIED = "copied to: "
MOVED = "moved to: "
"""Prefixes of `regsvc_installation.home` in a database that is being copied into, is copied, or was moved away from."""


@dataclass(frozen=True)
class DatabaseLocation:
    """Our database and AuthMe's table. `name` identifies the database among others; it holds no secret.

    `players_table`: AuthMe's table on our database server, as database.table; None: it is elsewhere, or there is none.
    """

    name: str
    database: Database
    players: Players
    players_table: str | None = None

    @property
    def file(self) -> Path | None:
        """Our SQLite file, which may not exist; None on a database server."""
        return Path(self.database.database) if isinstance(self.database, SqliteDatabase) else None

    @property
    def shown(self) -> str:
        """The name for people: with the absolute path of the file."""
        return self.name if self.file is None else f"sqlite:{self.file.absolute()}"


def read_authme(config: Config, *, or_kept: bool = False) -> AuthMeConfig | None:
    """Return AuthMe's config with our overrides, or None where there is no AuthMe. Raises `ConfigError`.

    `or_kept`: of a config.yml that cannot be used now, return what `keep_authme` kept, if anything.
    """
    if config.authme.enabled is False:
        return None
    path = config.authme_config_path
    overrides = config.authme.overrides
    try:
        if path is not None and path.exists():
            return _overridden(_read_installed_or_kept(path, config) if or_kept else _read_installed(path), config)
        if "backend" in overrides:
            return _overridden(AuthMeConfig(), config)
    except AuthMeConfigError as error:
        raise ConfigError(str(error)) from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    if config.authme.enabled is True:
        raise ConfigError(
            f"{config.file or 'default'}: [authme] enabled = true: there is no AuthMe config at {path}: set "
            "game.directory or authme.config."
        )
    return None


def _read_installed(path: Path) -> AuthMeConfig:
    """Read a config.yml, and the version of the plugin from the jar beside its folder. Raises `AuthMeConfigError`."""
    return replace(read_authme_config(path), version=_find_version(path))


def _read_installed_or_kept(path: Path, config: Config) -> AuthMeConfig:
    """Read a config.yml, or the copy of it as it was last usable. Raises `AuthMeConfigError` and OSError."""
    try:
        return _read_installed(path)
    except (AuthMeConfigError, OSError) as problem:
        copy = config.server.state_dir / _KEPT_AUTHME
        try:
            kept = replace(read_authme_config(copy), source=path, version=_find_version(path))
        except AuthMeConfigError:
            raise problem from None
        log.error("AuthMe's config.yml cannot be used; the values of before stay: %s", problem)
        return kept


def keep_authme(config: Config) -> None:
    """Copy AuthMe's config.yml to the state directory, for a start at which it cannot be used.

    AuthMe itself would refuse it then, and goes on with these values until its own next start. Blocking.
    """
    path, copy = config.authme_config_path, config.server.state_dir / _KEPT_AUTHME
    new = copy.with_suffix(".new")
    try:
        if path is None or config.authme.enabled is False or not path.exists() or not copy.parent.exists():
            return
        content = read_bounded(path, MAX_FILE_BYTES)
        if copy.exists() and read_bounded(copy, MAX_FILE_BYTES) == content:
            return
        new.unlink(missing_ok=True)
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123
            file.write(content)  # it holds a password
        with suppress(AuthMeConfigError):  # which is told where the file is read; the copy of before stays
            read_authme_config(new)
            new.replace(copy)
        new.unlink(missing_ok=True)
    except (OSError, ValueError) as problem:
        log.warning("AuthMe's config.yml could not be copied to %s: %s", copy, problem)


def has_kept_authme(config: Config) -> bool:
    """Return whether there is a copy of AuthMe's config.yml as it was last usable, which we may read."""
    return os.access(config.server.state_dir / _KEPT_AUTHME, os.R_OK)


def _find_version(path: Path) -> str | None:
    """Return the version of the plugin by the jar beside its folder."""
    return PluginJar(path.absolute().parent.parent).find_version()


def read_other_authmes(config: Config) -> dict[str, AuthMeConfig | AuthMeConfigError]:
    """Return AuthMe's configs on the game servers beside the main one, by name, or what is wrong with them. Blocking.

    Servers without a folder, or without AuthMe in it, are left out.
    """
    found: dict[str, AuthMeConfig | AuthMeConfigError] = {}
    for server in config.servers:
        path = server.authme_config_path
        try:
            if path is not None and path.exists():
                found[server.name] = _read_installed(path)
        except AuthMeConfigError as error:
            found[server.name] = error
        except OSError as error:
            found[server.name] = AuthMeConfigError(f"{path} cannot be read: {error.strerror}.")
    return found


def find_replacements(config: Config, authme_keys: str) -> str:
    """Return where our config replaces these keys of AuthMe's, or this section; "" if it does not."""
    written = [key.split(":")[0] for key in authme_keys.split(", ")]
    ours = [
        name
        for key, name in _AUTHME_KEYS.items()
        if name in config.authme.overrides and (key in written or key.startswith(f"{authme_keys}."))
    ]
    return ", ".join(config.place_of("authme", name) for name in ours)


def describe_login(config: Config, code: int) -> str:
    """Return where the settings are to which a database server answers with this error code; "" if none is to blame."""
    if code not in _KEYS_OF_ERRORS:
        return ""
    if config.database.url != "auto":
        return config.place_of("database", "url")
    keys = _KEYS_OF_ERRORS[code]
    return find_replacements(config, keys) or f"{config.authme_config_path or _AUTHME_CONFIG}: {keys}"


def location_warnings(authme: AuthMeConfig | None) -> Iterator[str]:
    """Yield sentences about where AuthMe's table is, which do not prevent a start."""
    is_shared = authme is not None and authme.backend in (Backend.MYSQL, Backend.MARIADB)
    if authme is not None and is_shared and authme.ssl_mode == "disable" and not is_loopback(authme.host):
        yield f"the connection to the database at {authme.host} is not encrypted: {authme.ssl_key} in AuthMe's config"


def _overridden(authme: AuthMeConfig, config: Config) -> AuthMeConfig:
    """Return AuthMe's config with our overrides. Raises `ConfigError`."""
    try:
        return authme.with_overrides(**config.authme.overrides)
    except AuthMeConfigError as error:
        raise ConfigError(f"{config.file or 'environment'}: {error}") from error


def resolve_location(config: Config, authme: AuthMeConfig | None) -> DatabaseLocation:
    """Return where our tables and AuthMe's are, without opening anything. Raises `ConfigError`."""
    location = _resolve(config, authme)
    if isinstance(location.database, ReadCommittedMySQL):
        location.database.causal_reads = config.database.causal_reads
    return location


def read_password(read_config: Callable[[], Config], location: DatabaseLocation) -> str | None:
    """Return the password that our config and AuthMe's now have for our login to the database at this location.

    None if they cannot be used, or lead elsewhere or to another login: that takes a restart.
    """
    try:
        config = read_config()
        found = resolve_location(config, read_authme(config))
    except ConfigError:  # logged where changes of the files are noticed
        return None
    ours, read = location.database, found.database
    if found.name != location.name or not isinstance(ours, MySQLDatabase) or not isinstance(read, MySQLDatabase):
        return None
    is_same_login = read.connect_params["user"] == ours.connect_params["user"]
    return str(read.connect_params["password"]) if is_same_login else None


def _resolve(config: Config, authme: AuthMeConfig | None) -> DatabaseLocation:
    config.require_secrets("database.url", "authme.password")
    if authme is not None and authme.backend_problem is not None:
        raise ConfigError(authme.backend_problem)
    is_shared = authme is not None and authme.backend in (Backend.MYSQL, Backend.MARIADB)
    if authme is not None and is_shared and "," in authme.host:
        raise ConfigError(
            f"AuthMe's mySQLHost names several servers ({authme.host}). Put a proxy such as HAProxy in front of "
            "them, and name that: both sides have to use the same one."
        )
    if config.database.url != "auto":
        return _configured_location(config, authme if is_shared else None, authme)
    database: Database
    if authme is not None and is_shared:
        database = _open_authmes_server(config, authme, authme.database)
        players: Players = MySqlPlayers(database, authme.table, authme.columns, lock_group=authme.lock_group)
        name = f"{_SERVER}{_canonical(authme.host)}:{authme.port}/{authme.database}"
        return DatabaseLocation(name, database, players, f"{authme.database}.{authme.table}")
    database = open_sqlite(config.server.state_dir / "companion.db", config.database.busy_timeout)
    return DatabaseLocation(OWN_FILE, database, _separate_players(config, authme))


def _configured_location(config: Config, shared: AuthMeConfig | None, authme: AuthMeConfig | None) -> DatabaseLocation:
    parts = split_database_url(config.database.url)
    if shared is None:
        database = open_database(config.database.url, config.database.busy_timeout)
        if authme is not None and isinstance(database, SqliteDatabase):
            authmes = authme.sqlite_file
            if Path(database.database).resolve() == authmes.resolve():
                raise ConfigError(
                    f"[database] url names {authmes}, which is AuthMe's own file: name another file, or set it to "
                    '"auto".'
                )
        return DatabaseLocation(location_name(config.database.url), database, _separate_players(config, authme))
    same_server = parts.scheme in ("mysql", "mariadb") and (
        _canonical(parts.hostname or "") == _canonical(shared.host) and (parts.port or 3306) == shared.port
    )
    if not same_server:
        raise ConfigError(
            "[database] url names another server than AuthMe's config.yml "
            f"({shared.host}:{shared.port}). Both databases change in one transaction: use the same server."
        )
    database = open_database(config.database.url, config.database.busy_timeout, _tls(shared))
    players = MySqlPlayers(database, shared.table, shared.columns, shared.database, shared.lock_group)
    name = location_name(config.database.url)
    return DatabaseLocation(name, database, players, f"{shared.database}.{shared.table}")


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
    """Return a TLS context as AuthMe's keys say, or None for no TLS.

    On loopback it would protect nothing: `mySQLUseSSL` is true by default, and most servers there have no certificate.
    One that is self-signed, which MariaDB's driver accepts where the server proves it by the password, is refused.
    """
    if is_loopback(authme.host) or authme.ssl_mode == "disable":
        return None
    context = ssl.create_default_context()
    context.check_hostname = authme.ssl_mode == "verify-full"
    if authme.ssl_mode == "trust":
        context.verify_mode = ssl.CERT_NONE
    return context


def _canonical(host: str) -> str:
    return "127.0.0.1" if is_loopback(host) else host.lower()


def location_name(url: str) -> str:
    """Return the name of the location at this URL; it holds no secret. Raises ValueError with a sentence."""
    parts = split_database_url(url)
    if parts.scheme == "sqlite":
        return f"sqlite:{unquote(parts.path.removeprefix('/'))}"
    return f"{_SERVER}{_canonical(parts.hostname or '')}:{parts.port or 3306}{unquote(parts.path)}"


class WrongDatabase(StartupError):
    """The database is not the one that this installation uses; `str()` says what to do."""


class GameFilesAway(WrongDatabase):
    """AuthMe's config, which says where our database is, is not there yet, as before a mount that comes late."""

    exit_status = EX_TEMPFAIL


def find_missing_authme(config: Config, authme: AuthMeConfig | None) -> str | None:
    """Return a sentence if AuthMe's config, which says what "auto" means, is not where it should be; else None."""
    path = config.authme_config_path
    if authme is not None or path is None or config.authme.enabled is False:
        return None
    missing = next((folder for folder in reversed(path.parents) if not folder.exists()), path)
    return f'{missing} is missing (not mounted yet?), and database.url = "auto" goes by AuthMe\'s config, {path}.'


def check_recorded_location(config: Config, authme: AuthMeConfig | None, location: DatabaseLocation) -> None:
    """Raise `WrongDatabase` if the first start recorded another location.

    Whether another address of a database server leads to the same database is known once it is open.
    """
    state_dir = config.server.state_dir
    recorded = read_recorded_location(state_dir)
    if recorded is not None and recorded["home"].startswith(_SERVER) and config.database.url == "auto":
        problem = find_missing_authme(config, authme)
        if problem is not None:
            raise GameFilesAway(
                f"{problem} This installation lives in {recorded['home']}: mount the folder of the game server, or "
                "correct game.directory; the next start succeeds then."
            )
    if recorded is not None and not _is_same(recorded["home"], location) and not is_other_address(recorded, location):
        raise _elsewhere(recorded, location, state_dir)


def is_other_address(recorded: dict[str, str], location: DatabaseLocation) -> bool:
    """Return whether the recorded location and this one are different names of databases on a server."""
    return recorded["home"] != location.name and recorded["home"].startswith(_SERVER) and location.file is None


def _elsewhere(recorded: dict[str, str], location: DatabaseLocation, state_dir: Path) -> WrongDatabase:
    place = _shown(recorded["home"], state_dir)
    return WrongDatabase(
        f"This installation lives in {place}, but the config now leads to {location.shown}. Users and reviews "
        f"would be left behind. Set database.url to {place}, "
        "or move everything: companion migrate --to URL (or --to auto)."
    )


def require_own_tables(state_dir: Path, location: DatabaseLocation) -> None:
    """Raise `WrongDatabase` if the database of an installation that has started before lost its file or its tables."""
    recorded = read_recorded_location(state_dir)
    if recorded is None:
        return
    is_there = location.file is None or location.file.exists()
    if is_there:
        location.database.connect(reuse_if_open=True)
    if not is_there or not location.database.table_exists("regsvc_installation"):
        raise tables_are_gone(recorded, location, state_dir)


def tables_are_gone(recorded: dict[str, str], location: DatabaseLocation, state_dir: Path) -> WrongDatabase:
    """Return what is wrong if the database of an installation that has started before has none of our tables."""
    if is_other_address(recorded, location):
        return _elsewhere(recorded, location, state_dir)
    return WrongDatabase(
        f"The database of the installation in {state_dir} is gone: {location.shown} has none of its tables. "
        f"Restore a backup (companion restore). To begin anew without users, remove {state_dir / LOCATION_FILE}."
    )


def _shown(name: str, state_dir: Path) -> str:
    """Return the name of a recorded location with the path of the file."""
    return f"sqlite:{state_dir.absolute() / 'companion.db'}" if name == OWN_FILE else name


def _is_same(recorded: str, location: DatabaseLocation) -> bool:
    """Return whether the location is the recorded one, whose path may be relative, as in the config of that time."""
    if recorded == location.name or recorded == OWN_FILE:
        return recorded == location.name
    path = recorded.removeprefix("sqlite:")
    return path != recorded and not path.startswith("/") and location.name.endswith(f"/{path}")


def bind_installation(state_dir: Path, location: DatabaseLocation, key_fingerprint: str, now: Clock) -> None:
    """Record this installation in the database and the state directory, or check that it is the one recorded there.

    Runs after the migrations. Raises `WrongDatabase`.
    """
    recorded = read_recorded_location(state_dir)
    found = Installation.get_or_none(Installation.id == 1)
    if found is None and recorded is not None:  # killed before there was a mark
        raise _interrupted_copy(location)
    row = found or _create_installation(
        installation_id=str(uuid.uuid4()),
        home=location.name,
        key_fingerprint=key_fingerprint,
        first_started_at=now(),
        players_table=location.players_table,
    )
    _check_mark(row, location, recorded)
    is_moved = recorded is not None and is_other_address(recorded, location)
    if recorded is not None and is_moved and recorded["installation_id"] != row.installation_id:
        raise _elsewhere(recorded, location, state_dir)
    other_server = describe_other_server(row.players_table, location)
    is_same_key = row.key_fingerprint == key_fingerprint
    if other_server is not None and (not is_same_key or has_table(location.database, str(row.players_table))):
        raise WrongDatabase(other_server)
    if not is_same_key:
        raise _other_key(row, location)
    if recorded is not None and recorded["installation_id"] != row.installation_id:
        raise WrongDatabase(
            "The database belongs to another installation than the state directory. "
            "Restore the database that belongs to it, or start with an empty state directory."
        )
    if recorded is not None and is_moved:
        log.warning("the database was %s until now; it is the same installation at %s", recorded["home"], location.name)
    if other_server is not None:
        log.warning(
            "AuthMe's table was %s until now, which is gone; it is %s", row.players_table, location.players_table
        )
    if location.players_table not in (None, row.players_table):
        Installation.update(players_table=location.players_table).execute()
    if recorded is None or recorded["home"] != location.name:
        record_location(state_dir, row.installation_id, location.name)


def _other_key(row: Installation, location: DatabaseLocation) -> WrongDatabase:
    is_same_server = location.file is not None or None not in (row.players_table, location.players_table)
    advice = f"If it is another game server's, {_give_own_database(location)} Otherwise, restore"
    return WrongDatabase(
        "The database was created with another installation key: codes and links in mails would not be valid. "
        f"{'Restore' if is_same_server else advice} the key of before (auth.installation_key, or installation.key "
        "in the state directory, as a backup has it); all daemons of one game server have the same."
    )


def describe_other_server(players_table: str | None, location: DatabaseLocation) -> str | None:
    """Return what to do about a database whose companion has another AuthMe table; None if both are not known."""
    ours = location.players_table
    if players_table is None or ours is None or players_table.casefold() == ours.casefold():  # a server may ignore case
        return None
    return (
        f"Another game server's companion uses this database (its AuthMe table is {players_table}, ours is "
        f"{location.players_table}). Instead of mixing their players, {_give_own_database(location)} If AuthMe's table "
        "of this server was renamed, give the old one another name, too."
    )


def has_table(database: Database, name: str) -> bool:
    """Return whether the database server has this table (database.table), as far as our login may see."""
    schema, _dot, table = name.partition(".")
    query = "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
    return bool(database.execute_sql(query, (schema, table)).fetchall())


def _give_own_database(location: DatabaseLocation) -> str:
    server = location.name.removeprefix(_SERVER).rpartition("/")[0]
    url = f"mysql://USER:PASSWORD@{server}/NAME"
    return (
        f'give this one its own: create a database, and set database.url = "{url}" (and an empty server.state_dir, if '
        "it has started here before)."
    )


def note_signing_key(fingerprints: Sequence[str]) -> None:
    """Record the fingerprint of the current signing key, the first of these; the others are those of previous keys.

    Warns if the daemon that started before on this database has a key that is none of them.
    """
    [recorded] = Installation.select(Installation.signing_key_fingerprint).tuples().first() or [None]
    if recorded == fingerprints[0]:
        return
    if recorded is not None and recorded not in fingerprints:
        log.warning(
            "the daemon that started before on this database signs access tokens with another key: if it still runs, "
            "sessions of one are refused by the other (give all of them the same auth.signing_key); if it was this "
            "one, everybody has to log in again"
        )
    Installation.update(signing_key_fingerprint=fingerprints[0]).execute()


def _create_installation(**columns: object) -> Installation:
    """Create the row of the installation, unless another process has just created it; return the one that is there."""
    Installation.insert(id=1, **columns).on_conflict_ignore().execute()
    row: Installation = Installation.get_by_id(1)
    return row


def _check_mark(row: Installation, location: DatabaseLocation, recorded: dict[str, str] | None) -> None:
    """Raise `WrongDatabase` for a database that was moved away from, or whose copy is not complete."""
    if row.home.startswith(MOVED):
        raise WrongDatabase(
            f"Everything in {location.shown} was {row.home}. Set database.url to that place; what is here is a copy "
            "from before the move."
        )
    if row.home.startswith((COPYING, COPIED)):
        if recorded is None or not row.home.startswith(COPIED):
            raise _interrupted_copy(location)
        # only the last step of the move is missing
        Installation.update(home=location.name).where(Installation.id == 1).execute()


def _interrupted_copy(location: DatabaseLocation) -> WrongDatabase:
    return WrongDatabase(
        f"A move into {location.shown}, or a restore, was interrupted. Run it again, or set database.url to the old "
        "place."
    )


def read_recorded_location(state_dir: Path) -> dict[str, str] | None:
    """Return the `installation_id` and the `home` (a location's name) of the first start, or None before it.

    Raises `WrongDatabase`.
    """
    file = state_dir / LOCATION_FILE
    try:
        require_regular_file(file)
        state = json.loads(file.read_text("utf-8"))
        return {name: str(state[name]) for name in ("installation_id", "home")}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise WrongDatabase(f"{file} cannot be read: {type(error).__name__}.") from error


def find_installation_fingerprint(state_dir: Path) -> str | None:
    """Return 16 hexadecimal digits that identify the installation and reveal nothing; None before its first start.

    Raises `WrongDatabase`.
    """
    recorded = read_recorded_location(state_dir)
    if recorded is None:
        return None
    return hashlib.sha256(f"companion: installation {recorded['installation_id']}".encode()).hexdigest()[:16]


def record_location(state_dir: Path, installation_id: str, name: str) -> None:
    """Record atomically that this installation uses the location of this name."""
    path = state_dir / LOCATION_FILE
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # with both keys in the config nothing was written yet
    new = path.with_suffix(".new")
    with new.open("w", encoding="utf-8") as file:
        json.dump({"installation_id": installation_id, "home": name}, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
