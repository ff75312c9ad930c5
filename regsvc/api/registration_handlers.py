"""Becoming a user: the code by e-mail, the registration, and what became of it."""

from __future__ import annotations

from regsvc.accounts import UserStatus
from regsvc.api.base import ApiHandler
from regsvc.api.requests import RegisterRequest, SendCodeRequest, StatusQuery, epoch_milliseconds
from regsvc.errors import InvalidField, UserNotFound
from regsvc.registration import Application


class SendCodeHandler(ApiHandler):
    async def post(self) -> None:
        request = self.body(SendCodeRequest)
        if request.language is not None and request.language not in self.services.translations.languages:
            raise InvalidField("language")
        sent = await self.services.registration.send_code(request.email, request.purpose, self.caller)
        self.reply(
            message="code_sent",
            remainingSeconds=sent.remaining_seconds,
            expiresInSeconds=sent.expires_in_seconds,
        )


class RegisterHandler(ApiHandler):
    async def post(self) -> None:
        request = self.body(RegisterRequest)
        application = Application(
            username=request.username,
            email=request.email,
            code=request.code.strip(),
            password=request.password,
            platform=request.platform,
            language=self.language,
        )
        registered = await self.services.registration.register(application, self.caller)
        self.reply(
            http_status=201,
            message="registered_approved" if registered.status == "approved" else "registered_pending",
            username=registered.username,
            email=registered.email,
            status=registered.status,
        )


class StatusHandler(ApiHandler):
    """What both status routes ask."""

    async def find_status(self) -> UserStatus | None:
        """None: nobody has this name. Raises `RateLimited`."""
        username = self.query(StatusQuery).username
        self.services.status_limits.hit(self.caller)
        return await self.run(self.services.accounts.find_status, username, self.session)


class ReviewStatusHandler(StatusHandler):
    async def get(self) -> None:
        status = await self.find_status()
        if status is None:
            raise UserNotFound
        self.reply_with(_status_fields(status))


class UserStatusHandler(StatusHandler):
    async def get(self) -> None:
        status = await self.find_status()
        self.reply(data={"registered": True, **_status_fields(status)} if status else {"registered": False})


def _status_fields(status: UserStatus) -> dict[str, object]:
    """A stranger is told the first two; the owner and admins have the rest."""
    fields: dict[str, object] = {"username": status.username, "status": status.status}
    if status.is_whole:
        fields |= {
            "reason": status.reason,
            "email": status.email,
            "reviewedAt": epoch_milliseconds(status.reviewed_at),
            "banExpiresAt": epoch_milliseconds(status.ban_expires_at),
        }
    return fields
