"""What replies of mail servers are about, in the words of real providers."""

import pytest

from regsvc.notifications.mail.transport import Stage, Verdict, judge_reply, wording_of

ABOUT_US = """
550 5.4.5 Daily user sending limit exceeded. For more information on Gmail sending limits go to Google. o6sm71 - gsmtp
550 5.4.5 Daily SMTP relay sending limit exceeded for customer.
450 4.2.1 Peak SMTP relay limit exceeded for customer. This is a temporary error.
421 4.7.0 Try again later, closing connection.
421 4.7.0 Our system has detected an unusual rate of unsolicited mail originating from your IP address.
421 4.4.5 Server busy, try again later.
452 4.5.3 Your message has too many recipients. For more information regarding Google's sending limits, see
454 4.7.0 Too many login attempts, please try again later.
550 5.7.26 This message does not have authentication information or fails to pass authentication checks (SPF or DKIM).
550-5.7.1 [198.51.100.7] Our system has detected that this message is suspicious due to the very low reputation
432 4.3.2 Concurrent connections limit exceeded. Visit https://aka.ms/concurrent_sending for more information.
554 5.2.0 STOREDRV.Submission.Exception:SendAsDeniedException.MapiExceptionSendAsDenied; Failed to process message
554 5.2.252 SendAsDenied; noreply@example.org not allowed to send as other@example.org
550 5.2.251 Sender throttled due to continuous mailbox full errors.
550 5.7.60 SMTP; Client does not have permissions to send as this sender
550 5.1.8 Access denied, bad outbound sender AS(42004)
550 5.7.501 Access denied, spam abuse detected.
550 5.7.705 Access denied, tenant has exceeded threshold.
550 5.7.708 Access denied, traffic not accepted from this IP.
550 5.1.90 Your message can't be sent because you've reached your daily limit for message recipients
454 Throttling failure: Maximum sending rate exceeded.
454 Throttling failure: Daily message quota exceeded.
554 Message rejected: Email address is not verified. The following identities failed the check: a@b.c
554 Message rejected: Sending suspended for this account. For more information, please check the inbox
451 Authentication failed: Maximum credits exceeded
452 Too many recipients received this hour (throttled)
550 Unauthenticated senders not allowed
550 The from address does not match a verified Sender Identity.
550 5.7.1 Domain mg.example.org is not allowed to send: The domain is unverified and requires DNS configuration.
553 5.7.1 <noreply@example.org>: Sender address rejected: not owned by user other@example.org
450 4.1.8 <noreply@example.org>: Sender address rejected: Domain not found
554 5.7.1 <alice@example.org>: Relay access denied
550 Relay access denied - please authenticate
553 sorry, that domain isn't in my list of allowed rcpthosts (#5.7.1)
554 5.7.1 Service unavailable; Client host [198.51.100.7] blocked using zen.spamhaus.org
554 5.7.1 <alice@example.org>: Recipient address rejected: You have exceeded your Outmail quota.
550 Domain example.org has exceeded the max emails per hour (250/200 (125%)) allowed. Message discarded.
550 Domain example.org has exceeded the max defers and failures per hour (5/5 (38%)) allowed. Message discarded.
550 send spam mail rejected: exceeded hour limit
554 sorry, too many emails (#5.7.1)
450 4.7.1 <alice@example.org>: Recipient address rejected: Policy Rejection- Quota Exceeded.
450 ratelimit exceeded
501 from domain not trusted
550 5.7.0 Number of messages per hour exceeded
550 message sending for this account is disabled
550 Sender frequency limited. http://service.exmail.qq.com/cgi-bin/help?subtype=1
550 Domain frequency limited
550 Suspected spam sender.
451 MI:SFQ 163 smtp11,D8CowABnb1,2 1519 http://mail.163.com/help/help_spam_16.htm
421 HL:IFC 163 mx8,PMCowAA3A
554 sender is unvalidated
421 Rate limit reached. Please try again later
452 4.3.1 Insufficient system storage
"""

