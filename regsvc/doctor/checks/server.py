"""Where the companion listens, and how players and proxies reach it."""

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from regsvc.core.addresses import is_loopback, trusted_networks
from regsvc.doctor.facts.facts import Facts, FixLocation, Source
from regsvc.doctor.finding import Check, Severity, check

_LISTEN_LOCALLY: Final = FixLocation(Source.OURS, '[server] host = "127.0.0.1"')


@check(
    "server.exposed",
    Severity.RISKY,
    means="The companion listens on more than this machine without TLS, and names no proxies (http.trusted_proxies).",
    why="Passwords cross the network in clear, and whoever reaches the port goes past the proxy.",
    do="Listen on 127.0.0.1 with a web server with TLS in front, or set server.tls_cert_file. "
    "If the proxy is another machine, name it in http.trusted_proxies.",
    where=_LISTEN_LOCALLY,
)
def port_is_exposed(facts: Facts) -> Iterator[str]:
    server, proxies = facts.config.server, facts.config.http.trusted_proxies
    if is_loopback(server.host) or server.tls_cert_file is not None:
        return
    if proxies in ("auto", ()):
        yield f"server.host is {server.host}, without a certificate."


@check(
    "server.port_taken",
    Severity.BROKEN,
    means="Another program listens on our port.",
    why="The companion does not start (exit status 75).",
    do="Choose another port, and tell the proxy in front.",
    where=FixLocation(Source.OURS, "[server] port"),
)
def port_is_taken(facts: Facts) -> Iterator[str]:
    running_daemon = facts.running_daemon
    if running_daemon is not None and not running_daemon.is_ours:
        yield f"What answers at {running_daemon.address} is not a companion."


@check(
    "server.no_base_url",
    Severity.RISKY,
    means="Mailed links lead to this machine itself: server.base_url is empty, or a loopback address.",
    why="Players who follow the link in a mail end up at their own computer.",
    do="Set it to the address players reach the companion at.",
    where=FixLocation(Source.OURS, '[server] base_url = "https://play.example.org"'),
)
def links_lead_nowhere(facts: Facts) -> Iterator[str]:
    base_url = facts.config.base_url()
    if facts.sends_mail and is_loopback(urlsplit(base_url).hostname or ""):
        yield f"Links in mails begin with {base_url}."


@check(
    "server.plain_http",
    Severity.RISKY,
    means="Players reach the companion without TLS: server.base_url begins with http://.",
    why="Passwords and tokens cross the network in clear, and mailed links work for whoever reads them on the way.",
    do="Put a web server with TLS in front, or set server.tls_cert_file, and write https:// here.",
    where=FixLocation(Source.OURS, '[server] base_url = "https://…"'),
)
def address_is_plain(facts: Facts) -> Iterator[str]:
    parts = urlsplit(facts.config.server.base_url)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        yield f"server.base_url is {facts.config.server.base_url}."


@check(
    "server.proxy_not_trusted",
    Severity.RISKY,
    means="There is a proxy in front, and http.trusted_proxies does not name it.",
    why="All players seem to be one client: they use up each other's limits, and one who guesses slows all down.",
    do='Leave "auto" for a proxy on this machine, or name the addresses of the proxies.',
    where=FixLocation(Source.OURS, '[http] trusted_proxies = "auto"'),
)
def proxy_is_not_trusted(facts: Facts) -> Iterator[str]:
    server, proxies = facts.config.server, facts.config.http.trusted_proxies
    if is_loopback(server.host):
        trusted = trusted_networks(proxies, server.host)
        # whoever reaches a port of this machine alone comes from it
        if not any(ip_address(own) in network for own in ("127.0.0.1", "::1") for network in trusted):
            yield f"server.host is {server.host}, so that only a proxy on this machine can come, and it is not trusted."
    elif proxies == () and server.tls_cert_file is None and server.base_url.startswith("https:"):
        yield "server.base_url is https and the companion has no certificate, so there is a proxy; none is trusted."


CHECKS: Final[tuple[Check, ...]] = (
    *(port_is_exposed, port_is_taken, links_lead_nowhere, address_is_plain, proxy_is_not_trusted),
)
