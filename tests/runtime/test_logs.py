"""The log: lines with priorities in systemd's journal, JSON and plain lines, and what jobs and outages write to it."""

import http.client
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest

from regsvc.app.routes import TABLES
from regsvc.config.host_sections import LogSection
from regsvc.config.sections import Config
from regsvc.database.engine import OutageLog
from regsvc.http import server as http_server
from regsvc.http.server import MAX_LINES, ApiApplication
from regsvc.runtime import logs
from regsvc.runtime.logs import BackgroundHandler, JournalLines, JsonLines, PlainLines, is_journal, set_up_logging
from regsvc.sync.report import counts_in_words
from tests.support.daemon import HOST, Daemon, clean_environment
from tests.support.live_api import make_features
from tests.support.quick_start import PROGRAM
from tests.support.watching import ask_until, scrape


def record(level: int, message: str) -> logging.LogRecord:
    return logging.LogRecord("regsvc.test", level, "", 0, message, None, None)


def journal_of(file: Path) -> dict[str, str]:
    """Return the environment of a service whose standard error, as its journal, is this file."""
    status = file.stat()
    return {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}


@pytest.mark.parametrize(
    ("level", "prefix"),
    [(logging.ERROR, "<3>"), (logging.WARNING, "<4>"), (logging.INFO, "<6>"), (logging.DEBUG, "<7>")],
)
def test_every_line_in_the_journal_has_its_priority(level: int, prefix: str) -> None:
    assert JournalLines().format(record(level, "one\n\ntwo")) == f"{prefix}one\n{prefix}  two"


def test_a_name_cannot_pass_for_a_record_of_its_own() -> None:
    """Typed into a table: a line break with another priority, and what a terminal would obey."""
    name = "Bob\n<0>the database is gone\x1b[2J\u2028<0>x"
    expected = ["banned Bob", "  <0>the database is gone?[2J", "  <0>x"]
    lines = JournalLines().format(record(logging.INFO, f"banned {name}")).splitlines()
    assert lines == [f"<6>{line}" for line in expected]
    told = PlainLines("").format(record(logging.INFO, f"banned {name}"))
    assert told.splitlines() == expected


def test_only_the_stream_that_systemd_named_is_the_journal(tmp_path: Path) -> None:
    file = tmp_path / "log"
    with file.open("w") as journal, (tmp_path / "other").open("w") as other:
        environ = journal_of(file)
        assert is_journal(journal, environ)
        assert not is_journal(other, environ)
        assert not is_journal(journal, {})


def test_a_mistake_in_the_config_is_an_error_in_the_journal(tmp_path: Path) -> None:
    config, log = tmp_path / "companion.toml", tmp_path / "log"
    config.write_text('[log]\nformat = "json"\n[server]\nprot = 1\nhots = "x"\n')
    with log.open("w") as stream:
        environ = {**clean_environment(), **journal_of(log)}
        command = [sys.executable, str(PROGRAM), "serve", "--config", str(config)]
        assert subprocess.run(command, stderr=stream, env=environ, check=False).returncode == 78
    lines = log.read_text().splitlines()
    assert len(lines) == 2
    assert all(line.startswith("<3>") for line in lines)


