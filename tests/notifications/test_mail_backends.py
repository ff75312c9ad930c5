"""Mail backends, and the failures they report."""

import asyncio
import logging
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from email import message_from_bytes
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import default as modern_policy
from pathlib import Path

import pytest

from plugin_bridge.authme.config import MailAccount
from regsvc.config.host_sections import MailSection
from regsvc.core.email_address import EmailAddress, parse_email
from regsvc.notifications.delivery import TemporaryFailure, TransportUnavailable
from regsvc.notifications.mail.backends import (
    FolderBackend,
    LogBackend,
    NoMailBackend,
    Security,
    SmtpAccount,
    SmtpBackend,
    make_mail_backend,
)
from regsvc.notifications.mail.transport import MailBackend
from tests.support.certificate import Certificate
from tests.support.peers.smtp import MailServer

ALICE = parse_email("Alice@example.org")
SENDER = "companion@example.org"
ACCOUNT = ("companion", "correct horse")


def letter(to: EmailAddress = ALICE) -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = "Grüße"
    message["From"] = SENDER
    message["To"] = Address(username=to.local_part, domain=to.domain)
    message["Date"] = datetime(2031, 5, 4, 12, 0, tzinfo=UTC)
    message.set_content("Your code is 123456.\n")
    return message


def send(backend: MailBackend, to: EmailAddress = ALICE) -> None:
    asyncio.run(backend.send(letter(to), to))


def plain(server: MailServer) -> SmtpBackend:
    return SmtpBackend(SENDER, SmtpAccount(server.host, server.port, "none"))


@pytest.fixture
def secure_smtp(certificate: Certificate) -> Iterator[MailServer]:
    """A mail server that requires STARTTLS and a login."""
    server = MailServer(tls=certificate.server_context(), account=ACCOUNT)
    server.start()
    yield server
    server.stop()


def secure(server: MailServer, certificate: Certificate, password: str = ACCOUNT[1]) -> SmtpBackend:
    trusting = ssl.create_default_context(cafile=str(certificate.certificate_file))
    return SmtpBackend(SENDER, SmtpAccount(server.host, server.port, "starttls", ACCOUNT[0], password), trusting)


def test_a_mail_server_takes_it(smtp: MailServer) -> None:
    send(plain(smtp))
    [arrived] = smtp.letters_to("Alice@example.org")
    assert arrived.sender == SENDER
    assert arrived.subject == "Grüße"
    assert "123456" in arrived.text


def test_it_is_encrypted_before_the_login(secure_smtp: MailServer, certificate: Certificate) -> None:
    send(secure(secure_smtp, certificate))
    [arrived] = secure_smtp.letters
    assert arrived.is_encrypted
    assert arrived.login == "companion"


@pytest.mark.parametrize("recipient", ["爱丽丝@例子.中国", "alice@bücher.example", '"A, b"@example.org'])
def test_addresses_of_all_kinds_are_reached(smtp: MailServer, recipient: str) -> None:
    address = parse_email(recipient)
    message = letter()
    del message["To"]
    asyncio.run(plain(smtp).send(message, address))
    assert len(smtp.letters_to(address.envelope)) == 1


async def test_a_wrong_password_is_an_outage_until_it_is_corrected(
    secure_smtp: MailServer, certificate: Certificate
) -> None:
    with pytest.raises(TransportUnavailable, match="535") as away:
        await secure(secure_smtp, certificate, password="battery staple").send(letter(), ALICE)
    assert "battery" not in str(away.value)
    await secure(secure_smtp, certificate).send(letter(), ALICE)
    assert len(secure_smtp.letters) == 1


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_it_never_goes_out_in_clear_where_it_must_not(smtp: MailServer, security: Security) -> None:
    with pytest.raises(TransportUnavailable):
        send(SmtpBackend(SENDER, SmtpAccount(smtp.host, smtp.port, security)))
    assert not smtp.letters


