"""Sentences for hosts about plans, what the mass-change guard held back, and conflicts."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from regsvc.allowlist.run import ListReport
from regsvc.core.i18n.sentences import Sentence, join, plural
from regsvc.sync.report import HeldBack, SyncReport

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
PLANNED: Final[Mapping[str, tuple[str, str]]] = {
    "adopted": ("player gets a user here", "players get users here"),
    "provisioned": ("user is added to the game", "users are added to the game"),
    "returning": ("player whose row is gone is added again", "players whose rows are gone are added again"),
    "missing": ("player whose row is gone stays away", "players whose rows are gone stay away"),
    "updated": ("account is updated on one side", "accounts are updated on one side"),
    "passwords": ("password becomes an earlier one again", "passwords become earlier ones again"),
    "locked": ("player is locked", "players are locked"),
    "restored": ("player is unlocked", "players are unlocked"),
    "removed": ("player of a deleted user is removed", "players of deleted users are removed"),
    "edited": ("status change made in SQL is carried out", "status changes made in SQL are carried out"),
    "unbanned": ("ban ends", "bans end"),
    "rejected": (
        "registration is rejected: the name is a player's",
        "registrations are rejected: the names are players'",
    ),
    "renamed": ("rename made in SQL is undone", "renames made in SQL are undone"),
}
"""Words for one and for several planned changes, by kind."""
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
_GUARDED: Final = frozenset({"returning", "missing", "passwords", "locked", "removed", "edited"})


def describe_plan(report: SyncReport, max_names: int) -> Iterator[str]:
    """Yield lines about a plan: changes, what is held back and what to do about it, conflicts, errors."""
    held_back = report.held_back
    changes = {kind: planned for kind, planned in report.planned.items() if held_back is None or kind not in _GUARDED}
    yield f"{report.scanned:,} players looked at; nothing is written by a plan"
    yield "A run would change:" if changes else "A run would change nothing."
    yield from (f"  {_named(PLANNED[kind], planned.count, planned.names)}" for kind, planned in changes.items())
    if held_back is not None:
        yield f"It would hold back, as more than {held_back.limit} at once:"
        left = {kind: planned for kind, planned in report.planned.items() if kind in _GUARDED}
        yield from (f"  {_named(PLANNED[kind], planned.count, planned.names)}" for kind, planned in left.items())
        yield f"  {advise_on_held_back(held_back, restores_players=report.restores_players)}"
    if report.allowlist is not None:
        yield from _describe_list_plan(report.allowlist, max_names)
    by_kind: dict[tuple[str, str, str | None], list[str]] = defaultdict(list)
    for conflict in report.conflicts:
        by_kind[_kind_of(conflict)].append(conflict["username"])
    if by_kind:
        yield "It would report:"
    for kind, names in by_kind.items():
        yield f"  {describe_conflict(*kind, len(names))}: {_list(names[:max_names], len(names))}"
    for error in report.errors[:max_names]:
        yield f"error: {error['username'] or 'everything'}: {error['error']}"
    if len(report.errors) > max_names:
        yield f"error: and {len(report.errors) - max_names:,} more"


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
        plural(held_back.locked, "{count:,} lock", "{count:,} locks"),
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
    if held_back.locked:
        effects.append(Sentence("locks these players"))
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
    if held_back.edited or held_back.removed > held_back.missing:
        sentences.append(Sentence("If an SQL statement hit too many users, undo it: until then nothing has happened."))
    return join(sentences, "{first} {next}")


def describe_conflicts(conflicts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each kind of conflict."""
    return [describe_conflict(*kind, count) for kind, count in Counter(map(_kind_of, conflicts)).items()]


def _kind_of(conflict: Mapping[str, Any]) -> tuple[str, str, str | None]:
    return conflict["field"], conflict["kept"], conflict.get("why")


def describe_conflict(field: str, kept: str, cause: str | None, count: int) -> str:
    """Return words for this number of conflicts of a kind: "3 e-mail addresses differ (each side keeps its own …)"."""
    one, several, why = _CONFLICTS[field, kept, cause]
    return f"{count:,} {one if count == 1 else several} ({why})"


def _list_all(parts: Sequence[Sentence]) -> Sentence:
    """Return "a, b and c"."""
    if len(parts) == 1:
        return parts[0]
    return Sentence("{first} and {next}", first=join(parts[:-1], "{first}, {next}"), next=parts[-1])
