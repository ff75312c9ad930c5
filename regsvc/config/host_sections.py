"""Config sections of the server itself, its databases, the game server and everything that is sent."""

# ruff: noqa: RUF009 - every call among the defaults makes a dataclass field

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta, tzinfo
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, TypeVar
from zoneinfo import ZoneInfo

from plugin_bridge.server.files import ServerProperties
from regsvc.config import key_types as key
from regsvc.config import value_checks as check
from regsvc.config.key_types import (
    ANY_CONSOLE,
    AUTHME,
    AUTHME_ON_SERVER,
    DATABASE_SERVER,
    MAIL,
    OWN_CONSOLE,
    TRUSTED_PROXIES,
    IpNetwork,
    Needs,
    NeedsHigher,
    NeedsTable,
    NeedsWithout,
    Switch,
    TrustedProxies,
    needs_algorithm,
)
from regsvc.core.i18n import Translated
from regsvc.core.units import ChangeLimit, RateLimit

T = TypeVar("T")

CausalReads = Literal["auto", "always", "off"]
OnBan = Literal["kick", "ban", "none"]
Backend = Literal["", "SQLITE", "MYSQL", "MARIADB"]
ExistingPlayers = Literal["approved", "pending"]
NewPlayers = Literal["auto", "approved", "pending"]
OnAdded = Literal["approve", "remove"]
UuidSource = Literal["auto", "offline", "online"]
OnPlayerRemoved = Literal["respect", "restore"]
UnapprovedPlayers = Literal["lock", "report"]
ConflictWinner = Literal["plugin", "companion"]
MailBackendKind = Literal["auto", "smtp", "http", "folder", "off", "log"]
MailProvider = Literal["", "resend", "mailgun", "brevo", "generic"]
MailSecurity = Literal["starttls", "tls", "none"]
TeamChatPlatform = Literal["", "discord", "telegram", "onebot"]
Told = Literal["name", "score", "answers", "signals"]
Decision = Literal["registered", "approved", "rejected", "banned", "unbanned", "reopened", "deleted"]
WebhookEvent = Literal[
    Decision,
    "answers_changed",
    "question_asked",
    "question_answered",
    "chat_linked",
    "chat_unlinked",
    "role_changed",
    "membership_ended",
    "membership_renewed",
    "stay_asked",
]
"""What webhooks tell: a decision, or something else that happened to a user."""

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["auto", "plain", "json"]

# The keys of authme.columns; an empty name switches the optional ones off, as in AuthMe's own config.
AUTHME_COLUMNS = (
    *("id", "username", "realname", "password", "salt", "ip", "last_login", "register_date", "register_ip"),
    *("email", "is_logged", "has_session", "totp", "group", "uuid", "premium_uuid"),
    *("x", "y", "z", "world", "yaw", "pitch"),
)
OPTIONAL_AUTHME_COLUMNS = ("salt", "group", "uuid", "premium_uuid")

COMMAND_EVENTS = ("approved", "rejected", "banned", "unbanned", "deleted", "reopened", "ended", "renewed")
"""The keys of game.commands. reopened: the user waits for review again; ended, renewed: the membership."""

CHAT: Final = re.compile("discord|chat|forum|matrix|telegram|qq", re.IGNORECASE)
"""What texts or addresses of links to a place where players meet contain."""
AUTHME_RELEASES = "https://api.github.com/repos/AuthMe/AuthMeReloaded/releases/latest"

_BY_SMTP: Final = Needs("mail.backend", "auto", "smtp")
_BY_HTTP: Final = Needs("mail.backend", "http")
_WITH_AUTHME: Final = Needs("authme.enabled", "auto", True)
_GAME: Final = Needs("game.directory") | Needs("game.rcon_host")


