"""AuthMe's hash algorithms, and the password check made of them.

Each algorithm is one small class in the file of its family and one line in `catalogue.py`. All facts about stored
forms are AuthMe 6.0.1's own answers. The algorithm is chosen by its configured name, never guessed from the look of
a stored hash. Where AuthMe would throw at a stored hash, the answer here is "wrong password".

Everything here is slow on purpose and blocks: call it from a worker thread.
"""

from plugin_bridge.hashers.bcrypts import Bcrypt
from plugin_bridge.hashers.catalogue import HASHERS, find_hasher
from plugin_bridge.hashers.hasher import (
    HashedPassword,
    Hasher,
    HashingConfig,
    UnhashablePassword,
    UnusableAlgorithm,
    is_hashable,
)
from plugin_bridge.hashers.password_hasher import PasswordHasher, VerifyResult, make_password_hasher

__all__ = [
    "HASHERS",
    "Bcrypt",
    "HashedPassword",
    "Hasher",
    "HashingConfig",
    "PasswordHasher",
    "UnhashablePassword",
    "UnusableAlgorithm",
    "VerifyResult",
    "find_hasher",
    "is_hashable",
    "make_password_hasher",
]
