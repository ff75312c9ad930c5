"""Actions on our side alone, each applied to all accounts of a page that it was decided for."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, Literal, TypeVar

from peewee import Database

from regsvc.database.models import APPROVED, BANNED, Player, User
from regsvc.sync import actions
from regsvc.sync.adoption import adopt_each
from regsvc.sync.effects import NOTHING, Effects, state_effects
from regsvc.sync.records import Account, UserRecord
from regsvc.sync.step_context import StepContext
from regsvc.sync.sync_records import tombstone

A = TypeVar("A", bound=actions.SyncAction)


@dataclass(frozen=True)
class Case(Generic[A]):
    """An account and the action decided for it."""

    account: Account
    action: A


@dataclass(frozen=True)
class Applied:
    """The outcome of one case: the account after it, and effects that are still to be written."""

    account: Account
    effects: Effects = NOTHING
    next: Literal["decide", "again", "settled"] = "decide"
    """Whether the account is decided on as it is, or loaded again, or needs nothing any more."""


class OwnStep(ABC, Generic[A]):
    """Executor of one kind of action. Runs in a transaction."""

    @abstractmethod
    def apply(self, database: Database, context: StepContext, cases: Sequence[Case[A]]) -> list[Applied]:
        """Apply the action. Returns the outcomes; accounts left out have lost a race and are to be loaded again."""


class AdoptStep(OwnStep[actions.Adopt]):
    def apply(self, database: Database, context: StepContext, cases: Sequence[Case[actions.Adopt]]) -> list[Applied]:
        known = [(case.account.key, None) for case in cases if case.account.sync_record is not None]
        context.sync_records.replace(known)  # tombstones of former users
        adopted = adopt_each(database, context.audit, [case.action for case in cases], context.now())
        found = []
        for case in cases:
            if case.account.key in adopted:
                conflict = adopted[case.account.key]
                effects = Effects(conflicts=(conflict,)) if conflict is not None else NOTHING
                # the status of a user who may play entails nothing; the others are loaded again
                is_settled = case.action.status in (APPROVED, BANNED)
                found.append(Applied(case.account, effects, "settled" if is_settled else "again"))
        return found


class ApplySqlEditStep(OwnStep[actions.ApplySqlEdit]):
    def apply(
        self, database: Database, context: StepContext, cases: Sequence[Case[actions.ApplySqlEdit]]
    ) -> list[Applied]:
        rows = _rows_of(cases)
        context.transitions.apply_sql_edits(list(rows.values()))
        return [
            Applied(
                _with_user(case.account, rows),
                Effects({"intent": case.action.intent}) if case.action.intent is not None else NOTHING,
            )
            for case in cases
        ]


class EndBanStep(OwnStep[actions.EndBan]):
    def apply(self, database: Database, context: StepContext, cases: Sequence[Case[actions.EndBan]]) -> list[Applied]:
        rows = _rows_of(cases)
        context.transitions.end_bans(list(rows.values()))
        return [Applied(_with_user(case.account, rows)) for case in cases]


class RejectNameConflictStep(OwnStep[actions.RejectNameConflict]):
    def apply(
        self, database: Database, context: StepContext, cases: Sequence[Case[actions.RejectNameConflict]]
    ) -> list[Applied]:
        rows = _rows_of(cases)
        context.transitions.reject_name_conflicts(list(rows.values()))
        # the player registered first: we have no intent for the row, and it stays as it is
        accounts = [_with_user(case.account, rows) for case in cases]
        return [Applied(account, state_effects(account, "conflict")) for account in accounts]


class MarkDeletedStep(OwnStep[actions.MarkDeleted]):
    def apply(
        self, database: Database, context: StepContext, cases: Sequence[Case[actions.MarkDeleted]]
    ) -> list[Applied]:
        context.transitions.record_deletions([case.account.key for case in cases])
        context.sync_records.replace([(case.account.key, tombstone(case.account)) for case in cases])
        return [Applied(replace(case.account, sync_record=tombstone(case.account))) for case in cases]


class RevertRenameStep(OwnStep[actions.RevertRename]):
    def apply(
        self, database: Database, context: StepContext, cases: Sequence[Case[actions.RevertRename]]
    ) -> list[Applied]:
        """Undo the renames; the accounts are loaded again, as their names change."""
        renamed = {case.action.user.id: case.action for case in cases}
        if len(renamed) > 1:  # names may have been swapped: each is free before it is given back
            for user_id in renamed:
                User.update(username_key=f" {user_id}").where(User.id == user_id).execute()
        for action in renamed.values():
            user, key = action.user, action.key
            known = Player.get_or_none(Player.username_key == key)
            spellings = (user.username, known.base_realname if known is not None else None)
            username = next((name for name in spellings if name and name.lower() == key), key)
            User.update(username=username, username_key=key).where(User.id == user.id).execute()
            context.audit.record("sync.edit_refused", "sql", username, {"username": user.username})
        return []


OWN_STEPS: Final[dict[type, OwnStep[Any]]] = {
    actions.Adopt: AdoptStep(),
    actions.ApplySqlEdit: ApplySqlEditStep(),
    actions.EndBan: EndBanStep(),
    actions.RejectNameConflict: RejectNameConflictStep(),
    actions.MarkDeleted: MarkDeletedStep(),
    actions.RevertRename: RevertRenameStep(),
}


def _rows_of(cases: Sequence[Case[Any]]) -> dict[int, User]:
    ids = [case.account.user.id for case in cases if case.account.user is not None]
    return {row.id: row for row in User.select().where(User.id.in_(ids))}


def _with_user(account: Account, rows: dict[int, User]) -> Account:
    assert account.user is not None
    return replace(account, user=UserRecord.from_row(rows[account.user.id]))
