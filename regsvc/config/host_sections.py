"""Config sections of the server itself, its databases, the game server and everything that is sent."""

# ruff: noqa: RUF009 - every call among the defaults makes a dataclass field

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from regsvc.config import key_types as key
from regsvc.config import value_checks as check
from regsvc.config.key_types import IpNetwork, Switch, TrustedProxies
from regsvc.core.units import ChangeLimit, RateLimit

OnBan = Literal["kick", "ban", "none"]
Backend = Literal["", "SQLITE", "MYSQL", "MARIADB"]
ExistingPlayers = Literal["approved", "pending"]
NewPlayers = Literal["auto", "approved", "pending"]
OnPlayerRemoved = Literal["respect", "restore"]
UnapprovedPlayers = Literal["lock", "report"]
ConflictWinner = Literal["plugin", "companion"]
MailBackendKind = Literal["auto", "smtp", "folder", "off", "log"]
MailSecurity = Literal["starttls", "tls", "none"]
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["auto", "plain", "json"]

# The keys of authme.columns; an empty name switches the optional ones off, as in AuthMe's own config.
AUTHME_COLUMNS = (
    *("id", "username", "realname", "password", "salt", "ip", "last_login", "register_date", "register_ip"),
    *("email", "is_logged", "has_session", "totp", "uuid", "premium_uuid", "x", "y", "z", "world", "yaw", "pitch"),
)
OPTIONAL_AUTHME_COLUMNS = ("salt", "uuid", "premium_uuid")

AUTHME_RELEASES = "https://api.github.com/repos/AuthMe/AuthMeReloaded/releases/latest"


@dataclass(frozen=True)
class ServerSection:
    """Where the companion listens, and how it introduces itself to players."""

    host: str = key.text("127.0.0.1", "Address to listen on.", check=check.required)
    port: int = key.integer(8080, "Port to listen on; 0 takes any free one.", at_least=0, at_most=65535)
    name: str = key.text("Game server", "What players call this server, in e-mails and pages.", check=check.required)
    base_url: str = key.text(
        "",
        'The address players reach the companion at, for links in e-mails; "" is made from host and port.',
        check=check.web_address,
    )
    language: str = key.text("en", "Language of those who ask for none.", check=check.language_tag)
    translations: Path | None = key.optional_path(
        'Folder with words of your own, such as fr.toml, for more languages or other words; "" is none.'
    )
    announcement: str = key.paragraph("", "A text that front ends show above the registration form.")
    theme: str = key.text("default", "Name of the theme that front ends use.", check=check.required)
    logo_url: str = key.text(
        "",
        "Picture that front ends show: a web address, or a path on this server.",
        check=check.web_address_or_path,
    )
    state_dir: Path = key.path(
        "var", "Folder for keys and our own database; systemd's STATE_DIRECTORY replaces the default."
    )
    tls_cert_file: Path | None = key.optional_path("Certificate chain (PEM), to serve HTTPS without a proxy.")
    tls_key_file: Path | None = key.optional_path("Private key of the certificate (PEM), readable by us alone.")


@dataclass(frozen=True)
class HttpSection:
    """How requests are accepted, and from whom."""

    legacy_status: bool = key.flag(
        False, "Send refusals of business rules as 200 with success: false, for front ends that expect that."
    )
    trusted_proxies: TrustedProxies = key.trusted_proxies(
        "auto",
        'Proxies whose X-Forwarded-For is believed: a list of addresses and networks, or "auto": loopback '
        "while server.host is loopback, else none.",
    )
    trusted_clients: tuple[IpNetwork, ...] = key.networks(
        [],
        "Addresses and networks that status_limit does not count, such as a proxy that asks at every join.",
    )
    status_limit: tuple[RateLimit, ...] = key.rate_limits(
        ["600 per minute"], "Limits of the status routes for each client address."
    )
    web_root: Path | None = key.optional_path("Folder with a front end to serve beside the API.")
    allowed_origins: tuple[str, ...] = key.names(
        [], 'Origins of front ends elsewhere (CORS), such as "https://play.example.org".', check=check.origin
    )
    max_body: int = key.size("64 KiB", "Largest request body.", at_least="1 KiB", at_most="64 MiB")
    header_timeout: timedelta = key.duration(
        "10 seconds", "How long a client may take to send its headers.", at_least="100 ms", at_most="1 hour"
    )
    body_timeout: timedelta = key.duration(
        "20 seconds", "How long a client may take to send its body.", at_least="100 ms", at_most="1 hour"
    )


