"""Set-up of `make run` and `make test`: as root, with passwordless sudo, and with neither.

The programs of the system are replaced on PATH by stand-ins, since the real ones would change this machine; `make
fresh-test` types the commands where they are real. Seen there, and copied here: Debian's interpreter has no ensurepip
and no pip before python3-venv is installed, and what its `venv` says then; `apt-cache policy` prints nothing about a
package that the archive does not have; `sudo -n` prints an error and exits with 1 where it would ask for a password.
"""

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.house_rules.sources import ROOT

PACKAGES = ROOT / "tests" / "packages.sh"
REAL = (
    "awk basename cat chmod cp cut date df dirname env expand find getent grep head ls make mkdir mktemp mv rm sed seq "
    "sh sort tail tar tee touch tr true uname"
)
VENV_SAYS = "The virtual environment was not created successfully because ensurepip is not available."

# `venv` makes an environment whose interpreter writes down what it is asked to do.
PYTHON = """\
has_venv={system}/has-venv
case "$*" in
    "-c import ensurepip") test -e $has_venv ;;
    "-c import sys; print"*) echo python3.11-venv ;;
    "-c "*) exit 0 ;;
    "-m venv "*)
        mkdir -p "$3/bin"
        test -e $has_venv || {{ echo "{says}"; exit 1; }}
        printf '#!/bin/sh\\necho "$*" >> {system}/asked\\n' > "$3/bin/python"
        chmod 755 "$3/bin/python" ;;
    *) echo "No module named pip" >&2; exit 1 ;;
esac
"""
APT_GET = """\
echo "$*" >> {system}/apt-get
case "$*" in
    *"install"*-venv*) touch {system}/has-venv ;;
    *"install"*) seq 2000 ;;
    *download*) exit 100 ;;
esac
"""
APT_CACHE = """\
case "$2" in
    "") echo " 500 http://deb.example.org/debian main"; echo "     release o=Debian,a=stable" ;;
    {unknown}) ;;
    *) printf '%s:\\n  Candidate: 1.0\\n' "$2" ;;
esac
"""
SUDO = {
    "root": "exit 1",
    "sudo": 'shift; exec "$@"',
    "neither": 'echo "sudo: a password is required" >&2; exit 1',
}


