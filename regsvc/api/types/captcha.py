"""What captchas carry: the challenge, and the fields of requests that answer one."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from regsvc.accounts.captcha.captcha import CaptchaProof
from regsvc.api.types.messages import EpochMilliseconds, Reply, Request

CaptchaToken = Annotated[str, Meta(description="Names a captcha challenge.", examples=["8bKJ4kX6nq3dGkT0m5mZpQ2s"])]


class CaptchaProtectedRequest(Request, frozen=True, kw_only=True):
    """A request that answers a captcha, where the config asks for one (`captcha.requiredFor`)."""

    captcha_token: CaptchaToken | None = None
    captcha_answer: Annotated[str, Meta(description="What the picture asks for.", examples=["29"])] | None = None

    @property
    def captcha(self) -> CaptchaProof:
        return CaptchaProof(self.captcha_token, self.captcha_answer)


class CaptchaReply(Reply, frozen=True, kw_only=True):
    """A picture with a small question. A wrong answer ends the challenge, a right one lets one request pass."""

    token: CaptchaToken
    image: Annotated[
        str,
        Meta(
            description="A PNG, to be shown as it is: the `src` of an image.",
            examples=["data:image/png;base64,iVBORw0KGgo="],
        ),
    ]
    expires_at: EpochMilliseconds
