"""Digests: without a salt, with one inside the hash, or with one in a column of its own.

AuthMe advises against those without a random salt, and creates none of the plain ones.

The one library for Python has no wheels, so that every host would need a C compiler.
"""

import hashlib
import hmac
import secrets
import string
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final

from plugin_bridge.hashers.hasher import MAX_STORED_CHARACTERS, HashedPassword, Hasher, HashingConfig, UnusableAlgorithm

_BLOCK = 64  # bytes

_ROUNDS = 10

_FULL_WORD = (1 << 64) - 1


# The standard derives its substitution box from two small permutations, the first of which is also inverted.
_E = (1, 11, 9, 12, 13, 6, 15, 3, 14, 8, 7, 4, 10, 2, 5, 0)

_R = (7, 12, 11, 13, 14, 4, 9, 15, 6, 3, 8, 10, 2, 5, 1, 0)

_DIFFUSION = (1, 1, 4, 1, 8, 5, 2, 9)  # first row of a circulant matrix

_POLYNOMIAL = 0x11D

_Words = list[int]  # eight rows of a state, 64 bits each


def whirlpool(text: str) -> str:
    """Return the digest as AuthMe computes it, 128 hex digits: of the low bytes of Java's (UTF-16) characters."""
    return _digest(text.encode("utf-16-le")[::2]).hex()


def _digest(message: bytes) -> bytes:
    """Return the digest of a message, 64 bytes."""
    padding = b"\x80" + bytes(-(len(message) + 33) % _BLOCK)
    padded = message + padding + (len(message) * 8).to_bytes(32)
    state = [0] * 8
    for start in range(0, len(padded), _BLOCK):
        block = [int.from_bytes(padded[at : at + 8]) for at in range(start, start + _BLOCK, 8)]
        ciphertext = _encrypt(state, block)
        state = [old ^ new ^ word for old, new, word in zip(state, ciphertext, block, strict=True)]
    return b"".join(word.to_bytes(8) for word in state)


def _encrypt(key: _Words, block: _Words) -> _Words:
    """Encrypt a block with the block cipher that the digest is made of."""
    tables, constants = _tables()
    state = [word ^ part for word, part in zip(block, key, strict=True)]
    for constant in constants:
        key = _diffuse(tables, key)
        key[0] ^= constant
        state = [word ^ part for word, part in zip(_diffuse(tables, state), key, strict=True)]
    return state


def _diffuse(tables: tuple[_Words, ...], rows: _Words) -> _Words:
    """Return the rows after substitution of the bytes, rotation of the columns and diffusion of the rows."""
    result = []
    for row in range(8):
        word = 0
        for column, table in enumerate(tables):
            word ^= table[rows[row - column] >> (56 - 8 * column) & 0xFF]
        result.append(word)
    return result


@cache
def _tables() -> tuple[tuple[_Words, ...], _Words]:
    """Return what each byte of a row becomes, for its eight columns, and the constants of the rounds."""
    box = [_substitute(byte) for byte in range(256)]
    first = [int.from_bytes(bytes(_multiply(byte, factor) for factor in _DIFFUSION)) for byte in box]
    tables = [first]
    for column in range(8, 64, 8):
        tables.append([(word >> column | word << (64 - column)) & _FULL_WORD for word in first])
    constants = [int.from_bytes(bytes(box[8 * number : 8 * number + 8])) for number in range(_ROUNDS)]
    return tuple(tables), constants


def _substitute(byte: int) -> int:
    """Return the value of the substitution box."""
    high, low = _E[byte >> 4], _E.index(byte & 15)
    mixed = _R[high ^ low]
    return _E[high ^ mixed] << 4 | _E.index(low ^ mixed)


def _multiply(byte: int, factor: int) -> int:
    """Multiply two polynomials over GF(2), modulo `_POLYNOMIAL`."""
    product = 0
    while factor:
        if factor & 1:
            product ^= byte
        byte <<= 1
        if byte & 0x100:
            byte ^= _POLYNOMIAL
        factor >>= 1
    return product


Digest = Callable[[str], str]


