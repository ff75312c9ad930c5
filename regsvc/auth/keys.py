"""The two keys everything secret rests on: given in the config, or made at first start and kept in a file.

A key is text of at least 32 characters, in its file as in the config: an old signing key moves from the file
to `auth.previous_keys` as it stands.
"""

import hmac
import os
import secrets
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from regsvc.config.sections import AuthSection
from regsvc.config.value_checks import MIN_KEY_LENGTH, is_placeholder

INSTALLATION_KEY_FILE = "installation.key"
SIGNING_KEY_FILE = "signing.key"

_RANDOM_BYTES = 32
_MAX_FILE_BYTES = 4096


class UnusableKey(Exception):
    """A key cannot be used, read or kept; `str()` is a sentence with what to do about it, never the key."""


class SigningKeys:
    """The key that signs access tokens, and former ones whose tokens still stand. Its repr shows nothing."""

    def __init__(self, current: bytes, previous: Sequence[bytes] = ()) -> None:
        self.current_kid = fingerprint(current)
        self._by_kid = {fingerprint(key): key for key in (*previous, current)}

    @property
    def current(self) -> bytes:
        return self._by_kid[self.current_kid]

    def find(self, kid: str) -> bytes | None:
        """The key that has this fingerprint, or None: it is not ours, or no longer."""
        return self._by_kid.get(kid)

    def __repr__(self) -> str:
        return "<SigningKeys>"


@dataclass(frozen=True)
class Keys:
    """What codes and mailed links are derived from, and what signs access tokens."""

    installation_key: bytes = field(repr=False)
    signing: SigningKeys = field(repr=False)


def fingerprint(key: bytes) -> str:
    """16 hexadecimal digits that tell one key from another and nothing about it."""
    return hmac.digest(key, b"companion: fingerprint of a key", sha256).hex()[:16]


def load_keys(auth: AuthSection, state_dir: Path) -> Keys:
    """The config's keys, else those kept in `state_dir` (made 0700), else new ones, kept there (0600).

    Raises `UnusableKey`: too short, a placeholder, readable by others, or the directory is of no use.
    """
    installation_key = _given_or_kept(auth.installation_key, "auth.installation_key", state_dir / INSTALLATION_KEY_FILE)
    signing_key = _given_or_kept(auth.signing_key, "auth.signing_key", state_dir / SIGNING_KEY_FILE)
    previous = [_checked(key, "auth.previous_keys") for key in auth.previous_keys]
    return Keys(installation_key, SigningKeys(signing_key, previous))


def find_installation_key(auth: AuthSection, state_dir: Path) -> bytes | None:
    """The key that `load_keys` would find; None where it would make one. Makes and changes nothing.

    Raises `UnusableKey` for whatever is wrong with any of the keys, as `load_keys` does.
    """
    if state_dir.exists():
        _check_directory(state_dir)
    for key in auth.previous_keys:
        _checked(key, "auth.previous_keys")
    _find(auth.signing_key, "auth.signing_key", state_dir / SIGNING_KEY_FILE)
    return _find(auth.installation_key, "auth.installation_key", state_dir / INSTALLATION_KEY_FILE)


def _find(given: str, name: str, path: Path) -> bytes | None:
    if given:
        return _checked(given, name)
    try:
        return _checked(_read_private(path).strip(), str(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnusableKey(f"{path} cannot be read ({error.strerror}): let the companion's user read it.") from error


def _given_or_kept(given: str, name: str, path: Path) -> bytes:
    if given:
        return _checked(given, name)
    try:
        return _kept(path)
    except OSError as error:
        raise UnusableKey(
            f"{path} cannot be read or made ({error.strerror}): let the user the companion runs as "
            f"write to {path.parent}, or set {name}."
        ) from error


def _kept(path: Path) -> bytes:
    _prepare_directory(path.parent)
    try:
        text = _read_private(path)
    except FileNotFoundError:
        _make(path)
        text = _read_private(path)
    return _checked(text.strip(), str(path))


def _checked(text: str, source: str) -> bytes:
    if len(text) < MIN_KEY_LENGTH:
        raise UnusableKey(
            f"{source} holds no key of at least {MIN_KEY_LENGTH} characters; "
            "make one with: openssl rand -hex 32, or remove it and one is made in the state directory."
        )
    if is_placeholder(text):
        raise UnusableKey(f"{source} is a placeholder that everybody knows; make one with: openssl rand -hex 32")
    return text.encode()


def _prepare_directory(directory: Path) -> None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_directory(directory)


def _check_directory(directory: Path) -> None:
    if directory.stat().st_mode & stat.S_IWOTH:
        raise UnusableKey(f"everybody may write to {directory}, where keys are kept; chmod 700 {directory}")


def _read_private(path: Path) -> str:
    """The file's text. The open file is asked for its mode: the name might be another file by then."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise UnusableKey(f"{path} is not for the companion alone: others may use it; chmod 600 {path}")
        return file.read(_MAX_FILE_BYTES).decode(errors="replace")


def _make(path: Path) -> None:
    """A new key, whole on disk before it has its name. Where another process was faster, its key stays."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "w", encoding="ascii") as file:  # noqa: PTH123 - a descriptor, not a path
            file.write(f"{secrets.token_hex(_RANDOM_BYTES)}\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            path.hardlink_to(draft)
    finally:
        draft.unlink()
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