@dataclass(frozen=True)
class ServerSection:
    """The address the companion listens on, and what it shows to players."""

    host: str = key.text("127.0.0.1", "Address to listen on.", check=check.listen_host)
    port: int = key.integer(8080, "Port to listen on; 0 takes any free one.", at_least=0, at_most=65535)
    name: str = key.text("Game server", "Name of this server in e-mails and pages.", check=check.required)
    instance: str = key.text(
        "",
        'Name of this daemon among several on one database, in its log, metrics and leases; "" is none.',
        check=check.instance_name,
    )
    base_url: str = key.text(
        "",
        "Public address of the companion, for links in e-mails, with a path if your proxy takes one off; "
        '"" is built from host and port.',
        check=check.web_address,
    )
    language: str = key.text(
        "en",
        "Default language, for requests that do not name one: de, en, fr or zh, or one of server.translations.",
        check=check.language_tag,
    )
    languages: tuple[str, ...] = key.names(
        [],
        'Languages that pages and mails are offered in, such as ["de", "en"]; [] is all that there are.',
        check=check.language_tag,
    )
    translations: Path | None = key.optional_path(
        'Folder with your own translation files, such as nl.toml, to add languages or change texts; "" is none.'
    )
    contact: str = key.text(
        "",
        "How players reach the team, where a text tells them to ask a moderator: an e-mail address, which answers to "
        'mails go to as well, a web address, or words such as "#help on our Discord"; "" is the first of server.links '
        "that leads to a chat or forum.",
        check=check.contact,
    )
    timezone: str = key.text(
        "",
        'Time zone of times in mails and pages, such as "Europe/Paris"; "" is the machine\'s in mails, and on pages '
        "the visitor's own.",
        check=check.time_zone,
    )
    announcement: Translated[str] = key.translated(
        "Text that front ends show above the registration form; or by language: announcement.en, announcement.de, …"
    )
    description: Translated[str] = key.translated(
        "One sentence about this server, for its home page and for previews of links; or by language, as above."
    )
    theme: str = key.text(
        "default",
        "Theme: default, ocean, ember or amethyst; a front end of your own may have others.",
        check=check.required,
    )
    accent: str = key.text(
        "",
        'Colour of buttons and links, such as "#2f6f4f", instead of the theme\'s; made darker or lighter where it '
        "would be hard to read.",
        check=check.colour,
    )
    custom_css: Path | None = key.optional_path("Style sheet of your own for the built-in pages, 64 KiB at most.")
    logo_url: str = key.text(
        "",
        "Logo that front ends show: a web address, or a path on this server.",
        check=check.picture,
    )
    banner_url: str = key.text(
        "",
        "Picture at the top of the home page and in previews of links: a web address, or a path on this server.",
        check=check.picture,
    )
    favicon: str = key.text(
        "",
        'Icon in the tabs of browsers: a web address, or a path on this server; "" is the logo, else a letter.',
        check=check.picture,
    )
    links: Translated[dict[str, str]] = key.links(
        "Links on the home page by their texts, such as links.Discord = "
        '"https://discord.gg/example"; an address, or a path on this server. Links of one language: links.de.Regeln.'
    )
    index: bool = key.flag(False, "Let search engines list the home page, registration and server page.")
    state_dir: Path = key.path(
        "var",
        "Folder for keys and our own database. Default: systemd's STATE_DIRECTORY; /var/lib/companion for a config in "
        "/etc/companion, or if there is an installation; else var beside the config.",
    )
    tls_cert_file: Path | None = key.optional_path("Certificate chain (PEM), to serve HTTPS without a proxy.")
    tls_key_file: Path | None = key.optional_path(
        "Private key of the certificate (PEM), readable by the companion's user only."
    )

    NEEDS: ClassVar[NeedsTable] = {
        "host port name instance base_url language languages translations contact timezone": (),
        "announcement description": (),
        "theme": (NeedsWithout("accent") | Needs("http.web_root") | Needs("http.allowed_origins"),),
        "accent custom_css logo_url banner_url favicon links index state_dir tls_cert_file tls_key_file": (),
    }

    def in_language(self, written: Translated[T], language: str) -> T:
        """Return what the host wrote in this language, else in `language` of the config."""
        return written.in_language(language, self.language)

    @property
    def zone(self) -> tzinfo | None:
        """The time zone of times that the companion writes; None: the machine's."""
        return ZoneInfo(self.timezone) if self.timezone else None

    @property
    def told_contact(self) -> str:
        """The contact, else the host's first link to a chat or forum; "" if there is neither."""
        if self.contact:
            return self.contact
        for text, to in self.in_language(self.links, self.language).items():
            if "://" in to and CHAT.search(f"{text} {to}"):
                return to
        return ""


