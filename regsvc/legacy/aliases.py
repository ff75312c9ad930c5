"""Second names of routes and fields, served always: front ends that existed before us use them.

The OpenAPI document marks them as deprecated; each repeats what the API says elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import UNSET, Meta

from regsvc.accounts.login import AccessToken, ValidTokenReply, valid_token
from regsvc.accounts.self_deletion import (
    DELETION_REFUSALS,
    DeleteUserReply,
    DeleteUserRequest,
    SelfDeletion,
    delete_user,
)
from regsvc.auth.sessions import Sessions
from regsvc.core.errors import Category, InvalidField, Refusal
from regsvc.http.messages import Password, Reply, Request
from regsvc.http.route import PUBLIC, USER, Route, Routes
from regsvc.registration.public_config import (
    AuthMeConfigFields,
    ChatConfigFields,
    PublicConfig,
    PublicConfigFields,
    Regex,
    show_config,
)

if TYPE_CHECKING:
    from regsvc.http.call import Call

ALIASES: Final[Mapping[str, str]] = {
    "/api/captcha": "/api/captcha/generate",
    "/api/discord/auth": "/api/chat/auth",
    "/api/discord/callback": "/api/chat/callback",
    "/api/discord/status": "/api/chat/status",
    "/api/discord/unlink": "/api/chat/unlink",
}
"""Second name of a path → the path."""

_DEPRECATED: Final = Meta(extra_json_schema={"deprecated": True})
_ROUTES: Final = Routes()


class AuthMeWithRulesFields(AuthMeConfigFields, frozen=True, kw_only=True):
    """The shared AuthMe table, and the rules for passwords, which are those of `registration`."""

    require_password: Annotated[bool, _DEPRECATED]
    password_regex: Annotated[Regex, _DEPRECATED]


class ConfigWithAliasesFields(PublicConfigFields, frozen=True, kw_only=True):
    """The config that front ends need. Never contains secrets. `discord` is `chat`."""

    authme: AuthMeWithRulesFields
    enable_email_domain_whitelist: Annotated[bool, _DEPRECATED]
    discord: Annotated[ChatConfigFields, _DEPRECATED]
    ws_port: Annotated[
        int | None,
        Meta(
            description="The port of the WebSocket, for front ends that existed before.",
            examples=[443],
            extra_json_schema={"deprecated": True},
        ),
    ]


class ConfigWithAliasesReply(Reply, frozen=True, kw_only=True):
    config: ConfigWithAliasesFields


class DeleteByAnyPasswordRequest(DeleteUserRequest, frozen=True, kw_only=True):
    """The current password, under either name, and the second factor if there is one."""

    current_password: Password | None = None  # type: ignore[assignment]
    password: Annotated[Password, _DEPRECATED] | None = None


class VerifyTokenRequest(Request, frozen=True, kw_only=True):
    """A token to verify, for front ends that send it in the body."""

    token: AccessToken


class InvalidTokenReply(Reply, frozen=True, kw_only=True):
    """The reason why the token is not valid on admin routes."""

    success: Annotated[bool, Meta(extra_json_schema={"const": False}, examples=[False])] = False
    valid: Annotated[bool, Meta(extra_json_schema={"const": False}, examples=[False])] = False
    code: Annotated[str, Meta(examples=["unauthorized"])]
    message: Annotated[str, Meta(examples=["Please log in."])]


@_ROUTES.add("GET", "/api/config", PUBLIC, made_of=PublicConfig.sources)
async def show_config_with_aliases(call: Call, public: PublicConfig) -> ConfigWithAliasesReply:
    """Show the public config of this host: texts for front ends, and the requirements of a registration."""
    config = (await show_config(call, public)).config
    authme = AuthMeWithRulesFields(
        enabled=config.authme.enabled,
        require_password=config.registration.password == "required",  # noqa: S105 - a mode
        password_regex=config.registration.password_regex,
    )
    return ConfigWithAliasesReply(
        config=ConfigWithAliasesFields(
            **{**msgspec.structs.asdict(config), "authme": authme},
            enable_email_domain_whitelist=config.email_domain_whitelist is not UNSET,
            discord=config.chat,
            ws_port=None,
        )
    )


@_ROUTES.add("POST", "/api/user/delete", USER, *DELETION_REFUSALS)
async def delete_user_by_any_password(
    call: Call, self_deletion: SelfDeletion, request: DeleteByAnyPasswordRequest
) -> DeleteUserReply:
    """Delete your own account, here and in the game. Operators and recently rejected users cannot."""
    given = [password for password in (request.current_password, request.password) if password is not None]
    if len(given) != 1:
        raise InvalidField("currentPassword")
    return await delete_user(call, self_deletion, DeleteUserRequest(current_password=given[0], totp=request.totp))


@_ROUTES.add("POST", "/api/admin/verify", PUBLIC, is_deprecated=True)
async def verify_token(
    call: Call, sessions: Sessions, request: VerifyTokenRequest
) -> ValidTokenReply | InvalidTokenReply:
    """Verify whether the token in the body is an admin's."""
    try:
        return valid_token(await call.run(sessions.authenticate_admin, request.token, call.caller))
    except Refusal as refusal:
        if refusal.category not in (Category.UNAUTHENTICATED, Category.FORBIDDEN):
            raise
        message = call.translations.refusal(refusal, call.language)
        return InvalidTokenReply(code=refusal.code, message=message)


def with_aliases(routes: Iterable[Route]) -> tuple[Route, ...]:
    """Return the table with the second names of its routes and fields."""
    main = tuple(routes)
    aliases = [
        replace(route, path=alias, is_deprecated=True)
        for alias, path in ALIASES.items()
        for route in main
        if route.path == path
    ]
    return replace_routes(main, [*_ROUTES, *aliases])


def replace_routes(routes: Iterable[Route], others: Iterable[Route]) -> tuple[Route, ...]:
    """Return the table with the other routes in place of its own for the same method and path; new ones follow."""
    table = {(route.method, route.path): route for route in routes}
    return tuple((table | {(route.method, route.path): route for route in others}).values())
