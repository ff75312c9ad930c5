"""Runner of the allowlist: compares the game's list with our users, and lets each follow the other.

A run writes our side first, then the file; the server reloads it, and the file is read again: only what is in it then
is confirmed. What is lost on the way, by a crash or because the running server wrote its own list over ours, is found
missing by the next run.
"""

import asyncio
import logging
import socket
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from peewee import JOIN, Database, fn

from plugin_bridge.authme.players import is_findable
from plugin_bridge.server.allowlist import Allowlist, Entry, Listing
from plugin_bridge.server.files import PropertiesFile, ServerFileError, ServerProperties
from plugin_bridge.server.player_uuids import PlayerUuids, UuidFamily, is_bedrock, offline_uuid
from plugin_bridge.server.rcon import RELOAD_ALLOWED, RconAddress, RconError, is_listable, open_rcon
from regsvc.allowlist.rules import ListChange, ListPolicy, ListRecord, Member, decide, hold_back
from regsvc.config.live import LiveConfig
from regsvc.config.sections import Config
from regsvc.core.addresses import connect_host
from regsvc.core.clock import Clock, to_milliseconds
from regsvc.core.text import clean_name, name_key
from regsvc.core.units import ChangeLimit
from regsvc.database.audit import GAME, SYNC, Audit
from regsvc.database.bulk import insert_rows, select_rows
from regsvc.database.models import (
    ADD,
    APPROVED,
    BANNED,
    ENDED,
    LISTED,
    PENDING,
    REJECTED,
    REMOVE,
    TAKEN_OFF,
    Allowed,
    AllowlistState,
    Lease,
    User,
)
from regsvc.notifications.rcon import Cause, FindAddress, RconQueue
from regsvc.users.credential_rules import name_on_bedrock
from regsvc.users.gates import HELD_BACK, NO_UUID, REFUSED, RESTART, UUID_IN_DOUBT, access_of
from regsvc.users.membership import Memberships
from regsvc.users.transitions import DecisionDetails, Transitions

log = logging.getLogger(__name__)

_ROUNDS: Final = 6
"""Two are enough unless the server, or an operator in the game, changes the list at the same time."""
_ATTEMPTS: Final = 4
"""Fewer than rounds: how often a change is written in one run, unless the console changes the list itself."""
_BATCH: Final = 20
"""Names in one round that the console changes; the rest waits: the game stands still while it asks Mojang for one."""
_NAMED: Final = 3  # names in a line of the log
_RETRY_SECONDS: Final = 3600
_LOOK_SECONDS: Final = 60
"""How often the console is asked for the list, whose changes no stamp tells."""
_CONNECT_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class ListConfig:
    """The config of the list, as it is in force."""

    approves_added: bool
    restores: bool
    adopts: bool
    existing_players: str
    new_players: str
    family: UuidFamily | None
    """Whose UUIDs players have; None: as the server's files say."""
    max_changes: ChangeLimit
    prefix: str | None = None
    """Floodgate's; None: there are no Bedrock players."""


def keeps_list(config: Config, properties: ServerProperties | None) -> bool:
    """Return whether the game's allowlist follows our decisions; `properties` as its server.properties are now."""
    if config.game.directory is None or config.allowlist.enabled is False:
        return config.allowlist.enabled is True
    return config.allowlist.enabled is True or (properties is not None and properties.white_list)


def read_list_config(live: LiveConfig, *, adopts: bool) -> ListConfig:
    """Return the config in force. `adopts`: whether no other gate is the source of players."""
    config, allowlist, sync = live.current, live.current.allowlist, live.current.sync
    return ListConfig(
        approves_added=allowlist.on_added == "approve",
        restores=sync.on_player_removed == "restore",
        adopts=adopts,
        existing_players=sync.existing_players,
        new_players=config.new_players,
        family=None if allowlist.uuids == "auto" else allowlist.uuids,
        max_changes=sync.max_changes,
        prefix=config.bedrock.prefix if config.bedrock.enabled else None,
    )


