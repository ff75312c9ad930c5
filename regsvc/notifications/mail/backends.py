"""The ways a mail can leave the house: a mail server, files in a folder, the log, or none at all.

All share one small plan, `MailBackend`; `make_mail_backend` picks one by the config.
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
"""One whole conversation with a mail server takes no longer."""

_ANSWER_TIMEOUT: Final = timedelta(seconds=30)
_GOODBYE_TIMEOUT: Final = timedelta(seconds=3)
_NO_SENDER: Final = "companion@localhost"
_STARTTLS_PORTS: Final = (25, 587)


class PermanentMailFailure(Exception):
    """This mail will never be taken; `str()` is what the server said."""


class TemporaryMailFailure(Exception):
    """This mail is not taken now; `str()` is what the server said."""


class MailServerUnavailable(Exception):
    """No mail gets out at the moment, whoever it is for; `str()` says why."""


class MailBackend(ABC):
    """Hands one mail over. `sender` is its From, with or without a display name."""

    is_available: ClassVar[bool] = True

    def __init__(self, sender: str) -> None:
        self.sender = sender

    @abstractmethod
    async def send(self, message: EmailMessage, recipient: EmailAddress) -> None:
        """Comes back when somebody else has taken the mail.

        Raises `PermanentMailFailure`, `TemporaryMailFailure` or `MailServerUnavailable`.
        """


@dataclass(frozen=True)
class SmtpAccount:
    """Where and as whom to hand mails over. `username` "" is without a login."""

    host: str
    port: int
    security: Security
    username: str = ""
    password: str = field(default="", repr=False)


class SmtpBackend(MailBackend):
    """A mail server. `tls` replaces the system's certificates (None) where a host has his own."""

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
                await _hand_over(client, message, recipient)
            await _say_goodbye(client)
        except TimeoutError as error:
            raise TemporaryMailFailure("the mail server took too long") from error
        finally:
            client.close()
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()  # everything is said; TLS would wait for an answer to its farewell

    def _client(self) -> aiosmtplib.SMTP:
        return aiosmtplib.SMTP(
            hostname=self.account.host,
            port=self.account.port,
            local_hostname=_own_name(),
            use_tls=self.account.security == "tls",
            start_tls=self.account.security == "starttls",
            tls_context=self._tls,
            username=self.account.username or None,
            password=self.account.password or None,
            timeout=_ANSWER_TIMEOUT.total_seconds(),
        )


def _own_name() -> str:
    """How we introduce ourselves: without asking DNS, which may be as far away as the mail server."""
    name = socket.gethostname()
    return name if "." in name and name.isascii() else "[127.0.0.1]"


async def _connect(client: aiosmtplib.SMTP) -> None:
    """Greeted, encrypted and logged in. What fails here would fail for every mail."""
    try:
        await client.connect()
    except (aiosmtplib.SMTPException, OSError) as error:
        raise MailServerUnavailable(_describe(error)) from error


async def _hand_over(client: aiosmtplib.SMTP, message: EmailMessage, recipient: EmailAddress) -> None:
    """What fails here is counted against this mail: it may be what the server stumbles over."""
    try:
        await client.send_message(message, recipients=[recipient.envelope])
    except aiosmtplib.SMTPRecipientsRefused as error:
        raise _by_code(error.recipients[0]) from error
    except aiosmtplib.SMTPDataError as error:
        raise _by_code(error) from error
    except aiosmtplib.SMTPSenderRefused as error:
        raise MailServerUnavailable(_describe(error)) from error  # our own address is refused, with every mail
    except (aiosmtplib.SMTPNotSupported, ValueError) as error:
        # the server cannot carry letters beyond ASCII before the @, or our client finds the address unsafe
        raise PermanentMailFailure(_describe(error)) from error
    except (aiosmtplib.SMTPException, OSError) as error:
        raise TemporaryMailFailure(_describe(error)) from error


async def _say_goodbye(client: aiosmtplib.SMTP) -> None:
    """The mail is theirs by now: how they take the farewell does not matter."""
    with contextlib.suppress(aiosmtplib.SMTPException, OSError):
        await client.quit(timeout=_GOODBYE_TIMEOUT.total_seconds())


def _by_code(error: aiosmtplib.SMTPResponseException) -> Exception:
    """By RFC 5321: 5xx are final, 4xx ask to come again."""
    return (PermanentMailFailure if error.code >= 500 else TemporaryMailFailure)(_describe(error))


def _describe(error: Exception) -> str:
    """On one line, without our own login, which no server repeats."""
    if isinstance(error, aiosmtplib.SMTPResponseException):
        return f"{error.code} {' '.join(str(error.message).split())}"
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


class FolderBackend(MailBackend):
    """One `.eml` file for each mail, readable by us alone. The folder is made when it is missing."""

    def __init__(self, sender: str, folder: Path) -> None:
        super().__init__(sender)
        self._folder = folder
        self._count = 0

    async def send(self, message: EmailMessage, recipient: EmailAddress) -> None:
        self._count += 1
        name = f"{message['Date'].datetime:%Y%m%dT%H%M%S}-{os.getpid()}-{self._count}.eml"
        try:
            await asyncio.to_thread(_write_whole, self._folder / name, message.as_bytes(policy=SMTPUTF8))
        except OSError as error:
            raise MailServerUnavailable(f"cannot write to {self._folder}: {error.strerror}") from error


def _write_whole(file: Path, content: bytes) -> None:
    """Under its name the file is there whole or not at all."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = file.with_suffix(".part")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
    unfinished.rename(file)


class LogBackend(MailBackend):
    """Prints whole mails, codes and links included: for a first try, and never otherwise."""

    async def send(self, message: EmailMessage, recipient: EmailAddress) -> None:
        part = message.get_body(("plain",))
        text = message.get_content() if part is None else part.get_content()
        log.info("mail to %s\nSubject: %s\n\n%s", recipient.envelope, message["Subject"], text)


class NoMailBackend(MailBackend):
    """E-mail is switched off."""

    is_available = False

    def __init__(self) -> None:
        super().__init__(_NO_SENDER)

    async def send(self, message: EmailMessage, recipient: EmailAddress) -> None:
        raise MailServerUnavailable("e-mail is switched off")


@dataclass(frozen=True)
class AuthMeMailAccount:
    """AuthMe's own `Email.*` keys: mailAccount, mailPassword, mailSMTP, mailPort."""

    account: str
    password: str = field(repr=False)
    host: str = "smtp.gmail.com"
    port: int = 465

    @property
    def is_set_up(self) -> bool:
        """As AuthMe sees it: both the account and its password are there."""
        return bool(self.account and self.password)


def make_mail_backend(config: MailSection, authme: AuthMeMailAccount | None) -> MailBackend:
    """The mailer of `mail.backend`. `authme`: None where there is no AuthMe."""
    return _KINDS[config.backend](config, authme)


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
    account = config.username if "@" in config.username else _NO_SENDER
    return config.sender or account


_KINDS: Final[dict[str, Callable[[MailSection, AuthMeMailAccount | None], MailBackend]]] = {
    "auto": _auto,
    "smtp": _smtp,
    "folder": _folder,
    "log": _log,
    "off": _off,
}
