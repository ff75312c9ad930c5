"""Rendering of mails at the moment of delivery, from templates and the rows that their outbox entries refer to.

Templates: `texts/<language>/<name>.txt`, which a host's own folder may replace, and their HTML.

Instead of a folder, a language may be part of the files' names: `<name>.<language>.txt`.

The first line of the `.txt` is the subject. `$names` are substituted; a line with a name that has no value is left out.
The HTML is made from the text, unless the host has an `.html` file beside the `.txt`. Either way every value is escaped
in it, and `layout.html` is wrapped around it.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime, timedelta
from email.header import Header
from email.headerregistry import Address, BaseHeader, HeaderRegistry, UniqueAddressHeader
from email.message import EmailMessage
from email.policy import SMTP, Policy
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template
from typing import Any, Final
from urllib.parse import urljoin

from plugin_bridge.text import one_line
from regsvc.auth.derived_secrets import APPLICATION_PATH, ApplicationTokens
from regsvc.auth.password_links import (
    FORGOT_PASSWORD_PATH,
    LIFETIMES,
    UNDO_LIFETIME,
    LinkPurpose,
    PasswordLinks,
    link_address,
)
from regsvc.auth.verification_codes import VerificationCodes
from regsvc.config.host_style import accent_of
from regsvc.config.sections import Config
from regsvc.core.addresses import public_game_address
from regsvc.core.clock import Clock, epoch_ms, from_epoch_ms
from regsvc.core.email_address import EmailAddress, is_email_address, parse_email, split_sender
from regsvc.core.exceptions import StartupError
from regsvc.core.i18n import FALLBACK_LANGUAGE, Translations, is_language_tag, normalize_tag
from regsvc.core.safe_paths import read_text_file
from regsvc.core.text import strip_invisible
from regsvc.database import models
from regsvc.database.bulk import PreparedQuery, slot
from regsvc.database.models import APPROVED, PENDING, REJECTED, AskedQuestion, Link, OutboxEntry, Review, User
from regsvc.notifications.delivery import Drop

_NAMES_ALONE: Final = (
    *("already_registered", "received", "ban_ended", "ban_ended_set_password", "ban_ended_unapproved"),
    *("totp_enabled", "totp_disabled", "totp_reset", "token_made", "chat_code_made", "password_link_made"),
    *("account_deleted", "membership_declined"),
)
_WITH_REASON: Final = "approved", "approved_new_password", "unbanned", "unbanned_set_password", "reopened", "deleted"
MAILS: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(_NAMES_ALONE, frozenset({"username"})),
    **dict.fromkeys(_WITH_REASON, frozenset({"username", "reason"})),
    "approved": frozenset({"username", "reason", "until"}),
    "verification_code": frozenset({"code", "minutes"}),
    "unlink_code": frozenset({"username", "code", "minutes"}),
    "approved_set_password": frozenset({"username", "reason", "days", "until"}),
    "rejected": frozenset({"username", "reason", "again", "name"}),
    "banned": frozenset({"username", "reason", "until"}),
    "asked": frozenset({"username", "question", "until"}),
    "decision_undone": frozenset({"username", "standing", "until"}),
    "reset_password": frozenset({"username", "minutes"}),
    "password_link": frozenset({"username", "minutes"}),
    "password_changed": frozenset({"username", "when", "where", "days"}),
    "email_changed": frozenset({"username", "days"}),
    "membership_ended": frozenset({"username", "why"}),
    "membership_ending": frozenset({"username", "why", "until"}),
    "membership_renewed": frozenset({"username", "standing", "until"}),
    "digest": frozenset({"count", "names", "more"}),
    "registration_paused": frozenset({"count", "names", "more"}),
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


_DECISIONS: Final = (
    *("decision_undone", "banned", "unbanned", "unbanned_set_password", "reopened", "deleted"),
    *("ban_ended", "ban_ended_set_password", "ban_ended_unapproved"),
)
_ABOUT_ACCOUNT: Final = (
    *("reopened", "ban_ended_unapproved", "totp_enabled", "totp_disabled", "totp_reset", "token_made"),
    *("chat_code_made", "password_link_made", "membership_ended", "membership_ending", "membership_declined"),
    "decision_undone",
)
_OF_MEMBERSHIP: Final = ("membership_ended", "membership_ending", "membership_renewed")
_PAGES: Final[Mapping[str, str]] = {
    **dict.fromkeys(_ABOUT_ACCOUNT, "/account"),
    **dict.fromkeys(("approved", "unbanned", "ban_ended", "membership_renewed"), "/server"),
    **dict.fromkeys(("already_registered", "approved_new_password", "unbanned_set_password"), FORGOT_PASSWORD_PATH),
    **dict.fromkeys(("ban_ended_set_password", "password_changed"), FORGOT_PASSWORD_PATH),
    **dict.fromkeys(("banned", "deleted", "email_changed", "account_deleted", "mail_test"), "/"),
    "rejected": "/register",
    "digest": "/admin#queue",
    "registration_paused": "/admin#queue",
}
"""The page that each mail leads to.

