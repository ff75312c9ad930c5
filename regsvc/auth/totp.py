"""TOTP second factor (RFC 6238) with AuthMe's parameters, so that one app entry serves the game (`/2fa`) and the web.

SHA-1, time steps of 30 seconds, six digits, one step of tolerance either side. The last step used is stored, so that a
code works once.
"""

import re
from datetime import datetime
from typing import Final

from passlib.exc import TokenError
from passlib.totp import TOTP

from regsvc.database.models import User

_PERIOD: Final = 30  # seconds
_CODE: Final = re.compile(r"[0-9]{6}")
_SPACE: Final = re.compile(r"[\s-]+")  # apps show a code in two groups


class _AuthMeTotp(TOTP):
    """TOTP with a secret that AuthMe or a host chose, which we must accept however short it is."""

    _min_key_size = 0


def find_time_step(secret: str, code: str, moment: datetime, *, after: int | None) -> int | None:
    """Return the time step (30 seconds, counted from 1970) of a code; None when it is wrong, too old or too early.

    `after` is the last step used; a code of that step or an earlier one counts as wrong. With a secret that is not
    Base32 every code is wrong, as in the game.
    """
    digits = _SPACE.sub("", code)
    if not _CODE.fullmatch(digits):
        return None
    try:
        totp = _AuthMeTotp(key=secret, format="base32", digits=6, alg="sha1", period=_PERIOD)
    except (TypeError, ValueError):
        return None
    try:
        match = totp.match(digits, moment, window=_PERIOD, last_counter=after)
    except TokenError:
        return None
    return int(match.counter)


def provisioning_uri(secret: str, username: str, issuer: str) -> str:
    """Return the `otpauth:` URI that authenticator apps read from a QR code."""
    totp = _AuthMeTotp(key=secret, format="base32", digits=6, alg="sha1", period=_PERIOD)
    uri: str = totp.to_uri(label=username, issuer=issuer.replace(":", " ").strip() or None)
    return uri


def use_time_step(user_id: int, step: int) -> bool:
    """Record the step as used, in the caller's transaction. False: another request was faster."""
    is_unspent = User.totp_step.is_null() | (User.totp_step < step)
    return bool(User.update(totp_step=step).where((User.id == user_id) & is_unspent).execute())
