"""The installation key and the signing key: from the config, or created at first start and kept in files.

A key is text of at least 32 characters, in its file as in the config: an old signing key is moved from the file to
`auth.previous_keys` unchanged.
"""

import hmac
import os
import secrets
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final

from plugin_bridge.server.files import require_regular_file
from regsvc.config.sections import AuthSection
from regsvc.config.value_checks import MIN_KEY_LENGTH, is_placeholder
from regsvc.core.exceptions import StartupError

INSTALLATION_KEY_FILE = "installation.key"
SIGNING_KEY_FILE = "signing.key"

_RANDOM_BYTES = 32
_MAX_FILE_BYTES = 4096


class UnusableKey(StartupError):
    """A key cannot be used, read or stored; `str()` is a sentence with what to do about it, never the key."""


class SigningKeys:
    """The key that signs access tokens, and previous ones whose tokens are still valid. Its repr reveals nothing."""

    def __init__(self, current: bytes, previous: Sequence[bytes] = ()) -> None:
        self.current_kid = fingerprint(current)
        self.by_kid: Final[Mapping[str, bytes]] = {fingerprint(key): key for key in (*previous, current)}
        """All keys, by fingerprint."""

    @property
    def current(self) -> bytes:
        return self.by_kid[self.current_kid]

    @property
    def fingerprints(self) -> list[str]:
        """The fingerprints of all keys whose tokens are valid, the current key's first."""
        return [self.current_kid, *(kid for kid in self.by_kid if kid != self.current_kid)]

    def __repr__(self) -> str:
        return "<SigningKeys>"


@dataclass(frozen=True)
class Keys:
    """The key that codes and mailed links are derived from, and the keys that sign access tokens."""

    installation_key: bytes = field(repr=False)
    signing: SigningKeys = field(repr=False)


def fingerprint(key: bytes) -> str:
    """Return 16 hexadecimal digits that identify a key and reveal nothing about it."""
    return hmac.digest(key, b"companion: fingerprint of a key", sha256).hex()[:16]


def load_keys(auth: AuthSection, state_dir: Path) -> Keys:
    """Return the config's keys, else those in `state_dir` (created 0700), else new ones, stored there (0600).

    Raises `UnusableKey` if one is too short, a placeholder or readable by others, or the directory cannot be used.
    """
    installation_key = _load_or_create(
        auth.installation_key, "auth.installation_key", state_dir / INSTALLATION_KEY_FILE
    )
    signing_key = _load_or_create(auth.signing_key, "auth.signing_key", state_dir / SIGNING_KEY_FILE)
    previous = [_validated(key, "auth.previous_keys") for key in auth.previous_keys]
    return Keys(installation_key, SigningKeys(signing_key, previous))


def require_keys(auth: AuthSection, state_dir: Path) -> Keys:
    """Return the keys as `load_keys` does, without ever creating one. Raises `UnusableKey` also for a missing one."""
    keys = _find_keys(auth, state_dir)
    if keys is None:
        raise UnusableKey(
            f"A key of the installation is missing in {state_dir}. Restore it from a backup; without one, starting the "
            "daemon creates another, with which mailed codes and logins of before are not valid."
        )
    return keys


def find_or_invent_keys(auth: AuthSection, state_dir: Path) -> Keys:
    """Return the keys as `load_keys` does; in place of missing ones random ones that are stored nowhere.

    For commands that use no keys. Raises `UnusableKey`.
    """
    invented = Keys(secrets.token_bytes(_RANDOM_BYTES), SigningKeys(secrets.token_bytes(_RANDOM_BYTES)))
    return _find_keys(auth, state_dir) or invented


def find_installation_key(auth: AuthSection, state_dir: Path) -> bytes | None:
    """Return the installation key that `load_keys` would find; None where it would create one. Read-only.

    Raises `UnusableKey` for any fault of any key, as `load_keys` does.
    """
    if state_dir.exists():
        _check_directory(state_dir)
    for key in auth.previous_keys:
        _validated(key, "auth.previous_keys")
    _find(auth.signing_key, "auth.signing_key", state_dir / SIGNING_KEY_FILE)
    return _find(auth.installation_key, "auth.installation_key", state_dir / INSTALLATION_KEY_FILE)


def find_signing_keys(auth: AuthSection, state_dir: Path) -> SigningKeys | None:
    """Return the signing keys that `load_keys` would find; None where it would create one. Read-only.

    Raises `UnusableKey`.
    """
    signing_key = _find(auth.signing_key, "auth.signing_key", state_dir / SIGNING_KEY_FILE)
    if signing_key is None:
        return None
    return SigningKeys(signing_key, [key.encode() for key in auth.previous_keys])


def _find_keys(auth: AuthSection, state_dir: Path) -> Keys | None:
    installation_key = find_installation_key(auth, state_dir)
    signing = find_signing_keys(auth, state_dir)
    if installation_key is None or signing is None:
        return None
    return Keys(installation_key, signing)


def _find(given: str, name: str, path: Path) -> bytes | None:
    if given:
        return _validated(given, name)
    try:
        return _validated(_read_private(path).strip(), str(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        remedy = _owner_remedy(path) or "Give the user the companion runs as read access."
        raise UnusableKey(f"{path} cannot be read ({error.strerror}). {remedy}") from error


def _load_or_create(given: str, name: str, path: Path) -> bytes:
    if given:
        return _validated(given, name)
    try:
        return _read_or_create(path)
    except OSError as error:
        remedy = f"Give the user the companion runs as write access to {path.parent}, or set {name}."
        raise UnusableKey(
            f"{path} cannot be read or created ({error.strerror}). {_owner_remedy(path) or remedy}"
        ) from error


def _owner_remedy(path: Path) -> str | None:
    """Return what to do if the file has another owner than its folder; else None."""
    try:
        if path.stat().st_uid == path.parent.stat().st_uid:
            return None
    except OSError:
        return None
    return f"Its folder has another owner. Run: chown -R --reference={path.parent} {path.parent}"


def _read_or_create(path: Path) -> bytes:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_directory(path.parent)
    try:
        text = _read_private(path)
    except FileNotFoundError:
        _create(path)
        text = _read_private(path)
    return _validated(text.strip(), str(path))


def _validated(text: str, source: str) -> bytes:
    if len(text) < MIN_KEY_LENGTH:
        raise UnusableKey(
            f"{source} must have at least {MIN_KEY_LENGTH} characters. Create a key with: openssl rand -hex 32, "
            "or remove it: a key is then created in the state directory."
        )
    if is_placeholder(text):
        raise UnusableKey(f"{source} is a well-known placeholder. Create a key with: openssl rand -hex 32")
    return text.encode()


def _check_directory(directory: Path) -> None:
    if directory.stat().st_mode & stat.S_IWOTH:
        raise UnusableKey(f"{directory} holds keys but is writable by everyone. Run: chmod 700 {directory}")


def _read_private(path: Path) -> str:
    """Return the file's text. The mode is read from the open file: the path might be replaced in between."""
    require_regular_file(path)
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise UnusableKey(f"{path} is accessible to other users of this machine. Run: chmod 600 {path}")
        return file.read(_MAX_FILE_BYTES).decode(errors="replace")


def _create(path: Path) -> None:
    """Create a key file atomically. If another process was faster, its key stays."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "w", encoding="ascii") as file:  # noqa: PTH123 - a descriptor, not a path
            file.write(f"{secrets.token_hex(_RANDOM_BYTES)}\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            path.hardlink_to(temporary)
    finally:
        temporary.unlink()
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
