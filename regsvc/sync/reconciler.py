"""Reconciliation of single accounts for the API, the command line and logins, and the intents that they record.

Requests call it for their effects on AuthMe's row before they reply. The sync run reconciles whole pages by it.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from peewee import InternalError, OperationalError

from plugin_bridge.authme.players import PlayerRefused, PlayerRow, Players, PlayersUnavailable, locked_hash
from regsvc.allowlist.planning import PlannedUsers
from regsvc.auth.hashing import StoredPassword
from regsvc.config.live import AuthMeRules, LiveConfig
from regsvc.config.sections import Config
from regsvc.core.errors import AuthMeUnavailable
from regsvc.database import failpoints
from regsvc.database.engine import is_retryable
from regsvc.database.models import ABSENT, APPROVED, OPEN, PASSWORD, PROVISION, UNASKED, Installation, SyncRecord
from regsvc.sync.actions import Lock, unlock
from regsvc.sync.effects import NOTHING, Effects, SyncContext, apply_in_memory, intent_effects
from regsvc.sync.pages import Page, ReconcileResult, Scope
from regsvc.sync.records import (
    NO_INTENT,
    NO_LOCK,
    NO_TOMBSTONE,
    PAGE,
    Account,
    AccountLoader,
    FindRows,
    Policy,
    replace_records,
    tombstone,
)
from regsvc.sync.rules import decide, find_new_hash, has_conflict, password_for_row, request_row, row_intent

log = logging.getLogger(__name__)

_HASH_UNKNOWN: Final = "the password hash is unknown, since it was too long to store with the lock"
FULL_SCOPE: Final = Scope()


class Reconciler:
    """Service that brings the user and the player of a name in sync. Blocking: runs on a worker thread."""

    def __init__(self, context: SyncContext, live: LiveConfig, operators: Callable[[], Collection[str]]) -> None:
        """`operators` returns the lower-case names of the operators at this moment."""
        self._context = context
        self._live = live
        self._operators = operators
        self.is_enabled = context.players.is_enabled
        """Whether there is an AuthMe to sync with."""
        self.for_list: PlannedUsers | None = None
        """In a plan: the users that it has changed, where the game's allowlist is kept."""
        self.unstored = Counter[str]()
        """By how many a plan has let known `rows` and `users` grow, in memory."""
        self._derived: tuple[AuthMeRules, Policy] | None = None
        self.loader = AccountLoader(context.database, context.players, operators, context.now)

    @property
    def operators(self) -> frozenset[str]:
        """The lower-case names of the current operators."""
        return frozenset(self._operators())

    @property
    def policy(self) -> Policy:
        """The host's choices with AuthMe's current rules, derived again when those rules have been replaced."""
        rules, derived = self._live.authme, self._derived
        if derived is None or derived[0] is not rules:
            started = Installation.get_by_id(1).first_started_at
            derived = rules, _make_policy(self._live.current, rules, started, is_bridge_on=self.is_enabled)
            self._derived = derived
        return derived[1]

    # --- loading ---

    def load(self, key: str) -> Account:
        """Return the account of this lower-case name without locking any row. Raises `PlayersUnavailable`.

        AuthMe's row is not older than ours: no password that was replaced goes with the user's new `token_generation`.
        """
        return self.loader.load([key], partial(self._context.players.find_many, [key]))[0]

    def row_reader(self, key: str) -> FindRows:
        """Return a function that returns AuthMe's row by its name, or None while the table is unavailable.

        A row in a file of its own is read here and now: a busy file is waited for before our own database is locked.
        """
        read = partial(self._find_rows, [key])
        try:
            if self._context.players.shares_transactions:
                return read
        except PlayersUnavailable:
            return lambda: None
        rows = read()
        return lambda: rows

    def _find_rows(self, keys: Collection[str]) -> Mapping[str, PlayerRow] | None:
        try:
            return self._context.players.find_many(keys)
        except PlayersUnavailable:
            return None

    # --- reconciling ---

    def is_due(self, account: Account) -> bool:
        """Return whether an action other than a guarded one is due."""
        action = decide(account, self.policy, may_end=False)
        return action is not None and not action.is_guarded

    def reconcile(self, key: str, *, may_adopt: bool = True, is_guarded: bool = False) -> ReconcileResult:
        """Apply actions until both sides of this name are in sync.

        `is_guarded` postpones guarded actions. With SQLite, call it outside our transactions: AuthMe's file is another
        one. Raises `PlayersUnavailable`.
        """
        scope = Scope(may_adopt=may_adopt, is_guarded=is_guarded)
        if may_adopt:  # our rows are not older: a row that they explain is nobody's to be adopted
            [account] = self.loader.load([key], self._context.players.find_many([key]))
        else:
            account = self.load(key)
        page = Page(self._context, self.loader, self.policy, scope)
        return page.reconcile([account]).get(key) or ReconcileResult(account)

    def reconcile_many(self, accounts: Collection[Account], scope: Scope = FULL_SCOPE) -> dict[str, ReconcileResult]:
        """Reconcile accounts loaded without locks, and return the results as `Page.reconcile` does."""
        return Page(self._context, self.loader, self.policy, scope).reconcile(list(accounts))

    def reconcile_names(self, keys: Collection[str]) -> None:
        """Reconcile the accounts with these lower-case names, guarded actions included. Raises `PlayersUnavailable`."""
        self.reconcile_many(self.loader.load(keys, self._context.players.find_many(keys)))

    def reconcile_in_transaction(self, account: Account, intended: Effects = NOTHING) -> ReconcileResult | None:
        """Reconcile an account that the caller's transaction has locked, if it covers both sides; else return None.

        `intended` is written in any case. Raises `PlayersUnavailable`.
        """
        try:
            if account.is_player_known and self._context.players.shares_transactions:
                with self._context.database.atomic():
                    page = Page(self._context, self.loader, self.policy, FULL_SCOPE)
                    return page.reconcile_locked(account, intended)
        except PlayersUnavailable:
            self._context.write([(account, intended)])
            raise
        self._context.write([(account, intended)])
        return None

    def record(self, cases: Sequence[tuple[Account, Effects]]) -> None:
        """Write what is intended for accounts that the caller's transaction has locked, without carrying it out."""
        self._context.write(cases)

    def reconcile_after_commit(self, account: Account, intended: Effects = NOTHING) -> ReconcileResult | None:
        """Reconcile what `reconcile_in_transaction` was given, once it is committed, if each side has a transaction.

        Else do nothing and return None. Raises `PlayersUnavailable` also when our own database is busy: the committed
        work must not be repeated.
        """
        if self._context.players.shares_transactions:
            return None
        try:
            if not account.is_player_known:  # AuthMe's table may be back
                return self.reconcile(account.key)
            wanted = apply_in_memory(account, intended, self._context.now())
            page = Page(self._context, self.loader, self.policy, FULL_SCOPE)
            return page.reconcile([wanted]).get(account.key) or ReconcileResult(wanted)
        except (OperationalError, InternalError) as error:
            if not is_retryable(error):
                raise
            raise PlayersUnavailable("The database is busy; the intent is recorded.") from error

    def rehash(self, key: str, stored: StoredPassword, rehashed: StoredPassword) -> bool:
        """Replace a hash of a legacy algorithm with a new hash of the same password, as AuthMe does at a login.

        Returns False, having changed nothing, if row and sync record do not hold `stored`. No session ends. Raises
        `PlayersUnavailable`, also when our own database is busy: the login must not be repeated.
        """
        self._context.players.find(key)  # waits for a busy file before our own database is locked
        try:
            with self._context.database.atomic():
                return self._replace_hash(self.loader.load_for_update([key])[0], stored, rehashed)
        except PlayerRefused as refused:
            log.warning("a player's legacy hash could not be replaced: %s", refused)
            return False
        except (OperationalError, InternalError) as error:
            if not is_retryable(error):
                raise
            raise PlayersUnavailable("The database is busy; the next login rehashes.") from error

    def _replace_hash(self, account: Account, stored: StoredPassword, rehashed: StoredPassword) -> bool:
        """Write the row by compare-and-set, then our own rows. Returns False if row or base do not hold `stored`.

        Runs in one transaction of ours, also with AuthMe on SQLite, where the row is committed first. So no sync run
        sees the new hash before the new base and takes it for a password changed in the game. After a crash between the
        two writes it does, as it does when AuthMe itself rehashed first.
        """
        known, player = account.sync_record, account.player
        if known is None or player is None or not known.is_playable(player):
            return False
        if not (player.hash, player.salt) == (known.base_hash, known.base_salt) == (stored.hash, stored.salt):
            return False
        hash_, salt = rehashed.hash, rehashed.salt
        failpoints.reach("before player write")
        is_written = self._context.players.update(player, {"hash": hash_, "salt": salt})
        failpoints.reach("after player write")
        if is_written:
            own, columns = account.user.password if account.user is not None else None, {}
            # else it would count as changed by us
            if own is not None and (own.hash, own.salt) == (stored.hash, stored.salt):
                columns = {"password_hash": hash_, "password_salt": salt, "password_algorithm": rehashed.algorithm}
            self._context.write([(account, Effects({"base_hash": hash_, "base_salt": salt}, columns))])
        return is_written

    # --- intents, inside the caller's transaction; those returned are written by `reconcile_in_transaction` ---

    def record_registrations(self, user_ids: Mapping[str, int]) -> None:
        """Create the sync records of new users, given by their lower-case names, in one statement.

        `presence` says whether AuthMe was asked and had no such player.
        """
        presence = ABSENT if self.is_enabled else UNASKED
        state = "absent" if self.is_enabled else "off"
        same = {"presence": presence, "plugin_state": state, "plugin_since": self._context.now()}
        rows = [{"username_key": key, "user_id": user_id, **same} for key, user_id in user_ids.items()]
        if rows:
            SyncRecord.insert_many(rows).on_conflict("REPLACE").execute()

    def inherit_lock(self, key: str, user_id: int) -> None:
        """Give a new user the sync record of a name whose row, registered by another player, we keep locked.

        Only the lock is inherited: the base belongs to the previous user.
        """
        base = {"base_hash": None, "base_salt": None, "base_email": None, "base_realname": None, "base_regdate": None}
        base["earlier_hashes"] = None
        changes = {"user_id": user_id, "presence": ABSENT, "conflict": None, **base, **NO_INTENT, **NO_TOMBSTONE}
        SyncRecord.update(changes).where(SyncRecord.username_key == key).execute()

    def request_row(self, account: Account) -> Effects:
        """Return the intent to give an approved user a row with their own password. The caller has checked rights."""
        if account.user is None or account.user.access != APPROVED:
            return NOTHING
        return intent_effects(row_intent(account, self.policy))

    def row_requester(self, keys: Collection[str]) -> Callable[[Collection[str]], set[int]]:
        """Return a function that records what a decision that users may play requests of their rows.

        It is called with some of these names, before the decision, in its transaction, and returns the ids of the users
        who need a password first (`RowRequest`). The rows are read here and now; a later reconciliation follows.
        """
        rows = self._find_rows(keys) if keys else {}

        def request(keys: Collection[str]) -> set[int]:
            accounts = self.loader.load_for_update(keys, with_players=False) if keys and self.is_enabled else []
            intended, lacking = [], set()
            for account in accounts:
                if rows is not None:
                    account = replace(account, player=rows.get(account.key), is_player_known=True)
                wanted = request_row(account, self.policy)
                intended.append((account, intent_effects(wanted.intent)))
                if account.user is not None and wanted.needs_password:
                    lacking.add(account.user.id)
            self.record(intended)
            return lacking

        return request

    def request_new_row(self, account: Account) -> Effects:
        """Return the intent to give a user the row that was registered anew, with the password in it.

        It is carried out only on a row that still has this password. Raises `AuthMeUnavailable` if it is not known.
        """
        new = find_new_hash(account)
        if new is None:
            raise AuthMeUnavailable
        return intent_effects(OPEN, new)

    def has_password_for_row(self, account: Account) -> bool:
        """Return whether a password is known that `request_row` could give the row."""
        user, known = account.user, account.sync_record
        return user is not None and known is not None and password_for_row(user, known, self.policy) is not None

    def is_absent(self, account: Account) -> bool:
        """Return whether the user's row is gone, and none was requested yet."""
        known = account.sync_record
        return known is not None and known.plugin_state == "absent" and known.intent not in (PROVISION, OPEN)

    def request_reclaim(self, account: Account) -> Effects:
        """Return the intent to reclaim a returned row for a user who has just proven to know the password set by us."""
        return self.request_row(account) if self.is_returned(account) else NOTHING

    def is_returned(self, account: Account) -> bool:
        """Return whether another player registered the user's name in the game; the row need not be locked yet."""
        if account.player is None or account.sync_record is None:
            return False
        action = decide(account, self.policy, may_end=False)
        return account.sync_record.plugin_state == "returned" or (
            isinstance(action, Lock) and action.reason == "returned"
        )

    def request_password_write(self, account: Account) -> Effects:
        """Return the intent that the password just set through us goes to the row, whatever the row holds."""
        known = account.sync_record
        if not self.is_enabled or known is None or known.intent in (PROVISION, PASSWORD):
            return NOTHING
        return intent_effects(PASSWORD)

    def clear_email_conflict(self, account: Account) -> Effects:
        """Return the end of an e-mail conflict, because the user now has another e-mail."""
        known = account.sync_record
        if known is None or not has_conflict(known, "email"):
            return NOTHING
        others = ",".join(name for name in str(known.conflict).split(",") if name != "email") or None
        return Effects({"conflict": others})

    def record_tombstone(self, account: Account) -> Account:
        """Record which row goes with the user about to be deleted. Returns the account without the user."""
        if account.is_player_known and not self._context.players.shares_transactions:
            rows = self._find_rows([account.key])  # the row may have changed while we waited for our own lock
            account = replace(account, player=rows.get(account.key)) if rows is not None else account
        new = tombstone(account) if self.is_enabled else None
        replace_records(self._context.database, [(account.key, new)])
        return replace(account, user=None, sync_record=new)


