"""Change the rules that decide who gets in, and require that a test fails for each change.

`files.toml` lists the files, the guarantees that they hold (docs/faults.md), their tests, and with reasons what is left
out and which mutants equal the original. Each condition is held true and held false in turn while the others stay as
they are: where both are noticed, it was seen both ways with effect (MC/DC). Of each file 95 % have to be killed,
whatever is listed.

mutmut 3 skips decorated functions, thus properties, and tables of a module, such as `TRANSITIONS`, and holds no
condition true or false. cosmic-ray starts pytest anew for each mutant, which takes hours. Here pytest collects once;
each mutant has a forked process, which puts the changed code in place of the old one, and runs only the tests that
reach its lines: those first that killed others in its function, then the fastest. Its time is limited to a multiple of
what these took without it.
"""

import __future__

import argparse
import ast
import dataclasses
import functools
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import tomllib
import traceback
import types
import warnings
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import pytest

from tests.mutants.mutations import Mutant, find_mutants

ROOT: Final = Path(__file__).parents[2]
_SURVIVED, _NO_MODULE, _BROKEN, _TIMED_OUT, _KILLED = range(5)
"""What came of a mutant, as one byte; with the number of the test that killed it added to `_KILLED`."""
_LEAST: Final = 0.95
"""Part of the mutants of a file that has to be killed."""
_TOLD_EACH: Final = 20.0  # seconds
_BATCH: Final = 25
"""Mutants that share a process, where no test has a database."""
_DATABASE: Final = {"our_database", "database_kind", "database"}
_PLAIN: Final = (str, int, float, tuple, list, dict, set, frozenset)


class Reached(NamedTuple):
    """A test, the lines of the file that it runs, and how long it takes."""

    item: pytest.Item
    lines: frozenset[int]
    seconds: float


