"""Somebody who reads captchas without fail: he looks behind the picture."""

from regsvc.accounts.captcha.captcha import CaptchaProof
from regsvc.app.app import App


def answer_to(app: App, token: str) -> str:
    """The right answer; AssertionError when no such challenge is outstanding."""
    challenge = app.captcha_parts.challenges.find(token)
    assert challenge is not None, "there is no such challenge"
    return challenge.answer.decode()


def right_proof(app: App, token: str) -> CaptchaProof:
    return CaptchaProof(token, answer_to(app, token))
