"""Checks of AuthMe's config.yml: whether it is usable, and settings that conflict with registering on the web."""

from collections.abc import Iterator
from typing import Final

from plugin_bridge.authme.config import LEGACY_HASHES_KEY, PASSWORD_HASH_KEY, Backend
from regsvc.core.i18n.sentences import Sentence
from regsvc.doctor.facts.facts import Facts, FixLocation, Source
from regsvc.doctor.finding import Check, Severity, check


@check(
    "authme.none",
    Severity.RISKY,
    means="AuthMe's config.yml was not found, and the config does not say that there is no AuthMe.",
    why="Approved users cannot join the game, because there is no table of players to write to.",
    do="Set the game server's folder. If there is no AuthMe, set authme.enabled = false.",
    where=FixLocation(Source.OURS, '[game] directory = "/path/to/the/game/server"'),
)
def authme_is_missing(facts: Facts) -> Iterator[Sentence]:
    if facts.has_authme or facts.config.authme.enabled is False:
        return
    path = facts.config.authme_config_path
    if path:
        yield Sentence("AuthMe's config is not at {path}.", path=path)
    else:
        yield Sentence("The config does not say where the game server is.")


@check(
    "authme.unusable",
    Severity.BROKEN,
    means="AuthMe's config.yml cannot be read, is not YAML, or has invalid table or column names.",
    why="The companion does not start (exit status 78), because it cannot find AuthMe's table.",
    do="Fix what the finding names, and let the companion's user read the file.",
    where=FixLocation(Source.AUTHME),
)
def authme_is_unusable(facts: Facts) -> Iterator[str]:
    if facts.authme_problem is not None:
        yield facts.authme_problem


@check(
    "authme.postgresql",
    Severity.BROKEN,
    means="AuthMe stores its table on PostgreSQL.",
    why="The companion supports SQLite, MySQL and MariaDB only, and does not start (exit status 78).",
    do="Move AuthMe to MariaDB or MySQL.",
    where=FixLocation(Source.AUTHME, "DataSource.backend: MARIADB"),
)
def backend_is_postgresql(facts: Facts) -> Iterator[Sentence]:
    if facts.authme.backend == Backend.POSTGRESQL:
        yield Sentence("AuthMe's backend is POSTGRESQL.")


@check(
    "authme.ignored_value",
    Severity.RISKY,
    means="A value in AuthMe's config.yml has the wrong type, such as caching: 'no' in quotes.",
    why="AuthMe silently uses its default instead, and so does the companion.",
    do="Write a value that AuthMe accepts: true, false and numbers without quotes.",
    where=FixLocation(Source.AUTHME),
)
def value_is_ignored(facts: Facts) -> Iterator[Sentence]:
    for ignored in facts.authme.ignored:
        if ignored.key in (PASSWORD_HASH_KEY, LEGACY_HASHES_KEY):
            continue  # these have their own checks
        if ignored.written:
            yield Sentence(
                "AuthMe ignores the value of {key}, {value}, and uses its default.",
                key=ignored.key,
                value=ignored.written,
            )
        else:
            yield Sentence("AuthMe ignores the value of {key} and uses its default.", key=ignored.key)


@check(
    "authme.caching",
    Severity.RISKY,
    means="AuthMe caches players, including the fact that a name is not registered (DataSource.caching).",
    why=(
        "Players who tried to join before their approval see “not registered” for 5 to 15 minutes after it. "
        "After a password change on the web, the old password works as long."
    ),
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
    why=(
        "Registering in the game bypasses the review and verifies no e-mail address. A player who is online while "
        "we write a row of that name may be logged in to it without a password."
    ),
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


CHECKS: Final[tuple[Check, ...]] = (
    *(authme_is_missing, authme_is_unusable, backend_is_postgresql, value_is_ignored),
    *(cache_is_on, game_registers_too, guests_may_play),
)
