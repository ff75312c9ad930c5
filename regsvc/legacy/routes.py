"""Routes, replies and types as front ends that existed before us expect them.

Those in `_ALIASES` are second names of routes and fields, served always: the OpenAPI document marks them as deprecated,
and each repeats what the API says elsewhere. Those in `_ROUTES` are served under `http.legacy_status`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Meta, UnsetType

from plugin_bridge.authme.rules import PasswordRule
from regsvc.accounts.captcha import CaptchaProtectedRequest
from regsvc.accounts.chat.linking import ChatLinking
from regsvc.accounts.email_addresses import (
    SEND_CODE_REFUSALS,
    UPDATE_REFUSALS,
    EmailChanges,
    EmailVerification,
    SendCodeReply,
    UpdateUserReply,
    change_email,
    send_code,
)
from regsvc.accounts.login import (
    LOGIN_REFUSALS,
    AccessToken,
    LoginReply,
    LoginRequest,
    Logins,
    ValidTokenReply,
    log_in_to,
    valid_token,
)
from regsvc.accounts.password_changes import (
    CHANGE_REFUSALS,
    FORGOT_REFUSALS,
    ChangePasswordReply,
    PasswordChanges,
    PasswordMails,
)
from regsvc.accounts.self_deletion import (
    DELETION_REFUSALS,
    DeleteUserReply,
    SelfDeletion,
    delete_user,
)
from regsvc.accounts.status_lookup import StatusLookup
from regsvc.auth.second_factor import Totp
from regsvc.auth.sessions import Sessions
from regsvc.auth.verification_codes import Code, CodeOrProof, Purpose
from regsvc.config.sections import Config
from regsvc.core import errors
from regsvc.core.email_address import parse_email
from regsvc.core.errors import Category, InvalidField, Refusal
from regsvc.core.rights import Permission
from regsvc.core.shapes import Moment, Output, Username
from regsvc.database.audit import ACTIONS, Audit, AuditRecord
from regsvc.http.messages import Email, MessageReply, NameQuery, Pagination, Password, Reply, Status, to_reply
from regsvc.http.route import ACCESS_TOKEN, PROOF_HEADER, PUBLIC, USER, Access, Route, Routes, SentAs
from regsvc.registration.public_config import (
    AuthMeConfigFields,
    ChatConfigFields,
    PublicConfig,
    PublicConfigFields,
    Regex,
    show_config,
)
from regsvc.runtime.event_streams import AuditsQuery, AuditsReply, list_audits
from regsvc.runtime.game_status import (
    DownloadFields,
    GameServerFields,
    GameServers,
    OnlinePlayersFields,
    list_downloads,
    show_server_status,
)
from regsvc.users.user_list import UserFields, UserList, list_users
from regsvc.users.user_query import MAX_SIZE, UsersQuery

if TYPE_CHECKING:
    from regsvc.http.call import Call


_ALIASES: Final = Routes()
_ROUTES: Final = Routes()

ALIASES: Final[Mapping[str, str]] = {
    "/api/captcha": "/api/captcha/generate",
    "/api/discord/auth": "/api/chat/auth",
    "/api/discord/callback": "/api/chat/callback",
    "/api/discord/status": "/api/chat/status",
    "/api/discord/unlink": "/api/chat/unlink",
}
"""Second name of a path → the path."""

_DEPRECATED: Final = Meta(extra_json_schema={"deprecated": True})


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


class InvalidTokenReply(Reply, frozen=True, kw_only=True):
    """The reason why the token is not valid on admin routes."""

    success: Annotated[bool, Meta(extra_json_schema={"const": False}, examples=[False])] = False
    valid: Annotated[bool, Meta(extra_json_schema={"const": False}, examples=[False])] = False
    code: Annotated[str, Meta(examples=["unauthorized"])]
    message: Annotated[str, Meta(examples=["Please log in."])]


@_ALIASES.add("GET", "/api/config", PUBLIC, made_of=PublicConfig.sources)
async def show_config_with_aliases(
    call: Call, public: PublicConfig
) -> Annotated[ConfigWithAliasesFields, SentAs("config", "ConfigWithAliasesReply")]:
    """Show the public config of this host: texts for front ends, and the requirements of a registration."""
    config = await show_config(call, public)
    authme = AuthMeWithRulesFields(
        enabled=config.authme.enabled,
        require_password=config.registration.password == "required",  # noqa: S105 - a mode
        password_regex=config.registration.password_regex,
    )
    return ConfigWithAliasesFields(
        **{**msgspec.structs.asdict(config), "authme": authme},
        enable_email_domain_whitelist=config.email_domain_whitelist is not UNSET,
        discord=config.chat,
        ws_port=None,
    )


@_ALIASES.add("POST", "/api/user/delete", USER, *DELETION_REFUSALS)
async def delete_user_by_any_password(
    call: Call,
    self_deletion: SelfDeletion,
    *,
    current_password: Password | None = None,
    totp: Totp | None = None,
    password: Annotated[Password, _DEPRECATED] | None = None,
) -> DeleteUserReply:
    """Delete your own account, here and in the game. Operators and recently rejected users cannot.

    DeleteByAnyPasswordRequest: The current password, under either name, and the second factor if there is one.
    """
    given = [each for each in (current_password, password) if each is not None]
    if len(given) != 1:
        raise InvalidField("currentPassword")
    return await delete_user(call, self_deletion, current_password=given[0], totp=totp)


@_ALIASES.add("POST", "/api/admin/verify", PUBLIC, is_deprecated=True)
async def verify_token(call: Call, sessions: Sessions, *, token: AccessToken) -> ValidTokenReply | InvalidTokenReply:
    """Verify whether the token in the body is an admin's.

    VerifyTokenRequest: A token to verify, for front ends that send it in the body.
    """
    try:
        return valid_token(await call.run(sessions.authenticate_admin, token, call.caller))
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
    return replace_routes(main, [*_ALIASES, *aliases])


def replace_routes(routes: Iterable[Route], others: Iterable[Route]) -> tuple[Route, ...]:
    """Return the table with the other routes in place of its own for the same method and path; new ones follow."""
    table = {(route.method, route.path): route for route in routes}
    return tuple((table | {(route.method, route.path): route for route in others}).values())


"""Routes in place of those of the same method and path, and new ones."""

Identifier = Annotated[Literal["username", "email", "phone"], Meta(description="`phone` is refused.")]
Credential = Annotated[Literal["password", "code"], Meta(description="`code` is refused.")]


class LoginMethodsFields(Output, frozen=True, kw_only=True):
    """The ways to log in; without them, some front ends offer codes and telephone numbers."""

    allowed_methods: Annotated[list[str], Meta(examples=[["username", "email_password"]])]
    allowed_identifiers: Annotated[list[str], Meta(examples=[["username", "email"]])]


class ForgotPasswordConfigFields(Output, frozen=True, kw_only=True):
    """Whether a forgotten password can be reset with a mailed link."""

    enabled: bool
    allowed_methods: Annotated[list[str], Meta(examples=[["email_code"]])]
    reset_methods: Annotated[list[str], Meta(examples=[["email"]])]


class FrontEndConfigFields(ConfigWithAliasesFields, frozen=True, kw_only=True):
    """The config that front ends need. Never contains secrets. `discord` is `chat`."""

    login: LoginMethodsFields
    forgot_password: ForgotPasswordConfigFields


class UserWithIdFields(UserFields, frozen=True, kw_only=True):
    """A user as shown to admins; `id` is what `userId` may be in decisions."""

    id: Username


class UsersWithIdReply(Reply, frozen=True, kw_only=True):
    """A page of users; `nextCursor` is null on the last page."""

    users: list[UserWithIdFields]
    next_cursor: str | None
    pagination: Pagination


class PlainAuditFields(Output, frozen=True, kw_only=True):
    """An action by `operator` on `target`. `detail` is the reason, or empty."""

    id: Annotated[int, Meta(examples=[1])]
    action: Annotated[str, Meta(examples=["approve"])]
    operator: Annotated[str, Meta(examples=["Olivia"])]
    target: Annotated[str, Meta(examples=["Alice"])]
    detail: Annotated[str, Meta(examples=["Welcome"])]
    ip: Annotated[str, Meta(examples=["192.0.2.1"])] | None
    timestamp: Moment


class PlainAuditsReply(Reply, frozen=True, kw_only=True):
    """The newest audit entries, for front ends that page and filter themselves."""

    audits: list[PlainAuditFields]


class OnlinePlayerFields(Output, frozen=True, kw_only=True):
    """A player online; `uuid` is empty if the server did not send it."""

    name: Username
    uuid: Annotated[str, Meta(examples=["4566e69f-c907-48ee-8d71-d7ba5aa00d20"])]


class ListedPlayersFields(OnlinePlayersFields, frozen=True, kw_only=True):
    """The number of players online; null while the server does not answer."""

    names: list[OnlinePlayerFields] | UnsetType = msgspec.field(default=UNSET, name="list")  # type: ignore[assignment]


class ServerWithPlayersFields(GameServerFields, frozen=True, kw_only=True):
    """The game server's last answer. While it does not answer, `online` is false and the rest null."""

    players: ListedPlayersFields