COUNTS: Final = ("added", "removed", "adopted", "approved", "taken_off")
_AUDITED: Final = {"taken_off": "takenOff"}  # as the audit log has it


@dataclass
class ListReport:
    """Counts and names of the changes that a run made, or would make, by kind (`COUNTS`)."""

    counts: Counter[str] = field(default_factory=Counter)
    names: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    held_back: Counter[str] = field(default_factory=Counter)
    held_back_names: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    limit: str = ""
    """`sync.max_changes`, as the config writes it."""
    unavailable: str | None = None
    """Why the list cannot be read or written."""
    doubt: str | None = None
    """A player who joined with a UUID that contradicts the server's config; no entry is added then."""
    refused: list[str] = field(default_factory=list)
    """Names that the server's list does not take, or does not let go."""
    is_loaded: bool = True
    """Whether the running server knows the list as it is in the file."""


class Known(NamedTuple):
    """Our user of a name, if there is one, and what the list's record says, if there is one."""

    username: str | None = None
    status: str | None = None
    wanted: str | None = None
    """Another one than `status` after an SQL edit that was not applied yet."""
    platform: str = ""
    user_id: int | None = None
    listed_name: str | None = None
    state: AllowlistState | None = None
    uuid: str | None = None
    reason: str | None = None


RowRequester = Callable[[Collection[str]], Callable[[Collection[str]], Collection[int]]]
"""`Reconciler.row_requester`, for AuthMe's rows of those who are approved; it returns ids of users by their names."""


