"""Checks of mail, of backups, and of background work that waits for a person: held-back changes, conflicts."""

import math
from collections.abc import Iterator
from datetime import timedelta
from statistics import mode
from typing import Final

from regsvc.auth.rate_limits import REGISTRATIONS, in_total
from regsvc.core.i18n import Sentence, plural
from regsvc.core.units import RateLimit
from regsvc.doctor.facts.facts import Facts, FactUnavailable, FixLocation, Source
from regsvc.doctor.finding import Severity, Symptom, check
from regsvc.notifications.mail.queue import Budget, total_of
from regsvc.notifications.mail.transport import wording_of
from regsvc.runtime.backups import OLD, Backups, find_backups
from regsvc.sync.report import HeldBack, advise_on_held_back, describe_held_back
from regsvc.sync.service import stands_still
from regsvc.team_chat.service import name_conflict

_GRACE: Final = timedelta(days=2)
"""Age of an installation that may be without a backup."""


@check(
    "backup.none",
    Severity.RISKY,
    means="No backup is made: the timer of the nightly ones is not enabled, or there is none after two days.",
    why="If this machine dies, all users, their history and our keys are lost.",
    do="Switch nightly backups on: companion install --backup (-i NAME for one server of many).",
    where=FixLocation(Source.MACHINE, "companion-backup.timer"),
)
def no_backup_is_made(facts: Facts) -> Iterator[Sentence | Symptom]:
    backups = _look(facts)
    if backups.folder is None or backups.first_started_at is None or backups.newest_at is not None:
        return
    is_young = facts.host.now() - backups.first_started_at < _GRACE
    if backups.is_wanted is False:
        if not is_young:
            yield Symptom(
                Sentence("There is no backup, as it was chosen when the companion was installed (--no-backup)."),
                Sentence("If another program saves the state directory, let it; else: companion install --backup"),
            )
    elif backups.is_enabled is False:
        yield Sentence("There is no backup, and {timer} is not enabled.", timer=backups.timer)
    elif not is_young:
        yield Symptom(
            Sentence("There is no backup in {folder}.", folder=backups.folder),
            Sentence("Make one, and read why none was made: journalctl -u {timer}", timer=backups.timer),
        )


@check(
    "backup.old",
    Severity.RISKY,
    means="The newest backup is older than three days.",
    why="If this machine dies, everything since then is lost.",
    do="See why no other one was made: systemctl status companion-backup.timer companion-backup.service (@NAME for one "
    "server of many). Where another program makes them, let it run: companion backup FOLDER",
    where=FixLocation(Source.MACHINE, "companion-backup.service"),
)
def newest_backup_is_old(facts: Facts) -> Iterator[Sentence]:
    newest_at = _look(facts).newest_at
    if newest_at is not None and facts.host.now() - newest_at > OLD:
        yield Sentence("The newest backup is of {moment:%Y-%m-%d %H:%M} UTC.", moment=newest_at)


@check(
    "backup.failed",
    Severity.RISKY,
    means="A backup was killed, and nothing has replaced it.",
    why="What it has left behind is no backup.",
    do="Make another one, which removes this: systemctl start companion-backup (@NAME for one server of many). If it "
    "is killed again, see: journalctl -u companion-backup",
    where=FixLocation(Source.MACHINE, "companion-backup.service"),
)
def backup_was_killed(facts: Facts) -> Iterator[Sentence]:
    failed = _look(facts).failed
    if failed is not None:
        yield Sentence("{folder} is an unfinished backup.", folder=failed)


def _look(facts: Facts) -> Backups:
    """Return the backups. Raises `FactUnavailable` where their folder may not be read."""
    try:
        return find_backups(facts.config.file, facts.config.server.state_dir)
    except OSError:
        raise FactUnavailable("the backups: we may not read their folder") from None


