"""Checks for secrets that other users of the machine can read, and for unusable keys. Secrets are never printed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from plugin_bridge.authme.config import AuthMeConfig, Backend
from plugin_bridge.server.files import ServerProperties
from regsvc.auth.keys import UnusableKey
from regsvc.core.i18n.sentences import Sentence
from regsvc.doctor.facts.facts import Facts, FixLocation, Source
from regsvc.doctor.facts.host import is_world_readable
from regsvc.doctor.finding import Check, Severity, Symptom, check


@check(
    "secrets.config_file",
    Severity.RISKY,
    means="Every user of this machine can read our config, and it contains secrets.",
    why="So can every program that they run here.",
    do="Remove the read permission, or move each secret into a file of its own (<key>_file).",
    where=FixLocation(Source.OURS, "chmod 600"),
)
def config_file_is_open(facts: Facts) -> Iterator[str]:
    yield from facts.config.exposure_warnings


@check(
    "secrets.missing",
    Severity.BROKEN,
    means="The file of a secret (<key>_file) is missing, or we may not read it.",
    why="The companion does not start without it (exit status 78); commands that do not need it work.",
    do="Create the file, or let the companion's user read it.",
    where=FixLocation(Source.OURS),
)
def secret_is_missing(facts: Facts) -> Iterator[str]:
    yield from facts.config.missing_secrets.values()


@check(
    "secrets.keys",
    Severity.BROKEN,
    means="A key cannot be used: other users can read its file, it is too short, or it is publicly known.",
    why="The companion does not start (exit status 78): with the keys, anyone can create codes, links and tokens.",
    do="Follow the instruction in the finding. Replace a key that others may have read.",
    where=FixLocation(Source.OURS, "[auth] installation_key, signing_key; or the files in server.state_dir"),
)
def key_is_unusable(facts: Facts) -> Iterator[str]:
    if isinstance(facts.installation_key, UnusableKey):
        yield str(facts.installation_key)


@check(
    "secrets.game_files",
    Severity.RISKY,
    means="Every user of this machine can read a password, or the players' hashes, in a file of the game server.",
    why="So can every program that they run here.",
    do="Remove the read permission; the companion needs to be the file's owner or in its group.",
    where=FixLocation(Source.AUTHME, "chmod o-r"),
)
def game_file_is_open(facts: Facts) -> Iterator[Symptom]:
    for file, held in _list_files_with_secrets(facts):
        if is_world_readable(file):
            title = Sentence("Every user of this machine can read {secret} in {file}.", secret=held, file=file)
            yield Symptom(title, where=f"chmod o-r {file}")


@check(
    "secrets.own_database",
    Severity.RISKY,
    means="Every user of this machine can read our SQLite database.",
    why="It contains the players' addresses and password hashes.",
    do="Remove the read permission.",
    where=FixLocation(Source.OURS, "[server] state_dir: chmod 700"),
)
def own_database_is_open(facts: Facts) -> Iterator[Symptom]:
    file = facts.own_sqlite_file
    if is_world_readable(file):
        title = Sentence("Every user of this machine can read {file}.", file=file)
        yield Symptom(title, where=f"chmod 700 {file.absolute().parent}")


CHECKS: Final[tuple[Check, ...]] = (
    *(config_file_is_open, secret_is_missing, key_is_unusable, game_file_is_open, own_database_is_open),
)


def _list_files_with_secrets(facts: Facts) -> Iterator[tuple[Path, Sentence]]:
    """Yield files of the game server with a description of the secret in each."""
    for server in facts.servers:
        path = server.game.server_properties_path
        if path is not None and isinstance(server.properties, ServerProperties) and server.properties.rcon_password:
            yield path, Sentence("the password of the remote console (rcon.password)")
    for other in facts.other_authmes.values():
        if isinstance(other, AuthMeConfig):
            yield from _list_secrets_of(other)
    if not facts.has_authme:
        return
    authme = facts.authme
    yield from _list_secrets_of(authme)
    if authme.backend == Backend.SQLITE:
        yield authme.sqlite_file, Sentence("the hashes of all players' passwords")


def _list_secrets_of(authme: AuthMeConfig) -> Iterator[tuple[Path, Sentence]]:
    if authme.source is not None and authme.backend != Backend.SQLITE:
        yield authme.source, Sentence("the password of AuthMe's database (DataSource.mySQLPassword)")
    if authme.source is not None and authme.mail.is_set_up:
        yield authme.source, Sentence("the password of AuthMe's mail account (Email.mailPassword)")
