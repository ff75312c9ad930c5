"""Public route with the part of the config that front ends need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal

from msgspec import UNSET, Meta, UnsetType

from regsvc.config.live import LiveConfig
from regsvc.config.sections import Config
from regsvc.core.addresses import public_game_address
from regsvc.core.i18n import Translations
from regsvc.core.shapes import Moment, Output
from regsvc.core.units import format_duration
from regsvc.http.messages import Language, to_reply
from regsvc.http.route import PUBLIC, Routes, SentAs
from regsvc.notifications.mail.queue import MailQueue
from regsvc.registration.questionnaire.service import Questionnaires
from regsvc.users.gates import Gates

if TYPE_CHECKING:
    from regsvc.http.call import Call

ROUTES: Final = Routes()

Regex = Annotated[str, Meta(description="A regular expression.", examples=["^[a-zA-Z0-9_]{3,16}$"])]


class RegistrationConfigFields(Output, frozen=True, kw_only=True):
    """The requirements of a registration; lengths are in characters."""

    open: bool
    opens_at: Annotated[Moment | None, Meta(description="When registration, closed now, opens by itself.")]
    approval: bool
    email: Annotated[
        Literal["verified", "optional"], Meta(description="`optional`: no code proves it, and nothing is mailed to it.")
    ]
    code_digits: Annotated[int, Meta(description="Digits of a verification code.", examples=[6])]
    password: Annotated[
        Literal["optional", "required", "off"],
        Meta(description="`optional`: without AuthMe only to log in here, and set later; our pages do not ask for it."),
    ]
    password_reset: Annotated[
        Literal["mail", "operator"],
        Meta(description="Whether a link to set a new password is mailed, or made by an operator and handed over."),
    ]
    password_regex: Regex
    password_min_length: int
    password_max_length: int


class AuthMeConfigFields(Output, frozen=True, kw_only=True):
    """The shared AuthMe table."""

    enabled: bool


class CaptchaConfigFields(Output, frozen=True, kw_only=True):
    """The routes that require a captcha."""

    enabled: bool
    email_enabled: bool
    type: Literal["math", "text", "work"]
    without_picture: Annotated[bool, Meta(description="Whether `GET /api/captcha/work` may be used instead.")]
    required_for: Annotated[list[str], Meta(examples=[["register", "login", "verify_send", "forgot"]])]


class QuestionnaireConfigFields(Output, frozen=True, kw_only=True):
    """The questionnaire that a registration may require."""

    enabled: bool
    pass_score: int
    has_text_questions: bool


class ChatConfigFields(Output, frozen=True, kw_only=True):
    """The chat accounts that users can or must link."""

    enabled: bool
    required: bool
    platform: Annotated[str, Meta(examples=["discord"])] | None


class BedrockConfigFields(Output, frozen=True, kw_only=True):
    """Registration of players of the Bedrock edition."""

    enabled: bool
    prefix: Annotated[str, Meta(description="The prefix of their names in the game.", examples=["."])]
    username_regex: Regex


class PublicConfigFields(Output, frozen=True, kw_only=True):
    """The config that front ends need. Never contains secrets."""

    theme: Annotated[str, Meta(examples=["default"])]
    logo_url: Annotated[str, Meta(examples=["https://example.org/logo.png"])]
    banner_url: Annotated[str, Meta(examples=["https://example.org/banner.jpg"])]
    favicon: Annotated[str, Meta(examples=["https://example.org/icon.png"])]
    accent: Annotated[
        str, Meta(description="A colour for buttons and links; empty: the theme's.", examples=["#2f6f4f"])
    ]
    description: Annotated[str, Meta(examples=["A quiet survival server."])]
    links: Annotated[
        dict[str, str], Meta(description="Addresses by their texts.", examples=[{"Map": "https://map.example.org"}])
    ]
    announcement: Annotated[str, Meta(examples=["The server moves on Sunday."])]
    contact: Annotated[
        str,
        Meta(
            description="How players reach the team: an address or a few words; empty: not told.",
            examples=["mods@example.org"],
        ),
    ]
    web_server_prefix: Annotated[str, Meta(description="The server's name.", examples=["Game server"])]
    game_address: Annotated[
        str | None,
        Meta(description="The address that players join, if the host has set one.", examples=["play.example.org"]),
    ]
    language: Language
    languages: Annotated[list[str], Meta(examples=[["en", "zh"]])]
    auth_methods: Annotated[
        list[str], Meta(description="The proofs a registration requires: `email`, `captcha`.", examples=[["email"]])
    ]
    username_regex: Regex
    registration: RegistrationConfigFields
    authme: AuthMeConfigFields
    gates: Annotated[
        list[Literal["authme", "allowlist"]],
        Meta(description="What keeps players out of the game until they are approved; empty: nothing does."),
    ]
    enable_email_alias_limit: bool
    email_domain_whitelist: list[str] | UnsetType = UNSET
    captcha: CaptchaConfigFields
    questionnaire: QuestionnaireConfigFields
    chat: ChatConfigFields
    bedrock: BedrockConfigFields
    member_for: (
        Annotated[
            str,
            Meta(description="How long an approval lets users play that says nothing else.", examples=["30 days"]),
        ]
        | UnsetType
    ) = UNSET


USERNAME_REGEX_WITHOUT_AUTHME = "^[a-zA-Z0-9_]{3,16}$"


@dataclass(frozen=True)
class PublicConfig:
    """The public config in force now, with all that it is made of."""

    live: LiveConfig
    translations: Translations
    gates: Gates
    questionnaires: Questionnaires
    mail_queue: MailQueue

    def sources(self) -> tuple[object, ...]:
        """Return all that it is made of; each is replaced when it changes."""
        live, mails = self.live, self.mail_queue.is_available
        return live.current, live.authme, self.gates.names, self.translations, self.questionnaires, mails

    def in_language(self, language: str) -> PublicConfigFields:
        """Return it with the host's texts in a language."""
        config, questionnaire = self.live.current, self.questionnaires.questionnaire
        server = config.server
        domains = list(config.registration.email_domains)
        return PublicConfigFields(
            theme=config.server.theme,
            logo_url=config.server.logo_url,
            banner_url=config.server.banner_url,
            favicon=config.server.favicon,
            accent=config.server.accent,
            description=server.in_language(server.description, language),
            links=server.in_language(server.links, language),
            announcement=server.in_language(server.announcement, language),
            contact=config.server.told_contact,
            web_server_prefix=config.server.name,
            game_address=public_game_address(config.game.address),
            language=config.server.language,
            languages=self.translations.languages,
            auth_methods=list(config.registration.methods),
            username_regex=self._username_regex,
            registration=self._registration(),
            authme=AuthMeConfigFields(enabled=self.gates.has_authme),
            gates=list(self.gates.names),
            enable_email_alias_limit=not config.registration.email_aliases,
            email_domain_whitelist=domains or UNSET,
            captcha=_captcha(config),
            questionnaire=QuestionnaireConfigFields(
                enabled=self.questionnaires.is_enabled,
                pass_score=questionnaire.pass_score,
                has_text_questions=questionnaire.has_text_questions,
            ),
            chat=ChatConfigFields(
                enabled=bool(config.chat.platform), required=config.chat.required, platform=config.chat.platform or None
            ),
            bedrock=to_reply(BedrockConfigFields, config.bedrock),
            member_for=UNSET if config.membership.ends is None else format_duration(config.membership.ends),
        )

    @property
    def _username_regex(self) -> str:
        given = self.live.current.registration.username_regex
        if given:
            return given
        return self.live.authme.names.regex if self.gates.has_authme else USERNAME_REGEX_WITHOUT_AUTHME

    def _registration(self) -> RegistrationConfigFields:
        config, rule = self.live.current, self.live.authme.passwords
        own = config.registration
        return RegistrationConfigFields(
            open=own.open,
            opens_at=self.live.opens_at,
            approval=own.approval,
            email="verified" if own.requires_code else "optional",
            code_digits=config.verification.code_digits,
            password=own.password_rule(has_authme=self.gates.has_authme),
            password_reset="mail" if self.mail_queue.is_available else "operator",
            password_regex=own.password_regex or rule.regex,
            password_min_length=rule.min_length,
            password_max_length=rule.max_length,
        )


def _captcha(config: Config) -> CaptchaConfigFields:
    is_at_registration = "captcha" in config.registration.methods
    required_for = [*(["register"] if is_at_registration else []), *config.captcha.also_for]
    return CaptchaConfigFields(
        enabled=bool(required_for),
        email_enabled=config.registration.requires_code,
        type=config.captcha.type,
        without_picture=config.captcha.without_picture,
        required_for=required_for,
    )


@ROUTES.add("GET", "/api/config", PUBLIC, made_of=PublicConfig.sources)
async def show_config(
    call: Call, public: PublicConfig
) -> Annotated[PublicConfigFields, SentAs("config", "ConfigReply")]:
    """Show the public config of this host: texts for front ends, and the requirements of a registration.

    The host's texts are in the caller's language; for front ends that exist already, in the host's.
    """
    is_legacy = call.config.http.legacy_status
    return public.in_language(call.config.server.language if is_legacy else call.language)
