"""Checks of single config values and files, and parsing of database URLs and templates.

Each check takes a text that is not empty and returns its canonical form, or raises ValueError with a sentence
that never repeats the text.
"""

import contextlib
import json
import os
import re
import ssl
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import idna

from plugin_bridge.hosts import split_host
from plugin_bridge.server.rcon import MAX_COMMAND_BYTES, MAX_VALUE_LENGTH, fill
from regsvc.core.addresses import parse_game_address
from regsvc.core.email_address import is_email_address, parse_email, split_sender
from regsvc.core.errors import Refusal
from regsvc.core.i18n import is_language_tag
from regsvc.core.text import strip_stray
from regsvc.core.webhook_signature import signing_key

_HINT: Final = (
    "a database URL is sqlite:///path or mysql://user:password@host:port/name "
    "(percent-encode special characters in the password, such as %23 for #)"
)

_ONE_SERVER: Final = (
    "a database URL names one server: for several, put a proxy such as HAProxy in front of them and name that"
)
_PLACEHOLDER: Final = re.compile(r"\{([a-z_]+)\}")
K = TypeVar("K")
Json = str | int | float | bool | list["Json"] | dict[str, "Json"] | None
Values = Mapping[str, str | None]
MIN_KEY_LENGTH = 32
COMMAND_VALUES: Final = ("username", "uuid", "language")
"""What a console command may contain, each in braces."""
MAIL_PLACEHOLDERS = ("from", "from_name", "from_email", "to", "subject", "text", "html", "id", "reply_to")
"""What `mail.http_body` may contain, each in braces."""
_ORIGIN: Final = re.compile(r"(?P<scheme>https?)://(?P<place>[^/?#@*]+)/?", re.IGNORECASE)
_WEB_ADDRESS: Final = re.compile(r"(?P<scheme>https?)://(?P<place>[^/?#@]+)(?P<rest>(?:[/?#]\S*)?)", re.IGNORECASE)
# What examples, tutorials and samples put in place of a secret; added digits and punctuation do not help.
_KINDS: Final = (
    "(?:own|new|secret|real|secure|strong|long|random|discord|telegram|bot|api|app|smtp|mail|email|db|database|mysql|webhook"
    "|client|access|auth|rcon|server|account)*(?:secret|password|passwd|token|key)"
)
_PLACEHOLDERS: Final = re.compile(
    r"(?:(?:change|replace)(?:me|this|it)(?:please|now)?"
    rf"|(?:put|enter|paste|type|insert)?(?:your|my){_KINDS}(?:goes)?(?:here)?"
    rf"|(?:put|enter|paste|type|insert)(?:the)?{_KINDS}(?:here)?|{_KINDS}(?:goes)?here"
    r"|placeholder|todo|fixme|default|example|redacted)+"
)
_MASKED: Final = re.compile(r"[xX]{3,}|[*•.…_-]{3,}|…")
_FILLED_BY_NOBODY: Final = re.compile(r"<[^<>@]*>|\W*(?:change|replace)[-_ ]?me\W*", re.IGNORECASE)
_NO_VALUE: Final = re.compile(r"null|none|nil|undefined|nan|\[object object\]", re.IGNORECASE)
_VARIABLE: Final = re.compile(
    r"\$\{\w[^{}]*\}|\{\{[^{}]*\}\}|\A\$(?:[A-Z][A-Z0-9_]{2,}|\(.*\))\Z|\A%[A-Z][A-Z0-9_]*%\Z"
)
_QUOTES: Final = {'"': '"', "'": "'", "`": "`", "“": "”", "„": "“", "‘": "’", "«": "»"}
_WITHOUT_QUOTES: Final = "the quotes around it are left out; where they belong to it, write them twice"
_WITHOUT_MARKS: Final = "tabs, line ends and characters without a width around it are left out"
_HAS_BLANKS: Final = "the space at its beginning or end is part of it: take it out, unless it is meant"
_HAS_COMMENT: Final = 'what follows " #" is part of it: take that out, if it is meant as a comment'


def clean_value(value: object, *, is_secret: bool = False, is_typed: bool = False) -> tuple[object, list[str]]:
    """Return a value without blanks, line ends, marks without a width, and one pair of quotes around any text in it.

    The spaces of a secret stay. With the value come remarks for the host, each once, which never repeat the value.
    `is_typed`: it is the text of an environment variable or of a command line, not of a TOML file.
    """
    if isinstance(value, str):
        return _clean_text(value, is_secret=is_secret, is_typed=is_typed)
    parts = dict(enumerate(value)) if isinstance(value, list) else value
    if not isinstance(parts, dict):
        return value, []
    cleaned = {name: clean_value(part, is_secret=is_secret, is_typed=is_typed) for name, part in parts.items()}
    remarks = list(dict.fromkeys(remark for _part, found in cleaned.values() for remark in found))
    texts = {name: part for name, (part, _found) in cleaned.items()}
    return (list(texts.values()) if isinstance(value, list) else texts), remarks


