"""A real mail server on loopback that keeps the mails it receives and can be made to fail."""

import asyncio
import re
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email import message_from_bytes
from email.header import decode_header, make_header
from email.message import EmailMessage, Message
from email.parser import BytesParser
from email.policy import default as modern_policy
from functools import cached_property
from typing import Literal

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from tests.support.ports import free_port

HOST = "127.0.0.1"
WAIT = 60.0  # seconds a test waits for a mail before it fails

ACCEPTED = "250 OK"
REFUSED = "550 5.1.1 No such mailbox"
POSTPONED = "451 4.3.0 Try again later"

Stage = Literal["EHLO", "MAIL", "RCPT", "DATA"]
HANG_UP = ""
"""Instead of a reply: the connection ends."""


@dataclass(frozen=True)
class Letter:
    """One accepted mail: the envelope and the message.

    Each is looked at by few tests, and again and again by one that waits: parsed and decoded when needed, once, and no
    more of it than is asked for: to parse a whole mail takes longer than to deliver it.
    """

    sender: str
    recipients: tuple[str, ...]
    content: bytes
    login: str | None  # the account that sent it, None without AUTH
    is_encrypted: bool

    @cached_property
    def message(self) -> EmailMessage:
        return BytesParser(policy=modern_policy).parsebytes(self.content)

    @cached_property
    def subject(self) -> str:
        """Empty if the mail has none."""
        found = _SUBJECT.search(self.content.partition(b"\r\n\r\n")[0].decode("utf-8", "surrogateescape"))
        return "" if found is None else str(make_header(decode_header(re.sub("[\r\n]", "", found[1]))))

    @cached_property
    def text(self) -> str:
        """The plain-text part; AssertionError if the mail has none."""
        part = next((part for part in self._parts() if part.get_content_type() == "text/plain"), None)
        assert part is not None, "a mail without a plain-text part"
        payload = part.get_payload(decode=True)
        assert isinstance(payload, bytes)
        return payload.decode(part.get_content_charset("ascii")).replace("\r\n", "\n")

    def _parts(self) -> "Iterator[Message]":
        """Yield the first of several parts, which in our mails is the text; then every part there is."""
        headers, _end, body = self.content.partition(b"\r\n\r\n")
        if boundary := _BOUNDARY.search(headers):
            first = body.split(b"--" + boundary[1], 2)[1]
            yield message_from_bytes(first.removeprefix(b"\r\n").removesuffix(b"\r\n"))
        yield from message_from_bytes(self.content).walk()

    @property
    def html(self) -> str | None:
        """The HTML part, or None."""
        part = self.message.get_body(("html",))
        return None if part is None else str(part.get_content())

    @property
    def is_receipt(self) -> bool:
        """Whether it is the receipt of a registration, and not another mail with the link of an application."""
        return _RECEIPT.search(self.subject) is not None and "/application#token=" in self.text


_SUBJECT = re.compile(r"^Subject:[ \t]*(.*(?:\n[ \t].*)*)", re.MULTILINE | re.IGNORECASE)
_BOUNDARY = re.compile(rb'boundary="([^"]+)"')
_RECEIPT = re.compile("received|eingegangen|bien reçu|已收到")
"""In the subject, in each language."""


