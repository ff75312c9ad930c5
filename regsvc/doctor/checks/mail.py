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
    registration = facts.config.registration
    if registration.open and registration.requires_code and not facts.sends_mail:
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
    registration = facts.config.registration
    if not registration.open and registration.requires_code and not facts.sends_mail:
        yield _mail_off_reason(facts)


@check(
    "mail.unproven",
    Severity.RISKY,
    means="Registrations require a captcha only, no code by e-mail (registration.methods).",
    why="E-mail addresses are unproven, so players are mailed nothing: they look up decisions on /account, and a "
    "forgotten password needs an operator. A person can register as many names as registration.limits_per_client "
    "allows for each of their addresses, and can come back after a rejection or a ban under another name.",
    do="If this host can send mail, configure a mail server and change registration.methods. Otherwise leave "
    "registration.approval on, ask questions or require a chat account, and hand over links to set a password: on the "
    "page of the user in /admin, or with: companion users password NAME --link",
    where=FixLocation(Source.OURS, '[registration] methods = ["email"]'),
)
def addresses_are_unproven(facts: Facts) -> Iterator[str]:
    registration = facts.config.registration
    if not registration.requires_code:
        review = "" if registration.approval else ", and nobody reviews them (registration.approval is false)"
        yield f"Registrations require no code by e-mail{review}."


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
    *(registration_needs_mail, password_links_need_mail, addresses_are_unproven, mails_go_to_files, server_is_unusable),
)


def _mail_off_reason(facts: Facts) -> str:
    if facts.config.mail.backend == "off":
        return 'mail.backend is "off".'
    return 'mail.backend is "auto", and AuthMe has no mail account of its own (Email.mailAccount, Email.mailPassword).'