@pytest.mark.parametrize(("form", "starts"), [("auto", "<6>hello"), ("plain", "<6>hello"), ("json", "{")])
def test_the_journal_gets_readable_lines_unless_json_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, starts: str
) -> None:
    file = tmp_path / "log"
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    with file.open("w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setenv("JOURNAL_STREAM", journal_of(file)["JOURNAL_STREAM"])
        try:
            set_up_logging(LogSection(format=form))  # type: ignore[arg-type]
            logging.getLogger("regsvc.test").info("hello")
        finally:
            root.handlers[:], root.level = handlers, level
    assert file.read_text().startswith(starts)


def test_each_line_names_the_daemon_among_several(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        for form in ("json", "plain"):
            set_up_logging(LogSection(format=form), "east")
            logging.getLogger("regsvc.test").warning("hello")
    finally:
        root.handlers[:], root.level = handlers, level
    structured, plain = capsys.readouterr().err.splitlines()
    assert json.loads(structured)["instance"] == "east"
    assert plain.endswith("regsvc.test: [east] hello")
    assert JournalLines("east").format(record(logging.INFO, "hello")) == "<6>[east] hello"


@pytest.mark.parametrize("is_daemon", [True, False])
def test_elsewhere_the_daemon_logs_for_programs_and_commands_for_people(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_daemon: bool
) -> None:
    """What a command logs is mailed by cron, among what it prints."""
    file, root = tmp_path / "log", logging.getLogger()
    handlers, level = root.handlers[:], root.level
    with file.open("w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        try:
            set_up_logging(LogSection(), is_daemon=is_daemon)
            logging.getLogger("regsvc.test").warning("hello")
            root.handlers[0].flush()
        finally:
            root.handlers[:], root.level = handlers, level
    logged = file.read_text()
    if is_daemon:
        line = json.loads(logged)
        assert (line["level"], line["message"]) == ("warning", "hello")
    else:
        assert logged.endswith("WARNING regsvc.test: hello\n")


@pytest.mark.parametrize("text", ["Bob", 'a "quote" \\', "\x00\x1b\n\u2028\x7f", "Frühling", "\udcff"])
def test_a_line_is_what_json_would_write(text: str) -> None:
    """With the milliseconds of any time, and texts that no file name should have."""
    for created in (0.0, 1_790_000_000.0, 1_790_000_000.0625, 1_790_000_001.99951171875):
        try:
            raise KeyError(text)
        except KeyError as error:
            entry = logging.LogRecord("regsvc.test", logging.INFO, "", 0, text, None, (KeyError, error, None))
        entry.created = created
        line = JsonLines(text).format(entry)
        read = json.loads(line)
        assert line == json.dumps(read, ensure_ascii=False)
        assert [*read] == ["time", "level", "logger", "message", "instance", "exception"]
        assert (read["level"], read["message"], read["instance"]) == ("info", text, text)
        told = datetime.fromisoformat(read["time"])
        assert 0 <= created - told.timestamp() < 0.001
        assert read["time"] == told.isoformat(timespec="milliseconds")


def test_counts_are_words() -> None:
    assert counts_in_words({"scanned": 3002, "adopted": 2997}) == "3,002 players looked at, 2,997 adopted"
    assert counts_in_words({"scanned": 1, "provisioned": 1}) == "1 player looked at, 1 added to the game"


# --- nobody reads ---


class UnreadDaemon(Daemon):
    """A daemon with a log that nobody reads until `may_read` is set; or whose reader `is_gone` from the beginning."""

    is_gone = False

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, {"updates": {"enabled": False}})
        self.may_read = threading.Event()

    def ask_often(self, number: int) -> None:
        """Send requests of many clients, each with a long line in the log."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=10)
        for client in range(number):
            address = f"203.0.{client // 250}.{client % 250}"
            connection.request("GET", "/" + "x" * 190, headers={"X-Forwarded-For": address})
            assert connection.getresponse().read()
        connection.close()

    def _read(self, stream: IO[str], lines: list[str]) -> None:
        if self.is_gone:
            stream.close()
            return
        if lines is self.log:
            self.may_read.wait()
        super()._read(stream, lines)


@pytest.fixture
def unread(tmp_path: Path) -> Iterator[UnreadDaemon]:
    daemon = UnreadDaemon(tmp_path / "daemon")
    yield daemon
    daemon.may_read.set()
    daemon.kill()


def test_a_log_that_is_not_read_stops_nothing_and_what_is_missing_is_told(unread: UnreadDaemon) -> None:
    unread.start()
    unread.ask_often(1500)
    assert unread.get("/health/alive").status == 200
    dropped = scrape(unread).of("companion_log_lines_dropped_total")
    assert dropped > 0
    unread.may_read.set()
    assert unread.wait_for_log(f'"{dropped:.0f} log lines were dropped while nobody read the log"')
    unread.ask_often(1)
    unread.stop()
    assert sum("xxx 404" in line for line in unread.log) == 1501 - dropped
    assert not any("/health/alive" in line for line in unread.log), "such lines are for debugging"


def test_a_log_that_is_not_read_holds_up_no_end(unread: UnreadDaemon) -> None:
    unread.start()
    unread.ask_often(500)
    unread.send(signal.SIGTERM)
    assert unread._process is not None
    assert unread._process.wait(10) == 0


def test_a_reader_that_is_gone_takes_nothing_with_it(unread: UnreadDaemon) -> None:
    """As in `companion serve 2>&1 | tee log`, when tee ends."""
    unread.is_gone = True
    unread.spawn()

    def is_alive() -> bool:
        try:
            return unread.get("/health/alive").status == 200
        except OSError:
            return False

    ask_until(is_alive, bool)
    unread.ask_often(3)
    assert scrape(unread).of("companion_log_lines_dropped_total") >= 3
    unread.send(signal.SIGTERM)
    assert unread.wait_for_end() == 0


def test_warnings_are_kept_longer_than_other_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    outer, inner = os.pipe()
    with os.fdopen(inner, "w") as stream, os.fdopen(outer) as reader:
        monkeypatch.setattr(sys, "stderr", stream)
        handler = BackgroundHandler()
        handler.setFormatter(PlainLines(""))
        number = 0
        while not handler.dropped:
            handler.handle(record(logging.INFO, f"{number} {'x' * 2000}"))
            number += 1
        handler.handle(record(logging.WARNING, "olivia is needed"))
        handler.handle(record(logging.INFO, "nobody is needed"))
        lines = [reader.readline() for _line in range(number + 1)]
    assert [line.split(" ")[0] for line in lines[: number - 1]] == [str(line) for line in range(number - 1)]
    assert lines[number - 1 :] == ["olivia is needed\n", "2 log lines were dropped while nobody read the log\n"]


def test_lines_are_written_together_and_a_warning_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    def write(stream: object, text: str) -> bool:
        written.append(text)
        return True

    monkeypatch.setattr(logs, "_write", write)
    monkeypatch.setattr(logs, "_GATHER_SECONDS", 60.0)
    handler = BackgroundHandler()
    handler.setFormatter(PlainLines(""))
    for number in range(20):
        handler.handle(record(logging.INFO, f"visitor {number}"))
    handler.handle(record(logging.WARNING, "olivia is needed"))
    ask_until(lambda: written, bool)
    assert [len(text.splitlines()) for text in written] == [21]
    handler.handle(record(logging.INFO, "the last line"))
    handler.flush()
    assert written[1:] == ["the last line\n"]


def test_one_client_cannot_grow_the_log_without_bound(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    application = ApiApplication(make_features(Config()), TABLES)
    for minute, requests in enumerate((MAX_LINES + 1234, 1)):
        time = SimpleNamespace(monotonic=partial(float, 6000 + 60 * minute))
        monkeypatch.setattr(http_server, "time", time)
        for number in range(requests):
            request = SimpleNamespace(
                remote_ip=f"2001:db8::{number:x}", method="GET", path="/api/user/status", request_time=lambda: 0.001
            )
            handler: Any = SimpleNamespace(request=request, get_status=lambda: 200, SUPPORTED_METHODS=("GET",))
            application.log_request(handler)
    assert len(caplog.messages) == MAX_LINES + 2
    assert caplog.messages[MAX_LINES] == "and 1,234 more requests by 2001:db8::/48 within a minute"


# --- outages ---


def test_an_outage_is_one_line_and_its_end_another(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    outages = OutageLog()
    outages.end()
    for _thread in range(5):
        outages.begin("mysql:127.0.0.1:3306/game: Can't connect")
    for _thread in range(5):
        outages.end()
    assert caplog.messages == [
        "the database is away; requests get 503 until it is back (mysql:127.0.0.1:3306/game: Can't connect)",
        "the database is back",
    ]


def test_a_database_that_accepts_no_changes_is_named_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    moment = 0.0
    outages = OutageLog(lambda: moment)
    for moment in (0.0, 1.0, 59.0, 60.0):  # noqa: B007 - read by the clock
        outages.refuse_write("attempt to write a readonly database")
        outages.end()
    assert len(caplog.records) == 2


def test_a_refused_write_counts_until_a_look_that_saw_it_finds_nothing_or_for_a_minute() -> None:
    moment = 0.0
    outages = OutageLog(lambda: moment)
    found = [outages.write_problem]
    for look in ("No space left on device", None):
        outages.note_look(look)
        found.append(outages.write_problem)
    assert found == [None, "No space left on device", None]

    outages.refuse_write("The table 'regsvc_user' is full")
    found = []
    for moment in (1.0, 60.0, 70.0):  # noqa: B007 - read by the clock
        outages.note_look(None)  # which asks for no space in that table
        found.append(outages.write_problem)
    assert found == [*["The table 'regsvc_user' is full"] * 2, None]
