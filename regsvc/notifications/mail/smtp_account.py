"""A mail server with our account there, and sentences about why it cannot be used, each with what to do."""

import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

import aiosmtplib

Security = Literal["starttls", "tls", "none"]

TLS_PORT: Final = 465
STARTTLS_PORTS: Final = (25, 587)

_USE_TLS: Final = 'set mail.security = "tls"'
_USE_STARTTLS: Final = 'set mail.security = "starttls"'


@dataclass(frozen=True)
class SmtpAccount:
    """Address and credentials of a mail server. Without a `username` there is no login.

    `is_authmes`: taken from AuthMe's own `Email.*` keys instead of ours.
    """

    host: str
    port: int
    security: Security
    username: str = ""
    password: str = field(default="", repr=False)
    is_authmes: bool = False

    @property
    def address(self) -> str:
        """Host and port, as sentences name the server."""
        return f"{self.host}:{self.port}"


def explain_failure(error: Exception, account: SmtpAccount) -> str:
    """Return why the server cannot be used and what to do, on one line, without our credentials."""
    origin = ' (the account is AuthMe\'s, from its Email.* keys; for another one set mail.backend = "smtp")'
    return f"{_explain(error, account)}{origin if account.is_authmes else ''}"


def describe_failure(error: Exception) -> str:
    """Return the error on one line, without our credentials, which no server repeats."""
    if isinstance(error, aiosmtplib.SMTPResponseException):
        return f"{error.code} {' '.join(str(error.message).split())}"
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


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
    if "AUTH" in str(error):
        then = _USE_STARTTLS if account.security == "none" else "leave mail.username and mail.password empty"
        return f"{account.address} offers no login here: {then}"
    return f"{account.address}: {describe_failure(error)}"


def _explain_reply(error: aiosmtplib.SMTPResponseException, account: SmtpAccount) -> str:
    reply = describe_failure(error)
    if "STARTTLS" in reply.upper() and account.security == "none":
        return f"{account.address} requires encryption ({reply}): {_USE_STARTTLS}"
    if isinstance(error, aiosmtplib.SMTPAuthenticationError):
        return (
            f"{account.address} refuses the login ({reply}): check mail.username and mail.password; "
            "some providers want a password made for this program (app password)"
        )
    if isinstance(error, aiosmtplib.SMTPSenderRefused):
        then = "mail.sender to an address of the account" if account.username else "mail.username and mail.password"
        return f"{account.address} refuses our sender ({reply}): set {then}"
    return f"{account.address} refuses us: {reply}"


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
