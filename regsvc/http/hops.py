"""Observation of the proxies, tunnels and CDNs in front: whether they name the clients to us.

A client may send any header, so what strangers can forge raises nothing: what counts is how the machines that connect
to us, or Cloudflare's, behave in nearly all requests. No hint says to trust a header, or an address of the Internet.
"""

from __future__ import annotations

import json
import logging
import math
import socket
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import lru_cache
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from regsvc.config.live import LiveConfig
from regsvc.config.sections import Config
from regsvc.core.addresses import LOOPBACK, Network, client_address, is_in_networks, is_loopback

log = logging.getLogger(__name__)

_NOTE: Final = "last-hops.json"
_CDN_HEADERS: Final = ("Cf-Connecting-Ip", "True-Client-Ip", "Fly-Client-Ip", "Fastly-Client-Ip", "X-Azure-Clientip")
_NAMING_HEADERS: Final = (*_CDN_HEADERS, "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "Forwarded")
"""In which CDNs and proxies name the client. Of several in a request the first is told."""
_OTHER_HEADERS: Final = ("X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Server", "Via")
"""Of proxies, without the client's address."""
_COUNTING_HEADER: Final = "X-Forwarded-For"
_HEADERS: Final = frozenset((_COUNTING_HEADER, *_NAMING_HEADERS, *_OTHER_HEADERS))
_PREFIXES: Final = (
    "x-forwarded",
    "x-original-",
    "x-envoy-",
    "x-from-where",
    "cf-",
    "cdn-",
    "fly-",
    "ngrok-",
    "tailscale-",
)
"""Of further headers with which something on the way says that it is there."""
_PROBED: Final = ("/metrics", "/health/")

_CLOUDFLARE: Final = """
    173.245.48.0/20 103.21.244.0/22 103.22.200.0/22 103.31.4.0/22 141.101.64.0/18 108.162.192.0/18 190.93.240.0/20
    188.114.96.0/20 197.234.240.0/22 198.41.128.0/17 162.158.0.0/15 104.16.0.0/13 104.24.0.0/14 172.64.0.0/13
    131.0.72.0/22 2400:cb00::/32 2606:4700::/32 2803:f800::/32 2405:b500::/32 2405:8100::/32 2a06:98c0::/29
    2c0f:f248::/32
"""
CLOUDFLARE: Final[tuple[Network, ...]] = tuple(map(ip_network, _CLOUDFLARE.split()))
"""The networks that Cloudflare connects from, as https://www.cloudflare.com/ips lists them."""

_PRIVATE: Final = "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 169.254.0.0/16 fc00::/7 fe80::/10"
_NEAR: Final[tuple[Network, ...]] = (*LOOPBACK, *map(ip_network, _PRIVATE.split()))
_MAX_HOPS: Final = 16
_MAX_SIGNS: Final = 16  # of one hop
_HALVED_AT: Final = 128
"""Requests of a hop after which all its counts are halved: older ones count for less and less."""
_ENOUGH: Final = 5
"""Requests that are no coincidence, through a machine that no stranger can be."""
_ENOUGH_OF_STRANGERS: Final = 20
_NEARLY_ALL: Final = 0.9
_FORGOTTEN_AFTER: Final = 3600.0
"""Seconds after the last request through a tunnel. Not a share: its clients can also send what looks well proxied."""
_WARNING_INTERVAL: Final = 60.0


class Relayed(NamedTuple):
    """Address of a client that a PROXY header has named, in place of the socket's."""

    host: str
    port: int = 0


@lru_cache(maxsize=256)
def is_near(address: str) -> bool:
    """Return whether an address is of this machine or a private network: no stranger connects to us from there."""
    return is_in_networks(address, _NEAR)


def is_relayed(connection: object) -> bool:
    """Return whether a PROXY header has named the client of a connection of Tornado's server."""
    return isinstance(getattr(getattr(connection, "context", None), "address", None), Relayed)


class HintKind(StrEnum):
    """Kinds of hints: ways in which clients are hidden from us. The values are those of the note."""

    TUNNEL = "tunnel"
    """A machine near us passes on requests for a public name, and names nobody."""
    OTHER_HEADER = "other_header"
    """A proxy names the client in a header that does not count, or says only that it is one."""
    UNTRUSTED = "untrusted"
    """A proxy sends X-Forwarded-For, and is none of `http.trusted_proxies`."""
    INNER = "inner"
    """So does one behind a trusted proxy."""
    CLOUDFLARE = "cloudflare"
    """Machines of Cloudflare count as clients."""
    CDN = "cdn"
    """So do those of another CDN, as nearly all requests say."""
    HEADER_OFF = "header_off"
    """Connections begin with a PROXY header, and `http.proxy_protocol` is off."""
    HEADER_MISSING = "header_missing"
    """Connections of a trusted proxy begin without one, and it is on."""


_SHARES: Final[Mapping[HintKind, tuple[int, float]]] = {
    HintKind.OTHER_HEADER: (_ENOUGH, _NEARLY_ALL),
    HintKind.UNTRUSTED: (_ENOUGH, _NEARLY_ALL),
    HintKind.INNER: (_ENOUGH, _NEARLY_ALL),
    HintKind.CLOUDFLARE: (_ENOUGH, 0.5),
    HintKind.CDN: (_ENOUGH_OF_STRANGERS, _NEARLY_ALL),
    HintKind.HEADER_OFF: (_ENOUGH, _NEARLY_ALL),
    HintKind.HEADER_MISSING: (_ENOUGH, 0.0),
}
"""How many requests of a hop, and which share of them, make a kind of hint a conclusion."""


@dataclass(frozen=True, order=True)
class Hint:
    """One conclusion. `address`: the hop that hides clients, "": many; `header`: what it sends instead, or ""."""

    kind: HintKind
    address: str = ""
    header: str = ""


@dataclass(slots=True)
class _Hop:
    """Requests through one machine that connects to us, by what they show; None: all is well."""

    counts: dict[Hint | None, int] = field(default_factory=dict)
    total: int = 0
    tunnelled: int = 0
    tunnelled_at: float = -math.inf

    def count(self, hint: Hint | None) -> int:
        """Count a request; return how many show the same."""
        if hint not in self.counts and len(self.counts) >= _MAX_SIGNS:
            return 0
        self.counts[hint] = count = self.counts.get(hint, 0) + 1
        self.total += 1
        if self.total >= _HALVED_AT:
            self.counts = {shown: count // 2 for shown, count in self.counts.items() if count > 1}
            self.total = sum(self.counts.values())
        return count

    def conclude(self) -> Iterator[Hint]:
        """Yield what the requests show, but for a tunnel."""
        for kind, (least, share) in _SHARES.items():
            shown = {hint: count for hint, count in self.counts.items() if hint is not None and hint.kind is kind}
            if not shown or sum(shown.values()) < share * self.total:
                continue
            for address in {hint.address for hint in shown}:
                counts = {hint: count for hint, count in shown.items() if hint.address == address}
                if sum(counts.values()) >= (
                    least if address or kind is not HintKind.UNTRUSTED else _ENOUGH_OF_STRANGERS
                ):
                    yield max(counts, key=lambda hint: counts[hint])


class HopWatch:
    """Watch on the hops of recent requests, in bounded memory. For the event loop, but for `hints` and `store`."""

    def __init__(self, live: LiveConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._live = live
        self._clock = clock
        self._hops: dict[str, _Hop] = {}
        self._trusted: Sequence[Network] | None = None
        self._stored: tuple[Hint, ...] | None = None
        self._warned_at: dict[HintKind, float] = {}
        self.hints: tuple[Hint, ...] = ()
        """The conclusions. Replaced as a whole: any thread may read it."""
        self.on_news: Callable[[], object] = tuple
        """Called when the conclusions have changed."""

    def observe(
        self, path: str, headers: Mapping[str, str], peer: str, client: str, trusted: Sequence[Network]
    ) -> None:
        """Take notice of a request: the socket's address, the client's as it counts, the trusted networks."""
        if path.startswith(_PROBED):  # by programs that watch this process
            return
        if trusted is not self._trusted:
            if self._trusted is not None:  # the config has changed
                self._hops = {}
                self._conclude()
            self._trusted = trusted
        peer = client_address(peer, (), ())
        is_known = is_near(peer) or is_in_networks(peer, trusted)
        found = _HEADERS.intersection(headers)
        hint: Hint | None = None
        if "Cf-Connecting-Ip" in found and is_in_networks(client, CLOUDFLARE):
            hint = Hint(HintKind.CLOUDFLARE)
        elif client != peer:
            if is_near(client) and headers[_COUNTING_HEADER].partition(",")[0].strip() != client:
                hint = Hint(HintKind.INNER, client)
            elif header := _first(_CDN_HEADERS, found):
                hint = Hint(HintKind.CDN, "", header)
        elif not is_known:
            if header := _first((_COUNTING_HEADER, *_NAMING_HEADERS), found):
                hint = Hint(HintKind.UNTRUSTED, "", header)
        elif _COUNTING_HEADER in found:
            hint = None if is_in_networks(peer, trusted) else Hint(HintKind.UNTRUSTED, peer, _COUNTING_HEADER)
        elif found:
            hint = Hint(HintKind.OTHER_HEADER, peer, _first((*_NAMING_HEADERS, *_OTHER_HEADERS), found))
        elif is_for_others(headers, self._live.current):
            hint = Hint(HintKind.TUNNEL, peer)
        else:
            return  # a client on this machine, or in its network
        self._count(peer if is_known else "", hint)

    def note_header(self, kind: HintKind, peer: str) -> None:
        """Take notice of a connection with a PROXY header too many or too few; say so once a minute."""
        self._count(peer, Hint(kind, peer))
        now = self._clock()
        if now - self._warned_at.get(kind, -math.inf) >= _WARNING_INTERVAL:
            self._warned_at[kind] = now
            log.warning(_WARNINGS[kind], peer)

    def recall(self, state_dir: Path) -> None:
        """Count what an earlier process found a tunnel on this machine as one, before requests come. Blocking."""
        try:
            hints = read_hints(state_dir)
        except OSError as error:
            log.warning("what is known about the proxies in front cannot be read: %s", error.strerror)
            return
        tunnels = [hint for hint in hints if hint.kind is HintKind.TUNNEL and is_loopback(hint.address)]
        for hint in tunnels:
            self._hops[hint.address] = _Hop(tunnelled=_ENOUGH, tunnelled_at=self._clock())
        self._conclude(*tunnels)

    def has_tunnel(self) -> bool:
        """Return whether connections from loopback addresses are those of clients elsewhere."""
        return any(is_loopback(peer) and self._is_tunnel(hop) for peer, hop in self._hops.items())

    def hides_clients(self, address: str) -> bool:
        """Return whether the address, which counts as a client's, is that of a tunnel or of Cloudflare."""
        return address in self._live.hops or (
            Hint(HintKind.CLOUDFLARE) in self.hints and is_in_networks(address, CLOUDFLARE)
        )

    def store(self, state_dir: Path) -> None:
        """Store the conclusions, for the doctor of any process, if they have changed. Blocking. Raises OSError."""
        hints = self.hints
        if hints == self._stored:
            return
        draft = state_dir / f".{_NOTE}.new"
        draft.write_text(json.dumps([asdict(hint) for hint in hints]), encoding="utf-8")
        draft.replace(state_dir / _NOTE)
        self._stored = hints

    def _count(self, peer: str, hint: Hint | None) -> None:
        if peer not in self._hops and len(self._hops) >= _MAX_HOPS:
            if not is_loopback(peer):
                return
            del self._hops[next(iter(self._hops))]  # a tunnel on this machine must not be overlooked
        hop = self._hops.setdefault(peer, _Hop())
        if hint is not None and hint.kind is HintKind.TUNNEL:
            now = self._clock()
            hop.tunnelled = hop.tunnelled + 1 if now - hop.tunnelled_at < _FORGOTTEN_AFTER else 1
            hop.tunnelled_at = now
        count = hop.count(hint)
        is_news = hint is not None and count >= _ENOUGH and hint not in self.hints
        if is_news or hop.total % _ENOUGH_OF_STRANGERS == 0:
            tunnels = {Hint(HintKind.TUNNEL, peer) for peer, hop in self._hops.items() if self._hides_all(peer, hop)}
            others = {hint for hop in self._hops.values() for hint in hop.conclude()}
            self._conclude(*sorted(tunnels | others))

    def _conclude(self, *hints: Hint) -> None:
        if hints != self.hints:
            self.hints = hints
            # not where a client can make it so with a header: that would be a way around its limits
            self._live.hops = frozenset(hint.address for hint in hints if hint.kind is HintKind.TUNNEL)
            self.on_news()

    def _is_tunnel(self, hop: _Hop) -> bool:
        return hop.tunnelled >= _ENOUGH and self._clock() - hop.tunnelled_at < _FORGOTTEN_AFTER

    def _hides_all(self, peer: str, hop: _Hop) -> bool:
        """Whether requests come through a tunnel: on this machine, or from what must be a gateway, as Docker's."""
        if is_loopback(peer) or not self._is_tunnel(hop):
            return self._is_tunnel(hop)
        is_gateway = int(ip_address(peer)) & 0xFF in (1, 2)  # other addresses may be players in the same network
        total = sum(other.total for other in self._hops.values())
        return is_gateway and total >= _ENOUGH_OF_STRANGERS and hop.total >= _NEARLY_ALL * total


_WARNINGS: Final[Mapping[HintKind, str]] = {
    HintKind.HEADER_OFF: "a connection from %s begins with a PROXY protocol header: if the proxy or tunnel there "
    "sends it, set http.proxy_protocol = true; this is logged once a minute",
    HintKind.HEADER_MISSING: "closing a connection from %s, one of http.trusted_proxies: it begins without a valid "
    "PROXY protocol header, which http.proxy_protocol requires; this is logged once a minute",
}


def read_hints(state_dir: Path) -> tuple[Hint, ...]:
    """Return the conclusions that a daemon stored last; empty if there are none. Raises OSError."""
    try:
        stored = json.loads((state_dir / _NOTE).read_text("utf-8"))
        return tuple(Hint(HintKind(each["kind"]), str(each["address"]), str(each["header"])) for each in stored)
    except (FileNotFoundError, ValueError, LookupError, TypeError):  # the daemon stores it anew after its start
        return ()


def is_direct(headers: Iterable[str]) -> bool:
    """Return whether no header says that a proxy, a tunnel or a CDN has passed the request on."""
    return not any(name in _HEADERS or name.lower().startswith(_PREFIXES) for name in headers)


def is_for_this_machine(host: str, config: Config) -> bool:
    """Return whether a `Host` header is a name of this machine for itself, and not the public one."""
    name = _name_of(host)
    if name == _public_name(config.server.base_url):
        return False
    return (
        is_loopback(name) or name.endswith(".localhost") or name in (config.server.host, socket.gethostname().lower())
    )


def is_for_others(headers: Mapping[str, str], config: Config) -> bool:
    """Return whether a request is for a name or address by which other machines know us, as far as its headers say."""
    public, name = _public_name(config.server.base_url), _name_of(headers.get("Host", ""))
    if name == public:
        return True
    if public and any(_host_of(headers.get(header, "")) == public for header in ("Origin", "Referer")):
        return True  # nginx replaces Host, if it is not told otherwise
    is_local = is_near(name) or not {".", ":"} & set(name) or name.endswith(_LOCAL_DOMAINS)
    return not (is_local or name == socket.gethostname().lower())


_LOCAL_DOMAINS: Final = (".localhost", ".local", ".lan", ".internal", ".home.arpa")


@lru_cache(maxsize=4)  # asked at every request, and always the same
def _public_name(base_url: str) -> str:
    """Return the host of `server.base_url`; "" if only this machine knows it."""
    name = _host_of(base_url)
    return "" if is_loopback(name) else name


def _host_of(address: str) -> str:
    """Return the host of a web address in lower case; "" if it has none."""
    try:
        return (urlsplit(address).hostname or "").rstrip(".")
    except ValueError:
        return ""


def _name_of(host: str) -> str:
    """Return the name or the address in a `Host` header, without port and brackets, in lower case."""
    return _host_of(f"//{host}")


def _first(names: Iterable[str], found: Collection[str]) -> str:
    return next((name for name in names if name in found), "")