_SMTP: Final = FixLocation(Source.OURS, '[mail] backend = "smtp", host, username, password_file, sender')
_STUCK_AFTER: Final = timedelta(minutes=5)
_UNUSED_AFTER: Final = timedelta(days=90)
_SEVERAL: Final = 3
"""Recipients whose mails were refused that are no coincidence."""
_FIX_CAUSE: Final = Sentence("Fix the cause (see last_error). These are not sent again, but later ones are.")


@check(
    "mail.off",
    Severity.BROKEN,
    means="Registration is open, but mail is off; or, only risky, registration is closed and mail is off, or mails are "
    "written to files (mail.backend is folder).",
    why="Verification codes, links to reset a password, and notices of bans and approvals are sent by mail. From a "
    "folder, players receive them only if another program sends these files.",
    do="Configure a mail server and an account, or a service (mail.http_provider) where SMTP is blocked; then test it "
    "with: companion mail-test ADDRESS",
    where=_SMTP,
)
def mail_reaches_nobody(facts: Facts) -> Iterator[Symptom]:
    registration, mail = facts.config.registration, facts.config.mail
    if registration.requires_code and not facts.sends_mail:
        title = Sentence(
            'mail.backend is "auto", and AuthMe has no mail account of its own (Email.mailAccount, Email.mailPassword).'
        )
        if mail.backend == "off":
            title = Sentence('mail.backend is "off".')
        yield Symptom(title, severity=None if registration.open else Severity.RISKY)
    elif mail.backend == "folder":
        yield Symptom(Sentence("Mails are written to {folder}.", folder=mail.folder), severity=Severity.RISKY)


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
    "mail.refused",
    Severity.RISKY,
    means="The mail server refuses mails to several recipients.",
    why="Players wait for codes, links and decisions. What is refused because of the account, such as its daily limit, "
    "is kept and tried again.",
    do="Follow what the server says. For a limit of the account, ask the provider for a higher one, or use another.",
    where=FixLocation(Source.DATABASE, "SELECT * FROM regsvc_v_outbox WHERE state <> 'sent'"),
)
def mails_are_refused(facts: Facts) -> Iterator[Sentence]:
    tables = facts.own_tables
    if len(tables.refusals) >= _SEVERAL:
        wordings = [wording_of(reply) for reply in tables.refusals]
        reply = tables.refusals[wordings.index(mode(wordings))]
        yield Sentence(
            "Mails to {count} of the last {tried} recipients were refused: {reply}",
            count=len(tables.refusals),
            tried=tables.recipients_tried,
            reply=reply,
        )


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


@check(
    "mail.unproven_used_up",
    Severity.RISKY,
    means="So many players registered without a code by e-mail that the limit in total is used up, but for a reserve.",
    why="The reserve is for networks where nobody has registered. Everybody else is told to wait.",
    do="Look at the waiting registrations in /admin. If these players are wanted, raise the limit, with both parts: "
    'companion config set registration.limits_total "500 per hour, 2000 per day"',
    where=FixLocation(Source.OURS, "[registration] limits_total"),
)
def registrations_are_used_up(facts: Facts) -> Iterator[Sentence]:
    config = facts.config.registration
    shared = in_total(REGISTRATIONS, () if config.requires_code else config.limits_total)
    for limit, wait in shared.find_used_up(facts.own_tables.mail_totals, facts.host.now()):
        minutes = math.ceil(wait / 60)
        yield Sentence("{limit} registrations are used up for another {minutes} minutes.", limit=limit, minutes=minutes)


