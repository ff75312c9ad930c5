"""The whole config: sections of users and players, and with those of `regsvc.config.host_sections` all of it.

A new key is one line in its section and `make sample` (`regsvc.config.loader` reads the config). The docstring of a
section is its heading in the sample.
"""

# ruff: noqa: RUF009 - every call among the defaults makes a dataclass field

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Final, Literal

from regsvc.config import key_types as key
from regsvc.config import value_checks as check
from regsvc.config.host_sections import (
    AllowlistSection,
    AuthMeSection,
    DatabaseSection,
    GameSection,
    GameServer,
    HttpSection,
    LogSection,
    MailSection,
    MetricsSection,
    RetentionSection,
    ServerSection,
    SyncSection,
    TeamChat,
    UpdatesSection,
    WebhookSection,
)
from regsvc.config.key_types import CODES, Needs, NeedsHigher, NeedsItem, NeedsTable, NeedsWithout
from regsvc.core.addresses import is_unspecified
from regsvc.core.exceptions import StartupError
from regsvc.core.i18n import Sentence
from regsvc.core.units import RateLimit

RegistrationMethod = Literal["email", "captcha"]
ReapplyHolds = Literal["name", "address"]
PasswordRule = Literal["optional", "required", "off"]
CaptchaType = Literal["math", "text", "work"]
CaptchaUse = Literal["verify_send", "login", "forgot"]
ChatPlatform = Literal["", "discord", "custom"]
TokenAuth = Literal["header", "body"]
NeedsTotp = Literal["none", "operators", "all"]
IdleReturns = Literal["login", "ask"]
Renewal = Literal["off", "ask"]

_CAPTCHAS: Final = NeedsItem("registration.methods", "captcha") | Needs("captcha.also_for")
_REVIEW: Final = (
    Needs("registration.approval", True)
    | Needs("sync.new_players", "pending")
    | Needs("sync.existing_players", "pending")
)


@dataclass(frozen=True)
class AuthSection:
    """Logins, access tokens and keys."""

    user_token: timedelta = key.duration("30 days", "How long a user stays logged in.")
    user_idle: timedelta = key.duration("7 days", "How long a user stays logged in without a request.")
    admin_token: timedelta = key.duration("12 hours", "How long an admin stays logged in.")
    admin_idle: timedelta = key.duration("2 hours", "How long an admin stays logged in without a request.")
    installation_key: str = key.secret(
        "",
        'Key from which codes and mailed links are derived, the same on all companions that share a database; "" '
        "generates one in server.state_dir.",
        check=check.long_key,
    )
    signing_key: str = key.secret(
        "", 'Key that signs access tokens; "" generates one in server.state_dir.', check=check.long_key
    )
    previous_keys: tuple[str, ...] = key.secrets(
        [], "Former signing keys; their tokens stay valid until they expire.", check=check.long_key
    )
    min_operator_level: int = key.integer(
        1, "Lowest level in ops.json with which an operator may log in as admin.", at_least=1, at_most=4
    )
    operators_need_totp: bool = key.flag(
        False,
        "Whether operators need a second factor to log in as admin. They set it up on the account page, where they "
        "can always log in.",
    )
    team_needs_totp: NeedsTotp = key.choice(
        "none",
        NeedsTotp,
        "Who needs a second factor to log in at /admin: nobody, operators (as with operators_need_totp), or all of the "
        "team, reviewers and moderators included.",
    )
    login_limits: tuple[RateLimit, ...] = key.rate_limits(
        ["5 per minute"],
        "Limits of failed logins per client address, and per account and client address; an IPv6 network (/48) has "
        "four times as many.",
    )
    max_concurrent_hashes: int = key.integer(
        0,
        "Passwords hashed at a time; 0 is one less than the number of cores, at least 1.",
        at_least=0,
        at_most=256,
    )
    max_waiting_hashes: int = key.integer(
        64,
        "Logins that may wait for hashing; more are refused and can be retried.",
        at_least=0,
        at_most=100_000,
    )

    NEEDS: ClassVar[NeedsTable] = {
        "user_token admin_token installation_key signing_key previous_keys min_operator_level": (),
        "user_idle": (NeedsHigher("user_token"),),
        "admin_idle operators_need_totp team_needs_totp login_limits max_concurrent_hashes max_waiting_hashes": (),
    }

    def needs_totp(self, *, is_operator: bool) -> bool:
        """Return whether a member of the team needs a second factor."""
        of_operators = self.operators_need_totp or self.team_needs_totp == "operators"
        return self.team_needs_totp == "all" or (is_operator and of_operators)


