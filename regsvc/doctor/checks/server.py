"""Checks of the address the companion listens on, and of proxies in front of it."""

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from regsvc.config.places import is_installation
from regsvc.core.addresses import is_loopback, trusted_networks
from regsvc.core.i18n.sentences import Sentence
from regsvc.doctor.facts.facts import Facts, FixLocation, Source
from regsvc.doctor.finding import Check, Severity, check

_LISTEN_LOCALLY: Final = FixLocation(Source.OURS, '[server] host = "127.0.0.1"')


@check(
    "server.exposed",
    Severity.RISKY,
    means="The companion is reachable from other machines without TLS, and http.trusted_proxies is not set.",
    why="Passwords cross the network unencrypted, and clients can bypass the proxy.",
    do="Listen on 127.0.0.1 with a TLS web server in front, or set server.tls_cert_file. "
    "If the proxy is on another machine, add it to http.trusted_proxies.",
    where=_LISTEN_LOCALLY,
)
def port_is_exposed(facts: Facts) -> Iterator[Sentence]:
    server, proxies = facts.config.server, facts.config.http.trusted_proxies
    if is_loopback(server.host) or server.tls_cert_file is not None:
        return
    if proxies in ("auto", ()):
        yield Sentence("server.host is {host}, without a certificate.", host=server.host)


@check(
    "server.foreign_host",
    Severity.BROKEN,
    means="server.host is not an address of this machine.",
    why="The companion does not start (exit status 78).",
    do="Use 127.0.0.1 behind a web server on this machine, or 0.0.0.0 to listen on all addresses.",
    where=_LISTEN_LOCALLY,
)
def host_is_foreign(facts: Facts) -> Iterator[Sentence]:
    host = facts.config.server.host
    if not facts.host.can_listen_on(host):
        yield Sentence("server.host is {host}, which is not an address of this machine.", host=host)


@check(
    "server.port_taken",
    Severity.BROKEN,
    means="Another program listens on our port.",
    why="The companion does not start (exit status 75).",
    do="Choose another port, here and in the config of the proxy.",
    where=FixLocation(Source.OURS, "[server] port"),
)
def port_is_taken(facts: Facts) -> Iterator[Sentence]:
    running_daemon = facts.running_daemon
    if running_daemon is not None and not running_daemon.is_companion:
        yield Sentence("The program at {address} is not a companion.", address=running_daemon.address)


@check(
    "server.other_installation",
    Severity.BROKEN,
    means="The companion on our port serves another installation than the one in our state directory.",
    why="Either that daemon is meant, and commands and checks with this config are about other data; or it belongs to "
    "another server, and ours does not start (exit status 75).",
    do="Use the config and the state directory of that daemon (--config, -i NAME, server.state_dir), or give each "
    "server a port of its own.",
    where=FixLocation(Source.OURS, "[server] port, state_dir"),
)
def port_has_other_installation(facts: Facts) -> Iterator[Sentence]:
    running_daemon, state_dir = facts.running_daemon, facts.config.server.state_dir
    if running_daemon is not None and running_daemon.is_other:
        address = running_daemon.address
        if is_installation(state_dir):
            yield Sentence(
                "The companion at {address} serves another installation than the one in {folder}.",
                address=address,
                folder=state_dir,
            )
        else:
            yield Sentence(
                "The companion at {address} serves an installation, but there is none in {folder}.",
                address=address,
                folder=state_dir,
            )


@check(
    "server.no_base_url",
    Severity.RISKY,
    means="Links in mails lead to localhost: server.base_url is empty, or a loopback address.",
    why="Players who follow such a link are sent to their own computer.",
    do="Set it to the address at which players reach the companion.",
    where=FixLocation(Source.OURS, '[server] base_url = "https://play.example.org"'),
)
def links_lead_nowhere(facts: Facts) -> Iterator[Sentence]:
    base_url = facts.config.base_url()
    if facts.sends_mail and is_loopback(urlsplit(base_url).hostname or ""):
        yield Sentence("Links in mails begin with {base_url}.", base_url=base_url)


@check(
    "server.plain_http",
    Severity.RISKY,
    means="Players reach the companion without TLS: server.base_url begins with http://.",
    why="Passwords, tokens and links from mails cross the network unencrypted.",
    do="Put a TLS web server in front, or set server.tls_cert_file, and use https:// here.",
    where=FixLocation(Source.OURS, '[server] base_url = "https://…"'),
)
def address_is_plain(facts: Facts) -> Iterator[Sentence]:
    parts = urlsplit(facts.config.server.base_url)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        yield Sentence("server.base_url is {base_url}.", base_url=facts.config.server.base_url)


@check(
    "server.proxy_not_trusted",
    Severity.RISKY,
    means="There is a proxy in front that http.trusted_proxies does not include.",
    why="All players look like one client: they share their rate limits, and one attacker slows all logins down.",
    do='Use "auto" for a proxy on this machine, or list the addresses of the proxies.',
    where=FixLocation(Source.OURS, '[http] trusted_proxies = "auto"'),
)
def proxy_is_not_trusted(facts: Facts) -> Iterator[Sentence]:
    server, proxies = facts.config.server, facts.config.http.trusted_proxies
    if is_loopback(server.host):
        trusted = trusted_networks(proxies, server.host)
        # clients of a port on loopback are on this machine
        if not any(ip_address(own) in network for own in ("127.0.0.1", "::1") for network in trusted):
            yield Sentence(
                "server.host is {host}, so clients come through a local proxy, which is not trusted.", host=server.host
            )
    elif proxies == () and server.tls_cert_file is None and server.base_url.startswith("https:"):
        yield Sentence(
            "server.base_url is https and the companion has no certificate, so there is a proxy, but none is trusted."
        )


CHECKS: Final[tuple[Check, ...]] = (
    *(port_is_exposed, host_is_foreign, port_is_taken, port_has_other_installation),
    *(links_lead_nowhere, address_is_plain, proxy_is_not_trusted),
)
