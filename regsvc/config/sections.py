"""The config: every section and key, written once (`regsvc.config.loader` reads them).

A new key is one line here and `make sample`. The docstring of a section is its heading in the sample.
"""

# ruff: noqa: RUF009 - every call among the defaults makes a dataclass field

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
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
RegistrationMethod = Literal["email", "captcha"]
PasswordRule = Literal["optional", "required", "off"]
CaptchaType = Literal["math", "text"]
CaptchaUse = Literal["verify_send", "login"]
ChatPlatform = Literal["", "discord", "custom"]
TokenAuth = Literal["header", "body"]
MailBackendKind = Literal["auto", "smtp", "folder", "off", "log"]
MailSecurity = Literal["starttls", "tls", "none"]
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["auto", "plain", "json"]

# The keys of authme.columns; the optional ones are switched off by an empty name, as in AuthMe's own config.
AUTHME_COLUMNS = (
    *("id", "username", "realname", "password", "salt", "ip", "last_login", "register_date", "register_ip"),
    *(
        "email",
        "is_logged",
        "has_session",
        "totp",
        "uuid",
        "premium_uuid",
        "x",
        "y",
        "z",
        "world",
        "yaw",
        "pitch",
    ),
)
OPTIONAL_AUTHME_COLUMNS = ("salt", "uuid", "premium_uuid")

AUTHME_RELEASES = "https://api.github.com/repos/AuthMe/AuthMeReloaded/releases/latest"


