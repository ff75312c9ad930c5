"""AuthMe's config.yml: whether it can be used, and what in it does not go together with registering on the web."""

from collections.abc import Iterator
from typing import Final

from plugin_bridge.authme.config import LEGACY_HASHES_KEY, PASSWORD_HASH_KEY, Backend
from regsvc.doctor.facts.facts import Facts, FixLocation, Source
from regsvc.doctor.finding import Check, Severity, check


@check(
    "authme.none",
    Severity.RISKY,
    means="There is no AuthMe: no config.yml was found, and the config does not say that this is meant.",
    why="Whoever is approved is let into no game: there is no table of players to write to.",
    do="Name the game server's folder. If there is no AuthMe, say so: authme.enabled = false.",
    where=FixLocation(Source.OURS, '[game] directory = "/path/to/the/game/server"'),
)
def authme_is_missing(facts: Facts) -> Iterator[str]:
    if facts.has_authme or facts.config.authme.enabled is False:
        return
    path = facts.config.authme_config_path
    yield f"AuthMe's config is not at {path}." if path else "The config does not tell where the game server is."


@check(
    "authme.unusable",
    Severity.BROKEN,
    means="AuthMe's config.yml cannot be read, is no YAML, or has names that no table can have.",
    why="The companion does not start (exit status 78): it would not know which table is AuthMe's.",
    do="Mend what the sentence names, and let the companion's user read the file.",
    where=FixLocation(Source.AUTHME),
)
def authme_is_unusable(facts: Facts) -> Iterator[str]:
    if facts.authme_problem is not None:
        yield facts.authme_problem


@check(
    "authme.postgresql",
    Severity.BROKEN,
    means="AuthMe keeps its table on PostgreSQL.",
    why="The companion speaks SQLite, MySQL and MariaDB, and does not start (exit status 78).",
    do="Move AuthMe to MariaDB or MySQL.",
    where=FixLocation(Source.AUTHME, "DataSource.backend: MARIADB"),
)
def backend_is_postgresql(facts: Facts) -> Iterator[str]:
    if facts.authme.backend == Backend.POSTGRESQL:
        yield "AuthMe's backend is POSTGRESQL."


@check(
    "authme.ignored_value",
    Severity.RISKY,
    means="A value in AuthMe's config.yml is not of the kind it should be, such as caching: 'no' in quotes.",
    why="AuthMe says nothing of it and goes on with its own default, and so does the companion.",
    do="Write a value that AuthMe takes: true and false and numbers without quotes.",
    where=FixLocation(Source.AUTHME),
)
def value_is_ignored(facts: Facts) -> Iterator[str]:
    for ignored in facts.authme.ignored:
        if ignored.key in (PASSWORD_HASH_KEY, LEGACY_HASHES_KEY):
            continue  # they have checks of their own
        written = f", {ignored.written}," if ignored.written else ""
        yield f"AuthMe does not take what is written at {ignored.key}{written} and uses its default."


@check(
    "authme.caching",
    Severity.RISKY,
    means="AuthMe keeps players in a cache, and who is not registered, too (DataSource.caching).",
    why=(
        "Who tried to join before the approval is told “not registered” for 5 to 15 minutes after it. "
        "An old password works that long after it was changed on the web."
    ),
    do="Switch the cache off and restart the game server; /authme reload does not empty it.",
    where=FixLocation(Source.AUTHME, "DataSource.caching: false"),
)
def cache_is_on(facts: Facts) -> Iterator[str]:
    if not facts.authme.caching:
        return
    if facts.authme.kick_non_registered:
        yield (
            "DataSource.caching is true, and settings.restrictions.kickNonRegistered, too: who is kicked before "
            "joining stays in the cache as not registered."
        )
    else:
        yield "DataSource.caching is true."


@check(
    "authme.ingame_registration",
    Severity.RISKY,
    means="Players may register in the game as well as on the web (settings.registration.enabled).",
    why=(
        "Registering in the game goes past the review and proves no mailbox. Who is online while we write a row of "
        "that name can be logged in to it without a password."
    ),
    do="Let the web alone register players, and reload AuthMe.",
    where=FixLocation(Source.AUTHME, "settings.registration.enabled: false"),
)
def game_registers_too(facts: Facts) -> Iterator[str]:
    if facts.authme.registration_enabled:
        review = "registrations are reviewed" if facts.config.registration.approval else "players register on the web"
        yield f"settings.registration.enabled is true, while {review}."


@check(
    "authme.registration_not_forced",
    Severity.RISKY,
    means="Who is not registered may play (settings.registration.force is false).",
    why="The review keeps nobody out: a guest needs no account.",
    do="Let only registered players play, and reload AuthMe.",
    where=FixLocation(Source.AUTHME, "settings.registration.force: true"),
)
def guests_may_play(facts: Facts) -> Iterator[str]:
    if not facts.authme.forces_registration:
        yield "settings.registration.force is false."


CHECKS: Final[tuple[Check, ...]] = (
    *(authme_is_missing, authme_is_unusable, backend_is_postgresql, value_is_ignored),
    *(cache_is_on, game_registers_too, guests_may_play),
)