@dataclass(frozen=True)
class System:
    """A machine whose user may install packages in one `way`."""

    folder: Path
    way: str

    def has(self, program: str, script: str) -> None:
        file = self.folder / "bin" / program
        file.unlink(missing_ok=True)
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    def type(self, *command: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
        """Run a command there; both streams are in `stdout`."""
        environment = {"PATH": str(self.folder / "bin"), "HOME": str(self.folder), "TMPDIR": str(self.folder)}
        return subprocess.run(
            command,
            cwd=cwd or self.folder,
            env=environment | {"VENV": str(self.folder / ".venv")} if cwd is None else environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def make_venv(self) -> "subprocess.CompletedProcess[str]":
        return self.type("sh", str(ROOT / "tests" / "make_venv.sh"), "python3.11", "--editable", ".")

    def asked(self, program: str) -> Sequence[str]:
        """What a stand-in was asked to do, one line each time."""
        file = self.folder / program
        return file.read_text().splitlines() if file.exists() else ()


def make_system(folder: Path, way: str, unknown: str = "nothing") -> System:
    (folder / "bin").mkdir(parents=True)
    system = System(folder, way)
    for name in REAL.split():
        found = shutil.which(name)
        assert found, name
        (folder / "bin" / name).symlink_to(found)
    system.has("id", f"echo {0 if way == 'root' else 1000}")
    system.has("sudo", SUDO[way])
    system.has("python3.11", PYTHON.format(system=folder, says=VENV_SAYS))
    system.has("apt-get", APT_GET.format(system=folder))
    system.has("apt-cache", APT_CACHE.format(unknown=unknown))
    system.has("ldconfig", "exit 0")
    return system


@pytest.mark.parametrize("way", ["root", "sudo"])
def test_venv_is_installed_where_debian_has_left_it_out(tmp_path: Path, way: str) -> None:
    system = make_system(tmp_path, way)
    done = system.make_venv()
    assert done.returncode == 0, done.stdout
    assert [line for line in system.asked("apt-get") if line.endswith(" python3.11-venv")]
    assert system.asked("asked") == ["-m pip install --editable ."]
    assert VENV_SAYS not in done.stdout


def test_who_may_not_install_it_reads_the_line_to_type_and_a_second_run_repairs_it(tmp_path: Path) -> None:
    system = make_system(tmp_path, "neither")
    done = system.make_venv()
    assert done.returncode == 1
    assert VENV_SAYS in done.stdout
    line = "## Type, as root: apt-get update && apt-get install --no-install-recommends python3.11-venv\n"
    assert line in done.stdout
    assert not system.asked("apt-get")
    assert not (tmp_path / ".venv").exists()
    (tmp_path / "has-venv").touch()
    assert system.make_venv().returncode == 0


def test_an_environment_whose_installation_was_killed_is_made_anew(tmp_path: Path) -> None:
    system = make_system(tmp_path, "root")
    (tmp_path / "has-venv").touch()
    assert system.make_venv().returncode == 0
    half = tmp_path / ".venv" / "half-a-package"
    half.touch()
    assert system.make_venv().returncode == 0
    assert half.exists(), "one that works is left alone"
    dying = "#!/bin/sh\ncase $3 in install) kill -9 $PPID;; esac\n"
    (tmp_path / ".venv" / "bin" / "python").write_text(dying)
    assert system.make_venv().returncode == -9
    assert system.make_venv().returncode == 0
    assert not half.exists()


def test_without_npm_the_other_tests_run(tmp_path: Path) -> None:
    system = make_system(tmp_path, "neither", unknown="caddy")
    clone = tmp_path / "clone"
    for name in ("Makefile", "setup.py", "requirements-dev.lock"):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, clone / name)
    scripts = [*(ROOT / "tests").glob("*.sh"), *(ROOT / "tests/js").glob("*.json"), ROOT / "tests/js/install.sh"]
    for file in scripts:
        copy = clone / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    (clone / ".venv" / "bin").mkdir(parents=True)
    system.has("python", f'echo "$*" >> {tmp_path}/asked')
    (tmp_path / "bin" / "python").rename(clone / ".venv" / "bin" / "python")
    (clone / ".venv" / ".installed").touch()
    done = system.type("make", "test", "PYTEST_ARGS=-k bob", cwd=clone)
    assert done.returncode == 0, done.stdout
    assert "-m pytest -k bob" in system.asked("asked")
    [for_tests, for_scripts] = re.findall(r"## Type, as root: .* --no-install-recommends (.*)", done.stdout)
    assert "nodejs" in for_tests
    assert for_scripts == "npm"
    assert "## This system's archive has no caddy\n" in done.stdout


def test_a_package_that_the_archive_does_not_have_keeps_no_other_from_it(tmp_path: Path) -> None:
    """As on Ubuntu, whose browser is no package. What was unpacked from `prometheus` is `promtool` since Debian 13."""
    system = make_system(tmp_path, "sudo", unknown="chromium*")
    done = system.type("sh", str(ROOT / "tests" / "install_system_packages.sh"))
    assert done.returncode == 0
    [installed] = [line for line in system.asked("apt-get") if "install" in line]
    assert "nodejs" in installed
    assert "chromium" not in installed
    assert "download -qq promtool" in system.asked("apt-get")
    assert "has no chromium-headless-shell" in done.stdout
    assert len(done.stdout.splitlines()) < 30, "of 2,000 lines about packages none is shown"
    system = make_system(tmp_path / "older", "sudo", unknown="promtool")
    system.type("sh", str(ROOT / "tests" / "install_system_packages.sh"))
    assert "download -qq prometheus" in system.asked("apt-get")


def test_of_what_fails_the_last_lines_are_shown_and_the_file_with_all_is_named(tmp_path: Path) -> None:
    system = make_system(tmp_path, "root")
    done = system.type("sh", "-c", f'. {PACKAGES}; quietly "Counting" sh -c "seq 2000; exit 3"')
    assert done.returncode == 3
    assert done.stdout.startswith("Counting\n1981\n")
    file = re.search(r"All that it said is in (.*)\n", done.stdout)
    assert file is not None
    assert len(Path(file[1]).read_text().splitlines()) == 2000
    done = system.type("sh", "-c", f'. {PACKAGES}; quietly "Counting" seq 2000')
    assert (done.returncode, done.stdout) == (0, "Counting\n")
    assert len(list(tmp_path.glob("companion-set-up*"))) == 1


def test_only_one_script_knows_how_packages_are_installed() -> None:
    scripts = [*(ROOT / "tests").glob("*.sh"), *(ROOT / "tests").glob("*/install.sh")]
    assert len(scripts) == 6
    assert [file for file in scripts if re.search(r"sudo|apt-get\b.* install", file.read_text())] == [PACKAGES]
