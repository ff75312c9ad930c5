"""Checks of ways to play as another player without a password: AuthMe's public holes, and unsigned logins by a proxy.

They look at every game server whose folder is known.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from plugin_bridge.authme.config import PROXY_SECRET_KEY, AuthMeConfig
from plugin_bridge.server.files import ServerProperties
from plugin_bridge.server.versions import (
    Affected,
    ProxyLogins,
    PublicHole,
    find_proxy_logins,
    find_public_holes,
    is_fork,
)
from regsvc.core.addresses import is_loopback
from regsvc.core.i18n.sentences import Sentence
from regsvc.doctor.facts.facts import Facts, FactUnavailable, FixLocation, Source
from regsvc.doctor.finding import Severity, Symptom, check

_EFFECTS: Final[Mapping[str, Sentence]] = {
    "shared-login": Sentence(
        "a client that joins under a player’s name while they log in can be let in instead of them"
    ),
}
"""What an attacker does with each public hole, by its id."""


@check(
    "authme.known_hole",
    Severity.BROKEN,
    means="The installed AuthMe has a public hole through which strangers play as other players; or, only risky, it is "
    "reported to have one, or may have it.",
    why="How to use it has been published: attackers play under the name of a player, or of an operator, without the "
    "password. Neither the review nor a ban keeps them out.",
    do="Install the version of AuthMe that mends it, and restart the game server.",
    where=FixLocation(Source.AUTHME),
)
def authme_has_a_public_hole(facts: Facts) -> Iterator[Symptom]:
    is_unknown = False
    for server, authme in _list_authmes(facts):
        holes = find_public_holes(authme.version)
        is_unknown |= holes is None
        for hole, affected in holes or ():
            title, do = _describe(hole, affected, str(authme.version))
            severity = Severity.BROKEN if affected is Affected.SURELY else Severity.RISKY
            plugins = authme.source.absolute().parent.parent if authme.source is not None else None
            yield Symptom(title, do, f"{plugins}/AuthMe….jar", severity, server)
    if is_unknown:
        raise FactUnavailable("whether AuthMe has public holes: no jar beside its folder tells its version")


def _describe(hole: PublicHole, affected: Affected, version: str) -> tuple[Sentence, Sentence]:
    """Return what is so, and what to do."""
    told = {"version": version, "day": hole.disclosed.isoformat(), "effect": _EFFECTS[hole.id]}
    do = Sentence("Install AuthMe {mended} or newer, and restart the game server.", mended=hole.mended)
    if affected is Affected.SURELY:
        return Sentence("AuthMe {version} has a hole that was published on {day}: {effect}", **told), do
    if affected is Affected.PERHAPS:
        title = Sentence(
            "AuthMe {version}, which was built before {mended}, may have a hole that was published on {day}: {effect}",
            mended=hole.mended,
            **told,
        )
        return title, do
    if is_fork(version):
        do = Sentence(
            "No version of the fork AuthMeReReloaded is known to mend it: ask its authors, or install AuthMe {mended} "
            "or newer in its place.",
            mended=hole.mended,
        )
    else:
        do = Sentence(
            "Install AuthMe {mended} or newer, and restart the game server. AuthMe’s authors name only version 6 on "
            "Paper and Folia; that older versions have the hole is what others report.",
            mended=hole.mended,
        )
    return Sentence("AuthMe {version} is reported to have a hole that was published on {day}: {effect}", **told), do


@check(
    "authme.proxy_unsigned",
    Severity.BROKEN,
    means="AuthMe takes logins from a proxy (Hooks.bungeecord, Hooks.velocity) without a secret "
    "(Hooks.proxySharedSecret); or, only risky, it may do so, or it has no such secret.",
    why="Attackers who send AuthMe the message of a proxy play under the name of any player, or of an operator, "
    "without the password.",
    do="Set Hooks.proxySharedSecret on every game server to the proxySharedSecret of AuthMe’s plugin on the proxy, or "
    "to a long random text if the proxy has no such plugin, and run /authme reload. Without a secret, only AuthMe "
    "6.0.1 and newer refuse such logins.",
    where=FixLocation(Source.AUTHME, PROXY_SECRET_KEY),
)
def proxy_logins_are_unsigned(facts: Facts) -> Iterator[Symptom]:
    local = {
        server.name
        for server in facts.servers
        if isinstance(server.properties, ServerProperties) and is_loopback(server.properties.server_ip)
    }
    for server, authme in _list_authmes(facts):
        if not authme.bungeecord and not authme.velocity:
            continue
        hook = "Hooks.bungeecord" if authme.bungeecord else "Hooks.velocity"
        logins, is_sure = find_proxy_logins(authme.version, has_key=authme.has_proxy_secret is not None)
        if logins is ProxyLogins.TAKES_EMPTY_KEY and not authme.has_proxy_secret:
            title = Sentence(
                "{hook} is true, and {key} is empty: AuthMe before 6.0.1 then takes logins that anyone can sign",
                hook=hook,
                key=PROXY_SECRET_KEY,
            )
            severity = Severity.BROKEN if is_sure else Severity.RISKY
            yield Symptom(title, None, _where(server, authme, PROXY_SECRET_KEY), severity, server)
        elif logins is ProxyLogins.TAKES_ANY and server not in local:
            title = Sentence(
                "{hook} is true, and this AuthMe, which has no {key}, takes logins from any client that reaches "
                "the game server’s port past the proxy",
                hook=hook,
                key=PROXY_SECRET_KEY,
            )
            do = Sentence(
                "Let only the proxy reach that port: with a firewall, or with server-ip=127.0.0.1 in server.properties "
                "if the proxy runs on the same machine. If the proxy logs nobody in, set {hook} to false. Or install "
                "AuthMe 6.0.1 or newer, and set {key}.",
                hook=hook,
                key=PROXY_SECRET_KEY,
            )
            yield Symptom(title, do, _where(server, authme, hook), Severity.RISKY, server)


def _list_authmes(facts: Facts) -> Iterator[tuple[str, AuthMeConfig]]:
    """Yield the configs that can be read, with the names of their game servers: "" is the main one."""
    if facts.has_authme and facts.authme_problem is None:
        yield "", facts.authme
    for server in facts.config.servers:
        other = facts.other_authmes.get(server.name)
        if isinstance(other, AuthMeConfig):
            yield server.name, other


def _where(server: str, authme: AuthMeConfig, key: str) -> str | FixLocation:
    return f"{authme.source}: {key}" if server else FixLocation(Source.AUTHME, key)