@dataclass(frozen=True)
class RegistrationSection:
    """Registration: who may register, and with what."""

    open: bool = key.flag(True, "Whether registrations are accepted.")
    approval: bool = key.flag(True, "Whether an admin reviews every registration.")
    methods: tuple[RegistrationMethod, ...] = key.choices(
        ["email"],
        RegistrationMethod,
        'What a registration requires: a code sent by e-mail, a captcha, or both; with ["captcha"] alone, for hosts '
        "that cannot send mail, addresses are optional and unproven, and players are mailed nothing.",
    )
    password: PasswordRule = key.choice(
        "optional",
        PasswordRule,
        "Whether players choose a password when they register, or later through a mailed link; without codes by "
        'e-mail they always choose one. Without AuthMe it is only for our pages, which ask for it if "required"; who '
        "has none sets one with such a link, or without codes with an operator's.",
    )
    limits_per_client: tuple[RateLimit, ...] = key.rate_limits(
        ["3 per hour", "10 per day"],
        "Limits of registrations per client address, if they require no code by e-mail; IPv6 is counted by /48.",
    )
    limits_total: tuple[RateLimit, ...] = key.rate_limits(
        ["60 per hour", "300 per day"],
        "Limits of registrations in total, if they require no code by e-mail; one network gets half.",
    )
    password_regex: str = key.pattern("", 'Regular expression that passwords must match; "" is AuthMe\'s own rule.')
    username_regex: str = key.pattern(
        "", 'Regular expression that names must match; "" is AuthMe\'s own rule, else ^[a-zA-Z0-9_]{3,16}$.'
    )
    reserved_names: tuple[str, ...] = key.names(
        [], "Names that cannot be registered; those in ops.json are always reserved."
    )
    email_domains: tuple[str, ...] = key.names([], "Allowed e-mail domains; [] allows any.", check=check.email_domain)
    blocked_email_domains: tuple[str, ...] = key.names([], "Blocked e-mail domains.", check=check.email_domain)
    email_aliases: bool = key.flag(True, "Whether addresses such as alice+game@example.org are allowed.")
    reapply_after: timedelta = key.duration(
        "24 hours", "How long a rejected registration reserves its name.", at_least="0 seconds"
    )
    reapply_holds: ReapplyHolds = key.choice(
        "name",
        ReapplyHolds,
        "What cannot apply again before that: the name, or the proven e-mail address, in any spelling, as well.",
    )
    ask_expires: timedelta = key.duration(
        "14 days",
        "How long an applicant may take to answer a question of the team. Then the registration is\n"
        "rejected, and its name is free at once.",
        at_least="1 hour",
    )

    pause_after: timedelta | None = key.optional_duration(
        'After how long, such as "3 days", in which the team decides nothing while applications wait, registration '
        'closes by itself, until the next decision; "" is never.',
        at_least="1 minute",
    )

    NEEDS: ClassVar[NeedsTable] = {
        "open approval methods password_regex username_regex reserved_names email_domains email_aliases password": (),
        "limits_per_client limits_total": (NeedsWithout("methods", "email"),),
        "blocked_email_domains": (NeedsWithout("email_domains"),),
        "reapply_after ask_expires pause_after": (_REVIEW,),
        "reapply_holds": (_REVIEW, Needs("reapply_after"), CODES),
    }

    def answer_by(self, asked_at: datetime | None) -> datetime | None:
        """Return until when to answer a question that was asked then; None: nothing is to be answered."""
        return None if asked_at is None else asked_at + self.ask_expires

    @property
    def requires_code(self) -> bool:
        """Whether applicants prove their e-mail address; otherwise players are mailed nothing."""
        return "email" in self.methods

    def password_rule(self, *, has_authme: bool) -> PasswordRule:
        """Return the rule in force for passwords: who needs one in the game, and is mailed no link, chooses it now."""
        return "required" if has_authme and not self.requires_code else self.password