A mail with a code has no button: the page that asked for it is open, and a second one would lack what was entered.
"""

_MAX_LISTED = 30
"""How many names a digest lists; further ones are only counted."""

_LONGEST_LINE: Final = 78
_ENCODED_WORD: Final = re.compile(r"=\?[^?\s]+\?[^?\s]+\?[^?\s]*\?=")
"""A piece of a header as it is sent (RFC 2047): a code in it may be in base64."""


class _OneAddress(UniqueAddressHeader, BaseHeader):  # type: ignore[misc]  # they declare `max_count` differently
    """Header with one address, which is one for every reader, whatever the name before it.

    Where Python 3.11 breaks the line it drops the name's quotes: https://github.com/python/cpython/issues/80222.
    """

    def fold(self, *, policy: Policy) -> str:
        """Return the lines of the header. What does not fit into one, or is not ASCII, is encoded (RFC 2047)."""
        [address] = self.addresses
        line = f"{self.name}: {address}"
        if not (address.addr_spec.isascii() or getattr(policy, "utf8", False)):
            return super().fold(policy=policy)
        if address.display_name and (len(line) > _LONGEST_LINE or not line.isascii()):
            words = Header(address.display_name, "utf-8", header_name=self.name).encode(linesep=policy.linesep)
            line = f"{self.name}: {words}{policy.linesep} <{address.addr_spec}>"
        return line + policy.linesep


class _HeaderClasses(HeaderRegistry):
    """Header registry that keeps the classes it makes: a new one for each header is half the work of a mail."""

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[str, Any] = {}
        for name in ("from", "to", "reply-to"):
            self.map_to_type(name, _OneAddress)

    def __getitem__(self, name: str) -> Any:
        key = name.lower()
        if key not in self._made:
            self._made[key] = super().__getitem__(name)
        return self._made[key]


_POLICY: Final = SMTP.clone(header_factory=_HeaderClasses())


@dataclass(frozen=True)
class RenderedMail:
    """A mail ready to be sent. `secrets` are the texts in it that must appear nowhere else."""

    message: EmailMessage = field(repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def censor(self, text: str) -> str:
        """Return the text without the secrets of this mail: servers quote what they reject."""
        for secret in self.secrets:
            text = text.replace(secret, "…")
        return text


@dataclass(frozen=True)
class _Content:
    values: Values
    secrets: tuple[str, ...] = field(default=(), repr=False)


@dataclass(eq=False)
class MailRenderer:
    """Renderer of mails; reads the database, and for a link writes to it. Blocking."""

    templates: MailTemplates
    codes: VerificationCodes
    links: PasswordLinks
    now: Clock
    _: KW_ONLY
    sender: str
    """The From address of every mail; without a display name it gets the server's."""
    config: Callable[[], Config]
    """Returns the current config, whose colours and logo a reload may change."""
    translations: Translations
    base_url: str
    """Without a trailing slash."""
    application_tokens: ApplicationTokens
    find_reapply_at: Callable[[Review], datetime | None]
    """Returns when the name of a rejected registration is free again; None if it already is."""
    find_standing: Callable[[User], str]
    """Returns what the user may do in the game as it is now, as a key of `[undone]`."""

    @cached_property
    def _from(self) -> Address:
        return _sender_address(self.sender, self.config().server.name)

    @cached_property
    def _contents(self) -> Mapping[str, Callable[[OutboxEntry], _Content]]:
        return {
            **dict.fromkeys(_NAMES_ALONE, self._about_user),
            "verification_code": self._verification_code,
            "unlink_code": self._unlink_code,
            "received": self._received,
            "approved": self._approved,
            "approved_set_password": self._approved_set_password,
            "approved_new_password": self._approved,
            "rejected": self._rejected,
            **dict.fromkeys(_DECISIONS, self._decision),
            "asked": self._asked,
            "reset_password": self._password_link,
            "password_link": self._password_link,
            **dict.fromkeys(("digest", "registration_paused"), self._digest),
            "password_changed": self._password_changed,
            "email_changed": self._email_changed,
            **dict.fromkeys(_OF_MEMBERSHIP, self._membership),
            "account_deleted": lambda mail: _Content({"username": _get_review(mail).username}),
        }

    def render(self, mail: OutboxEntry) -> RenderedMail:
        """Return the whole mail. Raises `Drop`, and KeyError for an unknown mail, which is a bug."""
        content = self._contents[mail.template](mail)
        # the same for every attempt, so that mail clients can detect a repetition
        message_id = self._message_id(f"{mail.id} {epoch_ms(mail.created_at)}")
        language = self.translations.offered_for(mail.language)
        message = self.compose(mail.template, recipient_of(mail), language, content.values, message_id)
        encoded = _ENCODED_WORD.findall(message["Subject"].fold(policy=_POLICY)) if content.secrets else ()
        return RenderedMail(message, (*encoded, *content.secrets))

    def compose(
        self, name: str, to: EmailAddress, language: str, values: Values, message_id: str | None = None
    ) -> EmailMessage:
        """Return a mail from its template, as plain text and as HTML."""
        subject, text, html = self.templates.get(name, language).fill({**self._common_values(name), **values})
        moment = self.now()
        message = EmailMessage(policy=_POLICY)
        message["Subject"] = subject
        message["From"] = self._from
        message["To"] = _in_header(to)
        contact = self.config().server.contact
        if is_email_address(contact):
            message["Reply-To"] = _in_header(parse_email(contact))
        message["Date"] = moment
        message["Message-ID"] = message_id or self._message_id(f"{name} {to.key} {epoch_ms(moment)}")
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(text)
        message.add_alternative(html, subtype="html")
        return message

    def _common_values(self, name: str) -> Values:
        """Return the host's values, and the page that this mail leads to.

        A host's own front end replaces all of these pages but one: there it is the home page.
        """
        config, page = self.config(), _PAGES.get(name)
        if page not in (None, FORGOT_PASSWORD_PATH) and config.http.web_root is not None:
            page = "/"
        accent, logo = accent_of(config), config.server.logo_url
        return {
            "game": public_game_address(config.game.address),
            "link": None if page is None else self.base_url + page,
            "server": config.server.name,
            "contact": config.server.told_contact or None,
            "accent": accent.light,
            "accent_dark": accent.dark,
            # mail programs show no data URLs
            "logo": urljoin(self.base_url, logo) if logo and not logo.startswith("data:") else None,
        }

    def _verification_code(self, mail: OutboxEntry) -> _Content:
        row = None if mail.row_id is None else self.codes.find_sendable(mail.row_id)
        if row is None:
            raise Drop("its code was used, has expired or was replaced by another")
        code = self.codes.code_of(row)
        return _Content({"code": code, "minutes": _minutes(self.codes.valid)}, (code,))

    def _unlink_code(self, mail: OutboxEntry) -> _Content:
        if mail.user_id is None and mail.row_id is not None:
            self.codes.mark_sent(mail.row_id)  # it lives no longer than one that is mailed, by which it would be told
        username, code = _get_user(mail).username, self._verification_code(mail)
        return _Content({"username": username, **code.values}, code.secrets)

    def _about_user(self, mail: OutboxEntry) -> _Content:
        return _Content({"username": _get_user(mail).username})

    def _membership(self, mail: OutboxEntry) -> _Content:
        """Render a mail about a membership; a reminder's payload is the cause. It is dropped if that changed since."""
        user = _get_user(mail)
        if user.status != APPROVED or (user.ended_because is not None) != (mail.template == "membership_ended"):
            raise Drop("the membership is another one by now")
        because, language = user.ended_because or mail.payload, self.translations.offered_for(mail.language)
        ends_at = user.lapses_at if because in ("idle", "role") else user.member_until
        until = None if ends_at is None else self._moment(ends_at, mail)
        why = None if because is None else self.translations.text(f"membership.{because}", language)
        standing = self._standing(self.find_standing(user), mail)
        return _Content({"username": user.username, "why": why, "until": until, "standing": standing})

    def _asked(self, mail: OutboxEntry) -> _Content:
        """Render a question; once it is answered, or the application decided, it is pointless."""
        user = _get_user(mail)
        row = None if mail.row_id is None else AskedQuestion.get_or_none(AskedQuestion.id == mail.row_id)
        until = self.config().registration.answer_by(user.unanswered_since)
        if row is None or row.answered_at is not None or until is None:
            raise Drop("the question was answered, or the registration reviewed meanwhile")
        application, asked = self._application(mail, user), {"question": row.question}
        return _Content({**application.values, **asked, "until": self._moment(until, mail)}, application.secrets)

    def _received(self, mail: OutboxEntry) -> _Content:
        """Render the receipt; a decision that was made before it is sent makes it pointless."""
        user = _get_user(mail)
        if user.status != PENDING:
            raise Drop("the registration was reviewed meanwhile")
        return self._application(mail, user)

    def _application(self, mail: OutboxEntry, user: User) -> _Content:
        """Return the user's name and the private link of their application."""
        if user.email_key != mail.recipient_key:
            raise Drop("the user has another address now")
        link, token = self._application_link(user)
        return _Content({"username": user.username, "link": link}, (token,))

    def _approved(self, mail: OutboxEntry) -> _Content:
        user, reason = _get_user(mail), self._reason(mail, _get_review(mail))
        until = None if user.member_until is None else self._moment(user.member_until, mail)
        return _Content({"username": user.username, "reason": reason, "until": until})

    def _approved_set_password(self, mail: OutboxEntry) -> _Content:
        approved = self._approved(mail)
        link, token = self._link(mail, "first_password")
        days = str(LIFETIMES["first_password"].days)
        return _Content({**approved.values, "link": link, "days": days}, (token,))

    def _decision(self, mail: OutboxEntry) -> _Content:
        """Render a decision from its review, which stays even if the user is gone by now."""
        review = _get_review(mail)
        until = None if review.ban_expires_at is None else self._moment(review.ban_expires_at, mail)
        key = review.status_after or REJECTED
        if key == APPROVED and mail.template == "decision_undone":
            key = self.find_standing(_get_user(mail))
        values = {"username": review.username, "reason": self._reason(mail, review), "until": until}
        return _Content({**values, "standing": self._standing(key, mail)})

    def _standing(self, key: str, mail: OutboxEntry) -> str:
        return self.translations.text(f"undone.{key}", self.translations.offered_for(mail.language))

    def _rejected(self, mail: OutboxEntry) -> _Content:
        review = _get_review(mail)
        again = self.find_reapply_at(review)
        name = review.username if again is None else None
        until = None if again is None else self._moment(again, mail)
        values = {**self._decision(mail).values, "again": until, "name": name}
        user = None if mail.user_id is None else User.get_or_none(User.id == mail.user_id)
        if user is None or user.status != REJECTED or user.email_key != mail.recipient_key:
            return _Content(values)
        link, token = self._application_link(user)
        return _Content({**values, "link": link}, (token,))

    def _application_link(self, user: User) -> tuple[str, str]:
        token = self.application_tokens.token_of(user)
        return f"{self.base_url}{APPLICATION_PATH}#token={token}", token

    def _moment(self, at: datetime, mail: OutboxEntry) -> str:
        language = self.templates.get(mail.template, self.translations.offered_for(mail.language)).language
        return self.translations.moment(at, language, self.now())

    def _reason(self, mail: OutboxEntry, review: Review) -> str | None:
        return self.translations.reason(review.reason, self.translations.offered_for(mail.language)) or None

    def _email_changed(self, mail: OutboxEntry) -> _Content:
        """Sent even if the account is gone by now: deleting it would be a thief's next step."""
        user = None if mail.user_id is None else User.get_or_none(User.id == mail.user_id)
        undo = self._undo_link(mail)
        return _Content({"username": None if user is None else user.username, **undo.values}, undo.secrets)

    def _password_changed(self, mail: OutboxEntry) -> _Content:
        """Render the notice of a new password. Of one sent again late, the address is forgotten (`retention`)."""
        username, undo = _get_user(mail).username, self._undo_link(mail)
        facts = json.loads(mail.payload or "{}")
        language = self.templates.get(mail.template, self.translations.offered_for(mail.language)).language
        where = self.translations.place(facts["place"], facts["address"], language) if facts else None
        when = self._moment(from_epoch_ms(facts["at"]), mail) if facts else None
        return _Content({"username": username, "where": where, "when": when, **undo.values}, undo.secrets)

    def _undo_link(self, mail: OutboxEntry) -> _Content:
        """Return the link that takes the account back for this recipient, where there is one by now.

        It was issued with the change: who has taken the account back since must not find it open for another address.
        """
        link = None if mail.user_id is None else self.links.find_undo(mail.user_id, mail.recipient_key)
        if link is None:
            return _Content({"days": None})
        token = self.links.token_of(link)
        days = str(UNDO_LIFETIME.days)
        return _Content({"link": link_address(self.base_url, token), "days": days}, (token,))

    def _password_link(self, mail: OutboxEntry) -> _Content:
        username = _get_user(mail).username
        link, token = self._link(mail, "reset")
        minutes = _minutes(LIFETIMES["reset"])
        return _Content({"username": username, "link": link, "minutes": minutes}, (token,))

    def _digest(self, mail: OutboxEntry) -> _Content:
        """List the users who await review now, or in a digest ask to stay; those decided on meanwhile are left out."""
        waiting = [User.select().where(models.AWAITS_REVIEW).order_by(User.created_at, User.id)]
        if mail.template == "digest":
            waiting.append(User.select().where(models.ASKS_TO_STAY).order_by(User.stay_asked_at, User.id))
        count = sum(each.count() for each in waiting)
        listed = [user for each in waiting for user in each.limit(_MAX_LISTED)][:_MAX_LISTED]
        if not listed:
            raise Drop("no user awaits review any more")
        since = [(user.username, user.stay_asked_at or user.created_at) for user in listed]
        return _Content(
            {
                "count": str(count),
                "names": "\n".join(f"{name} · {self._moment(at, mail)}" for name, at in since),
                "more": str(count - len(listed)) if count > len(listed) else None,
            }
        )

    def _link(self, mail: OutboxEntry, purpose: LinkPurpose) -> tuple[str, str]:
        """Return the URL of this mail's link and the token in it.

        The link is issued at delivery, so that it does not expire while the mail waits; a retry sends the same link.
        """
        link = self._find_link(mail)
        if link is None:
            user = _get_user(mail)
            if user.email_key != mail.recipient_key:
                raise Drop("the user has another address now")
            with OutboxEntry._meta.database.atomic():
                link = self.links.issue(user.id, purpose, mail.recipient_key)
                mail.link_id = link.id  # so that a retry sends the same one
                mail.save(only=[OutboxEntry.link_id])
        token = self.links.token_of(link)
        return link_address(self.base_url, token), token

    def _find_link(self, mail: OutboxEntry) -> Link | None:
        """Return the link that an earlier attempt issued; None if there was none or it expired meanwhile."""
        link = None if mail.link_id is None else Link.get_or_none(Link.id == mail.link_id)
        if link is None:
            return None
        if link.redeemed_at is not None:
            raise Drop("its link was used or replaced by another")
        return self.links.find_by_id(link.id)

    def _message_id(self, seed: str) -> str:
        digest = hashlib.sha256(seed.encode("utf-8")).hexdigest()[:32]
        return f"<{digest}@{self._from.domain or 'localhost'}>"