@dataclass(frozen=True)
class HttpSection:
    """HTTP requests: limits, proxies, other front ends."""

    legacy_status: bool = key.flag(
        False,
        "Answer as front ends and game proxies that exist already expect, such as refusals with status 200 and "
        "success: false (see docs/front-ends.md).",
    )
    trusted_proxies: TrustedProxies = key.trusted_proxies(
        "auto",
        'Proxies whose X-Forwarded-For is trusted: a list of addresses and networks, or "auto": loopback '
        "while server.host is loopback, else none.",
    )
    proxy_protocol: bool = key.flag(
        False,
        "Take the client's address from the PROXY protocol, versions 1 and 2, as TCP proxies and tunnels send it (frp, "
        "HAProxy, nginx's stream): every connection from trusted_proxies then has to begin with it.",
    )
    trusted_clients: tuple[IpNetwork, ...] = key.networks(
        [],
        "Addresses and networks exempt from status_limit, such as a game proxy that asks at every join.",
    )
    status_limit: tuple[RateLimit, ...] = key.rate_limits(
        ["600 per minute"],
        "Limits of the status routes, of those of applications and of users' exports, per client address; an IPv6 "
        "network (/48) has four times as many.",
    )
    web_root: Path | None = key.optional_path("Folder with a front end to serve in addition to the API.")
    allowed_origins: tuple[str, ...] = key.names(
        [], 'Origins of front ends on other hosts (CORS), such as "https://play.example.org".', check=check.origin
    )
    max_body: int = key.size(
        "64 KiB", "Largest request body; most routes take 8 KiB at most.", at_least="1 KiB", at_most="64 MiB"
    )
    max_buffered_bodies: int = key.size(
        "32 MiB",
        "Largest sum of the bodies of requests not yet answered; half-sent ones make room for others.",
        at_least="1 MiB",
        at_most="4 GiB",
    )
    max_connections: int = key.integer(
        1000,
        "Open connections at a time; never more than four fifths of the process's limit of open files.",
        at_least=4,
        at_most=1_000_000,
    )
    max_connections_per_client: int = key.integer(
        64,
        "Connections of one client address (IPv6: /64) at a time; of a trusted proxy, requests for one client.",
        at_least=4,
        at_most=1_000_000,
    )
    header_timeout: timedelta = key.duration(
        "10 seconds", "How long a client may take to send its headers.", at_least="100 ms", at_most="1 hour"
    )
    body_timeout: timedelta = key.duration(
        "20 seconds", "How long a client may take to send its body.", at_least="100 ms", at_most="1 hour"
    )
    write_timeout: timedelta = key.duration(
        "20 seconds", "How long a client may read nothing of an answer.", at_least="100 ms", at_most="1 hour"
    )

    NEEDS: ClassVar[NeedsTable] = {
        "legacy_status trusted_proxies status_limit web_root allowed_origins": (),
        "proxy_protocol": (TRUSTED_PROXIES,),
        "trusted_clients": (Needs("status_limit"),),
        "max_body max_buffered_bodies max_connections header_timeout body_timeout write_timeout": (),
        "max_connections_per_client": (NeedsHigher("max_connections"),),
    }


@dataclass(frozen=True)
class DatabaseSection:
    """The companion's own database."""

    url: str = key.secret(
        "auto",
        'sqlite:///path, mysql://user:password@host:port/name, or "auto": beside AuthMe\'s table on MySQL '
        "and MariaDB, else companion.db in server.state_dir.",
    )
    threads: int = key.integer(
        2,
        "Worker threads, each with its own connection; the sync and lists have one more each. 4 if the database is on "
        "another machine.",
        at_least=1,
        at_most=64,
    )
    busy_timeout: timedelta = key.duration(
        "5 seconds", "How long to wait for another connection's lock.", at_least="100 ms", at_most="10 minutes"
    )
    causal_reads: CausalReads = key.choice(
        "auto",
        CausalReads,
        "Whether reads wait until a node of a Galera cluster has applied what others committed: auto (if a row is "
        "missing), always (needed if a proxy spreads connections over several nodes), or off.",
    )

    NEEDS: ClassVar[NeedsTable] = {
        "url threads busy_timeout": (),
        "causal_reads": (DATABASE_SERVER,),
    }


