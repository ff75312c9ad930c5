"""Mail templates: `texts/<language>/<name>.txt`, which a host's own folder may replace, and their HTML.

Instead of a folder, a language may be part of the files' names: `<name>.<language>.txt`.

The first line of the `.txt` is the subject. `$names` are substituted; a line with a name that has no value is left out.
The HTML is made from the text, unless the host has an `.html` file beside the `.txt`. Either way every value is escaped
in it, and `layout.html` is wrapped around it.
"""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template
from typing import Final

from regsvc.core.email_address import is_email_address
from regsvc.core.exceptions import StartupError
from regsvc.core.i18n.languages import FALLBACK_LANGUAGE, is_language_tag, normalize_tag
from regsvc.core.safe_paths import read_text_file
from regsvc.core.text import strip_invisible

MAILS: Final[Mapping[str, frozenset[str]]] = {
    "verification_code": frozenset({"code", "minutes"}),
    "unlink_code": frozenset({"username", "code", "minutes"}),
    "already_registered": frozenset({"username"}),
    "received": frozenset({"username"}),
    "approved": frozenset({"username", "reason"}),
    "approved_set_password": frozenset({"username", "reason", "days"}),
    "approved_new_password": frozenset({"username", "reason"}),
    "rejected": frozenset({"username", "reason", "again", "name"}),
    "banned": frozenset({"username", "reason", "until"}),
    "unbanned": frozenset({"username", "reason"}),
    "unbanned_set_password": frozenset({"username", "reason"}),
    "reopened": frozenset({"username", "reason"}),
    "asked": frozenset({"username", "question"}),
    "ban_ended": frozenset({"username"}),
    "ban_ended_set_password": frozenset({"username"}),
    "ban_ended_unapproved": frozenset({"username"}),
    "deleted": frozenset({"username", "reason"}),
    "reset_password": frozenset({"username", "minutes"}),
    "password_link": frozenset({"username", "minutes"}),
    "password_changed": frozenset({"username", "when", "where", "days"}),
    "email_changed": frozenset({"username", "days"}),
    "totp_enabled": frozenset({"username"}),
    "totp_disabled": frozenset({"username"}),
    "totp_reset": frozenset({"username"}),
    "token_made": frozenset({"username"}),
    "chat_code_made": frozenset({"username"}),
    "password_link_made": frozenset({"username"}),
    "account_deleted": frozenset({"username"}),
    "digest": frozenset({"count", "names", "more"}),
    "mail_test": frozenset(),
}
"""Every mail, with the names its text may use besides those common to all."""

Values = Mapping[str, str | None]

_COMMON_NAMES: Final = frozenset({"server", "language", "game", "link", "contact"})
_LOOK_NAMES: Final = frozenset({"accent", "accent_dark", "logo"})
_LAYOUT_NAMES: Final = _LOOK_NAMES | {"server", "language", "content", "preheader", "direction"}
_RIGHT_TO_LEFT: Final = frozenset({"ar", "ckb", "dv", "fa", "he", "ps", "sd", "ug", "ur", "yi"})
_LONGEST_PREHEADER: Final = 110
_LAYOUT: Final = "layout.html"
_TEXT_FILE: Final = re.compile(r"(?P<name>\w+)\.(?P<language>[A-Za-z0-9-]+)\.txt")
_TEXT_FILE_IN_FOLDER: Final = re.compile(r"(?P<name>\w+)\.txt")
_SUBJECT: Final = "Subject: "
_BLANK_LINES: Final = re.compile(r"\n{3,}")

_BUTTON_LINE: Final = re.compile(r"^(?P<label>\S.*?)[^\S\n]*[:：][^\S\n]*\$(?:link|\{link\})[^\S\n]*$", re.MULTILINE)
_PARAGRAPH_BREAK: Final = re.compile(r"\n(?:[^\S\n]*\n)+")
_FLUSH_LINE: Final = re.compile(r"^\S", re.MULTILINE)
_LONE_NAME: Final = re.compile(r"\s*\$\{?(\w+)\}?\s*")
_SHOWN_APART: Final = re.compile(
    r"((?<!\$)\$(?:(?:link|game)\b|\{(?:link|game)\})|https?://[!#-;=?-~]*[\w/$}=-])", re.ASCII
)

# Colours of light mode are written into each tag, as not every mail client reads the style sheet of the layout, which
# has those of dark mode.
_PARAGRAPH: Final = '<p style="margin:0 0 16px">{}</p>'
_QUOTE: Final = (
    '<blockquote style="margin:0 0 16px;padding:12px 16px;border-radius:8px;background:#f3f5f7;color:#1c2430">'
    "{}</blockquote>"
)
_CODE: Final = (
    '<p class="code" dir="ltr" style="margin:0 0 16px;padding:16px 8px;border-radius:8px;background:#f3f5f7;'
    "color:#1c2430;font:bold 30px/1.3 Menlo,Consolas,monospace;letter-spacing:6px;text-align:center;"
    'white-space:nowrap">'
    "{}</p>"
)
# A table, since Outlook knows no padding of links; its cell has the colour for clients that drop styles.
_BUTTON: Final = (
    '<table role="presentation" cellpadding="0" cellspacing="0" border="0" style="margin:24px 0"><tr>'
    '<td class="button" bgcolor="$accent" style="border-radius:8px;background:$accent"><a class="button" href="$link" '
    'style="display:inline-block;padding:12px 22px;border-radius:8px;color:#ffffff;text-decoration:none;'
    'font-weight:bold">{}</a></td></tr></table>'
)
_LINK: Final = '<a class="link" href="{0}" style="color:$accent">{0}</a>'
_STRONG: Final = "<strong>{}</strong>"


