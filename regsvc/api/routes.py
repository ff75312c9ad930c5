"""The route table of the whole API: method, path, handler and required access.

`ApiHandler.prepare` enforces the access, so a handler cannot forget it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Final, Literal

from regsvc.api.base import Access, ApiHandler
from regsvc.api.handlers.admin import (
    ApproveHandler,
    AuditsHandler,
    BanHandler,
    DeleteHandler,
    PasswordLinkHandler,
    RejectHandler,
    SetPasswordHandler,
    SyncHandler,
    UnbanHandler,
    UsersHandler,
)
from regsvc.api.handlers.admin_users import EndUserSessionHandler, UserHandler
from regsvc.api.handlers.applications import (
    ApplicationEventsHandler,
    ApplicationHandler,
    ChangeAnswersHandler,
    CorrectAddressHandler,
)
from regsvc.api.handlers.captcha import CaptchaHandler, CaptchaWorkHandler
from regsvc.api.handlers.chat import BeginChatLinkHandler, ChatCallbackHandler, ChatStatusHandler, UnlinkChatHandler
from regsvc.api.handlers.config import ConfigHandler
from regsvc.api.handlers.events import EventsHandler
from regsvc.api.handlers.health import DoctorHandler
from regsvc.api.handlers.login import AdminLoginHandler, AdminVerifyHandler, LoginHandler, LogoutHandler
from regsvc.api.handlers.mails import MailsHandler, ResendHandler
from regsvc.api.handlers.passwords import ChangePasswordHandler, ForgotPasswordHandler, ResetPasswordHandler
from regsvc.api.handlers.questionnaire import QuestionnaireConfigHandler, SubmitQuestionnaireHandler
from regsvc.api.handlers.registration import (
    CheckCodeHandler,
    RegisterHandler,
    ReviewStatusHandler,
    SendCodeHandler,
    UserStatusHandler,
)
from regsvc.api.handlers.second_factor import (
    BeginSecondFactorHandler,
    ConfirmSecondFactorHandler,
    RecoveryCodesHandler,
    SecondFactorHandler,
    SwitchOffSecondFactorHandler,
)
from regsvc.api.handlers.server import DownloadsHandler, JoinHelpHandler, ServerStatusHandler, VersionHandler
from regsvc.api.handlers.users import (
    DeleteUserHandler,
    EndSessionHandler,
    ExportUserHandler,
    SessionsHandler,
    UpdateUserHandler,
)
from regsvc.api.openapi import OpenApiHandler

SMALL_BODY: Final = 8 * 1024
"""Largest body in bytes where a few short fields are sent."""
LARGE_BODY: Final = sys.maxsize
"""No limit of its own: `http.max_body` applies."""

PUBLIC, USER, ADMIN = Access.PUBLIC, Access.USER, Access.ADMIN


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path; GET implies HEAD."""

    method: Literal["GET", "POST"]
    path: str
    handler: type[ApiHandler]
    access: Access
    has_large_body: bool = False

    @property
    def max_body(self) -> int:
        """Size of the largest body in bytes; `http.max_body` applies, too."""
        return LARGE_BODY if self.has_large_body or self.access is Access.ADMIN else SMALL_BODY