def md5(text: str) -> str:
    """Return the MD5 of a text, 32 hex digits."""
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def sha1(text: str) -> str:
    """Return the SHA-1 of a text, 40 hex digits."""
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def sha256(text: str) -> str:
    """Return the SHA-256 of a text, 64 hex digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def sha512(text: str) -> str:
    """Return the SHA-512 of a text, 128 hex digits."""
    return hashlib.sha512(text.encode()).hexdigest()


def is_same(computed: str, stored: str) -> bool:
    """Compare two texts exactly, in a time that does not reveal where they differ."""
    return hmac.compare_digest(computed.encode(), stored.encode())


def random_text(characters: str, length: int) -> str:
    """Return a random text of these characters."""
    return "".join(secrets.choice(characters) for _number in range(length))


# --- Without a random salt ---


def _with_name(name: str, digest: Callable[[str, str], str], **traits: Any) -> Hasher:
    """Return the algorithm that stores `digest(password, username)`."""

    def matches(password: str, stored: HashedPassword, username: str) -> bool:
        return is_same(digest(password, username), stored.hash)

    return Hasher(name, matches, lambda password, username: HashedPassword(digest(password, username)), **traits)


def _plain(name: str, digest: Digest, **traits: Any) -> Hasher:
    return _with_name(name, lambda password, _username: digest(password), **traits)


_deprecated: Final = partial(_plain, is_deprecated=True)


def _royal_auth(password: str) -> str:
    """Return the hex text of sha512, 25 times, each time of the previous one."""
    text = password
    for _round in range(25):
        text = sha512(text)
    return text


def _crazy_crypt(password: str, username: str) -> str:
    """Return the sha512 of name and password in a fixed phrase, as CrazyLogin did.

    The digest covers only as many bytes of the UTF-8 as the text has UTF-16 units, so that a few at the end are cut.
    """
    text = f"ÜÄaeut//&/=I {password}7421€547{username}__+IÄIH§%NK {password}"
    utf16_units = len(text.encode("utf-16-le")) // 2
    return hashlib.sha512(text.encode()[:utf16_units]).hexdigest()


def _smf() -> Hasher:
    """Return sha1(username + password), as Simple Machines Forum does.

    There is a salt column as well; it is not used, but where it is NULL no password verifies.
    """

    def matches(password: str, stored: HashedPassword, username: str) -> bool:
        return is_same(sha1(username + password), stored.hash)

    def create(password: str, username: str) -> HashedPassword:
        return HashedPassword(sha1(username + password), random_text(string.digits + string.ascii_lowercase, 4))

    return Hasher("SMF", matches, create, needs_salt_column=True)


# --- With a salt in a column of its own ---


def _separate(name: str, digest: Callable[[str, str], str], new_salt: Callable[[], str], **traits: Any) -> Hasher:
    """Return the algorithm that stores `digest(password, salt)`.

    The salt is used as text, exactly; it may be empty, but not missing.
    """

    def matches(password: str, stored: HashedPassword, username: str) -> bool:
        return is_same(digest(password, stored.salt or ""), stored.hash)

    def create(password: str, username: str) -> HashedPassword:
        salt = new_salt()
        return HashedPassword(digest(password, salt), salt)

    return Hasher(name, matches, create, needs_salt_column=True, **traits)


def salted2md5(salt_length: int = 8) -> Hasher:
    """Return md5(md5(password) + salt). `doubleMD5SaltLength` configures the length of new salts in hex digits."""

    def configure(config: HashingConfig) -> Hasher:
        length = config.double_md5_salt_length
        if not 0 <= length <= MAX_STORED_CHARACTERS:
            raise UnusableAlgorithm(
                f"settings.security.doubleMD5SaltLength is {length}; it must be between 0 and {MAX_STORED_CHARACTERS}."
            )
        return salted2md5(length)

    def new_salt() -> str:
        return secrets.token_hex((salt_length + 1) // 2)[:salt_length]

    return _separate("SALTED2MD5", lambda password, salt: md5(md5(password) + salt), new_salt, configure=configure)


def _md5_of_both(password: str, salt: str) -> str:
    """Return md5(md5(salt) + md5(password)), as MyBB and Invision Power Board 3 do."""
    return md5(md5(salt) + md5(password))


def _php_fusion(password: str, salt: str) -> str:
    """Return the HMAC-SHA256 of the password; the key is the hex text of sha1(salt).

    The password is encoded as ASCII with a question mark for every other character.
    """
    return hmac.new(sha1(salt).encode(), password.encode("ascii", "replace"), hashlib.sha256).hexdigest()


# --- With a salt inside the hash ---


def _doubled(name: str, mark: str, digest: Digest) -> Hasher:
    """Return `$` mark `$` salt `$` digest(digest(password) + salt). The salt may be any text without a `$`."""

    def text(password: str, salt: str) -> str:
        return f"${mark}${salt}${digest(digest(password) + salt)}"

    def matches(password: str, stored: HashedPassword, username: str) -> bool:
        parts = stored.hash.split("$")
        return len(parts) == 4 and is_same(text(password, parts[2]), stored.hash)

    return Hasher(name, matches, lambda password, _username: HashedPassword(text(password, secrets.token_hex(8))))


def _joomla() -> Hasher:
    """Return md5(password + salt) `:` salt. The salt may be any text without a colon, but not empty."""

    def text(password: str, salt: str) -> str:
        return f"{md5(password + salt)}:{salt}"

    def matches(password: str, stored: HashedPassword, username: str) -> bool:
        parts = stored.hash.split(":")
        return len(parts) == 2 and parts[1] != "" and is_same(text(password, parts[1]), stored.hash)

    return Hasher("JOOMLA", matches, lambda password, _username: HashedPassword(text(password, secrets.token_hex(16))))


def _xauth() -> Hasher:
    """Return Whirlpool of salt + password, with the salt put into it as far from its beginning as the password is long.

    AuthMe 5.7 and newer do not know it; AuthMeReReloaded does. Of each character of the password only the low byte
    counts, so that Ł is the same as A. A password as long as the digest has no place for the salt, and never verifies.
    """
    max_characters, salt_characters = 127, 12

    def text(password: str, salt: str, at: int) -> str:
        digest = whirlpool(salt + password)
        return digest[:at] + salt + digest[at:]

    def matches(password: str, stored: HashedPassword, username: str) -> bool:
        at = len(password.encode("utf-16-le")) // 2  # as Java counts characters
        salt = stored.hash[at : at + salt_characters]
        return at <= max_characters and is_same(text(password, salt, at), stored.hash)

    def create(password: str, username: str) -> HashedPassword:
        return HashedPassword(text(password, secrets.token_hex(salt_characters // 2), len(password)))

    return Hasher("XAUTH", matches, create, is_ascii_only=True, max_characters=max_characters)


DIGESTS: Final = (
    _deprecated("MD5", md5),
    _deprecated("DOUBLEMD5", lambda password: md5(md5(password))),
    _deprecated("SHA1", sha1),
    _deprecated("SHA512", sha512),
    # in upper case; AuthMe 5.7 and newer do not know it, AuthMeReReloaded does
    _deprecated("WHIRLPOOL", lambda password: whirlpool(password).upper()),
    _plain("CMW", lambda password: md5(sha1(password))),  # CraftMyWebsite
    _plain("ROYALAUTH", _royal_auth),
    _with_name("CRAZYCRYPT1", _crazy_crypt),
    _smf(),
    _separate("SALTEDSHA512", lambda password, salt: sha512(password + salt), lambda: secrets.token_hex(16)),
    # the next two are new in AuthMe 6
    _separate("SALTEDSHA256", lambda password, salt: sha256(password + salt), lambda: secrets.token_hex(16)),
    _separate("DOUBLE_SHA512", lambda password, salt: sha512(sha512(password) + salt), lambda: secrets.token_hex(16)),
    salted2md5(),
    _separate("MYBB", _md5_of_both, lambda: random_text(string.digits + string.ascii_letters, 8)),
    _separate("IPB3", _md5_of_both, lambda: secrets.token_hex(3)[:5]),
    # WoltLab Burning Board 3
    _separate("WBB3", lambda password, salt: sha1(salt + sha1(salt + sha1(password))), lambda: secrets.token_hex(20)),
    _separate("PHPFUSION", _php_fusion, lambda: secrets.token_hex(6), is_ascii_only=True),
    _doubled("SHA256", "SHA", sha256),  # AuthMe's default
    _doubled("MD5VB", "MD5vb", md5),  # vBulletin's variant
    _joomla(),
    _xauth(),
)
