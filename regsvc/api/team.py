"""Admin routes for the team: roles, and the tokens of bots."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final, Literal

from msgspec import Meta

from regsvc.accounts.team_credentials import CONFIRMATION_REFUSALS, OwnPassword
from regsvc.api.base import ApiHandler
from regsvc.api.messages import (
    EpochMilliseconds,
    MessageReply,
    Output,
    Password,
    Reply,
    Request,
    Totp,
    Username,
    to_reply,
)
from regsvc.api.route import Routes
from regsvc.auth.api_tokens import TokenRecord
from regsvc.core import errors
from regsvc.core.errors import InvalidField
from regsvc.core.rights import MAX_TOKEN_NAME, NOT_FOR_TOKENS, USUAL_DAYS, Permission, Role, parse_permissions

ROUTES: Final = Routes()

TokenName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_TOKEN_NAME,
        description="ASCII letters, digits, dots, hyphens and underscores; earlier versions took others.",
        examples=["discord-bot"],
    ),
]
PermissionName = Annotated[
    str, Meta(extra_json_schema={"enum": [it.value for it in Permission]}, examples=["users.read"])
]
TokenPermission = Annotated[
    str,
    Meta(
        extra_json_schema={"enum": [it.value for it in Permission if it not in NOT_FOR_TOKENS]}, examples=["users.read"]
    ),
]


class MemberFields(Output, frozen=True, kw_only=True):
    """A member of the team; `level` is that of an operator in the game, 0 for a role."""

    username: Username
    role: Annotated[str, Meta(extra_json_schema={"enum": ["reviewer", "moderator", "operator"]}, examples=["reviewer"])]
    level: Annotated[int, Meta(examples=[0])]
    is_active: Annotated[bool, Meta(description="Whether they have an approved account to log in with.")]


class TokenFields(Output, frozen=True, kw_only=True):
    """A token, without its secret part."""

    id: Annotated[int, Meta(examples=[1])]
    name: TokenName
    permissions: list[PermissionName]
    made_by: Annotated[str, Meta(description="Its maker, whose rights limit it.", examples=["Olivia"])]
    created_at: EpochMilliseconds
    expires_at: EpochMilliseconds | None
    last_used_at: Annotated[EpochMilliseconds | None, Meta(description="To the hour.")]
    revoked_at: EpochMilliseconds | None


class TeamReply(Reply, frozen=True, kw_only=True):
    """The members, operators first, and the tokens, active ones first."""

    members: list[MemberFields]
    tokens: list[TokenFields]


class RoleRequest(Request, frozen=True, kw_only=True):
    """The user, and the role that they have from now on."""

    username: Username
    role: Literal["reviewer", "moderator", "none"]


class RoleReply(Reply, frozen=True, kw_only=True):
    username: Username
    role: Annotated[str | None, Meta(examples=["reviewer"])]


class CreateTokenRequest(Request, frozen=True, kw_only=True):
    """The permissions of the token, for how many days it works (null: until it is revoked), and one's own password."""

    name: TokenName
    permissions: Annotated[list[TokenPermission], Meta(min_length=1, max_length=len(Permission))]
    days: Annotated[int, Meta(ge=1, le=3650, examples=[90])] | None = USUAL_DAYS
    current_password: Password | None = None
    totp: Totp | None = None


class CreateTokenReply(Reply, frozen=True, kw_only=True):
    """The token is in this reply only."""

    token: Annotated[str, Meta(examples=["cmp_…"])]
    record: TokenFields


class TokenNameRequest(Request, frozen=True, kw_only=True):
    name: TokenName


def token_fields(record: TokenRecord) -> TokenFields:
    """Return a token as the team's routes show it."""
    return to_reply(TokenFields, record, permissions=list(record.permissions))


@ROUTES.add("GET", "/api/admin/team", Permission.TEAM_MANAGE)
async def show_team(call: ApiHandler) -> TeamReply:
    """List the operators, those who have a role, and the API tokens."""
    members = await call.run(call.services.team_roles.list_members)
    tokens = await call.run(call.services.api_tokens.list_all)
    return TeamReply(members=[to_reply(MemberFields, it) for it in members], tokens=[token_fields(it) for it in tokens])


@ROUTES.add(
    "POST",
    "/api/admin/user/role",
    Permission.TEAM_MANAGE,
    errors.UserNotFound,
    errors.ProtectedOperator,
    errors.RoleNeedsApproval,
    errors.WrongStatus,
)
async def give_role(call: ApiHandler, request: RoleRequest) -> RoleReply:
    """Give an approved user a role in the team, or take it. Their sessions at /admin end, and what they have open."""
    role: Role | None = None if request.role == "none" else request.role
    username = await call.run(call.services.team_roles.give, request.username, role, call.principal)
    call.services.mail_queue.wake_all()
    key = "role_taken" if role is None else "role_given"
    word = "" if role is None else call.services.translations.text(f"role.{role}", call.language)
    return RoleReply(message=call.message(key, username=username, role=word), username=username, role=role)


@ROUTES.add(
    "POST",
    "/api/admin/token/create",
    Permission.TEAM_MANAGE,
    errors.TokenNameTaken,
    *CONFIRMATION_REFUSALS,
)
async def create_token(call: ApiHandler, request: CreateTokenRequest) -> CreateTokenReply:
    """Make an API token for a bot. It may do what it names, as far as you may do that yourself at that moment.

    It outlives your session, so the request has your password (`currentPassword`), and a code of your second factor if
    you have one (`totp`). You are mailed.
    """
    try:
        permissions = parse_permissions(request.permissions)
    except ValueError:
        raise InvalidField("permissions") from None
    if permissions & NOT_FOR_TOKENS:
        raise InvalidField("permissions")
    lifetime = None if request.days is None else timedelta(days=request.days)
    own, made_by = OwnPassword(request.current_password, request.totp), (call.require_admin(), call.principal)
    create = call.services.team_credentials.create_token
    token, record = await create(request.name, permissions, lifetime, *made_by, own, call.caller)
    return CreateTokenReply(
        message=call.message("token_created", name=record.name), token=token, record=token_fields(record)
    )


@ROUTES.add("POST", "/api/admin/token/revoke", Permission.TEAM_MANAGE, errors.NoSuchToken)
async def revoke_token(call: ApiHandler, request: TokenNameRequest) -> MessageReply:
    """Revoke an API token."""
    name = await call.run(call.services.api_tokens.revoke, request.name, call.principal.actor)
    return MessageReply(message=call.message("token_revoked", name=name))
