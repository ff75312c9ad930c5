"""Alert rules, dashboard and backup timer, as a host uses them."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from regsvc.cli.shipped_files import read_shipped
from tests.support.programs import find_program
from tests.support.quick_start import PROGRAM, REPOSITORY
from tests.support.stack import GENEROUS, Stack
from tests.support.unit_file import UnitFile
from tests.support.watching import scrape

ALERTS = REPOSITORY / "packaging" / "monitoring" / "alerts.yml"
ALERT_TESTS = [Path(__file__).with_name(name) for name in ("alerts.test.yml", "alerts_of_days.test.yml")]
SYSTEMD = REPOSITORY / "systemd"
DASHBOARD = "packaging/monitoring/grafana.json"

OF_PROMETHEUS = {"up", "node_systemd_unit_state"}
SUFFIXES = {"counter": ("_total",), "summary": ("_sum", "_count"), "histogram": ("_bucket", "_sum", "_count")}


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack("sqlite", tmp_path_factory.mktemp("stack")) as stack:
        yield stack


@pytest.fixture(scope="module")
def offered(play: Stack) -> set[str]:
    """The names of all series that a scrape can have."""
    families = list(text_string_to_metric_families(play.get("/metrics").text))
    assert families
    return {family.name + suffix for family in families for suffix in SUFFIXES.get(family.type, ("",))}


def metrics_in(expression: str) -> set[str]:
    """Return the names of metrics in a PromQL expression."""
    plain = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\b(?:by|on|without) \([^)]*\)", "", expression)
    return {name for name in re.findall(r"[a-z_]+\b(?!\s*\()", plain) if "_" in name or name == "up"}


def test_promtool_accepts_the_alerts_and_each_fires_for_its_trouble_alone() -> None:
    command = [find_program("promtool"), "test", "rules", *map(str, ALERT_TESTS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tested() -> None:
    rules = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"][0]["rules"]
    texts = "".join(file.read_text(encoding="utf-8") for file in ALERT_TESTS)
    tested = set(re.findall(r'alertname="(\w+)"', texts))
    assert {rule["alert"] for rule in rules} == tested


def test_alerts_watch_metrics_that_exist(offered: set[str]) -> None:
    rules = yaml.safe_load(read_shipped("packaging/monitoring/alerts.yml"))["groups"][0]["rules"]
    watched = set().union(*(metrics_in(rule["expr"]) for rule in rules))
    assert watched - offered <= OF_PROMETHEUS


def test_the_dashboard_shows_metrics_that_exist_and_all_of_ours(offered: set[str]) -> None:
    dashboard = json.loads(read_shipped(DASHBOARD))
    shown = set().union(*(metrics_in(target["expr"]) for panel in dashboard["panels"] for target in panel["targets"]))
    assert shown - offered <= OF_PROMETHEUS
    ours = {re.sub("_(bucket|sum|count)$", "", name) for name in offered if name.startswith("companion_")}
    assert ours == {re.sub("_(bucket|sum|count)$", "", name) for name in shown if name.startswith("companion_")}
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(numbers) == len(set(numbers))


def test_what_waits_for_an_admin_is_counted(tmp_path: Path) -> None:
    with Stack("sqlite", tmp_path, config=GENEROUS | {"sync": {"new_players": "approved"}}) as stack:
        alice = stack.approved("alice")
        for name, email in (("Carol", "carol@example.org"), ("Dave", alice.email)):
            stack.authme.register(name, "a-secret", email=email)
        stack.pending("bob")
        stack.decides("membership", alice, **{"for": "3 days"})
        stack.sync()
        figures = scrape(stack.daemon)
    assert figures.of("companion_memberships_ending") == 1
    assert (figures.of("companion_users_pending"), figures.of("companion_players_disputed")) == (1, 1)


# --- Backup timer ---


@pytest.mark.parametrize("name", ["companion-backup", "companion-backup@"])
def test_systemd_accepts_the_backup_units(tmp_path: Path, name: str) -> None:
    systemd_analyze = find_program("systemd-analyze")
    units = [tmp_path / f"{name}.service", tmp_path / f"{name}.timer"]
    for unit in units:
        text = read_shipped(f"systemd/{unit.name}").replace("/opt/companion/.venv/bin/companion", "/bin/true")
        unit.write_text(text, encoding="utf-8")
    done = subprocess.run([systemd_analyze, "verify", "--man=no", *units], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_one_server_and_many_are_backed_up_alike() -> None:
    single, many = (UnitFile.read(SYSTEMD / f"companion-backup{at}.service").keys for at in ("", "@"))
    without_names = {key: [value.replace("companion@%i", "companion") for value in many[key]] for key in many}
    assert single == without_names | {"Description": single["Description"]}


def test_the_nightly_backup_is_made_and_old_ones_are_deleted(tmp_path: Path, play: Stack) -> None:
    name = "companion@survival"
    config, state = tmp_path / "etc" / name / "companion.toml", tmp_path / "var/lib" / name
    config.parent.mkdir(parents=True)
    state.parent.mkdir(parents=True)
    shutil.copy(play.daemon.config_file, config)
    state.symlink_to(play.daemon.state_dir)
    backups = tmp_path / "var/backups" / name
    old, foreign = backups / "companion-20200101-030000", backups / "mine"
    for folder in (old, foreign):
        folder.mkdir(parents=True)
        (folder / "file").touch()
        subprocess.run(["touch", "-d", "20 days ago", folder], check=True)
    unit = UnitFile.read(SYSTEMD / "companion-backup@.service")

    for key in ("ExecStartPre", "ExecStart", "ExecStartPost"):
        run_as_systemd_would(unit.value(key), tmp_path)

    made = [folder for folder in backups.iterdir() if folder != foreign]
    assert old not in made
    assert [json.loads((folder / "manifest.json").read_text())["format"] for folder in made] != []


def run_as_systemd_would(line: str, root: Path) -> None:
    """Run a command of the unit, with /etc and /var below `root` and the companion of this checkout."""
    line = line.replace("%i", "survival").replace("%%", "%").replace("$$", "$")
    line = line.replace("/opt/companion/.venv/bin/companion", f"{sys.executable} {PROGRAM}")
    line = re.sub(r"(?<=[ =])/(etc|var)/", f"{root}/\\1/", line)
    done: Any = subprocess.run(shlex.split(line), capture_output=True, text=True, check=False)
    assert done.returncode == 0, (line, done.stdout, done.stderr)
