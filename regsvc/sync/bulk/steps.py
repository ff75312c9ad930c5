"""The steps that come by the thousand, taken for a page of names at once, in one transaction with a few statements.

What is decided is what `plan.decide` says, and what is done is what `steps` does for one name; here stand only the
plain cases of it. Everything else is settled name by name. After a step a name's records are what they became, and the
plan is asked again, so that a page is brought to its end without being read twice.

Only where one transaction holds both sides.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from peewee import Database, InternalError, OperationalError

from plugin_bridge.authme.players import PlayerRefused, Players, lock_text
from regsvc.core.errors import WrongStatus
from regsvc.database import failpoints
from regsvc.database.bulk import update_rows
from regsvc.database.engine import is_retryable
from regsvc.database.models import BANNED, GONE, PRESENT, VERIFIED, Player, Session, User
from regsvc.sync import decisions as d
from regsvc.sync.plan import decide
from regsvc.sync.reconciler import Reconciler
from regsvc.sync.records import Account, SyncRecord, UserRecord
from regsvc.sync.steps import RestoreStep
from regsvc.sync.sync_records import NO_INTENT, NO_LOCK
from regsvc.users.transitions import find_transition

Case = tuple[Account, Any]
"""A name and what is decided for it."""

_MOST_STEPS: Final = 6


@dataclass
class BulkResult:
    """What was done, by name in order, and the names where nothing is left to be done."""

    done: dict[str, list[d.Decision]] = field(default_factory=lambda: defaultdict(list))
    quiet: set[str] = field(default_factory=set)


class BulkSteps:
    """Works on pages of names. Blocking."""

    def __init__(self, database: Database, players: Players, reconciler: Reconciler) -> None:
        self._database = database
        self._players = players
        self._reconciler = reconciler
        self._context = reconciler.context

    def take(self, keys: Collection[str], kinds: tuple[type, ...]) -> BulkResult:
        """Take the steps of these kinds for the names that are plain cases; nothing where they came to be none.

        Raises `PlayersUnavailable`.
        """
        if len(keys) < 2 or not self._reconciler.is_one_transaction:
            return BulkResult()
        try:
            with self._database.atomic():
                return self._take(keys, kinds)
        except (PlayerRefused, WrongStatus):
            return BulkResult()  # one of them is no plain case after all
        except (OperationalError, InternalError) as error:
            if not is_retryable(error):
                raise
            return BulkResult()

    def _take(self, keys: Collection[str], kinds: tuple[type, ...]) -> BulkResult:
        taken, policy = BulkResult(), self._reconciler.policy
        subjects = self._reconciler.load_many_for_update(keys)
        for _step in range(_MOST_STEPS):
            cases: dict[type, list[Case]] = defaultdict(list)
            for account in subjects:
                decision = decide(account, policy)
                if decision is None:
                    taken.quiet.add(account.key)
                elif isinstance(decision, kinds) and _IS_PLAIN.get(type(decision), _never)(account, decision):
                    cases[type(decision)].append((account, decision))
            subjects = []
            for kind, of_kind in cases.items():
                became = _STEPS[kind](self, of_kind)
                decisions = {account.key: decision for account, decision in of_kind}
                for account in became:
                    taken.done[account.key].append(decisions[account.key])
                subjects += became
            if not subjects:
                break
        self._note_looked_at([key for key in taken.quiet if key in taken.done])
        return taken

    def _note_looked_at(self, keys: Sequence[str]) -> None:
        """Our own writes marked these rows, and the plan has been asked what follows: nothing."""
        if keys:
            for table in (User, Player):
                table.update(changed_at=None).where(table.username_key.in_(keys)).execute()

    # --- the steps; each comes back with what the names became, those left out that were not as seen ---

    def _carry_out_edits(self, cases: Sequence[Case]) -> list[Account]:
        ids = [account.user.id for account, _decision in cases if account.user is not None]
        rows = {row.id: row for row in User.select().where(User.id.in_(ids))}
        self._context.transitions.apply_sql_edits(list(rows.values()))
        became = []
        for account, _decision in cases:
            user = _user(account)
            expires_at = user.ban_expires_at if user.status == BANNED else None
            became.append(replace(account, user=replace(user, applied_status=user.status, ban_expires_at=expires_at)))
        return became

    def _lock(self, cases: Sequence[Case]) -> list[Account]:
        became, kept, by_reason = [], [], defaultdict(list)
        failpoints.reach("before player write")
        for account, decision in cases:
            player = decision.player
            locked: dict[str, Any] = {"hash": lock_text(player.hash), "has_session": 0, "premium_uuid": None}
            if not self._players.update(player, locked):
                continue
            known = replace(
                _sync_record(account),
                lock_reason=decision.reason,
                locked_at=account.now,
                kept_hash=player.hash,
                kept_origin=VERIFIED,
                plugin_state="locked",
            )
            if player.premium_uuid:
                kept.append({"username_key": account.key, "kept_premium_uuid": player.premium_uuid})
            by_reason[decision.reason].append(_user(account))
            became.append(replace(account, sync_record=known, player=replace(player, **locked)))
        failpoints.reach("after player write")
        for reason, users in by_reason.items():
            self._note_locks(reason, users, became[0])
        update_rows(self._database, Player, kept)
        return became

    def _note_locks(self, reason: str, users: Sequence[UserRecord], of_page: Account) -> None:
        """The kept hash is the base's, since the row has that one; a ban has an audit entry of its own."""
        changes = {"lock_reason": reason, "locked_at": of_page.now, "kept_hash": Player.base_hash}
        changes |= {"kept_origin": VERIFIED, "plugin_state": "locked", "plugin_since": self._context.now()}
        keys = [user.username_key for user in users]
        Player.update(changes).where(Player.username_key.in_(keys)).execute()
        if reason != BANNED:
            names = [user.username for user in users]
            self._context.audit.record_each("sync.player_locked", "sync", names, {"reason": reason})

    def _restore(self, cases: Sequence[Case]) -> list[Account]:
        became = []
        failpoints.reach("before player write")
        for account, decision in cases:
            written = RestoreStep.written(account, decision)
            if self._players.update(decision.player, written):
                known = replace(_sync_record(account), **NO_LOCK, plugin_state="synced")
                became.append(replace(account, sync_record=known, player=replace(decision.player, **written)))
        failpoints.reach("after player write")
        changes = {**NO_LOCK, "plugin_state": "synced", "plugin_since": self._context.now()}
        keys = [account.key for account in became]
        Player.update(changes).where(Player.username_key.in_(keys)).execute()
        return became

    def _note_gone(self, cases: Sequence[Case]) -> list[Account]:
        nothing: dict[str, Any] = {**NO_LOCK, **NO_INTENT}
        changes = {"presence": GONE, "plugin_state": "absent", "plugin_since": self._context.now(), **nothing}
        keys = [account.key for account, _decision in cases]
        Player.update(changes).where(Player.username_key.in_(keys)).execute()
        names = [_user(account).username for account, _decision in cases]
        self._context.audit.record_each("sync.player_removed", "sync", names)
        gone: dict[str, Any] = {"presence": GONE, "plugin_state": "absent", **nothing}
        return [replace(account, sync_record=replace(_sync_record(account), **gone)) for account, _decision in cases]

    def _take_passwords(self, cases: Sequence[Case]) -> list[Account]:
        users = [_user(account) for account, _decision in cases]
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
        self._context.audit.record_each("user.password_changed", "sync", names, {"where": "in the game"})
        bases = [
            {
                "username_key": row.username,
                "base_hash": row.hash,
                "base_salt": row.salt,
                "base_email": row.email,
                "base_realname": row.realname,
                "base_regdate": row.regdate,
            }
            for row in (merge.player for _subject, merge in cases)
        ]
        update_rows(self._database, Player, bases)
        return [
            replace(
                account,
                user=replace(_user(account), password=None),
                sync_record=replace(_sync_record(account), **base),
            )
            for (account, _merge), base in zip(cases, bases, strict=True)
        ]


