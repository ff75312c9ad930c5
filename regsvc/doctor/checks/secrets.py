"""Secrets that others on this machine may read, and keys that cannot be used. No secret is told, only where it is."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from plugin_bridge.authme.config import Backend
from regsvc.auth.keys import UnusableKey
from regsvc.config.loader import warn_of_shown_secrets
from regsvc.doctor.facts.facts import Facts, FixLocation, Source
from regsvc.doctor.facts.host import is_world_readable
from regsvc.doctor.finding import Check, Severity, Symptom, check


@check(
    "secrets.config_file",
    Severity.RISKY,
    means="Everybody on this machine may read our config, and there are secrets in it.",
    why="So may any program that anybody runs here.",
    do="Take the right from others, or move each secret into a file of its own (<key>_file).",
    where=FixLocation(Source.OURS, "chmod 600"),
)
def config_file_is_open(facts: Facts) -> Iterator[str]:
    if facts.config.file is not None:
        yield from warn_of_shown_secrets(facts.config.file)


@check(
    "secrets.keys",
    Severity.BROKEN,
    means="A key cannot be used: others may read its file, it is too short, or one that everybody knows.",
    why="The companion does not start (exit status 78): who has the keys can make codes, links and tokens.",
    do="Do what the sentence says. A key that others may have read is better replaced.",
    where=FixLocation(Source.OURS, "[auth] installation_key, signing_key; or the files in server.state_dir"),
)
def key_is_unusable(facts: Facts) -> Iterator[str]:
    if isinstance(facts.installation_key, UnusableKey):
        yield str(facts.installation_key)


@check(
    "secrets.game_files",
    Severity.RISKY,
    means="Everybody on this machine may read a password or the players' hashes in a file of the game server.",
    why="So may any program that anybody runs here.",
    do="Take the right from others; the companion needs to be the same user, or in the file's group.",
    where=FixLocation(Source.AUTHME, "chmod o-r"),
)
def game_file_is_open(facts: Facts) -> Iterator[Symptom]:
    for file, held in _list_files_with_secrets(facts):
        if is_world_readable(file):
            yield Symptom(f"Everybody on this machine may read {held} in {file}.", where=f"chmod o-r {file}")


@check(
    "secrets.own_database",
    Severity.RISKY,
    means="Everybody on this machine may read our own SQLite database.",
    why="It has the players' addresses and the hashes of their passwords.",
    do="Take the right from others.",
    where=FixLocation(Source.OURS, "[server] state_dir: chmod 700"),
)
def own_database_is_open(facts: Facts) -> Iterator[Symptom]:
    file = facts.own_sqlite_file
    if is_world_readable(file):
        yield Symptom(f"Everybody on this machine may read {file}.", where=f"chmod 700 {file.absolute().parent}")


CHECKS: Final[tuple[Check, ...]] = (config_file_is_open, key_is_unusable, game_file_is_open, own_database_is_open)


def _list_files_with_secrets(facts: Facts) -> Iterator[tuple[Path, str]]:
    """Files of the game server, and what of value they hold."""
    properties_path = facts.config.game.server_properties_path
    if properties_path is not None and facts.properties_problem is None and facts.properties.rcon_password:
        yield properties_path, "the password of the remote console (rcon.password)"
    if not facts.has_authme:
        return
    authme = facts.authme
    if authme.source is not None and authme.backend != Backend.SQLITE:
        yield authme.source, "the password of AuthMe's database (DataSource.mySQLPassword)"
    if authme.source is not None and authme.mail.is_set_up:
        yield authme.source, "the password of AuthMe's mail account (Email.mailPassword)"
    if authme.backend == Backend.SQLITE:
        yield authme.sqlite_file, "the hashes of all players' passwords"