@dataclass(frozen=True)
class DatabaseSection:
    """Where our own tables live."""

    url: str = key.secret(
        "auto",
        'sqlite:///path, mysql://user:password@host:port/name, or "auto": beside AuthMe\'s table on MySQL '
        "and MariaDB, else companion.db in server.state_dir.",
    )
    threads: int = key.integer(4, "Worker threads, each with a connection of its own.", at_least=1, at_most=64)
    busy_timeout: timedelta = key.duration(
        "5 seconds", "How long to wait for somebody else's lock.", at_least="100 ms", at_most="10 minutes"
    )


@dataclass(frozen=True)
class GameSection:
    """The game server: where its files are, and how to talk to it."""

    directory: Path | None = key.optional_path(
        "The game server's folder, with ops.json, server.properties and plugins/AuthMe/config.yml."
    )
    ops_file: Path | None = key.optional_path('The list of operators; "" is ops.json in game.directory.')
    operators: tuple[str, ...] = key.names([], "Names of operators, for hosts without access to ops.json.")
    address: str = key.text(
        "", 'Host and port that players join; "" takes both from server.properties.', check=check.game_address
    )
    rcon: Switch = key.switch("auto", 'Remote console, to kick players; "auto" is on if server.properties enables it.')
    rcon_host: str = key.text("", 'Host of the remote console; "" takes it from server.properties.')
    rcon_port: int = key.integer(
        0, "Port of the remote console; 0 takes it from server.properties.", at_least=0, at_most=65535
    )
    rcon_password: str = key.secret("", 'Password of the remote console; "" takes it from server.properties.')
    on_ban: OnBan = key.choice(
        "kick", OnBan, "What a ban does in the running game: kick the player, ban them there too, or nothing."
    )

    @property
    def ops_path(self) -> Path | None:
        """The list of operators, or None when the config tells neither the file nor the game's folder."""
        return self.ops_file or (self.directory / "ops.json" if self.directory else None)

    @property
    def server_properties_path(self) -> Path | None:
        """The game's server.properties, or None when the config does not tell the game's folder."""
        return self.directory / "server.properties" if self.directory else None


@dataclass(frozen=True)
class AuthMeSection:
    """The AuthMe plugin. All below `config` replaces its own config, for hosts without file access."""

    enabled: Switch = key.switch("auto", 'Share AuthMe\'s table; "auto" is on if its config is found.')
    config: Path | None = key.optional_path('AuthMe\'s config; "" is plugins/AuthMe/config.yml in game.directory.')
    backend: Backend = key.choice(
        "", Backend, 'Its kind of database; "" as in its config. PostgreSQL is not supported.'
    )
    host: str = key.text("", 'Host of its database; "" as in its config.')
    port: int = key.integer(0, "Port of its database; 0 as in its config.", at_least=0, at_most=65535)
    user: str = key.text("", 'User of its database; "" as in its config.')
    password: str = key.secret("", 'Password of its database; "" as in its config.')
    database: str = key.text("", 'Name of its database (on SQLite of its file, without .db); "" as in its config.')
    table: str = key.text("", 'Name of its table; "" as in its config.', check=check.column_name)
    columns: Mapping[str, str] = key.table_columns(
        AUTHME_COLUMNS,
        OPTIONAL_AUTHME_COLUMNS,
        f'Names of its columns, such as columns.email = "email"; those left out as in its config. '
        f"Known are {', '.join(AUTHME_COLUMNS)}.",
    )
    password_hash: str = key.text(
        "",
        'Algorithm that hashes new passwords, such as "BCRYPT"; "" as in its config.',
        check=check.algorithm,
    )
    legacy_hashes: tuple[str, ...] = key.names(
        [], "Algorithms of older passwords; [] as in its config.", check=check.algorithm
    )
    pbkdf2_rounds: int = key.integer(0, "Rounds of PBKDF2; 0 as in its config.", at_least=0, at_most=10_000_000)
    bcrypt_log2_rounds: int = key.integer(0, "Cost of BCRYPT; 0 as in its config.", at_least=0, at_most=16)
    double_md5_salt_length: int = key.integer(
        0, "Length of the salt of SALTED2MD5; 0 as in its config.", at_least=0, at_most=64
    )

    @property
    def overrides(self) -> dict[str, Any]:
        """What replaces AuthMe's own config, by key; what was left empty is not in it."""
        given = {declared.name: getattr(self, declared.name) for declared in fields(self)}
        return {name: value for name, value in given.items() if value and name not in ("enabled", "config")}


