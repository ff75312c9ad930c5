"""Applies the unit's filters to itself, then executes a command: a program, not a module.

    python confine.py SYSCALLS FAMILIES COMMAND…

SYSCALLS is a file with the names of the allowed calls, FAMILIES the numbers of the allowed address families, separated
by commas. Everything else fails with EPERM. Memory never becomes executable.
"""

import ctypes
import errno
import os
import sys
from collections.abc import Iterable
from pathlib import Path

PR_SET_MDWE = 65
PR_MDWE_REFUSE_EXEC_GAIN = 1

ALLOW = 0x7FFF0000
REFUSE = 0x00050000 | errno.EPERM
IS_EQUAL = 4


class Comparison(ctypes.Structure):
    """libseccomp's scmp_arg_cmp: the call's argument `number`, compared with `value`."""

    _fields_ = (
        ("number", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("value", ctypes.c_uint64),
        ("other", ctypes.c_uint64),
    )


def refuse_executable_memory() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "this kernel cannot refuse executable memory (Linux 6.3 can)")


def allow_only(syscalls: Iterable[str], families: Iterable[int]) -> None:
    seccomp = ctypes.CDLL("libseccomp.so.2")
    seccomp.seccomp_init.restype = ctypes.c_void_p
    rules = ctypes.c_void_p(seccomp.seccomp_init(REFUSE))
    for name in syscalls:
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        # Negative: a call that this processor does not have.
        if number >= 0 and name != "socket":
            seccomp.seccomp_rule_add(rules, ALLOW, number, 0)
    socket_call = seccomp.seccomp_syscall_resolve_name(b"socket")
    for family in families:
        seccomp.seccomp_rule_add_array(rules, ALLOW, socket_call, 1, ctypes.byref(Comparison(0, IS_EQUAL, family, 0)))
    if seccomp.seccomp_load(rules) != 0:
        raise OSError("the kernel did not take the filter")


def main() -> None:
    syscalls_file, families, *command = sys.argv[1:]
    refuse_executable_memory()
    allow_only(Path(syscalls_file).read_text().split(), [int(family) for family in families.split(",")])
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