class MutantRun:
    """Plugin of pytest that runs the collected tests on each mutant of one file."""

    def __init__(self, entry: dict[str, Any], scratch: Path, only: str) -> None:
        self._entry, self._scratch, self._only = entry, scratch, only
        self._module = importlib.import_module(entry["path"].removesuffix(".py").replace("/", "."))
        self._tree = ast.parse((ROOT / entry["path"]).read_text(encoding="utf-8"))
        found = find_mutants(self._tree, entry.get("scopes", ()), entry.get("left_out", {}))
        self._mutants = [it for it in found if only in it.name]
        self._equal = {name for name in entry.get("equal", {}) if only in name}
        self._kills = Counter[tuple[str, int]]()
        """Mutants by their scope and the number of the test that killed them."""
        self._has_failed, self._failure = False, ""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the cases without a database server, where there is one, and without races, which may go either way."""
        known = {it.nodeid for it in items}
        twins = {it for it in known if it.replace("mariadb", "sqlite") in known - {it}}
        items[:] = [it for it in items if it.nodeid not in twins and "in_parallel" not in vars(it)["fixturenames"]]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember a failure."""
        if report.failed:
            self._has_failed, self._failure = True, report.longreprtext

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the mutants in place of the tests."""
        session.config.pluginmanager.unregister(name="terminalreporter")
        started = told_at = time.monotonic()
        tests = sorted(self._trace(session), key=lambda it: it.seconds)
        is_pure = all(_DATABASE.isdisjoint(vars(it.item)["fixturenames"]) for it in tests)
        pending, running = deque(self._mutants), dict[int, list[Mutant]]()
        results: dict[str, int] = {}
        for it in [it for it in tests if "mariadb" not in it.item.nodeid][:1]:
            self._run(session, it.item)  # which fills caches

        def wait() -> None:
            nonlocal told_at
            pid, status = os.wait()
            batch, codes = running.pop(pid), (self._scratch / f"{pid}.codes").read_bytes()
            if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGALRM, signal.SIGPROF):
                codes += bytes([_TIMED_OUT])
                _end(pid)
            elif status or _BROKEN in codes:
                pytest.exit(f"{batch[len(codes) - 1].name}: the run broke", _BROKEN)
            pending.extendleft(reversed(batch[len(codes) :]))
            for mutant, code in zip(batch, codes, strict=False):
                results[mutant.name] = code
                self._note(mutant, code)
                if code == _SURVIVED and mutant.name not in self._equal:
                    print(f"  survives: {mutant.name}", flush=True)
            shutil.rmtree(self._scratch / str(pid), ignore_errors=True)
            passed = time.monotonic() - started
            if results and time.monotonic() - told_at > _TOLD_EACH:
                told_at, left = time.monotonic(), passed / len(results) * (len(self._mutants) - len(results))
                print(f"  {len(results)} of {len(self._mutants)}, about {left:.0f} s left", flush=True)

        try:
            while pending or running:
                if not pending or len(running) >= int(os.environ.get("JOBS", os.cpu_count() or 1)):
                    wait()
                    continue
                batch = [pending.popleft() for _ in range(min(_BATCH if is_pure else 1, len(pending)))]
                if (pid := os.fork()) == 0:
                    self._run_batch(session, batch, tests)
                running[pid] = batch
        finally:
            for pid in running:
                _end(pid)
        session.testsfailed = self._report(results, time.monotonic() - started)
        return True

    def _trace(self, session: pytest.Session) -> list[Reached]:
        """Return what each test reaches, found by a process of its own. All of them must pass."""
        path, found = self._module.__file__, self._scratch / "reached.json"
        if (pid := os.fork()) == 0:
            lines = set[int]()
            _be_silent()

            def trace(frame: types.FrameType, event: str, _argument: object) -> Any:
                if frame.f_code.co_filename != path:
                    return None
                lines.add(frame.f_lineno)
                return trace

            reached = list[tuple[list[int], float]]()
            for item in session.items:
                lines.clear()
                started = time.monotonic()
                sys.settrace(trace)
                self._run(session, item)
                sys.settrace(None)
                reached.append((sorted(lines), time.monotonic() - started))
                if self._has_failed:
                    os.write(2, f"{item.nodeid}: {self._failure}\n".encode())
                    os._exit(_BROKEN)
            found.write_text(json.dumps(reached))
            os._exit(0)
        if os.waitpid(pid, 0)[1] != 0:
            pytest.exit("the tests fail without any mutant", _BROKEN)
        return [
            Reached(item, frozenset(lines), seconds)
            for item, (lines, seconds) in zip(session.items, json.loads(found.read_text()), strict=True)
        ]

    def _run(self, session: pytest.Session, item: pytest.Item) -> None:
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)

    def _run_batch(self, session: pytest.Session, batch: Sequence[Mutant], tests: Sequence[Reached]) -> NoReturn:
        """Write one byte for each mutant: what came of it."""
        os.setpgid(0, 0)  # so that what a test has started ends with it
        folder = self._scratch / str(os.getpid())
        folder.mkdir()
        vars(vars(session.config)["_tmp_path_factory"])["_basetemp"] = folder
        _be_silent()
        with folder.with_suffix(".codes").open("wb", buffering=0) as codes:
            for mutant in batch:
                reaching = [(number, it) for number, it in enumerate(tests) if self._is_reached(mutant, it)]
                reaching.sort(key=lambda it: (-self._kills[mutant.scope, it[0]] / it[1].seconds, it[1].seconds))
                seconds = sum(it.seconds for _number, it in reaching)
                signal.setitimer(signal.ITIMER_PROF, 5 + 10 * seconds)  # for one that has no end
                signal.alarm(60 + round(30 * seconds))  # for one that waits; a busy machine needs longer, too
                try:
                    code = self._run_mutant(session, mutant, reaching)
                    codes.write(bytes([code]))
                    self._note(mutant, code)
                except BaseException:
                    traceback.print_exc()
                    codes.write(bytes([_BROKEN]))
                    break
        os._exit(0)

    def _note(self, mutant: Mutant, code: int) -> None:
        if code >= _KILLED:
            self._kills[mutant.scope, code - _KILLED] += 1

    def _is_reached(self, mutant: Mutant, test: Reached) -> bool:
        return not (mutant.is_in_function and test.lines.isdisjoint(mutant.lines))

    def _run_mutant(self, session: pytest.Session, mutant: Mutant, tests: Sequence[tuple[int, Reached]]) -> int:
        self._has_failed = False
        undo = mutant.apply()
        code = _SURVIVED if self._replace(mutant) else _NO_MODULE
        for number, test in tests if code == _SURVIVED else ():
            self._run(session, test.item)
            if self._has_failed:
                code = min(_KILLED + number, 255)
                break
        undo()
        self._replace(mutant)
        return code

    def _replace(self, mutant: Mutant) -> bool:
        """Put the changed code in place of the old one, everywhere; returns whether it can be imported."""
        number = next(n for n, it in enumerate(self._tree.body) if (it.end_lineno or 0) >= mutant.lines[0])
        # what is made of it at the import is made again, of the same classes
        later = [it for it in self._tree.body[number + 1 :] if isinstance(it, (ast.Assign, ast.AnnAssign))]
        for statements in ([self._tree.body[number]], [] if mutant.is_in_function else later):
            changed = dict(vars(self._module))
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    module = ast.fix_missing_locations(ast.Module(list(statements), type_ignores=[]))
                    exec(
                        compile(module, str(self._module.__file__), "exec", __future__.annotations.compiler_flag),
                        changed,
                    )
            except Exception:
                return False
            for key, new in changed.items():
                if (old := vars(self._module).get(key)) is not new:
                    _replace_value(key, old, new)
        return True

    def _report(self, results: dict[str, int], seconds: float) -> int:
        """Print what came of the mutants; returns how many were not killed and are not listed, or listed wrongly."""
        survived = {name for name, code in results.items() if code == _SURVIVED}
        unlisted, wrong = survived - self._equal, self._equal - survived
        killed, by = len(results) - len(survived), Counter(results.values())
        ways = defaultdict[int, set[str]](set)
        for it in self._mutants:
            if it.condition is not None:
                ways[it.condition].add(it.name)
        seen, listed = (sum(names.isdisjoint(it) for names in ways.values()) for it in (survived, unlisted))
        is_enough = bool(self._only) or killed >= _LEAST * len(results)
        print(
            f"{self._entry['path']}: {len(results)} mutants, {killed} killed ({killed / (len(results) or 1):.1%}; "
            f"{by[_TIMED_OUT]} by a time-out, {by[_NO_MODULE]} at the import), {len(survived & self._equal)} equal, "
            f"{len(unlisted)} survivors{'' if is_enough else ', which is not enough'}; {seen} of {len(ways)} "
            f"conditions seen both ways, {listed - seen} listed; {seconds:.0f} s",
            flush=True,
        )
        for name in sorted(wrong):
            print(f"  is listed as equal, but is killed, or no mutant: {name}", flush=True)
        return len(unlisted) + len(wrong) + (not is_enough)


def _end(group: int) -> None:
    """End a process and what it has started."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _be_silent() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _replace_value(key: str, old: Any, new: Any) -> None:
    if isinstance(old, type):
        for name, value in list(vars(new).items()):
            before = vars(old).get(name)
            # as `__repr__` of a dataclass: its code is the wrapper's
            is_wrapped = isinstance(value, types.FunctionType) and hasattr(value, "__wrapped__")
            if is_wrapped or (not _replace_function(before, value) and _is_default(name, value) and before != value):
                setattr(old, name, value)
    elif not _replace_function(old, new):
        for module in list(sys.modules.values()):
            if vars(module).get(key) is old:
                setattr(module, key, new)


