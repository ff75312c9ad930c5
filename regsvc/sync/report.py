"""Report of what a sync run did or would do, and its sentences for hosts."""

import logging
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType, structs
from peewee import Database

from regsvc.allowlist.planning import PlannedUsers
from regsvc.allowlist.run import COUNTS as LIST_COUNTS
from regsvc.allowlist.run import ListReport
from regsvc.core.i18n import Sentence, join, plural
from regsvc.core.shapes import Moment, Output, Username, to_plain
from regsvc.database.audit import SQL, SYNC, Audit
from regsvc.database.dates import UnreadableDate, list_unreadable_dates
from regsvc.http.messages import Count, to_reply

COUNTS: Final = ("scanned", "adopted", "provisioned", "updated", "locked", "restored", "removed")
_WORDS: Final = {
    "scanned": ("player looked at", "players looked at"),
    "provisioned": ("added to the game", "added to the game"),
}
"""Words for one and for several, of counts whose name alone would not say it."""


class SyncConflictFields(Output, frozen=True, kw_only=True):
    """A field with different values on the two sides, and the side whose value was kept."""

    username: Username
    field: Annotated[str, Meta(examples=["email"])]
    kept: Annotated[str, Meta(description="The side whose value was kept.", examples=["plugin"])]
    why: (
        Annotated[
            str,
            Meta(
                description="Why both were kept. Of an e-mail: `unproven` (ours is proven, the game's cannot be), "
                "`taken` (the game's is another user's), `invalid` (the game's is no address), `refused` (AuthMe's "
                "table cannot hold ours). Of a name: `unfindable` (AuthMe does not find it), `collides` (AuthMe takes "
                "it for another one), `foreign` (the row may be another person's), `unapproved` (the row of a user who "
                "is not approved was left open).",
                examples=["taken"],
            ),
        ]
        | UnsetType
    ) = UNSET


class SyncErrorFields(Output, frozen=True, kw_only=True):
    """An error with one row, or with the whole table (`username` null)."""

    username: Username | None
    error: Annotated[str, Meta(examples=["the name is no player's name"])]


class SyncHeldBackFields(Output, frozen=True, kw_only=True):
    """Changes that were held back because there were too many at once, or ends after a long pause."""

    removed: Count = 0
    locked: Count = 0
    edited: Count = 0
    passwords: Annotated[Count, Meta(description="Passwords that became earlier ones again.")] = 0
    limit: Annotated[str, Meta(examples=["20 and 5%"])] = ""
    days: Annotated[
        Count,
        Meta(description="How long the sync had not run, if ends of memberships wait for that."),
    ] = 0


class HeldBack(SyncHeldBackFields, frozen=True, kw_only=True):
    """Counts of the actions that the mass-change guard held back, and the limit as the config writes it."""

    missing: int = 0
    """Those of the removed whose row is gone from AuthMe's table; the others were deleted. For sentences only."""
    ended: int = 0
    """Those of the locked whose membership ends. For sentences only."""

    def counts(self) -> dict[str, int]:
        """Return the counts, for the audit."""
        return {name: value for name, value in structs.asdict(self).items() if name != "limit"}

    def why(self) -> Sentence:
        """Return why: the changes are too many, or the clock may be wrong."""
        if not self.days:
            is_known = bool(self.limit)
            return Sentence("more than {limit} at once", limit=self.limit) if is_known else Sentence("too many at once")
        return plural(
            self.days,
            "the companion was off for {count:,} day, or the clock was set forward",
            "the companion was off for {count:,} days, or the clock was set forward",
        )


@dataclass
class Changes:
    """Number of names that a run changes, or would change or hold back, in one way, and the first of the names."""

    one: str
    several: str
    """Words for one and for several."""
    count: int = 0
    names: list[str] = field(default_factory=list)


class SyncAllowlistFields(Output, frozen=True, kw_only=True):
    """The names added to and removed from the game's allowlist, and what was taken over from it."""

    added: Count
    removed: Count
    adopted: Annotated[Count, Meta(description="Players who got a user.")]
    approved: Annotated[Count, Meta(description="Users who were put on the list in the game.")]
    taken_off: Annotated[Count, Meta(description="Users who were taken off the list in the game.")]
    held_back: Annotated[Count, Meta(description="Changes that were held back because there were too many at once.")]
    limit: Annotated[str, Meta(examples=["20 and 5%"])]
    unavailable: Annotated[str | None, Meta(description="Why the list cannot be read or written.")]
    doubt: Annotated[str | None, Meta(description="A player whose UUID contradicts the server's config.")]
    is_loaded: Annotated[bool, Meta(description="Whether the running server knows the list as it is in the file.")]