class WhitelistReply(Reply, frozen=True, kw_only=True):
    """Whether a name is registered, and its status."""

    found: Annotated[bool, Meta(examples=[True])]
    username: Username | UnsetType = UNSET
    status: Status | Literal["not_registered"]


@_ROUTES.add("POST", "/api/verify/send", PUBLIC, *SEND_CODE_REFUSALS, errors.NotEnabled, credentials=(ACCESS_TOKEN,))
async def send_any_code(
    call: Call,
    verification: EmailVerification,
    request: CaptchaProtectedRequest,
    *,
    email: Email = "",
    channel: Literal["email", "sms"] = "email",
    purpose: Literal[Purpose, "login", "forgot_password", "profile_password_reset"] | None = None,
) -> SendCodeReply:
    """Mail a verification code. The response does not reveal whether the address has an account.

    SendAnyCodeRequest: The address to mail a code to. Without a purpose it is `change_email` for a user who is logged
    in.

    Codes by `sms`, and those to log in or to set a password, are refused.
    """
    if channel == "sms":
        raise errors.NotEnabled("phones")
    if purpose == "login" or purpose == "forgot_password" or purpose == "profile_password_reset":
        raise errors.NotEnabled("codes")
    usual: Purpose = "register" if call.session is None else "change_email"
    return await send_code(call, verification, request, email=email, purpose=purpose or usual)


