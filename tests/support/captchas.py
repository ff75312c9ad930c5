"""Right answers to captchas, taken from the store."""

from regsvc.app.app import App


def answer_to(app: App, token: str) -> str:
    """Return the right answer; AssertionError if the challenge is not outstanding."""
    challenge = app.captcha_parts.challenges.find(token)
    assert challenge is not None, "there is no such challenge"
    return challenge.answer.decode()
