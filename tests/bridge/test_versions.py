"""Comparing versions."""

import pytest

from plugin_bridge.server.versions import (
    PUBLIC_HOLES,
    Affected,
    ProxyLogins,
    find_proxy_logins,
    find_public_holes,
    find_version,
    is_newer,
)

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


@pytest.mark.parametrize(
    ("version", "affected"),
    [
        ("5.3.2", Affected.REPORTED),
        ("5.7.0", Affected.REPORTED),
        ("5.7.0-FORK-b53", Affected.REPORTED),
        ("6.0.1-FORK", Affected.REPORTED),
        ("6.0.0-SNAPSHOT", Affected.SURELY),
        ("6.0.0-R1", Affected.SURELY),
        ("6.0.0-b2734", Affected.SURELY),
        ("6.0.0", Affected.SURELY),
        ("6.0.1-SNAPSHOT-b2762", Affected.PERHAPS),
        ("6.0.1", None),
        ("6.0.1-b2801", None),
        ("6.1.0-SNAPSHOT", None),
    ],
)
def test_a_version_has_a_public_hole_or_may_have_it(version: str, affected: Affected | None) -> None:
    [hole] = [hole for hole in PUBLIC_HOLES if hole.id == "shared-login"]
    assert find_public_holes(version) == ([] if affected is None else [(hole, affected)])


@pytest.mark.parametrize("version", [None, "", "latest", "FORK"])
def test_holes_of_an_unknown_version_cannot_be_told(version: str | None) -> None:
    assert find_public_holes(version) is None


@pytest.mark.parametrize(
    ("version", "logins"),
    [
        ("5.6.0-beta2", (ProxyLogins.TAKES_ANY, True)),
        ("5.7.0-FORK-b53", (ProxyLogins.TAKES_ANY, True)),
        ("6.0.0-R1", (ProxyLogins.TAKES_EMPTY_KEY, True)),
        ("6.0.0-b2734", (ProxyLogins.TAKES_EMPTY_KEY, True)),
        ("6.0.1-SNAPSHOT", (ProxyLogins.TAKES_EMPTY_KEY, False)),
        ("6.0.1", (ProxyLogins.REFUSES, True)),
        ("6.2", (ProxyLogins.REFUSES, True)),
    ],
)
def test_unsigned_logins_of_a_proxy_are_the_versions_matter(version: str, logins: tuple[ProxyLogins, bool]) -> None:
    assert find_proxy_logins(version, has_key=True) == find_proxy_logins(version, has_key=False) == logins


def test_where_the_version_is_unknown_the_key_tells_it() -> None:
    assert find_proxy_logins(None, has_key=True) == (ProxyLogins.TAKES_EMPTY_KEY, False)
    assert find_proxy_logins(None, has_key=False) == (ProxyLogins.TAKES_ANY, False)
