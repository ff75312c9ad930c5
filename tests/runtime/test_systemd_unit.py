"""The unit file, read by systemd's own tools."""

import shutil
import subprocess
from pathlib import Path

import pytest

SYSTEMD = Path(__file__).resolve().parents[2] / "systemd"
MOST_EXPOSED = 12  # tenths of systemd's scale from 0 (closed) to 100 (open)


@pytest.fixture
def systemd_analyze() -> str:
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("NO systemd-analyze HERE (Debian: apt-get install systemd)")
    return tool


@pytest.fixture(params=["companion.service", "companion@.service"])
def installed_unit(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy whose program exists, as on a host where the companion is installed."""
    program = tmp_path / "companion"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / str(request.param)
    text = (SYSTEMD / unit.name).read_text(encoding="utf-8")
    unit.write_text(text.replace("/opt/companion/.venv/bin/companion", str(program)), encoding="utf-8")
    return unit


def test_systemd_accepts_the_unit(systemd_analyze: str, installed_unit: Path) -> None:
    done = subprocess.run(
        [systemd_analyze, "verify", "--man=no", str(installed_unit)], capture_output=True, text=True, check=False
    )
    # systemd only warns about an unknown key; for us it is a missing protection.
    assert (done.returncode, done.stderr) == (0, "")


def test_the_unit_stays_closed(systemd_analyze: str, installed_unit: Path) -> None:
    command = [systemd_analyze, "security", "--offline=true", "--no-pager", f"--threshold={MOST_EXPOSED}"]
    done = subprocess.run([*command, str(installed_unit)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