class SyncReportFields(Output, frozen=False, kw_only=True):  # type: ignore[misc] # a run fills it in
    """The numbers of changes that were made, or would be made by a planned run."""

    started_at: Moment
    duration_ms: Count = 0
    scanned: Count = 0
    adopted: Count = 0
    provisioned: Count = 0
    updated: Count = 0
    locked: Count = 0
    restored: Count = 0
    removed: Count = 0
    conflicts: list[SyncConflictFields] = msgspec.field(default_factory=list)
    errors: list[SyncErrorFields] = msgspec.field(default_factory=list)
    held_back: SyncHeldBackFields | None = msgspec.field(default=None, name="braked")
    allowlist: Annotated[SyncAllowlistFields | None, Meta(description="Null if nothing was to do.")] = None


class SyncReport(SyncReportFields, frozen=False, kw_only=True):  # type: ignore[misc]
    """Report of a run or a plan, with what is not sent; a general error has the `username` None."""

    held_back: HeldBack | None = msgspec.field(default=None, name="braked")
    ending: list[int] = msgspec.field(default_factory=list)
    """Ids of users whose ban or membership ends soon; not reported."""
    memberships_ended: Counter[str] = msgspec.field(default_factory=Counter)
    """How many memberships ended, by cause; for metrics."""
    is_enabled: bool = True
    unavailable: str | None = None
    """Why AuthMe's table could not be read or written; also among `errors`."""
    is_complete: bool = True
    """False if the process was told to stop first: the next run does the rest."""
    changes: dict[str, Changes] = msgspec.field(default_factory=dict)
    """What was changed, or would be, by kind (`actions.Label`)."""
    changes_held_back: dict[str, Changes] = msgspec.field(default_factory=dict)
    """Of a plan: what would be changed if nothing were held back, by kind."""
    for_list: PlannedUsers | None = None
    """Of a plan: what it starts from on the game's allowlist."""
    restores_players: bool = False
    """Whether rows that are gone are inserted again (`sync.on_player_removed`)."""
    listed: ListReport | None = None
    """What was done about the game's allowlist, of which `fields` makes `allowlist`; None: nothing was to do."""
    missing_email_column: str | None = None
    """The configured e-mail column, if players were adopted from a table that has none of this name."""

    @property
    def has_held_back_changes(self) -> bool:
        """Return whether changes of any gate wait for a person."""
        return self.held_back is not None or (self.listed is not None and bool(self.listed.held_back))

    @property
    def has_effects(self) -> bool:
        """Return whether the run changed anything."""
        return any(name != "scanned" for name in self.counts())

    @property
    def is_idle(self) -> bool:
        """Return whether the run did nothing, and has nothing to tell."""
        found = self.conflicts or self.errors or self.listed is not None or self.held_back is not None
        return not (self.has_effects or found)

    def add_error(self, username: str | None, error: str) -> None:
        """Add an error about one name, or about the run as a whole if `username` is None."""
        self.errors.append(SyncErrorFields(username=username, error=error))

    def fields(self) -> SyncReportFields:
        """Return the `report` of `POST /api/admin/sync`."""
        listed = self.listed
        if listed is None:
            return to_reply(SyncReportFields, self, allowlist=None)
        shown = {**{kind: listed.counts[kind] for kind in LIST_COUNTS}, "held_back": listed.held_back.total()}
        return to_reply(SyncReportFields, self, allowlist=to_reply(SyncAllowlistFields, listed, **shown))

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        return dict(to_plain(self.fields()))

    def counts(self) -> dict[str, int]:
        """Return the counts that are not 0, for the log and the audit."""
        return {name: getattr(self, name) for name in COUNTS if getattr(self, name)}


def counts_in_words(counts: Mapping[str, int]) -> str:
    """Return counts by name as people read them: "3,002 players looked at, 2,997 adopted"."""
    return ", ".join(f"{count:,} {_words(name, count)}" for name, count in counts.items())


def _words(name: str, count: int) -> str:
    one, several = _WORDS.get(name, (name.replace("_", " "),) * 2)
    return one if count == 1 else several


