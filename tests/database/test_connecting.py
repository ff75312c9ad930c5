"""A database server that refuses connections, in whatever words, is away; only the config's own mistakes are told."""

import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from functools import partial

import pytest
from peewee import Database

from regsvc.core.errors import DatabaseUnavailable
from regsvc.database.engine import Worker, is_config_wrong, is_unreachable, open_database
from regsvc.doctor.facts.readonly_db import DatabaseUnreadable, ReadOnlyMySql
from tests.conftest import MakeDaemon

TO_BE_CORRECTED = {1044, 1045, 1049, 1193, 1251, 1698}
MAY_PASS = (1040, 1129, 1130, 1158, 1159, 1160, 1161, 1203, 1226, 2006, 2013, 3159, 4151)


def packet(payload: bytes, number: int = 0) -> bytes:
    """Return a packet of MySQL's protocol: length, number, payload."""
    return struct.pack("<I", len(payload))[:3] + bytes([number]) + payload


def refusal(code: int, number: int = 0) -> bytes:
    return packet(b"\xff" + struct.pack("<H", code) + b"#08S01" + b"not now", number)


def greeting(version: bytes = b"10.11.6-MariaDB") -> bytes:
    """Return the first packet of a server, of protocol 10 (the protocol's documentation, HandshakeV10)."""
    start = b"\x0a" + version + b"\0" + struct.pack("<I", 7) + b"12345678\0" + b"\xfe\xf7" + b"\x2d" + b"\x02\0"
    return packet(start + b"\xff\x81" + bytes([21]) + bytes(10) + b"123456789012\0mysql_native_password\0")


@contextmanager
def server_that_says(answer: Callable[[], list[bytes]]) -> Iterator[int]:
    """Accept connections, send the first answer at once and each other one after a packet of the client, and close."""

    def talk(opened: socket.socket) -> None:
        with closing(opened), suppress(OSError):
            opened.settimeout(5)
            for place, words in enumerate(answer()):
                if place and not opened.recv(4096):
                    return
                opened.sendall(words)
            opened.shutdown(socket.SHUT_WR)
            opened.recv(4096)

    def accept() -> None:
        with suppress(OSError):
            while True:
                talk(listener.accept()[0])

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def at(port: int) -> Database:
    return open_database(f"mysql://alice:s3cret@127.0.0.1:{port}/ours", timedelta(seconds=1))


def random_answers(chance: random.Random) -> list[bytes]:
    """Return what a server says that starts, ends, is full, or is none at all."""
    code = chance.choice((*MAY_PASS, chance.randrange(1, 65_536)))
    noise = chance.randbytes(chance.choice((0, 1, 4, 5, 40, 400)))
    return chance.choice(
        (
            [refusal(code)],
            [noise],
            [packet(noise)],
            [b"HTTP/1.1 400 Bad Request\r\n\r\n"],
            [packet(b"\x0a" + noise)],
            [greeting(noise.replace(b"\0", b"")), refusal(code, 2)],
            [greeting(), refusal(code, 2)],
            [greeting(), packet(noise, chance.randrange(4))],
            [greeting(), packet(b"\xfe" + noise, 2)],
            [greeting(), packet(b"\0\0\0\x02\0\0\0", 2), refusal(code, 1)],
            [greeting(), packet(b"\0\0\0\x02\0\0\0", 2), noise],
        )
    )


def test_whatever_a_server_answers_it_is_away() -> None:
    """R92: 200 answers; the seed is in the message."""
    answers: list[bytes] = []
    with server_that_says(lambda: answers) as port:
        for seed in range(200):
            answers[:] = random_answers(random.Random(seed))
            database = at(port)
            with pytest.raises(DatabaseUnavailable) as away:
                Worker(database, 1).run_here(partial(database.execute_sql, "SELECT 1"))
            assert away.value.retry_after, seed
            cause = away.value.__cause__
            assert isinstance(cause, Exception), seed
            assert is_unreachable(cause), seed
            codes = {*TO_BE_CORRECTED, 2059}
            assert not is_config_wrong(cause) or cause.args[0] in codes, (seed, cause)
            with pytest.raises(DatabaseUnreadable) as unread:
                ReadOnlyMySql(database)  # type: ignore[arg-type]
            assert unread.value.is_away, seed


def test_only_codes_that_the_config_mends_are_told_so() -> None:
    answers: list[bytes] = []
    told = set[int]()
    with server_that_says(lambda: answers) as port:
        for code in (*TO_BE_CORRECTED, *MAY_PASS):
            answers[:] = [refusal(code)]
            database = at(port)
            with pytest.raises(Exception, match="not now") as refused:
                database.connect()
            assert database.is_closed()
            assert is_unreachable(refused.value)
            if is_config_wrong(refused.value):
                told.add(code)
    assert told == TO_BE_CORRECTED


def test_a_server_that_makes_no_sense_is_waited_for_at_the_start(daemon: MakeDaemon) -> None:
    answers = [b"\x05\0\0\0\x0a\xff\xff\xff\xff"]
    with server_that_says(lambda: answers) as port:
        place = daemon(
            {"database": {"url": f"mysql://alice:s3cret@127.0.0.1:{port}/ours"}, "authme": {"enabled": False}}
        )
        place.spawn()
        assert place.wait_for_log("the database is tried again in", 30)
        answers[:] = [refusal(1203)]
        reply = place.get("/api/user/status", {"username": "Alice"})
        assert (reply.status, reply.code) == (503, "database_away")
        assert place.wait_for_log("the database is still away", 30), "in other words"
        place.kill()

        answers[:] = [refusal(1045)]
        place.spawn()
        assert place.wait_for_end() == 78
        assert "Check " in place.log[-1]
        assert "[database] url" in place.log[-1]
