"""Checks of our own config, of the files it names, and of secrets that others can read. Secrets are never printed."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from plugin_bridge.authme.config import AuthMeConfig, Backend
from plugin_bridge.server.files import ServerProperties
from regsvc.auth.keys import UnusableKey
from regsvc.config.cross_key_rules import find_violations, game_folder_warnings
from regsvc.config.sections import ConfigError
from regsvc.core.i18n import BrokenTranslation, Sentence, join, load_translations
from regsvc.doctor.facts.facts import Facts, FactUnavailable, FixLocation, Source
from regsvc.doctor.facts.host import is_world_readable
from regsvc.doctor.finding import Severity, Symptom, check
from regsvc.notifications.mail.renderer import BrokenTemplate, load_mail_templates
from regsvc.registration.questionnaire.questions import load_questionnaire


@check(
    "config.broken",
    Severity.BROKEN,
    means="The config has a mistake: an unknown section or key, an invalid value, or conflicting keys.",
    why="The companion does not start (exit status 78).",
    do="Fix what the finding names; `companion docs conf/companion.toml` explains every key.",
    where=FixLocation(Source.OURS),
)
def config_is_broken(facts: Facts) -> Iterator[str]:
    yield from facts.config_problems
    if facts.config_problems:
        return
    config = facts.config
    for section, key, reason, _is_unreadable in find_violations(config):  # for our user; root could read more
        if f"{section}.{key}" not in config.missing_secrets:
            yield f"{config.file or 'default'}: [{section}] {key}: {reason}."


@check(
    "config.unwise",
    Severity.RISKY,
    means="The config has a setting that is unsuitable for production, such as complete mails in the log.",
    why="Such settings are meant for trying things out, not for players to depend on.",
    do="Change the key that the finding names.",
    where=FixLocation(Source.OURS),
)
def config_is_unwise(facts: Facts) -> Iterator[str]:
    config = facts.config
    reported_elsewhere = (*config.exposure_warnings, *config.without_effect, *game_folder_warnings(config))
    yield from (warning for warning in config.warnings if warning not in reported_elsewhere)


@check(
    "config.no_effect",
    Severity.RISKY,
    means="Keys of the config have no effect: they need another key, a variable of the environment takes their place, "
    "or they are in a file that is not read.",
    why="What they say was meant to be so, and is not.",
    do="Set what they need, or remove them.",
    where=FixLocation(Source.OURS),
)
def keys_have_no_effect(facts: Facts) -> Iterator[Sentence]:
    if sentences := facts.config.without_effect:
        yield join(sentences, "{first} {next}")


@check(
    "config.broken_file",
    Severity.BROKEN,
    means="A custom file cannot be used: the questionnaire, a mail template or a translation.",
    why="The companion does not start (exit status 78).",
    do="Fix the file, or remove the key that names it from the config.",
    where=FixLocation(Source.OURS, "questionnaire.file, mail.templates, server.translations"),
)
def file_is_broken(facts: Facts) -> Iterator[str]:
    config = facts.config
    questionnaire, translations = config.questionnaire.file, config.server.translations
    if questionnaire is not None:
        yield from _problems(lambda: load_questionnaire(questionnaire, config.questionnaire.pass_score))
    if translations is not None:
        yield from _problems(lambda: load_translations(translations))
    yield from _problems(lambda: load_mail_templates(config.mail.templates))


@check(
    "config.restart_needed",
    Severity.RISKY,
    means="A config file has changed since the companion started, and the change needs a restart.",
    why="Until then the companion works with the old values.",
    do="Restart the companion.",
    where=FixLocation(Source.MACHINE, "systemctl restart companion"),
)
def restart_is_needed(facts: Facts) -> Iterator[Sentence]:
    running_daemon = facts.running_daemon
    if running_daemon is not None and running_daemon.restart_needed:
        keys = ", ".join(running_daemon.restart_needed)
        yield Sentence("Changed, and not yet in effect: {keys}.", keys=keys)


def _problems(load: Callable[[], object]) -> Iterator[str]:
    """Yield the problems raised by `load`; nothing if it succeeds."""
    try:
        load()
    except ConfigError as error:
        yield from error.problems
    except (BrokenTemplate, BrokenTranslation, OSError) as error:
        yield str(error)


@check(
    "secrets.missing",
    Severity.BROKEN,
    means="The file of a secret (<key>_file) is missing, or we may not read it.",
    why="The companion does not start without it (exit status 78); commands that do not need it work.",
    do="Create the file, or let the companion’s user read it.",
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
    "secrets.readable",
    Severity.RISKY,
    means="Every user of this machine can read a secret in our config, our SQLite database, or a password or the "
    "players’ hashes in a file of the game server.",
    why="So can every program that they run here.",
    do="Remove the read permission; the companion needs to be the file’s owner or in its group.",
    where=FixLocation(Source.MACHINE, "chmod o-r"),
)
def secret_is_readable(facts: Facts) -> Iterator[str | Symptom]:
    for warning in facts.config.exposure_warnings:
        do = Sentence("Remove the read permission, or move each secret into a file of its own (<key>_file).")
        yield Symptom(warning, do, FixLocation(Source.OURS, "chmod 600"))
    with suppress(FactUnavailable):  # on a database server, where files are not ours to examine
        if is_world_readable(file := facts.own_sqlite_file):
            title = Sentence("Every user of this machine can read {file}.", file=file)
            yield Symptom(title, Sentence("Remove the read permission."), f"chmod 700 {file.absolute().parent}")
    for file, held in _list_files_with_secrets(facts):
        if is_world_readable(file):
            title = Sentence("Every user of this machine can read {secret} in {file}.", secret=held, file=file)
            yield Symptom(title, where=f"chmod o-r {file}")


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
        yield authme.sqlite_file, Sentence("the hashes of all players’ passwords")


def _list_secrets_of(authme: AuthMeConfig) -> Iterator[tuple[Path, Sentence]]:
    if authme.source is not None and authme.backend != Backend.SQLITE:
        yield authme.source, Sentence("the password of AuthMe’s database (DataSource.mySQLPassword)")
    if authme.source is not None and authme.mail.is_set_up:
        yield authme.source, Sentence("the password of AuthMe’s mail account (Email.mailPassword)")
