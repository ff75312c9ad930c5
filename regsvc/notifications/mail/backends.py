"""Mail backends: a mail server, files in a folder, the log, or none.

All implement `MailBackend`; `make_mail_backend` picks one by the config.
"""

import asyncio
import contextlib
import logging
import os
import socket
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from email.message import EmailMessage
from email.policy import SMTPUTF8
from pathlib import Path
from typing import ClassVar, Final, Literal

import aiosmtplib

from regsvc.config.sections import MailSection
from regsvc.core.email_address import EmailAddress

log = logging.getLogger(__name__)

Security = Literal["starttls", "tls", "none"]

SEND_TIMEOUT: Final = timedelta(seconds=60)
"""Limit of one whole SMTP session."""

_REPLY_TIMEOUT: Final = timedelta(seconds=30)
_QUIT_TIMEOUT: Final = timedelta(seconds=3)
_DEFAULT_SENDER: Final = "companion@localhost"
_STARTTLS_PORTS: Final = (25, 587)


class PermanentMailFailure(Exception):
    """The server will never accept this mail; `str()` is the server's reply."""


class TemporaryMailFailure(Exception):
    """The server does not accept this mail now; `str()` is the server's reply."""


class MailServerUnavailable(Exception):
    """No mail can be sent at the moment, to any recipient; `str()` gives the reason."""


class MailBackend(ABC):
    """Interface of mail backends. `sender` is their From address, with or without a display name."""

    is_available: ClassVar[bool] = True

    def __init__(self, sender: str) -> None:
        self.sender = sender

    @abstractmethod
    async def send(self, message: EmailMessage, recipient: EmailAddress) -> None:
        """Send the mail; returns once it has been accepted.

        Raises `PermanentMailFailure`, `TemporaryMailFailure` or `MailServerUnavailable`.
        """


@dataclass(frozen=True)
class SmtpAccount:
    """Address and credentials of a mail server. Without a `username` there is no login."""

    host: str
    port: int
    security: Security
    username: str = ""
    password: str = field(default="", repr=False)