@dataclass(frozen=True)
class SyncSection:
    """How our users and AuthMe's players are kept alike."""

    every: timedelta = key.duration("30 seconds", "How often the two are compared.", at_least="100 ms", at_most="1 day")
    existing_players: ExistingPlayers = key.choice(
        "approved", ExistingPlayers, "Status of players who were there before the companion."
    )
    new_players: NewPlayers = key.choice(
        "auto",
        NewPlayers,
        'Status of players who register in game; "auto" is pending while registration.approval is on, else approved.',
    )
    on_player_removed: OnPlayerRemoved = key.choice(
        "respect",
        OnPlayerRemoved,
        "What follows when an approved player leaves AuthMe's table: respect it, or restore the row.",
    )
    unapproved_players: UnapprovedPlayers = key.choice(
        "lock",
        UnapprovedPlayers,
        "What happens to a player in AuthMe's table who is not approved: lock, or only report.",
    )
    conflict: ConflictWinner = key.choice(
        "plugin", ConflictWinner, "Whose value stays when both sides changed the same thing."
    )
    max_changes: ChangeLimit = key.change_limit(
        "20 and 5%",
        "More removals and locks than this many rows and this share of them wait for a person to allow them.",
    )


@dataclass(frozen=True)
class MailSection:
    """Sending e-mail."""

    backend: MailBackendKind = key.choice(
        "auto",
        MailBackendKind,
        '"auto" takes AuthMe\'s own account if it has one, else "off"; "smtp" a mail server, "folder" writes '
        'files; "log" prints whole mails with their codes, for a first try.',
    )
    host: str = key.text("", "Mail server.")
    port: int = key.integer(587, "Port of the mail server.", at_least=1, at_most=65535)
    security: MailSecurity = key.choice(
        "starttls",
        MailSecurity,
        '"tls" from the first byte (port 465), "starttls" after a greeting (587), or "none".',
    )
    username: str = key.text("", "Account at the mail server.")
    password: str = key.secret("", "Password of that account.")
    sender: str = key.text(
        "",
        'Sender of all mails, such as "Example Server <noreply@example.org>"; "" is the account.',
        check=check.sender_address,
    )
    folder: Path = key.path(
        "var/mail", 'Where the backend "folder" writes; the default moves along with server.state_dir.'
    )
    templates: Path | None = key.optional_path('Folder with texts of your own; "" is built in.')
    max_attempts: int = key.integer(8, "Tries before a mail is given up.", at_least=1, at_most=100)
    admins: tuple[str, ...] = key.names([], "Who is told of waiting registrations.", check=check.email_address)
    admin_digest: timedelta = key.duration("1 hour", "How often they are told at most.")


@dataclass(frozen=True)
class UpdatesSection:
    """Looking for new versions in the background."""

    enabled: bool = key.flag(True, "Whether to look.")
    plugin_url: str = key.text(AUTHME_RELEASES, "Feed of AuthMe's latest release.", check=check.web_address)
    own_url: str = key.text("", 'Feed of the companion\'s latest release; "" is none.', check=check.web_address)
    every: timedelta = key.duration("6 hours", "How often to look.")


@dataclass(frozen=True)
class Download:
    """Files that front ends offer: one table for each, such as [downloads.client]."""

    name: str = key.text("", "What it is called.")
    description: str = key.text("", "What it is for.")
    version: str = key.text("", "Its version.")
    size: str = key.text("", 'Its size, as people read it, such as "12 MB".')
    url: str = key.text("", "Where it is: a web address, or a path on this server.", check=check.web_address_or_path)
    icon: str = key.text("", "Its picture: a web address, or a path on this server.", check=check.web_address_or_path)


@dataclass(frozen=True)
class WebhookSection:
    """Telling another service what happens here."""

    # Chat services put their token into the address, hence a secret.
    url: str = key.secret("", 'Where events are posted; "" is off.', check=check.web_address)
    secret: str = key.secret("", "Key that signs them.", check=check.webhook_secret)
    allow_private: bool = key.flag(False, "Whether that address may lie in a private network.")


@dataclass(frozen=True)
class RetentionSection:
    """How long `companion purge` keeps what is no longer needed."""

    audit: timedelta = key.duration("2 years", "Audit entries.", at_least="1 hour")
    addresses: timedelta = key.duration("90 days", "Addresses of clients.", at_least="1 hour")
    outbox: timedelta = key.duration("30 days", "What was sent, or given up.", at_least="1 hour")


@dataclass(frozen=True)
class MetricsSection:
    """Figures for Prometheus."""

    enabled: bool = key.flag(True, "Whether /metrics is there.")
    token: str = key.secret("", 'What a scraper sends as its bearer token; "" answers loopback only.')


@dataclass(frozen=True)
class LogSection:
    """What the companion writes while it runs."""

    level: LogLevel = key.choice("info", LogLevel, "From which level on.")
    format: LogFormat = key.choice("auto", LogFormat, '"auto" is plain on a terminal, JSON lines elsewhere.')
