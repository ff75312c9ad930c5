"""Execution of frequent actions for a page of accounts at once, in one transaction with a few statements.

`plan.decide` still decides for each account, and the effect is that of the step in `sync.steps`; only the plain cases
are written here a second time. All others are reconciled one by one. After each action the account is updated in memory
and decided on again, so that a page is finished without being read twice.

Only where one transaction holds both sides.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, TypeVar

from peewee import Database, InternalError, OperationalError

from plugin_bridge.authme.players import PlayerRefused, lock_text
from regsvc.core.errors import WrongStatus
from regsvc.database import failpoints
from regsvc.database.bulk import update_rows
from regsvc.database.engine import is_retryable
from regsvc.database.models import BANNED, GONE, PRESENT, VERIFIED, Player, Session, User
from regsvc.sync import actions
from regsvc.sync.plan import decide
from regsvc.sync.reconciler import Reconciler
from regsvc.sync.records import Account, SyncRecord, UserRecord
from regsvc.sync.step_context import StepContext
from regsvc.sync.steps import RestorePasswordStep
from regsvc.sync.sync_records import NO_INTENT, NO_LOCK
from regsvc.users.transitions import find_transition

A = TypeVar("A", bound=actions.SyncAction)

_MAX_STEPS: Final = 6


@dataclass
class BulkResult:
    """The applied actions by name, in order, and the names that are now in sync."""

    applied: dict[str, list[actions.SyncAction]] = field(default_factory=lambda: defaultdict(list))
    in_sync: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Case(Generic[A]):
    """An account with a user and a sync record, and the action decided for it."""

    account: Account
    action: A

    @property
    def user(self) -> UserRecord:
        """The account's user."""
        assert self.account.user is not None
        return self.account.user

    @property
    def sync_record(self) -> SyncRecord:
        """The account's sync record."""
        assert self.account.sync_record is not None
        return self.account.sync_record


class BulkStep(Generic[A]):
    """Executor of one kind of action for many accounts. The default applies to no case."""

    def is_bulk_safe(self, account: Account, action: A) -> bool:
        """Return whether this is a plain case, which `apply` can handle."""
        return False

    def apply(self, database: Database, context: StepContext, cases: Sequence[Case[A]]) -> list[Account]:
        """Apply the action. Returns the accounts as they are afterwards, without those whose row was not as loaded."""
        return []


class BulkApplySqlEdit(BulkStep[actions.ApplySqlEdit]):
    def is_bulk_safe(self, account: Account, action: actions.ApplySqlEdit) -> bool:
        """Return whether the edit is a legal transition that requests nothing of the row."""
        user = account.user
        return (
            user is not None and action.intent is None and find_transition(user.applied_status, user.status) is not None
        )

    def apply(
        self, database: Database, context: StepContext, cases: Sequence[Case[actions.ApplySqlEdit]]
    ) -> list[Account]:
        rows = {row.id: row for row in User.select().where(User.id.in_([case.user.id for case in cases]))}
        context.transitions.apply_sql_edits(list(rows.values()))
        after = []
        for case in cases:
            user = case.user
            expires_at = user.ban_expires_at if user.status == BANNED else None
            edited = replace(user, applied_status=user.status, ban_expires_at=expires_at)
            after.append(replace(case.account, user=edited))
        return after


