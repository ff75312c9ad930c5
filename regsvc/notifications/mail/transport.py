"""Delivery of mails: rendered at the last moment, sent, and kept out of every error text with their secrets.

Judgement of a mail server's refusal: it is about our account or the server, this mail now, or its recipient.

Enhanced status codes are those of RFC 3463 and IANA's registry, and Exchange Online's own; words are those of providers
(Gmail, Exchange Online, Amazon SES, SendGrid, Mailgun, Brevo, NetEase, QQ, mail.ru, IONOS, Postfix, Exim with cPanel).
`tests/notifications/test_smtp_replies.py` has their replies.
"""

import asyncio
import logging
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import timedelta
from email.message import EmailMessage
from time import monotonic
from typing import ClassVar, Final, Literal, get_args

from peewee import Database

from regsvc.auth.verification_codes import VerificationCodes
from regsvc.core.email_address import EmailAddress, parse_email
from regsvc.database.engine import catch_up
from regsvc.database.models import OutboxEntry
from regsvc.notifications.delivery import Drop, PermanentFailure, TemporaryFailure, Transport, TransportUnavailable
from regsvc.notifications.mail.queue import AddressMail
from regsvc.notifications.mail.renderer import MailRenderer, RenderedMail, recipient_of
from regsvc.notifications.outbox import RetryPolicy, describe_for_log

Stage = Literal["session", "mail", "recipient"]
"""When the server refused: connecting to logging in, at MAIL FROM, or at RCPT TO or DATA, which name the recipient."""
Verdict = Literal["account", "later", "never"]
"""What it is about: our account or the server, so that every mail would hear it; this mail now; this mail for good."""

_ENHANCED: Final = re.compile(r"(?<![\d.])[45]\.(\d{1,3})\.(\d{1,3})(?!\.?\d)")

_OUR_LIMIT: Final = re.compile(
    r"\b(daily|hourly|monthly|sending|send|sender|submission|outgoing|outbound|relay|relaying)\b"
    r"( \w+){0,4} (limit|quota|rate|frequency)"
    r"|\byou(r \w+)?('ve| have| has)? (exceeded|reached)|throttl|frequency limit|rate ?limit"
    r"|\bper (minute|hour|day)|\b(hour|day) limit|connections? limit|exceeded the max|max(imum)? credits"
    r"|send ?as\b|\bsendas"
)
_OURS: Final = re.compile(
    r"relay|rcpthosts|list of allowed hosts|unauthenticated|authenticat|authori[sz]ed to send|unverified|not verified"
    r"|not (been )?validated|unvalidated|not trusted|not allowed to send|permitted to send|permissions? to send"
    r"|\bsenders?\b|from (address|header|domain)|mail from|outbound|free accounts|sandbox"
    r"|for this account|your (\w+ )?account|account .*sending"
    r"|spamhaus|dnsbl|\brbl\b|(black|block) ?list|blocked using|client host|black ip|reputation"
    r"|\b(your|this|sending) (ip|host|server|network)\b|\b(mi|hl|wm|rp):[a-z]{3}\b|tenant"
)
_SENDER: Final = re.compile(
    r"send ?as\b|\bsendas|\bsenders?\b|from (address|header)|mail from|not owned by|\b5\.7\.60\b|\b[45]\.1\.[78]\b",
    re.IGNORECASE,
)
_MUCH: Final = re.compile(
    r"limit|quota|\brate\b|exceed|too many|throttl|frequen|reputation|(black|block) ?list|spam", re.IGNORECASE
)
_RECIPIENTS: Final = re.compile(
    r"mailbox|over ?quota|receiving|gr[ae]y ?list|addressee"
    r"|\b(users?|recipients?|address(es)?|accounts?)\b.* (unknown|not found|exists?|invalid|inactive|disabled)"
    r"|\b(unknown|no such|invalid|bad|nonexistent|no) (\w+ ){0,2}(user|recipient|address|person|account|domain)"
)
_PERHAPS_OURS: Final = re.compile(r"quota|limit|exceed|too many|too much|frequen|credit")