@dataclass(frozen=True)
class MembershipSection:
    """Memberships: how long who was approved may play."""

    ends: timedelta | None = key.optional_duration(
        'How long an approval lasts that says nothing else, such as "30 days"; "" is without end.', at_least="1 hour"
    )
    idle: timedelta | None = key.optional_duration(
        'Ends who was not seen in the game for so long, such as "90 days"; "" is off.', at_least="1 day"
    )
    idle_returns: IdleReturns = key.choice(
        "login",
        IdleReturns,
        "How who was ended for that comes back: by a login on the web, or asking.",
    )
    role_ids: tuple[str, ...] = key.names(
        [],
        "Discord: ids of roles in chat.guild_id; ends who has none of them, or leaves the guild. Who never "
        "linked an account has no roles to look at, and stays; who unlinks it ends a day later.",
    )
    remind: tuple[timedelta, ...] = key.durations(
        ["7 days", "1 day"], "How long before an end users are reminded of it; [] is never."
    )
    renew: Renewal = key.choice(
        "off", Renewal, 'Whether users may ask to stay on their page: "ask" lets them; the team decides.'
    )

    NEEDS: ClassVar[NeedsTable] = {
        "ends idle role_ids remind renew": (),
        "idle_returns": (Needs("idle"),),
    }


@dataclass(frozen=True)
class VerificationSection:
    """Verification codes, which prove an e-mail address."""

    code_digits: int = key.integer(6, "Digits of a code.", at_least=4, at_most=10)
    code_valid: timedelta = key.duration("5 minutes", "How long a code is valid.", at_most="1 hour")
    max_tries: int = key.integer(
        5, "Attempts per code, of the client that requested it; all others have as many.", at_least=1, at_most=100
    )
    tries_per_client: tuple[RateLimit, ...] = key.rate_limits(
        ["20 per hour", "60 per day"], "Limits of wrong codes per client address; IPv6 is counted by /48."
    )
    limits_per_address: tuple[RateLimit, ...] = key.rate_limits(
        ["1 per minute", "10 per day"],
        "Limits of codes per e-mail address, whatever its +tag and dots; links for forgotten passwords have the same, "
        "counted apart.",
    )
    limits_per_client: tuple[RateLimit, ...] = key.rate_limits(
        ["10 per minute", "20 per hour", "100 per day"],
        "Limits of codes per client address; links for forgotten passwords have the same, counted apart.",
    )
    limits_total: tuple[RateLimit, ...] = key.rate_limits(
        ["60 per hour", "400 per day"],
        "Limits of codes in total, of which one network gets half; keep them below what your mail provider allows.",
    )
    limits_total_forgot: tuple[RateLimit, ...] = key.rate_limits(
        ["30 per hour", "100 per day"],
        "Limits of links for forgotten passwords in total, beside limits_total; only those that are mailed count. "
        "Notices of passwords changed in the game have the same, counted apart.",
    )

    NEEDS: ClassVar[NeedsTable] = {
        "code_digits code_valid max_tries tries_per_client limits_per_address limits_per_client": (CODES,),
        "limits_total limits_total_forgot": (CODES,),
    }