def _clean_text(written: str, *, is_secret: bool, is_typed: bool) -> tuple[str, list[str]]:
    text, remarks = strip_stray(written), []
    if len(text) > 1 and (last := _QUOTES.get(text[0])) == text[-1]:
        first, inner = text[0], text[1:-1]
        is_quoted_twice = len(inner) > 1 and inner[0] == first and inner[-1] == last
        if is_quoted_twice or {first, last}.isdisjoint(inner):
            return inner, [_WITHOUT_QUOTES]
    if is_secret:
        text = strip_stray(written, but=" ")  # which a password may have
        remarks += [_HAS_BLANKS] * (text != text.strip(" "))
        remarks += [_WITHOUT_MARKS] * (text != written.removeprefix("\ufeff").rstrip("\r\n"))
    if is_typed and re.search(r"\s#" if is_secret else r"\s#\s", text):  # others may name a channel
        remarks.append(_HAS_COMMENT)
    return text, remarks


def filled_in(written: str) -> str:
    """Refuse a text in which what was to be replaced still stands."""
    if _VARIABLE.search(written):
        raise ValueError("this names a variable, which nothing has replaced by its value: write the value itself")
    if _FILLED_BY_NOBODY.fullmatch(written):
        raise ValueError("this is a placeholder; write your own value")
    return written


def present(written: str) -> str:
    """Refuse a word that programs write where there is no value."""
    if _NO_VALUE.fullmatch(written):
        raise ValueError('this is a word for no value; leave the key out, or write ""')
    return written


def split_database_url(url: str) -> SplitResult:
    """Split a database URL. Raises ValueError with a sentence that repeats nothing of it: it may hold a password."""
    has_several = False
    try:
        parts = urlsplit(url)
        has_several = "," in parts.netloc.rpartition("@")[2]
        is_file = parts.scheme == "sqlite" and not parts.netloc and len(parts.path) > 1
        is_server = parts.scheme in ("mysql", "mariadb") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is not a number
        raise ValueError(_ONE_SERVER if has_several else _HINT) from None
    if has_several:
        raise ValueError(_ONE_SERVER)
    # an unencoded "/" in the password makes the rest of the password part of the name
    if is_file or (is_server and re.fullmatch(r"/[^/@]+/?", parts.path)):
        return parts
    raise ValueError(_HINT)


def with_absolute_path(url: str, folder: Path | None) -> str:
    """Return the URL of an SQLite database with its path counted from `folder`; any other text unchanged.

    `folder` None: the current folder.
    """
    prefix = "sqlite:///"
    path = url.removeprefix(prefix)
    if path in (url, "") or path.startswith("/"):
        return url
    return f"{prefix}{quote(str((folder or Path()).absolute()))}/{path}"


def console_command(text: str) -> str:
    """A console command, with or without the slash that players type before it."""
    command = text.strip().removeprefix("/").strip()
    if not command:
        raise ValueError("a command must not be empty")
    if not command.isprintable():
        raise ValueError("a command is one line of printable text")
    if unknown := set(re.findall(r"\{(\s*\w+\s*)\}", command)) - set(COMMAND_VALUES):
        known = ", ".join(f"{{{name}}}" for name in COMMAND_VALUES)
        raise ValueError(f"there is no {{{min(unknown)}}}; known are {known}")
    if len(fill(command, dict.fromkeys(COMMAND_VALUES, "x" * MAX_VALUE_LENGTH)).encode()) > MAX_COMMAND_BYTES:
        raise ValueError(f"a command must not be longer than {MAX_COMMAND_BYTES} bytes once it is filled in")
    return command


class _Absent(Exception):
    """A text is only a placeholder whose value is None."""


@dataclass(frozen=True)
class BodyTemplate:
    """A parsed template. `names` are the placeholders in it."""

    content_type: str
    names: frozenset[str]
    _content: Json = field(repr=False)

    def fill(self, values: Values) -> bytes:
        """Return the body. Fields that are only a placeholder whose value is None are left out."""
        filled = _fill(self._content, values)
        if self.content_type == "application/json":
            return json.dumps(filled).encode("ascii")
        return urlencode(filled if isinstance(filled, dict) else {}).encode("ascii")


