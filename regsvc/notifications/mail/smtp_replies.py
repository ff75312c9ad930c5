"""Judgement of a mail server's refusal: it is about our account or the server, this mail now, or its recipient.

Enhanced status codes are those of RFC 3463 and IANA's registry, and Exchange Online's own; words are those of providers
(Gmail, Exchange Online, Amazon SES, SendGrid, Mailgun, Brevo, NetEase, QQ, mail.ru, IONOS, Postfix, Exim with cPanel).
`tests/notifications/test_smtp_replies.py` has their replies.
"""

import re
from typing import Final, Literal

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
    if stage == "session":
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


def wording_of(reply: str) -> str:
    """Return the reply without what differs from mail to mail: addresses, and words with digits, such as queue ids."""
    return " ".join(re.sub(r"\S*[\d@]\S*", " ", reply.lower()).split())
