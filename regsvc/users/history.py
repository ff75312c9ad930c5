"""Histories of users: what decisions have made of them, and what that is once some are undone."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from regsvc.database.audit import SYNC
from regsvc.database.models import APPROVED, BANNED
from regsvc.users.transitions import BAN_ENDED, NO_MEMBERSHIP, columns_of_new_membership


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """An entry of a user's history: a status, a role, a membership or a password that was given; or an undo of some.

    `id` is that of the review ("r7") or audit entry ("a7"); `before` and `after` are statuses, or roles. Of the kinds
    "ended", where `after` is the cause, and "returned" are what became of a membership without a decision.
    """

    id: str
    kind: Literal["status", "role", "membership", "password", "undo", "ended", "returned"]
    by: str
    at: datetime
    username: str = ""
    before: str | None = None
    after: str | None = None
    reason: str | None = None
    ban_expires_at: datetime | None = None
    may_reapply: bool = False
    role_before: str | None = None
    """The role that went with the status."""
    undoes: frozenset[str] = frozenset()
    review: str | None = None
    """Of an undo: the review that it left."""
    membership: Mapping[str, Any] | None = None
    """The membership that it took or changed, as columns of `User`."""

    @property
    def is_decision(self) -> bool:
        """Whether others build on it; a password that was set changes nothing else."""
        return self.kind in ("status", "role", "membership")

    def change_membership(self, columns: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a membership after this entry of the kind "ended" or "returned"; any other changes nothing.

        One that had ended before does not end again, and none ends by a date that has not come.
        """
        until = columns["member_until"]
        is_due = self.after != "date" or (until is not None and until <= self.at)
        if self.kind == "returned":
            return columns_of_new_membership(until, self.at)
        if self.kind == "ended" and is_due and columns["ended_because"] is None:
            ended = {"ended_because": self.after, "applied_ended": self.after, "ended_at": self.at}
            return {**columns, **ended, "lapses_at": None, "lapse": None}
        return columns


@dataclass(frozen=True, slots=True)
class UserStanding:
    """Result of a user's history: columns of `User`."""

    status: str
    role: str | None = None
    reason: str | None = None
    reviewed_by: str | None = None
    reviewed_at: datetime | None = None
    ban_expires_at: datetime | None = None
    banned_from: str | None = None
    may_reapply: bool = False

    def after(self, entry: HistoryEntry) -> "UserStanding":
        """Return what the entry makes of it."""
        if entry.kind == "role":
            return replace(self, role=entry.after)
        if entry.kind != "status" or entry.after is None:
            return self
        banned_from = None
        if entry.after == BANNED:
            banned_from = self.banned_from if entry.before == BANNED else entry.before
        return UserStanding(
            entry.after,
            self.role if entry.after == APPROVED else None,
            entry.reason,
            entry.by,
            entry.at,
            entry.ban_expires_at if entry.after == BANNED else None,
            banned_from,
            entry.may_reapply,
        )

    def at(self, now: datetime) -> "UserStanding":
        """Return what the end of a ban has made of it by now."""
        end = self.ban_expires_at
        if self.status != BANNED or end is None or end > now:
            return self
        return UserStanding(self.banned_from or APPROVED, None, BAN_ENDED, SYNC.name, end)


@dataclass(frozen=True, slots=True)
class Undoing:
    """Result of undoing for one user: the standing, and the entries that are undone, newest first.

    `kept_by`: who decided after earlier ones of the actor's, which stay therefore; None: none stay.
    """

    standing: UserStanding
    undone: tuple[HistoryEntry, ...]
    kept_by: str | None
    needs_link: bool
    """Whether the user has a password that is undone, and cannot be taken back."""
    membership: Mapping[str, Any] | None
    """Columns of the membership that the user has by it; None: it stays as it is."""


def list_standing(history: Sequence[HistoryEntry], without: Collection[str] = ()) -> list[HistoryEntry]:
    """Return the entries that no undo took back, as if those `without` had never been."""
    gone = set(without)
    for entry in reversed(history):
        if entry.kind == "undo":
            gone |= {entry.review or ""}
            if entry.id not in gone:
                gone |= entry.undoes
    return [entry for entry in history if entry.id not in gone]


def stand(first: UserStanding, history: Sequence[HistoryEntry], without: Collection[str] = ()) -> UserStanding:
    """Return what the history, oldest first, makes of a user who began as `first`."""
    for entry in list_standing(history, without):
        first = first.after(entry)
    return first


def find_first(history: Sequence[HistoryEntry], status: str, role: str | None) -> UserStanding:
    """Return what a user was before the history, who has this status and role now."""
    first = next((str(it.before) for it in history if it.kind == "status"), status)
    for entry in history:
        if entry.kind == "role":
            return UserStanding(first, entry.before)
        if entry.kind == "status" and entry.after != APPROVED:
            return UserStanding(first, entry.role_before)
    return UserStanding(first, role)


def undo(history: Sequence[HistoryEntry], targets: Collection[str], first: UserStanding) -> Undoing:
    """Return what undoing the entries `targets` leads to; those on which other actors built stay."""
    undone: list[HistoryEntry] = []
    kept_by = None
    standing = list_standing(history)
    for number, entry in enumerate(reversed(standing), 1):
        if entry.id in targets:
            undone.append(entry)
        elif entry.is_decision:
            is_target_left = any(it.id in targets and it.kind != "password" for it in standing[:-number])
            kept_by = entry.by if is_target_left else None
            break
    passwords = [entry for entry in standing if entry.kind == "password"]
    needs_link = bool(passwords) and passwords[-1].id in targets
    undone += [it for it in reversed(passwords) if it.id in targets and it not in undone]
    ids = {entry.id for entry in undone}
    after = stand(first, history, ids)
    return Undoing(after, tuple(undone), kept_by, needs_link, find_membership(history, ids, after))


def find_membership(
    history: Sequence[HistoryEntry], undone: Collection[str], after: UserStanding
) -> Mapping[str, Any] | None:
    """Return the membership that a user of this standing has once entries are undone; None: as it is."""
    if after.status != APPROVED and after.banned_from != APPROVED:
        return NO_MEMBERSHIP
    columns: Mapping[str, Any] | None = None
    for entry in history:  # what the first of them took, and what has become of it by itself
        if columns is not None:
            columns = entry.change_membership(columns)
        elif entry.id in undone:
            columns = entry.membership
    return columns
