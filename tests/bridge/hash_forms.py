"""The forms of AuthMe's hashes: what a new one looks like, and a new salt where it has a column of its own."""

import re
from dataclasses import dataclass

from plugin_bridge.hashers import HashedPassword


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
