"""Public and private IP addresses."""

import pytest

from regsvc.core.addresses import is_public
from regsvc.core.http_client import PublicResolver
from regsvc.core.http_response import PrivateAddress


@pytest.mark.parametrize("address", ["1.1.1.1", "162.159.137.232", "2606:4700::6810:84e5", "64:ff9b::1.1.1.1"])
def test_these_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.9.10",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.178.1",
        "169.254.169.254",
        "100.64.0.1",
        "192.0.2.1",
        "198.18.0.1",
        "224.0.0.1",
        "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fe80::1%lo",
        "fc00::1",
        "fd12:3456::1",
        "fec0::1",
        "ff02::1",
        "2001:db8::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::127.0.0.1",
        "64:ff9b::127.0.0.1",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2002:c0a8:101::1",
        "2001:0:7f00:1::",
    ],
)
def test_these_are_not(address: str) -> None:
    assert not is_public(address)


async def test_a_host_name_of_this_machine_is_refused() -> None:
    with pytest.raises(PrivateAddress):
        await PublicResolver().resolve("localhost", 80)