_STEPS: Final[dict[type, Callable[[BulkSteps, Sequence[Case]], list[Account]]]] = {
    d.ApplySqlEdit: BulkSteps._carry_out_edits,
    d.Lock: BulkSteps._lock,
    d.Restore: BulkSteps._restore,
    d.MarkMissing: BulkSteps._note_gone,
    d.Merge: BulkSteps._take_passwords,
}


# --- what a plain case is ---


def _never(account: Account, decision: Any) -> bool:
    return False


def _is_plain_edit(account: Account, decision: d.ApplySqlEdit) -> bool:
    """A legal one that asks nothing of the row."""
    user = _user(account)
    return decision.intent is None and find_transition(user.applied_status, user.status) is not None


def _is_plain_lock(account: Account, decision: d.Lock) -> bool:
    """Of the row agreed on, with the password agreed on, and not locked before."""
    known = account.sync_record
    return (
        known is not None
        and account.user is not None
        and known.user_id == account.user.id
        and (decision.origin, decision.state) == (VERIFIED, "locked")
        and known.base_hash == decision.player.hash
        and known.locked_at is None
        and known.plugin_state != "locked"
    )


def _is_plain_restoration(account: Account, decision: d.Restore) -> bool:
    """Of the row agreed on, back to the password agreed on."""
    known, password = account.sync_record, decision.password
    return (
        known is not None
        and account.user is not None
        and known.user_id == account.user.id
        and (known.base_hash, known.base_salt) == (password.hash, password.salt)
        and known.base_regdate == decision.player.regdate
        and known.presence == PRESENT
        and known.conflict is None
        and known.intent is None
        and known.tombstone_at is None
        and known.plugin_state != "synced"
    )


def _is_plain_loss(account: Account, decision: d.MarkMissing) -> bool:
    """Of a row that nobody asked for since."""
    known = account.sync_record
    return account.user is not None and known is not None and known.intent is None and known.plugin_state != "absent"


def is_password_alone(decision: d.Decision) -> bool:
    """Whether all there is to do is to take over the game's password."""
    return isinstance(decision, d.Merge) and decision == d.Merge(decision.player, takes_password=True)


def _is_plain_password(account: Account, decision: d.Merge) -> bool:
    """Nothing but the base is to be written down: no wish, no lock, no disagreement, no tombstone."""
    known = account.sync_record
    return (
        is_password_alone(decision)
        and known is not None
        and known.plugin_state == "synced"
        and known.conflict is None
        and known.intent is None
        and known.locked_at is None
        and known.tombstone_at is None
    )


_IS_PLAIN: Final[dict[type, Callable[[Account, Any], bool]]] = {
    d.ApplySqlEdit: _is_plain_edit,
    d.Lock: _is_plain_lock,
    d.Restore: _is_plain_restoration,
    d.MarkMissing: _is_plain_loss,
    d.Merge: _is_plain_password,
}


def _user(account: Account) -> UserRecord:
    assert account.user is not None
    return account.user


def _sync_record(account: Account) -> SyncRecord:
    assert account.sync_record is not None
    return account.sync_record