@_ROUTES.add("POST", "/api/login/code", PUBLIC, errors.NotEnabled)
@_ROUTES.add("POST", "/api/user/password/code", USER, errors.NotEnabled)
async def refuse_codes(_call: Call) -> MessageReply:
    """Refuse to mail a code that would replace a password."""
    raise errors.NotEnabled("codes")


@_ROUTES.add("POST", "/api/sms/send", PUBLIC, errors.NotEnabled)
async def refuse_phones(_call: Call) -> MessageReply:
    """Refuse to send a code to a telephone."""
    raise errors.NotEnabled("phones")


@_ROUTES.add("POST", "/api/forgot-password/send", PUBLIC, *FORGOT_REFUSALS, errors.NotEnabled)
@_ROUTES.add("POST", "/api/forgot-password/code", PUBLIC, *FORGOT_REFUSALS, errors.NotEnabled)
async def mail_password_link(
    call: Call,
    password_mails: PasswordMails,
    request: CaptchaProtectedRequest,
    *,
    identifier: Email = "",
    account: Email = "",
) -> MessageReply:
    """Mail a link to set a new password. The response does not reveal whether the address has an account.

    ForgotByAnyNameRequest: The e-mail address, as `identifier` or `account`. A telephone number is refused.
    """
    email = identifier or account
    if "@" not in email:
        raise errors.NotEnabled("phones")
    await password_mails.forgot(email, call.caller, request.captcha)
    return MessageReply(message=call.message("forgot_sent"))


