"""Checks of the mail settings. Delivery itself can be tested with `companion mail-test ADDRESS`."""

from collections.abc import Iterator
from typing import Final

from regsvc.doctor.facts.facts import Facts, FixLocation, Source
from regsvc.doctor.finding import Check, Severity, check

_SMTP: Final = FixLocation(Source.OURS, '[mail] backend = "smtp", host, username, password_file, sender')
_SET_UP: Final = (
    "Configure a mail server and an account, or a service (mail.http_provider) where SMTP is blocked; then test it "
    "with: companion mail-test ADDRESS"
)


@check(
    "mail.off",
    Severity.BROKEN,
    means="Registration is open, but mail is off.",
    why="Users cannot register, because verification codes are sent by mail.",
    do=_SET_UP,
    where=_SMTP,
)
def registration_needs_mail(facts: Facts) -> Iterator[str]:
    if facts.config.registration.open and not facts.sends_mail:
        yield _mail_off_reason(facts)


@check(
    "mail.no_links",
    Severity.RISKY,
    means="Registration is closed, and mail is off.",
    why="Users cannot reset forgotten passwords, and are not notified of bans and approvals.",
    do=_SET_UP,
    where=_SMTP,
)
def password_links_need_mail(facts: Facts) -> Iterator[str]:
    if not facts.config.registration.open and not facts.sends_mail:
        yield _mail_off_reason(facts)


@check(
    "mail.folder",
    Severity.RISKY,
    means="Mails are written to files (mail.backend is folder).",
    why="Players receive them only if another program sends these files.",
    do=_SET_UP,
    where=_SMTP,
)
def mails_go_to_files(facts: Facts) -> Iterator[str]:
    if facts.config.mail.backend == "folder":
        yield f"Mails are written to {facts.config.mail.folder}."


@check(
    "mail.unusable",
    Severity.BROKEN,
    means="The mail server or service cannot be reached, fails to encrypt, or refuses our login. No mail is sent to "
    "find out.",
    why="No code, link or notification is sent until this is fixed; what is waiting then follows.",
    do="Follow the instruction in the finding, then test it with: companion mail-test ADDRESS",
    where=_SMTP,
)
def server_is_unusable(facts: Facts) -> Iterator[str]:
    if facts.mail_problem is not None:
        yield f"No mail can be sent: {facts.mail_problem}."


CHECKS: Final[tuple[Check, ...]] = (
    *(registration_needs_mail, password_links_need_mail, mails_go_to_files, server_is_unusable),
)


def _mail_off_reason(facts: Facts) -> str:
    if facts.config.mail.backend == "off":
        return 'mail.backend is "off".'
    return 'mail.backend is "auto", and AuthMe has no mail account of its own (Email.mailAccount, Email.mailPassword).'
