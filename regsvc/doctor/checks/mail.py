"""Checks of the mail settings. Delivery itself can be tested with `companion mail-test ADDRESS`."""

import math
from collections.abc import Iterator
from typing import Final

from regsvc.core.i18n.sentences import Sentence
from regsvc.core.units import RateLimit
from regsvc.doctor.facts.facts import Facts, FixLocation, Source
from regsvc.doctor.finding import Check, Severity, check
from regsvc.notifications.mail.queue import Budget, total_of

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
def registration_needs_mail(facts: Facts) -> Iterator[Sentence]:
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
def password_links_need_mail(facts: Facts) -> Iterator[Sentence]:
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
def addresses_are_unproven(facts: Facts) -> Iterator[Sentence]:
    registration = facts.config.registration
    if not registration.requires_code:
        if registration.approval:
            yield Sentence("Registrations require no code by e-mail.")
        else:
            yield Sentence(
                "Registrations require no code by e-mail, and nobody reviews them (registration.approval is false)."
            )


@check(
    "mail.folder",
    Severity.RISKY,
    means="Mails are written to files (mail.backend is folder).",
    why="Players receive them only if another program sends these files.",
    do=_SET_UP,
    where=_SMTP,
)
def mails_go_to_files(facts: Facts) -> Iterator[Sentence]:
    if facts.config.mail.backend == "folder":
        yield Sentence("Mails are written to {folder}.", folder=facts.config.mail.folder)


@check(
    "mail.unusable",
    Severity.BROKEN,
    means="The mail server or service cannot be reached, fails to encrypt, or refuses our login. No mail is sent to "
    "find out.",
    why="No code, link or notification is sent until this is fixed; what is waiting then follows.",
    do="Follow the instruction in the finding, then test it with: companion mail-test ADDRESS",
    where=_SMTP,
)
def server_is_unusable(facts: Facts) -> Iterator[Sentence]:
    if facts.mail_problem is not None:
        yield Sentence("No mail can be sent: {problem}.", problem=facts.mail_problem)


@check(
    "mail.used_up",
    Severity.RISKY,
    means="So many codes or links were requested that the limit in total is used up, but for a reserve.",
    why="The reserve is for clients that logged in before, and networks that have requested none. Others who ask for a "
    "second code are told to wait. They get no second link, and the reply does not say so, since it would tell who has "
    "an account.",
    do='Look at the mails in /admin. If they are unwanted, set captcha.also_for = ["verify_send", "forgot"]. If they '
    "are wanted and your mail provider allows more, raise the limit.",
    where=FixLocation(Source.OURS, "[verification] limits_total, limits_total_forgot"),
)
def totals_are_used_up(facts: Facts) -> Iterator[Sentence]:
    config, now = facts.config.verification, facts.host.now()
    totals: tuple[tuple[Budget, str, tuple[RateLimit, ...]], ...] = (
        ("mail", "limits_total", config.limits_total),
        ("forgot", "limits_total_forgot", config.limits_total_forgot),
    )
    for budget, key, limits in totals:
        for limit, wait in total_of(budget, limits).find_used_up(facts.own_tables.mail_totals, now):
            yield Sentence(
                "verification.{key} ({limit}) is used up for another {minutes} minutes.",
                key=key,
                limit=limit,
                minutes=math.ceil(wait / 60),
            )


CHECKS: Final[tuple[Check, ...]] = (
    *(registration_needs_mail, password_links_need_mail, addresses_are_unproven, mails_go_to_files, server_is_unusable),
    totals_are_used_up,
)


def _mail_off_reason(facts: Facts) -> Sentence:
    if facts.config.mail.backend == "off":
        return Sentence('mail.backend is "off".')
    return Sentence(
        'mail.backend is "auto", and AuthMe has no mail account of its own (Email.mailAccount, Email.mailPassword).'
    )
