"""Formula of every algorithm, independent of the code under test, and the forms that AuthMe writes.

`FORMULAS[algorithm](password, stored, name)` returns whether the hash was made from the password; `name` is in lower
case. `FORMS[algorithm]` is what a new hash looks like, and a new salt where it has a column of its own.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass

import argon2.low_level
import bcrypt
from argon2.exceptions import VerifyMismatchError
from passlib.hash import phpass

from plugin_bridge.hashers import HashedPassword
from plugin_bridge.hashers.whirlpool import whirlpool

Formula = Callable[[str, HashedPassword, str], bool]


def _hex(digest: str, text: str | bytes) -> str:
    return hashlib.new(digest, text if isinstance(text, bytes) else text.encode()).hexdigest()


def _md5(text: str) -> str:
    return _hex("md5", text)


def _sha1(text: str) -> str:
    return _hex("sha1", text)


def _sha256(text: str) -> str:
    return _hex("sha256", text)


def _sha512(text: str) -> str:
    return _hex("sha512", text)


def _digest(compute: Callable[[str, str], str]) -> Formula:
    """Build the formula of a digest of password and separate salt."""
    return lambda password, stored, name: stored.hash == compute(password, stored.salt or "")


def _bcrypt(secret: bytes, text: str) -> str:
    return text[:4] + bcrypt.hashpw(secret[:72], b"$2b$" + text[4:29].encode()).decode()[4:]


def _is_bcrypt(password: str, stored: HashedPassword, name: str) -> bool:
    return stored.hash == _bcrypt(password.encode(), stored.hash)


def _is_ipb4(password: str, stored: HashedPassword, name: str) -> bool:
    return _is_bcrypt(password, stored, name) and stored.salt == stored.hash[7:29]


def _is_wbb4(password: str, stored: HashedPassword, name: str) -> bool:
    return stored.hash == _bcrypt(_bcrypt(password.encode(), stored.hash).encode(), stored.hash)


def _is_argon2i(password: str, stored: HashedPassword, name: str) -> bool:
    try:
        return argon2.low_level.verify_secret(stored.hash.encode(), password.encode(), argon2.low_level.Type.I)
    except VerifyMismatchError:
        return False


def _is_sha256(password: str, stored: HashedPassword, name: str) -> bool:
    salt = stored.hash.split("$")[2]
    return stored.hash == "$SHA$" + salt + "$" + _sha256(_sha256(password) + salt)


def _is_md5vb(password: str, stored: HashedPassword, name: str) -> bool:
    salt = stored.hash.split("$")[2]
    return stored.hash == "$MD5vb$" + salt + "$" + _md5(_md5(password) + salt)


def _is_joomla(password: str, stored: HashedPassword, name: str) -> bool:
    salt = stored.hash.split(":")[1]
    return stored.hash == _md5(password + salt) + ":" + salt


def _is_pbkdf2(password: str, stored: HashedPassword, name: str) -> bool:
    tag, rounds, salt, key = stored.hash.split("$")
    computed = hashlib.pbkdf2_hmac("sha256", password.encode(), salt.encode(), int(rounds), 64)
    return (tag, key) == ("pbkdf2_sha256", computed.hex().upper())


def _is_pbkdf2_base64(password: str, stored: HashedPassword, name: str) -> bool:
    tag, rounds, salt, key = stored.hash.split("$")
    computed = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(salt), int(rounds), 32)
    return (tag, key) == ("pbkdf2", base64.b64encode(computed).decode())


def _is_pbkdf2_django(password: str, stored: HashedPassword, name: str) -> bool:
    tag, rounds, salt, key = stored.hash.split("$")
    computed = hashlib.pbkdf2_hmac("sha256", password.encode("ascii"), salt.encode(), int(rounds), 32)
    return (tag, key) == ("pbkdf2_sha256", base64.b64encode(computed).decode())


def _is_phpass(password: str, stored: HashedPassword, name: str) -> bool:
    return bool(phpass.verify(password, stored.hash))


def _is_php_fusion(password: str, stored: HashedPassword, name: str) -> bool:
    key = _sha1(stored.salt or "").encode()
    return stored.hash == hmac.new(key, password.encode("ascii"), "sha256").hexdigest()


def _is_smf(password: str, stored: HashedPassword, name: str) -> bool:
    return stored.hash == _sha1(name + password)


def _is_crazy(password: str, stored: HashedPassword, name: str) -> bool:
    text = "ÜÄaeut//&/=I " + password + "7421€547" + name + "__+IÄIH§%NK " + password
    return stored.hash == _hex("sha512", text.encode()[: len(text.encode("utf-16-le")) // 2])


def _is_royal(password: str, stored: HashedPassword, name: str) -> bool:
    text = password
    for _number in range(25):
        text = _sha512(text)
    return stored.hash == text


def _is_xauth(password: str, stored: HashedPassword, name: str) -> bool:
    digits = list(stored.hash)
    salt = "".join(digits.pop(len(password)) for _number in range(12))
    return "".join(digits) == whirlpool(salt + password)


FORMULAS: dict[str, Formula] = {
    "SHA256": _is_sha256,
    "BCRYPT": _is_bcrypt,
    "BCRYPT2Y": _is_bcrypt,
    "XFBCRYPT": _is_bcrypt,
    "IPB4": _is_ipb4,
    "WBB4": _is_wbb4,
    "ARGON2": _is_argon2i,
    "PBKDF2": _is_pbkdf2,
    "PBKDF2BASE64": _is_pbkdf2_base64,
    "PBKDF2DJANGO": _is_pbkdf2_django,
    "SALTEDSHA512": _digest(lambda password, salt: _sha512(password + salt)),
    "SALTEDSHA256": _digest(lambda password, salt: _sha256(password + salt)),
    "DOUBLE_SHA512": _digest(lambda password, salt: _sha512(_sha512(password) + salt)),
    "SALTED2MD5": _digest(lambda password, salt: _md5(_md5(password) + salt)),
    "MYBB": _digest(lambda password, salt: _md5(_md5(salt) + _md5(password))),
    "IPB3": _digest(lambda password, salt: _md5(_md5(salt) + _md5(password))),
    "WBB3": _digest(lambda password, salt: _sha1(salt + _sha1(salt + _sha1(password)))),
    "JOOMLA": _is_joomla,
    "MD5VB": _is_md5vb,
    "PHPBB": _is_bcrypt,
    "WORDPRESS": _is_phpass,
    "PHPFUSION": _is_php_fusion,
    "SMF": _is_smf,
    "CRAZYCRYPT1": _is_crazy,
    "ROYALAUTH": _is_royal,
    "CMW": _digest(lambda password, salt: _md5(_sha1(password))),
    "XAUTH": _is_xauth,
}


@dataclass(frozen=True)
class Form:
    """Form of a new hash and, in a column of its own, of a new salt; `salt` None: there is none."""

    hash: str
    salt: str | None = None

    def fits(self, stored: HashedPassword) -> bool:
        """Return whether the two columns have this form."""
        if self.salt is None or stored.salt is None:
            fits_salt = self.salt is None and stored.salt is None
        else:
            fits_salt = re.fullmatch(self.salt, stored.salt) is not None
        return fits_salt and re.fullmatch(self.hash, stored.hash) is not None


_BCRYPT_TEXT = r"[./A-Za-z0-9]{53}"

FORMS = {
    "SHA256": Form(r"\$SHA\$[0-9a-f]{16}\$[0-9a-f]{64}"),
    "BCRYPT": Form(r"\$2a\$12\$" + _BCRYPT_TEXT),
    "BCRYPT2Y": Form(r"\$2y\$10\$" + _BCRYPT_TEXT),
    "XFBCRYPT": Form(r"\$2a\$10\$" + _BCRYPT_TEXT),
    "IPB4": Form(r"\$2a\$13\$" + _BCRYPT_TEXT, r"[./A-Za-z0-9]{22}"),
    "WBB4": Form(r"\$2a\$08\$" + _BCRYPT_TEXT),
    "ARGON2": Form(r"\$argon2i\$v=19\$m=65536,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}"),
    "PBKDF2": Form(r"pbkdf2_sha256\$10000\$[0-9a-f]{16}\$[0-9A-F]{128}"),
    "PBKDF2BASE64": Form(r"pbkdf2\$120000\$[A-Za-z0-9+/]{22}==\$[A-Za-z0-9+/]{43}="),
    "PBKDF2DJANGO": Form(r"pbkdf2_sha256\$24000\$[0-9a-f]{12}\$[A-Za-z0-9+/]{43}="),
    "SALTEDSHA512": Form(r"[0-9a-f]{128}", r"[0-9a-f]{32}"),
    "SALTEDSHA256": Form(r"[0-9a-f]{64}", r"[0-9a-f]{32}"),
    "DOUBLE_SHA512": Form(r"[0-9a-f]{128}", r"[0-9a-f]{32}"),
    "SALTED2MD5": Form(r"[0-9a-f]{32}", r"[0-9a-f]{8}"),
    "MYBB": Form(r"[0-9a-f]{32}", r"[0-9a-zA-Z]{8}"),
    "IPB3": Form(r"[0-9a-f]{32}", r"[0-9a-f]{5}"),
    "WBB3": Form(r"[0-9a-f]{40}", r"[0-9a-f]{40}"),
    "JOOMLA": Form(r"[0-9a-f]{32}:[0-9a-f]{32}"),
    "MD5VB": Form(r"\$MD5vb\$[0-9a-f]{16}\$[0-9a-f]{32}"),
    "PHPBB": Form(r"\$2y\$10\$" + _BCRYPT_TEXT),
    "WORDPRESS": Form(r"\$P\$B[./A-Za-z0-9]{30}"),
    "PHPFUSION": Form(r"[0-9a-f]{64}", r"[0-9a-f]{12}"),
    "SMF": Form(r"[0-9a-f]{40}", r"[0-9a-z]{4}"),
    "CRAZYCRYPT1": Form(r"[0-9a-f]{128}"),
    "ROYALAUTH": Form(r"[0-9a-f]{128}"),
    "CMW": Form(r"[0-9a-f]{32}"),
    "XAUTH": Form(r"[0-9a-f]{140}"),
}
