"""Mail templates: `texts/<language>/<name>.txt` and `.html`, which a host's own folder may replace.

Instead of a folder, a language may be part of the files' names: `<name>.<language>.txt`.

The first line of the `.txt` is the subject. `$names` are substituted; a line with a name that has no value is left out.
In HTML every value is escaped, and `layout.html` is wrapped around it. A mail without an `.html` file is sent as plain
text.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template
from typing import Final

from plugin_bridge.regular_files import require_regular_file
from regsvc.core.i18n.languages import FALLBACK_LANGUAGE, is_language_tag, normalize_tag
from regsvc.core.startup_error import StartupError
from regsvc.core.text import strip_invisible

MAILS: Final[Mapping[str, frozenset[str]]] = {
    "verification_code": frozenset({"code", "minutes"}),
    "unlink_code": frozenset({"username", "code", "minutes"}),
    "already_registered": frozenset({"username"}),
    "received": frozenset({"username"}),
    "approved": frozenset({"username", "reason"}),
    "approved_set_password": frozenset({"username", "reason", "days"}),
    "rejected": frozenset({"username", "reason", "again", "name"}),
    "banned": frozenset({"username", "reason", "until"}),
    "unbanned": frozenset({"username", "reason"}),
    "ban_ended": frozenset({"username"}),
    "ban_ended_unapproved": frozenset({"username"}),
    "deleted": frozenset({"username", "reason"}),
    "reset_password": frozenset({"username", "minutes"}),
    "password_link": frozenset({"username", "minutes"}),
    "email_changed": frozenset({"username"}),
    "totp_enabled": frozenset({"username"}),
    "totp_disabled": frozenset({"username"}),
    "totp_reset": frozenset({"username"}),
    "account_deleted": frozenset({"username"}),
    "digest": frozenset({"count", "names", "more"}),
    "mail_test": frozenset(),
}
"""Every mail, with the names its text may use besides those common to all."""

Values = Mapping[str, str | None]

_LAYOUT_NAMES: Final = frozenset({"server", "language"})
_COMMON_NAMES: Final = _LAYOUT_NAMES | {"game", "link"}
_LAYOUT: Final = "layout.html"
_TEXT_FILE: Final = re.compile(r"(?P<name>\w+)\.(?P<language>[A-Za-z0-9-]+)\.txt")
_TEXT_FILE_IN_FOLDER: Final = re.compile(r"(?P<name>\w+)\.txt")
_SUBJECT: Final = "Subject: "
_BLANK_LINES: Final = re.compile(r"\n{3,}")


class BrokenTemplate(StartupError, ValueError):
    """A template that cannot be used; `str()` is a sentence with the file's name."""


@dataclass(frozen=True)
class FilledMail:
    """The rendered texts of one mail. `html` is None for plain-text mails."""

    subject: str
    text: str
    html: str | None


@dataclass(frozen=True)
class MailTemplate:
    """The template of one mail in one language."""

    language: str
    subject: str
    text: str
    html: str | None
    layout: str

    def find_missing_names(self, english: MailTemplate) -> set[str]:
        """Return the names that the English mail uses and this one does not: in its text, or in its HTML."""
        missing = _names_in(english.text) - _names_in(self.text)
        return missing if self.html is None else missing | (_names_in(english.html or "") - _names_in(self.html))

    def fill(self, values: Values) -> FilledMail:
        """Substitute `values`: one for each name of the mail and common name; None leaves out the lines that use it."""
        named = {**values, "language": self.language}
        return FilledMail(
            subject=" ".join(_fill(self.subject, named, strip_invisible).split()),
            text=_BLANK_LINES.sub("\n\n", _fill(self.text, named, strip_invisible)),
            html=None if self.html is None else self._fill_html(self.html, named),
        )

    def _fill_html(self, content: str, values: Values) -> str:
        inner = _fill(content, values, _escape)
        return Template(self.layout).substitute(
            server=_escape(values["server"] or ""), language=_escape(self.language), content=inner
        )


class MailTemplates:
    """All templates, read and validated once."""

    def __init__(self, templates: Mapping[tuple[str, str], MailTemplate]) -> None:
        """`templates` is keyed by name and lower-case language; every mail must exist in English."""
        self._templates = dict(templates)

    @property
    def languages(self) -> list[str]:
        """The languages that at least one mail is translated into, in alphabetical order."""
        return sorted({language for _name, language in self._templates})

    def get(self, name: str, language: str) -> MailTemplate:
        """Return the template for a language tag: exact, by its primary subtag ("zh-CN": "zh"), or English.

        Raises KeyError for an unknown mail, which is a bug.
        """
        tag = language.lower().replace("_", "-")
        for candidate in (tag, tag.partition("-")[0]):
            if (name, candidate) in self._templates:
                return self._templates[name, candidate]
        return self._templates[name, FALLBACK_LANGUAGE]


