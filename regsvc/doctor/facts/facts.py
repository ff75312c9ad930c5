"""Facts about this installation, looked up when the first check needs them, and only once.

A property raises `FactUnavailable` if its fact cannot be determined; the reason is a finding of another check, which
reads the corresponding `…_problem`.
"""

import os
import re
from collections.abc import Callable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Final, TypeVar

from peewee import Database, MySQLDatabase

from plugin_bridge.authme.config import AuthMeConfig, AuthMeConfigError, Backend
from plugin_bridge.server.allowlist import AllowlistFile, Listing
from plugin_bridge.server.files import (
    ListedOperator,
    ListState,
    PropertiesFile,
    ServerFileError,
    ServerProperties,
    examine_list,
    read_operators,
    read_server_properties,
)
from plugin_bridge.server.operators import Operators
from plugin_bridge.server.player_uuids import PlayerUuids
from regsvc.accounts.chat.guild_roles import Guild
from regsvc.accounts.team import find_operators
from regsvc.allowlist.run import keeps_list
from regsvc.auth.keys import SigningKeys, UnusableKey, find_installation_key, find_signing_keys
from regsvc.config.host_sections import GameServer
from regsvc.config.layers import ENVIRONMENT_PREFIX, TEAM_CHATS
from regsvc.config.sections import AuthSection, Config, ConfigError
from regsvc.core.i18n import Sentence
from regsvc.core.text import name_key
from regsvc.database.location import (
    DatabaseLocation,
    find_replacements,
    has_kept_authme,
    read_authme,
    read_other_authmes,
    resolve_location,
)
from regsvc.database.schema import Difference
from regsvc.doctor.facts.databases import (
    AuthMeDatabase,
    OurDatabase,
    OwnTables,
    inspect_authme,
    inspect_ours,
    inspect_schema,
)
from regsvc.doctor.facts.host import Host, RunningDaemon, find_running_daemon
from regsvc.doctor.facts.player_table import PlayerRowCounts, PlayerTable
from regsvc.doctor.facts.readonly_db import DatabaseMigrating, DatabaseUnreadable
from regsvc.http.hops import Hint, read_hints
from regsvc.notifications.mail.backends import make_mail_backend
from regsvc.notifications.rcon import find_rcon_address
from regsvc.team_chat.service import make_platforms

_OUR_KEY: Final = re.compile(r"\[(\w+)\] (\w+)")
ALLOWLIST: Final = "whitelist.json"
_NAME: Final = re.compile(r"(^|, )([a-z_]+)")
T = TypeVar("T")
E = TypeVar("E", bound=Exception)


class Source(StrEnum):
    """Kinds of places where something can be fixed, as named in docs/doctor.md; the report names the file itself."""

    OURS = "companion.toml"
    AUTHME = "AuthMe’s config.yml"
    MESSAGES = "AuthMe’s messages folder"
    PROPERTIES = "server.properties"
    OPERATORS = "ops.json"
    ALLOWLIST = "whitelist.json"
    DATABASE = "the database"
    MACHINE = "this machine"


@dataclass(frozen=True)
class FixLocation:
    """Place to fix something: `key` is the key with the value it should have, a command, or empty."""

    source: Source
    key: str = ""


@dataclass(frozen=True)
class ServerFacts:
    """Facts about one game server. `name` is "" for the main one.

    `properties`: its server.properties, what is wrong with it, or None if its folder is not configured.
    """

    name: str
    game: GameServer
    properties: ServerProperties | ServerFileError | None


class FactUnavailable(Exception):
    """A fact that a check needs is unavailable. `str()` says which; empty if the check does not apply here."""


