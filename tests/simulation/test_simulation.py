"""A simulated world: by the same seed the same happens, nothing is wrong in it, and it finds what is.

`make simulate` lets worlds live for years.
"""

import os
import re
import subprocess
import sys

import pytest

from tests.support.peers.mariadb import MariaDBServer

SEED = os.environ.get("COMPANION_TEST_SEED", "1")


def start(*options: str, before: str = "") -> "subprocess.Popen[str]":
    """Start a world in a process of its own, after these changes of the product."""
    program = f"import sys, tests.simulation.__main__ as simulation\n{before}\nsys.exit(simulation.main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, *options]
    return subprocess.Popen(
        command, env=os.environ | {"PYTHONHASHSEED": "0"}, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def end(world: "subprocess.Popen[str]") -> str:
    """Wait for the end of a world in which all is right, and return its line."""
    out, errors = world.communicate()
    assert world.returncode == 0, errors
    print(out)
    return out


def test_the_same_seed_is_the_same_world() -> None:
    options = ["--database=sqlite", f"--seed={SEED}", "--operations=40"]
    lines = [end(world) for world in [start(*options), start(*options)]]
    digests = {found[1] for line in lines if (found := re.search(r"digest (\w+)", line))}
    assert len(digests) == 1, lines


@pytest.mark.one_database("mariadb")
def test_all_is_right_on_a_server(mariadb: MariaDBServer) -> None:
    end(start("--database=mariadb", f"--port={mariadb.port}", f"--seed={SEED}", "--operations=60"))


FAULTS = {
    "op-at-the-prompt": (
        """
from plugin_bridge.server.operators import Operators

def take_missing(self, key, moment, *, has_changed):
    del self._known[key]
    self._dismissed |= {key}

Operators._take_missing = take_missing
""",
        "is an operator, and",
    ),
    "unlocked": (
        "from regsvc.sync import rules\nrules._locks_unapproved = lambda *given: False",
        "can log in with",
    ),
    "never-ends": (
        """
from regsvc.sync import rules

change = rules._change_membership
is_end = lambda action: isinstance(action, rules.EndMembership)
rules._change_membership = lambda *given: None if is_end(change(*given)) else change(*given)
""",
        "was to end",
    ),
    "sent-again": (
        """
from regsvc.notifications.outbox import Outbox

record = Outbox.record_sent
Outbox.record_sent = lambda outbox, it: (outbox.release(it, "") if it.id % 20 == 0 else record(outbox, it))
""",
        "sent twice, though nothing went wrong",
    ),
}


@pytest.mark.parametrize(("before", "found"), FAULTS.values(), ids=FAULTS)
def test_what_is_wrong_is_found(before: str, found: str) -> None:
    world = start("--database=sqlite", "--seed=1", "--operations=2000", before=before)
    _out, errors = world.communicate()
    assert world.returncode != 0
    assert found in errors.splitlines()[-1]