class AllowlistRunner:
    """Runner over all names on the list and all users who may play. Blocking: it has the sync's thread and lease."""

    def __init__(
        self,
        database: Database,
        file: Allowlist,
        uuids: PlayerUuids,
        properties: PropertiesFile,
        find_console: FindAddress,
        transitions: Transitions,
        console: RconQueue,
        audit: Audit,
        config: Callable[[], ListConfig],
        now: Clock,
        *,
        is_on: Callable[[], bool] = lambda: True,
        find_operators: Callable[[], Mapping[str, tuple[str, str]]] = dict,
        row_requester: RowRequester = lambda keys: lambda keys: (),
    ) -> None:
        """`find_console` may block; `is_on`: whether the list is kept at this moment.

        `find_operators` returns name and UUID of operators, by lower-case name.
        """
        self.is_on = is_on
        self._database = database
        self._file = file
        self._uuids = uuids
        self._properties = properties
        self._find_console = find_console
        self._transitions = transitions
        self._console = console
        self._audit = audit
        self._config = config
        self._now = now
        self._find_operators = find_operators
        self._row_requester = row_requester
        self._seen: object = object()  # the file's stamp, and what else a run depends on, as the last one read it
        self._read_inputs: object = None  # the same of a run that is under way
        self._may_have_lost = False
        self._tried: Counter[str] = Counter()  # how often the names were written in this run
        self._retries = True  # whether this run tries what was refused
        self._hour = self._retried_in = -1  # the hour, by the clock
        self._told: list[str] = []
        self._console_problem = ""  # why the server could not be told to read the list
        self.last_report: ListReport | None = None
        """Report of the last run that found something to do; None before the first."""

    def close(self) -> None:
        """Let go of the file. Blocking."""
        self._file.close()

    def is_due(self) -> bool:
        """Return whether there may be something to do: the list changed, or something is to be added or removed."""
        if not self.is_on():
            return False
        try:
            return self._seen != self._find_inputs() or _has_open()
        except ServerFileError:
            return True  # the run tells

    def run(self, *, allow_mass_changes: bool = False) -> ListReport:
        """Bring the list and our users in accord."""
        config = self._begin()
        report = ListReport(limit=str(config.max_changes))
        try:
            self._file.settle()
            started_at = to_milliseconds(self._now())
            report.is_loaded = self._run(report, config, allow_mass_changes=allow_mass_changes)
            self._seen = self._read_inputs
            mark: Any = Lease.replace(name=_COMPLETED, holder="", expires_at=started_at)  # type: ignore[no-untyped-call]
            mark.execute()
            self._may_have_lost, self._retried_in = False, self._hour
        except ServerFileError as problem:
            report.unavailable = str(problem)
            self._may_have_lost, self._seen = self._file.is_file, object()
        self._log(report, config)
        self.last_report = report
        return report

    def _begin(self) -> ListConfig:
        self._hour = int(self._now().timestamp()) // _RETRY_SECONDS
        self._tried, self._retries = Counter(), self._hour != self._retried_in
        return self._config()

    def _log(self, report: ListReport, config: ListConfig) -> None:
        """Log what was done, and each problem once until it is another one."""
        if report.counts:
            log.info("allowlist: %s", _in_words(report.counts))
        held_before = self.last_report.held_back if self.last_report is not None else Counter[str]()
        if report.counts or (report.held_back and report.held_back != held_before):
            counted = {_AUDITED.get(kind, kind): report.counts[kind] for kind in COUNTS}
            counted["heldBack"] = report.held_back.total()
            detail = {name: count for name, count in counted.items() if count}
            with self._database.atomic():
                self._audit.record("allowlist.run", SYNC, None, detail)
        problems = []
        if report.unavailable is not None:
            problems.append(f"the allowlist is not kept: {report.unavailable}")
        if report.doubt is not None:
            problems.append(
                f"nobody is added to the allowlist: {report.doubt} joined with {_DOUBT[self._uuids.family]}; set "
                "allowlist.uuids to what is true of all other players"
            )
        if report.held_back:
            problems.append(
                f"the allowlist waits with {_in_words(report.held_back)}: more than {config.max_changes} at once. If "
                "that is meant, run companion sync --allow-mass-changes"
            )
        if report.refused:
            names = ", ".join(report.refused[:_NAMED]) + (", ..." if len(report.refused) > _NAMED else "")
            problems.append(
                f"the game server's allowlist does not follow for {len(report.refused):,} players ({names}): a plugin "
                "objects, or it cannot tell their UUIDs"
            )
        if not report.is_loaded:
            problems.append(
                f"the running game server cannot be told to read its allowlist: {self._console_problem}. Changes count "
                "once it starts again"
            )
        for problem in problems:
            if problem not in self._told:
                log.warning("%s", problem)
        self._told = problems

    def _run(self, report: ListReport, config: ListConfig, *, allow_mass_changes: bool) -> bool:
        """Return whether the server knows the list as it is in the end."""
        is_loaded = False
        for _round in range(_ROUNDS):
            changes = self._plan(report, config, is_loaded=is_loaded, allow_mass_changes=allow_mass_changes)
            if self._write(report, self._record(changes, config)):
                is_loaded = self._load()
                if not is_loaded:  # the server has refused nothing that it has not read
                    self._tried = Counter(dict.fromkeys(self._tried, 1))
            elif changes:
                continue  # what one change leads to may be another one
            elif is_loaded or not _has_open():
                return True
            elif not (is_loaded := self._load()):
                break
        return False

    def _plan(
        self, report: ListReport, config: ListConfig, *, is_loaded: bool, allow_mass_changes: bool
    ) -> list[tuple[Member, ListChange]]:
        """Return the changes to make now; of those that the guard holds back only the note that it does."""
        self._read_inputs = self._find_inputs()  # before they are read: what changes meanwhile makes another run due
        listing = self._file.read()
        members, records = self._load_members(listing, report, config)
        properties = self._properties.current
        policy = ListPolicy(
            config.approves_added,
            config.restores,
            config.adopts,
            is_loaded,
            self._may_have_lost or listing.stamp is None or (not listing.entries and records > 1),
            UUID_IN_DOUBT if report.doubt else NO_UUID,
            properties is not None and properties.enforce_whitelist,
        )
        is_refused = [member for member in members if member.record is not None and member.record.reason == REFUSED]
        report.refused[:] = [member.username for member in is_refused]
        changes = [(member, change) for member in members if (change := decide(member, policy)) is not None]
        guarded = [(member, change) for member, change in changes if change.is_guarded]
        report.held_back.clear()
        report.held_back_names.clear()
        if allow_mass_changes or not config.max_changes.is_exceeded_by(
            len(guarded), max(records, len(listing.entries))
        ):
            return changes
        for member, change in guarded:
            kind = _kind_of(change) or "added"
            report.held_back[kind] += 1
            report.held_back_names[kind].append(member.username)
        notes = [(member, note) for member, change in guarded if (note := hold_back(member, change)) is not None]
        return [(member, change) for member, change in changes if not change.is_guarded] + notes

    def _load_members(self, listing: Listing, report: ListReport, config: ListConfig) -> tuple[list[Member], int]:
        """Return operators and all names with an entry, a record, or a user who may play; how many are to be listed.

        The order in which UUIDs are believed: of who has joined, of the operators without a decision, derived from the
        name. An entry that is there, and the UUID in the record, which may be Mojang's answer, are the rules' business.
        """
        quiet, known = self._read_records()
        is_sound = [it.state == LISTED or (it.state == ADD and it.reason != HELD_BACK) for it in known.values()]
        records = len(quiet) + sum(is_sound)
        entries = self._group(listing.entries, _find_keys(quiet, known), config.prefix)
        settled = {key for key, uuid in quiet.items() if [entry.uuid for entry in entries.get(key, ())] == [uuid]}
        settled -= self._uuids.find_others(quiet)
        operators = self._find_operators()
        others = {key for key in entries.keys() | operators.keys() if _is_name(key)} - quiet.keys() - known.keys()
        keys = list(others | (quiet.keys() - settled))
        known |= dict.fromkeys(keys, Known())
        known |= self._find_users(keys)
        old = self._find_old({key: known[key].status for key in others}, config)
        family = config.family or self._uuids.family
        if config.family is None:
            users = {key for key, it in known.items() if it.status is not None}
            report.doubt = self._uuids.find_doubt(users | settled, family)
        members = [
            self._make_member(
                key, tuple(entries.get(key, ())), known[key], operators.get(key), family, may_be_old=key in old
            )
            for key in sorted(known)
            if known[key].status in (known[key].wanted, APPROVED, ENDED)  # else an SQL edit is to be applied first
        ]
        return members, records

    def _read_records(self) -> tuple[dict[str, str], dict[str, Known]]:
        """Return the UUIDs of names that are quiet, and the other names with a record, or a user who may play."""
        quiet: dict[str, str] = dict(self._rows(_of_records(Allowed.uuid).where(_IS_QUIET)))
        known = _to_known(self._rows(_of_records(*_FIELDS).where(_IS_NOT_QUIET)))
        return quiet, known | _to_known(self._rows(_UNLISTED))

    def _find_users(self, keys: Sequence[str]) -> dict[str, Known]:
        """Return what is known of those of these names that have a user."""
        return _to_known(self._find_rows(User, (User.username_key, *_FIELDS), keys, join=_WITH_RECORD))

    def _find_known(self, keys: Sequence[str]) -> dict[str, Known]:
        """Return what is known of those of these names that have a record or a user."""
        found = self._find_users(keys)
        left = [key for key in keys if key not in found]
        for start in range(0, len(left), _KEYS):
            is_one = Allowed.username_key.in_(left[start : start + _KEYS])
            found |= _to_known(self._rows(_of_records(*_FIELDS).where(is_one)))
        return found

    def _group(
        self, entries: Iterable[Entry], keys: Mapping[str, Sequence[str]], prefix: str | None
    ) -> dict[str, list[Entry]]:
        """Return the entries by the names with their UUID (`keys`), or by their own; `prefix`: Floodgate's."""
        found = defaultdict[str, list[Entry]](list)
        for entry in entries:
            name = clean_name(entry.name)
            if is_bedrock(entry.uuid):
                if name == _NAMELESS:
                    name = next((name for name, uuid in self._uuids.joined.items() if uuid == entry.uuid), "")
                elif prefix is not None:
                    name = name_on_bedrock(name, prefix)
            for key in keys.get(entry.uuid) or [name_key(name)]:
                found[key].append(entry if name == entry.name else Entry(entry.uuid, name))
        return found

    def _make_member(
        self,
        key: str,
        own: tuple[Entry, ...],
        known: Known,
        operator: tuple[str, str] | None,
        family: UuidFamily | None,
        *,
        may_be_old: bool,
    ) -> Member:
        name, status, _wanted, platform, user_id, listed_name, *remembered = known
        record = None if listed_name is None else ListRecord._make(remembered)
        op_name, op_uuid = operator or (None, None)
        name = name or listed_name or (own[0].name if own else op_name or key)
        is_on_bedrock, is_file = platform == "bedrock", self._file.is_file
        joined = self._uuids.find_joined(name, family, is_on_bedrock=is_on_bedrock) if is_file else None
        derived = offline_uuid(name) if family == "offline" and not is_on_bedrock else None
        uuid = joined[1] if joined else derived if is_file else ""
        if op_uuid is not None and (uuid is None or (not joined and status != APPROVED)):
            uuid = op_uuid
        if is_on_bedrock and status == APPROVED:
            own = tuple(entry for entry in own if is_bedrock(entry.uuid))
        elif family == "offline" and status == APPROVED:  # in another case, it is another player to the game
            accepted = {uuid, record.uuid if record is not None else None}
            own = tuple(entry for entry in own if entry.name == name or entry.uuid in accepted)
        if is_on_bedrock or family != "offline":  # as the player joined, or as Mojang spells it
            name = joined[0] if joined else listed_name or name
        return Member(
            key,
            name,
            status,
            record,
            own,
            uuid,
            has_joined=joined is not None,
            is_refused=self._is_refused(key, name, record),
            is_on_bedrock=is_on_bedrock,
            is_operator=op_uuid is not None,
            user_id=user_id,
            may_be_old=may_be_old,
        )

    def _find_old(self, statuses: Mapping[str, str | None], config: ListConfig) -> set[str]:
        """Return the names whose entries, of which there are no records, may be older than the users' statuses.

        On the first run all of them are: `sync.existing_players` says whether who waits for review is let in by that.
        Later those of users who were rejected since the last run, as while the list was not kept.
        """
        rejected = [key for key, status in statuses.items() if status == REJECTED]
        mark = self._find_mark()
        if mark is None:
            is_pending = config.existing_players != APPROVED
            return {key for key, status in statuses.items() if status == REJECTED or (is_pending and status == PENDING)}
        rows = self._find_rows(User, (User.username_key, User.reviewed_at), rejected)
        return {key for key, reviewed_at in rows if reviewed_at is None or reviewed_at > mark}

    def _find_mark(self) -> datetime | None:
        """Return when the last run was completed, by whichever process; None before the first."""
        mark = Lease.get_or_none(Lease.name == _COMPLETED)
        return None if mark is None else mark.expires_at

    def _is_refused(self, key: str, name: str, record: ListRecord | None) -> bool:
        """Return whether no change of this name is to be tried now."""
        if record is not None and record.reason == REFUSED and not self._retries:
            return True
        if self._file.is_file:
            return self._tried[key] >= _ATTEMPTS
        return self._tried[key] > 0 or not is_listable(name)

    def _rows(self, query: Any) -> list[tuple[Any, ...]]:
        """Return the rows as the driver does: peewee's conversion takes longer than the query."""
        return list(self._database.execute(query).fetchall())

    def _find_rows(
        self, model: Any, fields: Sequence[Any], keys: Sequence[str], *, join: str = "", for_update: bool = False
    ) -> Iterator[tuple[Any, ...]]:
        for start in range(0, len(keys), _KEYS):
            part, key = keys[start : start + _KEYS], model.username_key
            yield from select_rows(self._database, model, fields, key, part, join=join, for_update=for_update)

    def _record(
        self, changes: Sequence[tuple[Member, ListChange]], config: ListConfig
    ) -> Sequence[tuple[Member, ListChange]]:
        """Write our side of the changes, and return them without those that a decision has overtaken."""
        if not changes:
            return changes
        moment = self._now()
        request_rows = self._row_requester([member.key for member, change in changes if change.effect == "approve"])
        with self._database.atomic():
            fields = (Allowed.username_key, Allowed.state, Allowed.uuid, Allowed.reason)
            found = self._find_rows(Allowed, fields, [member.key for member, _change in changes], for_update=True)
            records = {key: ListRecord(*rest) for key, *rest in found}
            changes = [(member, change) for member, change in changes if member.record == records.get(member.key)]
            self._approve([member.key for member, change in changes if change.effect == "approve"], request_rows)
            ids = self._adopt([(member, change) for member, change in changes if change.effect == "adopt"], config)
            taken_off = [member.username for member, change in changes if change.state == TAKEN_OFF]
            self._record_many("allowlist.taken_off", taken_off)
            rows = [
                {
                    "username_key": member.key,
                    "username": member.username,
                    "state": change.state,
                    "uuid": change.uuid or None,
                    "reason": change.reason,
                    "since": moment,
                    "user_id": ids.get(member.key, member.user_id),
                }
                for member, change in changes
                if change.state is not None
            ]
            insert_rows(self._database, Allowed, rows, overwrite=_OVERWRITTEN)
            forgotten = [member.key for member, change in changes if change.state is None]
            for start in range(0, len(forgotten), _ROWS):
                Allowed.delete().where(Allowed.username_key.in_(forgotten[start : start + _ROWS])).execute()
            self._kick([member for member, change in changes if change.state is None])
        return changes

    def _kick(self, members: Iterable[Member]) -> None:
        """Kick who was on the list, and is not any more: without enforce-whitelist the server lets them play on.

        The decision kicked them, too; but until now they could join again.
        """
        gone = [
            (member.username, None, _KICKED_AS.get(member.status, "locked"))
            for member in members
            if member.record is not None and member.record.state == REMOVE and self._was_listed(member.record)
        ]
        if gone and self._console.is_on:
            self._console.on_row_changes(gone)

    def _was_listed(self, record: ListRecord) -> bool:
        return record.uuid is not None or not self._file.is_file

    def _write(self, report: ListReport, changes: Sequence[tuple[Member, ListChange]]) -> bool:
        """Write the list, and return whether it was changed; count all changes. Raises `ServerFileError`."""
        writes = [found for found in changes if _is_write(found[1])]
        _count(report, (found for found in changes if not _is_write(found[1])))
        if not self._file.is_file:
            writes = writes[:_BATCH]
        if not writes:
            return False
        self._file.change(
            [change.add for _member, change in writes if change.add is not None],
            [entry for _member, change in writes for entry in change.remove],
        )
        _count(report, (found for found in writes if found[0].key not in self._tried))
        self._tried.update(member.key for member, _change in writes)
        return True

    def _load(self) -> bool:
        """Let the server read the list; returns whether it has, or will when it starts."""
        while self._file.is_file:
            address = self._find_console()
            try:
                if address is None:
                    raise RconError("set enable-rcon=true and an rcon.password in server.properties, and restart it")
                asyncio.run(_reload(address))
            except RconError as problem:
                self._console_problem = str(problem)
                return not self._is_server_up()
            if not self._file.settle():
                break
        return True

    def _is_server_up(self) -> bool:
        properties = self._properties.refresh()
        if properties is None:
            return True  # nobody knows
        try:
            address = connect_host(properties.server_ip), properties.server_port
            socket.create_connection(address, _CONNECT_SECONDS).close()
        except ConnectionRefusedError:
            return False
        except OSError:
            return True
        return True

    def _approve(self, keys: Sequence[str], request_rows: Callable[[Collection[str]], Collection[int]]) -> None:
        if not keys:
            return
        lacking = request_rows(keys)
        for user in User.select().where(User.username_key.in_(list(keys))):
            if access_of(user) == ENDED:
                Memberships(self._transitions).renew_as_usual([user], GAME)
            else:
                self._transitions.change(user, "approve", GAME, DecisionDetails(needs_password=user.id in lacking))

    def _adopt(self, adopted: Sequence[tuple[Member, ListChange]], config: ListConfig) -> dict[str, int]:
        """Create users for players on the list: those that were there first, and those that came later.

        Returns their ids by `username_key`.
        """
        if not adopted:
            return {}
        status, moment = self._status_of_adopted(config), self._now()
        rows = [
            {
                "username": member.username,
                "username_key": member.key,
                "status": status,
                "applied_status": status,
                "platform": "bedrock" if change.uuid and is_bedrock(change.uuid) else "java",
                "origin": "adopted",
                "created_at": moment,
            }
            for member, change in adopted
        ]
        insert_rows(self._database, User, rows)
        self._record_many("user.adopted", [member.username for member, _change in adopted], {"status": status})
        keys = [member.key for member, _change in adopted]
        return dict(select_rows(self._database, User, (User.username_key, User.id), User.username_key, keys))

    def _status_of_adopted(self, config: ListConfig) -> str:
        if self._find_mark() is None:
            return config.existing_players
        return APPROVED if config.approves_added else config.new_players

    def _record_many(self, action: str, names: Sequence[str], detail: Mapping[str, Any] | None = None) -> None:
        """Audit what was done in the game, name by name unless there are many."""
        if len(names) > _SINGLE_ENTRIES_UP_TO:
            self._audit.record(action, GAME, None, {"count": len(names), "first": names[0], "last": names[-1]})
        elif names:
            self._audit.record_each(action, GAME, names, detail)

    def _find_inputs(self) -> object:
        """Return what a run depends on besides our tables; it changes every hour, too. Raises `ServerFileError`."""
        period = int(self._now().timestamp()) // (_RETRY_SECONDS if self._file.is_file else _LOOK_SECONDS)
        is_strict = self._properties.current and self._properties.current.enforce_whitelist
        operators = self._find_operators() if is_strict else None
        return self._file.find_stamp(), self._uuids.family, self._uuids.joined, self._config(), operators, period


