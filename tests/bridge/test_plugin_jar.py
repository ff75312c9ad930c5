"""Version of AuthMe in the plugins folder."""

import os
from pathlib import Path

import pytest

from plugin_bridge.server.versions import MAX_DESCRIPTION_BYTES, PluginJar
from tests.support.authme.plugin_jars import AUTHME, age, write_jar


def test_it_reads_the_version_in_the_jar(tmp_path: Path) -> None:
    write_jar(tmp_path, "AuthMe-5.6.0-legacy.jar")
    assert PluginJar(tmp_path).find_version() == "5.6.0-beta2"


@pytest.mark.parametrize(("written", "version"), [("5.10", "5.10"), ("'6.0.1'", "6.0.1"), ("5", "5")])
def test_a_version_is_a_text_however_it_is_written(tmp_path: Path, written: str, version: str) -> None:
    write_jar(tmp_path, "AuthMe.jar", f"name: AuthMe\nversion: {written}\n")
    assert PluginJar(tmp_path).find_version() == version


def test_an_update_is_seen(tmp_path: Path) -> None:
    jar = write_jar(tmp_path, "AuthMe.jar")
    plugin = PluginJar(tmp_path)
    assert plugin.find_version() == "5.6.0-beta2"
    age(write_jar(tmp_path, "AuthMe.jar", AUTHME.replace("5.6.0-beta2", "6.0.1")), -5)
    assert plugin.find_version() == "6.0.1"
    jar.unlink()
    assert plugin.find_version() is None


def test_a_jar_that_has_not_changed_is_not_opened_again(tmp_path: Path) -> None:
    jar = write_jar(tmp_path, "AuthMe.jar")
    plugin = PluginJar(tmp_path)
    plugin.find_version()
    status = jar.stat()
    jar.write_bytes(b"?" * status.st_size)
    os.utime(jar, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert plugin.find_version() == "5.6.0-beta2"


def test_of_several_the_newest_file_counts(tmp_path: Path) -> None:
    age(write_jar(tmp_path, "AuthMe-5.6.0.jar"), 100)
    write_jar(tmp_path, "AuthMe-6.jar", AUTHME.replace("5.6.0-beta2", "6.0.1"))
    assert PluginJar(tmp_path).find_version() == "6.0.1"


def test_other_plugins_are_not_meant(tmp_path: Path) -> None:
    write_jar(tmp_path, "AuthMeBridge.jar", "name: AuthMeBridge\nversion: 1.0\n")
    write_jar(tmp_path, "Essentials.jar")
    assert PluginJar(tmp_path).find_version() is None


@pytest.mark.parametrize(
    "description",
    [
        None,
        "",
        "[]",
        "name: AuthMe",
        "name: AuthMe\nversion: [1]",
        "name: AuthMe\nversion: '  '",
        "name: [AuthMe",
        "[" * 5000,
        b"\xff\xfe\x00name: AuthMe\nversion: 1",
        "#" * MAX_DESCRIPTION_BYTES + "\nname: AuthMe\nversion: 1",
    ],
)
def test_what_says_nothing_is_no_version(tmp_path: Path, description: str | bytes | None) -> None:
    write_jar(tmp_path, "AuthMe.jar", description)
    assert PluginJar(tmp_path).find_version() is None


def test_a_jar_that_is_still_being_copied_is_read_when_it_is_whole(tmp_path: Path) -> None:
    whole = write_jar(tmp_path, "AuthMe.jar").read_bytes()
    jar = tmp_path / "AuthMe.jar"
    jar.write_bytes(whole[: len(whole) // 2])
    plugin = PluginJar(tmp_path)
    assert plugin.find_version() is None
    jar.write_bytes(whole)
    assert plugin.find_version() == "5.6.0-beta2"


def test_without_a_folder_there_is_no_version(tmp_path: Path) -> None:
    assert PluginJar(None).find_version() is None
    assert PluginJar(tmp_path / "plugins").find_version() is None
    (tmp_path / "AuthMe.jar").mkdir()
    assert PluginJar(tmp_path).find_version() is None