@check(
    "sync.braked",
    Severity.RISKY,
    means="The sync would change so many players, or end memberships so late, that it waits for confirmation.",
    why="Either the changes are intended, or AuthMe’s table, or the game’s allowlist, has been replaced or damaged, or "
    "the clock is wrong. Only you can tell which.",
    do="Check companion sync --plan, which names them and says what to do if it is meant, and if it is not.",
    where=FixLocation(Source.OURS, "[sync] max_changes"),
)
def changes_are_held_back(facts: Facts) -> Iterator[Symptom]:
    running_daemon = facts.running_daemon
    listed = facts.own_tables.held_back_on_list if facts.keeps_list else 0
    is_table_held_back = facts.own_tables.last_run_held_back_changes
    is_held_back = is_table_held_back or listed > 0
    if running_daemon is not None and running_daemon.is_companion and not running_daemon.is_other:
        is_held_back = running_daemon.has_held_back_changes
    if is_held_back:
        known = facts.own_tables.held_back if is_table_held_back or not listed else {}
        held_back = HeldBack(**{name: known.get(name, 0) for name in HeldBack().counts()})
        restores_players = facts.config.sync.on_player_removed == "restore"
        advice, why = advise_on_held_back(held_back, restores_players=restores_players), held_back.why()
        yield Symptom(
            Sentence("The sync holds back {changes}: {why}.", changes=describe_held_back(held_back, listed), why=why),
            do=Sentence("{advice} companion sync --plan names them.", advice=advice),
        )


@check(
    "sync.stale",
    Severity.BROKEN,
    means="The companion is running, but its sync is not.",
    why="Registrations in the game, edits in SQL, and the ends of bans wait for it, and no row is locked again.",
    do="Look into the companion’s log. If another process holds the lease (table regsvc_lease), stop that process.",
    where=FixLocation(Source.MACHINE, "journalctl -u companion"),
)
def sync_stands_still(facts: Facts) -> Iterator[Sentence]:
    daemon = facts.running_daemon
    seconds = None if daemon is None or daemon.is_other else daemon.seconds_since_sync
    if seconds is not None and stands_still(seconds, facts.config.sync.every):
        yield Sentence("The sync has not run for {minutes} minutes.", minutes=round(seconds / 60))


@check(
    "sync.conflicts",
    Severity.RISKY,
    means="Players in the game need a decision by an operator.",
    why="Their names may have been registered in the game by someone other than the user.",
    do="Check each one (companion users show NAME), and approve or reject.",
    where=FixLocation(Source.DATABASE, "SELECT * FROM regsvc_v_sync_drift"),
)
def conflicts_wait(facts: Facts) -> Iterator[Sentence]:
    waiting = facts.own_tables.conflicts
    if waiting.count:
        yield plural(
            waiting.count, "{count} player waits: {names}", "{count} players wait: {names}", names=waiting.names
        )


@check(
    "sync.disputed",
    Severity.RISKY,
    means="The e-mail address, or the case of the name, of some players differs between the game and our tables.",
    why="The address in the game belongs to another user here, or is invalid, or ours is proven and the game’s cannot "
    "be, so each side keeps its own.",
    do="List them (companion users list --plugin conflict); companion users show NAME tells whose the address is. "
    "They can log in, and get no mails. A new address, set in the game or on the web, resolves it.",
    where=FixLocation(Source.DATABASE, "SELECT * FROM regsvc_v_sync_drift WHERE conflict IS NOT NULL"),
)
def players_are_disputed(facts: Facts) -> Iterator[Sentence]:
    disputed = facts.own_tables.disputed
    if disputed.count:
        yield plural(
            disputed.count, "{count} player differs: {names}", "{count} players differ: {names}", names=disputed.names
        )


@check(
    "outbox.failed",
    Severity.RISKY,
    means="Mails, webhook calls or console commands have failed for good.",
    why="They were not delivered and are not retried automatically.",
    do="Fix the cause (see last_error), and resend mails on the mail page or with POST /api/admin/mails/resend.",
    where=FixLocation(Source.DATABASE, "SELECT * FROM regsvc_v_outbox WHERE state = 'failed'"),
)
def messages_failed(facts: Facts) -> Iterator[Symptom]:
    for kind, count in sorted(facts.own_tables.failed.items()):
        if kind == "mail":
            yield Symptom(plural(count, "{count} mail failed.", "{count} mails failed."))
        elif kind == "webhook":
            yield Symptom(plural(count, "{count} webhook call failed.", "{count} webhook calls failed."), _FIX_CAUSE)
        else:
            yield Symptom(
                plural(count, "{count} console command failed.", "{count} console commands failed."), _FIX_CAUSE
            )