class SmtpBackend(MailBackend):
    """Backend that sends through a mail server.

    `tls` replaces the system's certificates (None) for hosts that have their own.
    """

    def __init__(self, sender: str, account: SmtpAccount, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(sender)
        self.account = account
        self._tls = tls

    async def send(self, message: EmailMessage, recipient: EmailAddress) -> None:
        client = self._client()
        transport = None
        try:
            async with asyncio.timeout(SEND_TIMEOUT.total_seconds()):
                await _connect(client)
                transport = client.transport
                await _send(client, message, recipient)
            await _quit(client)
        except TimeoutError as error:
            raise TemporaryMailFailure("the mail server took too long") from error
        finally:
            client.close()
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()  # the session is over; a TLS shutdown would wait for the server's reply

    def _client(self) -> aiosmtplib.SMTP:
        return aiosmtplib.SMTP(
            hostname=self.account.host,
            port=self.account.port,
            local_hostname=_ehlo_name(),
            use_tls=self.account.security == "tls",
            start_tls=self.account.security == "starttls",
            tls_context=self._tls,
            username=self.account.username or None,
            password=self.account.password or None,
            timeout=_REPLY_TIMEOUT.total_seconds(),
        )


def _ehlo_name() -> str:
    """Return our EHLO name. Not looked up in DNS, which may be as unreachable as the mail server."""
    name = socket.gethostname()
    return name if "." in name and name.isascii() else "[127.0.0.1]"


async def _connect(client: aiosmtplib.SMTP) -> None:
    """Connect, encrypt and log in. A failure here would hit every mail."""
    try:
        await client.connect()
    except (aiosmtplib.SMTPException, OSError) as error:
        raise MailServerUnavailable(_describe(error)) from error


async def _send(client: aiosmtplib.SMTP, message: EmailMessage, recipient: EmailAddress) -> None:
    """Send one mail. A failure here counts against this mail: it may be the cause."""
    try:
        await client.send_message(message, recipients=[recipient.envelope])
    except aiosmtplib.SMTPRecipientsRefused as error:
        raise _failure_by_code(error.recipients[0]) from error
    except aiosmtplib.SMTPDataError as error:
        raise _failure_by_code(error) from error
    except aiosmtplib.SMTPSenderRefused as error:
        raise MailServerUnavailable(_describe(error)) from error  # our own address is refused, with every mail
    except (aiosmtplib.SMTPNotSupported, ValueError) as error:
        # the server does not support non-ASCII local parts, or our client considers the address unsafe
        raise PermanentMailFailure(_describe(error)) from error
    except (aiosmtplib.SMTPException, OSError) as error:
        raise TemporaryMailFailure(_describe(error)) from error


async def _quit(client: aiosmtplib.SMTP) -> None:
    """End the session. The mail has been accepted by now, so errors do not matter."""
    with contextlib.suppress(aiosmtplib.SMTPException, OSError):
        await client.quit(timeout=_QUIT_TIMEOUT.total_seconds())


def _failure_by_code(error: aiosmtplib.SMTPResponseException) -> Exception:
    """Return the failure for a reply code (RFC 5321): 5xx is permanent, 4xx temporary."""
    return (PermanentMailFailure if error.code >= 500 else TemporaryMailFailure)(_describe(error))


def _describe(error: Exception) -> str:
    """Return the error on one line, without our credentials, which no server repeats."""
    if isinstance(error, aiosmtplib.SMTPResponseException):
        return f"{error.code} {' '.join(str(error.message).split())}"
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


class FolderBackend(MailBackend):
    """Backend that writes each mail to an `.eml` file that only our user can read. The folder is created if missing."""

    def __init__(self, sender: str, folder: Path) -> None:
        super().__init__(sender)
        self._folder = folder
        self._count = 0

    async def send(self, message: EmailMessage, recipient: EmailAddress) -> None:
        self._count += 1
        name = f"{message['Date'].datetime:%Y%m%dT%H%M%S}-{os.getpid()}-{self._count}.eml"
        try:
            await asyncio.to_thread(_write_atomically, self._folder / name, message.as_bytes(policy=SMTPUTF8))
        except OSError as error:
            raise MailServerUnavailable(f"cannot write to {self._folder}: {error.strerror}") from error


def _write_atomically(file: Path, content: bytes) -> None:
    """Write the file atomically: under its name it is complete or absent."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = file.with_suffix(".part")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
    temporary.rename(file)


class LogBackend(MailBackend):
    """Backend that logs whole mails, including codes and links. For trying things out only."""

    async def send(self, message: EmailMessage, recipient: EmailAddress) -> None:
        part = message.get_body(("plain",))
        text = message.get_content() if part is None else part.get_content()
        log.info("mail to %s\nSubject: %s\n\n%s", recipient.envelope, message["Subject"], text)


class NoMailBackend(MailBackend):
    """E-mail is disabled."""

    is_available = False

    def __init__(self) -> None:
        super().__init__(_DEFAULT_SENDER)

    async def send(self, message: EmailMessage, recipient: EmailAddress) -> None:
        raise MailServerUnavailable("e-mail is disabled")


@dataclass(frozen=True)
class AuthMeMailAccount:
    """AuthMe's own `Email.*` keys: mailAccount, mailPassword, mailSMTP, mailPort."""

    account: str
    password: str = field(repr=False)
    host: str = "smtp.gmail.com"
    port: int = 465

    @property
    def is_set_up(self) -> bool:
        """Return whether AuthMe considers e-mail configured: both the account and its password are set."""
        return bool(self.account and self.password)


def make_mail_backend(config: MailSection, authme: AuthMeMailAccount | None) -> MailBackend:
    """Return the backend chosen by `mail.backend`. `authme`: None where there is no AuthMe."""
    return _BACKENDS[config.backend](config, authme)


def _auto(config: MailSection, authme: AuthMeMailAccount | None) -> MailBackend:
    if authme is None or not authme.is_set_up:
        return NoMailBackend()
    security: Security = "starttls" if authme.port in _STARTTLS_PORTS else "tls"
    account = SmtpAccount(authme.host, authme.port, security, authme.account, authme.password)
    return SmtpBackend(config.sender or authme.account, account)


def _smtp(config: MailSection, authme: AuthMeMailAccount | None) -> MailBackend:
    account = SmtpAccount(config.host, config.port, config.security, config.username, config.password)
    return SmtpBackend(_sender(config), account)


def _folder(config: MailSection, authme: AuthMeMailAccount | None) -> MailBackend:
    return FolderBackend(_sender(config), config.folder)


def _log(config: MailSection, authme: AuthMeMailAccount | None) -> MailBackend:
    return LogBackend(_sender(config))


def _off(config: MailSection, authme: AuthMeMailAccount | None) -> MailBackend:
    return NoMailBackend()


def _sender(config: MailSection) -> str:
    account = config.username if "@" in config.username else _DEFAULT_SENDER
    return config.sender or account


_BACKENDS: Final[dict[str, Callable[[MailSection, AuthMeMailAccount | None], MailBackend]]] = {
    "auto": _auto,
    "smtp": _smtp,
    "folder": _folder,
    "log": _log,
    "off": _off,
}
