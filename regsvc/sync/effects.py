"""Effects of actions on our side, and the context that writes those of a whole page in few statements."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal

from peewee import Database, Model, fn

from plugin_bridge.authme.players import Players, RowWrite, WriteResult
from plugin_bridge.text import UNREADABLE
from regsvc.core.clock import Clock
from regsvc.core.email_address import EmailAddress, parse_email
from regsvc.core.errors import Refusal
from regsvc.database.audit import SYNC, Audit
from regsvc.database.bulk import insert_rows, update_rows
from regsvc.database.models import OPEN, PROVISION, PluginState, Session, SyncRecord, User
from regsvc.notifications.rcon import Cause, RconQueue
from regsvc.sync.records import NO_INTENT, Account, SyncValues, UserRecord, replace_records
from regsvc.users.credential_rules import Claimant, grant_unverified
from regsvc.users.membership import Memberships
from regsvc.users.password_notices import PasswordChange, PasswordNotices
from regsvc.users.transitions import Transitions

ConflictCause = Literal["unproven", "taken", "invalid", "refused", "unfindable", "collides", "foreign", "unapproved"]
"""Of an e-mail: ours is proven, which the game's cannot be; the game's is another user's; is no address; AuthMe's table
cannot hold ours. Of a name: AuthMe does not find it; takes it for another one; the row may be another person's; the row
of a user who is not approved is left open.
"""


@dataclass(frozen=True)
class Conflict:
    """A field on which the two sides differ, and the side whose value stays."""

    field: Literal["password", "email", "realname", "name"]
    kept: Literal["plugin", "companion", "both"]
    why: ConflictCause | None = None
    """Why each side keeps its own, where there are several causes for the field."""


def email_conflict(raw: str) -> Conflict:
    """Return the conflict about the e-mail of a row that `SyncContext.claim_unverified` grants nobody."""
    return Conflict("email", "both", "invalid" if find_real_email(raw) is None else "taken")


def find_real_emails(raw: Mapping[Claimant, str]) -> dict[Claimant, EmailAddress]:
    """Return the addresses in AuthMe's columns that are valid ones."""
    return {claimant: address for claimant, text in raw.items() if (address := find_real_email(text)) is not None}


def find_real_email(raw: str | None) -> EmailAddress | None:
    """Return the address in AuthMe's column, or None if it is empty or holds no valid address."""
    if raw is None or UNREADABLE in raw:
        return None
    try:
        return parse_email(raw)
    except Refusal:
        return None


NO_PASSWORD: Final = dict.fromkeys(("password_hash", "password_salt", "password_algorithm", "password_set_at"))

AuditNote = tuple[str, Mapping[str, Any] | None]
"""Action and details of an audit entry by the sync about an account's user."""


@dataclass(frozen=True)
class Effects:
    """Changes on our side that an action entails: columns of sync record and user, and more that goes with them."""

    sync_record: Mapping[str, Any] = field(default_factory=dict, repr=False)
    user: Mapping[str, Any] = field(default_factory=dict, repr=False)
    ends_sessions: bool = False
    audit: tuple[AuditNote, ...] = ()
    kick: Cause | None = None
    """Why the player is kicked from the game; None: the player may stay."""
    password: PasswordChange | None = None
    """The change of the user's password by it, of which they are told."""
    conflicts: tuple[Conflict, ...] = ()
    """Conflicts met while the action was applied, for the report."""

    def __or__(self, later: "Effects") -> "Effects":
        """Return both effects as one; where both write a column, the later one stays."""
        if self is NOTHING or later is NOTHING:
            return later if self is NOTHING else self
        return Effects(
            {**self.sync_record, **later.sync_record},
            {**self.user, **later.user},
            self.ends_sessions or later.ends_sessions,
            self.audit + later.audit,
            self.kick or later.kick,
            later.password or self.password,
            self.conflicts + later.conflicts,
        )


NOTHING: Final = Effects()


