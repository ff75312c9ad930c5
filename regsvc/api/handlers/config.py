"""Public route with the part of the config that front ends need."""

from __future__ import annotations

from msgspec import UNSET

from regsvc.api.base import ApiHandler
from regsvc.api.endpoint import endpoint
from regsvc.api.replies import to_reply
from regsvc.api.services import Services
from regsvc.api.types.config import (
    AuthMeConfigFields,
    BedrockConfigFields,
    CaptchaConfigFields,
    ChatConfigFields,
    ConfigReply,
    PublicConfigFields,
    QuestionnaireConfigFields,
    RegistrationConfigFields,
)
from regsvc.config.sections import Config
from regsvc.core.game_address import public_game_address

USERNAME_REGEX_WITHOUT_AUTHME = "^[a-zA-Z0-9_]{3,16}$"


class ConfigHandler(ApiHandler):
    @endpoint()
    async def get(self) -> ConfigReply:
        """Show the public config of this host: texts for front ends, and the requirements of a registration."""
        return ConfigReply(config=public_config(self.services))


def public_config(services: Services) -> PublicConfigFields:
    """Return the public config in force now."""
    config = services.config
    domains = list(config.registration.email_domains)
    return PublicConfigFields(
        theme=config.server.theme,
        logo_url=config.server.logo_url,
        banner_url=config.server.banner_url,
        favicon=config.server.favicon,
        accent=config.server.accent,
        description=config.server.description,
        links=dict(config.server.links),
        announcement=config.server.announcement,
        web_server_prefix=config.server.name,
        game_address=public_game_address(config.game.address),
        language=config.server.language,
        languages=services.translations.languages,
        auth_methods=list(config.registration.methods),
        username_regex=_username_regex(services),
        registration=_registration(services),
        authme=_authme(services),
        enable_email_domain_whitelist=bool(domains),
        enable_email_alias_limit=not config.registration.email_aliases,
        email_domain_whitelist=domains or UNSET,
        captcha=_captcha(config),
        questionnaire=_questionnaire(services),
        chat=_chat(config),
        discord=_chat(config),
        bedrock=to_reply(BedrockConfigFields, config.bedrock),
        ws_port=None,
    )


def _username_regex(services: Services) -> str:
    if services.config.registration.username_regex:
        return services.config.registration.username_regex
    return services.name_rule.regex if services.is_authme_enabled else USERNAME_REGEX_WITHOUT_AUTHME


def _password_regex(services: Services) -> str:
    return services.config.registration.password_regex or services.password_rule.regex


def _registration(services: Services) -> RegistrationConfigFields:
    return RegistrationConfigFields(
        open=services.config.registration.open,
        approval=services.config.registration.approval,
        email="verified" if services.config.registration.requires_code else "optional",
        code_digits=services.config.verification.code_digits,
        password=services.config.registration.password_rule,
        password_reset="mail" if services.mail_queue.is_available else "operator",
        password_regex=_password_regex(services),
        password_min_length=services.password_rule.min_length,
        password_max_length=services.password_rule.max_length,
    )


def _authme(services: Services) -> AuthMeConfigFields:
    return AuthMeConfigFields(
        enabled=services.is_authme_enabled,
        require_password=services.config.registration.password_rule == "required",  # noqa: S105 - a mode
        password_regex=_password_regex(services),
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


def _questionnaire(services: Services) -> QuestionnaireConfigFields:
    questionnaire = services.questionnaires.questionnaire
    return QuestionnaireConfigFields(
        enabled=services.questionnaires.is_enabled,
        pass_score=questionnaire.pass_score,
        has_text_questions=questionnaire.has_text_questions,
    )


def _chat(config: Config) -> ChatConfigFields:
    return ChatConfigFields(
        enabled=bool(config.chat.platform), required=config.chat.required, platform=config.chat.platform or None
    )
