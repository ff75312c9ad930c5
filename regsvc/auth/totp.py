"""The second factor of players who switched it on in the game (`/2fa`): RFC 6238, as AuthMe reads it.

SHA-1, half minutes, six digits, one half minute either side. AuthMe keeps the secret in its own table; here is kept
only which half minute was used last, so that a code serves once.
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
    """A secret that AuthMe or a host chose: however short it is, it is not ours to object to."""

    _min_key_size = 0


def find_time_step(secret: str, code: str, moment: datetime, *, after: int | None) -> int | None:
    """The half minute since 1970 that this code belongs to; None when it is wrong, too old or too early.

    `after`: the half minute used last; a code of that one or an earlier one is as good as wrong. With a secret that
    is no Base32 every code is wrong, as it is in the game.
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


def use_time_step(user_id: int, step: int) -> bool:
    """Note that this half minute's code was used, in the caller's transaction. False: somebody was faster."""
    is_unspent = User.totp_step.is_null() | (User.totp_step < step)
    return bool(User.update(totp_step=step).where((User.id == user_id) & is_unspent).execute())
