"""Values that AuthMe silently ignores in its config.yml are collected, so that the host can be told."""

from pathlib import Path

import pytest

from plugin_bridge.authme.config import (
    LEGACY_HASHES_KEY,
    PASSWORD_HASH_KEY,
    AuthMeConfig,
    ConfigDocument,
    IgnoredValue,
    read_authme_config,
)


def ignored(folder: Path, text: str) -> tuple[IgnoredValue, ...]:
    path = folder / "config.yml"
    path.write_text(text, encoding="utf-8")
    config = read_authme_config(path)
    assert config == AuthMeConfig(source=path, legacy_hashes=config.legacy_hashes)
    return config.ignored


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("DataSource: {caching: 'false'}", "DataSource.caching"),
        ("DataSource: {caching: no thanks}", "DataSource.caching"),
        ("DataSource: {mySQLHost: 2026-01-02}", "DataSource.mySQLHost"),
        ("Purge: {daysBeforeRemovePlayer: '5'}", "Purge.daysBeforeRemovePlayer"),
        ("settings: {security: {pbkdf2Rounds: .nan}}", "settings.security.pbkdf2Rounds"),
        ("settings: {security: {legacyHashes: MD5}}", LEGACY_HASHES_KEY),
        ("settings: {security: {passwordHash: [MD5]}}", PASSWORD_HASH_KEY),
    ],
)
def test_a_value_of_another_kind(tmp_path: Path, text: str, key: str) -> None:
    assert ignored(tmp_path, text) == (IgnoredValue(key),)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("settings: {security: {passwordHash: md5}}", IgnoredValue(PASSWORD_HASH_KEY, "md5")),
        ("settings: {security: {passwordHash: Whirlpool}}", IgnoredValue(PASSWORD_HASH_KEY, "Whirlpool")),
    ],
)
def test_an_algorithm_that_authme_replaces(tmp_path: Path, text: str, value: IgnoredValue) -> None:
    assert ignored(tmp_path, text) == (value,)


def test_what_is_missing_or_empty_is_not_ignored(tmp_path: Path) -> None:
    assert ignored(tmp_path, "DataSource: {caching: , mySQLColumnSalt: ''}\nunknown: 1") == ()


def test_a_secret_is_not_repeated(tmp_path: Path) -> None:
    assert "hunter2" not in repr(ignored(tmp_path, "DataSource: {mySQLPassword: [[hunter2]]}"))


def test_numbers_are_cut_as_java_cuts_them() -> None:
    document = ConfigDocument({"a": 20.9, "b": True, "c": 2**32 + 5, "d": 1e300})
    assert [document.number(key, 7) for key in "abcd"] == [20, 7, 5, 2**31 - 1]
    assert document.ignored == [IgnoredValue("b")]
