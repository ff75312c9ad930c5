"""E-mail addresses: how they are read, compared and judged. Nothing here asks the network."""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from email_validator import EmailNotValidError, ValidatedEmail, validate_email

from regsvc.core.errors import DomainNotAllowed, InvalidEmail

MAX_EMAIL_LENGTH = 254
"""Bytes of a whole address (RFC 5321); the columns have room for more."""


@dataclass(frozen=True, slots=True)
class EmailAddress:
    """One mailbox: `display` as its owner writes it, `key` as it is compared and looked up."""

    display: str
    key: str

    @property
    def domain(self) -> str:
        """In lower case, as A-label: `xn--bcher-kva.example`."""
        return self.key.rpartition("@")[2]

    @property
    def local_part(self) -> str:
        """Before the last @, with the owner's own upper and lower case, and in quotes where it needs them."""
        return self.display.rpartition("@")[0]

    @property
    def envelope(self) -> str:
        """What a mail server is told: the local part untouched, the domain as every server understands it."""
        return f"{self.local_part}@{self.domain}"


def parse_email(text: str) -> EmailAddress:
    """An address by RFC 5322 and 6531.

    Raises `InvalidEmail`, and `DomainNotAllowed` for an IP address in brackets.
    """
    if len(text) > MAX_EMAIL_LENGTH:
        raise InvalidEmail
    parsed = _validate(text)
    if parsed.ascii_domain.startswith("["):
        raise DomainNotAllowed
    local_part = unicodedata.normalize("NFC", parsed.local_part.lower())
    return EmailAddress(parsed.normalized, f"{local_part}@{parsed.ascii_domain.lower()}")


def _validate(text: str) -> ValidatedEmail:
    try:
        return validate_email(
            text,
            allow_smtputf8=True,
            allow_quoted_local=True,
            allow_domain_literal=True,  # recognised here, refused by name above
            allow_display_name=False,
            strict=True,  # at most 64 bytes before the @
            check_deliverability=False,
            test_environment=True,  # `.test` is for hosts to use as they like; a mail server says the rest
        )
    except (EmailNotValidError, UnicodeError) as error:
        raise InvalidEmail from error


class EmailPolicy:
    """Which addresses a host takes. `domains`: empty for any; `blocked` counts for subdomains as well."""

    def __init__(self, domains: Iterable[str], blocked: Iterable[str], *, accepts_aliases: bool) -> None:
        """The domains are in lower case and A-labels, as the config hands them over."""
        self._domains = frozenset(domains)
        self._blocked = tuple(blocked)
        self._accepts_aliases = accepts_aliases

    def check(self, address: EmailAddress) -> None:
        """Raises `DomainNotAllowed`, or `InvalidEmail("alias")` for a `name+tag` where only names are taken."""
        if self._domains and address.domain not in self._domains:
            raise DomainNotAllowed
        if any(address.domain == domain or address.domain.endswith(f".{domain}") for domain in self._blocked):
            raise DomainNotAllowed
        if not self._accepts_aliases and "+" in address.local_part:
            raise InvalidEmail("alias")