def recipient_of(mail: OutboxEntry) -> EmailAddress:
    """Return the recipient's address."""
    return EmailAddress(mail.recipient, mail.recipient_key)


def _in_header(address: EmailAddress) -> Address:
    local_part = address.local_part
    if local_part.startswith('"'):  # the header puts quotes and backslashes back
        local_part = re.sub(r"\\(.)", r"\1", local_part[1:-1])
    return Address(username=local_part, domain=address.domain)


def _sender_address(sender: str, server_name: str) -> Address:
    name, address = split_sender(sender)
    if is_email_address(address):
        address = parse_email(address).envelope  # its domain as A-label, which servers without SMTPUTF8 take
    return Address(one_line(name or server_name), addr_spec=address)


def _get_user(mail: OutboxEntry) -> User:
    user: User | None = None if mail.user_id is None else _FIND_USER.first(id=mail.user_id)
    if user is None:
        raise Drop("there is no such user")
    return user


_FIND_USER: Final = PreparedQuery(User, lambda: User.select().where(User.id == slot(User.id)))


def _get_review(mail: OutboxEntry) -> Review:
    review = None if mail.row_id is None else Review.get_or_none(Review.id == mail.row_id)
    if review is None:
        raise Drop("the review of this decision is gone")
    return review


def _minutes(duration: timedelta) -> str:
    return str(max(1, round(duration / timedelta(minutes=1))))
