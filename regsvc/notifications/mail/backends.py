"""Mail backends: a mail server, an HTTP service, files in a folder, the log, or none.

All implement `MailBackend`; `make_mail_backend` picks one by the config.
"""

import asyncio
import contextlib
import logging
import os
import re
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from email.message import EmailMessage
from email.policy import SMTPUTF8
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import aiosmtplib

from plugin_bridge.authme.config import MailAccount
from plugin_bridge.text import one_line
from regsvc.config.host_sections import MailSection
from regsvc.core.email_address import EmailAddress
from regsvc.notifications.delivery import PermanentFailure, TemporaryFailure, TransportUnavailable
from regsvc.notifications.mail.http_backend import HttpBackend, make_mail_service
from regsvc.notifications.mail.transport import MailBackend, Stage, is_about_sender, judge_reply

Security = Literal["starttls", "tls", "none"]

TLS_PORT: Final = 465
STARTTLS_PORTS: Final = (25, 587)

_USE_TLS: Final = 'set mail.security = "tls"'
_USE_STARTTLS: Final = 'set mail.security = "starttls"'
_NO_PASSWORDS: Final = 'use an account of another provider, or mail.backend = "http" with a mail service'
_AUTHMES_KEYS: Final = {
    _USE_TLS: "set Email.mailPort to 465",
    _USE_STARTTLS: "set Email.mailPort to 587",
    " and mail.port = 465": "",
    ", mail.port and mail.security": " and mail.port",
    "mail.host": "Email.mailSMTP",
    "mail.port": "Email.mailPort",
    "mail.username": "Email.mailAccount",
    "mail.password": "Email.mailPassword",
}
"""Keys of AuthMe's config in place of ours, which are replaced in this order."""


@dataclass(frozen=True)
class SmtpAccount:
    """Address and credentials of a mail server. Without a `username` there is no login.

    `is_authmes`: taken from AuthMe's own `Email.*` keys instead of ours. `own_name`: the full name by which we greet
    the server; "": by our address.
    """

    host: str
    port: int
    security: Security
    username: str = ""
    password: str = field(default="", repr=False)
    is_authmes: bool = False
    own_name: str = ""

    @property
    def address(self) -> str:
        """Host and port, as sentences name the server."""
        return f"{self.host}:{self.port}"


def explain_failure(error: Exception, account: SmtpAccount) -> str:
    """Return why the server cannot be used and what to do, on one line, without our credentials."""
    reason = _explain(error, account)
    if not account.is_authmes:
        return reason
    for ours, authmes in _AUTHMES_KEYS.items():
        reason = reason.replace(ours, authmes)
    return f"{reason} (the account is AuthMe's, from its Email.* keys; for another one set mail.host)"


def describe_failure(error: Exception) -> str:
    """Return the error on one line, without our credentials, which no server repeats."""
    if isinstance(error, aiosmtplib.SMTPResponseException):
        return f"{error.code} {one_line(str(error.message))}"
    return f"{type(error).__name__}: {one_line(str(error))}"


def _explain(error: Exception, account: SmtpAccount) -> str:
    if isinstance(error, aiosmtplib.SMTPResponseException):
        return _explain_reply(error, account)
    for cause in _chain(error):
        if isinstance(cause, ssl.SSLError):
            return _explain_tls(cause, account)
        if isinstance(cause, socket.gaierror):
            return f"there is no mail server {account.host}, or its name cannot be looked up: check mail.host"
        if isinstance(cause, ConnectionRefusedError):
            return f"nothing listens at {account.address}: check mail.host and mail.port"
    if account.security != "tls" and account.port == TLS_PORT:
        return f"{account.address} does not greet: port {TLS_PORT} begins with TLS; {_USE_TLS}"
    if isinstance(error, aiosmtplib.SMTPServerDisconnected | TimeoutError):
        reason = "ends the connection" if isinstance(error, aiosmtplib.SMTPServerDisconnected) else "does not answer"
        return f"{account.address} {reason}: check mail.host, mail.port and mail.security, and firewalls on the way"
    if "STARTTLS extension" in str(error):
        return (
            f"{account.address} offers no STARTTLS: {_USE_TLS} and mail.port = {TLS_PORT}; "
            'mail.security = "none" is for a server on this machine'
        )
    if "authentication method" in str(error):
        return f"{account.address} takes no passwords, only other logins such as OAuth (XOAUTH2): {_NO_PASSWORDS}"
    if "AUTH" in str(error):
        then = _USE_STARTTLS if account.security == "none" else "leave mail.username and mail.password empty"
        return f"{account.address} offers no login here: {then}"
    return f"{account.address}: {describe_failure(error)}"