_OUR_POLICY_DETAILS: Final = frozenset({8, 9, 10, 11, 12, 13, 14, *range(20, 31), 57, 60, 64, *range(500, 800)})
"""X.7.Y: the login, SPF, DKIM, DMARC and reverse DNS of the sender, floods; from 500 on, Exchange's blocked senders."""
_OUR_CODES: Final = frozenset(
    {(1, 7), (1, 8), (1, 90), *((2, detail) for detail in range(251, 256)), (3, 1), (3, 2), (4, 5), (5, 3)}
)
"""Bad sender, sending limits of Exchange; the server is full, closed or congested; too many recipients: we name one."""
_RECIPIENT_CODES: Final = frozenset(
    {
        *((1, detail) for detail in (1, 2, 3, 4, 5, 6, 10)),
        (2, 1),
        (2, 2),
        (2, 3),
        (2, 4),
        (3, 4),
        (4, 1),
        (4, 4),
        (7, 17),
    }
)
"""Address, mailbox or domain; the mail's size. X.4.1 is what Exchange says of an unknown recipient."""


def judge_reply(code: int, text: str, stage: Stage) -> Verdict:
    """Return what a refusal is about.

    A reply that may be about the account as well as about the recipient is "later": repeating it costs little. The text
    at the stage "recipient" may come from the recipient's own server, so that "account" is an allegation there.
    """
    words = " ".join(text.lower().split())
    found = _ENHANCED.search(words)
    status = (int(found[1]), int(found[2])) if found else (0, 0)
    if stage == "session" or code < 200:  # no reply as SMTP has them: the server's fault, and no mail's
        return "account"
    if stage == "mail":  # what may be refused there besides our sender are parameters that this mail needs
        return "later" if code == 555 or status == (3, 4) or status[0] == 6 else "account"
    refused: Verdict = "never" if code >= 500 else "later"
    if _OUR_LIMIT.search(words) and "receiving" not in words:
        return "account"
    if status in _RECIPIENT_CODES or status[0] == 6:
        return refused
    if status in _OUR_CODES or (status[0] == 7 and status[1] in _OUR_POLICY_DETAILS):
        return "later" if "recipient thread" in words else "account"
    if _OURS.search(words):
        return "account"
    if _RECIPIENTS.search(words) or code in (521, 551, 556):
        return refused
    return "account" if code in (421, 432, 454) or _PERHAPS_OURS.search(words) else "later"


def is_about_sender(reply: str) -> bool:
    """Return whether a refusal is about our sender's address, and not about how much it sends or its reputation."""
    return _SENDER.search(reply) is not None and _MUCH.search(reply) is None


def wording_of(reply: str) -> str:
    """Return the reply without what differs from mail to mail: addresses, and words with digits, such as queue ids."""
    return " ".join(re.sub(r"\S*[\d@]\S*", " ", reply.lower()).split())


log = logging.getLogger(__name__)

PROBE_LIMIT: Final = timedelta(seconds=35)
"""How long a mail server may take for a login, and for a mail, of a test: no less than for a mail of a player."""
_SEVERAL: Final = 3
"""Recipients refused alike, in a row, that mean trouble with our account or the server."""
_MAX_WORDINGS: Final = 20
_TO_ADDRESS: Final[tuple[str, ...]] = get_args(AddressMail)
_LOGGED_EVERY: Final = timedelta(hours=1)


def mail_retry_policy(max_attempts: int) -> RetryPolicy:
    """Return a policy from half a minute to four hours: longer than greylisting servers make senders wait.

    Eight attempts take about three hours. An unreachable mail server costs no attempt. What players asked for on a page
    is urgent.
    """
    return RetryPolicy(timedelta(seconds=30), timedelta(hours=4), max_attempts=max_attempts, urgent=_TO_ADDRESS)


def start_code(message: OutboxEntry, codes: VerificationCodes) -> None:
    """Start the lifetime of the code in a mail that was sent, or of one that is not mailed since the address is taken.

    How long a wrong code is counted as an attempt must not tell the one from the other.
    """
    if message.template in _TO_ADDRESS and message.row_id is not None:
        codes.mark_sent(message.row_id)


