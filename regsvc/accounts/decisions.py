"""Decisions about users: approve, reject, reopen, ban, unban and delete; and questions before one."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Final

from regsvc.accounts.access import NOT_MAILED, AccountAccess, AccountForUpdate, Principal
from regsvc.auth.rate_limits import DurableLimits, team_writes
from regsvc.core import errors
from regsvc.core.clock import Clock, is_over
from regsvc.core.text import name_key
from regsvc.core.units import RateLimit
from regsvc.database.audit import SYNC, Actor
from regsvc.database.models import APPROVED, BANNED, OPEN, PENDING, REJECTED, User
from regsvc.notifications.mail.queue import MailQueue
from regsvc.sync.actions import NO_REQUEST
from regsvc.sync.effects import intent_effects
from regsvc.sync.reconciler import Reconciler
from regsvc.sync.rules import is_registered_anew, request_row
from regsvc.users.questions import Questions
from regsvc.users.transitions import UNANSWERED, DecisionDetails, Transitions, require_permission

_REPEATABLE: Final = frozenset({"unban", "reopen"})
_AGAIN: Final = (RateLimit(20, timedelta(days=1)),)
"""Every circle of decisions about a user has one of these in it, or another ban of a banned user: each leaves a review
and its reason, for good."""
_MOST_REJECTED: Final = 500
"""Unanswered applications that are rejected at once; further ones a minute later."""


def _require_nothing(_user: User) -> None:
    """Refuse nobody."""


@dataclass(frozen=True)
class DecisionResult:
    """The outcome of a decision. `status` None: the user is deleted; `status_before` None: not known."""

    username: str
    status: str | None
    warnings: tuple[str, ...] = ()
    status_before: str | None = None


class Decisions:
    """Decisions, carried out on both our user and AuthMe's player. Blocking: for a worker thread."""

    def __init__(
        self,
        access: AccountAccess,
        reconciler: Reconciler,
        transitions: Transitions,
        questions: Questions,
        mail_queue: MailQueue,
        limits: DurableLimits,
        now: Clock,
    ) -> None:
        self._access = access
        self._reconciler = reconciler
        self._transitions = transitions
        self._questions = questions
        self._mail_queue = mail_queue
        self._limits = limits
        self._now = now

    def decide(
        self,
        username: str,
        transition: str,
        by: Principal,
        details: DecisionDetails,
        require: Callable[[User], None] = _require_nothing,
    ) -> DecisionResult:
        """Approve, reject, reopen, ban, unban or delete. `require` may refuse the user as they are, once locked.

        Raises `UserNotFound`, `Forbidden`, `WrongStatus`, `ProtectedOperator`, `PlayerReplaced`,
        `PasswordChoiceNeeded`, `MailUnavailable`, `RateLimited`, `AuthMeUnavailable`, and
        `InvalidField` for a ban that ends in the past.
        """
        if details.expires_at is not None and details.expires_at <= self._now():
            raise errors.InvalidField("expiresAt")
        work = partial(self._decide, transition=transition, by=by, details=details, require=require)
        result, warnings = self._access.change(name_key(username), work, reconciles_first=True)
        return replace(result, warnings=tuple(sorted({*result.warnings, *warnings})))

    def ask(
        self, username: str, question: str, by: Principal, require: Callable[[User], None] = _require_nothing
    ) -> DecisionResult:
        """Ask a pending user something: until they answer, the team does not wait for itself. `require`: see `decide`.

        Raises `UserNotFound`, `WrongStatus`, `ProtectedOperator`, `TooManyQuestions`, `RateLimited`, and
        `InvalidField` for a question that is empty or too long.
        """

        def work(locked: AccountForUpdate) -> DecisionResult:
            self._access.require_permission(locked.user, "ask", by)
            self.apply_sql_edit(locked)
            require(locked.user)
            self._limits.hit_all(team_writes(by.username))
            is_mailed = self._questions.ask(locked.user, question, by.actor)
            return DecisionResult(locked.user.username, PENDING, () if is_mailed else (NOT_MAILED,), PENDING)

        result, _warnings = self._access.change(name_key(username), work, reconciles_first=True)
        return result

    def reject_unanswered(self, expires: timedelta) -> int:
        """Reject users who have not answered a question for so long; returns their number. They may apply again."""
        asked = (User.status == PENDING) & (User.is_asked == True)  # noqa: E712 - by the index of those who wait
        is_due = asked & (User.asked_at <= self._now() - expires)
        due = User.select(User.username_key).where(is_due).order_by(User.asked_at).limit(_MOST_REJECTED)
        details = DecisionDetails(UNANSWERED, may_reapply=True)

        def work(locked: AccountForUpdate) -> int:
            user = locked.user  # answered, asked again or decided meanwhile, also in SQL, it stays
            is_pending = user.status == user.applied_status == PENDING
            if not is_pending or user.asked_at is None or not is_over(user.asked_at, expires, self._now()):
                return 0
            self._transitions.change(user, "reject", SYNC, details)
            locked.take_user()
            return 1

        count = 0
        for user in list(due):
            with suppress(errors.UserNotFound):  # deleted meanwhile
                rejected, _warnings = self._access.change(user.username_key, work)
                count += rejected
        if count:
            self._mail_queue.wake_all()
        return count

    def _decide(
        self,
        locked: AccountForUpdate,
        transition: str,
        by: Principal,
        details: DecisionDetails,
        require: Callable[[User], None],
    ) -> DecisionResult:
        self._access.require_permission(locked.user, transition, by)
        self.apply_sql_edit(locked)
        require(locked.user)
        user, status_before = locked.user, locked.user.status
        warnings = tuple(self._access.find_warnings(transition, locked.account))
        if transition == "delete":
            self.delete(locked, by.actor, details)
            return DecisionResult(user.username, None, warnings, status_before)
        if transition in ("approve", "unban"):
            self._require_same_player(locked)
        if transition == "approve":
            details = self._settle_password(locked, details)
        require_permission(transition, status_before, details, by.rights)
        is_again = transition in _REPEATABLE or (transition == "ban" and user.status == BANNED)
        if by.username and is_again:  # of one member: nobody keeps a user from being banned by others
            self._limits.hit("user.decided_again", f"{name_key(by.username)} {user.id}", _AGAIN)
        request = NO_REQUEST
        if transition in ("approve", "unban") and details.password_choice is None:
            request = request_row(locked.account, self._reconciler.policy)  # by the account as it was
            details = replace(details, needs_password=request.needs_password)
        if transition == "ban" and user.status == BANNED:
            self._transitions.change_ban(user, by.actor, details)
        elif transition == "approve" and user.status == APPROVED and self._may_approve_again(locked, details):
            self._transitions.approve_again(user, by.actor, details)
        else:
            self._transitions.change(user, transition, by.actor, details)
        locked.take_user()
        if transition == "approve" and details.password_choice == "take":  # noqa: S105 - a choice, not a secret
            locked.intended = self._reconciler.request_new_row(locked.account)
        elif details.password_choice == "keep":  # noqa: S105
            locked.intended = self._reconciler.request_row(locked.account)
        else:  # by a link the row opens, or is created
            locked.intended = intent_effects(request.intent)
        return DecisionResult(user.username, user.status, warnings, status_before)

    def apply_sql_edit(self, locked: AccountForUpdate) -> None:
        """Apply a status set with SQL first, as the older decision."""
        if locked.user.status != locked.user.applied_status:
            self._transitions.apply_sql_edits([locked.user])
            locked.take_user()

    def delete(self, locked: AccountForUpdate, by: Actor, details: DecisionDetails) -> None:
        """Delete the user inside the caller's transaction, and record which row goes with it."""
        locked.account = self._reconciler.record_tombstone(locked.account)
        self._transitions.delete(locked.user, by, details)

    def _require_same_player(self, locked: AccountForUpdate) -> None:
        """Check that an operator's row is still the one that made the name a user.

        An approval, or the end of a ban before one, gives the row to the user: to the player who registered the name
        first, if another has it by now.
        Raises `PlayerReplaced`, and `AuthMeUnavailable` where the row cannot be read.
        """
        user, account = locked.user, locked.account
        status = user.banned_from if user.status == BANNED else user.status
        is_waiting_operator = account.is_operator and user.origin == "adopted" and status in (PENDING, REJECTED)
        if not is_waiting_operator or not self._reconciler.policy.is_bridge_on:
            return
        if not account.is_player_known:
            raise errors.AuthMeUnavailable
        if account.own_player is None:
            raise errors.PlayerReplaced

    def _settle_password(self, locked: AccountForUpdate, details: DecisionDetails) -> DecisionDetails:
        """Return the details of an approval, without a choice of the password where there is none.

        There is one where the row was registered anew in the game. Where it is merely gone, a link is the alternative
        to the password that it had. Raises `PasswordChoiceNeeded`, `MailUnavailable`, and `WrongStatus` where a choice
        was made before: it may wait for AuthMe's table.
        """
        account, choice, user = locked.account, details.password_choice, locked.user
        if user.status == BANNED:
            raise errors.WrongStatus(user.status)
        is_anew, is_approved = is_registered_anew(account, self._reconciler.policy), user.status == APPROVED
        if not is_anew and not (is_approved and self._reconciler.is_absent(account)):
            if is_approved and choice in ("take", "link"):
                raise errors.WrongStatus(user.status)
            return replace(details, password_choice=None)
        if is_anew and choice is None:
            raise errors.PasswordChoiceNeeded
        if is_anew and not account.is_player_known and account.sync_record and account.sync_record.intent == OPEN:
            raise errors.WrongStatus(user.status)
        if choice == "take" and not is_anew:
            raise errors.PasswordChoiceNeeded("nothing_to_take")
        if choice == "keep" and not self._reconciler.has_password_for_row(account):
            raise errors.PasswordChoiceNeeded("nothing_to_keep")
        if choice == "link":
            self._mail_queue.require_available()
            if user.proven_key is None:
                raise errors.PasswordChoiceNeeded("no_address")
        return details

    def _may_approve_again(self, locked: AccountForUpdate, details: DecisionDetails) -> bool:
        """Return whether the approval of an approved user does anything: for the row, the game's list, or a link."""
        account = locked.account
        is_anew = is_registered_anew(account, self._reconciler.policy)
        if locked.is_opened or is_anew or self._transitions.is_kept_off(locked.user):
            return True
        can_help = details.sends_link or self._reconciler.has_password_for_row(account)
        return can_help and self._reconciler.is_absent(account)