_COMPLETED: Final = "allowlist completed"
"""Row among the leases that tells when: an entry that came since was typed in the game."""
_SINGLE_ENTRIES_UP_TO: Final = 20
_NAMELESS: Final = "unknown"
"""Name that Floodgate gives an entry which it was told the UUID of."""
_LONGEST_NAME: Final = 64  # as at the registration: Floodgate's prefix may be long
_ROWS: Final = 500
_KEYS: Final = 5000  # SQLite takes no more than 32,766 values in a statement
_OVERWRITTEN: Final = (
    Allowed.username,
    Allowed.state,
    Allowed.uuid,
    Allowed.reason,
    Allowed.since,
    Allowed.user_id,
)
_KICKED_AS: Final[Mapping[str | None, Cause]] = {None: "deleted", BANNED: "banned"}
"""By the status of who was taken off the list."""
_DOUBT: Final = {
    "offline": "the UUID of their Minecraft account, but by server.properties and the proxy's settings UUIDs follow "
    "from names",
    "online": "a UUID that follows from their name, but by server.properties and the proxy's settings players have "
    "those of their Minecraft accounts",
    None: "a UUID that contradicts the server's config",
}
"""What is wrong with the player's UUID, by the family that the server's config implies."""
_MAY_PLAY: Final = User.access == APPROVED
_IS_LISTED: Final = (Allowed.state == LISTED) & Allowed.reason.is_null() & Allowed.uuid.is_null(False)
_IS_QUIET: Final = _IS_LISTED & _MAY_PLAY & (User.platform != "bedrock")
"""Almost all names are so, and settled if the file has this UUID and they joined with no other: no more is loaded."""
_IS_NOT_QUIET: Final = fn.COALESCE(_IS_QUIET, 0) == 0
_FIELDS: Final = (
    User.username,
    User.access,
    User.status,
    User.platform,
    User.id,
    Allowed.username,
    Allowed.state,
    Allowed.uuid,
    Allowed.reason,
)
"""Of `Known`."""
_SAME_NAME: Final = User.username_key == Allowed.username_key
_UNLISTED: Final = (
    User.select(User.username_key, *_FIELDS)
    .join(Allowed, JOIN.LEFT_OUTER, on=_SAME_NAME)
    .where(_MAY_PLAY, Allowed.username_key.is_null())
)
"""Users who may play without a record."""
_WITH_RECORD: Final = "LEFT JOIN regsvc_allowlist ON regsvc_allowlist.username_key = regsvc_user.username_key"


