"""A server for the doctor to look at: everything is as it should be, until a test breaks one thing."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from regsvc.app.context import open_context
from regsvc.config.loader import load_config
from regsvc.config.sections import Config, ConfigError
from regsvc.core.i18n import Sentence
from regsvc.doctor.checkup import Checkup, examine, read_words
from regsvc.doctor.facts.facts import Facts
from regsvc.doctor.facts.host import Host, PortClosed
from regsvc.doctor.finding import FindingFields
from tests.support.authme.authme_database import AuthMeDatabase, MariaDBSchema, SqliteFile
from tests.support.authme.authme_tables import AuthMeTable, insert_player
from tests.support.authme.game_server import GameServer
from tests.support.daemon import to_toml

NOT_DURABLE = "database.not_durable"
"""The finding about a server that flushes nothing, or files in memory, as the tests' may be."""
RCON_PASSWORD = "a long one, 5f1c0e"


def port_closed(url: str, proxies: object = ()) -> bytes | None:
    raise PortClosed


HEALTHY_HOST = Host(
    user_id=lambda: 1000,
    free_bytes=lambda folder: 10**12,
    find_public_address=lambda: None,
    accepts_connections=lambda host, port: False,
    fetch=port_closed,
    can_listen_on=lambda host: True,
    find_mail_problem=lambda backend: None,
    find_chat_problems=lambda platform, now: [],
    find_role_problems=lambda guild: [],
)


class DoctorCase:
    """A game server, AuthMe's table and a config of ours. `sections` is the config, `host` what the doctor asks."""

    def __init__(self, directory: Path, game: GameServer, table: AuthMeTable) -> None:
        self.directory = directory
        self.game = game
        self.table = table
        self.host = HEALTHY_HOST
        self.state_dir = directory / "state"
        self.config_file = directory / "companion.toml"
        self.config_mode = 0o600
        self.sections: dict[str, dict[str, Any]] = {
            "server": {"base_url": "https://play.example.org", "state_dir": str(self.state_dir)},
            "game": {"directory": str(game.directory)},
            "mail": {"backend": "smtp", "host": "127.0.0.1", "security": "none", "sender": "noreply@example.org"},
        }
        directory.mkdir()
        game.write_properties(enable_rcon="true", rcon_password=RCON_PASSWORD)
        game.install_plugin("6.0.1")
        insert_player(table, username="olivia", realname="Olivia", password="x", regdate=1_600_000_000_000)

    @property
    def our_database(self) -> AuthMeDatabase:
        """Our own database, once `start_once` has created its tables."""
        if isinstance(self.table.database, MariaDBSchema):
            return self.table.database
        return SqliteFile(self.state_dir / "companion.db")

    def change(self, section: str, **keys: object) -> None:
        """Change keys of our config; None takes one out."""
        self.sections.setdefault(section, {}).update(keys)

    def change_host(self, **changes: Any) -> None:
        """Replace what the doctor asks of the machine."""
        self.host = replace(self.host, **changes)

    def read_config(self) -> Config:
        """The config as the process reads it. Raises `ConfigError`."""
        self.config_file.write_text(to_toml(self.sections), encoding="utf-8")
        self.config_file.chmod(self.config_mode)
        return load_config(self.config_file, {})

    def start_once(self) -> None:
        """Do what the first start does: create keys and tables, and record the database's location."""
        context = open_context(self.read_config())
        context.prepare()
        context.location.database.close()

    def examine(self) -> Checkup:
        """Return the doctor's report, without what it says about test data, which no power failure is to survive."""
        checkup = self.examine_durability()
        return replace(checkup, findings=tuple(each for each in checkup.findings if each.id != NOT_DURABLE))

    def examine_durability(self) -> Checkup:
        """Return the doctor's report, whole."""
        config: Config | ConfigError
        try:
            config = self.read_config()
        except ConfigError as error:
            config = error
        checkup = examine(Facts(config, self.host))
        for title in [finding.title for finding in checkup.findings if isinstance(finding.title, Sentence)]:
            assert title.template in read_words()["zh"]
        assert not [finding for finding in checkup.findings if finding.id == "doctor.check_failed"]
        return checkup

    def findings(self) -> list[FindingFields]:
        return list(self.examine().findings)

    def only_finding(self, id: str, *, beside: str = "") -> FindingFields:
        """The finding of this kind; AssertionError if there is another one, but for the kind `beside`, or none."""
        findings = [finding for finding in self.findings() if finding.id != beside]
        assert [finding.id for finding in findings] == [id], findings
        return findings[0]