class MailServer:
    """Runs on a loop in its own thread. `start` and `stop` may alternate; port and letters stay.

    Receipts of registrations are kept apart from other letters: one is only sent if the decision does not come first.

    `tls` makes it offer STARTTLS; `account` (name, password) then makes it ask for a login as well.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, account: tuple[str, str] | None = None) -> None:
        self.host = HOST
        self.port = free_port()
        self.letters: list[Letter] = []
        self.receipts: list[Letter] = []
        self.refused: Counter[str] = Counter()  # recipient → how often it was turned away
        self._tls = tls
        self._account = account
        self._replies: dict[str, tuple[str, float]] = {}  # recipient → reply, how many times yet
        self._replies_to_all: dict[Stage, str] = {}
        self._arrived = threading.Condition()
        self._is_open = threading.Event()
        self._is_open.set()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None

    def start(self) -> None:
        """Returns once the port is open."""
        is_listening = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(is_listening)), daemon=True)
        self._thread.start()
        if not is_listening.wait(WAIT):
            raise RuntimeError(f"no mail server on port {self.port}")

    def stop(self) -> None:
        """Closes the port and cuts the open connections, as an outage does; harmless when not running."""
        self.release()
        if self._thread is not None and self._loop is not None and self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(WAIT)
            self._thread = None

    def refuse(self, recipient: str) -> None:
        """Rejects mails to this address from now on: no such mailbox."""
        self._replies[recipient] = (REFUSED, float("inf"))

    def postpone(self, recipient: str, times: float = float("inf")) -> None:
        """Replies "later" to the next `times` attempts."""
        self._replies[recipient] = (POSTPONED, times)

    def accept(self, recipient: str) -> None:
        """Undoes `refuse`, `postpone` and `answer`."""
        self._replies.pop(recipient, None)

    def answer(self, recipient: str, reply: str) -> None:
        """Gives this reply to mails to this address from now on."""
        self._replies[recipient] = (reply, float("inf"))

    def answer_all(self, stage: Stage, reply: str | None) -> None:
        """Gives every client this reply at this stage from now on; None: no longer."""
        self._replies_to_all.pop(stage, None)
        if reply is not None:
            self._replies_to_all[stage] = reply

    def hold(self) -> None:
        """Makes senders wait for the reply to their mail until `release`."""
        self._is_open.clear()

    def release(self) -> None:
        self._is_open.set()

    def letters_to(self, recipient: str) -> list[Letter]:
        """Everything accepted for this address so far, oldest first."""
        return [letter for letter in self.letters if recipient in letter.recipients]

    def wait_for(
        self,
        recipient: str,
        count: int = 1,
        timeout: float = WAIT,
        *,
        counts: Callable[[Letter], bool] = lambda _: True,
    ) -> Letter:
        """The `count`th letter to this address; AssertionError if it has not arrived after `timeout` seconds.

        `counts` tells which letters are looked at; the others are passed over.
        """

        def looked_at() -> list[Letter]:
            return [letter for letter in self.letters_to(recipient) if counts(letter)]

        with self._arrived:
            has_come = self._arrived.wait_for(lambda: len(looked_at()) >= count, timeout)
        assert has_come, f"{len(looked_at())} of {count} mails to {recipient} came"
        return looked_at()[count - 1]

    def wait_for_receipt(self, recipient: str, timeout: float = WAIT) -> Letter:
        """The receipt sent to this address; AssertionError if it has not arrived after `timeout` seconds."""

        def receipts() -> list[Letter]:
            return [letter for letter in self.receipts if recipient in letter.recipients]

        with self._arrived:
            assert self._arrived.wait_for(lambda: bool(receipts()), timeout), f"no receipt came to {recipient}"
        return receipts()[0]

    def wait_for_refusal(self, recipient: str, count: int = 1, timeout: float = WAIT) -> None:
        """Waits until this address was rejected `count` times; AssertionError after `timeout` seconds."""
        with self._arrived:
            has_come = self._arrived.wait_for(lambda: self.refused[recipient] >= count, timeout)
        assert has_come, f"{self.refused[recipient]} of {count} mails to {recipient} were turned away"

    async def _serve(self, is_listening: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        conversations: list[SMTP] = []

        def converse() -> SMTP:
            conversations.append(self._conversation())
            return conversations[-1]

        server = await self._loop.create_server(converse, self.host, self.port)
        is_listening.set()
        await self._stopping.wait()
        server.close()
        for conversation in conversations:
            if conversation.transport is not None:
                conversation.transport.close()
        await server.wait_closed()

    def _conversation(self) -> SMTP:
        return SMTP(
            self,
            hostname="mail.test",
            enable_SMTPUTF8=True,
            tls_context=self._tls,
            require_starttls=self._tls is not None,
            auth_required=self._account is not None,
            authenticator=self._authenticate if self._account else None,
            loop=self._loop,
        )

    def _authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: object
    ) -> AuthResult:
        is_known = isinstance(data, LoginPassword) and self._account == (
            data.login.decode(),
            data.password.decode(),
        )
        return AuthResult(success=is_known, handled=False, auth_data=data)

    async def handle_EHLO(
        self, server: SMTP, session: Session, envelope: Envelope, hostname: str, responses: list[str]
    ) -> list[str]:
        """aiosmtpd's hook: the greeting."""
        session.host_name = hostname
        return [self._replies_to_all["EHLO"]] if "EHLO" in self._replies_to_all else responses

    async def handle_MAIL(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """aiosmtpd's hook: the sender."""
        if reply := self._replies_to_all.get("MAIL"):
            return reply
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return ACCEPTED

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """aiosmtpd's hook: one recipient."""
        reply, times = self._replies.get(address, (self._replies_to_all.get("RCPT", ACCEPTED), float("inf")))
        if reply == ACCEPTED:
            envelope.rcpt_tos.append(address)
            return ACCEPTED
        if times <= 1:
            del self._replies[address]
        elif address in self._replies:
            self._replies[address] = (reply, times - 1)
        with self._arrived:
            self.refused[address] += 1
            self._arrived.notify_all()
        return reply

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        """aiosmtpd's hook: one mail."""
        if not self._is_open.is_set():
            await asyncio.to_thread(self._is_open.wait)
        reply = self._replies_to_all.get("DATA")
        if reply == HANG_UP and isinstance(server.transport, asyncio.Transport):
            server.transport.abort()
        if reply is not None:
            return reply
        assert isinstance(envelope.content, bytes)
        auth_data = session.auth_data
        letter = Letter(
            sender=envelope.mail_from or "",
            recipients=tuple(envelope.rcpt_tos),
            content=envelope.content,
            login=auth_data.login.decode() if isinstance(auth_data, LoginPassword) else None,
            is_encrypted=session.ssl is not None,
        )
        with self._arrived:
            (self.receipts if letter.is_receipt else self.letters).append(letter)
            self._arrived.notify_all()
        return ACCEPTED
