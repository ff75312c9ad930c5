"""Records of AuthMe's table, and the lock."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugin_bridge.authme.players import (
    LOCK_PREFIX,
    NewPlayer,
    NoPlayers,
    PlayerRow,
    PlayersUnavailable,
    java_address,
    known_email,
    lock_text,
    locked_hash,
)
from plugin_bridge.hashers import HASHERS, HashedPassword
from tests.bridge.known_hashes import NAME, RIGHT
from tests.support.players import add_row, delete_row

BCRYPT = "$2a$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy"
LONGEST_IN_A_LOCK = "x" * 185
TOO_LONG = "x" * 186
BASE64URL = set(string.ascii_letters + string.digits + "-_")


# --- the lock ---


@given(st.text(max_size=255))
def test_a_lock_fits_the_column_and_is_undone_where_the_hash_fits(hash_: str) -> None:
    text = lock_text(hash_)
    assert len(text) <= 255
    assert text.isascii()
    assert set(text.removeprefix(LOCK_PREFIX)) <= BASE64URL
    assert locked_hash(text) == (hash_ if len(hash_.encode()) <= 185 else None)


def test_a_hash_too_long_for_a_lock_is_only_marked() -> None:
    assert len(lock_text(LONGEST_IN_A_LOCK)) == 255
    assert locked_hash(lock_text(LONGEST_IN_A_LOCK)) == LONGEST_IN_A_LOCK
    mark = lock_text(TOO_LONG)
    assert len(mark) == len(LOCK_PREFIX) + 32
    assert set(mark.removeprefix(LOCK_PREFIX)) <= set("0123456789abcdef")
    assert locked_hash(mark) is None
    assert lock_text(TOO_LONG) == mark != lock_text(TOO_LONG + "y")


@pytest.mark.parametrize(
    "text",
    ["", BCRYPT, "!locked!*", "!locked!YQ==", "!locked!YR", "!locked!_w", "!LOCKED!YQ", "!locked!a"],
    ids=["empty", "a hash", "no base64", "padded", "not how we write it", "no text", "shouted", "cut off"],
)
def test_what_is_no_lock_of_ours_holds_no_hash(text: str) -> None:
    assert locked_hash(text) is None


def test_a_lock_of_nothing_is_a_lock() -> None:
    assert lock_text("") == "!locked!"
    assert locked_hash("!locked!") == ""


@pytest.mark.parametrize("algorithm", sorted(HASHERS))
def test_a_locked_row_lets_nobody_in(algorithm: str) -> None:
    """Neither the right password nor the hash nor the lock's own text; and nothing raises."""
    hasher = HASHERS[algorithm]
    known = next(known for known in RIGHT if known.algorithm == algorithm)
    locked = lock_text(known.stored.hash)
    assert hasher.verify(known.password, known.stored, NAME.lower())
    for password in (known.password, known.stored.hash, locked, ""):
        for salt in (known.stored.salt, None, ""):
            assert hasher.verify(password, HashedPassword(locked, salt), NAME.lower()) is False


# --- the records ---


def test_a_row_says_whether_we_locked_it() -> None:
    assert PlayerRow("alice", "Alice", lock_text(BCRYPT)).is_locked
    assert not PlayerRow("alice", "Alice", BCRYPT).is_locked


@pytest.mark.parametrize("nothing", [None, "", "   ", "your@email.com", "YOUR@email.COM", " your@email.com "])
def test_what_authme_writes_for_no_email_is_none(nothing: str | None) -> None:
    assert known_email(nothing) is None
    assert PlayerRow("alice", "Alice", "x", email=nothing).known_email is None


def test_an_email_is_known_without_the_spaces_around_it() -> None:
    assert known_email(" Alice@example.org ") == "Alice@example.org"


@pytest.mark.parametrize(
    ("realname", "known"),
    [("Alice", "Alice"), ("ALICE", "ALICE"), ("Player", None), ("player", "player"), ("", None), ("  ", None)],
)
def test_a_real_name_is_known_once_authme_has_filled_it_in(realname: str, known: str | None) -> None:
    assert PlayerRow("alice", realname, "x").known_realname == known


def test_a_new_players_username_is_in_lower_case() -> None:
    assert NewPlayer("ÄliCE", "x", None, None, 1, None).username == "älice"


@pytest.mark.parametrize(
    ("written", "in_java"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("2001:db8::1", "2001:db8:0:0:0:0:0:1"),
        ("2001:0DB8:0000::00ff", "2001:db8:0:0:0:0:0:ff"),
        ("::", "0:0:0:0:0:0:0:0"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1"),
        (None, None),
        ("", None),
        ("nowhere", None),
        ("203.0.113.7\n", None),
    ],
)
def test_an_address_is_written_as_java_does(written: str | None, in_java: str | None) -> None:
    assert java_address(written) == in_java


def test_no_record_shows_a_secret() -> None:
    row = PlayerRow("alice", "Alice", "the-hash", salt="the-salt", totp="the-totp")
    new = NewPlayer("Alice", "the-hash", "the-salt", None, 1, None)
    for secret in ("the-hash", "the-salt", "the-totp"):
        assert secret not in repr(row) + repr(new)


# --- no AuthMe ---


def test_without_authme_there_are_no_players() -> None:
    nobody = NoPlayers()
    row = PlayerRow("alice", "Alice", "x")
    assert not nobody.is_enabled
    assert not nobody.shares_transactions
    assert nobody.find("alice") is nobody.find_colliding("alice") is None
    assert (nobody.find_many(["alice"]), list(nobody.pages(10))) == ({}, [])
    assert nobody.is_empty()
    assert not nobody.update(row, {"hash": "y"})
    assert not delete_row(nobody, row)
    nobody.close()
    with pytest.raises(PlayersUnavailable):
        add_row(nobody, NewPlayer("Alice", "x", None, None, 1, None))
