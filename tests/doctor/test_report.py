"""Output of the doctor: for people, programs and terminals."""

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from regsvc.cli.status import run_doctor
from regsvc.config.loader import load_config
from regsvc.config.sections import Config
from regsvc.doctor import checkup
from regsvc.doctor.checkup import CHECKS, EXIT_STATUS, Checkup, as_json, as_text
from regsvc.doctor.facts.facts import Facts, FixLocation, Source
from regsvc.doctor.facts.host import Host
from regsvc.doctor.finding import Check, CheckFunction, FindingFields, Severity, check

RISKY = FindingFields("a.risk", "risky", "The door is open.", "Anybody comes in.", "Close it.", "/door: is_open: no")
BROKEN = FindingFields("a.fault", "broken", "The door is gone.", "It is cold.", "Get one.", "door.toml")


@pytest.mark.parametrize(
    ("findings", "verdict", "status"),
    [((), "fine", 0), ((RISKY,), "risky", 1), ((BROKEN,), "broken", 2), ((BROKEN, RISKY), "broken", 2)],
)
def test_the_worst_finding_is_the_verdict(findings: tuple[FindingFields, ...], verdict: str, status: int) -> None:
    told = Checkup(findings, ())
    assert (told.verdict, EXIT_STATUS[told.verdict]) == (verdict, status)
    assert as_text(told, {}, has_colours=False).splitlines()[-1].startswith(f"{verdict.upper()}: ")


PLACES = {"state directory": "/var/lib/companion"}


def test_a_paragraph_says_what_and_why_and_where() -> None:
    told = as_text(Checkup((BROKEN, RISKY), ("the weather: it is night",)), PLACES, has_colours=False)
    assert told == (
        "BROKEN  a.fault\n"
        "  The door is gone. It is cold.\n"
        "  Do: Get one.\n"
        "  In: door.toml\n"
        "\n"
        "RISKY  a.risk\n"
        "  The door is open. Anybody comes in.\n"
        "  Do: Close it.\n"
        "  In: /door: is_open: no\n"
        "\n"
        "state directory: /var/lib/companion\n"
        "BROKEN: 1 broken, 1 risky.\n"
        "  Not examined: the weather: it is night."
    )


def test_it_keeps_to_the_terminals_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    long = FindingFields("a.risk", "risky", "The door is open. " * 20, "Why.", "Do.", "/a/path " * 20)
    told = as_text(Checkup((long,), ()), {}, has_colours=False).splitlines()
    assert all(len(line) <= 60 for line in told if not line.startswith("  In: "))
    assert f"  In: {long.where}" in told  # not wrapped, so that it can be copied


def test_colours_are_words_in_colour() -> None:
    told = as_text(Checkup((BROKEN, RISKY), ()), {}, has_colours=True)
    assert "\033[31mBROKEN\033[0m  a.fault" in told
    assert "\033[33mRISKY\033[0m  a.risk" in told
    assert "\033[32mFINE\033[0m: " in as_text(Checkup((), ()), {}, has_colours=True)


def test_a_program_reads_the_same() -> None:
    assert json.loads(as_json(Checkup((RISKY,), ("the weather: it is night",)), PLACES)) == {
        "verdict": "risky",
        "broken": 0,
        "risky": 1,
        "findings": [
            {
                "id": "a.risk",
                "severity": "risky",
                "title": "The door is open.",
                "why": "Anybody comes in.",
                "do": "Close it.",
                "where": "/door: is_open: no",
            }
        ],
        "notExamined": ["the weather: it is night"],
        "examined": {"state directory": "/var/lib/companion"},
    }


def test_every_check_has_its_words() -> None:
    assert len({each.id for each in CHECKS}) == len(CHECKS)
    for each in CHECKS:
        assert each.means.endswith("."), each.id
        assert each.why.endswith("."), each.id
        assert each.do[0].isupper(), each.id


def test_checks_that_stumble_are_a_finding_and_do_not_silence_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def stumble(facts: Facts) -> Iterator[str]:
        yield "This was seen before"
        raise ValueError("hunter2")

    def see(facts: Facts) -> Iterator[str]:
        yield "This is so"

    def declare(id: str, examination: CheckFunction) -> Check:
        return check(id, Severity.RISKY, means="M.", why="W.", do="D.", where=FixLocation(Source.MACHINE))(examination)

    checks = (declare("a.broken", stumble), declare("a.broken_too", stumble), declare("a.sound", see))
    monkeypatch.setattr(checkup, "CHECKS", checks)
    with caplog.at_level(logging.DEBUG, "regsvc.doctor"):
        told = checkup.examine(Facts(Config(), Host()))
    titles = [finding.title for finding in told.findings]
    assert titles[1:] == ["This was seen before.", "This was seen before.", "This is so."]
    assert re.fullmatch(r"Could not run: a.broken, a.broken_too \(ValueError at test_report.py:\d+\)\.", titles[0])
    assert (told.findings[0].id, told.verdict) == ("doctor.check_failed", "broken")
    assert "the check a.broken failed: ValueError at " in caplog.text
    assert "hunter2" not in caplog.text


def test_a_report_where_nothing_can_be_found_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "removed meanwhile"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert run_doctor(lambda: load_config(None, {}), is_json=True) == 2
    [finding, *_root] = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["id"], "FileNotFoundError at " in finding["title"]) == ("config.broken", True)
