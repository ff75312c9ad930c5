"""Right answers to captchas: taken from the store, or guessed where the process is another one."""

from collections import Counter
from collections.abc import Mapping
from itertools import product
from typing import Any, Protocol

from regsvc.accounts.captcha import SUM_DIGITS
from regsvc.app.app import App
from tests.support.daemon import Reply

_SUMS = Counter(10 * int(tens) + int(ones) + int(other) for tens, ones, other in product(SUM_DIGITS, repeat=3))
_LIKELY_SUM = _SUMS.most_common(1)[0][0]
_MAX_GUESSES = 2000  # some twenty are usual


class Server(Protocol):
    """A daemon to send requests to."""

    def get(self, path: str) -> Reply: ...

    def post(self, path: str, body: object = None) -> Reply: ...


def answer_to(app: App, token: str) -> str:
    """Return the right answer; AssertionError if the challenge is not outstanding."""
    challenge = app.challenges.find(token)
    assert challenge is not None, "there is no such challenge"
    return challenge.answer.decode()


def post_with_guesses(server: Server, path: str, body: Mapping[str, Any]) -> Reply:
    """Send the request with guessed sums until one is right; return that reply."""
    for _guess in range(_MAX_GUESSES):
        token = server.get("/api/captcha/generate").json["token"]
        reply = server.post(path, {**body, "captchaToken": token, "captchaAnswer": str(_LIKELY_SUM)})
        if reply.json.get("code") != "invalid_captcha":
            return reply
    raise AssertionError(f"{_MAX_GUESSES} wrong guesses")