@dataclass(frozen=True)
class GameServer:
    """Further game servers that share AuthMe's table, behind BungeeCord or Velocity: one [[game.server]] each, in this
    file only (see docs/networks.md). Its keys mean what they mean in [game], whose server stays the main one.
    """

    name: str = key.text(
        "",
        'Name of this game server among several, such as "lobby"; "" in [game] is server.name.',
        check=check.short_name,
    )
    directory: Path | None = key.optional_path(
        "The game server's folder, with ops.json, server.properties and plugins/AuthMe/config.yml."
    )
    address: str = key.text(
        "", 'Host and port that players connect to; "" takes both from server.properties.', check=check.game_address
    )
    rcon: Switch = key.switch(
        "auto",
        'Use the remote console (RCON) to kick players; "auto" is on if server.properties enables RCON, or without '
        "directory if rcon_host and rcon_password are set.",
    )
    rcon_host: str = key.text("", 'Host of the remote console; "" takes it from server.properties.', check=check.host)
    rcon_port: int = key.integer(
        0, "Port of the remote console; 0 takes it from server.properties.", at_least=0, at_most=65535
    )
    rcon_password: str = key.secret("", 'Password of the remote console; "" takes it from server.properties.')

    NEEDS: ClassVar[NeedsTable] = {
        "name directory address rcon": (),
        "rcon_host rcon_port rcon_password": (OWN_CONSOLE,),
    }

    @property
    def is_known(self) -> bool:
        """Whether the config tells where to ask for the server's status."""
        return bool(self.address) or self.directory is not None

    def uses_rcon(self, properties: ServerProperties | None) -> bool:
        """Return whether the remote console is used; `properties` None: server.properties is unknown."""
        is_given = self.directory is None and bool(self.rcon_host and self.rcon_password)
        is_enabled = properties is not None and properties.rcon_enabled
        return is_enabled or is_given if self.rcon == "auto" else self.rcon

    @property
    def server_properties_path(self) -> Path | None:
        """The game's server.properties, or None if the game's folder is not configured."""
        return self.directory / "server.properties" if self.directory else None

    @property
    def authme_config_path(self) -> Path | None:
        """The config.yml of AuthMe in the game's folder, whether or not it exists; None if that is not configured."""
        return self.directory / "plugins" / "AuthMe" / "config.yml" if self.directory else None


@dataclass(frozen=True)
class GameSection(GameServer):
    """The game server: its files, its address and its remote console."""

    ops_file: Path | None = key.optional_path('List of operators; "" is ops.json in game.directory.')
    operators: tuple[str, ...] = key.names([], "Names of operators, where ops.json is not accessible.")
    versions: str = key.text(
        "", 'Versions of the game that can join, such as "1.20 to 1.21.4", for pages; "" shows the server\'s own.'
    )
    on_ban: OnBan = key.choice(
        "kick", OnBan, "Effect of a ban in the running game: kick the player, ban them in the game too, or none."
    )
    commands: Mapping[str, tuple[str, ...]] = key.commands(
        COMMAND_EVENTS,
        "Commands for the remote console after decisions, such as commands.approved = "
        '["lp user {uuid} parent add member"]; they may run twice. Decisions: '
        "approved, rejected, banned, unbanned, deleted, reopened (waits for review again), ended and renewed (the "
        "membership). "
        f"Placeholders: {', '.join(f'{{{name}}}' for name in check.COMMAND_VALUES)}.",
    )
    profiles: Switch = key.switch(
        "auto",
        'Ask Mojang for the UUIDs of approved users whom the game server does not know yet, by name; "auto" is on '
        "where players have the UUIDs of Minecraft accounts: in online mode, or behind a proxy that forwards them. "
        "true also tells reviewers whether an applicant's name is that of a Minecraft account.",
    )
    profiles_url: str = key.text(
        "https://api.mojang.com/users/profiles/minecraft",
        "Where to ask; the name is appended.",
        check=check.web_address,
    )

    NEEDS: ClassVar[NeedsTable] = {
        **GameServer.NEEDS,
        "ops_file operators versions profiles": (),
        "on_ban commands": (ANY_CONSOLE,),
        "profiles_url": (Needs("profiles", "auto", True),),
    }

    @property
    def ops_path(self) -> Path | None:
        """The list of operators, or None if neither the file nor the game's folder is configured."""
        return self.ops_file or (self.directory / "ops.json" if self.directory else None)


