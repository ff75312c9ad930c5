"""Actions on our side alone, each applied to all accounts of a page that it was decided for."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from regsvc.database.models import APPROVED, BANNED, Player, User
from regsvc.sync import actions
from regsvc.sync.adoption import adopt_each
from regsvc.sync.effects import NOTHING, Effects, intent_effects, state_effects
from regsvc.sync.records import UserRecord
from regsvc.sync.step_context import A, Cases, StepContext
from regsvc.sync.sync_records import replace_records, tombstone

OwnStep = Callable[[StepContext, Cases[Any]], Cases[Any]]
"""Function that applies an action in a transaction. Cases that it does not return are to be loaded again."""


def _adopt(context: StepContext, cases: Cases[actions.Adopt]) -> Cases[actions.Adopt]:
    known = [(case.key, None) for case in cases if case.account.sync_record is not None]
    replace_records(context.database, known)  # tombstones of former users
    adopted = adopt_each(context.database, context.audit, [case.action for case in cases], context.now())
    found = []
    for case in cases:
        if case.key in adopted:
            conflict = adopted[case.key]
            effects = Effects(conflicts=(conflict,)) if conflict is not None else NOTHING
            # the status of a user who may play entails nothing; the others are loaded again
            is_done = case.action.status in (APPROVED, BANNED)
            found.append(replace(case, effects=effects, next="nothing" if is_done else "load"))
    return found


def _apply_sql_edits(context: StepContext, cases: Cases[actions.ApplySqlEdit]) -> Cases[actions.ApplySqlEdit]:
    changed = _change_users(context.transitions.apply_sql_edits, cases)
    return [replace(case, effects=intent_effects(case.action.intent)) for case in changed]


def _end_bans(context: StepContext, cases: Cases[actions.EndBan]) -> Cases[actions.EndBan]:
    return _change_users(context.transitions.end_bans, cases)


def _reject(context: StepContext, cases: Cases[actions.RejectNameConflict]) -> Cases[actions.RejectNameConflict]:
    rejected = _change_users(context.transitions.reject_name_conflicts, cases)
    # the player registered first: we have no intent for the row, and it stays as it is
    return [replace(case, effects=state_effects(case.account, "conflict")) for case in rejected]


def _change_users(change: Callable[[list[User]], None], cases: Cases[A]) -> Cases[A]:
    rows = {row.id: row for row in User.select().where(User.id.in_([case.user.id for case in cases]))}
    change(list(rows.values()))
    return [case.after(replace(case.account, user=UserRecord.from_row(rows[case.user.id]))) for case in cases]


def _mark_deleted(context: StepContext, cases: Cases[actions.MarkDeleted]) -> Cases[actions.MarkDeleted]:
    context.transitions.record_deletions([case.key for case in cases])
    deleted = [case.after(replace(case.account, sync_record=tombstone(case.account))) for case in cases]
    replace_records(context.database, [(case.key, case.account.sync_record) for case in deleted])
    return deleted


def _revert_renames(context: StepContext, cases: Cases[actions.RevertRename]) -> Cases[actions.RevertRename]:
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


OWN_STEPS: Final[dict[type, OwnStep]] = {
    actions.Adopt: _adopt,
    actions.ApplySqlEdit: _apply_sql_edits,
    actions.EndBan: _end_bans,
    actions.RejectNameConflict: _reject,
    actions.MarkDeleted: _mark_deleted,
    actions.RevertRename: _revert_renames,
}