def _is_default(name: str, value: object) -> bool:
    is_plain = value is None or isinstance(value, _PLAIN) or dataclasses.is_dataclass(value)
    return is_plain and not (name.startswith("__") and name.endswith("__")) and not name.startswith("_member")


def _replace_function(old: Any, new: Any) -> bool:
    """Give a function, or a property's, the code and the defaults of another; returns whether these are functions."""
    old, new = _function_of(old), _function_of(new)
    if old is None or new is None:
        return False
    if old.__code__ != new.__code__:
        old.__code__ = new.__code__
    if old.__defaults__ != new.__defaults__ or old.__kwdefaults__ != new.__kwdefaults__:
        old.__defaults__, old.__kwdefaults__ = new.__defaults__, new.__kwdefaults__
    return True


def _function_of(value: Any) -> types.FunctionType | None:
    if isinstance(value, property):
        value = value.fget
    elif isinstance(value, functools.cached_property):
        value = value.func
    elif isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    return value if isinstance(value, types.FunctionType) else None


def run_file(entry: dict[str, Any], only: str) -> int:
    """Run the mutants of one file; returns the exit code."""
    scratch = Path(tempfile.mkdtemp(prefix="mutants-"))
    os.environ["COMPANION_TEST_ALL_DATABASES"] = "1"  # the cases on SQLite, whatever runs on the other one
    options = ["-qq", "--no-summary", "-p", "no:cacheprovider", "-s", f"--basetemp={scratch / 'tests'}"]
    try:
        return int(pytest.main([*options, *entry["tests"]], plugins=[MutantRun(entry, scratch, only)]))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def main() -> int:
    """Run the mutants of each file in a process of its own."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help="parts of the paths of files; none: all of files.toml")
    parser.add_argument("--only", default="", metavar="TEXT", help="only mutants whose names contain this")
    parser.epilog = "JOBS in the environment: how many run at once; as many as there are processors, without it"
    given = parser.parse_args()
    with (Path(__file__).parent / "files.toml").open("rb") as file:
        entries = tomllib.load(file)["file"]
    codes = []
    for entry in entries:
        if not given.parts or any(part in entry["path"] for part in given.parts):
            if (pid := os.fork()) == 0:
                os._exit(run_file(entry, given.only))
            codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    return 1 if any(codes) or not codes else 0


if __name__ == "__main__":
    sys.exit(main())
