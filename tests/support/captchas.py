"""Right answers to captchas, taken from the store."""

from regsvc.accounts.captcha.captcha import CaptchaProof
from regsvc.app.app import App


def answer_to(app: App, token: str) -> str:
    """Return the right answer; AssertionError if the challenge is not outstanding."""
    challenge = app.captcha_parts.challenges.find(token)
    assert challenge is not None, "there is no such challenge"
    return challenge.answer.decode()


def right_proof(app: App, token: str) -> CaptchaProof:
    return CaptchaProof(token, answer_to(app, token))