def parse_body_template(text: str) -> BodyTemplate:
    """Parse a JSON object or list, or form fields such as "to={to}&text={text}". Raises ValueError with a sentence."""
    stripped = text.strip()
    content: Json
    if stripped.startswith(("{", "[")):
        try:
            content = json.loads(stripped)
        except ValueError as error:
            place = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
            raise ValueError(f"this is no JSON{place}") from None
        return BodyTemplate("application/json", frozenset(_names(content)), content)
    try:
        fields = parse_qsl(stripped, keep_blank_values=True, strict_parsing=True)
    except ValueError:
        raise ValueError('this must be a JSON object, or form fields such as "to={to}&subject={subject}"') from None
    content = dict(fields)
    if len(content) < len(fields):
        raise ValueError("this has a form field twice")
    return BodyTemplate("application/x-www-form-urlencoded", frozenset(_names(content)), content)


def _names(content: Json) -> set[str]:
    if isinstance(content, str):
        return set(_PLACEHOLDER.findall(content))
    parts = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    return {name for part in parts for name in _names(part)}


def _fill(content: Json, values: Values) -> Json:
    """Return the content with its placeholders replaced. Raises `_Absent` for a text that has to be left out."""
    if isinstance(content, str):
        whole = _PLACEHOLDER.fullmatch(content)
        if whole and values[whole[1]] is None:
            raise _Absent
        return _PLACEHOLDER.sub(lambda found: values[found[1]] or "", content)
    if isinstance(content, list):
        return [filled for _index, filled in _fill_parts(enumerate(content), values)]
    if isinstance(content, dict):
        return dict(_fill_parts(content.items(), values))
    return content


def _fill_parts(parts: Iterable[tuple[K, Json]], values: Values) -> Iterator[tuple[K, Json]]:
    for key, part in parts:
        with contextlib.suppress(_Absent):
            yield key, _fill(part, values)


def may_be_player(name: str, bedrock_prefix: str) -> bool:
    """Return whether the game lets in a player of this name: up to 16 characters, spaces on Bedrock alone.

    Besides, no list of names has quotes, brackets and separators in a name.
    """
    is_bedrock = bedrock_prefix != "" and name.startswith(bedrock_prefix)
    spaced = name.replace(" ", "_") if is_bedrock and name == name.strip() else name
    return re.fullmatch(r"""[^\s"'`,;:<>()\[\]{}$=/\\#|&]{1,16}""", spaced) is not None


def required(written: str) -> str:
    """Refuse an empty text, for keys where "" does not mean "not set"."""
    if not written.strip():
        raise ValueError("this must not be empty")
    return written


def _matching(pattern: str, sentence: str) -> Callable[[str], str]:
    """Return a check that accepts what matches the pattern, and refuses all else with this sentence."""
    compiled = re.compile(pattern)

    def check(written: str) -> str:
        if compiled.fullmatch(written) is None:
            raise ValueError(sentence)
        return written

    return check


instance_name: Final = _matching(r"[A-Za-z0-9._-]{1,24}", "at most 24 letters, digits, dots, hyphens and underscores")
"""The name of one daemon among several, which logs and labels can show as it is."""

public_key: Final = _matching(
    r"[0-9a-fA-F]{64}", "this must be the 64 digits and letters that Discord shows as Public Key"
)
"""The Ed25519 key of an application on Discord."""

chat_id: Final = _matching(r"-?[0-9]{1,20}|@[A-Za-z0-9_]{5,32}", "this must be the id of a channel or group: a number")
"""A channel or group of a chat platform; Telegram also has names of public channels."""


def short_name(written: str) -> str:
    """Return a name that logs and lists have room for, without spaces around it."""
    if len(written.strip()) > 40:
        raise ValueError("this must have 40 characters at most")
    return written.strip()


def web_address(written: str) -> str:
    """Accept "http://" and "https://" addresses without credentials; a trailing slash is dropped."""
    address = _WEB_ADDRESS.fullmatch(written)
    if address is None or (place := _find_host(address["place"])) is None:
        raise ValueError('this must be a web address, such as "https://play.example.org"')
    return f"{address['scheme'].lower()}://{place}{address['rest']}".rstrip("/")


def web_address_or_path(written: str) -> str:
    """Accept a web address, or a path on this server, such as "/files/logo.png"."""
    if re.fullmatch(r"/(?![/\\])\S*", written):
        return written
    try:
        return web_address(written)
    except ValueError as error:
        raise ValueError(f'{error}, or a path on this server, such as "/files/logo.png"') from None