@_ROUTES.add("POST", "/api/forgot-password/reset", PUBLIC, errors.NotEnabled)
async def refuse_reset_by_code(_call: Call) -> MessageReply:
    """Refuse to set a password with a code: the mailed link leads to our page that sets one."""
    raise errors.NotEnabled("reset_by_link")


@_ROUTES.add("POST", "/api/user/update", USER, *UPDATE_REFUSALS, errors.CodeRequired, errors.LoginTooOld)
async def update_by_code(
    call: Call,
    email_changes: EmailChanges,
    statuses: StatusLookup,
    *,
    email: Email,
    code: Code = "",
    current_password: Password | None = None,
) -> UpdateUserReply:
    """Change your own e-mail address. The old address is notified.

    Without the password, the login must not be older than 15 minutes.

    UpdateEmailRequest: The e-mail address, and if it is a new one the code that was mailed to it.
    """
    code = code.strip()
    if code:
        return await change_email(call, email_changes, email, CodeOrProof(code), current_password)
    current = await _current_email(call, statuses)
    if current is None or parse_email(current).key != parse_email(email).key:
        raise errors.CodeRequired
    return UpdateUserReply(message=call.message("email_kept"), email=current, warnings=())


async def _current_email(call: Call, statuses: StatusLookup) -> str | None:
    session = call.require_session()
    status = await statuses.find(session.username, session)
    return status.email if status is not None and isinstance(status.email, str) else None


@_ROUTES.add("POST", "/api/user/password", USER, *CHANGE_REFUSALS, errors.NotEnabled)
async def change_password_here(
    call: Call,
    password_changes: PasswordChanges,
    *,
    current_password: Password = "",
    new_password: Password,
    method: Annotated[
        Literal["current_password", "email_code", "phone_code"], Meta(description="Codes are refused.")
    ] = "current_password",
) -> ChangePasswordReply:
    """Change your own password. This ends all of your other sessions.

    ChangePasswordByRequest: The current password and the new one.
    """
    if method != "current_password":
        raise errors.NotEnabled("codes")
    decided = await password_changes.change_own(
        call.require_session(), current_password, new_password, call.caller, keeps_session=True
    )
    return to_reply(ChangePasswordReply, decided, message=call.message("password_changed_here"))


KNOWN_ACTIONS: Final[Mapping[str, str]] = {
    "user.registered": "register",
    "user.approved": "approve",
    "user.rejected": "reject",
    "user.banned": "ban",
    "user.unbanned": "unban",
    "user.deleted": "delete",
    "user.logged_in": "login",
    "admin.logged_in": "login",
    "user.logged_out": "logout",
    "user.password_changed": "password_change",
    "admin.denied": "admin_access_denied",
}
"""Audit action → the word front ends have a text for. They show the others as raw keys, so those are left out."""

MAX_PLAIN_AUDITS: Final = 500


@_ROUTES.add("GET", "/api/admin/users", Permission.USERS_READ)
async def list_users_with_ids(call: Call, users: UserList, query: UsersQuery) -> UsersWithIdReply:
    """List users, by page or, for large tables, by cursor. `status=pending` is the review queue.

    The queue without `page`, `size` and `after` is listed at once, up to 500 users.
    """
    if query.status == "pending" and (query.page, query.size, query.after) == (None, None, None):
        query = msgspec.structs.replace(query, size=MAX_SIZE)
    listed = await list_users(call, users, query)
    return UsersWithIdReply(
        users=[UserWithIdFields(id=user.username, **msgspec.structs.asdict(user)) for user in listed.users],
        next_cursor=listed.next_cursor,
        pagination=listed.pagination,
    )


