"""Pipes in place of files: whatever a host names is refused with a reason, and not waited for."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from plugin_bridge.authme.config import AuthMeConfigError, read_authme_config
from plugin_bridge.server.files import (
    OpsFile,
    PropertiesFile,
    ServerFileError,
    read_operators,
    read_server_properties,
    require_regular_file,
)
from plugin_bridge.server.versions import PluginJar
from regsvc.cli.transfer.backup import read_manifest
from regsvc.cli.transfer.tables import TransferProblem
from regsvc.cli.transfer.user_files import read_users
from regsvc.cli.transfer.verifymc import VerifyMCSettings, read_verifymc
from regsvc.cli.translations import report_translations
from regsvc.config.host_sections import ServerSection
from regsvc.config.loader import load_config
from regsvc.config.sections import Config, ConfigError
from regsvc.doctor.facts.readonly_db import DatabaseUnreadable, ReadOnlySqlite
from regsvc.notifications.mail.renderer import BrokenTemplate, load_mail_templates

REASON = "it is not a regular file"


@pytest.mark.parametrize(
    ("name", "read", "error"),
    [
        ("companion.toml", lambda pipe: load_config(pipe, {}), ConfigError),
        ("config.yml", read_authme_config, AuthMeConfigError),
        ("ops.json", read_operators, ServerFileError),
        ("server.properties", read_server_properties, ServerFileError),
        ("users.csv", lambda pipe: list(read_users(pipe, None)), TransferProblem),
        ("users.json", lambda pipe: read_verifymc(str(pipe), VerifyMCSettings()), TransferProblem),
        ("manifest.json", lambda pipe: read_manifest(pipe.parent), TransferProblem),
        ("approved.en.txt", lambda pipe: load_mail_templates(pipe.parent), BrokenTemplate),
        ("authme.db", ReadOnlySqlite, DatabaseUnreadable),
    ],
)
def test_a_pipe_is_refused_and_not_waited_for(
    tmp_path: Path, name: str, read: Callable[[Path], object], error: type[Exception]
) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(error, match=REASON):
        read(tmp_path / name)


def test_files_of_the_game_that_are_pipes_count_as_missing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("ops.json", "server.properties", "AuthMe.jar"):
        os.mkfifo(tmp_path / name)
    assert OpsFile(tmp_path / "ops.json").names() == frozenset()
    assert REASON in caplog.text
    assert PropertiesFile(tmp_path / "server.properties").current is None
    assert PluginJar(tmp_path).find_version() is None


def test_the_translations_command_lists_a_pipe_as_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "nl.toml")
    config = Config(server=ServerSection(translations=tmp_path))
    assert report_translations(config, "nl", is_for_operators=False) == 1
    assert f"nl.toml: it cannot be read ({REASON})." in capsys.readouterr().out


def test_a_folder_is_left_to_whoever_opens_it(tmp_path: Path) -> None:
    require_regular_file(tmp_path)
    with pytest.raises(FileNotFoundError):
        require_regular_file(tmp_path / "missing")