def intent_effects(intent: str | None, taken_hash: str | None = None) -> Effects:
    """Return the effects of recording what is requested of the row; None: nothing is.

    `taken_hash`, with `OPEN`: the hash in the row, which counts; None: the row gets the user's own password.
    """
    if intent is None:
        return NOTHING
    if intent == PROVISION:
        return Effects({"intent": intent})  # the hash of a row being inserted stays: by it we know the row as ours
    return Effects({**NO_INTENT, "intent": intent, "intent_hash": taken_hash})


def state_effects(account: Account, state: PluginState) -> Effects:
    """Return the effects of a state shown in the user list. A player's return or conflict is audited once."""
    user, was = account.user, account.sync_record.plugin_state if account.sync_record is not None else None
    audit: tuple[AuditNote, ...] = ()
    if was != state and user is not None and state == "returned":
        audit = (("sync.player_returned", None),)
    elif was != state and user is not None and state == "conflict":
        audit = (("sync.conflict", {"field": "name", "kept": "both"}),)
    changes: dict[str, Any] = {"plugin_state": state, "user_id": user.id if user is not None else None}
    known = account.sync_record
    if state == "returned" and known is not None and known.intent in (OPEN, PROVISION):
        changes |= NO_INTENT  # it was requested of another row
    return Effects(changes, audit=audit)


def collision_effects(account: Account) -> Effects:
    """Return the effects of a name that AuthMe's table considers equal to another one that it has. Audited once."""
    return Effects({"conflict": "name", **NO_INTENT}) | state_effects(account, "conflict")


def apply_in_memory(account: Account, effects: Effects, moment: datetime) -> Account:
    """Return the account as it is once the effects are written at `moment`."""
    if not effects.sync_record and not effects.user and not effects.ends_sessions:
        return account
    user, sync_record = account.user, account.sync_record
    if user is not None and (effects.user or effects.ends_sessions):
        user = user.with_columns(columns_of_user(user, effects))
    if effects.sync_record:
        known = sync_record or SyncValues(account.key, plugin_since=moment)
        sync_record = replace(known, **effects.sync_record)
        if known.base_hash is not None and known.base_hash != sync_record.base_hash:
            sync_record = sync_record.with_earlier_hash(known.base_hash)
        if sync_record.plugin_state != known.plugin_state:
            sync_record = replace(sync_record, plugin_since=moment)
    return replace(account, user=user, sync_record=sync_record)


def columns_of_user(user: UserRecord, effects: Effects) -> dict[str, Any]:
    """Return the columns of the user that the effects change."""
    ended = {"token_generation": user.token_generation + 1} if effects.ends_sessions else {}
    return {**effects.user, **ended}


