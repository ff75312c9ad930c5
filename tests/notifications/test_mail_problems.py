"""Sentences about a mail server that cannot be used, for `mail-test`, the doctor and the log: what to change."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from datetime import timedelta

import pytest

from regsvc.notifications.mail.backends import NoMailBackend, Security, SmtpAccount, SmtpBackend, explain_failure
from regsvc.notifications.mail.transport import MailBackend
from tests.support.certificate import Certificate
from tests.support.peers.smtp import MailServer
from tests.support.ports import free_port

ACCOUNT = ("companion", "correct horse")


def problem_of(backend: MailBackend, seconds: float = 5) -> str | None:
    return asyncio.run(backend.find_problem(timedelta(seconds=seconds)))


@pytest.fixture
def encrypted(certificate: Certificate) -> Iterator[MailServer]:
    """A mail server that requires STARTTLS and a login."""
    server = MailServer(tls=certificate.server_context(), account=ACCOUNT)
    server.start()
    yield server
    server.stop()


def backend(
    server: MailServer, security: Security, username: str = "", password: str = "", tls: ssl.SSLContext | None = None
) -> SmtpBackend:
    account = SmtpAccount(server.host, server.port, security, username, password)
    return SmtpBackend("companion@example.org", account, tls)


def test_a_server_that_can_be_used_is_no_problem_and_gets_no_mail(
    encrypted: MailServer, certificate: Certificate
) -> None:
    trusting = ssl.create_default_context(cafile=str(certificate.certificate_file))
    assert problem_of(backend(encrypted, "starttls", *ACCOUNT, trusting)) is None
    problem = problem_of(backend(encrypted, "starttls", ACCOUNT[0], "wrong", trusting))
    assert problem is not None
    assert "refuses the login (535" in problem
    assert "check mail.username and mail.password" in problem
    assert "wrong" not in problem
    assert encrypted.letters == []


@pytest.mark.parametrize(
    ("security", "sentence"),
    [
        ("tls", 'does not begin with TLS: set mail.security = "starttls", or mail.port = 465'),
        ("starttls", "is not accepted (self-signed certificate): set mail.host to the name in the certificate, or "),
        ("none", 'offers no login here: set mail.security = "starttls"'),
    ],
)
def test_the_encryption_is_another(encrypted: MailServer, security: Security, sentence: str) -> None:
    assert sentence in (problem_of(backend(encrypted, security, *ACCOUNT)) or "")


def test_a_server_without_starttls(smtp: MailServer) -> None:
    assert "offers no STARTTLS: set mail.security" in (problem_of(backend(smtp, "starttls")) or "")


def test_nothing_listens() -> None:
    port = free_port()
    problem = problem_of(SmtpBackend("a@b.org", SmtpAccount("127.0.0.1", port, "none")))
    assert problem == f"nothing listens at 127.0.0.1:{port}: check mail.host and mail.port"


def test_a_server_that_never_greets() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        account = SmtpAccount("127.0.0.1", silent.getsockname()[1], "starttls")
        problem = problem_of(SmtpBackend("a@b.org", account), 0.2)
    assert problem is not None
    assert problem.startswith(f"{account.address} does not answer: check mail.host, mail.port and mail.security")


def test_port_465_with_starttls() -> None:
    problem = explain_failure(TimeoutError(), SmtpAccount("smtp.example.org", 465, "starttls"))
    assert problem == 'smtp.example.org:465 does not greet: port 465 begins with TLS; set mail.security = "tls"'


def test_a_name_that_does_not_exist() -> None:
    problem = explain_failure(socket.gaierror(-2, "unknown"), SmtpAccount("smtp.exmaple.org", 587, "starttls"))
    assert problem == "there is no mail server smtp.exmaple.org, or its name cannot be looked up: check mail.host"


def test_authmes_account_has_keys_of_authmes(encrypted: MailServer) -> None:
    """They are in its config.yml; ours would change nothing."""
    for port, keys in (
        (free_port(), "Email.mailSMTP and Email.mailPort"),
        (encrypted.port, "set Email.mailPort to 587"),
    ):
        account = SmtpAccount("127.0.0.1", port, "tls", *ACCOUNT, is_authmes=True)
        problem = problem_of(SmtpBackend("companion@example.org", account)) or ""
        assert keys in problem
        assert "mail.host" not in problem.replace("for another one set mail.host", "")
        assert problem.endswith("(the account is AuthMe's, from its Email.* keys; for another one set mail.host)")


def test_mail_that_is_off() -> None:
    assert problem_of(NoMailBackend()) == "mail is off: set mail.host, or mail.backend"
