"""Append-only audit log: actor, action and target, recorded in the transaction of the action itself."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from peewee import fn

from regsvc.core.clock import Clock, epoch_ms
from regsvc.core.text import name_key
from regsvc.database.bulk import EntryPage, find_page, insert_or_update, insert_rows, select_rows
from regsvc.database.models import AuditEntry, Review, User


@dataclass(frozen=True)
class Actor:
    """Name behind a change: a user's, `cli:<unix user>` or one of `AUTOMATED_ACTORS`; `ip` where there is a client."""

    name: str
    ip: str | None = None


SQL: Final = Actor("sql")

SYNC: Final = Actor("sync")

AUTOMATIC: Final = Actor("registration")
"""The actor of approvals where `registration.approval` is off."""

GAME: Final = Actor("game")
"""The game: an operator who typed `/whitelist` or `/deop` in it, or at its console."""

AUTOMATED_ACTORS: Final = frozenset({SQL.name, SYNC.name, AUTOMATIC.name, GAME.name})
"""Reserved names: the audit log could not distinguish a user of such a name from the program."""

ACTIONS: Final = (
    "user.registered",
    "user.approved",
    "user.rejected",
    "user.banned",
    "user.unbanned",
    "user.reopened",
    "user.deleted",
    "user.undone",
    "user.adopted",
    "user.password_changed",
    "user.password_link_created",
    "user.email_changed",
    "user.answers_changed",
    "user.totp_enabled",
    "user.totp_disabled",
    "user.recovery_codes_replaced",
    "user.recovery_code_used",
    "user.session_ended",
    "user.role_changed",
    "user.rights_ended",
    "membership.set",
    "membership.ended",
    "membership.renewed",
    "membership.asked",
    "membership.declined",
    "user.note_added",
    "user.asked",
    "user.question_answered",
    "user.answer_judged",
    "settings.changed",
    "token.created",
    "token.revoked",
    "invitation.created",
    "invitation.revoked",
    "user.logged_in",
    "user.login_failed",
    "user.totp_failed",
    "user.logged_out",
    "admin.logged_in",
    "admin.denied",
    "chat.linked",
    "chat.unlinked",
    "team_chat.linked",
    "team_chat.unlinked",
    "sync.run",
    "sync.conflict",
    "sync.player_removed",
    "sync.player_returned",
    "sync.player_locked",
    "sync.edit_refused",
    "sync.braked",
    "allowlist.run",
    "allowlist.taken_off",
    "mail.resent",
    "user.imported",
    "data.exported",
    "data.purged",
    "undo.run",
)
"""All actions that are recorded."""

DECISIONS: Final = (
    "user.approved",
    "user.rejected",
    "user.banned",
    "user.unbanned",
    "user.reopened",
    "user.deleted",
)
"""The actions that change the status of a user."""
UNDONE: Final = "user.undone"
"""Decisions about a user were undone: `reviews` and `entries` are the ids of what was, `review` that of doing it."""

_MARKS_PER_QUERY: Final = 500
_SECRET_WORDS: Final = frozenset({"password", "hash", "salt", "token", "code", "secret", "key"})


@dataclass(frozen=True)
class AuditRecord:
    """A record of the log. `operator` is empty if unknown; `occurrences` is 1 unless repetitions were counted."""

    id: int
    action: str
    operator: str
    target: str | None
    detail: dict[str, Any] | None
    ip: str | None
    occurrences: int
    created_at: datetime


@dataclass(frozen=True)
class PastEntry:
    """An entry of another program's log, under our name for the action."""

    action: str
    operator: str
    target: str | None
    detail: Mapping[str, Any]
    happened_at: datetime


