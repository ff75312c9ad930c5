"""Whirlpool (ISO/IEC 10118-3), which Python's hashlib lacks: OpenSSL has it only in its legacy provider.

The one library for Python has no wheels, so that every host would need a C compiler.
"""

from functools import cache

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