@dataclass(frozen=True)
class CaptchaSection:
    """Captchas; required to register when registration.methods contains "captcha"."""

    type: CaptchaType = key.choice(
        "math",
        CaptchaType,
        "A picture of a simple sum, or of letters and digits; or no picture, but a puzzle that the browser solves.",
    )
    without_picture: bool = key.flag(
        True,
        "Whether people who cannot see the picture may have their browser solve a puzzle instead; programs can do "
        "that, too, at little cost.",
    )
    length: int = key.integer(4, "Characters of a text captcha.", at_least=3, at_most=8)
    valid: timedelta = key.duration("5 minutes", "How long a captcha can be answered.", at_most="1 hour")
    also_for: tuple[CaptchaUse, ...] = key.choices(
        [], CaptchaUse, "What else requires a captcha: requesting a code, logging in, a forgotten password."
    )
    max_outstanding: int = key.integer(
        10_000,
        "Captchas waiting for an answer, of all clients together; each client (IPv6: /48) may have a hundredth, at "
        "least 10.",
        at_least=1,
        at_most=1_000_000,
    )
    pictures_per_client: tuple[RateLimit, ...] = key.rate_limits(
        ["1200 per minute"], "Limits of images per client address; IPv6 is counted by /48."
    )
    answers_per_client: tuple[RateLimit, ...] = key.rate_limits(
        ["30 per minute", "300 per day"],
        "Limits of answers, right or wrong, per client address (IPv6: /48): one sum in thirty can be guessed.",
    )
    work_per_client: tuple[RateLimit, ...] = key.rate_limits(
        ["10 per minute", "100 per day"],
        "Limits of captchas without a picture per client address (IPv6: /48); beyond them pictures are left.",
    )

    NEEDS: ClassVar[NeedsTable] = {
        "type without_picture valid max_outstanding answers_per_client": (_CAPTCHAS,),
        "length": (_CAPTCHAS, Needs("type", "text")),
        "also_for": (CODES | NeedsItem("also_for", "login"),),
        "pictures_per_client": (_CAPTCHAS, Needs("type", "math", "text")),
        "work_per_client": (_CAPTCHAS, Needs("type", "work") | Needs("without_picture", True)),
    }


@dataclass(frozen=True)
class QuestionnaireSection:
    """Questions to answer before registering."""

    file: Path | None = key.optional_path('File with the questions; "" is off. conf/questionnaire.toml is a sample.')
    pass_score: int = key.integer(60, "Lowest score that passes.", at_least=0, at_most=1_000_000)
    valid: timedelta = key.duration(
        "10 minutes", "How long answers that passed can be used to register.", at_most="30 days"
    )
    retry_after: timedelta = key.duration(
        "5 minutes",
        "How long to wait after answers that did not pass.",
        at_least="0 seconds",
        at_most="30 days",
    )
    limits_per_client: tuple[RateLimit, ...] = key.rate_limits(
        ["10 per minute", "100 per day"], "Limits of submitted answers per client address."
    )
    limits_total: tuple[RateLimit, ...] = key.rate_limits(
        ["1000 per hour"], "Limits of submitted answers in total, of which one network gets half."
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

    NEEDS: ClassVar[NeedsTable] = {
        "file": (),
        "pass_score valid retry_after limits_per_client limits_total scorer_url": (Needs("file"),),
        "scorer_key scorer_model scorer_timeout": (Needs("file"), Needs("scorer_url")),
    }


@dataclass(frozen=True)
class ChatSection:
    """Linking accounts of a chat platform (OAuth 2.0)."""

    platform: ChatPlatform = key.choice("", ChatPlatform, 'The platform; "" is off.')
    client_id: str = key.text("", "Id of the application registered there.")
    client_secret: str = key.secret("", "Secret of that application.")
    redirect_url: str = key.text(
        "",
        'Where the platform sends players back; "" is /api/chat/callback below server.base_url.',
        check=check.web_address,
    )
    required: bool = key.flag(False, "Whether a registration requires a linked account.")
    guild_id: str = key.text("", 'Discord: id of the guild that a player must be in; "" is none.')
    role_ids: tuple[str, ...] = key.names([], "Discord: ids of roles in that guild; a player needs one of them.")
    bot_token: str = key.secret(
        "",
        'Discord: token of a bot in that guild, for membership.role_ids and give_role_id; "" is that of [[team_chat]].',
        check=check.header_value,
    )
    give_role_id: str = key.text(
        "", 'Discord: id of a role there that only who may play is given, and nobody else keeps; "" is none.'
    )
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
        "Where client_id and client_secret are sent when the code is exchanged; some platforms require the body.",
    )
    scopes: str = key.text("", "Custom: scopes to ask for, separated by spaces.")
    id_field: str = key.text(
        "id",
        'Custom: field of the profile with the permanent id; "data.id" is the field id of the object data.',
        check=check.required,
    )
    name_field: str = key.text("username", "Custom: field of the profile to show.", check=check.required)
    timeout: timedelta = key.duration(
        "10 seconds", "How long to wait for the platform's responses.", at_least="100 ms", at_most="1 minute"
    )
    limits_per_client: tuple[RateLimit, ...] = key.rate_limits(
        ["10 per minute", "60 per hour"],
        "Limits of started links per client address; an IPv6 network (/48) has four times as many.",
    )

    NEEDS: ClassVar[NeedsTable] = {
        "platform required give_role_id": (),
        "client_id client_secret redirect_url guild_id authorize_url token_url profile_url": (Needs("platform"),),
        "role_ids token_auth timeout limits_per_client": (Needs("platform"),),
        "bot_token": (Needs("give_role_id") | Needs("membership.role_ids"),),
        "scopes id_field name_field": (Needs("platform", "custom"),),
    }


