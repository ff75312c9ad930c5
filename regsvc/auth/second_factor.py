"""Second factors: codes of authenticator apps, the secrets of those set up on the web, and recovery codes.

Codes are TOTP (RFC 6238) with AuthMe's parameters, so that one app entry serves the game (`/2fa`) and the web: SHA-1,
time steps of 30 seconds, six digits, one step of tolerance either side. The last step used is stored, so that a code
works once.
"""

import re
import secrets as random
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final

from msgspec import Meta
from passlib.exc import TokenError
from passlib.totp import TOTP

from regsvc.auth.derived_secrets import DerivedSecrets
from regsvc.core.clock import SKEW, Clock
from regsvc.database.models import RecoveryCode, User

Totp = Annotated[
    str,
    Meta(
        description="A code of the authenticator app, or a recovery code, if there is a second factor.",
        examples=["123456"],
    ),
]

RECOVERY_CODES: Final = 10
_DIGITS: Final = 12  # digits only, for the keyboard that phones show for codes
_GROUP: Final = 4
_CODE: Final = re.compile(rf"[0-9]{{{_DIGITS}}}")
_SEPARATOR: Final = re.compile(r"[\s-]+")  # apps, too, show a code in groups
_MAX_TYPED: Final = 40


@dataclass(frozen=True)
class SecondFactors:
    """Secrets and recovery codes. Plain SQL inside the caller's transaction.

    Neither is stored: a secret is derived from the installation key and a nonce in the user's row, of recovery codes
    there are keyed hashes.
    """

    secrets: DerivedSecrets
    now: Clock

    def secret_of(self, user_id: int, nonce: str) -> str:
        """Return the secret of a user's second factor in Base32."""
        return self.secrets.totp_secret(user_id, nonce)

    def replace_recovery_codes(self, user_id: int) -> list[str]:
        """Return new recovery codes, to be shown once; earlier ones are no longer valid."""
        self.delete_recovery_codes(user_id)
        codes = set[str]()
        while len(codes) < RECOVERY_CODES:
            codes.add(f"{random.randbelow(10**_DIGITS):0{_DIGITS}}")
        now = self.now()
        rows = [{"user": user_id, "code_hash": self._hash(user_id, code), "created_at": now} for code in codes]
        RecoveryCode.insert_many(rows).execute()
        return [" ".join(re.findall(rf".{{{_GROUP}}}", code)) for code in codes]

    def delete_recovery_codes(self, user_id: int) -> None:
        """Make all recovery codes of the user invalid."""
        RecoveryCode.delete().where(RecoveryCode.user == user_id).execute()

    def find_recovery_code(self, user_id: int, typed: str) -> str | None:
        """Return the keyed hash of a valid recovery code, to be used with `use_recovery_code`; else None."""
        hash_ = self._hash(user_id, _SEPARATOR.sub("", typed))
        found = RecoveryCode.select().where(RecoveryCode.user == user_id, RecoveryCode.code_hash == hash_).exists()
        return hash_ if found else None

    def _hash(self, user_id: int, code: str) -> str:
        return self.secrets.digest("recovery code", f"{user_id} {code}")


def is_recovery_code(typed: str) -> bool:
    """Return whether the text has the form of a recovery code."""
    return len(typed) <= _MAX_TYPED and _CODE.fullmatch(_SEPARATOR.sub("", typed)) is not None


def count_recovery_codes(user_id: int) -> int:
    """Return how many recovery codes of the user are left."""
    return int(RecoveryCode.select().where(RecoveryCode.user == user_id).count())


def use_recovery_code(user_id: int, code_hash: str) -> bool:
    """Delete the code in the caller's transaction. False: another request used it."""
    is_code = (RecoveryCode.user == user_id) & (RecoveryCode.code_hash == code_hash)
    return bool(RecoveryCode.delete().where(is_code).execute())


_PERIOD: Final = 30  # seconds
_BELIEVED: Final = SKEW.total_seconds() // _PERIOD + 1
"""Steps that the last one used may be ahead."""
_TOTP_CODE: Final = re.compile(r"[0-9]{6}")


class _AuthMeTotp(TOTP):
    """TOTP with a secret that AuthMe or a host chose, which we must accept however short it is."""

    _min_key_size = 0


def find_time_step(secret: str, code: str, moment: datetime, *, after: int | None) -> int | None:
    """Return the time step (30 seconds, counted from 1970) of a code; None when it is wrong, too old or too early.

    `after` is the last step used; a code of that step or an earlier one counts as wrong, unless it was used before the
    clock was set back. With a secret that is not Base32 every code is wrong, as in the game.
    """
    digits = _SEPARATOR.sub("", code)
    if not _TOTP_CODE.fullmatch(digits):
        return None
    try:
        totp = _AuthMeTotp(key=secret, format="base32", digits=6, alg="sha1", period=_PERIOD)
    except (TypeError, ValueError):
        return None
    if after is not None and after - moment.timestamp() // _PERIOD > _BELIEVED:
        after = None
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
    is_unspent = User.totp_step.is_null() | (User.totp_step < step) | (User.totp_step > step + _BELIEVED + 1)
    return bool(User.update(totp_step=step).where((User.id == user_id) & is_unspent).execute())
