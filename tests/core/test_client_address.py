"""Client addresses: trusted networks, forwarded hops and the keys of rate limits."""

from ipaddress import IPv4Network, IPv6Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regsvc.core.addresses import LOOPBACK, client_address, limit_key, trusted_networks

TRUSTED = (*LOOPBACK, IPv4Network("10.0.0.0/8"), IPv6Network("2001:db8:ffff::/48"))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_a_proxy_on_this_machine_is_trusted_while_only_it_can_reach_us(host: str) -> None:
    assert trusted_networks("auto", host) == LOOPBACK


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_no_proxy_is_trusted_while_any_client_can_reach_us(host: str) -> None:
    assert trusted_networks("auto", host) == ()


def test_a_list_of_proxies_is_taken_as_it_is() -> None:
    assert trusted_networks(TRUSTED, "0.0.0.0") == TRUSTED
    assert trusted_networks((), "127.0.0.1") == ()


def test_without_proxies_the_socket_decides() -> None:
    assert client_address("127.0.0.1", ["192.0.2.7"], ()) == "127.0.0.1"


def test_a_client_cannot_choose_its_address() -> None:
    seen = {client_address("198.51.100.9", [f"192.0.2.{n}"], TRUSTED) for n in range(256)}
    assert seen == {"198.51.100.9"}


@pytest.mark.parametrize(
    ("lines", "client"),
    [
        pytest.param([], "127.0.0.1", id="nothing was forwarded"),
        pytest.param([""], "127.0.0.1", id="an empty line"),
        pytest.param(["192.0.2.7"], "192.0.2.7", id="one hop"),
        pytest.param(["203.0.113.5, 192.0.2.7"], "192.0.2.7", id="what stands left of the client is hearsay"),
        pytest.param(["192.0.2.7, 10.1.1.1,10.2.2.2"], "192.0.2.7", id="a chain of our own proxies"),
        pytest.param(["203.0.113.5", "192.0.2.7", "10.1.1.1"], "192.0.2.7", id="several lines are one list"),
        pytest.param(["10.1.1.1, 10.2.2.2"], "10.1.1.1", id="a client in our own network"),
        pytest.param(["192.0.2.7, unknown"], "127.0.0.1", id="a hop that hides"),
        pytest.param(["192.0.2.7, garbage, 10.1.1.1"], "10.1.1.1", id="garbage ends at who reported it"),
        pytest.param(["192.0.2.7,"], "127.0.0.1", id="an empty hop"),
        pytest.param(["192.0.2.7:51000"], "192.0.2.7", id="a port"),
        pytest.param(["[2001:db8::7]:51000"], "2001:db8::7", id="IPv6 with a port"),
        pytest.param(["[2001:db8::7]"], "2001:db8::7", id="IPv6 in brackets"),
        pytest.param(["2001:DB8:0::7"], "2001:db8::7", id="another spelling"),
        pytest.param(["::ffff:192.0.2.7"], "192.0.2.7", id="IPv4 in IPv6"),
        pytest.param(["192.0.2.7, ::ffff:10.1.1.1"], "192.0.2.7", id="a trusted proxy in that form"),
        pytest.param(["192.0.2.7, 2001:db8:ffff::1"], "192.0.2.7", id="a trusted proxy with IPv6"),
        pytest.param(["192.0.2.7:port"], "127.0.0.1", id="a port that is none"),
        pytest.param(["010.0.0.1"], "127.0.0.1", id="an octal address"),
        pytest.param(["192.0.2.7\x00"], "127.0.0.1", id="a NUL"),
    ],
)
def test_behind_a_proxy_the_rightmost_untrusted_hop_is_the_client(lines: list[str], client: str) -> None:
    assert client_address("127.0.0.1", lines, TRUSTED) == client


def test_a_peer_may_be_an_ipv4_client_of_an_ipv6_socket() -> None:
    assert client_address("::ffff:127.0.0.1", ["192.0.2.7"], TRUSTED) == "192.0.2.7"


def test_a_socket_without_addresses_keeps_its_text() -> None:
    assert client_address("unix", ["192.0.2.7"], TRUSTED) == "unix"
    assert limit_key("unix") == "unix"


@given(st.lists(st.text()))
def test_no_header_is_an_error(lines: list[str]) -> None:
    assert client_address("127.0.0.1", lines, TRUSTED)


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_limits_count_a_subscriber_once(address: str, key: str) -> None:
    assert limit_key(address) == key
