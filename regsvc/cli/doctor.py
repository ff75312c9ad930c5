"""`companion doctor`: the only command that works with a broken config, too."""

import logging
import os
import sys
from collections.abc import Callable

from regsvc.config.sections import Config, ConfigError
from regsvc.core.exceptions import locate_exception
from regsvc.core.i18n.languages import FALLBACK_LANGUAGE
from regsvc.doctor.checkup import examine
from regsvc.doctor.facts.facts import Facts
from regsvc.doctor.facts.host import Host
from regsvc.doctor.report import EXIT_STATUS, as_json, as_text, in_language


def run_doctor(read_config: Callable[[], Config], *, is_json: bool, language: str | None = None) -> int:
    """Run all checks, print the report and return the exit status: 0 fine, 1 risky, 2 broken.

    The text is in `language`, else in the host's (`server.language`); the JSON is in English.
    """
    logging.disable()  # whatever is worth reporting is a finding
    try:
        config: Config | ConfigError
        try:
            config = read_config()
        except ConfigError as error:
            config = error
        except Exception as error:  # a folder that is gone, or a bug: it is reported, as one in a check
            config = ConfigError(f"the config cannot be read ({locate_exception(error)})")
        facts = Facts(config, Host())
        checkup, places = examine(facts), facts.list_places()
    finally:
        logging.disable(logging.NOTSET)
    if language is None:
        language = FALLBACK_LANGUAGE if isinstance(config, ConfigError) else config.server.language
    checkup = in_language(checkup, FALLBACK_LANGUAGE if is_json else language)
    has_colours = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    print_report(as_json(checkup, places) if is_json else as_text(checkup, places, has_colours=has_colours))
    return EXIT_STATUS[checkup.verdict]


def print_report(text: str) -> None:
    """Print a text; characters that the terminal's encoding lacks are escaped."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding))