@check(
    "outbox.stuck",
    Severity.RISKY,
    means="A message has been waiting to be sent for more than 5 minutes.",
    why="Codes expire meanwhile, and players who register wait for a mail that does not come.",
    do="Make sure the companion is running, then try: companion mail-test ADDRESS",
    where=FixLocation(Source.DATABASE, "SELECT * FROM regsvc_v_outbox WHERE state = 'waiting'"),
)
def messages_are_stuck(facts: Facts) -> Iterator[Sentence]:
    oldest_at = facts.own_tables.oldest_message_at
    if oldest_at is not None and facts.host.now() - oldest_at > _STUCK_AFTER:
        if facts.running_daemon:
            yield Sentence("The oldest has been waiting since {at:%Y-%m-%d %H:%M} UTC.", at=oldest_at)
        else:
            yield Sentence(
                "The oldest has been waiting since {at:%Y-%m-%d %H:%M} UTC, and no companion is running here.",
                at=oldest_at,
            )


@check(
    "team.unused_tokens",
    Severity.RISKY,
    means="API tokens have not been used for 90 days.",
    why="A forgotten token still opens what it names to anybody who finds it.",
    do="Revoke those that no bot needs: companion token revoke NAME, or in Team at /admin.",
    where=FixLocation(Source.DATABASE, "SELECT * FROM regsvc_token WHERE revoked_at IS NULL"),
)
def tokens_are_unused(facts: Facts) -> Iterator[Sentence]:
    before = facts.host.now() - _UNUSED_AFTER
    names = [name for name, at in facts.own_tables.token_uses.items() if at is not None and at < before]
    if names:
        yield plural(
            len(names), "{count} token is unused: {names}", "{count} tokens are unused: {names}", names=", ".join(names)
        )


@check(
    "team_chat.unusable",
    Severity.BROKEN,
    means="The team cannot decide in a chat ([[team_chat]]): the platform refuses the token, the bot does not see the "
    "channel or lacks a right there, clicks do not reach us, or this machine’s clock is more than 5 minutes off.",
    why="Applications are not shown there, or decisions are refused. What was not sent follows for three days.",
    do="Follow the instruction in the finding (docs/team-chat.md has all steps), then test it with: companion "
    "team-chat test",
    where=FixLocation(Source.OURS, "[[team_chat]]"),
)
def chats_are_unusable(facts: Facts) -> Iterator[str]:
    yield from facts.chat_problems


@check(
    "chat.roles_unknown",
    Severity.BROKEN,
    means="Discord does not say who has which role, or refuses to give or take one.",
    why="Nobody’s membership ends or returns with a role until this is fixed, and chat.give_role_id stays as it is.",
    do="Follow the instruction in the finding. The bot needs the right Manage Roles, and a role above the one it "
    "gives.",
    where=FixLocation(Source.OURS, "[chat] bot_token, guild_id, give_role_id"),
)
def roles_are_unknown(facts: Facts) -> Iterator[str]:
    yield from facts.role_problems


@check(
    "team_chat.shared_bot",
    Severity.BROKEN,
    means="Another program receives what people do with a bot on Telegram.",
    why="Telegram passes each click and each reply on once. What the other program gets is not done here, and nobody "
    "is told so.",
    do="Stop the other program, or make a bot that only the companion uses (@BotFather, /newbot), enter its token, and "
    "add it to the group.",
    where=FixLocation(Source.OURS, "[[team_chat]] token_file"),
)
def bots_are_shared(facts: Facts) -> Iterator[Sentence]:
    for chat in facts.config.team_chats:
        if chat.platform == "telegram" and name_conflict(chat.token) in facts.own_tables.leases:
            yield Sentence("The bot of the group {group} is also used by another program.", group=chat.channel)
