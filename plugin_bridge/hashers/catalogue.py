"""All algorithms by AuthMe's names. A new one is a class in the file of its family, and a line here."""

from plugin_bridge.hashers.argon2i import Argon2
from plugin_bridge.hashers.bcrypts import Bcrypt, Bcrypt2y, Ipb4, Wbb4, XfBcrypt
from plugin_bridge.hashers.digests import (
    Cmw,
    CrazyCrypt1,
    DoubleMd5,
    DoubleSha512,
    Ipb3,
    Joomla,
    Md5,
    Md5Vb,
    MyBb,
    PhpFusion,
    RoyalAuth,
    Salted2Md5,
    SaltedSha256,
    SaltedSha512,
    Sha1,
    Sha256,
    Sha512,
    Smf,
    Wbb3,
    Whirlpool,
    XAuth,
)
from plugin_bridge.hashers.hasher import Hasher
from plugin_bridge.hashers.pbkdf2 import Pbkdf2, Pbkdf2Base64, Pbkdf2Django
from plugin_bridge.hashers.phpass import PhpBb, WordPress

# With AuthMe's default parameters: enough to verify any hash, since costs are read from the stored one.
HASHERS: dict[str, Hasher] = {
    hasher.name: hasher
    for hasher in (
        Sha256(),
        Bcrypt(),
        Bcrypt2y(),
        Pbkdf2(),
        Pbkdf2Base64(),
        Pbkdf2Django(),
        Argon2(),
        SaltedSha512(),
        SaltedSha256(),
        DoubleSha512(),
        Salted2Md5(),
        MyBb(),
        Ipb3(),
        Ipb4(),
        Wbb3(),
        Wbb4(),
        Joomla(),
        Md5Vb(),
        PhpBb(),
        WordPress(),
        XfBcrypt(),
        PhpFusion(),
        Smf(),
        CrazyCrypt1(),
        RoyalAuth(),
        Cmw(),
        Md5(),
        DoubleMd5(),
        Sha1(),
        Sha512(),
        XAuth(),
        Whirlpool(),
    )
}


def find_hasher(name: str) -> Hasher | None:
    """Return the algorithm of AuthMe's name, in any case, or None if it is not supported."""
    return HASHERS.get(name.upper())