_ALLOW: Final = "companion sync --allow-mass-changes"
_EMAILS: Final = "e-mail address differs", "e-mail addresses differ"
_ROWS: Final = "row is left as it is", "rows are left as they are"
_CONFLICTS: Final[Mapping[tuple[str, str, str | None], tuple[str, str, str]]] = {
    ("email", "both", "unproven"): (
        *_EMAILS,
        "each side keeps its own, since ours is proven and the game proves none",
    ),
    ("email", "both", "taken"): (
        *_EMAILS,
        "each side keeps its own, since the one in the game belongs to another user here",
    ),
    ("email", "both", "invalid"): (*_EMAILS, "each side keeps its own, since the one in the game is no valid address"),
    ("email", "both", "refused"): (*_EMAILS, "each side keeps its own, since AuthMe's table cannot hold ours"),
    ("realname", "both", None): (
        "spelling of a name differs",
        "spellings of names differ",
        "each side keeps its own, since the one in the game is another name",
    ),
    ("name", "both", "unfindable"): (*_ROWS, "AuthMe finds no player by such a name"),
    ("name", "both", "collides"): (*_ROWS, "for AuthMe the name equals another one that it has"),
    ("name", "both", "foreign"): (*_ROWS, "it may belong to another person than the user"),
    ("name", "both", "unapproved"): (*_ROWS, "the user is not approved, and may play all the same"),
    ("email", "companion", None): ("e-mail address", "e-mail addresses", "changed on both sides: ours stays"),
    ("password", "plugin", None): ("password", "passwords", "changed on both sides: the game's stays"),
    ("password", "companion", None): ("password", "passwords", "changed on both sides: ours stays"),
}
"""By field, the side whose value stays, and the cause: words for one and for several, and why."""
LIST_PLANNED: Final[Mapping[str, tuple[str, str]]] = {
    "adopted": ("player on the allowlist gets a user here", "players on the allowlist get users here"),
    "approved": ("user was put on the allowlist in the game: approved", "users were put on it in the game: approved"),
    "added": ("user is added to the allowlist", "users are added to the allowlist"),
    "removed": ("player is removed from the allowlist", "players are removed from the allowlist"),
    "taken_off": (
        "user was taken off the allowlist in the game, and stays off",
        "users were taken off the allowlist in the game, and stay off",
    ),
}


def describe_plan(report: SyncReport, max_names: int) -> Iterator[str]:
    """Yield lines about a plan: changes, what is held back and what to do about it, conflicts, errors."""
    yield f"{report.scanned:,} players looked at; nothing is written by a plan"
    yield "A run would change:" if report.changes else "A run would change nothing."
    yield from _describe_changes(report.changes)
    if report.held_back is not None:
        yield f"It would hold back, as {report.held_back.why()}:"
        yield from _describe_changes(report.changes_held_back)
        yield f"  {advise_on_held_back(report.held_back, restores_players=report.restores_players)}"
    if report.listed is not None:
        yield from _describe_list_plan(report.listed, max_names)
    by_kind: dict[tuple[str, str, str | None], list[str]] = defaultdict(list)
    for conflict in report.conflicts:
        by_kind[_kind_of(conflict)].append(conflict.username)
    if by_kind:
        yield "It would report:"
    for kind, names in by_kind.items():
        yield f"  {describe_conflict(*kind, len(names))}: {_list(names[:max_names], len(names))}"
    for error in report.errors[:max_names]:
        yield f"error: {error.username or 'everything'}: {error.error}"
    if len(report.errors) > max_names:
        yield f"error: and {len(report.errors) - max_names:,} more"


def _describe_changes(changes: Mapping[str, Changes]) -> Iterator[str]:
    for each in changes.values():
        yield f"  {_named((each.one, each.several), each.count, each.names)}"


def _describe_list_plan(report: ListReport, max_names: int) -> Iterator[str]:
    """Yield lines about what a run would do about the game's allowlist."""
    yield "On the game's allowlist it would change:" if report.counts else "On the game's allowlist, nothing."
    for kind, count in report.counts.items():
        yield f"  {_named(LIST_PLANNED[kind], count, report.names[kind][:max_names])}"
    if report.held_back:
        yield f"It would hold back, as more than {report.limit} at once:"
        for kind, count in report.held_back.items():
            yield f"  {_named(LIST_PLANNED[kind], count, report.held_back_names[kind][:max_names])}"
        yield f"  If that is meant, run {_ALLOW}."
    if report.unavailable is not None:
        yield f"error: the allowlist: {report.unavailable}"
    if report.doubt is not None:
        yield f"error: the allowlist: {report.doubt} joined with a UUID that contradicts the server's config"


