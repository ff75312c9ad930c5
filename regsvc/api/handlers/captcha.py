"""Captcha challenges."""

from __future__ import annotations

from base64 import b64encode
from typing import Annotated, Final

from msgspec import Meta

from regsvc.accounts.captcha.captcha import CaptchaProof
from regsvc.api.base import ApiHandler, to_reply
from regsvc.api.endpoint import endpoint
from regsvc.api.types.messages import EpochMilliseconds, Reply, Request
from regsvc.core import errors

CaptchaToken = Annotated[str, Meta(description="The id of a captcha challenge.", examples=["8bKJ4kX6nq3dGkT0m5mZpQ2s"])]


class CaptchaProtectedRequest(Request, frozen=True, kw_only=True):
    """A request that has to answer a captcha if the config requires one (`captcha.requiredFor`)."""

    captcha_token: CaptchaToken | None = None
    captcha_answer: (
        Annotated[str, Meta(description="The answer to the image's question, or the number.", examples=["29"])] | None
    ) = None

    @property
    def captcha(self) -> CaptchaProof:
        return CaptchaProof(self.captcha_token, self.captcha_answer)


class CaptchaWorkReply(Reply, frozen=True, kw_only=True):
    """A challenge without a picture: a number that a client finds by trying.

    It is the one from 0 to `maxNumber` for which SHA-256 of the 16 bytes of `salt` and the number, as 4 bytes with the
    highest first, is `hash`. Its decimal digits are the `captchaAnswer`.
    """

    token: CaptchaToken
    salt: Annotated[str, Meta(description="Hexadecimal digits.", examples=["00112233445566778899aabbccddeeff"])]
    hash: Annotated[
        str,
        Meta(
            description="Hexadecimal digits.",
            examples=["245519264e3aaa1c55ee5d5a13a4692ce59d00ef0ba975eb244d7e5f11558161"],
        ),
    ]
    max_number: Annotated[int, Meta(examples=[250_000])]
    expires_at: EpochMilliseconds
    expires_in_seconds: Annotated[int, Meta(description="Seconds until the challenge expires.", examples=[300])]


class CaptchaReply(Reply, frozen=True, kw_only=True):
    """A challenge as an image. It is used up by a wrong answer, and by the one request that a right answer allows."""

    token: CaptchaToken
    image: Annotated[
        str,
        Meta(
            description="A PNG as a data URL, for the `src` of an image.",
            examples=["data:image/png;base64,iVBORw0KGgo="],
        ),
    ]
    expires_at: EpochMilliseconds
    expires_in_seconds: Annotated[int, Meta(description="Seconds until the challenge expires.", examples=[300])]


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
