"""Captcha challenges."""

from __future__ import annotations

from base64 import b64encode
from typing import Final

from regsvc.api.base import ApiHandler
from regsvc.api.endpoint import endpoint
from regsvc.api.replies import to_reply
from regsvc.api.types.captcha import CaptchaReply, CaptchaWorkReply
from regsvc.core import errors

CAPTCHA_REFUSALS: Final = (errors.CaptchaRequired, errors.InvalidCaptcha, errors.RateLimited)
"""Additional refusals of routes that may require a captcha."""


class CaptchaHandler(ApiHandler):
    @endpoint(errors.RateLimited)
    async def get(self) -> CaptchaReply:
        """Create a captcha challenge. This works even if the config requires no captchas."""
        challenge = await self.services.captchas.generate(self.caller)
        image = f"data:image/png;base64,{b64encode(challenge.picture).decode('ascii')}"
        return to_reply(CaptchaReply, challenge, image=image)


class CaptchaWorkHandler(ApiHandler):
    @endpoint(errors.RateLimited, errors.NotEnabled)
    async def get(self) -> CaptchaWorkReply:
        """Create a captcha challenge without a picture, which a program of the client solves.

        It is answered like a picture's. This works even if the config requires no captchas.
        """
        return to_reply(CaptchaWorkReply, self.services.captchas.generate_work(self.caller))