@dataclass(frozen=True)
class Audit:
    """The audit log. All methods run in the caller's transaction."""

    now: Clock

    def record(
        self,
        action: str,
        by: Actor,
        target: str | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a record. `detail` is stored as JSON; raises AssertionError if a key in it names a secret."""
        _require_known(action)
        AuditEntry.insert(
            action=action,
            operator=by.name,
            target=target,
            detail=None if detail is None else _to_json(detail),
            ip=by.ip,
            created_at=self.now(),
        ).execute()

    def record_each(
        self,
        action: str,
        by: Actor,
        targets: Sequence[str],
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        """Add one record for each target, with the same details, in one statement."""
        self.record_all(by, [(action, target, detail) for target in targets])

    def record_all(
        self, by: Actor, records: Sequence[tuple[str, str, Mapping[str, Any] | None]], *, at: datetime | None = None
    ) -> None:
        """Add records of the same actor, each an action, a target and its details, in one statement. `at`: else now."""
        moment, rows = at or self.now(), []
        for action, target, detail in records:
            _require_known(action)
            rows.append(
                {
                    "action": action,
                    "operator": by.name,
                    "target": target,
                    "detail": None if detail is None else _to_json(detail),
                    "ip": by.ip,
                    "created_at": moment,
                }
            )
        insert_rows(AuditEntry._meta.database, AuditEntry, rows)

    def record_past(self, entries: Sequence[PastEntry], *, is_dry_run: bool = False) -> int:
        """Add entries of another program's log, each with its own time; return the number of those that are new.

        An entry that was added before is not added again. Of equal entries, as many are kept as are given together.
        """
        rows, equal = dict[str, dict[str, Any]](), Counter[str]()
        for entry in entries:
            _require_known(entry.action)
            detail = _to_json(entry.detail)
            text = json.dumps([entry.action, entry.operator, entry.target, detail, epoch_ms(entry.happened_at)])
            mark = sha256(f"past {text} {equal[text]}".encode()).hexdigest()
            equal[text] += 1
            rows[mark] = {
                "action": entry.action,
                "operator": entry.operator,
                "target": entry.target,
                "detail": detail,
                "tally": mark,
                "created_at": entry.happened_at,
            }
        database, field, known = AuditEntry._meta.database, AuditEntry.tally, set[str]()
        marks = list(rows)
        for start in range(0, len(marks), _MARKS_PER_QUERY):
            page = marks[start : start + _MARKS_PER_QUERY]
            known |= {mark for (mark,) in select_rows(database, AuditEntry, [field], field, page)}
        new = [row for mark, row in rows.items() if mark not in known]
        if not is_dry_run:
            insert_rows(database, AuditEntry, new)
        return len(new)

    def tally(
        self,
        action: str,
        by: Actor,
        target: str | None = None,
        *,
        client: str | None = None,
        per: timedelta,
    ) -> None:
        """Add a record the first time in each period `per`, and increment its `occurrences` every further time.

        `client` identifies one client (for IPv6 its /64) where that is wider than the actor's `ip`.
        """
        _require_known(action)
        now = self.now()
        period = epoch_ms(now) // round(per.total_seconds() * 1000)
        same = (
            action,
            by.name.lower(),
            (target or "").lower(),
            client or by.ip or "",
            per.total_seconds(),
            period,
        )
        insert_or_update(
            AuditEntry,
            {
                AuditEntry.action: action,
                AuditEntry.operator: by.name,
                AuditEntry.target: target,
                AuditEntry.ip: by.ip,
                AuditEntry.tally: sha256(json.dumps(same).encode()).hexdigest(),
                AuditEntry.created_at: now,
            },
            unique=[AuditEntry.tally],
            changes={AuditEntry.occurrences: AuditEntry.occurrences + 1},
        )

    def find_newest_time(self) -> datetime | None:
        """Return the latest time of any entry, or None if there is none."""
        # not MAX: MariaDB 10.11 reads all of an index for it that has the newest first
        times = AuditEntry.select(AuditEntry.created_at).order_by(AuditEntry.created_at.desc())
        newest: datetime | None = times.limit(1).scalar()
        return newest

    def list_entries(
        self,
        page: int,
        size: int,
        *,
        action: str | Sequence[str] | None = None,
        operator: str | None = None,
        target: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> EntryPage[AuditRecord]:
        """Return one page (the first is 1) of entries with this action or one of these, newest first.

        Past the end it is empty. Their order is that of their times, which indexes have; that of ids may differ, since
        entries are imported and clocks are set.
        Names match without regard to case, both times are inclusive. The caller has validated the filters.
        """
        conditions = _conditions(action, operator, target, since, until)
        is_named = operator is not None or target is not None
        time = _unindexed(AuditEntry.created_at) if is_named else AuditEntry.created_at
        order = [time.desc(), AuditEntry.id.desc()]
        return find_page(AuditEntry, conditions, order, page, size, AuditEntry.select(), _entry)


class SilentAudit(Audit):
    """Audit log of a plan, which adds no record."""

    def record(
        self, action: str, by: Actor, target: str | None = None, detail: Mapping[str, Any] | None = None
    ) -> None:
        pass

    def record_all(
        self,
        by: Actor,
        records: Sequence[tuple[str, str, Mapping[str, Any] | None]],
        *,
        at: datetime | None = None,
    ) -> None:
        pass


def _require_known(action: str) -> None:
    if action not in ACTIONS:
        raise AssertionError(f"{action!r} is not an audit action")


def _to_json(detail: Mapping[str, Any]) -> str:
    _require_no_secrets(detail)
    return json.dumps(detail, ensure_ascii=False, separators=(",", ":"))


def _require_no_secrets(value: object) -> None:
    """Raise on a key such as `password_hash` or `accessToken`, at any depth: it would be kept for years."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            words = re.findall(r"[a-z]+|[A-Z][a-z]*", str(key))
            if not _SECRET_WORDS.isdisjoint(map(str.lower, words)):
                raise AssertionError(f"the audit detail {key!r} looks like a secret")
            _require_no_secrets(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            _require_no_secrets(inner)


def _conditions(
    action: str | Sequence[str] | None,
    operator: str | None,
    target: str | None,
    since: datetime | None,
    until: datetime | None,
) -> list[Any]:
    conditions = []
    if action is not None:
        column = AuditEntry.action if target is None and operator is None else _unindexed(AuditEntry.action)
        conditions.append(_is_any_of(column, [action] if isinstance(action, str) else action))
    if operator is not None:
        column = AuditEntry.operator if target is None else _unindexed(AuditEntry.operator)
        conditions.append(_is_any_of(column, spellings_of(operator)))
    if target is not None:
        conditions.append(_is_any_of(AuditEntry.target, spellings_of(target)))
    if since is not None:
        conditions.append(AuditEntry.created_at >= since)
    if until is not None:
        conditions.append(AuditEntry.created_at <= until)
    return conditions


def spellings_of(name: str) -> list[str]:
    """Return all spellings of this name, present and past. The index finds these; it could not find `LOWER(target)`."""
    key = name_key(name)
    users = User.select(User.username).where(User.username_key == key)
    reviews = Review.select(Review.username).where(Review.username_key == key).distinct()
    return sorted({name, key, *(row.username for row in users), *(row.username for row in reviews)})


def _unindexed(column: Any) -> Any:
    """Return a column whose index cannot be used, since that of a name is better.

    SQLite has no statistics, and MariaDB expects entries with a name among the newest of all.
    """
    return fn.COALESCE(column, column)


def _is_any_of(column: Any, spellings: Sequence[str]) -> Any:
    return column == spellings[0] if len(spellings) == 1 else column.in_(spellings)


def _entry(row: AuditEntry) -> AuditRecord:
    return AuditRecord(
        id=row.id,
        action=row.action,
        operator=row.operator,
        target=row.target,
        detail=None if row.detail is None else json.loads(row.detail),
        ip=row.ip,
        occurrences=row.occurrences,
        created_at=row.created_at,
    )
