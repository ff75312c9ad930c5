"""Let installations live in simulated time: `python -m tests.simulation --seed 1 --years 1`.

One process is one world, on one kind of database; without `--database` there is one on each kind, at the same time, and
with `--minutes` others with the next seeds after them, until the time is up.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta
from itertools import count
from pathlib import Path
from threading import Thread

from tests.simulation.scheduler import simulate_time_and_threads

KINDS = ("sqlite", "mariadb")
_seconds = time.monotonic  # of the real clock
simulate_time_and_threads()  # before the product is imported

from tests.simulation.life import Life  # noqa: E402
from tests.simulation.members import choose_settings  # noqa: E402
from tests.simulation.world import World  # noqa: E402
from tests.support.peers.mariadb import MariaDBServer  # noqa: E402


def main(arguments: Sequence[str]) -> int:
    """Run what the command line says; 1 if something was wrong in a world, with the end of its trace."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--years", type=float, default=1)
    parser.add_argument("--operations", type=int, default=10**9, help="end after so many, if that is earlier")
    parser.add_argument("--minutes", type=float, default=0, help="of the real clock: go on with the next seeds")
    parser.add_argument("--database", choices=KINDS)
    parser.add_argument("--port", type=int, help="of a MariaDB server of the tests that runs")
    parser.add_argument("--trace", action="store_true", help="print what happens")
    given = parser.parse_args(arguments)
    return live(given) if given.database else live_on_both(given)


def live(given: argparse.Namespace) -> int:
    """Let one world live in this process."""
    assert os.environ.get("PYTHONHASHSEED") == "0", "the order of sets is part of what happens: set PYTHONHASHSEED=0"
    began = _seconds()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = open_server(given.port, directory, stack) if given.database == "mariadb" else None
        world = stack.enter_context(World(given.seed, directory, server, choose_settings))
        if given.trace:
            world.trace.echo = print
        started, used = world.clock(), time.process_time()
        life = Life(world, operations=given.operations, until=started + timedelta(days=365 * given.years))
        life.settle_in()
        where = f"seed {given.seed} on {given.database}"
        try:
            with life.peers.hooked():
                world.live(life.run)
        except BaseException as error:
            print(*world.trace.last, f"{where}, operation {life.operations}: {error!r}", sep="\n", file=sys.stderr)
            raise
        each = 1000 * (time.process_time() - used) / life.operations
        print(
            f"{where}: {life.operations:,} operations in {(world.clock() - started).days} days of its time, "
            f"{_seconds() - began:.0f} s of ours, {each:.0f} ms of CPU each; {world.trace.hand_overs:,} hand-overs, "
            f"{world.faults.count} faults, {world.kills} kills; digest {world.trace.digest}"
        )
    return 0


def open_server(port: int | None, directory: Path, stack: ExitStack) -> MariaDBServer:
    server = MariaDBServer(directory / "mariadb")
    if port is not None:
        server.port = port
    else:
        server.start()
        stack.callback(server.stop)
    return server


def live_on_both(given: argparse.Namespace) -> int:
    """Let worlds live in processes of their own, one after the other on each kind of database."""
    ends_at, failed = _seconds() + 60 * given.minutes, list[str]()

    def live_one_after_another(kind: str) -> None:
        for seed in count(given.seed):
            options = [f"--database={kind}", f"--seed={seed}", f"--years={given.years}"]
            options += [f"--operations={given.operations}"]
            command = [sys.executable, "-m", "tests.simulation", *options]
            if subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": "0"}).returncode != 0:
                failed.append(f"seed {seed} on {kind}")
            if _seconds() > ends_at:
                return

    threads = [Thread(target=live_one_after_another, args=(kind,)) for kind in KINDS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(*(f"FAILED: {which}" for which in failed), sep="\n", end="")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