def _named(words: tuple[str, str], count: int, names: Sequence[str]) -> str:
    return f"{count:,} {words[0] if count == 1 else words[1]}: {_list(names, count)}"


def _list(names: Sequence[str], count: int) -> str:
    return ", ".join(names) + (f" and {count - len(names):,} more" if count > len(names) else "")


def describe_held_back(held_back: HeldBack, listed: int = 0) -> Sentence:
    """Return what was held back: "600 players whose rows are gone from AuthMe's table and 3 locks".

    `listed`: changes of the game's allowlist.
    """
    parts = [
        plural(
            held_back.missing,
            "{count:,} player whose row is gone from AuthMe’s table",
            "{count:,} players whose rows are gone from AuthMe’s table",
        ),
        plural(
            held_back.passwords,
            "{count:,} password that is an earlier one again",
            "{count:,} passwords that are earlier ones again",
        ),
        plural(
            held_back.removed - held_back.missing,
            "{count:,} removal of the players of deleted users",
            "{count:,} removals of the players of deleted users",
        ),
        plural(held_back.locked - held_back.ended, "{count:,} lock", "{count:,} locks"),
        plural(held_back.ended, "{count:,} end of a membership", "{count:,} ends of memberships"),
        plural(held_back.edited, "{count:,} status change made in SQL", "{count:,} status changes made in SQL"),
        plural(listed, "{count:,} change of the allowlist", "{count:,} changes of the allowlist"),
    ]
    held = [part for part in parts if part.facts["count"]]
    return _list_all(held) if held else Sentence("changes")


def advise_on_held_back(held_back: HeldBack, *, restores_players: bool) -> Sentence:
    """Return what to do if it is meant, and if it is not; `restores_players`: `sync.on_player_removed = "restore"`."""
    effects = []
    if held_back.missing and restores_players:
        effects.append(Sentence("adds these players again with their last passwords"))
    elif held_back.missing:
        effects.append(Sentence("records that these players are gone, whose users stay"))
    if held_back.passwords:
        effects.append(Sentence("takes the earlier passwords"))
    if held_back.removed > held_back.missing:
        effects.append(Sentence("removes the players of deleted users"))
    if held_back.locked > held_back.ended:
        effects.append(Sentence("locks these players"))
    if held_back.ended:
        effects.append(Sentence("ends these memberships"))
    if held_back.edited:
        effects.append(Sentence("carries out the status changes"))
    if effects:
        sentences = [
            Sentence("If that is meant, run {command}: it {effects}.", command=_ALLOW, effects=_list_all(effects))
        ]
    else:
        sentences = [Sentence("If that is meant, run {command}.", command=_ALLOW)]
    if held_back.missing or held_back.passwords:
        sentences.append(
            Sentence(
                "If not, because an older backup of AuthMe’s table was restored, for example: restore a newer one, and "
                "nothing is held back any more."
            )
        )
    if held_back.missing and not restores_players:
        sentences.append(
            Sentence(
                'Without a newer one, set sync.on_player_removed = "restore", restart the companion, and then run the '
                "command: it adds the players again with their last passwords."
            )
        )
    if held_back.missing and restores_players:
        sentences.append(
            Sentence('If they are to stay away, set sync.on_player_removed = "respect" first, and restart.')
        )
    if held_back.ended:
        sentences.append(
            Sentence("If the clock is wrong, or membership.idle too short, correct it: until then nobody is shut out.")
        )
    if held_back.edited or held_back.removed > held_back.missing:
        sentences.append(Sentence("If an SQL statement hit too many users, undo it: until then nothing has happened."))
    return join(sentences, "{first} {next}")


def describe_conflicts(conflicts: Sequence[SyncConflictFields]) -> list[str]:
    """Return a sentence for each kind of conflict."""
    return [describe_conflict(*kind, count) for kind, count in Counter(map(_kind_of, conflicts)).items()]


def _kind_of(conflict: SyncConflictFields) -> tuple[str, str, str | None]:
    return conflict.field, conflict.kept, conflict.why or None


def describe_conflict(field: str, kept: str, cause: str | None, count: int) -> str:
    """Return words for this number of conflicts of a kind: "3 e-mail addresses differ (each side keeps its own …)"."""
    one, several, why = _CONFLICTS[field, kept, cause]
    return f"{count:,} {one if count == 1 else several} ({why})"


