"""All algorithms by AuthMe's names. A new one is an entry in the table of its family."""

from plugin_bridge.hashers.digests import DIGESTS
from plugin_bridge.hashers.hasher import Hasher
from plugin_bridge.hashers.slow_hashes import ARGON2, BCRYPTS, PBKDF2, PHPASS

# With AuthMe's default parameters: enough to verify any hash, since costs are read from the stored one.
HASHERS: dict[str, Hasher] = {hasher.name: hasher for hasher in (*DIGESTS, *BCRYPTS, *PBKDF2, *PHPASS, ARGON2)}


def find_hasher(name: str) -> Hasher | None:
    """Return the algorithm of AuthMe's name, in any case, or None if it is not supported."""
    return HASHERS.get(name.upper())