@dataclass(frozen=True)
class SyncContext:
    """Everything an action reads and writes. Blocking.

    `find_uuid` returns the game's UUID for a Java player of this name, or None if it is unknown. `console` kicks
    players and sends game commands.
    """

    database: Database
    players: Players
    transitions: Transitions
    audit: Audit
    now: Clock
    find_uuid: Callable[[str], str | None]
    console: RconQueue
    notices: PasswordNotices

    @property
    def memberships(self) -> Memberships:
        """Ends and renewals of memberships."""
        return Memberships(self.transitions)

    def atomic(self) -> AbstractContextManager[object]:
        """Return a transaction of our database."""
        return self.database.atomic()

    def claim_unverified(self, wanted: Mapping[Claimant, str]) -> dict[Claimant, EmailAddress]:
        """Return the claimants who get the e-mail of their row, as an address: it is valid, and `grant_unverified`."""
        return grant_unverified(find_real_emails(wanted))

    def may_insert(self, user: UserRecord, regdate: int) -> bool:
        """Return whether the row of this user and `regdate` may be inserted now (`RconQueue.may_insert`)."""
        return self.console.may_insert(user.username, user.id, regdate)

    def lock_rows(self, keys: Sequence[str]) -> None:
        """Lock AuthMe's rows of these names (`Players.lock`)."""
        self.players.lock(keys)

    def write_rows(self, writes: Sequence[RowWrite]) -> list[WriteResult]:
        """Write AuthMe's rows (`Players.write_many`)."""
        return self.players.write_many(writes)

    def load_users(self, records: Sequence[UserRecord]) -> list[User]:
        """Return these users, for `transitions`."""
        return list(User.select().where(User.id.in_([record.id for record in records])))

    def insert_users(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
        """Insert users with these columns, and return their ids by `username_key`."""
        newest = User.select(fn.MAX(User.id)).scalar() or 0
        insert_rows(self.database, User, rows)
        created = self.database.execute_sql(f"SELECT username_key, id FROM regsvc_user WHERE id > {newest:d}")  # noqa: S608
        return dict(created.fetchall())  # the key's range: quicker than by thousands of names

    def insert_records(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert sync records with these columns."""
        insert_rows(self.database, SyncRecord, rows)

    def replace_records(self, records: Sequence[tuple[str, SyncValues | None]]) -> None:
        """Replace the sync records of these names with new ones, or with nothing."""
        replace_records(self.database, records)

    def rename_users(self, renamed: Sequence[tuple[UserRecord, UserRecord]]) -> None:
        """Write the names of these users, each given as before and as renamed, also where they swap them."""
        if len(renamed) > 1:  # each is free before it is given back
            for user, _now in renamed:
                User.update(username_key=f" {user.id}").where(User.id == user.id).execute()
        for user, now in renamed:
            names = {"username": now.username, "username_key": now.username_key}
            User.update(names).where(User.id == user.id).execute()

    def write(self, cases: Sequence[tuple[Account, Effects]]) -> list[Account]:
        """Write the effects in the caller's transaction, and return the accounts as they are afterwards.

        It takes one statement for each kind of change.
        """
        if not cases:
            return []
        moment = self.now()
        changed, new_records, known_records, users, notes, kicks, logged_out = [], [], [], [], [], [], []
        passwords = [effects.password for _account, effects in cases if effects.password is not None]
        for account, effects in cases:
            now = apply_in_memory(account, effects, moment)
            changed.append(now)
            if effects.sync_record and now.sync_record is not None:
                if account.sync_record is None:
                    new_records.append(now.sync_record.columns() | {"changed_at": moment})
                else:
                    columns = _changed_columns(account.sync_record, now.sync_record, effects, moment)
                    known_records.append({"username_key": account.key, **columns})
            user = account.user
            if user is None:
                continue
            if columns := columns_of_user(user, effects):
                users.append({"id": user.id, **columns})
            if effects.ends_sessions:
                logged_out.append(user.id)
            if effects.kick is not None:
                kicks.append((user.username, user.id, effects.kick))
            for action, detail in effects.audit:
                notes.append((action, user.username, detail))
        insert_rows(self.database, SyncRecord, new_records)
        self._update(SyncRecord, known_records)
        self._update(User, users)
        if logged_out:
            Session.delete().where(Session.user.in_(logged_out)).execute()
        self.audit.record_all(SYNC, notes)
        self.notices.tell_each(passwords)
        if kicks:
            self.console.on_row_changes(kicks)
        return changed

    def _update(self, model: type[Model], rows: Sequence[Mapping[str, Any]]) -> None:
        by_columns: dict[tuple[str, ...], list[Mapping[str, Any]]] = defaultdict(list)
        for row in rows:
            by_columns[tuple(row)].append(row)
        for group in by_columns.values():
            update_rows(self.database, model, group)


def _changed_columns(before: SyncValues, now: SyncValues, effects: Effects, moment: datetime) -> dict[str, Any]:
    """Return the columns of a sync record to be written."""
    if now == before:
        return {"changed_at": moment}  # the next run looks again: the row may be written back meanwhile
    columns = dict(effects.sync_record)
    for name in ("plugin_since", "earlier_hashes"):
        if getattr(now, name) != getattr(before, name):
            columns[name] = getattr(now, name)
    return columns
