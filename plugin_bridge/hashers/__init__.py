"""AuthMe's hash algorithms, and the password check built from them.

Each algorithm is an entry (`Hasher`) in the table of its family's file, and `catalogue.py` has them all. All facts
about stored forms were obtained from AuthMe 6.0.1 itself; XAUTH and WHIRLPOOL, which it lacks, from its fork
AuthMeReReloaded 5.7. The algorithm is chosen by its configured name, never guessed from the look of a stored hash.
Where AuthMe would throw on a stored hash, the answer here is "wrong password". passlib's handlers differ from AuthMe:
`hex_md5` accepts upper case, `django_pbkdf2_sha256` hashes UTF-8 where AuthMe hashes question marks, `phpass` refuses
salts that AuthMe accepts.

All functions are slow on purpose and block: call them from a worker thread.
"""

from plugin_bridge.hashers.hasher import (
    HashedPassword,
    Hasher,
    HashingConfig,
    UnhashablePassword,
    UnusableAlgorithm,
    is_hashable,
)
from plugin_bridge.hashers.password_hasher import (
    HASHERS,
    UNSUPPORTED,
    PasswordHasher,
    VerifyResult,
    find_hasher,
    find_unknown_algorithm,
    make_password_hasher,
)

__all__ = [
    "HASHERS",
    "UNSUPPORTED",
    "HashedPassword",
    "Hasher",
    "HashingConfig",
    "PasswordHasher",
    "UnhashablePassword",
    "UnusableAlgorithm",
    "VerifyResult",
    "find_hasher",
    "find_unknown_algorithm",
    "is_hashable",
    "make_password_hasher",
]
