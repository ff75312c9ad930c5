"""The whole API: who answers which method of which path, and who may ask.

`ApiHandler.prepare` enforces the access, so a handler cannot forget it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regsvc.api.admin_handlers import (
    ApproveHandler,
    AuditsHandler,
    BanHandler,
    DeleteHandler,
    RejectHandler,
    SetPasswordHandler,
    SyncHandler,
    UnbanHandler,
    UsersHandler,
)
from regsvc.api.base import Access, ApiHandler
from regsvc.api.config_handlers import ConfigHandler, VersionHandler
from regsvc.api.login_handlers import AdminLoginHandler, AdminVerifyHandler, LoginHandler, LogoutHandler
from regsvc.api.password_handlers import ChangePasswordHandler, ForgotPasswordHandler, ResetPasswordHandler
from regsvc.api.registration_handlers import (
    RegisterHandler,
    ReviewStatusHandler,
    SendCodeHandler,
    UserStatusHandler,
)

PUBLIC, USER, ADMIN = Access.PUBLIC, Access.USER, Access.ADMIN


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path; HEAD comes with GET."""

    method: Literal["GET", "POST"]
    path: str
    handler: type[ApiHandler]
    access: Access


ROUTES = (
    Route("GET", "/api/config", ConfigHandler, PUBLIC),
    Route("POST", "/api/verify/send", SendCodeHandler, PUBLIC),
    Route("POST", "/api/register", RegisterHandler, PUBLIC),
    Route("GET", "/api/review/status", ReviewStatusHandler, PUBLIC),
    Route("GET", "/api/user/status", UserStatusHandler, PUBLIC),
    Route("POST", "/api/login", LoginHandler, PUBLIC),
    Route("POST", "/api/logout", LogoutHandler, USER),
    Route("POST", "/api/user/password", ChangePasswordHandler, USER),
    Route("POST", "/api/password/forgot", ForgotPasswordHandler, PUBLIC),
    Route("POST", "/api/password/reset", ResetPasswordHandler, PUBLIC),
    Route("GET", "/api/version", VersionHandler, PUBLIC),
    Route("POST", "/api/admin/login", AdminLoginHandler, PUBLIC),
    Route("GET", "/api/admin/verify", AdminVerifyHandler, ADMIN),
    Route("POST", "/api/admin/verify", AdminVerifyHandler, PUBLIC),
    Route("GET", "/api/admin/users", UsersHandler, ADMIN),
    Route("POST", "/api/admin/user/approve", ApproveHandler, ADMIN),
    Route("POST", "/api/admin/user/reject", RejectHandler, ADMIN),
    Route("POST", "/api/admin/user/ban", BanHandler, ADMIN),
    Route("POST", "/api/admin/user/unban", UnbanHandler, ADMIN),
    Route("POST", "/api/admin/user/delete", DeleteHandler, ADMIN),
    Route("POST", "/api/admin/user/password", SetPasswordHandler, ADMIN),
    Route("GET", "/api/admin/audits", AuditsHandler, ADMIN),
    Route("POST", "/api/admin/sync", SyncHandler, ADMIN),
)