@_ROUTES.add("GET", "/api/admin/audits", Permission.AUDIT_READ)
async def list_plain_audits(call: Call, audit: Audit, query: AuditsQuery) -> AuditsReply | PlainAuditsReply:
    """Read the audit log, newest first.

    Without `page` and `size`: the newest entries, at most 500, whose action has a short name such as `approve`.
    """
    if query.action not in KNOWN_ACTIONS.values() and not call.query.keys().isdisjoint(("page", "size")):
        return await list_audits(call, audit, query)
    if query.action is not None and query.action not in {*ACTIONS, *KNOWN_ACTIONS.values()}:
        raise InvalidField("action")
    found = await call.run_list(
        audit.list_entries,
        1,
        MAX_PLAIN_AUDITS,
        action=[action for action, word in KNOWN_ACTIONS.items() if query.action in (None, action, word)],
        operator=query.operator,
        target=query.target,
        since=query.since_at,
        until=query.until_at,
    )
    return PlainAuditsReply(audits=[_plain(call, entry) for entry in found.entries])


def _plain(call: Call, entry: AuditRecord) -> PlainAuditFields:
    return PlainAuditFields(
        id=entry.id,
        action=KNOWN_ACTIONS[entry.action],
        operator=entry.operator,
        target=entry.target or "",
        detail=call.word_reason(str((entry.detail or {}).get("reason") or "")) or "",
        ip=entry.ip,
        timestamp=entry.created_at,
    )


@_ROUTES.add("POST", "/api/login", PUBLIC, *LOGIN_REFUSALS, errors.NotEnabled)
async def log_in_once(
    call: Call,
    logins: Logins,
    chat: ChatLinking,
    request: LoginRequest,
    *,
    identifier: Username = "",
    account: Username = "",
    username: Username = "",
    password: Password = "",
    identifier_type: Identifier = "username",
    login_method: Identifier = "username",
    auth_method: Credential = "password",
    verify_method: Credential = "password",
) -> LoginReply:
    """Log in: an approved operator as an admin, all others as users. `isAdmin` says which.

    LoginByAnyNameRequest: A login. The name or e-mail address is `identifier`, `account` or `username`.
    """
    if "phone" in (identifier_type, login_method):
        raise errors.NotEnabled("phones")
    if "code" in (auth_method, verify_method):
        raise errors.NotEnabled("codes")
    name = identifier or account or username
    for field, value in (("username", name), ("password", password)):
        if not value:
            raise InvalidField(field)
    return await log_in_to(call, logins, chat, msgspec.structs.replace(request, username=name), None)


_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


@_ROUTES.add("GET", "/api/config", PUBLIC, made_of=PublicConfig.sources)
async def show_front_end_config(
    call: Call, public_config: PublicConfig
) -> Annotated[FrontEndConfigFields, SentAs("config", "FrontEndConfigReply")]:
    """Show the public config of this host: texts for front ends, and the requirements of a registration.

    `enabled` and `requirePassword` of `authme` are true unless `registration.password` is `off`: front ends show no
    field otherwise, and who registers without a password cannot log in to see their status.
    """
    public, config = await show_config_with_aliases(call, public_config), call.config
    regex = _password_regex(public_config.live.authme.passwords, public.registration.password_regex)
    asks_password = public.registration.password != "off"  # noqa: S105 - a mode
    mails_links = public_config.mail_queue.is_available
    changed = {
        "registration": msgspec.structs.replace(public.registration, password_regex=regex),
        "authme": msgspec.structs.replace(
            public.authme,
            password_regex=regex,
            enabled=public.authme.enabled or asks_password,
            require_password=asks_password,
        ),
        "captcha": msgspec.structs.replace(
            public.captcha,
            enabled="captcha" in config.registration.methods,
            type="math" if public.captcha.type == "work" else public.captcha.type,
        ),
        "ws_port": public_port(config),
        "login": LoginMethodsFields(
            allowed_methods=["username", "email_password"], allowed_identifiers=["username", "email"]
        ),
        "forgot_password": ForgotPasswordConfigFields(
            enabled=mails_links, allowed_methods=["email_code"], reset_methods=["email"] if mails_links else []
        ),
    }
    return FrontEndConfigFields(**{**msgspec.structs.asdict(public), **changed})


