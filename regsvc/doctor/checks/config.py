"""Checks of our own config: mistakes in it or in a file it names, and unsafe settings."""

from collections.abc import Callable, Iterator
from typing import Final

from regsvc.config.cross_key_rules import find_violations, game_folder_warnings
from regsvc.config.sections import ConfigError
from regsvc.core.i18n.sentences import Sentence
from regsvc.core.i18n.translation_files import BrokenTranslation
from regsvc.core.i18n.translations import load_translations
from regsvc.doctor.facts.facts import Facts, FixLocation, Source
from regsvc.doctor.finding import Check, Severity, check
from regsvc.notifications.mail.templates import BrokenTemplate, load_mail_templates
from regsvc.registration.questionnaire.file import load_questionnaire


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
    reported_elsewhere = (*config.exposure_warnings, *game_folder_warnings(config))
    yield from (warning for warning in config.warnings if warning not in reported_elsewhere)


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


CHECKS: Final[tuple[Check, ...]] = (config_is_broken, config_is_unwise, file_is_broken, restart_is_needed)


def _problems(load: Callable[[], object]) -> Iterator[str]:
    """Yield the problems raised by `load`; nothing if it succeeds."""
    try:
        load()
    except ConfigError as error:
        yield from error.problems
    except (BrokenTemplate, BrokenTranslation, OSError) as error:
        yield str(error)