ABOUT_THE_RECIPIENT = """
550 5.1.1 The email account that you tried to reach does not exist. Please try double-checking the recipient's address
550 5.1.1 <bob@example.org>: Recipient address rejected: User unknown in virtual mailbox table
550 5.2.1 The email account that you tried to reach is disabled.
552 5.2.2 The email account that you tried to reach is over quota and inactive.
554 5.2.2 mailbox full
550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient bob@example.org not found by SMTP address lookup
550 5.4.1 Recipient address rejected: Access denied. AS(201806281)
550 5.1.2 Bad destination host
550 5.1.3 The recipient address <bob@example> is not a valid RFC-5321 address.
550 Requested action not taken: mailbox unavailable
550 Mailbox not found. http://service.exmail.qq.com/cgi-bin/help?subtype=1
550 No such user here
550 User not found
550 Unrouteable address: no such domain
552 Mailbox quota exceeded
552 5.3.4 Message size exceeds fixed limit
550 5.6.7 Non-ASCII addresses not permitted
556 Domain does not accept mail
551 User not local
"""

LATER = """
452 4.2.2 The email account that you tried to reach is over quota.
450 4.2.1 The user you are trying to contact is receiving mail too quickly. Please resend your message at a later time.
450 4.2.1 The user you are trying to contact is receiving mail at a rate that prevents additional messages
432 4.3.2 STOREDRV.Deliver; recipient thread limit exceeded
450 4.2.0 Recipient address rejected: Greylisted
451 4.7.1 Greylisting in action, please come back later
450 4.1.1 <bob@example.org>: Recipient address rejected: unverified address: connect: Connection refused
451 4.3.0 Mail server temporarily rejected message.
451 Requested action aborted: local error in processing
450 Reject due to policy violations
451 DT:SPM ,please try again
554 DT:SPM 163 smtp3,EdGowAB
550 Mail content denied. http://service.exmail.qq.com/cgi-bin/help?subtype=1
550 5.1.0 piWs1j0010jifNx01iWsdh policy violation
554 5.7.1 Message rejected as spam by Content Filtering.
554 Transaction failed
550 5.0.0 Rejected
"""


def replies(text: str, verdict: Verdict) -> list[tuple[str, Verdict]]:
    return [(line, verdict) for line in text.strip().splitlines()]


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [*replies(ABOUT_US, "account"), *replies(ABOUT_THE_RECIPIENT, "never"), *replies(LATER, "later")],
)
def test_each_reply_is_about_one_of_three_things(reply: str, verdict: Verdict) -> None:
    assert judge_reply(int(reply[:3]), reply[4:], "recipient") == verdict


@pytest.mark.parametrize(
    ("stage", "reply", "verdict"),
    [
        ("session", "454 4.7.0 Temporary authentication failure", "account"),
        ("session", "535 5.7.8 Username and Password not accepted", "account"),
        ("session", "550 5.1.1 User unknown", "account"),
        ("mail", "550 5.1.1 User unknown", "account"),
        ("mail", "552 5.2.2 Mailbox full", "account"),
        ("mail", "530 5.7.57 Client not authenticated to send mail", "account"),
        ("mail", "550 5.6.7 Non-ASCII addresses not permitted", "later"),
        ("mail", "555 5.5.4 Unsupported option: SMTPUTF8", "later"),
    ],
)
def test_nothing_said_before_the_recipient_is_about_the_recipient(stage: Stage, reply: str, verdict: Verdict) -> None:
    assert judge_reply(int(reply[:3]), reply[4:], stage) == verdict


def test_an_address_of_a_client_is_no_status_code() -> None:
    assert judge_reply(550, "Unknown user, seen from 5.1.8.1", "recipient") == "never"


def test_the_same_words_are_recognised_in_different_mails() -> None:
    first, second = (
        wording_of(f"550 5.4.5 Daily limit <{name}@example.org> {queue_id} - gsmtp")
        for name, queue_id in (("alice", "o65sm25351206pga.71"), ("bob", "x1-20020a"))
    )
    assert first == second == "daily limit - gsmtp"