def test_a_certificate_nobody_vouches_for_is_an_outage(secure_smtp: MailServer) -> None:
    with pytest.raises(TransportUnavailable, match="certificate"):
        send(SmtpBackend(SENDER, SmtpAccount(secure_smtp.host, secure_smtp.port, "starttls", *ACCOUNT)))


async def test_a_server_that_hangs_up_in_the_middle_is_counted_against_the_mail() -> None:
    async def hang_up_at_data(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.test\r\n")
        while not (await reader.readline()).startswith(b"DATA"):
            writer.write(b"250 OK\r\n")
        writer.close()

    async with await asyncio.start_server(hang_up_at_data, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(TemporaryFailure):
            await SmtpBackend(SENDER, SmtpAccount("127.0.0.1", port, "none")).send(letter(), ALICE)


def test_a_folder_keeps_it_for_us_alone(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "mail"
    backend = FolderBackend(SENDER, folder)
    send(backend)
    send(backend, parse_email("爱丽丝@例子.中国"))
    first, second = sorted(folder.iterdir())
    assert {file.suffix for file in (first, second)} == {".eml"}
    assert {file.stat().st_mode & 0o777 for file in (first, second)} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
    read = message_from_bytes(first.read_bytes(), policy=modern_policy)
    assert read["To"] == "Alice@example.org"
    assert b"123456" in second.read_bytes()


def test_a_folder_that_cannot_be_written_is_an_outage(tmp_path: Path) -> None:
    (tmp_path / "mail").write_text("a file stands where the folder should be")
    with pytest.raises(TransportUnavailable):
        send(FolderBackend(SENDER, tmp_path / "mail"))


def test_the_log_shows_all_of_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        send(LogBackend(SENDER))
    assert "Alice@example.org" in caplog.text
    assert "Subject: Grüße" in caplog.text
    assert "Your code is 123456." in caplog.text


def test_no_mail_takes_nothing() -> None:
    assert not NoMailBackend().is_available
    with pytest.raises(TransportUnavailable):
        send(NoMailBackend())


AUTHME = MailAccount("host@example.org", "secret", "smtp.example.org", 465)


@pytest.mark.parametrize(
    ("config", "authme", "kind", "sender"),
    [
        (MailSection(), None, NoMailBackend, "companion@localhost"),
        (MailSection(), MailAccount("", "", "smtp.gmail.com", 465), NoMailBackend, "companion@localhost"),
        (
            MailSection(),
            MailAccount("host@example.org", "", "smtp.gmail.com"),
            NoMailBackend,
            "companion@localhost",
        ),
        (MailSection(), AUTHME, SmtpBackend, "host@example.org"),
        (MailSection(sender="a@b.org"), AUTHME, SmtpBackend, "a@b.org"),
        (MailSection(backend="off"), AUTHME, NoMailBackend, "companion@localhost"),
        (MailSection(backend="log"), AUTHME, LogBackend, "companion@localhost"),
        (MailSection(backend="folder", sender="a@b.org"), None, FolderBackend, "a@b.org"),
        (MailSection(backend="smtp", host="h", username="me@example.org"), None, SmtpBackend, "me@example.org"),
    ],
)
def test_the_config_decides(
    config: MailSection, authme: MailAccount | None, kind: type[MailBackend], sender: str
) -> None:
    backend = make_mail_backend(config, authme)
    assert type(backend) is kind
    assert backend.sender == sender


@pytest.mark.parametrize(("port", "security"), [(465, "tls"), (587, "starttls"), (25, "starttls")])
def test_authmes_port_tells_how_it_is_encrypted(port: int, security: Security) -> None:
    account = MailAccount("host@example.org", "secret", "smtp.example.org", port)
    backend = make_mail_backend(MailSection(), account)
    assert isinstance(backend, SmtpBackend)
    assert backend.account == SmtpAccount("smtp.example.org", port, security, "host@example.org", "secret", True)


def test_no_repr_shows_a_password() -> None:
    account = SmtpAccount("h", 25, "none", "me", "secret")
    assert "secret" not in repr(account) + repr(AUTHME) + repr(SmtpBackend(SENDER, account))