def _make_policy(config: Config, rules: AuthMeRules, first_started_at: datetime, *, is_bridge_on: bool) -> Policy:
    sync = config.sync
    return Policy(
        existing_players=sync.existing_players,
        new_players=config.new_players,
        on_player_removed=sync.on_player_removed,
        unapproved_players=sync.unapproved_players,
        conflict=sync.conflict,
        first_started_at=first_started_at,
        algorithms=rules.algorithms,
        is_bridge_on=is_bridge_on,
        may_provision=rules.may_provision,
        idle=config.membership.idle,
        looks_at_roles=bool(config.membership.role_ids),
        notice=max(config.membership.remind, default=timedelta()),
        unverified_minutes=rules.unverified_minutes,
    )


def unlock_all(players: Players) -> tuple[int, dict[str, str]]:
    """Unlock every row that we locked, also with an empty database of ours, for the lock holds the hash. Blocking.

    Returns how many rows were unlocked, and the names of those that could not be, each with the reason: the hash is
    stored nowhere any more, or AuthMe's table refuses it. Raises `PlayersUnavailable`.
    """
    unlocked, failed = 0, dict[str, str]()
    for page in players.pages(PAGE):
        for row in page:
            if not row.is_locked:
                continue
            known = SyncRecord.get_or_none(SyncRecord.username_key == row.username)
            hash_ = locked_hash(row.hash) or (known.kept_hash if known else None)
            if hash_ is None:
                failed[row.username] = _HASH_UNKNOWN
                continue
            try:
                if not players.update(row, unlock(row, StoredPassword(hash_, row.salt, None), known).changes):
                    continue  # it has changed since it was read, and no longer holds our lock
            except PlayerRefused as refused:
                failed[row.username] = str(refused)
                continue
            unlocked += 1
            if known is not None:
                SyncRecord.update(NO_LOCK).where(SyncRecord.username_key == row.username).execute()
    return unlocked, failed
