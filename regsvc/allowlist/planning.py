"""The plan of a run of the allowlist: the run itself, on a list and records in memory."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from plugin_bridge.server.allowlist import Allowlist, Entry, Listing
from plugin_bridge.server.files import ServerFileError
from plugin_bridge.server.player_uuids import is_bedrock
from regsvc.allowlist.rules import ListChange, Member
from regsvc.allowlist.run import AllowlistRunner, Known, ListConfig, ListReport
from regsvc.core.text import name_key
from regsvc.database.models import ADD, APPROVED, REMOVE, AllowlistState


class PlannedUser(NamedTuple):
    """A user as a plan of the sync has changed them, in fields of `Known`; without a name there is none any more."""

    username: str | None = None
    status: str | None = None
    wanted: str | None = None
    platform: str = ""
    user_id: int | None = None


@dataclass(frozen=True)
class PlannedUsers:
    """Changes of a planned sync run that the run of the allowlist after it would find."""

    users: dict[str, PlannedUser] = field(default_factory=dict)
    """By lower-case name."""
    decided: list[tuple[str, int | None, str | None]] = field(default_factory=list)
    """Names, ids and new statuses that transitions note for the list (`Transitions`)."""


class _PlannedList:
    """The game's list in memory, as a run of the plan has changed it."""

    def __init__(self, file: Allowlist) -> None:
        self.is_file = file.is_file
        self._file = file
        self._listing: Listing | None = None

    def find_stamp(self) -> object:
        return self._file.find_stamp()

    def read(self) -> Listing:
        self._listing = self._listing or self._file.read()
        return self._listing

    def change(self, add: Iterable[Entry], remove: Iterable[Entry]) -> None:
        before, added = self.read(), {self._key(entry): entry for entry in add}
        taken = added.keys() | {self._key(entry) for entry in remove}
        entries = *(entry for entry in before.entries if self._key(entry) not in taken), *added.values()
        stamp = (before.stamp or True) if self.is_file else len(entries) or None
        self._listing = Listing(entries, stamp)

    def _key(self, entry: Entry) -> str:
        return entry.uuid if self.is_file else name_key(entry.name)


class PlannedAllowlist(AllowlistRunner):
    """Runner of a plan, in place of this runner, after the plan of a sync."""

    def __init__(self, runner: AllowlistRunner, sync: PlannedUsers) -> None:
        vars(self).update(vars(runner))
        self._file = cast("Allowlist", _PlannedList(runner._file))
        self._found: dict[str, Known] = {}
        self._changed: dict[str, Known] = {}
        self._sync = sync

    def run(self, *, allow_mass_changes: bool = False) -> ListReport:
        config = self._begin()
        report = ListReport(limit=str(config.max_changes))
        try:
            self._take_over_sync()
            self._run(report, config, allow_mass_changes=allow_mass_changes)
        except ServerFileError as problem:
            report.unavailable = str(problem)
        return report

    def _take_over_sync(self) -> None:
        decided = {name_key(name): (name, target) for name, _id, target in self._sync.decided}
        keys = sorted(self._sync.users.keys() | decided.keys())
        self._changed = self._find_known(keys)
        for key in keys:
            known = self._changed.get(key, Known())
            if key in self._sync.users:
                known = known._replace(**self._sync.users[key]._asdict())
            if key in decided:
                name, target = decided[key]
                state: AllowlistState = ADD if target == APPROVED else REMOVE
                known = known._replace(listed_name=known.listed_name or name, state=state, reason=None)
            self._changed[key] = known

    def _read_records(self) -> tuple[dict[str, str], dict[str, Known]]:
        quiet, known = super()._read_records()
        for key, it in self._changed.items():
            quiet.pop(key, None)
            known.pop(key, None)
            if it.listed_name is not None or it.status == APPROVED:
                known[key] = it
        return quiet, known

    def _find_users(self, keys: Sequence[str]) -> dict[str, Known]:
        return super()._find_users(keys) | {key: self._changed[key] for key in keys if key in self._changed}

    def _make_member(self, key: str, own: tuple[Entry, ...], known: Known, *rest: Any, **more: Any) -> Member:
        self._found[key] = known
        return super()._make_member(key, own, known, *rest, **more)

    def _record(
        self, changes: Sequence[tuple[Member, ListChange]], config: ListConfig
    ) -> Sequence[tuple[Member, ListChange]]:
        for member, change in changes:
            known = self._found[member.key]
            if change.effect == "approve":  # or a membership that has ended begins anew
                known = known._replace(status=APPROVED, wanted=APPROVED)
            elif change.effect == "adopt":
                status = self._status_of_adopted(config)
                platform = "bedrock" if change.uuid and is_bedrock(change.uuid) else "java"
                known = known._replace(username=member.username, status=status, wanted=status, platform=platform)
            name = member.username if change.state is not None else None
            uuid, reason = change.uuid or None, change.reason
            known = known._replace(listed_name=name, state=change.state, uuid=uuid, reason=reason)
            self._changed[member.key] = known
        return changes

    def _load(self) -> bool:
        return True
