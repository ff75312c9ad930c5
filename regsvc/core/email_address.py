"""E-mail addresses: parsing, comparing and the host's policy. Nothing here uses the network."""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regsvc.core.errors import DomainNotAllowed, InvalidEmail

if TYPE_CHECKING:
    from email_validator import ValidatedEmail

MAX_EMAIL_LENGTH = 254
"""Bytes of a whole address (RFC 5321); the database columns hold more."""

_LABEL = "[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*"
_SPECIAL = "arpa|alt|example|invalid|internal|local|localhost|onion|test"
_PLAIN = re.compile(
    r"(?=[^@]{1,59}@.{4,60}\Z)([A-Za-z0-9_+-]+(?:\.[A-Za-z0-9_+-]+)*)@"
    rf"((?:{_LABEL}\.)+(?!(?i:{_SPECIAL})\Z)[A-Za-z]{{2,20}})"
)
"""Short addresses that every mail system accepts. Parsing one thoroughly takes ten times as long as looking it up."""

_SENDER = re.compile(r"([^<>]*?)\s*<([^<>]+)>")


def split_sender(written: str) -> tuple[str, str]:
    """Return the name, "" for none, and the address of "noreply@example.org" or "Example Server <noreply@example.org>".

    The name may be in quotes; without them, too, it may have what RFC 5322 wants in quotes, such as a comma.
    """
    bracketed = _SENDER.fullmatch(written.strip())
    name, address = bracketed.groups() if bracketed else ("", written.strip())
    if len(name) > 1 and name[0] == name[-1] == '"':
        name = re.sub(r"\\(.)", r"\1", name[1:-1])
    return " ".join(name.split()), address.strip()


@dataclass(frozen=True, slots=True)
class EmailAddress:
    """One mailbox: `display` as its owner writes it, `key` the canonical form for comparing and looking up."""

    display: str
    key: str

    @property
    def domain(self) -> str:
        """The domain in lower case, as A-label: `xn--bcher-kva.example`."""
        return self.key.rpartition("@")[2]

    @property
    def mailbox(self) -> str:
        """The mailbox to which the address leads: see `mailbox_of`."""
        return mailbox_of(self.key)

    @property
    def local_part(self) -> str:
        """The part before the last @ in the owner's own spelling, quoted where it must be."""
        return self.display.rpartition("@")[0]

    @property
    def is_quoted(self) -> bool:
        """Whether the local part is in quotes, since it has spaces, commas or the like.

        Mail servers take it as it is; a service that parses a list of addresses could read it as several.
        """
        return '"' in self.local_part

    @property
    def envelope(self) -> str:
        """The address for SMTP: the local part untouched, the domain as A-label, which every server understands."""
        return f"{self.local_part}@{self.domain}"


def mailbox_of(key: str) -> str:
    """Return the key of an address without a tag (`+game`) and dots: what is counted, banned and compared by person.

    Many services deliver all these spellings to one person. Where they do not, people share limits, and one is refused
    for another's ban; an operator can create that user. Whose an address is never depends on it: a password link must
    reach the very address. A quoted name is left as it is. The database computes the same for its columns.
    """
    local_part, _, domain = key.rpartition("@")
    if '"' in local_part:
        return key
    return f"{local_part.partition('+')[0].replace('.', '') or local_part}@{domain}"


def is_email_address(written: str) -> bool:
    """Return whether this is an e-mail address, not a web address or the handle of a chat account ("@olivia")."""
    return re.fullmatch(r"[^\s@<>,:/]+@[^\s@<>,:/]+\.[^\s@<>,:/]+", written) is not None


def parse_email(text: str) -> EmailAddress:
    """Parse an address as RFC 5322 and 6531 define it.

    Raises `InvalidEmail`, and `DomainNotAllowed` for an IP address in brackets.
    """
    plain = _PLAIN.fullmatch(text)
    if plain is not None:
        local_part, domain = plain.group(1), plain.group(2).lower()
        return EmailAddress(f"{local_part}@{domain}", f"{local_part.lower()}@{domain}")
    if len(text) > MAX_EMAIL_LENGTH:
        raise InvalidEmail
    parsed = _validate(text)
    if parsed.ascii_domain.startswith("["):
        raise DomainNotAllowed
    local_part = unicodedata.normalize("NFC", parsed.local_part.lower())
    return EmailAddress(parsed.normalized, f"{local_part}@{parsed.ascii_domain.lower()}")


def _validate(text: str) -> "ValidatedEmail":
    from email_validator import EmailNotValidError, validate_email

    try:
        return validate_email(
            text,
            allow_smtputf8=True,
            allow_quoted_local=True,
            allow_domain_literal=True,  # recognized here, refused by `parse_email`
            allow_display_name=False,
            strict=True,  # at most 64 bytes before the @
            check_deliverability=False,
            test_environment=True,  # hosts may use `.test`; whether mail can be delivered is up to the mail server
        )
    except (EmailNotValidError, UnicodeError) as error:
        raise InvalidEmail from error


class EmailPolicy:
    """The addresses that a host accepts. `domains` empty: any; `blocked` includes subdomains."""

    def __init__(
        self, domains: Iterable[str], blocked: Iterable[str], *, accepts_aliases: bool, accepts_quoted: bool = True
    ) -> None:
        """`domains` and `blocked` are in lower case and A-labels, as in the config.

        `accepts_quoted` False: mails go to a service that is passed no quotes (`EmailAddress.is_quoted`).
        """
        self._domains = frozenset(domains)
        self._blocked = tuple(blocked)
        self._accepts_aliases = accepts_aliases
        self._accepts_quoted = accepts_quoted

    def parse(self, email: str) -> EmailAddress:
        """Return an address that the host accepts.

        Raises `DomainNotAllowed`, `InvalidEmail("alias")` for `name+tag` where aliases are not accepted, and what
        `parse_mailable` raises.
        """
        address = self.parse_mailable(email)
        if self._domains and address.domain not in self._domains:
            raise DomainNotAllowed
        if any(address.domain == domain or address.domain.endswith(f".{domain}") for domain in self._blocked):
            raise DomainNotAllowed
        if not self._accepts_aliases and "+" in address.local_part:
            raise InvalidEmail("alias")
        return address

    def parse_mailable(self, email: str) -> EmailAddress:
        """Return an address that can be mailed. Raises `InvalidEmail` and what `parse_email` raises."""
        address = parse_email(email)
        if address.is_quoted and not self._accepts_quoted:
            raise InvalidEmail
        return address