def _list_all(parts: Sequence[Sentence]) -> Sentence:
    """Return "a, b and c"."""
    if len(parts) == 1:
        return parts[0]
    return Sentence("{first} and {next}", first=join(parts[:-1], "{first}, {next}"), next=parts[-1])


# --- Audit entries and log lines of a sync run, also about dates in our tables that cannot be read ---


log = logging.getLogger("regsvc.sync.run")

_MAX_NAMED: Final = 20
"""More dates at once than this share one log line and one audit entry."""

_MAX_REMEMBERED: Final = 10_000

_IS_CHANGED: Final = "changed_at IS NOT NULL"

_IS_ANY: Final = "1 = 1"


class RunLog:
    """Audit entries and log lines of runs, repeating a warning only when its subject has changed."""

    def __init__(self, database: Database, audit: Audit) -> None:
        self._database = database
        self._audit = audit
        self._held_back: HeldBack | None = None
        self._unavailable: str | None = None
        self._missing_column: str | None = None
        self._recorded_dates: set[UnreadableDate] = set()

    def record(self, report: SyncReport) -> None:
        """Audit and log a finished run. Call it outside every transaction."""
        if report.has_effects:
            with self._database.atomic():
                self._audit.record("sync.run", SYNC, None, report.counts())
            self._log_effects(report)
        self._record_held_back(report)
        self._log_availability(report.unavailable)

    def _log_effects(self, report: SyncReport) -> None:
        parts = [counts_in_words(report.counts()), *describe_conflicts(report.conflicts)]
        if not report.is_complete:
            parts.append("stopped before the end: the next run does the rest")
        log.info("sync: %s", "; ".join(parts))
        if report.missing_email_column is not None and report.missing_email_column != self._missing_column:
            log.warning(
                "the sync adopted players without their e-mail addresses: AuthMe's table has no column %s "
                "(DataSource.mySQLColumnEmail in AuthMe's config)",
                report.missing_email_column,
            )
            self._missing_column = report.missing_email_column

    def _record_held_back(self, report: SyncReport) -> None:
        held_back = report.held_back
        if held_back is not None and held_back != self._held_back:
            with self._database.atomic():
                self._audit.record("sync.braked", SYNC, None, held_back.counts())
            log.warning(
                "the sync held back %s: %s. companion sync --plan names them. %s",
                describe_held_back(held_back),
                held_back.why(),
                advise_on_held_back(held_back, restores_players=report.restores_players),
            )
        self._held_back = held_back

    def _log_availability(self, unavailable: str | None) -> None:
        if unavailable is not None and self._unavailable is None:
            log.warning("the sync is paused: %s", unavailable)
        elif unavailable is None and self._unavailable is not None:
            log.info("the sync continues: AuthMe's table is available again")
        self._unavailable = unavailable

    def report_dates(self, report: SyncReport, *, is_plan: bool, is_full: bool) -> None:
        """Add the unreadable dates of the users that changed since the last run, or of all users, to the report.

        Each is logged and audited once; a plan records nothing.
        """
        found = list_unreadable_dates(self._database, _IS_ANY if is_full or is_plan else _IS_CHANGED)
        for date in found:
            report.add_error(date.username.lower(), f"{date.column} is '{date.value}', which is no date")
        new = [date for date in found if date not in self._recorded_dates]
        if is_plan or not new:
            return
        with self._database.atomic():
            self._record_dates(new)
        for date in new[:_MAX_NAMED]:
            log.warning(
                "%s, which is no date: it counts as empty until it is corrected in SQL, such as '2031-06-01 18:30:00'",
                date,
            )
        if len(new) > _MAX_NAMED:
            log.warning("%d more dates in regsvc_user cannot be read (companion doctor)", len(new) - _MAX_NAMED)
        if len(self._recorded_dates) + len(new) > _MAX_REMEMBERED:
            self._recorded_dates.clear()
        self._recorded_dates.update(new)

    def _record_dates(self, dates: list[UnreadableDate]) -> None:
        named, others = dates[:_MAX_NAMED], dates[_MAX_NAMED:]
        details = [("sync.edit_refused", date.username, {"column": date.column, "value": date.value}) for date in named]
        self._audit.record_all(SQL, details)
        if others:
            detail = {"dates": len(others), "first": others[0].username, "last": others[-1].username}
            self._audit.record("sync.edit_refused", SQL, None, detail)
