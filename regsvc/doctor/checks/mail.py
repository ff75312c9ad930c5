"""Whether mails leave the house. Whether they arrive, `companion mail-test ADDRESS` tells."""

from collections.abc import Iterator
from typing import Final

from regsvc.doctor.facts.facts import Facts, FixLocation, Source
from regsvc.doctor.finding import Check, Severity, check

_SMTP: Final = FixLocation(Source.OURS, '[mail] backend = "smtp", host, username, password_file, sender')
_SET_UP: Final = "Name a mail server and an account there; then try it with: companion mail-test ADDRESS"


@check(
    "mail.off",
    Severity.BROKEN,
    means="Registration is open, and no mail is sent.",
    why="Nobody can register: the code that proves an address is sent by mail.",
    do=_SET_UP,
    where=_SMTP,
)
def registration_needs_mail(facts: Facts) -> Iterator[str]:
    if facts.config.registration.open and not facts.sends_mail:
        yield _mail_off_reason(facts)


@check(
    "mail.no_links",
    Severity.RISKY,
    means="Registration is closed, and no mail is sent.",
    why="Who forgets a password can get no link for another, and nobody is told of a ban or an approval.",
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
    why="Players get none, unless another program sends what lies there.",
    do=_SET_UP,
    where=_SMTP,
)
def mails_go_to_files(facts: Facts) -> Iterator[str]:
    if facts.config.mail.backend == "folder":
        yield f"Mails are written to {facts.config.mail.folder}."


CHECKS: Final[tuple[Check, ...]] = (registration_needs_mail, password_links_need_mail, mails_go_to_files)


def _mail_off_reason(facts: Facts) -> str:
    if facts.config.mail.backend == "off":
        return 'mail.backend is "off".'
    return 'mail.backend is "auto", and AuthMe has no mail account of its own (Email.mailAccount, Email.mailPassword).'