class ConfigError(Exception):
    """The config cannot be used; `str()` is one full sentence per problem and line, without any secret."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


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
class AuthSection:
    """Logging in, access tokens, and the keys they rest on."""

    user_token: timedelta = key.duration("30 days", "How long a user stays logged in.")
    admin_token: timedelta = key.duration("12 hours", "How long an admin stays logged in.")
    admin_idle: timedelta = key.duration("2 hours", "How long an admin stays logged in without a request.")
    installation_key: str = key.secret(
        "",
        'Key that codes and mailed links derive from, alike on all companions that share a database; "" '
        "makes one in server.state_dir.",
        check=check.long_key,
    )
    signing_key: str = key.secret(
        "", 'Key that signs access tokens; "" makes one in server.state_dir.', check=check.long_key
    )
    previous_keys: tuple[str, ...] = key.secrets(
        [], "Former signing keys, whose tokens are good until they expire.", check=check.long_key
    )
    min_operator_level: int = key.integer(
        1, "Level in ops.json from which an operator may log in as admin.", at_least=1, at_most=4
    )
    login_limits: tuple[RateLimit, ...] = key.rate_limits(
        ["5 per minute"], "Limits of logins for each client address, and for each account and client address."
    )
    max_concurrent_hashes: int = key.integer(
        0,
        "Passwords hashed at a time; 0 is one less than there are cores, at least 1.",
        at_least=0,
        at_most=256,
    )
    max_waiting_hashes: int = key.integer(
        64, "Logins that may wait for a hash; more are told to come back.", at_least=0, at_most=100_000
    )


@dataclass(frozen=True)
class RegistrationSection:
    """Who may register, and with what."""

    open: bool = key.flag(True, "Whether anybody may register at all.")
    approval: bool = key.flag(True, "Whether an admin reviews every registration.")
    methods: tuple[RegistrationMethod, ...] = key.choices(
        ["email"],
        RegistrationMethod,
        "What a registration has to prove: a code sent by e-mail, a captcha, or both.",
    )
    password: PasswordRule = key.choice(
        "optional",
        PasswordRule,
        "Whether players choose a password when they register, or later by a mailed link.",
    )
    password_regex: str = key.pattern("", 'Regular expression that passwords match; "" is AuthMe\'s own rule.')
    username_regex: str = key.pattern(
        "", 'Regular expression that names match; "" is AuthMe\'s own rule, else ^[a-zA-Z0-9_]{3,16}$.'
    )
    reserved_names: tuple[str, ...] = key.names([], "Names nobody may register; those in ops.json are always reserved.")
    email_domains: tuple[str, ...] = key.names(
        [], "Domains that e-mails may have; [] is any.", check=check.email_domain
    )
    blocked_email_domains: tuple[str, ...] = key.names(
        [], "Domains that e-mails may not have.", check=check.email_domain
    )
    email_aliases: bool = key.flag(True, "Whether addresses such as alice+game@example.org are allowed.")
    reapply_after: timedelta = key.duration(
        "24 hours", "How long a rejected registration holds its name.", at_least="0 seconds"
    )


@dataclass(frozen=True)
class VerificationSection:
    """The codes that prove an e-mail address."""

    code_digits: int = key.integer(6, "Digits of a code.", at_least=4, at_most=10)
    code_valid: timedelta = key.duration("5 minutes", "How long a code is good for.", at_most="1 hour")
    max_tries: int = key.integer(5, "Tries per code.", at_least=1, at_most=100)
    limits_per_address: tuple[RateLimit, ...] = key.rate_limits(
        ["1 per minute", "10 per day"], "Limits of codes for each e-mail address."
    )
    limits_per_client: tuple[RateLimit, ...] = key.rate_limits(
        ["10 per minute", "100 per day"], "Limits of codes for each client address."
    )
    limits_total: tuple[RateLimit, ...] = key.rate_limits(
        ["60 per hour", "400 per day"],
        "Limits of codes for everybody together; keep them below what your mail host allows.",
    )


@dataclass(frozen=True)
class CaptchaSection:
    """Captchas; registration asks for one when registration.methods names it."""

    type: CaptchaType = key.choice("math", CaptchaType, "A small sum, or letters and digits to read.")
    length: int = key.integer(4, "Characters of a text captcha.", at_least=3, at_most=8)
    valid: timedelta = key.duration("5 minutes", "How long a captcha may be answered.", at_most="1 hour")
    also_for: tuple[CaptchaUse, ...] = key.choices(
        [], CaptchaUse, "What else needs one: asking for a code, logging in."
    )
    max_outstanding: int = key.integer(
        10_000,
        "Captchas that may wait for their answer, all clients together; one client has a hundredth (10 in any case).",
        at_least=1,
        at_most=1_000_000,
    )
    pictures_per_client: tuple[RateLimit, ...] = key.rate_limits(
        ["1200 per minute"], "Limits of pictures for each client address."
    )
    answers_per_client: tuple[RateLimit, ...] = key.rate_limits(
        ["30 per minute", "300 per day"],
        "Limits of answers for each client address, right or wrong: one sum in thirty can be guessed.",
    )


@dataclass(frozen=True)
class QuestionnaireSection:
    """Questions to answer before registering."""

    file: Path | None = key.optional_path('The questions; "" is off. conf/questionnaire.toml is a sample.')
    pass_score: int = key.integer(60, "Score from which the answers pass.", at_least=0, at_most=1_000_000)
    valid: timedelta = key.duration("10 minutes", "How long passed answers may be used to register.", at_most="30 days")
    retry_after: timedelta = key.duration(
        "5 minutes",
        "How long to wait after answers that did not pass.",
        at_least="0 seconds",
        at_most="30 days",
    )
    limits_per_client: tuple[RateLimit, ...] = key.rate_limits(
        ["10 per minute", "100 per day"], "Limits of submitted answers for each client address."
    )
    limits_total: tuple[RateLimit, ...] = key.rate_limits(
        ["1000 per hour"], "Limits of submitted answers for everybody together."
    )
    scorer_url: str = key.text(
        "",
        "Service (https) that scores free-text answers; without one an admin reads them.",
        check=check.web_address,
    )
    scorer_key: str = key.secret("", "Key of that service.")
    scorer_model: str = key.text("", "Model that service should use.")
    scorer_timeout: timedelta = key.duration(
        "10 seconds", "How long to wait for that service.", at_least="100 ms", at_most="5 minutes"
    )


@dataclass(frozen=True)
class ChatSection:
    """Linking an account of a chat platform (OAuth 2.0)."""

    platform: ChatPlatform = key.choice("", ChatPlatform, 'The platform; "" is off.')
    client_id: str = key.text("", "Id of the application registered there.")
    client_secret: str = key.secret("", "Secret of that application.")
    redirect_url: str = key.text(
        "",
        'Where the platform sends players back; "" is /api/chat/callback below server.base_url.',
        check=check.web_address,
    )
    required: bool = key.flag(False, "Whether a registration needs a linked account.")
    guild_id: str = key.text("", 'Discord: id of the guild a player must be in; "" is none.')
    role_ids: tuple[str, ...] = key.names([], "Discord: ids of roles in that guild, of which a player needs one.")
    authorize_url: str = key.text(
        "", 'Custom: page that asks the player for consent; "" is Discord\'s.', check=check.web_address
    )
    token_url: str = key.text(
        "", 'Custom: where the code is exchanged for a token; "" is Discord\'s.', check=check.web_address
    )
    profile_url: str = key.text(
        "", "Custom: where the player's profile is read; \"\" is Discord's.", check=check.web_address
    )
    token_auth: TokenAuth = key.choice(
        "header",
        TokenAuth,
        "Where client_id and client_secret are sent when the code is exchanged; some want the body.",
    )
    scopes: str = key.text("", "Custom: scopes to ask for, separated by spaces.")
    id_field: str = key.text(
        "id",
        'Custom: field of the profile that never changes; "data.id" is the field id of the object data.',
        check=check.required,
    )
    name_field: str = key.text("username", "Custom: field of the profile to show.", check=check.required)
    timeout: timedelta = key.duration(
        "10 seconds", "How long to wait for the platform's answers.", at_least="100 ms", at_most="1 minute"
    )
    limits_per_client: tuple[RateLimit, ...] = key.rate_limits(
        ["10 per minute", "60 per hour"], "Limits of links that are begun, for each client address."
    )


@dataclass(frozen=True)
class BedrockSection:
    """Players of the Bedrock edition, who come through Geyser and Floodgate."""

    enabled: bool = key.flag(False, "Whether they may register.")
    prefix: str = key.text(".", "What Floodgate puts before their names.")
    username_regex: str = key.pattern("^[a-zA-Z0-9._-]{3,16}$", "Regular expression that their names match.")


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


@dataclass(frozen=True)
class Config:
    """The whole config, checked and typed; `Config()` is all defaults. Its repr shows no secret."""

    server: ServerSection = field(default_factory=ServerSection)
    http: HttpSection = field(default_factory=HttpSection)
    database: DatabaseSection = field(default_factory=DatabaseSection)
    game: GameSection = field(default_factory=GameSection)
    authme: AuthMeSection = field(default_factory=AuthMeSection)
    sync: SyncSection = field(default_factory=SyncSection)
    auth: AuthSection = field(default_factory=AuthSection)
    registration: RegistrationSection = field(default_factory=RegistrationSection)
    verification: VerificationSection = field(default_factory=VerificationSection)
    captcha: CaptchaSection = field(default_factory=CaptchaSection)
    questionnaire: QuestionnaireSection = field(default_factory=QuestionnaireSection)
    chat: ChatSection = field(default_factory=ChatSection)
    bedrock: BedrockSection = field(default_factory=BedrockSection)
    mail: MailSection = field(default_factory=MailSection)
    updates: UpdatesSection = field(default_factory=UpdatesSection)
    downloads: Mapping[str, Download] = field(default_factory=lambda: MappingProxyType({}))
    webhook: WebhookSection = field(default_factory=WebhookSection)
    retention: RetentionSection = field(default_factory=RetentionSection)
    metrics: MetricsSection = field(default_factory=MetricsSection)
    log: LogSection = field(default_factory=LogSection)
    file: Path | None = None
    """The file it was read from, or None."""
    warnings: tuple[str, ...] = ()
    """Sentences about what is allowed but unwise, for the log and the doctor."""

    def base_url(self, bound_port: int | None = None) -> str:
        """The address players use, without a slash at the end; `bound_port` is what port 0 became."""
        return self.server.base_url or self.address(bound_port)

    def address(self, bound_port: int | None = None) -> str:
        """Where this process listens, as an address to open on this machine."""
        host = self.server.host
        if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
            host = "localhost"
        scheme = "https" if self.server.tls_cert_file else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{bound_port or self.server.port}"

    @property
    def authme_config_path(self) -> Path | None:
        """AuthMe's config.yml, whether or not it exists; None when the config does not tell where."""
        directory = self.game.directory
        return self.authme.config or (directory / "plugins" / "AuthMe" / "config.yml" if directory else None)
