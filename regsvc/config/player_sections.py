"""Config sections of users and players: how they register and log in."""

# ruff: noqa: RUF009 - every call among the defaults makes a dataclass field

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Literal

from regsvc.config import key_types as key
from regsvc.config import value_checks as check
from regsvc.core.units import RateLimit

RegistrationMethod = Literal["email", "captcha"]
PasswordRule = Literal["optional", "required", "off"]
CaptchaType = Literal["math", "text"]
CaptchaUse = Literal["verify_send", "login"]
ChatPlatform = Literal["", "discord", "custom"]
TokenAuth = Literal["header", "body"]


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