def picture(written: str) -> str:
    """Accept what `web_address_or_path` does, or a picture itself as a data URL."""
    return written if re.fullmatch(r"data:image/\S+", written) else web_address_or_path(written)


def colour(written: str) -> str:
    """Accept "#rgb" and "#rrggbb", and return the long form in lower case."""
    match = re.fullmatch(r"#([0-9a-f]{3}|[0-9a-f]{6})", written.strip().lower())
    if match is None:
        raise ValueError('this must be a colour, such as "#2f6f4f"')
    return "#" + "".join(digit * (2 if len(match[1]) == 3 else 1) for digit in match[1])


def icon(written: str) -> str:
    """Accept a web address, a path on this server, or a word that a front end has a picture for."""
    if re.fullmatch(r"[a-z][a-z0-9-]{0,31}", written):
        return written
    try:
        return web_address_or_path(written)
    except ValueError as error:
        raise ValueError(f'{error}, or a word, such as "gamepad"') from None


def host(written: str) -> str:
    """Accept the name or IP address of a machine, without a scheme and without a port, and return it as DNS has it."""
    try:
        name, port = split_host(written)
    except ValueError:
        name, port = "", None
    if not name or port is not None:
        raise ValueError("this must be a name or an IP address alone; a port has a key of its own")
    return _in_ascii(name)


def _in_ascii(name: str) -> str:
    """Return a name in any script as DNS and browsers have it."""
    try:
        return name if name.isascii() else idna.encode(name, uts46=True).decode("ascii")
    except idna.IDNAError:
        raise ValueError("this has letters that no name of a machine has") from None


def origin(written: str) -> str:
    """Accept an origin (scheme, host and port), and return it as browsers send it."""
    address = _ORIGIN.fullmatch(written)
    if address is None or (place := _find_host(address["place"])) is None:
        raise ValueError('this must be only scheme and host, such as "https://play.example.org"')
    scheme = address["scheme"].lower()
    return f"{scheme}://{place}".removesuffix(":443" if scheme == "https" else ":80")


column_name: Final = _matching(
    r"[A-Za-z0-9_]{1,64}", "the name of a table or column has 1 to 64 letters, digits and underscores"
)
"""A name of a table or column that can be quoted safely on every database."""


def language_tag(written: str) -> str:
    """Accept a language tag such as "en", "zh" or "pt-BR"."""
    if not is_language_tag(written):
        raise ValueError('this must be a language, such as "en" or "zh"')
    return written


def game_address(written: str) -> str:
    """Accept a host such as "play.example.org", with or without a port."""
    parse_game_address(written)
    return written.strip()


def email_domain(written: str) -> str:
    """Accept a domain in any script, and return the lower-case A-label that e-mails are compared by."""
    try:
        return idna.encode(written.strip().removeprefix("@"), uts46=True).decode("ascii").lower()
    except idna.IDNAError as error:
        raise ValueError('this must be a domain, such as "example.org"') from error


email_address: Final = _matching(
    r"[^\s@<>,]+@[^\s@<>,]+", 'this must be an e-mail address, such as "admin@example.org"'
)
"""Text that looks like an e-mail address; whether mail arrives, only `mail-test` can show."""


def listen_host(written: str) -> str:
    """Accept a name or IP address of this machine, or all of them ("0.0.0.0", "::"); "" is refused."""
    return host(required(written))


def mailbox(written: str) -> str:
    """Accept an e-mail address that mail can be sent to."""
    try:
        parse_email(written)
    except Refusal:
        raise ValueError('this must be an e-mail address, such as "admin@example.org"') from None
    return written


def contact(written: str) -> str:
    """Accept an e-mail address, a web address, or a few words, without spaces around it."""
    written = written.strip()
    if len(written) > 200:
        raise ValueError("this must have 200 characters at most")
    if "{" in written or "}" in written:
        raise ValueError("this must not contain braces")
    if is_email_address(written):
        return mailbox(written)
    return web_address(written) if re.match(r"https?:", written) else written


def time_zone(written: str) -> str:
    """Accept the IANA name of a time zone that this machine knows."""
    try:
        ZoneInfo(written)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        raise ValueError(
            'this must be a time zone that this machine knows (package tzdata), such as "Europe/Paris" or "UTC"'
        ) from None
    return written


def sender_address(written: str) -> str:
    """Accept "noreply@example.org" and "Example Server <noreply@example.org>"."""
    email_address(split_sender(written)[1])
    return written


