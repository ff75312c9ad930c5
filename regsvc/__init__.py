"""The registration and administration service."""

import sys
from typing import Final

__version__ = "1.0.0"

CRYPTOGRAPHY: Final = "cryptography"
# PyMySQL, PyJWT and passlib would import it: 8 MiB, for what one kind of login to MySQL alone needs
sys.modules.setdefault(CRYPTOGRAPHY, None)  # type: ignore[arg-type]


def allow_cryptography() -> None:
    """Let the library be imported from now on."""
    if sys.modules.get(CRYPTOGRAPHY, sys) is None:
        del sys.modules[CRYPTOGRAPHY]
