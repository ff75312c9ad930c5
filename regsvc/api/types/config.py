"""Types of the public config."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from regsvc.api.types.messages import Language, Output, Reply

Regex = Annotated[str, Meta(description="A regular expression.", examples=["^[a-zA-Z0-9_]{3,16}$"])]


class RegistrationConfigFields(Output, frozen=True, kw_only=True):
    """The requirements of a registration; lengths are in characters."""

    open: bool
    approval: bool
    email: Annotated[
        Literal["verified", "optional"], Meta(description="`optional`: no code proves it, and nothing is mailed to it.")
    ]
    code_digits: Annotated[int, Meta(description="Digits of a verification code.", examples=[6])]
    password: Literal["optional", "required", "off"]
    password_reset: Annotated[
        Literal["mail", "operator"],
        Meta(description="Whether a link to set a new password is mailed, or made by an operator and handed over."),
    ]
    password_regex: Regex
    password_min_length: int
    password_max_length: int


class AuthMeConfigFields(Output, frozen=True, kw_only=True):
    """The shared AuthMe table, and its rules for passwords."""

    enabled: bool
    require_password: bool
    password_regex: Regex


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
    enable_email_domain_whitelist: bool
    enable_email_alias_limit: bool
    email_domain_whitelist: list[str] | UnsetType = UNSET
    captcha: CaptchaConfigFields
    questionnaire: QuestionnaireConfigFields
    chat: ChatConfigFields
    discord: ChatConfigFields
    bedrock: BedrockConfigFields
    ws_port: Annotated[
        int | None, Meta(description="The port of the WebSocket, for front ends that existed before.", examples=[443])
    ]


class ConfigReply(Reply, frozen=True, kw_only=True):
    config: PublicConfigFields
