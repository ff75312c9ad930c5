"""Comparing versions."""

import pytest

from plugin_bridge.server.versions import find_version, is_newer

IN_ORDER = [
    "0.9",
    "1.2.0-alpha",
    "1.2.0-beta2",
    "1.2.0-beta10",
    "1.2-rc1",
    "1.2.0-SNAPSHOT",
    "v1.2",
    "1.2.1",
    "1.10",
    "5.6.0-beta2",
    "5.6.0",
    "5.7.0-SNAPSHOT",
    "5.7.0",
    "6.0.1",
]


def test_each_is_newer_than_those_before_it() -> None:
    for place, version in enumerate(IN_ORDER):
        for older in IN_ORDER[:place]:
            assert is_newer(version, older), f"{version} > {older}"
            assert not is_newer(older, version), f"{older} < {version}"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1.2", "v1.2.0"),
        ("5.6.0-beta2", "5.6.0-beta2-b2453"),
        ("1.2.3", "1.2.3+build.7"),
        ("5.6.0-FORK-b50", "5.6.0"),
        ("5.6.0-b2453", "5.6.0"),
        ("5.7.0-SNAPSHOT", "5.7.0-SNAPSHOT-b12"),
    ],
)
def test_neither_is_newer(one: str, other: str) -> None:
    assert not is_newer(one, other)
    assert not is_newer(other, one)


@pytest.mark.parametrize(
    "written", ["", "latest", "release-1.2", "1.2.", "1..2", "9" * 65, "1" + "0" * 10, "１.２ beta"]
)
def test_text_that_is_not_a_version_is_neither_newer_nor_older(written: str) -> None:
    assert not is_newer(written, "1.0")
    assert not is_newer("999", written)


def test_an_unknown_version_says_nothing() -> None:
    assert not is_newer("2.0", None)
    assert not is_newer(None, "1.0")


def test_long_junk_is_parsed_in_linear_time() -> None:
    assert find_version("1." * 100_000) is None
