"""People who register, and the mail server that they read their codes from, in a process of its own.

`python -m tests.bench.registrants PORT SMTP_PORT FIRST COUNT CLIENTS` prints the seconds it took.
"""

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from email.parser import BytesParser
from email.policy import default as modern_policy

from aiosmtpd.smtp import SMTP, Envelope, Session

from tests.bench.posts import Client
from tests.support.daemon import HOST
from tests.support.stack import find_code

TIMEOUT = 60.0  # seconds to wait for a mail


class Mailboxes:
    """The mail server's handler: gives the text of the first mail to each person who waits for it."""

    def __init__(self) -> None:
        self._expected: dict[str, asyncio.Future[str]] = {}
        self.receipts = asyncio.Semaphore(0)

    def expect(self, address: str) -> "asyncio.Future[str]":
        return self._expected.setdefault(address, asyncio.get_running_loop().create_future())

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        """Accept one mail: aiosmtpd's hook."""
        assert isinstance(envelope.content, bytes)
        text = BytesParser(policy=modern_policy).parsebytes(envelope.content).get_body(("plain",))
        assert text is not None
        for address in envelope.rcpt_tos:
            if self.expect(address).done():
                self.receipts.release()
            else:
                self.expect(address).set_result(str(text.get_content()))
        return "250 OK"


async def register_each(port: int, numbers: Iterator[int], mailboxes: Mailboxes) -> None:
    """Register one person after the other on one connection."""
    client = await Client.connect(port)
    for number in numbers:
        address = f"person{number}@example.org"
        text = mailboxes.expect(address)
        await client.post("/api/verify/send", {"email": address})
        code = find_code(await asyncio.wait_for(text, TIMEOUT))
        body = {"username": f"Person_{number}", "email": address, "password": f"secret-of-{number}", "code": code}
        await client.post("/api/register", body)
    client.close()


async def main(port: int, smtp_port: int, first: int, count: int, clients: int) -> float:
    mailboxes = Mailboxes()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: SMTP(mailboxes, hostname="mail.test", enable_SMTPUTF8=True, loop=loop), HOST, smtp_port
    )
    numbers = iter(range(first, first + count))
    began = time.perf_counter()
    await asyncio.gather(*(register_each(port, numbers, mailboxes) for _client in range(clients)))
    elapsed = time.perf_counter() - began
    async with asyncio.timeout(TIMEOUT):
        for _person in range(count):
            await mailboxes.receipts.acquire()
    await asyncio.sleep(0.5)  # while senders say goodbye
    server.close()
    return elapsed


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*map(int, sys.argv[1:6])))))
