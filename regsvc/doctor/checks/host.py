"""Checks of the machine: address and port, user, writable folders, disk space, clock."""

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from plugin_bridge.authme.config import Backend
from regsvc.config.places import SystemPlaces, is_installation
from regsvc.core.addresses import is_loopback, trusted_networks
from regsvc.core.i18n import Sentence
from regsvc.core.safe_paths import status_of
from regsvc.doctor.facts.facts import Facts, FactUnavailable, FixLocation, Source
from regsvc.doctor.facts.host import is_forbidden_by_unit
from regsvc.doctor.finding import Severity, Symptom, check
from regsvc.http.hops import HintKind

_LISTEN_LOCALLY: Final = FixLocation(Source.OURS, '[server] host = "127.0.0.1"')
_MIN_FREE: Final = 256 * 1024 * 1024
_MEBIBYTE: Final = 1024 * 1024
_RELEASED_AT: Final = datetime(2026, 1, 1, tzinfo=UTC)
_TOLERANCE: Final = timedelta(minutes=5)
_DATABASE_TOLERANCE: Final = timedelta(seconds=10)


@check(
    "server.foreign_host",
    Severity.BROKEN,
    means="server.host is not an address of this machine, or a name that cannot be looked up.",
    why="The companion does not start (exit status 78).",
    do="Use 127.0.0.1 behind a web server on this machine, or 0.0.0.0 to listen on all addresses.",
    where=_LISTEN_LOCALLY,
)
def host_is_foreign(facts: Facts) -> Iterator[Sentence]:
    host = facts.config.server.host
    try:
        if not facts.host.can_listen_on(host):
            yield Sentence("server.host is {host}, which is not an address of this machine.", host=host)
    except socket.gaierror:
        yield Sentence("server.host is {host}, and this name cannot be looked up.", host=host)


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
    means="Players reach the companion without TLS: server.base_url begins with http://, or server.host is open to "
    "other machines, without a certificate or http.trusted_proxies.",
    why="Passwords, tokens and links from mails cross the network unencrypted, and clients can bypass the proxy.",
    do="Listen on 127.0.0.1 with a TLS web server in front, or set server.tls_cert_file, and use https:// in "
    "server.base_url. If the proxy is on another machine, add it to http.trusted_proxies.",
    where=FixLocation(Source.OURS, '[server] host = "127.0.0.1", base_url = "https://…"'),
)
def connection_is_plain(facts: Facts) -> Iterator[Sentence]:
    server, proxies = facts.config.server, facts.config.http.trusted_proxies
    if not is_loopback(server.host) and server.tls_cert_file is None and proxies in ("auto", ()):
        yield Sentence("server.host is {host}, without a certificate.", host=server.host)
    parts = urlsplit(server.base_url)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        yield Sentence("server.base_url is {base_url}.", base_url=server.base_url)


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


@check(
    "server.clients_hidden",
    Severity.RISKY,
    means="Requests show that a proxy, tunnel or CDN does not name the players, or does not agree with "
    "http.proxy_protocol.",
    why="Players whose address is hidden share their limits, and one attacker slows all logins down.",
    do="Follow the instruction in the finding.",
    where=FixLocation(Source.OURS, "[http] trusted_proxies, proxy_protocol"),
)
def clients_are_hidden(facts: Facts) -> Iterator[Symptom]:
    server = facts.config.server
    ends_tls_elsewhere = server.tls_cert_file is None and server.base_url.startswith("https:")
    for hint in facts.hints:
        if hint.kind is HintKind.UNTRUSTED and not hint.address:
            title, do, keys = _STRANGERS
        else:
            title, do, keys = _HIDDEN[hint.kind]
        if (
            hint.address or hint.kind is not HintKind.UNTRUSTED or ends_tls_elsewhere
        ):  # else the strangers may be players
            told = Sentence(title.template, address=hint.address, header=hint.header)
            yield Symptom(told, do, FixLocation(Source.OURS, keys.format(address=hint.address)))