def _of_records(*fields: Any) -> Any:
    """Return a query for the keys of all records, and these fields of theirs and of their users."""
    return Allowed.select(Allowed.username_key, *fields).join(User, JOIN.LEFT_OUTER, on=_SAME_NAME)


def _to_known(rows: Iterable[Sequence[Any]]) -> dict[str, Known]:
    return {row[0]: Known._make(row[1:]) for row in rows}


def _find_keys(quiet: Mapping[str, str], known: Mapping[str, Known]) -> dict[str, list[str]]:
    """Return the names of each UUID in the records.

    An account that has changed its name has two users: those who may play, if one of them may.
    """
    playing, others = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for key, uuid in quiet.items():
        playing[uuid].append(key)
    for key, it in known.items():
        if it.uuid is not None:
            (playing if it.status == APPROVED else others)[it.uuid].append(key)
    return others | playing


def _is_name(key: str) -> bool:
    """Return whether a user may get this name: the list may name anything."""
    return len(key) <= _LONGEST_NAME and is_findable(key)


def _has_open() -> bool:
    """Return whether something is to be added or removed that a run can do now: it waits for nothing else."""
    may_be_done = Allowed.reason.is_null() | (Allowed.reason == RESTART)
    return bool(Allowed.select().where(Allowed.state.in_((ADD, REMOVE)), may_be_done).limit(1).exists())


def _is_write(change: ListChange) -> bool:
    return change.add is not None or bool(change.remove)


def _kind_of(change: ListChange) -> str:
    """Return the change's kind as the report counts it; "" for what changes nothing but our own notes."""
    if change.effect is not None:
        return {"adopt": "adopted", "approve": "approved"}[change.effect]
    if change.add is not None:
        return "added"
    if change.remove:
        return "removed"
    return "taken_off" if change.state == TAKEN_OFF else ""


def _in_words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in counts.items())


def _count(report: ListReport, changes: Iterable[tuple[Member, ListChange]]) -> None:
    for member, change in changes:
        kind = _kind_of(change)
        if kind:
            report.counts[kind] += 1
            report.names[kind].append(member.username)


async def _reload(address: RconAddress) -> None:
    """Let the server read the file. Its answer says nothing: only the list does. Raises `RconError`."""
    async with open_rcon(address) as connection:
        await connection.execute(RELOAD_ALLOWED)