def _explain_reply(error: aiosmtplib.SMTPResponseException, account: SmtpAccount) -> str:
    reply = describe_failure(error)
    if "STARTTLS" in reply.upper() and account.security == "none":
        return f"{account.address} requires encryption ({reply}): {_USE_STARTTLS}"
    if isinstance(error, aiosmtplib.SMTPAuthenticationError):
        return f"{account.address} refuses the login ({reply}): {_explain_login(reply)}"
    if isinstance(error, aiosmtplib.SMTPHeloError) and error.code >= 500:
        return (
            f"{account.address} does not take the name by which we greet, {account.own_name or 'our address'} "
            f"({reply}): set server.base_url, whose host is that name, or give this machine a full name"
        )
    is_at_sender = isinstance(error, aiosmtplib.SMTPSenderRefused)
    if is_about_sender(reply) or (is_at_sender and error.code >= 500):
        then = "mail.sender to an address of the account" if account.username else "mail.username and mail.password"
        return f"{account.address} refuses our sender ({reply}): set {then}"
    if is_at_sender:
        return f"{account.address} takes no mail at the moment ({reply}): it may limit connections or mails"
    return f"{account.address} refuses us: {reply}"


def _explain_login(reply: str) -> str:
    """Return what to do about a refused login. The replies are those of Exchange Online and Outlook.com, as reported.

    https://learn.microsoft.com/exchange/clients-and-mobile-in-exchange-online/deprecation-of-basic-authentication-exchange-online
    """
    if re.search(r"basic authentication is|\b5\.7\.30\b", reply, re.IGNORECASE):
        return f"it takes no passwords from programs any more, app passwords included; {_NO_PASSWORDS}"
    if "smtpclientauthentication is disabled" in reply.lower():
        return "its admin has to enable Authenticated SMTP for this mailbox; no other password helps"
    return "check mail.username and mail.password; some providers want a password made for this program (app password)"


def _explain_tls(error: ssl.SSLError, account: SmtpAccount) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the certificate of {account.address} is not accepted ({error.verify_message}): set mail.host to the name "
            "in the certificate, or mail.ca_file to the certificate of the authority that signed it"
        )
    if account.security == "tls":
        return f"{account.address} does not begin with TLS: {_USE_STARTTLS}, or mail.port = {TLS_PORT}"
    reason = error.reason or "no reason given"
    return f'{account.address} fails to switch to TLS ({reason}): try mail.security = "tls"'


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


log = logging.getLogger(__name__)

SEND_TIMEOUT: Final = timedelta(seconds=60)
"""Limit of one whole SMTP session."""

_REPLY_TIMEOUT: Final = timedelta(seconds=30)
_QUIT_TIMEOUT: Final = timedelta(seconds=3)
_NO_NAME: Final = "[127.0.0.1]"
_FULL_NAME: Final = re.compile(
    r"(?=.{4,253}\Z)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+"
    r"(?!(?:arpa|corp|home|internal|intranet|invalid|lan|local|localdomain|localhost|private|test)\Z)"
    r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])",
    re.IGNORECASE,
)
"""Name below a domain that DNS may have."""
_DEFAULT_SENDER: Final = "companion@localhost"
_MAIL_IS_OFF: Final = "mail is off: set mail.host, or mail.backend"


class _SmtpClient(aiosmtplib.SMTP):
    """SMTP client that closes its connection at once: a TLS shutdown would wait for the server's reply.

    Without a name it greets by the address of its end of the connection (RFC 5321, 4.1.3).
    """

    async def ehlo(self, **options: Any) -> aiosmtplib.SMTPResponse:
        if self.local_hostname == _NO_NAME:
            address = str(self.get_transport_info("sockname")[0]).partition("%")[0]
            self.local_hostname = f"[IPv6:{address}]" if ":" in address else f"[{address}]"
        return await super().ehlo(**options)

    def close(self) -> None:
        if isinstance(self.transport, asyncio.WriteTransport):
            self.transport.abort()
        super().close()


