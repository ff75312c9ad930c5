"""Our own config: what keeps it, or a file it names, from being used, and what it allows but should not."""

from collections.abc import Callable, Iterator
from typing import Final

from regsvc.config.loader import warn_of_shown_secrets
from regsvc.config.sections import ConfigError
from regsvc.core.i18n import BrokenTranslation, load_translations
from regsvc.doctor.facts.facts import Facts, FixLocation, Source
from regsvc.doctor.finding import Check, Severity, check
from regsvc.notifications.mail.templates import BrokenTemplate, load_mail_templates
from regsvc.registration.questionnaire.file import load_questionnaire


@check(
    "config.broken",
    Severity.BROKEN,
    means="The config has a mistake: an unknown section or key, a wrong value, keys that do not go together.",
    why="The companion does not start (exit status 78).",
    do="Mend what the sentence names; conf/companion.toml has every key with its help.",
    where=FixLocation(Source.OURS),
)
def config_is_broken(facts: Facts) -> Iterator[str]:
    yield from facts.config_problems


@check(
    "config.unwise",
    Severity.RISKY,
    means="The config allows something that should not stay so, such as whole mails in the log.",
    why="It is there so that things can be tried out. Players should not have to depend on it.",
    do="Change the key that the sentence names.",
    where=FixLocation(Source.OURS),
)
def config_is_unwise(facts: Facts) -> Iterator[str]:
    config = facts.config
    told_elsewhere = warn_of_shown_secrets(config.file) if config.file else []
    yield from (warning for warning in config.warnings if warning not in told_elsewhere)


@check(
    "config.broken_file",
    Severity.BROKEN,
    means="A file with texts of the host's own cannot be used: the questionnaire, a mail, a translation.",
    why="The companion does not start (exit status 78).",
    do="Mend the file, or take the key that names it out of the config.",
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


CHECKS: Final[tuple[Check, ...]] = (config_is_broken, config_is_unwise, file_is_broken)


def _problems(load: Callable[[], object]) -> Iterator[str]:
    """What is said when it is loaded; nothing if all is well."""
    try:
        load()
    except ConfigError as error:
        yield from error.problems
    except (BrokenTemplate, BrokenTranslation, OSError) as error:
        yield str(error)
