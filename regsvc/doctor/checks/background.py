"""Checks of background work that waits for a person: held-back sync changes, conflicts, failed messages."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from regsvc.core.i18n.sentences import Sentence, plural
from regsvc.doctor.facts.facts import Facts, FixLocation, Source
from regsvc.doctor.facts.own_tables import PlayerSample
from regsvc.doctor.finding import Check, Severity, Symptom, check
from regsvc.sync.report import HeldBack
from regsvc.sync.reporting.words import advise_on_held_back, describe_held_back

_STALE_AFTER: Final = timedelta(minutes=15)
_STUCK_AFTER: Final = timedelta(minutes=15)
_FIX_CAUSE: Final = Sentence("Fix the cause (see last_error). These are not sent again, but later ones are.")


@check(
    "sync.braked",
    Severity.RISKY,
    means="The sync would remove, lock or change so many players at once that it waits for confirmation.",
    why="Either the changes are intended, or AuthMe's table has been replaced or damaged. Only you can tell which.",
    do="Check companion sync --plan, which names them and says what to do if it is meant, and if it is not.",
    where=FixLocation(Source.OURS, "[sync] max_changes"),
)
def changes_are_held_back(facts: Facts) -> Iterator[Symptom]:
    running_daemon = facts.running_daemon
    is_held_back = facts.own_tables.last_run_held_back_changes
    if running_daemon is not None and running_daemon.is_companion and not running_daemon.is_other:
        is_held_back = running_daemon.has_held_back_changes
    if is_held_back:
        known = facts.own_tables.held_back
        held_back = HeldBack(**{name: known.get(name, 0) for name in HeldBack().counts()})
        restores_players = facts.config.sync.on_player_removed == "restore"
        advice = advise_on_held_back(held_back, restores_players=restores_players)
        yield Symptom(
            Sentence("The sync holds back {changes}: too many at once.", changes=describe_held_back(held_back)),
            do=Sentence("{advice} companion sync --plan names them.", advice=advice),
        )


@check(
    "sync.stale",
    Severity.BROKEN,
    means="The companion is running, but its sync is not.",
    why="Registrations in the game, edits in SQL, and the ends of bans wait for it, and no row is locked again.",
    do="Look into the companion's log. If another process holds the lease (table regsvc_lease), stop that process.",
    where=FixLocation(Source.MACHINE, "journalctl -u companion"),
)
def sync_stands_still(facts: Facts) -> Iterator[Sentence]:
    daemon = facts.running_daemon
    seconds = None if daemon is None or daemon.is_other else daemon.seconds_since_sync
    if seconds is not None and seconds > max(_STALE_AFTER, 10 * facts.config.sync.every).total_seconds():
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
        names = _examples(waiting)
        yield plural(waiting.count, "{count} player waits: {names}", "{count} players wait: {names}", names=names)


@check(
    "sync.disputed",
    Severity.RISKY,
    means="The e-mail address, or the case of the name, of some players differs between the game and our tables.",
    why="Usually the address in the game belongs to another user here, or is invalid, so each side keeps its own.",
    do="List them (companion users list --plugin conflict); companion users show NAME tells whose the address is. "
    "They can log in, and get no mails. A new address, set in the game or on the web, resolves it.",
    where=FixLocation(Source.DATABASE, "SELECT * FROM regsvc_v_sync_drift WHERE conflict IS NOT NULL"),
)
def players_are_disputed(facts: Facts) -> Iterator[Sentence]:
    disputed = facts.own_tables.disputed
    if disputed.count:
        names = _examples(disputed)
        yield plural(disputed.count, "{count} player differs: {names}", "{count} players differ: {names}", names=names)


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
    means="A message has been waiting to be sent for more than 15 minutes.",
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


CHECKS: Final[tuple[Check, ...]] = (
    *(
        changes_are_held_back,
        sync_stands_still,
        conflicts_wait,
        players_are_disputed,
        messages_failed,
        messages_are_stuck,
    ),
)


def _examples(players: PlayerSample) -> str:
    more = ", …" if players.count > len(players.examples) else ""
    return f"{', '.join(players.examples)}{more}"
