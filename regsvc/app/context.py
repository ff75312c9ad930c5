"""Application context: config, database, AuthMe's table, keys and operators."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from peewee import PeeweeException

from plugin_bridge.authme.config import AuthMeConfig
from plugin_bridge.server.files import PropertiesFile
from plugin_bridge.server.operators import Operators
from plugin_bridge.server.player_uuids import PlayerUuids
from regsvc.accounts.team import find_operators, remember_operators
from regsvc.allowlist.run import keeps_list
from regsvc.auth.keys import Keys, fingerprint, load_keys
from regsvc.config.sections import AuthSection, Config
from regsvc.core import clock
from regsvc.core.clock import Clock
from regsvc.core.exceptions import StartupError
from regsvc.database.engine import OwnSqlite, error_sentence, is_config_wrong, is_retryable, is_unreachable
from regsvc.database.lease import instance_id
from regsvc.database.location import (
    DatabaseLocation,
    bind_installation,
    check_recorded_location,
    describe_login,
    location_warnings,
    note_signing_key,
    read_authme,
    require_own_tables,
    resolve_location,
)
from regsvc.database.migrator import migrate
from regsvc.database.models import bind_models
from regsvc.users.gates import find_gate_problem

LoadKeys = Callable[[AuthSection, Path], Keys]

log = logging.getLogger(__name__)


class DatabaseUnusable(StartupError):
    """The database is reachable but cannot be used; `str()` says why."""


@dataclass(frozen=True)
class AppContext:
    """Config, database, AuthMe's table, keys and operators. No connection is open yet."""

    config: Config
    authme: AuthMeConfig | None
    location: DatabaseLocation
    keys: Keys
    operators: Operators
    properties_files: Mapping[str, PropertiesFile]
    """The server.properties of each game server (`Config.game_servers`)."""
    uuids: PlayerUuids
    """The main game server's UUIDs of players."""
    now: Clock

    @property
    def gate_problem(self) -> str | None:
        """Why approvals let nobody in, and what to do; None if they do let users in."""
        known, config = self.properties_files[""].current, self.config
        is_kept = keeps_list(config, known)
        problem = find_gate_problem(config, known, has_authme=self.authme is not None, keeps_list=is_kept)
        return None if problem is None else " ".join(problem)

    def level_of(self, username: str) -> int:
        """Return the operator level; 0 for others, and for operators below `auth.min_operator_level`."""
        return self._if_enough(self.operators.level_of(username))

    def protected_level_of(self, username: str) -> int:
        """Return the operator level as `level_of`, also of a name whose op AuthMe may hold."""
        return self._if_enough(self.operators.protected_level_of(username))

    def is_operator(self, username: str) -> bool:
        """Return whether the name belongs to an operator, as far as others see it."""
        return self.protected_level_of(username) > 0

    def _if_enough(self, level: int) -> int:
        return level if level >= self.config.auth.min_operator_level else 0

    def prepare(self) -> list[str]:
        """Migrate the database and bind this installation to it. Blocking.

        Returns the names of the applied migrations. Raises `UnusableSchema`, `WrongDatabase`, `DatabaseUnusable`, and
        what a repetition may mend: peewee's exceptions while the database is unreachable, and `MigrationRunning`.
        """
        database, server = self.location.database, self.config.server
        try:
            require_own_tables(server.state_dir, self.location)
            database.connect(reuse_if_open=True)
            applied = migrate(database, self.now, instance_id(server.state_dir, server.instance))
            bind_installation(
                self.config.server.state_dir, self.location, fingerprint(self.keys.installation_key), self.now
            )
            if isinstance(database, OwnSqlite):
                database.may_create = False
            remember_operators(self.operators, self.uuids)
        except PeeweeException as error:
            if not is_config_wrong(error) and (is_unreachable(error) or is_retryable(error)):
                raise
            login = describe_login(self.config, error.args[0] if error.args else 0)
            advice = f"Check {login}." if login else "Run `companion doctor` to see what it lacks."
            raise DatabaseUnusable(
                f"The database ({self.location.shown}) cannot be used: {error_sentence(error)}. {advice}"
            ) from error
        return applied

    def note_signing_key(self) -> None:
        """Record the signing key of a daemon that starts, and warn if others use another one. Blocking."""
        note_signing_key(self.keys.signing.fingerprints)


def open_context(config: Config, load: LoadKeys = load_keys, now: Clock = clock.now) -> AppContext:
    """Read the files that the config names; `load` returns the keys, and may create them.

    Raises `ConfigError`, `UnusableKey`, `WrongDatabase`.
    """
    config.require_secrets("auth.installation_key")
    authme = read_authme(config, or_kept=True)
    location = resolve_location(config, authme)
    for warning in location_warnings(authme):
        log.warning("%s", warning)
    keys = load(config.auth, config.server.state_dir)
    check_recorded_location(config, authme, location)
    bind_models(location.database)
    properties = {name: PropertiesFile(game.server_properties_path) for name, game in config.game_servers.items()}
    operators = find_operators(config, authme, properties[""])
    uuids = PlayerUuids(config.game.directory, properties[""])
    return AppContext(config, authme, location, keys, operators, properties, uuids, now)
