"""Signals: facts about an applicant that a reviewer wants to know before deciding. None of them refuses anybody."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address
from operator import or_
from typing import Any, Final, Literal

from regsvc.database.models import BANNED, REJECTED, User

_MAX_NEIGHBOURS: Final = 2000  # of the users of one page together
_SHOWN: Final = 5
_FIRST: Final = {BANNED: 0, REJECTED: 1}
Kind = Literal["same_address", "same_network"]
Network = IPv4Network | IPv6Network


@dataclass(frozen=True)
class Neighbour:
    """Another user whom a signal is about."""

    username: str
    status: str


@dataclass(frozen=True)
class Signal:
    """Others who registered from the same address, or from its IPv4 /24 or IPv6 /64.

    `users` are the first of `count`: banned ones, then rejected ones, then the newest. The count is a lower bound where
    a network has thousands of users.
    """

    kind: Kind
    count: int
    users: tuple[Neighbour, ...]


def find_signals(users: Sequence[Any]) -> dict[int, tuple[Signal, ...]]:
    """Return signals by user id, with one statement, for rows with `id` and `registration_ip`."""
    networks = {user.id: network for user in users if (network := _network_of(user.registration_ip)) is not None}
    if not networks:
        return {}
    ranges = {span for network in networks.values() for span in _text_ranges(network)}
    column = User.registration_ip
    is_near = reduce(or_, ((column >= first) & (column < end) for first, end in sorted(ranges)))
    fields = (User.id, User.username, User.status, column)
    near: dict[Network, list[Any]] = {}
    for row in User.select(*fields).where(is_near).limit(_MAX_NEIGHBOURS):
        network = _network_of(row.registration_ip)
        if network is not None:
            near.setdefault(network, []).append(row)
    return {user.id: tuple(_signals_of(user, near.get(networks[user.id], ()))) for user in users if user.id in networks}


def _signals_of(user: Any, near: Sequence[Any]) -> Iterator[Signal]:
    others = [row for row in near if row.id != user.id]
    others.sort(key=lambda row: (_FIRST.get(row.status, 2), -row.id))
    same = [row for row in others if row.registration_ip == user.registration_ip]
    kinds: tuple[tuple[Kind, list[Any]], ...] = (
        ("same_address", same),
        ("same_network", [row for row in others if row.registration_ip != user.registration_ip]),
    )
    for kind, found in kinds:
        if found:
            shown = tuple(Neighbour(row.username, row.status) for row in found[:_SHOWN])
            yield Signal(kind, len(found), shown)


def _network_of(written: str | None) -> Network | None:
    """Return the network of an address; None without one, and for loopback, where a proxy hides the addresses."""
    try:
        address = ip_address(written or "")
    except ValueError:
        return None
    if address.is_loopback:
        return None
    if isinstance(address, IPv4Address):
        return IPv4Network((int(address), 24), strict=False)
    return IPv6Network((int(address), 64), strict=False)


def _text_ranges(network: Network) -> Iterator[tuple[str, str]]:
    """Return ranges of texts among which are the addresses of the network, so that the column's index finds them."""
    first = network.network_address
    if isinstance(first, IPv4Address):
        start = str(first).rpartition(".")[0]
        yield f"{start}.", f"{start}/"  # the character after the dot
        return
    groups = [f"{int(group, 16):x}" for group in first.exploded.split(":")[:4]]
    starts = {":".join(groups)}
    for begin in range(4):  # zeros may be left out, of the network alone or together with those of the host
        for end in range(begin + 1, 5):
            if set(groups[begin:end]) == {"0"} and (end == 4 or end - begin > 1):
                starts.add(":".join(groups[:begin]) + ":" + "".join(f":{group}" for group in groups[end:]))
    for start in starts:
        yield f"{start}:", f"{start};"  # the character after the colon