ROUTES = (
    Route("GET", "/api/openapi.json", OpenApiHandler, PUBLIC),
    Route("GET", "/api/config", ConfigHandler, PUBLIC),
    Route("GET", "/api/captcha/generate", CaptchaHandler, PUBLIC),
    Route("GET", "/api/captcha", CaptchaHandler, PUBLIC),
    Route("GET", "/api/captcha/work", CaptchaWorkHandler, PUBLIC),
    Route("POST", "/api/verify/send", SendCodeHandler, PUBLIC),
    Route("POST", "/api/verify/check", CheckCodeHandler, PUBLIC),
    Route("GET", "/api/questionnaire/config", QuestionnaireConfigHandler, PUBLIC),
    Route("POST", "/api/questionnaire/submit", SubmitQuestionnaireHandler, PUBLIC, has_large_body=True),
    Route("POST", "/api/register", RegisterHandler, PUBLIC),
    Route("GET", "/api/application", ApplicationHandler, PUBLIC),
    Route("GET", "/api/application/events", ApplicationEventsHandler, PUBLIC),
    Route("POST", "/api/application/answers", ChangeAnswersHandler, PUBLIC, has_large_body=True),
    Route("POST", "/api/application/email", CorrectAddressHandler, PUBLIC),
    Route("GET", "/api/review/status", ReviewStatusHandler, PUBLIC),
    Route("GET", "/api/user/status", UserStatusHandler, PUBLIC),
    Route("POST", "/api/login", LoginHandler, PUBLIC),
    Route("POST", "/api/logout", LogoutHandler, USER),
    Route("POST", "/api/user/password", ChangePasswordHandler, USER),
    Route("POST", "/api/user/update", UpdateUserHandler, USER),
    Route("POST", "/api/user/delete", DeleteUserHandler, USER),
    Route("GET", "/api/user/export", ExportUserHandler, USER),
    Route("GET", "/api/user/sessions", SessionsHandler, USER),
    Route("POST", "/api/user/sessions/end", EndSessionHandler, USER),
    Route("GET", "/api/user/totp", SecondFactorHandler, USER),
    Route("POST", "/api/user/totp/begin", BeginSecondFactorHandler, USER),
    Route("POST", "/api/user/totp/confirm", ConfirmSecondFactorHandler, USER),
    Route("POST", "/api/user/totp/recovery-codes", RecoveryCodesHandler, USER),
    Route("POST", "/api/user/totp/off", SwitchOffSecondFactorHandler, USER),
    Route("POST", "/api/password/forgot", ForgotPasswordHandler, PUBLIC),
    Route("POST", "/api/password/reset", ResetPasswordHandler, PUBLIC),
    Route("GET", "/api/chat/auth", BeginChatLinkHandler, PUBLIC),
    Route("GET", "/api/chat/callback", ChatCallbackHandler, PUBLIC),
    Route("GET", "/api/chat/status", ChatStatusHandler, PUBLIC),
    Route("POST", "/api/chat/unlink", UnlinkChatHandler, PUBLIC),
    Route("GET", "/api/discord/auth", BeginChatLinkHandler, PUBLIC),
    Route("GET", "/api/discord/callback", ChatCallbackHandler, PUBLIC),
    Route("GET", "/api/discord/status", ChatStatusHandler, PUBLIC),
    Route("POST", "/api/discord/unlink", UnlinkChatHandler, PUBLIC),
    Route("GET", "/api/version", VersionHandler, PUBLIC),
    Route("GET", "/api/server/status", ServerStatusHandler, PUBLIC),
    Route("GET", "/api/server/join", JoinHelpHandler, PUBLIC),
    Route("GET", "/api/downloads", DownloadsHandler, PUBLIC),
    Route("POST", "/api/admin/login", AdminLoginHandler, PUBLIC),
    Route("GET", "/api/admin/verify", AdminVerifyHandler, ADMIN),
    Route("POST", "/api/admin/verify", AdminVerifyHandler, PUBLIC),
    Route("GET", "/api/admin/users", UsersHandler, ADMIN),
    Route("GET", "/api/admin/user", UserHandler, ADMIN),
    Route("POST", "/api/admin/user/approve", ApproveHandler, ADMIN),
    Route("POST", "/api/admin/user/reject", RejectHandler, ADMIN),
    Route("POST", "/api/admin/user/ban", BanHandler, ADMIN),
    Route("POST", "/api/admin/user/unban", UnbanHandler, ADMIN),
    Route("POST", "/api/admin/user/delete", DeleteHandler, ADMIN),
    Route("POST", "/api/admin/user/password", SetPasswordHandler, ADMIN),
    Route("POST", "/api/admin/user/password-link", PasswordLinkHandler, ADMIN),
    Route("POST", "/api/admin/user/sessions/end", EndUserSessionHandler, ADMIN),
    Route("GET", "/api/admin/audits", AuditsHandler, ADMIN),
    Route("POST", "/api/admin/sync", SyncHandler, ADMIN),
    Route("GET", "/events", EventsHandler, ADMIN),
    Route("GET", "/api/admin/mails", MailsHandler, ADMIN),
    Route("POST", "/api/admin/mails/resend", ResendHandler, ADMIN),
    Route("GET", "/api/admin/doctor", DoctorHandler, ADMIN),
)