def load_mail_templates(folder: Path | None) -> MailTemplates:
    """Load the built-in templates, replaced by those in the host's own folder (None: there is none).

    Raises `BrokenTemplate`, and OSError if the folder cannot be read.
    """
    templates = dict(read_built_in_templates())
    if folder is None:
        return MailTemplates(templates)
    layout = next(iter(templates.values())).layout
    if (folder / _LAYOUT).is_file():
        layout = _read(folder / _LAYOUT)
        _check(folder / _LAYOUT, layout, _LAYOUT_NAMES | {"content"})
        templates = {key: replace(template, layout=layout) for key, template in templates.items()}
    templates.update(_load_folder(folder, layout))
    return MailTemplates(templates)


@cache
def read_built_in_templates() -> Mapping[tuple[str, str], MailTemplate]:
    """Return the templates that are shipped, read once: they stay the same while the program runs."""
    builtin = files("regsvc.notifications.mail") / "texts"
    return dict(_load_folder(builtin, _read(builtin / _LAYOUT)))


@dataclass(frozen=True)
class TemplateFile:
    """The files of one mail in one language; `html` need not exist."""

    name: str
    language: str
    text: Traversable
    html: Traversable

    def read(self, layout: str = "") -> MailTemplate:
        """Read the template. Raises `BrokenTemplate`."""
        if self.name not in MAILS:
            raise BrokenTemplate(f"{self.text}: there is no mail with this name; the names are {', '.join(MAILS)}.")
        names = MAILS[self.name] | _COMMON_NAMES
        subject, newline, text = _read(self.text).partition("\n")
        if not subject.startswith(_SUBJECT) or not newline:
            raise BrokenTemplate(f'{self.text}: the first line must be "{_SUBJECT}…", followed by the text.')
        content = _read(self.html) if self.html.is_file() else None
        for file, written in ((self.text, subject), (self.text, text), (self.html, content or "")):
            _check(file, written, names)
        return MailTemplate(self.language, subject.removeprefix(_SUBJECT), text.strip("\n"), content, layout)


def list_template_files(folder: Traversable) -> Iterator[TemplateFile]:
    """Yield the files of a folder with templates, and those of its folders that are named after a language."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if match := _TEXT_FILE.fullmatch(entry.name):
            html_file = folder / f"{match['name']}.{match['language']}.html"
            yield TemplateFile(match["name"], normalize_tag(match["language"]), entry, html_file)
        elif is_language_tag(entry.name) and entry.is_dir():
            for file in sorted(entry.iterdir(), key=lambda file: file.name):
                if match := _TEXT_FILE_IN_FOLDER.fullmatch(file.name):
                    yield TemplateFile(match["name"], normalize_tag(entry.name), file, entry / f"{match['name']}.html")


def _load_folder(folder: Traversable, layout: str) -> Iterator[tuple[tuple[str, str], MailTemplate]]:
    for file in list_template_files(folder):
        yield (file.name, file.language), file.read(layout)


def _names_in(text: str) -> set[str]:
    return set(Template(text).get_identifiers())


def _check(file: Traversable, written: str, names: frozenset[str]) -> None:
    template = Template(written)
    unknown = _names_in(written) - names
    if not template.is_valid() or unknown:
        found = ", ".join(f"${name}" for name in sorted(unknown)) or "a lone $ (write $$)"
        known = ", ".join(f"${name}" for name in sorted(names))
        raise BrokenTemplate(f"{file}: {found} is unknown here; allowed names are {known}.")


def _read(file: Traversable) -> str:
    try:
        require_regular_file(file)
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BrokenTemplate(f"{file}: the file is not UTF-8.") from error
    except OSError as error:
        raise BrokenTemplate(f"{file}: it cannot be read ({error.strerror}).") from error


def _fill(text: str, values: Values, escape: Callable[[str], str]) -> str:
    filled = []
    for line in text.splitlines():
        template = Template(line)
        present = {name: values[name] for name in template.get_identifiers()}
        filled_in = {name: escape(value) for name, value in present.items() if value is not None}
        if len(filled_in) == len(present):
            filled.append(template.substitute(filled_in))
    return "\n".join(filled) + "\n"


def _escape(value: str) -> str:
    return html.escape(strip_invisible(value)).replace("\n", "<br>")
