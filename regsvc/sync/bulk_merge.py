"""Passwords that many players changed in the game, taken over a page at a time with a few statements.

It does what `steps.MergeStep` does for the one kind of change that comes by the thousand: the row we agreed on has
another password, and nothing else is to be brought over. Everything else is settled name by name.
"""

from collections.abc import Collection, Sequence

from peewee import Database, SqliteDatabase

from plugin_bridge.players import Players
from regsvc.audit import Audit
from regsvc.many_rows import execute_many
from regsvc.models import Player, Session, User
from regsvc.sync.decisions import Decision, Merge
from regsvc.sync.plan import decide
from regsvc.sync.reconciler import Reconciler
from regsvc.sync.records import Subject


def is_password_alone(decision: Decision) -> bool:
    """Whether all there is to do is to take over the game's password."""
    return isinstance(decision, Merge) and decision == Merge(decision.player, takes_password=True)


class BulkMerge:
    """Works on pages of names. Blocking."""

    def __init__(self, database: Database, players: Players, reconciler: Reconciler, audit: Audit) -> None:
        self._database = database
        self._players = players
        self._reconciler = reconciler
        self._audit = audit

    def take_passwords(self, keys: Collection[str]) -> dict[str, Merge]:
        """What was done, by name, in one transaction; a name that is no such case any more is left out."""
        with self._database.atomic():
            self._hold(keys)
            subjects = self._reconciler.subjects(keys, self._players.find_many(keys))
            found = [(subject, decide(subject, self._reconciler.policy)) for subject in subjects]
            taken = {
                subject.key: (subject, decision)
                for subject, decision in found
                if isinstance(decision, Merge) and is_password_alone(decision) and _is_plain(subject)
            }
            if taken:
                self._take(list(taken.values()))
        return {key: decision for key, (_subject, decision) in taken.items()}

    def _hold(self, keys: Collection[str]) -> None:
        """Our rows stay as they are until the transaction ends; on SQLite the whole file does."""
        if isinstance(self._database, SqliteDatabase):
            return
        for table in (User, Player):
            list(table.select(table.username_key).where(table.username_key.in_(list(keys))).for_update().tuples())

    def _take(self, merges: Sequence[tuple[Subject, Merge]]) -> None:
        users = [subject.user for subject, _merge in merges if subject.user is not None]
        ids = [user.id for user in users]
        User.update(
            password_hash=None,
            password_salt=None,
            password_algorithm=None,
            password_set_at=None,
            token_generation=User.token_generation + 1,
        ).where(User.id.in_(ids)).execute()
        Session.delete().where(Session.user.in_(ids)).execute()
        names = [user.username for user in users]
        self._audit.record_each("user.password_changed", "sync", names, {"where": "in the game"})
        execute_many(
            self._database,
            "UPDATE regsvc_player SET base_hash = ?, base_salt = ?, base_email = ?, base_realname = ?, "
            "base_regdate = ? WHERE username_key = ?",
            [
                (row.hash, row.salt, row.email, row.realname, row.regdate, row.username)
                for row in (merge.player for _subject, merge in merges)
            ],
        )


def _is_plain(subject: Subject) -> bool:
    """Whether nothing but the base is to be written down: no wish, no lock, no disagreement, no tombstone."""
    known = subject.agreement
    return (
        known is not None
        and known.plugin_state == "synced"
        and known.conflict is None
        and known.wish is None
        and known.locked_at is None
        and known.tombstone_at is None
    )