def _password_regex(rule: PasswordRule, regex: str) -> str:
    """Return the expression with the lengths in it, as in that for names: it is all that is checked."""
    rest = f"(?:{regex})" if "|" in regex else regex.removeprefix("^")
    return f"^(?=.{{{rule.min_length},{rule.max_length}}}$){rest}"


def public_port(config: Config) -> int:
    """Return the port of our public address: without one, front ends send their token to the port after it."""
    address = urlsplit(config.base_url())
    return address.port or _DEFAULT_PORTS[address.scheme]


@_ROUTES.add("GET", "/api/server/status", PUBLIC, credentials=(ACCESS_TOKEN,))
async def show_server_with_players(
    call: Call, game_servers: GameServers
) -> Annotated[ServerWithPlayersFields, SentAs("data", "ServerWithPlayersReply")]:
    """Show the game server's status of some seconds ago. Only logged-in users see the names of the players."""
    data = await show_server_status(call, game_servers)
    status = game_servers.main.last_status().status
    listed = [] if status is None else [OnlinePlayerFields(name=name, uuid=uuid) for name, uuid in status.players]
    players = ListedPlayersFields(
        online=data.players.online, max=data.players.max, names=UNSET if call.session is None else listed
    )
    return ServerWithPlayersFields(**{**msgspec.structs.asdict(data), "players": players})


@_ROUTES.add("GET", "/api/downloads", PUBLIC)
async def list_absolute_downloads(call: Call) -> Annotated[list[DownloadFields], SentAs("resources", "DownloadsReply")]:
    """List the files that this host offers to players, such as a client or a resource pack. URLs are absolute."""
    base_url = call.config.base_url()
    return [
        msgspec.structs.replace(file, url=f"{base_url}{file.url}") if file.url.startswith("/") else file
        for file in await list_downloads(call)
    ]


NOT_REGISTERED: Final = "not_registered"


@_ROUTES.add(
    "GET", "/api/check-whitelist", PUBLIC, errors.RateLimited, credentials=(ACCESS_TOKEN,), has_status_limit=True
)
async def check_whitelist(call: Call, statuses: StatusLookup, query: NameQuery) -> WhitelistReply:
    """Show whether a name is registered, and its status, for proxies older than `/api/user/status`."""
    found = await statuses.find(query.username, call.session, call.request.headers.get(PROOF_HEADER))
    if found is None:
        return WhitelistReply(found=False, status=NOT_REGISTERED)
    return to_reply(WhitelistReply, found, found=True)


FOR_PROXIES: Final = ("/api/user/status", "/api/review/status", "/api/check-whitelist")
"""Paths that game proxies ask, which take any 200 for an answer: their limits keep their status, 429."""

_LOADED_UNASKED: Final = ("/api/admin/users", "/api/version")
"""Paths that pages load at every event or from time to time: no activity of the operator whose page is open."""

_NEEDS_TO_KNOW: Final = "/api/user/status"
"""The public path where front ends notice that their session has ended."""


def legacy_routes(routes: Iterable[Route]) -> tuple[Route, ...]:
    """Return the table with routes that translate; on public routes, an invalid token counts as none."""
    return tuple(
        replace(
            route,
            access=_access_of(route),
            keeps_429=route.path in FOR_PROXIES,
            is_activity=route.is_activity and route.path not in _LOADED_UNASKED,
        )
        for route in replace_routes(routes, _ROUTES)
    )


def _access_of(route: Route) -> Access:
    is_lenient = route.access is PUBLIC and route.path != _NEEDS_TO_KNOW
    return Access.PUBLIC_WITH_ANY_TOKEN if is_lenient else route.access
