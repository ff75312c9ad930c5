"""What mail servers say: of any bytes a sentence, and never an internal error or a lost attempt; and what to do."""

import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from regsvc.config.host_sections import MailSection
from regsvc.notifications.delivery import PermanentFailure, TemporaryFailure, TransportUnavailable
from regsvc.notifications.mail.backends import _REPLY_TIMEOUT, SmtpAccount, SmtpBackend, make_mail_backend
from regsvc.notifications.mail.transport import PROBE_LIMIT
from tests.notifications.test_mail_backends import ALICE, letter
from tests.notifications.test_odd_mail_servers import server_that_says
from tests.support.foreign_text import HOSTILE, require_line

STAGES = ["greeting", "EHLO", "AUTH", "MAIL", "RCPT", "DATA", "."]
CODES = {"greeting": 554, "AUTH": 535}


@asynccontextmanager
async def saying(replies: Mapping[str, str]) -> AsyncIterator[tuple[SmtpBackend, list[str]]]:
    """Yield a backend with a login for a server with these replies, and the lines that the server hears."""
    async with server_that_says(replies) as (port, heard):
        account = SmtpAccount("127.0.0.1", port, "none", "companion", "secret")
        yield SmtpBackend("companion@example.org", account), heard


def refusal(stage: str, reply: str) -> dict[str, str]:
    return {stage: reply} | ({"HELO": reply} if stage == "EHLO" else {})


@pytest.mark.parametrize("stage", STAGES)
async def test_a_refusal_of_any_bytes_is_a_sentence(stage: str) -> None:
    code = CODES.get(stage, 550)
    for name, raw in HOSTILE.items():
        words = raw.decode("latin-1")
        for reply in (f"{code} Error: {words}", f"{code}-{words}\n{code} {words}"):
            async with saying(refusal(stage, reply)) as (backend, _heard):
                with pytest.raises((PermanentFailure, TemporaryFailure)) as failure:
                    await backend.send(letter(), ALICE)
                require_line(str(failure.value), 1000)
                # what is refused before a mail is named costs no mail an attempt
                is_session = stage in ("greeting", "EHLO", "AUTH", "MAIL")
                assert not is_session or isinstance(failure.value, TransportUnavailable), name
                problem = await backend.find_problem(timedelta(seconds=5))
                assert (problem is not None) == (stage in ("greeting", "EHLO", "AUTH")), name
                require_line(problem or "", 1000)


async def test_a_challenge_that_is_no_base64_is_a_sentence() -> None:
    replies = {"EHLO": "250-mail.test\n250 AUTH CRAM-MD5", "AUTH": "334 \xff!"}
    async with saying(replies) as (backend, _heard):
        with pytest.raises(TransportUnavailable) as failure:
            await backend.send(letter(), ALICE)
        require_line(str(failure.value))


OUR_NAME = "Error: need fully-qualified hostname"
ADVICE = [
    ("EHLO", f"504 5.5.2 <localhost.localdomain>: {OUR_NAME}", "set server.base_url, whose host is that name"),
    ("EHLO", f"550 5.7.1 {OUR_NAME}", "set server.base_url, whose host is that name"),
    ("AUTH", "535 5.7.139 Authentication unsuccessful, basic authentication is disabled.", "app passwords included"),
    ("AUTH", "550 5.7.30 Basic authentication is not supported for Client Submission.", "app passwords included"),
    (
        "AUTH",
        "535 5.7.139 Authentication unsuccessful, SmtpClientAuthentication is disabled for the Tenant.",
        "enable Authenticated SMTP",
    ),
    ("AUTH", "534 5.7.9 Application-specific password required.", "a password made for this program (app password)"),
    ("MAIL", "421 4.7.0 Try again later, closing connection.", "takes no mail at the moment"),
    ("MAIL", "452 4.3.1 Insufficient system storage", "takes no mail at the moment"),
    ("MAIL", "450 4.1.8 <a@b.org>: Sender address rejected: Domain not found", "set mail.sender"),
    ("MAIL", "553 5.7.1 <a@b.org>: Sender address rejected: not owned by user companion", "set mail.sender"),
    (
        ".",
        "554 5.2.252 SendAsDenied; companion@example.org not allowed to send as noreply@example.org",
        "set mail.sender",
    ),
    (".", "550 5.7.60 SMTP; Client does not have permissions to send as this sender", "set mail.sender"),
    ("RCPT", "550 5.7.1 Sender rate limit exceeded", "refuses us"),
]


@pytest.mark.parametrize(("stage", "reply", "advice"), ADVICE)
async def test_a_refusal_tells_what_to_do(stage: str, reply: str, advice: str) -> None:
    async with saying(refusal(stage, reply)) as (backend, _heard):
        with pytest.raises(TransportUnavailable) as failure:
            await backend.send(letter(), ALICE)
    assert advice in str(failure.value)
    assert ("mail.sender" in str(failure.value)) == (advice == "set mail.sender")
    assert reply.split(" ", 1)[1] in str(failure.value)


async def test_a_server_that_takes_no_passwords() -> None:
    async with saying({"EHLO": "250-mail.test\n250 AUTH XOAUTH2 OAUTHBEARER"}) as (backend, _heard):
        problem = await backend.find_problem(timedelta(seconds=5))
    assert problem is not None
    assert "takes no passwords, only other logins such as OAuth (XOAUTH2): use an account of another" in problem


@pytest.mark.parametrize(
    ("base_url", "machine", "name"),
    [
        ("https://play.example.org/path", "localhost.localdomain", "play.example.org"),
        ("https://play.example.org", "mail.example.net", "play.example.org"),
        ("", "mail.example.net", "mail.example.net"),
        ("https://203.0.113.7:8443", "vps-17.example.net", "vps-17.example.net"),
        ("http://localhost:8080", "localhost.localdomain", "[127.0.0.1]"),
        ("http://[::1]:8080", "box.lan", "[127.0.0.1]"),
        ("", "game_server.example.net", "[127.0.0.1]"),
        ("", "craft", "[127.0.0.1]"),
        ("", "wörld.example.net", "[127.0.0.1]"),
        ("", "127.0.0.1", "[127.0.0.1]"),
    ],
)
async def test_the_name_by_which_servers_are_greeted(
    monkeypatch: pytest.MonkeyPatch, base_url: str, machine: str, name: str
) -> None:
    """Servers refuse what is no full name, and some the address of the machine in place of ours."""
    monkeypatch.setattr(socket, "gethostname", lambda: machine)
    async with saying({}) as (backend, heard):
        port = backend.account.port
        made = make_mail_backend(
            MailSection(backend="smtp", host="127.0.0.1", port=port, security="none"), None, base_url
        )
        await made.send(letter(), ALICE)
    assert heard[0] == f"EHLO {name}"


def test_the_doctor_waits_as_long_as_a_mail_does() -> None:
    """Servers that delay their greeting, against spam, take mails all the same."""
    assert PROBE_LIMIT * 0.9 > _REPLY_TIMEOUT