class BulkLock(BulkStep[actions.Lock]):
    def is_bulk_safe(self, account: Account, action: actions.Lock) -> bool:
        """Return whether this locks the last synced row, with its base password, for the first time."""
        known = account.sync_record
        return (
            known is not None
            and account.user is not None
            and known.user_id == account.user.id
            and (action.origin, action.state) == (VERIFIED, "locked")
            and known.base_hash == action.player.hash
            and known.locked_at is None
            and known.plugin_state != "locked"
        )

    def apply(self, database: Database, context: StepContext, cases: Sequence[Case[actions.Lock]]) -> list[Account]:
        after, kept, by_reason = [], [], defaultdict(list)
        failpoints.reach("before player write")
        for case in cases:
            account, player = case.account, case.action.player
            locked: dict[str, Any] = {"hash": lock_text(player.hash), "has_session": 0, "premium_uuid": None}
            if not context.players.update(player, locked):
                continue
            known = replace(
                case.sync_record,
                lock_reason=case.action.reason,
                locked_at=account.now,
                kept_hash=player.hash,
                kept_origin=VERIFIED,
                plugin_state="locked",
            )
            if player.premium_uuid:
                kept.append({"username_key": account.key, "kept_premium_uuid": player.premium_uuid})
            by_reason[case.action.reason].append(case.user)
            after.append(replace(account, sync_record=known, player=replace(player, **locked)))
        failpoints.reach("after player write")
        for reason, users in by_reason.items():
            self._record_locks(context, reason, users, after[0])
        update_rows(database, Player, kept)
        return after

    @staticmethod
    def _record_locks(context: StepContext, reason: str, users: Sequence[UserRecord], of_page: Account) -> None:
        """Save the locks. The kept hash is the base's, because the row has it; a ban has an audit entry of its own."""
        changes = {"lock_reason": reason, "locked_at": of_page.now, "kept_hash": Player.base_hash}
        changes |= {"kept_origin": VERIFIED, "plugin_state": "locked", "plugin_since": context.now()}
        keys = [user.username_key for user in users]
        Player.update(changes).where(Player.username_key.in_(keys)).execute()
        if reason != BANNED:
            names = [user.username for user in users]
            context.audit.record_each("sync.player_locked", "sync", names, {"reason": reason})


class BulkRestorePassword(BulkStep[actions.RestorePassword]):
    def is_bulk_safe(self, account: Account, action: actions.RestorePassword) -> bool:
        """Return whether this restores the base password in the last synced row."""
        known, password = account.sync_record, action.password
        return (
            known is not None
            and account.user is not None
            and known.user_id == account.user.id
            and (known.base_hash, known.base_salt) == (password.hash, password.salt)
            and known.base_regdate == action.player.regdate
            and known.presence == PRESENT
            and known.conflict is None
            and known.intent is None
            and known.tombstone_at is None
            and known.plugin_state != "synced"
        )

    def apply(
        self, database: Database, context: StepContext, cases: Sequence[Case[actions.RestorePassword]]
    ) -> list[Account]:
        after = []
        failpoints.reach("before player write")
        for case in cases:
            player, row_changes = case.action.player, RestorePasswordStep.row_changes(case.account, case.action)
            if context.players.update(player, row_changes):
                known = replace(case.sync_record, **NO_LOCK, plugin_state="synced")
                restored: dict[str, Any] = row_changes
                after.append(replace(case.account, sync_record=known, player=replace(player, **restored)))
        failpoints.reach("after player write")
        changes = {**NO_LOCK, "plugin_state": "synced", "plugin_since": context.now()}
        keys = [account.key for account in after]
        Player.update(changes).where(Player.username_key.in_(keys)).execute()
        return after


class BulkMarkMissing(BulkStep[actions.MarkMissing]):
    def is_bulk_safe(self, account: Account, action: actions.MarkMissing) -> bool:
        """Return whether the missing row was not requested since."""
        known = account.sync_record
        return (
            account.user is not None and known is not None and known.intent is None and known.plugin_state != "absent"
        )

    def apply(
        self, database: Database, context: StepContext, cases: Sequence[Case[actions.MarkMissing]]
    ) -> list[Account]:
        missing: dict[str, Any] = {"presence": GONE, "plugin_state": "absent", **NO_LOCK, **NO_INTENT}
        keys = [case.account.key for case in cases]
        Player.update({**missing, "plugin_since": context.now()}).where(Player.username_key.in_(keys)).execute()
        context.audit.record_each("sync.player_removed", "sync", [case.user.username for case in cases])
        return [replace(case.account, sync_record=replace(case.sync_record, **missing)) for case in cases]


