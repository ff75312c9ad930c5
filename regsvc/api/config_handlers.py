"""What front ends ask first: how this host is set up, and which version it runs."""

from __future__ import annotations

from regsvc import __version__
from regsvc.api.base import ApiHandler
from regsvc.config import Config
from regsvc.services import Services

USERNAME_REGEX_WITHOUT_AUTHME = "^[a-zA-Z0-9_]{3,16}$"


class ConfigHandler(ApiHandler):
    async def get(self) -> None:
        config, services = self.services.config, self.services
        self.reply(
            config={
                **_server(config),
                "languages": services.translations.languages,
                "authMethods": list(config.registration.methods),
                "usernameRegex": _username_regex(services),
                "registration": _registration(services),
                "authme": _authme(services),
                **_email(config),
                "captcha": _captcha(config),
                "questionnaire": _questionnaire(config),
                "chat": _chat(config),
                "discord": _chat(config),
                "bedrock": {
                    "enabled": config.bedrock.enabled,
                    "prefix": config.bedrock.prefix,
                    "usernameRegex": config.bedrock.username_regex,
                },
                "wsPort": None,
            }
        )


class VersionHandler(ApiHandler):
    async def get(self) -> None:
        self.reply(
            currentVersion=__version__,
            latestVersion=None,
            updateAvailable=False,
            releasesUrl=None,
            checkedAt=None,
            plugin={
                "name": "AuthMe",
                "currentVersion": None,
                "latestVersion": None,
                "updateAvailable": False,
            },
        )


def _server(config: Config) -> dict[str, object]:
    return {
        "theme": config.server.theme,
        "logoUrl": config.server.logo_url,
        "announcement": config.server.announcement,
        "webServerPrefix": config.server.name,
        "language": config.server.language,
    }


def _username_regex(services: Services) -> str:
    if services.config.registration.username_regex:
        return services.config.registration.username_regex
    return services.name_rule.regex if services.is_authme_enabled else USERNAME_REGEX_WITHOUT_AUTHME


def _password_regex(services: Services) -> str:
    return services.config.registration.password_regex or services.password_rule.regex


def _registration(services: Services) -> dict[str, object]:
    return {
        "open": services.config.registration.open,
        "approval": services.config.registration.approval,
        "password": services.config.registration.password,
        "passwordRegex": _password_regex(services),
        "passwordMinLength": services.password_rule.min_length,
        "passwordMaxLength": services.password_rule.max_length,
    }


def _authme(services: Services) -> dict[str, object]:
    return {
        "enabled": services.is_authme_enabled,
        "requirePassword": services.config.registration.password == "required",  # noqa: S105 - a mode
        "passwordRegex": _password_regex(services),
    }


def _email(config: Config) -> dict[str, object]:
    domains = list(config.registration.email_domains)
    rules: dict[str, object] = {
        "enableEmailDomainWhitelist": bool(domains),
        "enableEmailAliasLimit": not config.registration.email_aliases,
    }
    return rules | {"emailDomainWhitelist": domains} if domains else rules


def _captcha(config: Config) -> dict[str, object]:
    is_at_registration = "captcha" in config.registration.methods
    required_for = [*(["register"] if is_at_registration else []), *config.captcha.also_for]
    return {
        "enabled": bool(required_for),
        "emailEnabled": "email" in config.registration.methods,
        "type": config.captcha.type,
        "requiredFor": required_for,
    }


def _questionnaire(config: Config) -> dict[str, object]:
    return {
        "enabled": config.questionnaire.file is not None,
        "passScore": config.questionnaire.pass_score,
        "hasTextQuestions": False,
    }


def _chat(config: Config) -> dict[str, object]:
    return {
        "enabled": bool(config.chat.platform),
        "required": config.chat.required,
        "platform": config.chat.platform or None,
    }
