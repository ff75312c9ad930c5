"""Checks of AuthMe's config.yml and of ways around its passwords: public holes, unsigned logins by a proxy.

They look at every game server whose folder is known.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Final
from urllib.parse import urlsplit

from plugin_bridge.authme.config import (
    KICKED,
    LEGACY_HASHES_KEY,
    PASSWORD_HASH_KEY,
    PROXY_SECRET_KEY,
    AuthMeConfig,
    AuthMeConfigError,
    Backend,
    ColumnNames,
    find_strangers_text,
)
from plugin_bridge.java_formats import Oddity, OddityKind
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
from regsvc.core.i18n import Sentence, plural
from regsvc.doctor.facts.facts import Facts, FactUnavailable, FixLocation, Source
from regsvc.doctor.finding import Severity, Symptom, check, list_some

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


_GROUP_OF_ALL_ON_SQLITE: Final = -1
"""Which AuthMe assumes where it reads no group, and which is its default for those who are not activated."""
_CONNECTION: Final = frozenset({"DataSource.mySQLHost", "DataSource.mySQLPort"})


@check(
    "authme.unusable",
    Severity.BROKEN,
    means="AuthMe’s config.yml cannot be read, is not YAML, or has invalid table or column names; or AuthMe’s table "
    "is on a kind of database that is not supported, such as PostgreSQL or AuthMeReReloaded’s H2, or "
    "DataSource.backend names one that the installed AuthMe does not have.",
    why="The companion does not start (exit status 78), unless it knows values from before: it cannot find or use "
    "AuthMe’s table, and supports SQLite, MySQL and MariaDB only.",
    do="Fix what the finding names, and let the companion’s user read the file.",
    where=FixLocation(Source.AUTHME),
)
def authme_is_unusable(facts: Facts) -> Iterator[str | Symptom]:
    since = facts.authme_problem_since
    if facts.authme_problem is not None and since is not None:
        yield Sentence(
            "{problem} So it is since {since:%Y-%m-%d %H:%M} UTC; the values from before stay in force.",
            problem=facts.authme_problem,
            since=since,
        )
    elif facts.authme_problem is not None:
        yield facts.authme_problem
    elif facts.authme.backend_problem is not None:
        yield Symptom(
            facts.authme.backend_problem,
            Sentence("Move AuthMe to MariaDB or MySQL, or correct the name."),
            FixLocation(Source.AUTHME, "DataSource.backend: MYSQL"),
        )


@check(
    "authme.ignored_value",
    Severity.RISKY,
    means="A value in AuthMe’s config.yml has the wrong type, such as caching: 'no' in quotes, or the file is odd.",
    why="AuthMe silently uses its default instead, and so does the companion.",
    do="Write a value that AuthMe accepts: true, false and numbers without quotes.",
    where=FixLocation(Source.AUTHME),
)
def value_is_ignored(facts: Facts) -> Iterator[Sentence | Symptom]:
    for oddity in facts.authme.oddities:
        yield Symptom(
            _describe_oddity(oddity), Sentence("Save the file as UTF-8, write each key once, and use spaces for tabs.")
        )
    for ignored in facts.authme.ignored:
        if not ignored.written:  # a deprecated algorithm has a check of its own
            yield Sentence("AuthMe ignores the value of {key} and uses its default.", key=ignored.key)


def _describe_oddity(oddity: Oddity) -> Sentence:
    place = {"line": oddity.line, "column": oddity.column}
    match oddity.kind:
        case OddityKind.REPEATED_KEY:
            return Sentence(
                "Line {line}, column {column}: the key is there twice, and AuthMe takes its last value.", **place
            )
        case OddityKind.TAB:
            return Sentence(
                "Line {line}, column {column}: a tab, which AuthMe reads and other programs do not.", **place
            )
        case _:
            return Sentence("Line {line}, column {column}: it is not UTF-8, and AuthMe reads � there.", **place)


@check(
    "authme.caching",
    Severity.RISKY,
    means="AuthMe caches players, including the fact that a name is not registered (DataSource.caching).",
    why="Players who tried to join before their approval see “not registered” for 5 to 15 minutes after it. AuthMe may "
    "go on accepting an old password, also that of a banned player, for up to 15 minutes after it last looked the "
    "player up; the next sync run then kicks the banned player, which needs RCON.",
    do="Switch the cache off and restart the game server; /authme reload does not clear it.",
    where=FixLocation(Source.AUTHME, "DataSource.caching: false"),
)
def cache_is_on(facts: Facts) -> Iterator[Sentence]:
    if not facts.authme.caching:
        return
    if facts.authme.kick_non_registered:
        yield Sentence(
            "DataSource.caching is true, and settings.restrictions.kickNonRegistered, too: players kicked before "
            "joining stay in the cache as not registered."
        )
    else:
        yield Sentence("DataSource.caching is true.")


@check(
    "authme.ingame_registration",
    Severity.RISKY,
    means="Players can register in the game as well as on the web (settings.registration.enabled).",
    why="Registering in the game bypasses the review and verifies no e-mail address. A player who is online while "
    "we write a row of that name may be logged in to it without a password.",
    do="Allow registration on the web only, and reload AuthMe.",
    where=FixLocation(Source.AUTHME, "settings.registration.enabled: false"),
)
def game_registers_too(facts: Facts) -> Iterator[Sentence]:
    if facts.authme.registration_enabled:
        if facts.config.registration.approval:
            yield Sentence("settings.registration.enabled is true, while registrations are reviewed.")
        else:
            yield Sentence("settings.registration.enabled is true, while players register on the web.")


@check(
    "authme.registration_not_forced",
    Severity.RISKY,
    means="Unregistered players may play (settings.registration.force is false).",
    why="The review has no effect, because guests need no account.",
    do="Require registration, and reload AuthMe.",
    where=FixLocation(Source.AUTHME, "settings.registration.force: true"),
)
def guests_may_play(facts: Facts) -> Iterator[Sentence]:
    if not facts.authme.forces_registration:
        yield Sentence("settings.registration.force is false.")


@check(
    "authme.no_address",
    Severity.RISKY,
    means="The text that AuthMe shows to players without an account does not name the companion’s address.",
    why="Players who find the server in the game do not learn where to register.",
    do="Write the address of the registration page into the text, and run /authme reload.",
    where=FixLocation(Source.MESSAGES, "registration.reg_only or registration.register_request"),
)
def strangers_learn_no_address(facts: Facts) -> Iterator[Symptom]:
    authme, config = facts.authme, facts.config
    if (authme.registration_enabled or authme.dialogs) and not authme.kick_non_registered:
        return  # they register in the game, or the text is behind a form: findings of their own
    found = find_strangers_text(authme)
    host = urlsplit(config.base_url()).hostname or ""
    if found is None or is_loopback(host):
        return
    links = (address for listed in config.server.links.by_language.values() for address in listed.values())
    others = (urlsplit(address).hostname for address in (*config.http.allowed_origins, *links))
    if any(name in found.text.lower() for name in (host, *others) if name):
        return
    address = config.base_url() + ("/register" if config.http.web_root is None else "/")
    if found.key == KICKED:
        title = Sentence(
            "The text for players who are kicked because they have no account does not name {host}.", host=host
        )
        do = Sentence(
            "Set it to “Only registered players can join. Register at%nl%{address}” and run /authme reload. On that "
            "screen nothing can be clicked, so a short address is best.",
            address=address,
        )
    else:
        title = Sentence("The text that asks players without an account to register does not name {host}.", host=host)
        do = Sentence(
            "Set it to “Register at {address} first.” and run /authme reload. From version 6 on, players see the file "
            "of their own language: change it there, too, or set settings.perPlayerLocale: false in AuthMe’s config.",
            address=address if config.http.web_root else f"{address}?name=%username%",
        )
    yield Symptom(title, do, f"{found.file}: {found.key}")


@check(
    "authme.dialogs",
    Severity.RISKY,
    means="AuthMe 6 shows players without an account a form to register, although they cannot register in the game.",
    why="On a current Paper server, it covers the game before or after the join. Players choose a password in vain, "
    "and do not see the text with your address, which is behind it.",
    do="Let AuthMe kick them before that, write the address of the registration page into the text that they see then "
    "(registration.reg_only in AuthMe’s messages folder), and run /authme reload. Or switch both dialogs off.",
    where=FixLocation(Source.AUTHME, "settings.restrictions.kickNonRegistered: true"),
)
def form_leads_nowhere(facts: Facts) -> Iterator[Sentence]:
    authme = facts.authme
    is_shown = authme.dialogs and authme.forces_registration and not authme.kick_non_registered
    if is_shown and not authme.registration_enabled:
        yield Sentence(
            "AuthMe shows a form to register ({keys}), and settings.registration.enabled is false.",
            keys=", ".join(authme.dialogs),
        )


@check(
    "authme.unrestricted_names",
    Severity.RISKY,
    means="Some names join without AuthMe (settings.unrestrictions.UnrestrictedName).",
    why="Anyone can play under such a name, without a password. To register the name here changes nothing about that, "
    'and to ban it only if bans apply in the game, too (game.on_ban = "ban").',
    do="Take the names out of the list, and run /authme reload.",
    where=FixLocation(Source.AUTHME, "settings.unrestrictions.UnrestrictedName: []"),
)
def names_need_no_password(facts: Facts) -> Iterator[Sentence]:
    names = facts.authme.unrestricted_names
    if names:
        yield plural(
            len(names),
            "AuthMe lets {count} name in without a password: {names}",
            "AuthMe lets {count} names in without a password: {names}",
            names=list_some(names),
        )


@check(
    "authme.logins_without_password",
    Severity.RISKY,
    means="AuthMe lets players in without a password, and bans do not reliably keep them out: by session or premium "
    "account where RCON is off, or Bedrock players.",
    why="A ban replaces the password, for which AuthMe does not ask here. A sync run takes sessions and premium "
    "accounts from banned players, but who joined before it stays in the game unless they are kicked.",
    do="Switch RCON on (enable-rcon and rcon.password in server.properties), or these logins off.",
    where=FixLocation(Source.AUTHME),
)
def players_need_no_password(facts: Facts) -> Iterator[Symptom]:
    authme, can_kick = facts.authme, facts.can_kick
    # with RCON a banned player is out by the next sync run, which is no reason to advise against a comfort of players
    switches = {
        "settings.sessions.enabled": authme.sessions_enabled and not can_kick,
        "settings.enablePremium": authme.premium_enabled and not can_kick,
    }
    for key in [key for key, is_risky in switches.items() if is_risky]:
        where = FixLocation(Source.AUTHME, f"{key}: false")
        yield Symptom(Sentence("{key} is true, and RCON is off.", key=key), where=where)
    is_banned_in_game = can_kick and facts.config.game.on_ban == "ban"
    if authme.bedrock_auto_login and authme.hooks_floodgate and not is_banned_in_game:
        key = "3rdPartyFeature.features.bedrockAutoLogin"
        yield Symptom(
            Sentence("{key} is true: banned Bedrock players are logged in, too, each time they join.", key=key),
            Sentence(
                'Switch it off, or let bans apply in the game, too, with RCON on and game.on_ban = "ban" in our config.'
            ),
            FixLocation(Source.AUTHME, f"{key}: false"),
        )


@check(
    "authme.group",
    Severity.RISKY,
    means="AuthMe’s group of players who are not activated keeps approved players out, or has no effect.",
    why="AuthMe refuses every kind of login in that group (ExternalBoardOptions.nonActivedUserGroup), also those "
    "without a password. The companion therefore puts the players there whom it locks, if it can.",
    do="Set the group to a number that none of the players has who may join, or leave the name of the column empty.",
    where=FixLocation(Source.AUTHME, "ExternalBoardOptions.nonActivedUserGroup"),
)
def group_is_no_lock(facts: Facts) -> Iterator[Sentence | Symptom]:
    authme = facts.authme
    if not authme.columns.group:
        return
    if authme.backend == Backend.SQLITE:
        title = Sentence(
            "ExternalBoardOptions.mySQLColumnGroup is {column}, which AuthMe does not read on SQLite.",
            column=authme.columns.group,
        )
        if authme.unactivated_group == _GROUP_OF_ALL_ON_SQLITE:
            title = Sentence(
                "ExternalBoardOptions.mySQLColumnGroup is {column}: on SQLite, AuthMe then lets nobody log in.",
                column=authme.columns.group,
            )
        yield Symptom(
            title,
            Sentence("Leave it empty, or move AuthMe to MariaDB or MySQL."),
            FixLocation(Source.AUTHME, "ExternalBoardOptions.mySQLColumnGroup: ''"),
        )
    elif authme.lock_group is None:
        yield Sentence(
            "ExternalBoardOptions.mySQLColumnGroup is {column}, and nonActivedUserGroup is not set.",
            column=authme.columns.group,
        )
    elif names := facts.player_row_counts.unactivated:
        yield Symptom(
            plural(
                len(names),
                "{count} player is in the group {group}, in which AuthMe lets nobody log in: {names}",
                "{count} players are in the group {group}, in which AuthMe lets nobody log in: {names}",
                group=authme.lock_group,
                names=list_some(names),
            ),
            Sentence("If they may join, activate them in the forum, or give them another group with SQL."),
        )


@check(
    "network.differs",
    Severity.RISKY,
    means="The AuthMe of another game server caches or registers players, or its settings differ from the main one’s.",
    why="Each AuthMe decides by its own config who may play: one that caches lets banned players in for a while, one "
    "that registers players evades the review, one with another table or algorithm has other accounts.",
    do="Write what the main game server’s config.yml has, and restart that game server. DataSource.caching and "
    "settings.registration.enabled must be false on all of them.",
    where=FixLocation(Source.AUTHME),
)
def other_servers_differ(facts: Facts) -> Iterator[Symptom]:
    for server in facts.config.servers:
        name, other, file = server.name, facts.other_authmes.get(server.name), server.authme_config_path
        if isinstance(other, AuthMeConfigError):
            title = Sentence("The AuthMe of {server} cannot be examined: {message}", server=name, message=str(other))
            yield Symptom(title, where=str(file))
        elif other is not None:
            for key in _switched_on(other):
                yield Symptom(Sentence("{key} is true.", key=key), where=f"{file}: {key}: false", server=name)
            shared, own = _shared_values(facts.authme), _shared_values(other)
            # what we connect to may differ from what AuthMe does, as in a container
            ours = _CONNECTION if facts.config.authme.host or facts.config.authme.port else frozenset()
            for key, value in shared.items():
                if key not in ours and own.get(key, value) != value:
                    title = Sentence(
                        "{key} is {own}; on the main game server it is {value}.",
                        key=key,
                        own=own[key] or '""',
                        value=value or '""',
                    )
                    yield Symptom(title, where=f"{file}: {key}", server=name)


def _switched_on(authme: AuthMeConfig) -> Iterator[str]:
    """Yield the keys that must be false on every game server, and are true."""
    if authme.caching:
        yield "DataSource.caching"
    if authme.registration_enabled:
        yield "settings.registration.enabled"


def _shared_values(authme: AuthMeConfig) -> dict[str, str]:
    """Return the values, by key, that the AuthMe of every game server must share. None of them is a secret."""
    names = authme.name_rule
    values = {
        "ExternalBoardOptions.nonActivedUserGroup": str(authme.unactivated_group),
        PASSWORD_HASH_KEY: authme.password_hash,
        LEGACY_HASHES_KEY: ", ".join(sorted(authme.legacy_hashes)),
        "settings.restrictions.allowedNicknameCharacters": names.pattern.text,
        "settings.restrictions.minNicknameLength": str(names.min_length),
        "settings.restrictions.maxNicknameLength": str(names.max_length),
    }
    if authme.backend == Backend.SQLITE:
        return {"DataSource.backend": f"SQLITE ({authme.sqlite_file.resolve()})", **values}
    return {
        "DataSource.backend": "MYSQL" if authme.backend == Backend.MARIADB else authme.backend,
        "DataSource.mySQLHost": "127.0.0.1" if is_loopback(authme.host) else authme.host,
        "DataSource.mySQLPort": str(authme.port),
        "DataSource.mySQLDatabase": authme.database,
        "DataSource.mySQLTablename": authme.table,
        **{part.metadata["key"]: getattr(authme.columns, part.name) for part in fields(ColumnNames)},
        **values,
    }


@check(
    "network.unknown",
    Severity.RISKY,
    means="AuthMe is set up for a proxy (Hooks.bungeecord, Hooks.velocity), and our config names only one game server.",
    why="Players on the other game servers are not kicked, not even before their row is inserted, and the settings of "
    "AuthMe there are not checked.",
    do="Name every other game server in a [[game.server]] of its own, with its folder or its remote console "
    "(docs/networks.md). If there is no proxy, set the key to false.",
    where=FixLocation(Source.OURS, '[[game.server]] name = "survival", directory = "/path/to/survival"'),
)
def other_servers_are_unknown(facts: Facts) -> Iterator[Sentence]:
    authme = facts.authme
    if (authme.bungeecord or authme.velocity) and not facts.config.servers:
        key = "Hooks.bungeecord" if authme.bungeecord else "Hooks.velocity"
        yield Sentence("{key} is true, and only one game server is known.", key=key)