def long_key(written: str) -> str:
    """Refuse keys short enough to be guessed offline."""
    if len(written) < MIN_KEY_LENGTH:
        raise ValueError(
            f"this needs at least {MIN_KEY_LENGTH} characters; generate a key with: openssl rand -hex 32, "
            'or leave it "" to have one generated in the state directory'
        )
    return written


def webhook_secret(written: str) -> str:
    """Accept any text; with the prefix of Standard Webhooks, the rest must be base64."""
    try:
        signing_key(written)
    except ValueError as error:
        raise ValueError('after "whsec_" this must be base64') from error
    return written


header_value: Final = _matching(r"[!-~]+", "this must consist of ASCII characters, without spaces")
"""What can be sent as the value of an HTTP header."""
key_header: Final = _matching(
    r"[A-Za-z0-9-]+: ?[ -~]*\{key\}[ -~]*",
    'this must be the name of a header, a colon and {key}, such as "Authorization: Bearer {key}"',
)
"""The name and value of an HTTP header, such as "Authorization: Bearer {key}"."""


def mail_body(written: str) -> str:
    """Accept a template for `mail.http_body` that has all parts of a mail."""
    names = parse_body_template(written).names
    known = ", ".join(f"{{{name}}}" for name in MAIL_PLACEHOLDERS)
    if unknown := names.difference(MAIL_PLACEHOLDERS):
        raise ValueError(f"there is no {{{min(unknown)}}}; known are {known}")
    if "to" not in names or "subject" not in names or "text" not in names:
        raise ValueError(f"this needs {{to}}, {{subject}} and {{text}}; known are {known}")
    return written


def is_placeholder(written: str) -> bool:
    """Return whether a secret is a well-known placeholder, such as "changeme" or "CHANGE_ME-123"."""
    letters = re.sub(r"[^a-z]", "", written.lower())
    return _MASKED.fullmatch(written) is not None or _PLACEHOLDERS.fullmatch(letters) is not None


def algorithm(written: str) -> str:
    """Accept what could be an algorithm of AuthMe, and return it in upper case."""
    if re.fullmatch(r"[A-Za-z0-9_]{1,32}", written) is None:
        raise ValueError('this must be one of AuthMe\'s algorithms, such as "SHA256" or "BCRYPT"')
    return written.upper()


def unreadable_reason(file: Path) -> str | None:
    """Return a sentence if the file cannot be read, else None."""
    try:
        if file.is_file() and os.access(file, os.R_OK):
            return None
        file.stat()
    except FileNotFoundError:
        return f"there is no file {file}"
    except OSError as error:
        return f"{file} cannot be read ({error.strerror})"
    return f"{file} cannot be read; make it a regular file that the companion's user may read"


def unusable_certificate_reason(certificate: Path, private_key: Path) -> str | None:
    """Return a sentence if a server cannot use the certificate with this key, else None."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, private_key, password="")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            return f"{private_key} is not the key of this certificate; name the two files that were made together"
        return f"{certificate} and {private_key} must hold a certificate and its key, both as PEM, without a password"
    return None


def no_certificate_reason(file: Path) -> str | None:
    """Return a sentence if the file holds no certificate (PEM), else None."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file)
    except ssl.SSLError:
        return f"{file} holds no certificate; it must be PEM text, which begins with -----BEGIN CERTIFICATE-----"
    return None


def missing_folder_reason(folder: Path) -> str | None:
    """Return a sentence if the folder is missing or cannot be listed, else None."""
    try:
        next(folder.iterdir(), None)
    except FileNotFoundError:
        return f"there is no folder {folder}"
    except OSError as error:
        return f"{folder} cannot be listed ({error.strerror}); make it a folder that the companion's user may read"
    return None


def find_game_server(folder: Path) -> Path | None:
    """Return the folder of a game server that this is, or is in; None if it is neither."""
    for candidate in (folder, *list(folder.parents)[:3]):
        with contextlib.suppress(OSError):
            if (candidate / "server.properties").exists() or (candidate / "plugins" / "AuthMe").exists():
                return candidate
    return None


def exposed_reason(file: Path) -> str | None:
    """Return a sentence if every user of the machine may read the file, else None."""
    if file.stat().st_mode & stat.S_IROTH:
        return f"every user of this machine may read {file}; run: chmod 600 {file}"
    return None


def _find_host(place: str) -> str | None:
    """Return the host and port of a web address, as browsers have them; None for anything else."""
    try:
        name, port = split_host(place)
        ascii_name = _in_ascii(name)
    except ValueError:
        return None
    shown = f"[{ascii_name}]" if ":" in ascii_name else ascii_name
    return shown if port is None else f"{shown}:{port}"