_STRANGERS: Final = (
    Sentence("Nearly all requests come with {header}, from addresses that are not trusted."),
    Sentence("List the addresses of your proxies, and let nobody else reach the port."),
    '[http] trusted_proxies = ["…"]',
)
_HIDDEN: Final[Mapping[HintKind, tuple[Sentence, Sentence, str]]] = {
    HintKind.TUNNEL: (
        Sentence(
            "Requests for our public name come from {address} without X-Forwarded-For: through a TCP tunnel (frp, "
            "playit, ngrok tcp), the published port of a container, or a proxy that sends none."
        ),
        Sentence(
            "nginx: proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header Host $host; A tunnel "
            'or TCP proxy has to send the PROXY protocol (frp: transport.proxyProtocolVersion = "v2"), with '
            "http.proxy_protocol here. If it cannot, set http.trusted_proxies = [], since its clients may claim any "
            "address. Until then /metrics requires metrics.token."
        ),
        '[http] trusted_proxies = ["{address}"], proxy_protocol = true',
    ),
    HintKind.OTHER_HEADER: (
        Sentence("The proxy at {address} sends {header}, and not X-Forwarded-For, which alone counts."),
        Sentence(
            "nginx: proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; HAProxy: option forwardfor. Other "
            "proxies have a setting like it. Then trust the proxy here."
        ),
        '[http] trusted_proxies = ["{address}"]',
    ),
    HintKind.UNTRUSTED: (
        Sentence("The proxy at {address} names the players in {header}, but is not trusted."),
        Sentence("Let nobody reach the port past the proxy (publish a container’s on 127.0.0.1), and add the proxy."),
        '[http] trusted_proxies = ["{address}"]',
    ),
    HintKind.INNER: (
        Sentence("The proxy at {address}, behind another one, names the players, but is not trusted."),
        Sentence("Add it to the addresses that are trusted already."),
        '[http] trusted_proxies = ["127.0.0.1", "{address}"]',
    ),
    HintKind.CLOUDFLARE: (
        Sentence("Players come from addresses of Cloudflare, not from their own."),
        Sentence(
            "Add its networks (https://www.cloudflare.com/ips): in nginx a set_real_ip_from for each, and "
            "real_ip_header CF-Connecting-IP; in Caddy trusted_proxies static …; otherwise here, beside the proxy."
        ),
        '[http] trusted_proxies = ["127.0.0.1", "173.245.48.0/20", …]',
    ),
    HintKind.CDN: (
        Sentence("Nearly all requests come with {header}, as through a CDN, whose addresses count as the players’."),
        Sentence("If you use one, add the networks that it publishes, in the proxy and here. Otherwise ignore this."),
        '[http] trusted_proxies = ["127.0.0.1", …]',
    ),
    HintKind.HEADER_OFF: (
        Sentence("Connections from {address} begin with a PROXY protocol header."),
        Sentence(
            "If the proxy or tunnel there sends it (HAProxy: send-proxy, nginx: proxy_protocol on, frp: "
            "transport.proxyProtocolVersion), switch it on here; otherwise ignore this."
        ),
        '[http] trusted_proxies = ["{address}"], proxy_protocol = true',
    ),
    HintKind.HEADER_MISSING: (
        Sentence("Connections from {address} begin without a PROXY protocol header, and are closed."),
        Sentence("Switch it on there, or off here."),
        "[http] proxy_protocol = false",
    ),
}
"""By kind, what is shown, what to do, and the keys; an address near us is the socket's, which no client chooses."""


@check(
    "machine.root",
    Severity.RISKY,
    means="The doctor, and so most likely the companion, runs as root.",
    why="A vulnerability would expose the whole machine. And since root can read everything, files that the "
    "companion’s own user cannot read go unnoticed.",
    do="Run both as the companion’s user (User= in the unit; sudo -u USER companion doctor).",
    where=FixLocation(Source.MACHINE, "companion.service, User="),
)
def process_is_root(facts: Facts) -> Iterator[Sentence | Symptom]:
    if facts.host.user_id() != 0:
        return
    authme = None if facts.config_problems else facts.config.authme_config_path
    if authme is not None and authme.parent.is_dir() and status_of(authme.parent).st_uid == 0:
        yield Symptom(
            Sentence("The doctor runs as root, as the game server does."),
            Sentence(
                "Give both a user of their own; or AuthMe’s folder alone, which the game as root writes all the same: "
                "useradd --system companion; chown -R companion: {folder}; companion install --user companion",
                folder=authme.parent,
            ),
        )
    else:
        yield Sentence("The doctor runs as root.")


@check(
    "machine.state_dir",
    Severity.BROKEN,
    means="The state directory, or our database in it, cannot be written.",
    why="Our keys and our SQLite database are stored there.",
    do="Let the companion’s user write there, or choose another folder.",
    where=FixLocation(Source.OURS, "[server] state_dir"),
)
def state_dir_is_read_only(facts: Facts) -> Iterator[Sentence | Symptom]:
    state_dir = facts.config.server.state_dir
    existing = _nearest_existing(state_dir)
    if not existing.is_dir():
        yield Sentence("The state directory cannot be created, because {path} is not a folder.", path=existing)
    elif forbidden := _find_forbidden(facts):
        yield Symptom(
            Sentence("The unit does not let the companion write to {path}.", path=forbidden),
            Sentence("Let the unit be written again, and the companion restarted: companion install (-i NAME first)"),
        )
    elif not os.access(existing, os.R_OK | os.W_OK | os.X_OK):
        yield Sentence("We may not write to {path}.", path=existing)
    else:
        yield from _unwritable_database(facts)


def _find_forbidden(facts: Facts) -> Path | None:
    """Return the folder of ours that the unit leaves read-only, as after a change of server.state_dir; None: none."""
    file = facts.config.file
    places = SystemPlaces.of_config(file) if file is not None else None
    if places is None:
        return None
    folders = [facts.config.server.state_dir]
    with suppress(FactUnavailable):
        folders.append(facts.own_sqlite_file.parent)
    is_forbidden = (is_forbidden_by_unit(places.unit, places.state_dir, folder) for folder in folders)
    return next((folder for folder, is_so in zip(folders, is_forbidden, strict=True) if is_so), None)