@dataclass(eq=False)
class MailBackend(ABC):
    """Interface of mail backends. `sender` is their From address, with or without a display name."""

    is_available: ClassVar[bool] = True

    sender: str

    @abstractmethod
    async def send(self, message: EmailMessage, recipient: EmailAddress) -> None:
        """Send the mail; returns once it has been accepted.

        Raises `PermanentFailure`, `TemporaryFailure`, and `TransportUnavailable` where no mail can be sent, to anybody.
        Their text is the server's reply, which may quote the mail.
        """

    async def find_problem(self, limit: timedelta) -> str | None:
        """Return why no mail can be sent now and what to do, or None. Sends nothing; takes `limit` at most."""
        return None


class MailTransport(Transport):
    """Transport that sends mails through the configured backend.

    Where e-mail is disabled, mails enqueued earlier are dropped.
    """

    noun: ClassVar[str] = "mail"

    def __init__(self, database: Database, renderer: MailRenderer, backend: MailBackend) -> None:
        self._database = database
        self._renderer = renderer
        self._backend = backend
        self._refused: dict[str, set[str]] = {}  # the wording of refusals since the last mail was sent; recipients
        self._outage = ""  # the wording of the outage under way
        self._logged: dict[str, float] = {}

    def prepare(self, message: OutboxEntry) -> RenderedMail:
        """Return the mail as it will be sent. Raises `Drop` if there is no point in it any more.

        On a cluster of databases that is decided only by a node that has applied everything: the row that a mail is
        about may arrive after the mail.
        """
        if not self._backend.is_available:
            raise Drop("e-mail is disabled")
        try:
            return self._renderer.render(message)
        except Drop:
            if not catch_up(self._database):
                raise
        return self._renderer.render(message)

    async def send(self, message: OutboxEntry, prepared: RenderedMail) -> None:
        try:
            await self._backend.send(prepared.message, recipient_of(message))
        except PermanentFailure as error:
            raise PermanentFailure(prepared.censor(str(error))) from error
        except TemporaryFailure as error:  # or `TransportUnavailable`
            raise self._weigh(message, error, prepared.censor(str(error))) from error
        self._refused.clear()
        self._outage = ""

    def _weigh(self, message: OutboxEntry, error: TemporaryFailure, reason: str) -> TemporaryFailure:
        """Return what a failure means. Several recipients who are refused alike, in a row, mean our account."""
        wording = wording_of(reason)
        if isinstance(error, TransportUnavailable) and not error.is_alleged:
            if self._outage not in ("", wording):  # the first reason is logged by the delivery worker
                self._log_refusal(wording, reason)
            self._outage = wording
            return TransportUnavailable(reason, error.retry_after)
        self._outage = ""
        self._log_refusal(wording, describe_for_log(message, reason))
        if len(self._refused) >= _MAX_WORDINGS:
            self._refused.clear()
        recipients = self._refused.setdefault(wording, set())
        if len(recipients) < _SEVERAL:
            recipients.add(message.recipient_key)
        if isinstance(error, TransportUnavailable) or len(recipients) >= _SEVERAL:
            return TransportUnavailable(reason, error.retry_after, is_alleged=True)
        return TemporaryFailure(reason, error.retry_after)

    def _log_refusal(self, wording: str, reason: str) -> None:
        """Log a reply once in a while, and not too many: the recipients' servers may have written them."""
        now = monotonic()
        self._logged = {known: at for known, at in self._logged.items() if now - at < _LOGGED_EVERY.total_seconds()}
        if wording not in self._logged and len(self._logged) < _MAX_WORDINGS:
            self._logged[wording] = now
            log.warning("a mail was not accepted, and is tried again later: %s", reason)


async def send_test_mail(backend: MailBackend, renderer: MailRenderer, address: str, language: str) -> str | None:
    """Send a mail without the outbox. Returns why it failed, or None. Raises `InvalidEmail`."""
    recipient = parse_email(address)
    if problem := await backend.find_problem(PROBE_LIMIT):
        return problem
    message = renderer.compose("mail_test", recipient, language, {})
    try:
        async with asyncio.timeout(PROBE_LIMIT.total_seconds()):
            await backend.send(message, recipient)
    except TimeoutError:
        return "the mail server can be reached, but takes too long to accept a mail"
    except (PermanentFailure, TemporaryFailure) as error:
        return str(error)
    return None
