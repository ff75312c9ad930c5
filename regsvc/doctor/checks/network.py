"""Checks of networks: several game servers that share AuthMe's table, each with an AuthMe of its own."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Final

from plugin_bridge.authme.config import (
    LEGACY_HASHES_KEY,
    PASSWORD_HASH_KEY,
    AuthMeConfig,
    AuthMeConfigError,
    Backend,
    ColumnNames,
)
from regsvc.core.addresses import is_loopback
from regsvc.core.i18n.sentences import Sentence
from regsvc.doctor.facts.facts import Facts, FixLocation, Source
from regsvc.doctor.finding import Check, Severity, Symptom, check

_CONNECTION: Final = frozenset({"DataSource.mySQLHost", "DataSource.mySQLPort"})


@check(
    "network.differs",
    Severity.RISKY,
    means="The AuthMe of another game server caches or registers players, or its settings differ from the main one's.",
    why=(
        "Each AuthMe decides by its own config who may play: one that caches lets banned players in for a while, one "
        "that registers players evades the review, one with another table or algorithm has other accounts."
    ),
    do="Write what the main game server's config.yml has, and restart that game server. DataSource.caching and "
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
                yield Symptom(Sentence("{server}: {key} is true.", server=name, key=key), where=f"{file}: {key}: false")
            shared, own = _shared_values(facts.authme), _shared_values(other)
            # what we connect to may differ from what AuthMe does, as in a container
            ours = _CONNECTION if facts.config.authme.host or facts.config.authme.port else frozenset()
            for key, value in shared.items():
                if key not in ours and own.get(key, value) != value:
                    title = Sentence(
                        "{server}: {key} is {own}; on the main game server it is {value}.",
                        server=name,
                        key=key,
                        own=own[key] or '""',
                        value=value or '""',
                    )
                    yield Symptom(title, where=f"{file}: {key}")


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
    why=(
        "Players on the other game servers are not kicked, not even before their row is inserted, and the settings of "
        "AuthMe there are not checked."
    ),
    do="Name every other game server in a [[game.server]] of its own, with its folder or its remote console "
    "(docs/networks.md). If there is no proxy, set the key to false.",
    where=FixLocation(Source.OURS, '[[game.server]] name = "survival", directory = "/path/to/survival"'),
)
def other_servers_are_unknown(facts: Facts) -> Iterator[Sentence]:
    authme = facts.authme
    if (authme.bungeecord or authme.velocity) and not facts.config.servers:
        key = "Hooks.bungeecord" if authme.bungeecord else "Hooks.velocity"
        yield Sentence("{key} is true, and only one game server is known.", key=key)


CHECKS: Final[tuple[Check, ...]] = (other_servers_differ, other_servers_are_unknown)