class BrokenTemplate(StartupError, ValueError):
    """A template that cannot be used; `str()` is a sentence with the file's name."""


@dataclass(frozen=True)
class MailTemplate:
    """The template of one mail in one language. `html` is the host's own; None: it is made from the text."""

    language: str
    subject: str
    text: str
    html: str | None
    layout: str

    def find_missing_names(self, english: MailTemplate) -> set[str]:
        """Return the names that the English mail uses and this one does not: in its text, or in its own HTML."""
        used = _names_in(self.text) if self.html is None else _names_in(self.text) & _names_in(self.html)
        return _names_in(english.text) - used

    def fill(self, values: Values) -> tuple[str, str, str]:
        """Return subject, text and HTML with `values`: one for each name of the mail, common name and name of the look.

        None leaves out the lines that use it.
        """
        named = {**values, "language": self.language}
        content = html_of_text(_drop_lines(self.text, named)) if self.html is None else self.html
        plain = {name: None if value is None else strip_invisible(value) for name, value in named.items()}
        escaped = {name: value and html.escape(value).replace("\n", "<br>") for name, value in plain.items()}
        escaped["contact"] = _contact_html(plain.get("contact"))
        text = _fill(self.text, plain)
        return (
            " ".join(_fill(self.subject, plain).split()),
            _BLANK_LINES.sub("\n\n", text),
            _fill(
                self.layout,
                {
                    **escaped,
                    "content": _fill(content, escaped),
                    "preheader": html.escape(_preheader(text)),
                    "direction": "rtl" if self.language.partition("-")[0] in _RIGHT_TO_LEFT else "ltr",
                },
            ),
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
        _check(folder / _LAYOUT, layout, _LAYOUT_NAMES)
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
        _check(self.text, subject, names)
        _check(self.text, text, names)
        _check(self.html, content or "", names | _LOOK_NAMES)
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
        return read_text_file(file)
    except UnicodeDecodeError as error:
        raise BrokenTemplate(f"{file}: the file is not UTF-8.") from error
    except OSError as error:
        raise BrokenTemplate(f"{file}: it cannot be read ({error.strerror}).") from error


def html_of_text(text: str) -> str:
    """Return the HTML template that shows a mail's text template.

    The last line `Label: $link` is a button, an indented paragraph or a lone `$name` a quote, and a lone `$code` large.
    """
    *_, button = [None, *_BUTTON_LINE.finditer(text)]
    if button is not None:
        text = f"{text[: button.start()]}\n\n{button[0]}\n\n{text[button.end() :]}"
    shown = []
    for paragraph in _PARAGRAPH_BREAK.split(text.strip("\n")):
        if button is not None and paragraph == button[0]:
            shown.append(_BUTTON.format(html.escape(button["label"])))
        elif paragraph.strip():
            shown.append(_html(paragraph))
    return "\n".join(shown)


def _html(paragraph: str) -> str:
    lone = _LONE_NAME.fullmatch(paragraph)
    if lone and lone[1] == "code":
        return _CODE.format("$code")
    is_quote = not _FLUSH_LINE.search(paragraph) or (lone and lone[1] not in _COMMON_NAMES)
    shown = "<br>\n".join(map(_show, paragraph.splitlines()))
    return (_QUOTE if is_quote else _PARAGRAPH).format(shown)


def _contact_html(contact: str | None) -> str | None:
    """Return the HTML of the host's contact: a link if it is an address, which the host's config vouches for."""
    if not contact or not (is_email_address(contact) or "://" in contact):
        return contact and html.escape(contact)
    address = contact if "://" in contact else f"mailto:{contact}"
    return f'<a class="link" href="{html.escape(address)}" style="color:inherit">{html.escape(contact)}</a>'


def _show(line: str) -> str:
    """Return the HTML of a line. Addresses in values are no links: only the template decides where a mail leads."""
    shown, *rest = map(html.escape, _SHOWN_APART.split(line.strip()))
    for apart, text in zip(rest[::2], rest[1::2], strict=True):
        shown += (_STRONG if apart.strip("${}") == "game" else _LINK).format(apart) + text
    return shown


def _preheader(text: str) -> str:
    """Return what lists of mails show beside the subject: the first sentence after the greeting, without links."""
    _greeting, *paragraphs = text.strip().split("\n\n")
    for paragraph in paragraphs:
        if "://" not in paragraph:
            return textwrap.shorten(paragraph, _LONGEST_PREHEADER, placeholder="…")
    return ""


def _drop_lines(text: str, values: Values) -> str:
    """Return the text without the lines that use a name whose value is None."""
    kept = []
    for line in text.splitlines():
        if None not in map(values.__getitem__, _names_in(line)):
            kept.append(line)
    return "\n".join(kept)


def _fill(text: str, values: Values) -> str:
    return Template(_drop_lines(text, values)).substitute(values) + "\n"
