"""What waits for a person: things the companion has left undone on purpose, or given up."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from regsvc.doctor.facts.facts import Facts, FixLocation, Source
from regsvc.doctor.facts.own_tables import PlayerSample
from regsvc.doctor.finding import Check, Severity, Symptom, check

_STUCK_AFTER: Final = timedelta(minutes=15)
_MESSAGE_NAMES: Final = {
    "mail": ("mail", "mails"),
    "webhook": ("call of the webhook", "calls of the webhook"),
    "rcon": ("command to the game's console", "commands to the game's console"),
}
"""By kind: one, and several."""
_FIX_CAUSE: Final = "Look at why (last_error), and mend it. These are not sent again; what comes next is."


@check(
    "sync.braked",
    Severity.RISKY,
    means="The sync would remove, lock or change so many players at once that it waits for a person.",
    why="Either somebody did it on purpose, or AuthMe's table is not the one it was: only a person can tell.",
    do="Look at companion sync --plan. If it is meant: companion sync --allow-mass-changes",
    where=FixLocation(Source.OURS, "[sync] max_changes"),
)
def changes_are_held_back(facts: Facts) -> Iterator[str]:
    running_daemon = facts.running_daemon
    if running_daemon is not None and running_daemon.is_ours:
        if running_daemon.has_held_back_changes:
            yield "The sync has left out removals, locks or typed changes: too many at once."
    elif facts.own_tables.last_run_held_back_changes:
        yield "The last run of the sync left out removals, locks or typed changes: too many at once."


@check(
    "sync.conflicts",
    Severity.RISKY,
    means="There are players in the game who wait for a decision of ours.",
    why="Somebody may have registered another's name in the game: such a player waits for a decision.",
    do="Look at each (companion users show NAME) and approve or reject.",
    where=FixLocation(Source.DATABASE, "SELECT * FROM regsvc_v_sync_drift"),
)
def conflicts_wait(facts: Facts) -> Iterator[str]:
    waiting = facts.own_tables.conflicts
    if waiting.count:
        yield f"{waiting.count} {'player waits' if waiting.count == 1 else 'players wait'}: {_some(waiting)}"


@check(
    "sync.disputed",
    Severity.RISKY,
    means="There are players whose e-mail, or the case of whose name, differs in the game, and neither side gives way.",
    why="As a rule the e-mail in the game is another user's here, or none that can be used: each side keeps its own.",
    do="Look at each (companion users show NAME). A new e-mail, chosen in the game or on the web, ends it.",
    where=FixLocation(Source.DATABASE, "SELECT * FROM regsvc_v_sync_drift WHERE conflict IS NOT NULL"),
)
def players_are_disputed(facts: Facts) -> Iterator[str]:
    disputed = facts.own_tables.disputed
    if disputed.count:
        yield f"{disputed.count} {'player differs' if disputed.count == 1 else 'players differ'}: {_some(disputed)}"


@check(
    "outbox.failed",
    Severity.RISKY,
    means="Mails, webhook calls or other errands were given up.",
    why="Somebody was not told something, and nothing tries again by itself.",
    do="Look at why (last_error), mend it, and send mails again (the page of mails, or POST /api/admin/mails/resend).",
    where=FixLocation(Source.DATABASE, "SELECT * FROM regsvc_v_outbox WHERE state = 'failed'"),
)
def messages_failed(facts: Facts) -> Iterator[Symptom]:
    for kind, count in sorted(facts.own_tables.failed.items()):
        one, several = _MESSAGE_NAMES.get(kind, (f"{kind} errand", f"{kind} errands"))
        title = f"{count} {one} was given up." if count == 1 else f"{count} {several} were given up."
        yield Symptom(title, do=None if kind == "mail" else _FIX_CAUSE)


@check(
    "outbox.stuck",
    Severity.RISKY,
    means="What should have been sent has waited for more than a quarter of an hour.",
    why="Codes expire meanwhile: players who register wait for a mail that does not come.",
    do="See that the companion runs, and try: companion mail-test ADDRESS",
    where=FixLocation(Source.DATABASE, "SELECT * FROM regsvc_v_outbox WHERE state = 'waiting'"),
)
def messages_are_stuck(facts: Facts) -> Iterator[str]:
    oldest_at = facts.own_tables.oldest_message_at
    if oldest_at is not None and facts.host.now() - oldest_at > _STUCK_AFTER:
        where = "" if facts.running_daemon else ", and no companion runs here"
        yield f"The oldest waits since {oldest_at:%Y-%m-%d %H:%M} UTC{where}."


CHECKS: Final[tuple[Check, ...]] = (
    *(changes_are_held_back, conflicts_wait, players_are_disputed, messages_failed, messages_are_stuck),
)


def _some(players: PlayerSample) -> str:
    more = ", …" if players.count > len(players.examples) else ""
    return f"{', '.join(players.examples)}{more}"
