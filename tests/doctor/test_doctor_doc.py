"""docs/doctor.md is current, and every finding in it has a test."""

from pathlib import Path

import pytest

from regsvc.doctor.checkup import CHECKS
from tests.generators.doctor import DOCTOR_FILE, main
from tests.support.each import assert_each


def test_the_page_is_current() -> None:
    assert main(["--check"]) == 0, "run `make sample`"


def test_a_page_that_is_not_current_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, current = tmp_path / "doctor.md", DOCTOR_FILE.read_text(encoding="utf-8")
    page.write_text(current.replace("* `mail.off` ", "* `mail.gone` "), encoding="utf-8")
    assert main(["--check"], page) == 1
    assert "make sample" in capsys.readouterr().err
    assert main([], page) == 0
    assert page.read_text(encoding="utf-8") == current


def test_every_finding_is_in_the_page_and_has_a_test() -> None:
    page = DOCTOR_FILE.read_text(encoding="utf-8")

    def check(id: str) -> None:
        assert f"\n* `{id}`" in page
        tests = [file.read_text(encoding="utf-8") for file in Path(__file__).parent.glob("test_*_findings.py")]
        assert any(f'"{id}"' in text for text in tests)

    assert_each([check.id for check in CHECKS], check)
