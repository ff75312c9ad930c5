"""Kills a process of ours at any of its steps: before it moves or removes a file or a folder, or starts a program.

Python tells of these by audit events (`sys.addaudithook`).
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable

_STEPS = {"os.rename", "os.rmdir", "os.remove", "subprocess.Popen"}


def run_killed_at(step: int, work: Callable[[], int]) -> int | None:
    """Do the work in a child process that is killed before this step, counted from 1.

    Return None if it was killed, else the exit status of the work, which has fewer steps.
    """
    child = os.fork()
    if child == 0:
        try:
            _kill_at(step)
            os._exit(work())
        except BaseException:
            traceback.print_exc()
            os._exit(70)
    _pid, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return None
    return os.waitstatus_to_exitcode(status)


def _kill_at(step: int) -> None:
    passed = 0

    def hear(event: str, _arguments: tuple[object, ...]) -> None:
        nonlocal passed
        if event not in _STEPS:
            return
        passed += 1
        if passed == step:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hear)