class SmtpBackend(MailBackend):
    """Backend that sends through a mail server.

    `tls` replaces the system's certificates (None) for hosts that have their own.
    """

    def __init__(self, sender: str, account: SmtpAccount, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(sender)
        self.account = account
        self._tls = tls

    async def send(self, message: EmailMessage, recipient: EmailAddress) -> None:
        try:
            async with self._session(SEND_TIMEOUT, _REPLY_TIMEOUT) as client:
                try:  # a failure here counts against this mail: it may be the cause
                    await client.send_message(message, recipients=[recipient.envelope])
                except aiosmtplib.SMTPRecipientsRefused as error:
                    raise self._failure(error.recipients[0], "recipient") from error
                except aiosmtplib.SMTPSenderRefused as error:
                    raise self._failure(error, "mail") from error
                except aiosmtplib.SMTPResponseException as error:  # at DATA, or no reply as SMTP has them
                    raise self._failure(error, "recipient") from error
                except (aiosmtplib.SMTPNotSupported, ValueError) as error:
                    # the server does not support non-ASCII local parts, or our client considers the address unsafe
                    raise PermanentFailure(describe_failure(error)) from error
                except (aiosmtplib.SMTPException, OSError) as error:
                    raise TemporaryFailure(describe_failure(error)) from error
        except TimeoutError as error:
            raise TemporaryFailure("the mail server took too long") from error

    def _failure(self, error: aiosmtplib.SMTPResponseException, stage: Stage) -> Exception:
        match judge_reply(error.code, error.message, stage):
            case "account":
                return TransportUnavailable(explain_failure(error, self.account), is_alleged=stage == "recipient")
            case "never":
                return PermanentFailure(describe_failure(error))
            case "later":
                return TemporaryFailure(describe_failure(error))

    async def find_problem(self, limit: timedelta) -> str | None:
        try:
            async with self._session(limit, limit * 0.9):
                return None
        except TransportUnavailable as problem:
            return str(problem)
        except TimeoutError as error:
            return explain_failure(error, self.account)

    @contextlib.asynccontextmanager
    async def _session(self, limit: timedelta, reply_limit: timedelta) -> AsyncIterator[aiosmtplib.SMTP]:
        """Connect, encrypt and log in, then end the session. A failure to do so would hit every mail.

        Raises `TransportUnavailable`, and TimeoutError after `limit`.
        """
        client = _SmtpClient(
            hostname=self.account.host,
            port=self.account.port,
            local_hostname=self.account.own_name or _NO_NAME,
            use_tls=self.account.security == "tls",
            start_tls=self.account.security == "starttls",
            tls_context=self._tls,
            username=self.account.username or None,
            password=self.account.password or None,
            timeout=reply_limit.total_seconds(),
        )
        try:
            async with asyncio.timeout(limit.total_seconds()):
                try:  # ValueError: of what a server sends for CRAM-MD5
                    await client.connect()
                    if client.is_ehlo_or_helo_needed:
                        await _greet(client)
                except (
                    aiosmtplib.SMTPException,
                    OSError,
                    ValueError,
                ) as error:
                    raise TransportUnavailable(explain_failure(error, self.account)) from error
                yield client
            with contextlib.suppress(aiosmtplib.SMTPException, OSError):  # the mail has been accepted by now
                await client.quit(timeout=_QUIT_TIMEOUT.total_seconds())
        finally:
            client.close()


async def _greet(client: aiosmtplib.SMTP) -> None:
    try:
        await client.ehlo()
    except aiosmtplib.SMTPHeloError:
        if not client.is_connected:
            raise
        await client.helo()


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
            raise TransportUnavailable(f"cannot write to {self._folder}: {error.strerror}") from error


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
        raise TransportUnavailable(_MAIL_IS_OFF)

    async def find_problem(self, limit: timedelta) -> str | None:
        return _MAIL_IS_OFF


def make_mail_backend(config: MailSection, authme: MailAccount | None, base_url: str = "") -> MailBackend:
    """Return the backend chosen by `mail.backend`. `authme`: AuthMe's own account; None without AuthMe.

    `base_url`: our public address, whose host greets mail servers.
    """
    own_name = _find_own_name(base_url)
    sender = config.sender or (config.username if "@" in config.username else _DEFAULT_SENDER)
    match config.backend:
        case "auto" if authme is not None and authme.is_set_up:
            security: Security = "starttls" if authme.port in STARTTLS_PORTS else "tls"
            account = SmtpAccount(authme.host, authme.port, security, authme.address, authme.password, True, own_name)
            return SmtpBackend(config.sender or authme.address, account, _trusted_authorities(config))
        case "smtp":
            login = config.username, config.password
            account = SmtpAccount(config.host, config.port, config.security, *login, own_name=own_name)
            return SmtpBackend(sender, account, _trusted_authorities(config))
        case "http":
            return HttpBackend(
                config.sender,
                make_mail_service(config),
                _trusted_authorities(config),
                allows_private=config.http_allow_private,
            )
        case "folder":
            return FolderBackend(sender, config.folder)
        case "log":
            return LogBackend(sender)
        case _:
            return NoMailBackend()


def _find_own_name(base_url: str) -> str:
    """Return our full name in DNS, "" if none can be one: servers refuse names such as localhost.localdomain.

    The machine's own name is not looked up: DNS may be as unreachable as the mail server.
    """
    names = (urlsplit(base_url).hostname or "", socket.gethostname())
    return next((name for name in names if _FULL_NAME.fullmatch(name)), "")


def _trusted_authorities(config: MailSection) -> ssl.SSLContext | None:
    """Return a TLS context with `mail.ca_file` beside the system's certificates, or None for the system's alone."""
    if config.ca_file is None:
        return None
    context = ssl.create_default_context()
    context.load_verify_locations(config.ca_file)
    return context
