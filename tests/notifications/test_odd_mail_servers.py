"""What real mail servers do and say: each story is a server's replies, and what becomes of the mail."""

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email import message_from_string
from email.message import EmailMessage
from typing import Final

import pytest

from regsvc.core.email_address import parse_email
from regsvc.notifications.delivery import PermanentFailure, TemporaryFailure, TransportUnavailable
from regsvc.notifications.mail import backends
from regsvc.notifications.mail.backends import SmtpAccount, SmtpBackend

HANGS_UP: Final = ""
IS_SILENT: Final = "…"
USUAL: Final = {
    "greeting": "220 mail.test ESMTP",
    "EHLO": "250-mail.test\n250-8BITMIME\n250-AUTH PLAIN LOGIN\n250 SMTPUTF8",
    "HELO": "250 mail.test",
    "AUTH": "235 2.7.0 Accepted",
    "MAIL": "250 OK",
    "RCPT": "250 OK",
    "DATA": "354 Go ahead",
    ".": "250 OK",
    "QUIT": "221 Bye",
    "RSET": "250 OK",
}
LATER, NEVER, AWAY = TemporaryFailure, PermanentFailure, TransportUnavailable
Outcome = type[Exception] | None


@asynccontextmanager
async def server_that_says(replies: Mapping[str, str]) -> AsyncIterator[tuple[int, list[str]]]:
    """Open a mail server with these replies by command, as Latin-1; yield its port, and the lines that it hears."""
    heard: list[str] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        command = "greeting"
        while True:
            reply = {**USUAL, **replies}[command]
            if reply == HANGS_UP:
                writer.close()
                return
            if reply != IS_SILENT:
                writer.write(reply.replace("\n", "\r\n").encode("latin-1") + b"\r\n")
            if command == "DATA" and reply.startswith("354"):
                heard.append((await reader.readuntil(b"\r\n.\r\n")).decode("latin-1"))
                command = "."
                continue
            line = (await reader.readline()).decode()
            if not line:
                writer.close()
                return
            heard.append(line.strip())
            if line.upper().startswith("AUTH LOGIN"):  # our client sends the account with the command
                writer.write(f"334 {base64.b64encode(b'Password:').decode()}\r\n".encode())
                heard.append(base64.b64decode(await reader.readline()).decode())
            command = line.split()[0].upper()

    async with await asyncio.start_server(talk, "127.0.0.1") as server:
        yield server.sockets[0].getsockname()[1], heard


STORIES: Final[dict[str, tuple[Mapping[str, str], Outcome]]] = {
    "greylisting at RCPT": ({"RCPT": "450 4.2.0 <a@example.org>: Recipient address rejected: Greylisted"}, LATER),
    "greylisting at the end": ({".": "451 4.7.1 Greylisting in action, please come back later"}, LATER),
    "hangs up after the dot": ({".": HANGS_UP}, LATER),
    "silent after the dot": ({".": IS_SILENT}, LATER),
    "no such mailbox": ({"RCPT": "550 5.1.1 The email account that you tried to reach does not exist."}, NEVER),
    "silent at QUIT": ({"QUIT": IS_SILENT}, None),
    "hangs up at QUIT": ({"QUIT": HANGS_UP}, None),
    "bare 250": ({".": "250", "MAIL": "250", "RCPT": "250"}, None),
    "Gmail": ({".": "250 2.0.0 OK  1923393600 d2e1a72fcca58-7a 42 - gsmtp"}, None),
    "QQ": ({".": "250 OK: queued as."}, None),
    "163": ({".": "250 Mail OK queued as gzga-smtp-mta-g2-3,_____wDnD_0 1923393600"}, None),
    "only AUTH LOGIN": ({"EHLO": "250-mail.test\n250 AUTH LOGIN"}, None),
    "no 8BITMIME": ({"EHLO": "250-mail.test\n250 AUTH PLAIN LOGIN"}, None),
    "a long greeting": ({"greeting": "220-mail.test\n220-no spam\n220 ready"}, None),
    "full at the greeting": ({"greeting": "421 4.3.2 Too many connections"}, AWAY),
    "hangs up at the greeting": ({"greeting": HANGS_UP}, AWAY),
}


def letter() -> EmailMessage:
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = "Grüße", "companion@example.org", "alice@example.org"
    message["Date"] = datetime(2031, 5, 4, 12, 0, tzinfo=UTC)
    message.set_content("Grüße. Your code is 123456.\n")
    return message


async def send(replies: Mapping[str, str], expected: Outcome, username: str = "", password: str = "") -> list[str]:
    async with server_that_says(replies) as (port, heard):
        backend = SmtpBackend("companion@example.org", SmtpAccount("127.0.0.1", port, "none", username, password))
        if expected is None:
            await backend.send(letter(), parse_email("alice@example.org"))
        else:
            with pytest.raises(expected):
                await backend.send(letter(), parse_email("alice@example.org"))
        return heard


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_REPLY_TIMEOUT", "_QUIT_TIMEOUT"):
        monkeypatch.setattr(backends, name, timedelta(seconds=0.2))


@pytest.mark.parametrize(("replies", "outcome"), STORIES.values(), ids=STORIES)
async def test_a_mail_is_sent_or_not_as_the_server_says(replies: Mapping[str, str], outcome: Outcome) -> None:
    heard = await send(replies, outcome, "companion", "correct horse")
    if outcome is None:
        [content] = [line for line in heard if "Subject:" in line]
        assert "123456" in str(message_from_string(content).get_payload(decode=True))
        assert content.isascii() or "8BITMIME" in {**USUAL, **replies}["EHLO"]


async def test_a_server_that_knows_no_ehlo_needs_no_login() -> None:
    heard = await send({"EHLO": "502 Command not implemented"}, None)
    assert [line.split()[0] for line in heard[:3]] == ["EHLO", "HELO", "MAIL"]