class Facts:
    """All facts. `config` may be the error that it has; `current_daemon` is set if the daemon examines itself."""

    def __init__(self, config: Config | ConfigError, host: Host, current_daemon: RunningDaemon | None = None) -> None:
        self._config = config
        self.host = host
        self._current_daemon = current_daemon

    # --- our config ---

    @property
    def config_problems(self) -> tuple[str, ...]:
        """Mistakes that make the config unusable; each is a sentence."""
        return self._config.problems if isinstance(self._config, ConfigError) else ()

    @property
    def config(self) -> Config:
        if isinstance(self._config, ConfigError):
            raise FactUnavailable("everything that depends on the config: it is broken")
        return self._config

    def list_places(self) -> dict[str, str]:
        """Return the config, the state directory and our database, by name; empty if the config is broken."""
        if self.config_problems:
            return {}
        file, state_dir = self.config.file, self.config.server.state_dir
        try:
            database = self.location.shown
        except Exception:  # a finding, or what one depends on
            database = "unknown"
        return {"config": str(file or "none"), "state directory": str(state_dir), "database": database}

    def describe(self, location: FixLocation) -> str:
        """Describe the location for this installation, with the file's actual path if it is known."""
        if not self.config_problems and (replaced := self._find_replacement(location)):
            return replaced
        file = None if self.config_problems else self._file_of(location.source)
        place = Sentence(location.source.value) if file is None else str(file)
        # where variables are all there is, as on a panel, there is no shell for commands either
        is_told = location.key and not (location.source is Source.MACHINE and self._is_from_variables)
        return Sentence("{place}: {key}", place=place, key=location.key) if is_told else place

    @property
    def _is_from_variables(self) -> bool:
        return isinstance(self._config, Config) and self._config.is_from_variables

    def _find_replacement(self, location: FixLocation) -> str:
        """Return the variables, or keys of ours, that are in force instead of the location; "" if there are none."""
        if location.source is Source.AUTHME:
            return find_replacements(self.config, location.key)
        section, key = _OUR_KEY.match(location.key), location.key
        if location.source is not Source.OURS or section is None:
            return ""
        is_set = f"{section[1]}.{section[2]}" in self.config.variables
        if not is_set and not self.config.is_from_variables:
            return ""
        keys = re.sub('["\\[\\]]', "", key[section.start(2) :].replace(" = ", "="))  # as variables are written
        return _NAME.sub(lambda name: f"{name[1]}{ENVIRONMENT_PREFIX}{section[1].upper()}_{name[2].upper()}", keys)

    def _file_of(self, source: Source) -> Path | None:
        config = self.config
        files = {
            Source.OURS: config.file,
            Source.AUTHME: config.authme_config_path,
            Source.PROPERTIES: config.game.server_properties_path,
            Source.OPERATORS: config.game.ops_path,
            Source.ALLOWLIST: config.game.directory / ALLOWLIST if config.game.directory else None,
        }
        return files.get(source)

    # --- the game server's files ---

    @cached_property
    def _authme(self) -> AuthMeConfig | ConfigError | None:
        return _result_or_error(lambda: read_authme(self.config), ConfigError)

    @property
    def authme_problem(self) -> str | None:
        """Why AuthMe's config cannot be used; None if it can, or if there is none."""
        return str(self._authme) if isinstance(self._authme, ConfigError) else None

    @property
    def authme_problem_since(self) -> datetime | None:
        """Since when AuthMe's config cannot be used, while the values from before stay in force."""
        path = self.config.authme_config_path
        return None if path is None or not has_kept_authme(self.config) else _written_at(path)

    @property
    def has_authme(self) -> bool:
        """Whether AuthMe has a config, usable or not."""
        return self._authme is not None

    @property
    def authme(self) -> AuthMeConfig:
        if isinstance(self._authme, ConfigError):
            raise FactUnavailable("AuthMe’s config and its table: the config cannot be read")
        if self._authme is None:
            raise FactUnavailable
        return self._authme

    @cached_property
    def other_authmes(self) -> dict[str, AuthMeConfig | AuthMeConfigError]:
        """AuthMe's configs on the other game servers, by name, or what is wrong with them."""
        return read_other_authmes(self.config)

    @cached_property
    def servers(self) -> list[ServerFacts]:
        """All game servers, the main one first."""
        return [ServerFacts(name, game, _read_properties(game)) for name, game in self.config.game_servers.items()]

    @property
    def properties(self) -> ServerProperties:
        """The main game server's server.properties."""
        properties = self.servers[0].properties
        if not isinstance(properties, ServerProperties):
            raise FactUnavailable
        return properties

    @property
    def gate_properties(self) -> ServerProperties | None:
        """The main game server's server.properties; None if they cannot be read."""
        properties = self.servers[0].properties
        return properties if isinstance(properties, ServerProperties) else None

    @property
    def keeps_list(self) -> bool:
        """Whether the game's allowlist follows decisions."""
        return keeps_list(self.config, self.gate_properties)

    @cached_property
    def listing(self) -> Listing | ServerFileError:
        """The game's allowlist, or what is wrong with it. Raises `FactUnavailable` if none is kept."""
        folder = self.config.game.directory
        if folder is None or not self.keeps_list:
            raise FactUnavailable
        return _result_or_error(AllowlistFile(folder / ALLOWLIST).read, ServerFileError)

    @cached_property
    def uuids(self) -> PlayerUuids:
        """UUIDs of players, as the main game server's files tell them."""
        return PlayerUuids(self.config.game.directory, PropertiesFile(self.config.game.server_properties_path))

    @property
    def can_kick(self) -> bool:
        """Whether players can be kicked: the remote console of every game server is in use."""
        return all(
            find_rcon_address(
                server.game, server.properties if isinstance(server.properties, ServerProperties) else None
            )
            for server in self.servers
        )

    @cached_property
    def listed_operators(self) -> Mapping[str, ListedOperator] | ServerFileError:
        """The entries of ops.json by lower-case name, or what is wrong with it."""
        path = self.config.game.ops_path
        return {} if path is None else _result_or_error(lambda: read_operators(path), ServerFileError)

    @cached_property
    def list_states(self) -> dict[Path, ListState]:
        """State of the game's lists that are in use and can be read, by path."""
        folder = self.config.game.directory
        allowlist = folder / ALLOWLIST if folder is not None and self.keeps_list else None
        found = {}
        for path in filter(None, (self.config.game.ops_path, allowlist)):
            with suppress(OSError, ValueError):  # findings of their own
                found[path] = examine_list(path)
        return found

    @property
    def operators_problem(self) -> str | None:
        """Problem with ops.json, and since when; None: there is none."""
        path, problem = self.config.game.ops_path, self.listed_operators
        if path is None or not isinstance(problem, ServerFileError):
            return None
        since = _written_at(path)
        if since is None:
            return str(problem)
        return Sentence("{problem} (since {since:%Y-%m-%d %H:%M} UTC)", problem=str(problem), since=since)

    @cached_property
    def operators(self) -> Operators:
        """The operators, as the daemon knows them."""
        if isinstance(self.listed_operators, ServerFileError):
            raise FactUnavailable("who is an operator: ops.json cannot be read")
        authme = self._authme if isinstance(self._authme, AuthMeConfig) else None
        operators = find_operators(self.config, authme, PropertiesFile(self.config.game.server_properties_path))
        side = self.our_side
        if isinstance(side, OurDatabase) and side.tables is not None:
            operators.remember(side.tables.operators)
        return operators

    @property
    def operator_levels(self) -> dict[str, int]:
        """Level of each operator by lower-case name."""
        return {key: operator.level for key, operator in self.operators.all().items()}

    # --- our state directory and database ---

    @property
    def state_dir(self) -> Path:
        """Our state directory. Raises `FactUnavailable` if we may not read it."""
        self._require_state_dir()
        return self.config.server.state_dir

    @cached_property
    def hints(self) -> tuple[Hint, ...]:
        """The hints of recent requests about the proxies in front, as the daemon stored them last."""
        try:
            return read_hints(self.state_dir)
        except OSError:
            raise FactUnavailable("what requests show about proxies: we may not read it") from None

    def _require_state_dir(self) -> None:
        folder = self.config.server.state_dir
        if folder.exists() and not folder.is_dir():
            raise FactUnavailable("the state directory: it is not a folder")
        if folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK):
            raise FactUnavailable("the state directory: we may not read it")

    @cached_property
    def _location(self) -> DatabaseLocation | ConfigError:
        return _result_or_error(
            lambda: resolve_location(self.config, self.authme if self.has_authme else None), ConfigError
        )

    @property
    def location_problem(self) -> str | None:
        """Why our database cannot be determined; None if it can."""
        return str(self._location) if isinstance(self._location, ConfigError) else None

    @property
    def location(self) -> DatabaseLocation:
        if isinstance(self._location, ConfigError):
            raise FactUnavailable("the databases: our database cannot be determined")
        return self._location

    @property
    def server_database(self) -> MySQLDatabase:
        """Our database, if it is on a database server."""
        database: Database = self.location.database
        if not isinstance(database, MySQLDatabase):
            raise FactUnavailable
        return database

    @property
    def own_sqlite_file(self) -> Path:
        """Our own SQLite file, which may not exist yet."""
        database: Database = self.location.database
        if isinstance(database, MySQLDatabase):
            raise FactUnavailable
        self._require_state_dir()  # the usual place of the file
        return Path(database.database)

    @property
    def is_shared(self) -> bool:
        """Whether AuthMe's table is on the same database server as ours."""
        return self.has_authme and self.authme.backend in (Backend.MYSQL, Backend.MARIADB)

    @cached_property
    def installation_key(self) -> bytes | UnusableKey | None:
        """The key that codes and links derive from, or what is wrong with it; None before the first start."""
        auth, state_dir = self._auth, self.state_dir
        return _result_or_error(lambda: find_installation_key(auth, state_dir), UnusableKey)

    @cached_property
    def signing_keys(self) -> SigningKeys | UnusableKey | None:
        """The keys that sign access tokens, or what is wrong with one; None before the first start."""
        auth, state_dir = self._auth, self.state_dir
        return _result_or_error(lambda: find_signing_keys(auth, state_dir), UnusableKey)

    @property
    def _auth(self) -> AuthSection:
        """The section with the keys. Raises `FactUnavailable` if a file of one is missing."""
        if {"auth.installation_key", "auth.signing_key", "auth.previous_keys"} & set(self.config.missing_secrets):
            raise FactUnavailable("the keys: their files are missing")
        return self.config.auth

    @property
    def sends_mail(self) -> bool:
        """Whether any mail backend is in use."""
        backend = self.config.mail.backend
        if backend == "auto":
            return self.has_authme and self.authme.mail.is_set_up
        return backend != "off"

    @cached_property
    def mail_problem(self) -> str | None:
        """Why no mail can be sent at the moment; None if it can. Raises `FactUnavailable` if mail is off."""
        if not self.sends_mail:
            raise FactUnavailable
        if {"mail.password", "mail.http_key"} & set(self.config.missing_secrets):
            raise FactUnavailable("the login at the mail server: the file of its password or key is missing")
        account = self.authme.mail if self.has_authme else None
        return self.host.find_mail_problem(make_mail_backend(self.config.mail, account, self.config.server.base_url))

    @cached_property
    def chat_problems(self) -> list[str]:
        """Problems that keep the team from deciding in its chats; each is a sentence."""
        if any(name.startswith(TEAM_CHATS) for name in self.config.missing_secrets):
            raise FactUnavailable("the team’s chats: the file of a token is missing")
        platforms, now = make_platforms(self.config.team_chats, self.config.base_url()), self.host.now()
        return [problem for it in platforms.values() for problem in self.host.find_chat_problems(it, now)]

    @cached_property
    def role_problems(self) -> list[str]:
        """Problems that keep roles on Discord from being known, or given; each is a sentence."""
        guild = Guild(self.config, self.config.base_url())
        if not guild.is_used:
            return []
        if not self.config.bot_token or "chat.bot_token" in self.config.missing_secrets:
            raise FactUnavailable("roles on Discord: the file of the bot’s token is missing")
        met = self._current_daemon.roles_problem if self._current_daemon is not None else ""
        return self.host.find_role_problems(guild) or ([met] if met else [])

    @cached_property
    def running_daemon(self) -> RunningDaemon | None:
        """The daemon that is running now; None if there is none."""
        return self._current_daemon or find_running_daemon(self.config, self.host)

    # --- the databases ---

    @cached_property
    def our_side(self) -> OurDatabase | DatabaseUnreadable:
        """Our database, or why it is unknown."""
        if not isinstance(self.location.database, MySQLDatabase):
            self._require_state_dir()
        names = {*self.listed_names, *self._joined}
        return inspect_ours(self.location, self.host.now, names, in_process=self._is_in_daemon)

    @cached_property
    def authme_side(self) -> AuthMeDatabase | DatabaseUnreadable | None:
        """AuthMe's database, or why it is unknown: what `our_side` is if that is the reason. None: no AuthMe."""
        ours, authme = self.our_side, self.authme if self.has_authme else None
        if authme is None:
            return None
        is_same_server, is_migrating = authme.backend != Backend.SQLITE, isinstance(ours, DatabaseMigrating)
        if isinstance(ours, DatabaseUnreadable) and is_same_server and not is_migrating:
            return ours
        return inspect_authme(self.location, authme, self.listed_names, in_process=self._is_in_daemon)

    @property
    def _joined(self) -> set[str]:
        """Lower-case names of players who were in the game lately, whose UUIDs matter to the list."""
        joined = self.uuids.joined if self.keeps_list and self.config.allowlist.uuids == "auto" else ()
        return {name_key(name) for name in joined if name.isprintable()}

    @property
    def uuid_in_doubt(self) -> str | None:
        """A user who joined with a UUID that contradicts the server's files, so that nobody is put on the list."""
        return self.uuids.find_doubt(self._joined & self.ours.users, self.uuids.family)

    @property
    def listed_names(self) -> Set[str]:
        """Lower-case names of operators in ops.json and our config; none where ops.json cannot be read."""
        listed = () if isinstance(self.listed_operators, ServerFileError) else self.listed_operators
        return {*listed, *map(name_key, self.config.game.operators)}

    @property
    def _is_in_daemon(self) -> bool:
        return self._current_daemon is not None

    @property
    def ours(self) -> OurDatabase:
        side = self.our_side
        if isinstance(side, DatabaseMigrating):
            raise FactUnavailable("our own tables: a process is migrating them; check again when it is done")
        if isinstance(side, DatabaseUnreadable):
            raise FactUnavailable("our own tables: the database cannot be read")
        return side

    @property
    def own_tables(self) -> OwnTables:
        """Our tables. Raises `FactUnavailable` also before the first start has created them."""
        tables = self.ours.tables
        if tables is None:
            raise FactUnavailable
        return tables

    @cached_property
    def schema_differences(self) -> list[Difference]:
        """Differences between our tables and what this version makes."""
        if self.ours.tables is None or self.ours.missing_rights:
            raise FactUnavailable
        found = inspect_schema(self.location, in_process=self._is_in_daemon)
        if isinstance(found, DatabaseUnreadable):
            raise FactUnavailable("our own tables: the database cannot be read")
        return found

    @property
    def players(self) -> AuthMeDatabase:
        side = self.authme_side
        if isinstance(side, DatabaseUnreadable):
            raise FactUnavailable("AuthMe’s table and the rights on it: its database cannot be read")
        if side is None:
            raise FactUnavailable
        return side

    @property
    def player_table(self) -> PlayerTable:
        """AuthMe's table. Raises `FactUnavailable` also if there is none, or if we may not read all of it."""
        table = self.players.table
        if table is None or "SELECT" in self.players.missing_rights:
            raise FactUnavailable
        return table

    @property
    def player_row_counts(self) -> PlayerRowCounts:
        rows = self.player_table.rows
        if rows is None:
            raise FactUnavailable(
                "the rows of AuthMe’s table: there are too many to count quickly, or columns are missing"
            )
        return rows


def _result_or_error(look: Callable[[], T], problem: type[E]) -> T | E:
    """Return the function's result, or the exception of this type that it raised."""
    try:
        return look()
    except problem as error:
        return error


def _written_at(path: Path) -> datetime | None:
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except OSError:
        return None


def _read_properties(game: GameServer) -> ServerProperties | ServerFileError | None:
    path = game.server_properties_path
    return None if path is None else _result_or_error(lambda: read_server_properties(path), ServerFileError)
