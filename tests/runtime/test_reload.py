"""SIGHUP: a host changes the config while the daemon runs."""

import re
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from regsvc.config.host_sections import DatabaseSection, HttpSection, LogSection, MetricsSection, ServerSection
from regsvc.config.key_types import keys_of
from regsvc.config.layers import SECTIONS
from regsvc.config.sections import Config, Download
from regsvc.runtime.reload import RELOADABLE, plan_reload
from tests.support.daemon import Daemon
from tests.support.together import at_once
from tests.support.watching import scrape

Sections = Mapping[str, Mapping[str, Any]]
RELOADED = "the config was reloaded: "
NOT_RELOADED = "the config was not reloaded: "
WAITING = (
    "the companion's config has changed; these keys take effect after a restart of the companion"
    " (systemctl restart companion; its container, or its server in the panel): "
)
SECRET = "a-token-that-nobody-may-read"
APPLICATION = {"username": "Alice", "email": "alice@example.org", "code": "123456"}


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon of its own for each story, so that every line of its log is about that story."""
    daemon = Daemon(tmp_path / "daemon", {"updates": {"enabled": False}})
    daemon.start()
    yield daemon
    daemon.stop()


def change(daemon: Daemon, changes: Sections) -> None:
    """Write a config with these sections only, and send SIGHUP."""
    daemon.write_config({"updates": {"enabled": False}, **changes})
    daemon.send(signal.SIGHUP)


def shown(daemon: Daemon) -> dict[str, Any]:
    config: dict[str, Any] = daemon.get("/api/config").json["config"]
    return config


def restart_needed(daemon: Daemon) -> tuple[list[str], float]:
    """The keys that `/health/ready` names, and the metric."""
    reply = daemon.get("/health/ready")
    assert (reply.status, reply.json["status"]) == (200, "ready")
    return reply.json["restartNeeded"], scrape(daemon).of("companion_restart_needed")


# --- Keys that change at once ---


def test_what_front_ends_show_changes(running: Daemon) -> None:
    links = {"Discord": "https://discord.gg/example"}
    server = {"announcement": "Back at noon", "theme": "ocean", "logo_url": "/logo.png", "links": links}
    change(running, {"server": server})
    assert running.wait_for_log(f"{RELOADED}server.announcement, server.theme, server.logo_url, server.links")
    config = shown(running)
    assert (config["announcement"], config["theme"], config["logoUrl"]) == ("Back at noon", "ocean", "/logo.png")
    assert config["contact"] == "https://discord.gg/example"  # where texts send players, without a contact
    assert "You can reach the team here: https://discord.gg/example" in running.get("/account").text


def test_an_edited_style_sheet_is_read_again(running: Daemon) -> None:
    style = running.config_file.parent / "own.css"
    for text in ("h1 { color: red }", "h1 { color: blue }"):
        style.write_text(text, encoding="utf-8")
        change(running, {"server": {"custom_css": str(style)}})
        assert running.wait_for_log(f"{RELOADED}server.custom_css")
        [sheet] = re.findall(r"web/host\.\w+\.css", running.get("/register").text)
        assert running.get(f"/{sheet}").text == text
        running.log.clear()


def test_registration_closes_and_opens_again(running: Daemon) -> None:
    change(running, {"registration": {"open": False}})
    assert running.wait_for_log(f"{RELOADED}registration.open")
    assert shown(running)["registration"]["open"] is False
    assert running.post("/api/register", APPLICATION).code == "registration_closed"

    change(running, {"server": {"theme": "amethyst"}})
    assert running.wait_for_log(f"{RELOADED}server.theme, registration.open")
    assert shown(running)["registration"]["open"] is True
    assert running.post("/api/register", APPLICATION).code == "invalid_code"


def test_the_limits_change(running: Daemon) -> None:
    change(running, {"http": {"status_limit": ["1 per hour"]}, "auth": {"login_limits": ["1 per hour"]}})
    assert running.wait_for_log(f"{RELOADED}http.status_limit, auth.login_limits")
    statuses = [running.get("/api/user/status", {"username": "Alice"}).status for _time in range(2)]
    logins = [running.post("/api/login", {"username": "Alice", "password": "wrong"}).status for _time in range(2)]
    assert (statuses, logins) == ([200, 429], [401, 429])


def test_how_requests_are_taken_changes(running: Daemon) -> None:
    origin = {"Origin": "https://play.example.org"}
    changes = {"legacy_status": True, "allowed_origins": [origin["Origin"]], "max_body": "1 KiB"}
    change(running, {"http": changes, "metrics": {"enabled": False}})
    assert running.wait_for_log(f"{RELOADED}http.legacy_status, http.allowed_origins, http.max_body, metrics.enabled")
    softened = running.post("/api/register", APPLICATION, headers=origin)
    assert (softened.status, softened.code) == (200, "invalid_code")
    assert softened.headers["Access-Control-Allow-Origin"] == origin["Origin"]
    assert running.post("/api/register", {"username": "x" * 2000}).status == 413
    assert running.get("/metrics").status == 404


def test_the_log_gets_louder(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "daemon", {"log": {"level": "warning"}})
    daemon.start()
    daemon.get("/api/config", headers={"X-Request-ID": "before"})
    change(daemon, {"log": {"level": "info", "format": "plain"}})
    assert daemon.wait_for_log(f"{RELOADED}log.level, log.format")
    daemon.get("/api/config", headers={"X-Request-ID": "after"})
    assert daemon.wait_for_log("request=after")
    assert not [line for line in daemon.log if "before" in line]
    daemon.stop()


# --- Keys that need a restart ---


def test_what_waits_for_a_restart_is_named_each_time(running: Daemon) -> None:
    changes: Sections = {
        "database": {"threads": 3},
        "downloads.client": {"name": "Client", "url": "/client.zip"},
        "[game.server]": {"name": "survival", "directory": "survival"},
    }
    for theme in ("ocean", "ember"):
        change(running, {**changes, "server": {"theme": theme, "name": "Elsewhere"}})
        assert running.wait_for_log(f"{RELOADED}server.theme")
        config = shown(running)
        assert (config["theme"], config["webServerPrefix"]) == (theme, "Game server")
        running.log.clear()
    change(running, changes)
    assert running.wait_for_log(f"{WAITING}database.threads, downloads, game.server")


def test_what_waits_for_a_restart_is_shown_until_it_is_taken_back(running: Daemon) -> None:
    assert restart_needed(running) == ([], 0)
    change(running, {"database": {"threads": 3}, "server": {"name": "Elsewhere"}})
    assert running.wait_for_log(f"{WAITING}server.name, database.threads")
    assert restart_needed(running) == (["server.name", "database.threads"], 1)
    change(running, {})
    assert running.wait_for_log("the companion's config: the restart of the companion is not needed any more")
    assert restart_needed(running) == ([], 0)


def test_a_broken_config_is_refused_whole(running: Daemon) -> None:
    change(running, {"server": {"theme": "ocean", "port": "eighty"}, "mail": {"bakcend": "smtp"}})
    assert running.wait_for_log(f"{NOT_RELOADED}{running.config_file}: [mail] has no key")
    assert running.wait_for_log(f"{NOT_RELOADED}{running.config_file}: [server] port = ")
    assert shown(running)["theme"] == "default"

    change(running, {"server": {"theme": "ocean"}})
    assert running.wait_for_log(f"{RELOADED}server.theme")
    assert shown(running)["theme"] == "ocean"


def test_a_config_that_is_gone_changes_nothing(running: Daemon) -> None:
    running.config_file.unlink()
    running.send(signal.SIGHUP)
    assert running.wait_for_log(f"{NOT_RELOADED}{running.config_file}: there is no such file")
    assert running.get("/health/alive").status == 200


def test_a_secret_is_named_and_not_told(running: Daemon) -> None:
    change(running, {"metrics": {"token": SECRET}, "auth": {"signing_key": SECRET * 2}})
    assert running.wait_for_log(f"{RELOADED}metrics.token")
    assert running.wait_for_log(f"{WAITING}auth.signing_key")
    assert running.get("/metrics", token=SECRET, headers={"X-Forwarded-For": "203.0.113.7"}).status == 200
    assert not [line for line in running.log if SECRET in line]


def test_an_unwise_choice_is_told(running: Daemon) -> None:
    change(running, {"mail": {"backend": "log"}})
    assert running.wait_for_log("whole mails with their codes are printed")


def test_no_request_suffers(running: Daemon) -> None:
    def ask(number: int) -> int:
        if number % 4 == 0:
            running.send(signal.SIGHUP)
        return running.get("/api/config").status

    answers = at_once([lambda number=number: ask(number) for number in range(40)])  # type: ignore[misc]
    assert set(answers) == {200}


# --- The plan ---


def test_only_keys_that_there_are_may_be_reloaded() -> None:
    assert {f"{section}.{name}" for section, declaring in SECTIONS.items() for name in keys_of(declaring)} >= RELOADABLE


def test_the_plan_takes_what_may_change_and_leaves_the_rest() -> None:
    running = Config(metrics=MetricsSection(token=SECRET))
    read = Config(
        server=ServerSection(theme="ocean", port=81),
        http=HttpSection(legacy_status=True),
        database=DatabaseSection(threads=9),
        log=LogSection(level="debug"),
        downloads=MappingProxyType({"client": Download(name="Client")}),
        warnings=("unwise",),
    )
    config, applied, waiting = plan_reload(running, read)
    assert applied == ("server.theme", "http.legacy_status", "metrics.token", "log.level")
    assert waiting == ("server.port", "database.threads", "downloads")
    assert config == Config(
        server=ServerSection(theme="ocean"),
        http=HttpSection(legacy_status=True),
        log=LogSection(level="debug"),
        warnings=("unwise",),
    )
    assert SECRET not in repr(config)
