"""Clients who log in again and again, each on one connection, from a process of its own.

`python -m tests.bench.login_load PORT SECONDS` prints a line when it begins, and the number of logins when it is done.
"""

import asyncio
import itertools
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bench.posts import Client

REPOSITORY = Path(__file__).resolve().parents[2]
CLIENTS = 8
USERS = 1000
PASSWORD = "the-players-password"


@dataclass
class LoginStorm:
    """The number of logins, once it is over."""

    count: int = 0


@contextmanager
def logging_in(port: int, seconds: float, prefix: Sequence[str] = ()) -> Iterator[LoginStorm]:
    """Start the load and return when it has begun; wait for its end at the end."""
    command = [*prefix, sys.executable, "-m", "tests.bench.login_load", str(port), str(seconds)]
    storm = LoginStorm()
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield storm
        storm.count = int(process.stdout.read())
    assert process.returncode == 0


async def log_in_until(client: Client, names: "itertools.cycle[int]", ends_at: float) -> int:
    """Log in on one connection; return how often it succeeded in time."""
    count = 0
    while time.monotonic() < ends_at:
        body = {"username": f"Player_{next(names):07}", "password": PASSWORD}
        await client.post("/api/login", body)
        count += time.monotonic() < ends_at
    client.close()
    return count


async def main(port: int, seconds: float) -> int:
    clients = [await Client.connect(port) for _client in range(CLIENTS)]
    names = itertools.cycle(range(USERS))
    print("begins", flush=True)
    ends_at = time.monotonic() + seconds
    return sum(await asyncio.gather(*(log_in_until(client, names, ends_at) for client in clients)))


if __name__ == "__main__":
    print(asyncio.run(main(int(sys.argv[1]), float(sys.argv[2]))))