class BulkPasswordMerge(BulkStep[actions.Merge]):
    def is_bulk_safe(self, account: Account, action: actions.Merge) -> bool:
        """Return whether only password and base change: no intent, lock, conflict or tombstone is recorded."""
        known = account.sync_record
        return (
            is_password_only(action)
            and known is not None
            and known.plugin_state == "synced"
            and known.conflict is None
            and known.intent is None
            and known.locked_at is None
            and known.tombstone_at is None
        )

    def apply(self, database: Database, context: StepContext, cases: Sequence[Case[actions.Merge]]) -> list[Account]:
        users = [case.user for case in cases]
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
        context.audit.record_each("user.password_changed", "sync", names, {"where": "in the game"})
        bases: list[dict[str, Any]] = [
            {
                "username_key": row.username,
                "base_hash": row.hash,
                "base_salt": row.salt,
                "base_email": row.email,
                "base_realname": row.realname,
                "base_regdate": row.regdate,
            }
            for row in (case.action.player for case in cases)
        ]
        update_rows(database, Player, bases)
        return [
            replace(
                case.account,
                user=replace(case.user, password=None),
                sync_record=replace(case.sync_record, **base),
            )
            for case, base in zip(cases, bases, strict=True)
        ]


def is_password_only(action: actions.SyncAction) -> bool:
    """Return whether the action only gives the user the password set in the game."""
    return isinstance(action, actions.Merge) and action == actions.Merge(action.player, takes_password=True)


BULK_STEPS: Final[dict[type, BulkStep[Any]]] = {
    actions.ApplySqlEdit: BulkApplySqlEdit(),
    actions.Lock: BulkLock(),
    actions.RestorePassword: BulkRestorePassword(),
    actions.MarkMissing: BulkMarkMissing(),
    actions.Merge: BulkPasswordMerge(),
}

_NO_STEP: Final[BulkStep[Any]] = BulkStep()


class BulkSteps:
    """Application of actions to pages of accounts. Blocking."""

    def __init__(self, database: Database, reconciler: Reconciler) -> None:
        self._database = database
        self._reconciler = reconciler

    def apply(self, keys: Collection[str], kinds: tuple[type, ...]) -> BulkResult:
        """Apply the bulk-safe actions of these kinds; if one of the cases turns out not to be plain, apply none.

        Raises `PlayersUnavailable`.
        """
        if len(keys) < 2 or not self._reconciler.is_one_transaction:
            return BulkResult()
        try:
            with self._database.atomic():
                return self._apply(keys, kinds)
        except (PlayerRefused, WrongStatus):
            return BulkResult()  # one of them was not a plain case after all
        except (OperationalError, InternalError) as error:
            if not is_retryable(error):
                raise
            return BulkResult()

    def _apply(self, keys: Collection[str], kinds: tuple[type, ...]) -> BulkResult:
        result, policy = BulkResult(), self._reconciler.policy
        accounts = self._reconciler.load_many_for_update(keys)
        for _step in range(_MAX_STEPS):
            by_kind: dict[type, list[Case[Any]]] = defaultdict(list)
            for account in accounts:
                action = decide(account, policy)
                kind = type(action)
                if action is None:
                    result.in_sync.add(account.key)
                elif isinstance(action, kinds) and BULK_STEPS.get(kind, _NO_STEP).is_bulk_safe(account, action):
                    by_kind[kind].append(Case(account, action))
            accounts = []
            for kind, cases in by_kind.items():
                after = BULK_STEPS[kind].apply(self._database, self._reconciler.context, cases)
                action_of = {case.account.key: case.action for case in cases}
                for account in after:
                    result.applied[account.key].append(action_of[account.key])
                accounts += after
            if not accounts:
                break
        self._clear_changed_at([key for key in result.in_sync if key in result.applied])
        return result

    @staticmethod
    def _clear_changed_at(keys: Sequence[str]) -> None:
        """Clear the change marks that our own writes made, because these names are now in sync."""
        if keys:
            for table in (User, Player):
                table.update(changed_at=None).where(table.username_key.in_(keys)).execute()