@dataclass(frozen=True)
class BedrockSection:
    """Players of the Bedrock edition, who join through Geyser and Floodgate."""

    enabled: bool = key.flag(False, "Whether Bedrock players may register.")
    address: str = key.text(
        "",
        'Host and port that Bedrock players connect to; "" is the host in game.address, with port 19132.',
        check=check.game_address,
    )
    prefix: str = key.text(".", "Prefix that Floodgate puts before their names.")
    username_regex: str = key.pattern("^[a-zA-Z0-9._-]{3,16}$", "Regular expression that their names must match.")

    NEEDS: ClassVar[NeedsTable] = {
        "enabled": (),
        "address prefix username_regex": (Needs("enabled", True),),
    }


@dataclass(frozen=True)
class Download:
    """Files that front ends offer: one table per file, such as [downloads.client]."""

    name: str = key.text("", "Its name.")
    description: str = key.text("", "Its purpose.")
    version: str = key.text("", "Its version.")
    size: str = key.text("", 'Its size as text, such as "12 MB".')
    url: str = key.text("", "Its address: a web address, or a path on this server.", check=check.web_address_or_path)
    icon: str = key.text(
        "",
        'Its icon: a web address, a path on this server, or a word your own front end knows, such as "gamepad".',
        check=check.icon,
    )

    NEEDS: ClassVar[NeedsTable] = {"name description version size url icon": ()}


MISSING_SECRET: Final = "https://secret-that-is-missing.invalid"  # noqa: S105
"""Value of a secret that could not be read: set, as far as rules across keys are concerned, and of use to no service.

It is an address because some secrets are one, and as long as a key has to be.
"""


