"""The README's story, typed as it stands into a shell, beside the demo that `make run` starts."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.docs.pages import ROOT, list_blocks
from tests.support.daemon import READY
from tests.support.ports import free_port
from tests.support.programs import find_program
from tests.support.watching import ask_until

HEAD = re.compile(r"\A(?:\w+=.*\n)+")
CODE = "# … finds the code"


@contextmanager
def demo(folder: Path, port: int) -> Iterator[Iterator[str]]:
    """What `make run` starts, in a folder of its own; yields the lines of its terminal."""
    command = [sys.executable, "-m", "tests.demo"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COMPANION_SERVER_PORT": str(port)}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=folder, env=environment, text=True, **streams) as process:  # type: ignore[call-overload]
        try:
            yield iter(process.stdout)
        finally:
            process.send_signal(signal.SIGTERM)
            process.stdout.close()


def find(pattern: str, lines: Iterator[str]) -> str:
    """The first group in the first line that has it."""
    return next(match[1] for line in lines if (match := re.search(pattern, line)))


def status_of(name: str, state: Path) -> str | None:
    """The status in the database, which may be asked as often as one likes."""
    with closing(sqlite3.connect(state / "companion.db")) as database:
        row = database.execute("SELECT status FROM regsvc_user WHERE username = ?", (name,)).fetchone()
    return row and str(row[0])


def typed(script: str) -> list[str]:
    """Replies to the lines, one each; a shell that fails fails the test."""
    script = script.replace("curl ", "curl -sS -w '\\n' ").replace("|\n", "| tee /dev/stderr |\n")
    done = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_alice_registers_and_is_approved_with_the_lines_of_the_readme(tmp_path: Path) -> None:
    find_program("curl")
    (block,) = [block for block in list_blocks() if block.page == "README.md" and CODE in block.text]
    port = free_port()
    script = block.text.replace("127.0.0.1:8080", f"127.0.0.1:{port}")
    head = HEAD.match(script)
    assert head is not None
    before, after = script.split(CODE)
    with demo(tmp_path, port) as terminal:
        password = find(r"The operator is Olivia, the password (\S+) ", terminal)
        find(f"({READY})", terminal)
        # Olivia, who plays, is a user once the sync has adopted her
        state = tmp_path / "var" / "demo-state"
        ask_until(lambda: status_of("Olivia", state), lambda status: status == "approved")
        sent, answered = typed(before)
        assert '"success":true' in sent
        code = find(r"Subject: (\d+) is your code", terminal)
        token = re.search(r'"token":"([^"]+)"', answered)
        assert token is not None, answered
        after = after.replace("THE CODE", code).replace("THE TOKEN", token[1]).replace("THE PASSWORD", password)
        registered, status, listed, approved, login = typed(f"{head[0]}#{after}")
    assert '"status":"pending"' in registered
    assert '"status":"pending"' in status
    assert '"username":"Alice"' in listed
    assert '"status":"approved"' in approved
    assert re.search(r'"token":"[^"]+"', login), login
