"""Checks of backups: whether any is made, whether the newest is recent, and whether the last one came to its end."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from regsvc.core.i18n.sentences import Sentence
from regsvc.doctor.facts.facts import Facts, FactUnavailable, FixLocation, Source
from regsvc.doctor.finding import Severity, Symptom, check
from regsvc.runtime.backups import OLD, Backups, find_backups

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