class ConfigError(StartupError):
    """The config cannot be used; `str()` is one full sentence per problem and line, without any secret."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


@dataclass(frozen=True)
class Config:
    """The whole config, checked and typed; `Config()` is all defaults. Its repr shows no secret."""

    server: ServerSection = field(default_factory=ServerSection)
    http: HttpSection = field(default_factory=HttpSection)
    database: DatabaseSection = field(default_factory=DatabaseSection)
    game: GameSection = field(default_factory=GameSection)
    servers: tuple[GameServer, ...] = ()
    """The game servers beside that of `game`, from [[game.server]]."""
    authme: AuthMeSection = field(default_factory=AuthMeSection)
    allowlist: AllowlistSection = field(default_factory=AllowlistSection)
    sync: SyncSection = field(default_factory=SyncSection)
    auth: AuthSection = field(default_factory=AuthSection)
    registration: RegistrationSection = field(default_factory=RegistrationSection)
    membership: MembershipSection = field(default_factory=MembershipSection)
    verification: VerificationSection = field(default_factory=VerificationSection)
    captcha: CaptchaSection = field(default_factory=CaptchaSection)
    questionnaire: QuestionnaireSection = field(default_factory=QuestionnaireSection)
    chat: ChatSection = field(default_factory=ChatSection)
    bedrock: BedrockSection = field(default_factory=BedrockSection)
    mail: MailSection = field(default_factory=MailSection)
    updates: UpdatesSection = field(default_factory=UpdatesSection)
    downloads: Mapping[str, Download] = field(default_factory=lambda: MappingProxyType({}))
    webhook: WebhookSection = field(default_factory=WebhookSection)
    more_webhooks: tuple[WebhookSection, ...] = ()
    """The webhooks after the first, from [[webhook]]."""
    team_chats: tuple[TeamChat, ...] = ()
    """The channels of the team, from [[team_chat]]."""
    retention: RetentionSection = field(default_factory=RetentionSection)
    metrics: MetricsSection = field(default_factory=MetricsSection)
    log: LogSection = field(default_factory=LogSection)
    custom_css: str = ""
    """The text of `server.custom_css`."""
    file: Path | None = None
    """The file it was read from, or None."""
    warnings: tuple[str, ...] = ()
    """Sentences about settings that are allowed but risky, for the log and the doctor."""
    exposure_warnings: tuple[str, ...] = ()
    """Those of `warnings` that are about secrets in a file that every user of the machine may read."""
    without_effect: tuple[Sentence, ...] = ()
    """Those of `warnings` that are about keys, files and variables without effect."""
    missing_secrets: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Secrets whose files could not be read, each with a sentence; their values are `MISSING_SECRET`.

    Also the files of the certificate.
    """

    variables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), compare=False)
    """The environment variables that set keys, by "section.key"."""

    def place_of(self, section: str, name: str) -> str:
        """Return where a key is set, or can be: its environment variable, or its place in the config file."""
        default = f"COMPANION_{section}_{name}".upper() if self.is_from_variables else ""
        in_file = f"{self.file or 'companion.toml'}: [{section}] {name}"
        return self.variables.get(f"{section}.{name}", default) or in_file

    @property
    def new_players(self) -> Literal["pending", "approved"]:
        """Status of players who register in the game; `sync.new_players = "auto"` follows `registration.approval`."""
        given = self.sync.new_players
        if given == "auto":
            return "pending" if self.registration.approval else "approved"
        return given

    @property
    def bot_token(self) -> str:
        """Token of the bot that looks at roles on Discord; "" if there is none."""
        return self.chat.bot_token or next((it.token for it in self.team_chats if it.platform == "discord"), "")

    @property
    def is_from_variables(self) -> bool:
        """Whether there is no config file but variables, as in a container and on a panel."""
        return self.file is None and bool(self.variables)

    def require_secrets(self, *names: str) -> None:
        """Raise `ConfigError` if a file of one of these secrets ("section.key"; none given: of any) was missing."""
        problems = [reason for name, reason in self.missing_secrets.items() if not names or name in names]
        if problems:
            raise ConfigError(*problems)

    def base_url(self, bound_port: int | None = None) -> str:
        """Return the public address without a trailing slash; `bound_port` is the port chosen for port 0."""
        return self.server.base_url or self.address(bound_port)

    def address(self, bound_port: int | None = None) -> str:
        """Return the address at which this process can be reached on this machine."""
        host = "localhost" if is_unspecified(self.server.host) else self.server.host
        scheme = "https" if self.server.tls_cert_file else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{bound_port or self.server.port}"

    @property
    def webhooks(self) -> tuple[WebhookSection, ...]:
        """All webhooks in the order of the config; the first is there also if it has no URL."""
        return self.webhook, *self.more_webhooks

    @property
    def game_servers(self) -> dict[str, GameServer]:
        """All game servers by name, as outbox messages know them; that of `game`, the main one, is ""."""
        return {"": self.game, **{server.name: server for server in self.servers}}

    @property
    def authme_config_path(self) -> Path | None:
        """AuthMe's config.yml, whether or not it exists; None if its place is not configured."""
        return self.authme.config or self.game.authme_config_path
