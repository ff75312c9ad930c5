"""POST /api/login where limits are those a host starts with, refusals are 200, or hashing is slow."""

from collections import Counter
from functools import partial

import pytest

from tests.support.authme.authme_tables import TableShape
from tests.support.daemon import Reply
from tests.support.refusals import assert_refused, assert_refused_as_200
from tests.support.stack import MakeStack, Stack
from tests.support.together import at_once

LIMIT = 5


def log_in(stack: Stack, username: str, password: str, client: str, **fields: object) -> Reply:
    body = {"username": username, "password": password, **fields}
    return stack.post("/api/login", body, headers={"X-Forwarded-For": client})


@pytest.fixture(scope="module")
def strict(make_stack: MakeStack) -> Stack:
    return make_stack(config={"auth": {"login_limits": ["5 per minute"]}})


def test_a_client_may_try_five_names_a_minute(strict: Stack) -> None:
    alice = strict.pending("alice")
    for number in range(LIMIT):
        assert_refused(log_in(strict, f"nobody{number}", "x", "192.0.2.1"), 401, "bad_credentials")
    reply = log_in(strict, alice.name, alice.password, "192.0.2.1", language="zh")
    payload = assert_refused(reply, 429, "rate_limited", language="zh")
    assert 50 <= payload["remainingSeconds"] <= 60
    assert log_in(strict, alice.name, alice.password, "192.0.2.2").status == 200


def test_an_ipv6_subscriber_with_many_networks_has_four_times_as_many(strict: Stack) -> None:
    alice = strict.pending("alice")
    assert log_in(strict, alice.name, alice.password, "2001:db8:1::1").status == 200  # is not counted
    for number in range(4 * LIMIT):
        reply = log_in(strict, f"nobody{number}", "x", f"2001:db8:1:{number:x}::1")
        assert_refused(reply, 401, "bad_credentials")
    assert_refused(log_in(strict, "nobody", "x", "2001:db8:1:ffff::1"), 429, "rate_limited")
    assert log_in(strict, alice.name, alice.password, "2001:db8:2::1").status == 200


def test_lies_about_the_client_fill_one_bucket(make_stack: MakeStack) -> None:
    stack = make_stack(config={"auth": {"login_limits": ["20 per minute"]}, "http": {"trusted_proxies": []}})
    for number in range(20):
        assert log_in(stack, f"nobody{number}", "x", f"198.51.100.{number}").status == 401
    assert_refused(log_in(stack, "nobody", "x", "198.51.100.99"), 429, "rate_limited")


@pytest.fixture(scope="module")
def softened(make_stack: MakeStack) -> Stack:
    """For a front end that wants 200 for a refusal; its AuthMe table is an old one in latin1."""
    return make_stack("mariadb", config={"http": {"legacy_status": True}}, shape=TableShape.OLD)


@pytest.mark.parametrize("name", ["😀", "İ" * 255, "ŝ", "日本語", "a\u0301"])
def test_a_name_the_table_cannot_hold_is_just_unknown(softened: Stack, name: str) -> None:
    assert_refused_as_200(log_in(softened, name, "password-1", "192.0.2.1"), "bad_credentials")


@pytest.fixture(scope="module")
def slow(make_stack: MakeStack) -> Stack:
    """A stack where a hash takes a quarter of a second, and one request may wait."""
    return make_stack(
        config={"auth": {"max_concurrent_hashes": 1, "max_waiting_hashes": 1}},
        authme={"settings.security.passwordHash": "BCRYPT", "ExternalBoardOptions.bCryptLog2Round": 12},
    )


def test_more_logins_than_can_wait_are_told_to_come_back_at_once(slow: Stack) -> None:
    alice = slow.newcomer("alice")
    logins = [partial(log_in, slow, f"nobody{number}", "x", "192.0.2.1") for number in range(8)]
    replies = at_once(logins)
    assert Counter(reply.status for reply in replies).keys() == {401, 503}
    for reply in replies:
        if reply.status == 503:
            assert_refused(reply, 503, "overloaded")
    assert slow.status(alice) is None