@dataclass(frozen=True)
class AuthMeSection:
    """The AuthMe plugin. All keys below `config` replace its own config, where its files are not accessible."""

    enabled: Switch = key.switch("auto", "Share AuthMe's table; \"auto\" is on if AuthMe's config is found.")
    config: Path | None = key.optional_path('AuthMe\'s config; "" is plugins/AuthMe/config.yml in game.directory.')
    backend: Backend = key.choice(
        "", Backend, 'Kind of its database; "" as in its config. PostgreSQL and H2 are not supported.'
    )
    host: str = key.text("", 'Host of its database; "" as in its config.', check=check.host)
    port: int = key.integer(0, "Port of its database; 0 as in its config.", at_least=0, at_most=65535)
    user: str = key.text("", 'User of its database; "" as in its config.')
    password: str = key.secret("", 'Password of its database; "" as in its config.')
    database: str = key.text("", 'Name of its database (on SQLite of its file, without .db); "" as in its config.')
    table: str = key.text("", 'Name of its table; "" as in its config.', check=check.column_name)
    columns: Mapping[str, str] = key.table_columns(
        AUTHME_COLUMNS,
        OPTIONAL_AUTHME_COLUMNS,
        f'Names of its columns, such as columns.email = "email"; all others as in its config. '
        f"Known columns: {', '.join(AUTHME_COLUMNS)}.",
    )
    password_hash: str = key.text(
        "",
        'Algorithm that hashes new passwords, such as "BCRYPT"; "" as in its config. XAUTH and WHIRLPOOL have to be '
        "named here or below if AuthMe's version cannot be read from its jar.",
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

    NEEDS: ClassVar[NeedsTable] = {
        "enabled": (),
        "config backend": (_WITH_AUTHME,),
        "database table columns password_hash legacy_hashes": (_WITH_AUTHME, AUTHME),
        "host port user password": (_WITH_AUTHME, AUTHME, AUTHME_ON_SERVER),
        "pbkdf2_rounds": (_WITH_AUTHME, AUTHME, needs_algorithm("PBKDF2")),
        "bcrypt_log2_rounds": (_WITH_AUTHME, AUTHME, needs_algorithm("BCRYPT")),
        "double_md5_salt_length": (_WITH_AUTHME, AUTHME, needs_algorithm("SALTED2MD5")),
    }

    @property
    def overrides(self) -> dict[str, Any]:
        """The values that replace AuthMe's own config, by key; empty ones are left out."""
        given = {declared.name: getattr(self, declared.name) for declared in fields(self)}
        return {name: value for name, value in given.items() if value and name not in ("enabled", "config")}


@dataclass(frozen=True)
class AllowlistSection:
    """The game's own allowlist (whitelist.json): who may play is on it, and who may not is not (docs/allowlist.md)."""

    enabled: Switch = key.switch(
        "auto",
        'Keep the list; "auto" is on if server.properties in game.directory has white-list=true. Without that folder, '
        'true needs rcon_host and rcon_password, and uuids = "online".',
    )
    on_added: OnAdded = key.choice(
        "approve",
        OnAdded,
        "What to do when a user who waits for review, or was rejected, is put on the list in the game.",
    )
    uuids: UuidSource = key.choice(
        "auto",
        UuidSource,
        'Whose UUIDs players have: "offline" ones of the name, "online" ones of Minecraft accounts, or "auto" as the '
        "server's files say.",
    )

    NEEDS: ClassVar[NeedsTable] = {
        "enabled": (),
        "on_added uuids": (Needs("enabled", "auto", True), _GAME),
    }


@dataclass(frozen=True)
class SyncSection:
    """Synchronising the companion's users with AuthMe's players."""

    every: timedelta = key.duration(
        "30 seconds", "How often both sides are compared.", at_least="100 ms", at_most="1 day"
    )
    existing_players: ExistingPlayers = key.choice(
        "approved", ExistingPlayers, "Status of players who registered before the companion was installed."
    )
    new_players: NewPlayers = key.choice(
        "auto",
        NewPlayers,
        'Status of players who register in game; "auto" is pending while registration.approval is on, else approved.',
    )
    on_player_removed: OnPlayerRemoved = key.choice(
        "respect",
        OnPlayerRemoved,
        "What to do when an approved player is removed from AuthMe's table: respect it, or restore the row.",
    )
    unapproved_players: UnapprovedPlayers = key.choice(
        "lock",
        UnapprovedPlayers,
        "What to do about players in AuthMe's table who are not approved: lock them, or only report.",
    )
    conflict: ConflictWinner = key.choice("plugin", ConflictWinner, "Which side wins when both changed the same value.")
    max_changes: ChangeLimit = key.change_limit(
        "20 and 5%",
        "Removals and locks wait for approval if a run has more of them than this many rows and this share.",
    )

    NEEDS: ClassVar[NeedsTable] = {
        "every": (),
        "existing_players new_players on_player_removed max_changes": (AUTHME | _GAME,),
        "unapproved_players conflict": (AUTHME,),
    }


@dataclass(frozen=True)
class MailSection:
    """Sending e-mail."""

    backend: MailBackendKind = key.choice(
        "auto",
        MailBackendKind,
        '"auto" is "smtp" if host is set, else AuthMe\'s mail account if it has one, else "off"; "http" calls a '
        'service, where SMTP is blocked; "folder" writes files; "log" prints whole mails with their codes, for a first '
        "try.",
    )
    host: str = key.text("", "Mail server.", check=check.host)
    port: int = key.integer(587, "Port of the mail server.", at_least=1, at_most=65535)
    security: MailSecurity = key.choice(
        "starttls",
        MailSecurity,
        '"tls" from the start (port 465), "starttls" after connecting (port 587), or "none".',
    )
    username: str = key.text("", "Account at the mail server.")
    password: str = key.secret("", "Password of that account.")
    ca_file: Path | None = key.optional_path(
        "Certificate (PEM) of the authority that signed the mail server's, if it is not one the system trusts."
    )
    http_provider: MailProvider = key.choice(
        "",
        MailProvider,
        'Service that the backend "http" calls; "generic" is any other one, described by the keys below.',
    )
    http_url: str = key.text(
        "",
        "Where mails are posted; \"\" is the service's own address. Mailgun's EU region needs "
        '"https://api.eu.mailgun.net/v3/DOMAIN/messages".',
        check=check.web_address,
    )
    http_key: str = key.secret("", "API key of the service.", check=check.header_value)
    http_header: str = key.text(
        "Authorization: Bearer {key}", 'Header with the key, for "generic".', check=check.key_header
    )
    http_body: str = key.paragraph(
        "",
        'Body of a request, for "generic": JSON such as {"from": "{from}", "to": ["{to}"], "subject": "{subject}", '
        f'"text": "{{text}}"}}, or form fields such as to={{to}}&text={{text}}. Known are '
        f"{', '.join(f'{{{name}}}' for name in check.MAIL_PLACEHOLDERS)}.",
        check=check.mail_body,
    )
    http_allow_private: bool = key.flag(False, "Whether http_url may be in a private network.")
    sender: str = key.text(
        "",
        'Sender of all mails, such as "Example Server <noreply@example.org>"; "" is the account; "http" has none.',
        check=check.sender_address,
    )
    folder: Path = key.path("var/mail", 'Where the backend "folder" writes; the default follows server.state_dir.')
    templates: Path | None = key.optional_path('Folder with your own mail templates; "" uses the built-in ones.')
    max_attempts: int = key.integer(8, "Attempts before a mail is given up.", at_least=1, at_most=100)
    password_changed_in_game: bool = key.flag(
        True,
        "Whether players are told when their password is changed in the game, by mail if they have proven an address; "
        "of other changes they always are.",
    )
    admins: tuple[str, ...] = key.names([], "Addresses notified of pending registrations.", check=check.mailbox)
    admin_digest: timedelta = key.duration("1 hour", "Shortest time between two such notifications.")
    remind_after: timedelta = key.duration(
        "24 hours",
        "How long a registration may wait before these addresses are reminded, each time anew, but no sooner than "
        "admin_digest allows; 0 seconds is never.",
        at_least="0 seconds",
    )

    NEEDS: ClassVar[NeedsTable] = {
        "backend": (),
        "host": (_BY_SMTP,),
        "username": (_BY_SMTP, Needs("host"), Needs("password")),
        "password": (_BY_SMTP, Needs("host"), Needs("username")),
        "port security": (_BY_SMTP, Needs("host")),
        "ca_file": (Needs("backend", "auto", "smtp", "http"),),
        "http_provider http_url http_key http_allow_private": (_BY_HTTP,),
        "http_header http_body": (_BY_HTTP, Needs("http_provider", "generic")),
        "folder": (Needs("backend", "folder"),),
        "sender templates max_attempts admins": (MAIL,),
        "admin_digest remind_after": (MAIL, Needs("admins")),
        "password_changed_in_game": (AUTHME,),
    }


@dataclass(frozen=True)
class UpdatesSection:
    """Update checks in the background."""

    enabled: bool = key.flag(True, "Whether to check for new versions.")
    plugin_url: str = key.text(AUTHME_RELEASES, "Feed of AuthMe's latest release.", check=check.web_address)
    own_url: str = key.text("", 'Feed of the companion\'s latest release; "" is none.', check=check.web_address)
    every: timedelta = key.duration("6 hours", "How often to check.")

    NEEDS: ClassVar[NeedsTable] = {
        "enabled": (),
        "plugin_url own_url every": (Needs("enabled", True),),
    }


@dataclass(frozen=True)
class WebhookSection:
    """Sending events to another service. Several receivers are written as [[webhook]], one below the other."""

    # A secret because chat services put their token into the address.
    url: str = key.secret("", 'Where events are posted; "" is off.', check=check.web_address)
    secret: str = key.secret("", "Key that signs the events.", check=check.webhook_secret)
    allow_private: bool = key.flag(False, "Whether that address may be in a private network.")
    events: tuple[WebhookEvent, ...] = key.choices([], WebhookEvent, "Events that are posted; [] is all.")

    NEEDS: ClassVar[NeedsTable] = {
        "url": (),
        "secret allow_private events": (Needs("url"),),
    }

    def wants(self, event: str) -> bool:
        """Return whether this event is posted here."""
        return bool(self.url) and (not self.events or event in self.events)


@dataclass(frozen=True)
class TeamChat:
    """Channels in which the team learns of applications and decides about them: one [[team_chat]] each, in this file
    only (see docs/team-chat.md).
    """

    platform: TeamChatPlatform = key.choice("", TeamChatPlatform, "The platform.")
    token: str = key.secret(
        "", "Token of the bot; OneBot: the access token that its server and we share.", check=check.header_value
    )
    public_key: str = key.text(
        "", "Discord: the application's public key, which proves who sent a click.", check=check.public_key
    )
    channel: str = key.text("", "Id of the channel, the group or the chat.", check=check.chat_id)
    tells: tuple[Told, ...] = key.choices(
        ["name", "score", "signals"], Told, "What messages tell about an applicant; never an e-mail or IP address."
    )
    language: str = key.text("", 'Language of the messages; "" is server.language.', check=check.language_tag)
    api_url: str = key.text(
        "",
        'Address of the platform\'s API; "" is its own. Telegram: also your own Bot API server.',
        check=check.web_address,
    )

    NEEDS: ClassVar[NeedsTable] = {
        "platform token channel tells language": (),
        "public_key": (Needs("platform", "discord"),),
        "api_url": (Needs("platform", "discord", "telegram"),),
    }

    @property
    def name(self) -> str:
        """The name under which the database knows this chat."""
        return f"{self.platform}:{self.channel}"


@dataclass(frozen=True)
class RetentionSection:
    """Retention: how long records are kept before `companion purge` deletes them."""

    audit: timedelta = key.duration("2 years", "Audit entries.", at_least="1 hour")
    addresses: timedelta = key.duration("90 days", "IP addresses of clients.", at_least="1 hour")
    outbox: timedelta = key.duration("30 days", "Messages that were sent or given up.", at_least="1 hour")

    NEEDS: ClassVar[NeedsTable] = {
        "audit addresses outbox": (),
    }


@dataclass(frozen=True)
class MetricsSection:
    """Metrics for Prometheus."""

    enabled: bool = key.flag(True, "Whether /metrics is served.")
    token: str = key.secret("", 'Bearer token of scrapers; "" allows loopback clients only.')

    NEEDS: ClassVar[NeedsTable] = {
        "enabled": (),
        "token": (Needs("enabled", True),),
    }


@dataclass(frozen=True)
class LogSection:
    """Logging."""

    level: LogLevel = key.choice("info", LogLevel, "Lowest level to log.")
    format: LogFormat = key.choice(
        "auto",
        LogFormat,
        '"auto" is plain on a terminal, plain with priorities (journalctl -p err) in systemd\'s journal, JSON lines '
        'elsewhere, and plain for commands; "plain" and "json" are the same everywhere.',
    )

    NEEDS: ClassVar[NeedsTable] = {
        "level format": (),
    }