@check(
    "machine.state_lost",
    Severity.BROKEN,
    means="The state directory or our SQLite file was removed or replaced while the companion uses it.",
    why="It refuses all requests (503): what it would write to the removed files would be lost at its end.",
    do="Stop it, restore a backup (companion restore), and start it again.",
    where=FixLocation(Source.OURS, "[server] state_dir"),
)
def state_is_lost(facts: Facts) -> Iterator[Sentence]:
    running_daemon = facts.running_daemon
    if running_daemon is not None and running_daemon.is_state_lost:
        yield Sentence(
            "The companion at {address} uses files that are not in {folder}.",
            address=running_daemon.address,
            folder=facts.config.server.state_dir,
        )


@check(
    "machine.disk_low",
    Severity.BROKEN,
    means="A disk that we write to is full, or our database accepts no changes; or, only risky, such a disk has less "
    "than 256 MiB left.",
    why="On a full disk neither our tables nor AuthMe’s table can be written.",
    do="Free some space.",
    where=FixLocation(Source.MACHINE),
)
def disk_is_almost_full(facts: Facts) -> Iterator[Symptom]:
    folders = [facts.config.server.state_dir]
    if facts.authme_problem is None and facts.has_authme and facts.authme.backend == Backend.SQLITE:
        folders.append(facts.authme.sqlite_file.parent)
    disks = {_nearest_existing(folder).stat().st_dev: _nearest_existing(folder) for folder in reversed(folders)}
    for folder in disks.values():
        free = facts.host.free_bytes(folder)
        if free < _MIN_FREE:
            title = Sentence("The disk of {folder} has {free} MiB left.", folder=folder, free=free // _MEBIBYTE)
            severity = Severity.BROKEN if free < _MEBIBYTE else Severity.RISKY
            yield Symptom(title, where=str(folder), severity=severity)
    running_daemon = facts.running_daemon
    if running_daemon is not None and running_daemon.is_unwritable and _find_forbidden(facts) is None:
        yield Symptom(
            Sentence("The companion at {address} cannot write its database.", address=running_daemon.address),
            do=Sentence("Free some space where the database is, or let it be written. The companion’s log says why."),
        )


@check(
    "machine.clock",
    Severity.BROKEN,
    means="The machine’s clock is wrong: earlier than the release of this program, or than entries in our audit log; "
    "or, only risky, it differs from the database’s by more than 10 seconds.",
    why="Bans end, codes and sessions expire, and old data is deleted by it; codes of authenticator apps and TLS "
    "connections fail. The sync and messages are not late; which companion runs the sync is decided by the database’s "
    "clock.",
    do="Synchronise the clock with NTP: timedatectl set-ntp true",
    where=FixLocation(Source.MACHINE, "timedatectl"),
)
def clock_is_wrong(facts: Facts) -> Iterator[Sentence | Symptom]:
    now = facts.host.now()
    if now < _RELEASED_AT:
        yield Sentence("The clock says {now:%Y-%m-%d %H:%M} UTC.", now=now)
        return
    ahead = facts.ours.clock_difference
    if abs(ahead) > _DATABASE_TOLERANCE:
        seconds = abs(ahead).total_seconds()
        title = Sentence("The database’s clock is {seconds:.0f} s behind ours.", seconds=seconds)
        if ahead > timedelta(0):
            title = Sentence("The database’s clock is {seconds:.0f} s ahead of ours.", seconds=seconds)
        yield Symptom(title, Sentence("Synchronise the clocks of both machines with NTP."), severity=Severity.RISKY)
    newest = facts.own_tables.newest_entry_at
    if newest is not None and newest > now + _TOLERANCE:
        title = Sentence(
            "The clock says {now:%Y-%m-%d %H:%M} UTC, but our audit log has an entry of {newest:%Y-%m-%d %H:%M}.",
            now=now,
            newest=newest,
        )
        yield Symptom(
            title,
            Sentence(
                "If the clock is behind: timedatectl set-ntp true. If it is right, it was ahead before: look at bans "
                "made then, which end by that date. Nothing else waits for it."
            ),
        )


def _nearest_existing(folder: Path) -> Path:
    """Return the folder, or the nearest existing path above it."""
    path = folder.absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def _unwritable_database(facts: Facts) -> Iterator[Sentence]:
    try:
        file = facts.own_sqlite_file
    except FactUnavailable:
        return
    if not file.parent.is_dir() and file.parent.absolute() != facts.config.server.state_dir.absolute():
        # only the state directory is created automatically
        yield Sentence("There is no folder {folder} for our database.", folder=file.parent)
    elif os.access(file, os.R_OK) and not os.access(file, os.W_OK):
        yield Sentence("We may not write to {path}.", path=file)
