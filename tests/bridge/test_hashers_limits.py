"""Limits on the cost of a stored hash: players choose what a row holds, and one row must not stop the service."""

import logging
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import argon2.low_level
import pytest

from plugin_bridge.hashers import HASHERS, HashedPassword
from plugin_bridge.hashers.slow_hashes import MAX_MEMORY
from tests.bridge.known_hashes import NAME, of


def known_text(algorithm: str, number: int = 1) -> str:
    return of(algorithm)[number].stored.hash


def rounds_instead(algorithm: str, rounds: int) -> str:
    tag, salt, key = (part for index, part in enumerate(known_text(algorithm).split("$")) if index != 1)
    return f"{tag}${rounds}${salt}${key}"


ARGON2 = next(one.stored.hash for one in of("ARGON2") if "$m=256,t=2,p=1$" in one.stored.hash)

DEAR = [
    ("BCRYPT", "$2a$17$" + known_text("BCRYPT")[7:], "cost 17"),
    ("BCRYPT2Y", "$2y$31$" + known_text("BCRYPT2Y")[7:], "cost 31"),
    ("IPB4", "$2a$20$" + known_text("IPB4")[7:], "cost 20"),
    ("XFBCRYPT", "$2a$17$" + known_text("XFBCRYPT")[7:], "cost 17"),
    ("PHPBB", "$2y$17$" + known_text("PHPBB", 0)[7:], "cost 17"),
    ("PHPBB", "$H$J" + known_text("PHPBB")[4:], "2097152 rounds"),
    ("WORDPRESS", "$P$S" + known_text("WORDPRESS")[4:], "1073741824 rounds"),
    ("PBKDF2", rounds_instead("PBKDF2", 5_000_001), "5000001 rounds"),
    ("PBKDF2BASE64", rounds_instead("PBKDF2BASE64", 5_000_001), "5000001 rounds"),
    ("PBKDF2DJANGO", rounds_instead("PBKDF2DJANGO", 2**40), f"{2**40} rounds"),
    ("ARGON2", ARGON2.replace("m=256", "m=131073"), "131073 KiB"),
    ("PBKDF2", f"pbkdf2_sha256$5000000$salt${'AB' * 100}", "a key of 100 bytes"),
    ("PBKDF2BASE64", f"pbkdf2$5000000$c2FsdA==${'A' * 200}", "a key of 150 bytes"),
    ("ARGON2", ARGON2.replace("m=256,t=2", "m=131072,t=17"), "17 passes"),
    ("ARGON2", ARGON2.replace("m=256,t=2", "m=0,t=9999999999"), "9999999999 passes"),
    ("ARGON2", ARGON2.replace("t=2", "t=9999999999"), "9999999999 passes"),
    ("ARGON2", ARGON2.replace("p=1", "p=65"), "65 lanes"),
]


@pytest.mark.parametrize(("algorithm", "text", "why"), DEAR, ids=[f"{name}-{why}" for name, text, why in DEAR])
def test_a_hash_that_costs_too_much_does_not_verify_and_is_told(
    algorithm: str, text: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    begun = time.monotonic()
    assert not HASHERS[algorithm].verify("secret1", HashedPassword(text, "salt"), NAME)
    assert time.monotonic() - begun < 10  # at least half a minute if it were computed
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert algorithm in caplog.text
    assert why in caplog.text
    for secret in (text, text[-22:], "secret1"):
        assert secret not in caplog.text


def test_a_long_password_makes_many_rounds_dearer(caplog: pytest.LogCaptureFixture) -> None:
    for algorithm, prefix in (("WORDPRESS", "$P$I"), ("PHPBB", "$H$I")):
        stored = HashedPassword(prefix + known_text(algorithm)[4:])
        assert not HASHERS[algorithm].verify("x" * 1024, stored, NAME)
        assert f"{algorithm}: the stored hash of" in caplog.text
    assert "1048576 rounds over a password of 1024 bytes" in caplog.text


def test_what_is_not_there_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    """A cost that bcrypt itself does not allow makes the hash invalid."""
    for text in ("$2a$32$" + "a" * 53, "$2a$03$" + "a" * 53, "$P$zabcdefgh" + "a" * 22):
        for algorithm in ("BCRYPT", "WORDPRESS", "PHPBB"):
            assert not HASHERS[algorithm].verify("secret1", HashedPassword(text), NAME)
    assert caplog.text == ""


def test_argon2_that_cannot_be_computed_does_not_verify(caplog: pytest.LogCaptureFixture) -> None:
    for costs in ("m=1,t=2,p=1", "m=256,t=0,p=1", "m=256,t=2,p=0"):
        text = ARGON2.replace("m=256,t=2,p=1", costs)
        assert not HASHERS["ARGON2"].verify("password", HashedPassword(text), NAME)
    assert ARGON2[-22:] not in caplog.text


# R19
def test_hashes_that_need_much_memory_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five logins of players with the largest hash, on a machine with many cores, take the memory of one."""
    in_use, peaks = Counter[str](), list[int]()
    compute = argon2.low_level.hash_secret_raw
    both_are_in = threading.Barrier(2)

    def watch(*, memory_cost: int, **others: Any) -> bytes:
        in_use["KiB"] += memory_cost
        peaks.append(in_use["KiB"])
        if memory_cost == MAX_MEMORY // 2:
            both_are_in.wait(10)  # two fit
        digest = compute(memory_cost=8, **others)
        in_use["KiB"] -= memory_cost
        return digest

    monkeypatch.setattr(argon2.low_level, "hash_secret_raw", watch)
    for memory, passwords in ((MAX_MEMORY, 5), (MAX_MEMORY // 2, 4)):
        stored = HashedPassword(ARGON2.replace("m=256", f"m={memory}"))
        with ThreadPoolExecutor(5) as pool:
            list(pool.map(lambda number, stored=stored: HASHERS["ARGON2"].verify("x", stored, NAME), range(passwords)))
    assert max(peaks) == MAX_MEMORY
