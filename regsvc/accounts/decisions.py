"""Decisions about users: approve, reject, reopen, ban, unban and delete; and questions before one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import UNSET, Meta, UnsetType

from regsvc.accounts.access import MEMBERSHIP_ENDED, NOT_MAILED, AccountAccess, AccountForUpdate, Warnings
from regsvc.auth.entitlement import Principal
from regsvc.auth.rate_limits import DurableLimits, team_writes
from regsvc.core import errors
from regsvc.core.clock import Clock, is_over
from regsvc.core.errors import InvalidField, Refusal
from regsvc.core.rights import Permission
from regsvc.core.shapes import EpochMilliseconds, Output, Username, to_datetime
from regsvc.core.text import name_key
from regsvc.core.units import RateLimit
from regsvc.database.audit import SYNC, Actor
from regsvc.database.models import APPROVED, BANNED, IS_ASKED, OPEN, PENDING, REJECTED, Review, User
from regsvc.http.kept_replies import LIFETIME
from regsvc.http.messages import Reply, Request
from regsvc.http.route import Routes
from regsvc.notifications.mail.queue import MailQueue
from regsvc.sync.bulk_actions import NO_REQUEST
from regsvc.sync.effects import NOTHING, intent_effects
from regsvc.sync.reconciler import Reconciler
from regsvc.sync.rules import is_registered_anew, request_row
from regsvc.users.gates import find_membership_edit, has_ended
from regsvc.users.membership import For, Memberships, Until, read_term
from regsvc.users.questions import MAX_QUESTION, Questions
from regsvc.users.transitions import (
    TRANSITIONS,
    UNANSWERED,
    DecisionDetails,
    PasswordChoice,
    Transitions,
    may_be_approved_again,
    require_permission,
)
from regsvc.users.user_list import Reason

if TYPE_CHECKING:
    from regsvc.http.call import Call

ROUTES: Final = Routes()

_REPEATABLE: Final = frozenset({"unban", "reopen"})
_AGAIN: Final = (RateLimit(20, timedelta(days=1)),)
"""Every circle of decisions about a user has one of these in it, or another ban of a banned user: each leaves a review
and its reason, for good."""
_REPEATED_FOR: Final = timedelta(seconds=LIFETIME)
_MOST_REJECTED: Final = 500
"""Unanswered applications that are rejected at once; further ones a minute later."""


def require_nothing(_user: User) -> None:
    """Refuse nobody."""


@dataclass(frozen=True)
class DecisionResult:
    """The outcome of a decision. `status` None: the user is deleted; `status_before` None: not known."""

    username: str
    status: str | None
    warnings: tuple[str, ...] = ()
    status_before: str | None = None
    has_ended: bool = False


@dataclass(frozen=True)
class Decisions:
    """Decisions, carried out on both our user and AuthMe's player. Blocking: for a worker thread."""

    access: AccountAccess
    reconciler: Reconciler
    transitions: Transitions
    questions: Questions
    mail_queue: MailQueue
    limits: DurableLimits
    now: Clock

    def decide(
        self,
        username: str,
        transition: str,
        by: Principal,
        details: DecisionDetails,
        require: Callable[[User], None] = require_nothing,
    ) -> DecisionResult:
        """Approve, reject, reopen, ban, unban or delete. `require` may refuse the user as they are, once locked.

        Raises `UserNotFound`, `Forbidden`, `WrongStatus`, `ProtectedOperator`, `PlayerReplaced`,
        `PasswordChoiceNeeded`, `MailUnavailable`, `RateLimited`, `AuthMeUnavailable`, and
        `InvalidField` for a ban that ends in the past.
        """
        if details.expires_at is not None and details.expires_at <= self.now():
            raise errors.InvalidField("expiresAt")
        work = partial(self._decide, transition=transition, by=by, details=details, require=require)
        try:
            result, warnings = self.access.change(name_key(username), work, reconciles_first=True)
        except (errors.WrongStatus, errors.UserNotFound):
            made = self._find_made(username, transition, by, details)
            if made is None:
                raise
            return made
        return replace(result, warnings=tuple(sorted({*result.warnings, *warnings})))

    def _find_made(
        self, username: str, transition: str, by: Principal, details: DecisionDetails
    ) -> DecisionResult | None:
        """Return the last decision about the user, if the attempt has made it before; None: it is another one."""
        if not details.is_attempt or details.password_choice is not None:
            return None
        last = Review.select().where(Review.username_key == name_key(username)).order_by(Review.id.desc()).first()
        asked = (transition, by.actor.name, details.reason, details.expires_at)
        if last is None or asked != (last.transition, last.operator, last.reason, last.ban_expires_at):
            return None
        is_recent = not is_over(last.reviewed_at, _REPEATED_FOR, self.now())
        return DecisionResult(last.username, last.status_after, (), last.status_before) if is_recent else None

    def ask(
        self, username: str, question: str, by: Principal, require: Callable[[User], None] = require_nothing
    ) -> DecisionResult:
        """Ask a pending user something: until they answer, the team does not wait for itself. `require`: see `decide`.

        Raises `UserNotFound`, `WrongStatus`, `ProtectedOperator`, `TooManyQuestions`, `RateLimited`, and
        `InvalidField` for a question that is empty or too long.
        """

        def work(locked: AccountForUpdate) -> DecisionResult:
            self.access.require_permission(locked.user, "ask", by)
            self.apply_sql_edit(locked)
            require(locked.user)
            self.limits.hit_all(team_writes(by.username))
            is_mailed = self.questions.ask(locked.user, question, by.actor)
            return DecisionResult(locked.user.username, PENDING, () if is_mailed else (NOT_MAILED,), PENDING)

        result, _warnings = self.access.change(name_key(username), work, reconciles_first=True)
        return result

    def reject_unanswered(self, expires: timedelta) -> int:
        """Reject users who have not answered a question for so long; returns their number. They may apply again."""
        is_due = IS_ASKED & (User.asked_at <= self.now() - expires)
        due = User.select(User.username_key).where(is_due).order_by(User.asked_at).limit(_MOST_REJECTED)
        details = DecisionDetails(UNANSWERED, may_reapply=True)

        def work(locked: AccountForUpdate) -> int:
            user = locked.user  # answered, asked again or decided meanwhile, also in SQL, it stays
            is_pending = user.status == user.applied_status == PENDING
            if not is_pending or user.asked_at is None or not is_over(user.asked_at, expires, self.now()):
                return 0
            self.transitions.change(user, "reject", SYNC, details)
            locked.take_user()
            return 1

        count = 0
        for user in list(due):
            with suppress(errors.UserNotFound):  # deleted meanwhile
                rejected, _warnings = self.access.change(user.username_key, work)
                count += rejected
        if count:
            self.mail_queue.wake_all()
        return count

    def _decide(
        self,
        locked: AccountForUpdate,
        transition: str,
        by: Principal,
        details: DecisionDetails,
        require: Callable[[User], None],
    ) -> DecisionResult:
        self.access.require_permission(locked.user, transition, by)
        self.apply_sql_edit(locked)
        require(locked.user)
        user, status_before = locked.user, locked.user.status
        warnings = tuple(self.access.find_warnings(transition, locked.account))
        if transition == "delete":
            require_permission(transition, status_before, details, by.rights)
            self.delete(locked, by.actor, details)
            return DecisionResult(user.username, None, warnings, status_before)
        if transition in ("approve", "unban"):
            self._require_same_player(locked)
        if transition == "approve":
            if details.member_until not in (UNSET, None) and self.access.has_rank(user):
                raise errors.MembershipNeverEnds
            details = self._settle_password(locked, details)
        require_permission(transition, status_before, details, by.rights)
        is_again = transition in _REPEATABLE or (transition == "ban" and user.status == BANNED)
        if by.username and is_again:  # of one member: nobody keeps a user from being banned by others
            self.limits.hit("user.decided_again", f"{name_key(by.username)} {user.id}", _AGAIN)
        request = NO_REQUEST
        is_member = user.ended_because is None
        if transition in ("approve", "unban") and details.password_choice is None and is_member:
            request = request_row(locked.account, self.reconciler.policy)  # by the account as it was
            details = replace(details, needs_password=request.needs_password)
        if transition == "ban" and user.status == BANNED:
            self.transitions.change_ban(user, by.actor, details)
        elif transition == "approve" and user.status == APPROVED and self._may_approve_again(locked, details):
            self.transitions.approve_again(user, by.actor, details)
        else:
            self.transitions.change(user, transition, by.actor, details)
        if transition == "unban" and has_ended(user, self.now()):
            warnings = (*warnings, MEMBERSHIP_ENDED)
        locked.take_user()
        if transition == "approve" and details.password_choice == "take":  # noqa: S105 - a choice, not a secret
            locked.intended = self.reconciler.request_new_row(locked.account)
        elif details.password_choice == "keep":  # noqa: S105
            locked.intended = self.reconciler.request_row(locked.account)
        else:  # by a link the row opens, or is created
            locked.intended = intent_effects(request.intent)
        return DecisionResult(user.username, user.status, warnings, status_before)

    def apply_sql_edit(self, locked: AccountForUpdate) -> None:
        """Apply a status or a membership set with SQL first, as the older decision."""
        user = locked.user
        if user.status != user.applied_status:
            self.transitions.apply_sql_edits([user])
            locked.take_user()
        if find_membership_edit(user, self.now()) is not None:
            request = request_row(locked.account, self.reconciler.policy)
            Memberships(self.transitions).apply_sql_edits([user])
            locked.take_user()
            if user.ended_because is None:
                locked.intended |= intent_effects(request.intent)

    def delete(self, locked: AccountForUpdate, by: Actor, details: DecisionDetails) -> None:
        """Delete the user inside the caller's transaction, and record which row goes with it."""
        locked.account = self.reconciler.record_tombstone(locked.account)
        locked.intended = NOTHING  # what was typed in SQL before may have requested the row
        self.transitions.delete(locked.user, by, details)

    def _require_same_player(self, locked: AccountForUpdate) -> None:
        """Check that an operator's row is still the one that made the name a user.

        An approval, or the end of a ban before one, gives the row to the user: to the player who registered the name
        first, if another has it by now.
        Raises `PlayerReplaced`, and `AuthMeUnavailable` where the row cannot be read.
        """
        user, account = locked.user, locked.account
        status = user.banned_from if user.status == BANNED else user.status
        is_waiting_operator = account.is_operator and user.origin == "adopted" and status in (PENDING, REJECTED)
        if not is_waiting_operator or not self.reconciler.policy.is_bridge_on:
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
        is_anew, is_approved = is_registered_anew(account, self.reconciler.policy), user.status == APPROVED
        if not is_anew and not (is_approved and self.reconciler.is_absent(account)):
            if is_approved and choice in ("take", "link"):
                raise errors.WrongStatus(user.status)
            return replace(details, password_choice=None)
        if is_anew and choice is None:
            raise errors.PasswordChoiceNeeded
        if is_anew and not account.is_player_known and account.sync_record and account.sync_record.intent == OPEN:
            raise errors.WrongStatus(user.status)
        if choice == "take" and not is_anew:
            raise errors.PasswordChoiceNeeded("nothing_to_take")
        if choice == "keep" and not self.reconciler.has_password_for_row(account):
            raise errors.PasswordChoiceNeeded("nothing_to_keep")
        if choice == "link":
            self.mail_queue.require_available()
            if user.proven_key is None:
                raise errors.PasswordChoiceNeeded("no_address")
        return details

    def _may_approve_again(self, locked: AccountForUpdate, details: DecisionDetails) -> bool:
        """Return whether the approval of an approved user does anything: for the row, the game's list, or a link."""
        account = locked.account
        if details.member_until is not UNSET:
            return False  # which would change the membership
        return locked.is_opened or may_be_approved_again(
            is_anew=is_registered_anew(account, self.reconciler.policy),
            is_kept_off=self.transitions.is_kept_off(locked.user),
            is_absent=self.reconciler.is_absent(account),
            has_password=details.sends_link or self.reconciler.has_password_for_row(account),
        )


MAX_BATCH = 100

Outcome = Annotated[
    str,
    Meta(
        extra_json_schema={"enum": ["pending", "approved", "rejected", "banned", "deleted"]},
        description="The status afterwards; `deleted` if the user no longer exists.",
        examples=["approved"],
    ),
]


class ReviewRequest(Request, frozen=True, kw_only=True):
    """A decision about one user (`username`) or many (`usernames`), who are notified unless `silent`."""

    username: Username | None = None
    uuid: (
        Annotated[Username, Meta(description="An alias of `username` for older front ends.", examples=["Alice"])] | None
    ) = None
    user_id: (
        Annotated[Username, Meta(description="Another alias of `username` for older front ends.", examples=["Alice"])]
        | None
    ) = None
    usernames: Annotated[list[Username], Meta(min_length=1, max_length=MAX_BATCH)] | None = None
    reason: Reason | None = None
    silent: bool = False

    @property
    def targets(self) -> list[str]:
        """The names in order, without duplicates; raises InvalidField unless exactly one field is given."""
        username = next((name for name in (self.username, self.uuid, self.user_id) if name is not None), None)
        if self.usernames is not None and username is not None:
            raise InvalidField("usernames")
        if self.usernames is not None:
            return list(dict.fromkeys(self.usernames))
        if username is not None:
            return [username]
        raise InvalidField("username")


class DecisionReply(Reply, frozen=True, kw_only=True):
    """The result for one user."""

    kind: Annotated[str, Meta(extra_json_schema={"const": "one"}, examples=["one"])] = "one"
    username: Username
    status: Outcome
    warnings: Warnings | UnsetType = UNSET


class BulkDecisionResult(Output, frozen=True, kw_only=True):
    """The result for one of many users: the current `status`, and `code` if the decision was refused."""

    success: bool
    message: Annotated[str, Meta(examples=["Alice was approved."])]
    username: Username
    status: Outcome | UnsetType = UNSET
    warnings: Warnings | UnsetType = UNSET
    code: Annotated[str, Meta(examples=["wrong_status"])] | UnsetType = UNSET
    field: str | UnsetType = UNSET
    permission: Annotated[str, Meta(description="The one that is missing.", examples=["users.ban"])] | UnsetType = UNSET


class BulkDecisionReply(Reply, frozen=True, kw_only=True):
    """One result per name, in the order of the request."""

    kind: Annotated[str, Meta(extra_json_schema={"const": "many"}, examples=["many"])] = "many"
    results: list[BulkDecisionResult]


DECISION_REFUSALS: Final = (errors.UserNotFound, errors.WrongStatus, errors.ProtectedOperator)

Decide = Callable[[str], Awaitable[DecisionResult]]

MessageKey = Callable[[DecisionResult], str]


@ROUTES.add(
    "POST",
    "/api/admin/user/approve",
    TRANSITIONS["approve"].permission,
    *DECISION_REFUSALS,
    errors.PlayerReplaced,
    errors.PasswordChoiceNeeded,
    errors.AuthMeUnavailable,
    errors.MailUnavailable,
    errors.InvalidMembership,
    errors.MembershipNeverEnds,
)
async def approve(
    call: Call,
    decisions: Decisions,
    mails: MailQueue,
    request: ReviewRequest,
    *,
    password_choice: (
        Annotated[
            PasswordChoice,
            Meta(
                description="The password that counts where an approved user's name was registered anew in the game "
                "(`plugin` is `returned`); without it that approval is refused (`password_choice_needed`). `keep` the "
                "one from before, `take` the one it was registered with, or mail the user a `link` to set one, until "
                "when the row stays locked. Where the player is merely gone (`absent`), `link` keeps the password from "
                "before from coming back. `take` requires `users.manage`, and mails the user even if `silent`. Ignored "
                "for registrations under review, whose own password counts.",
            ),
        ]
        | None
    ) = None,
    until: Until | UnsetType | None = UNSET,
    for_: For | UnsetType = UNSET,
) -> DecisionReply | BulkDecisionReply:
    """Approve a pending or rejected registration, so that the player may join.

    A player who is approved already, but was removed from the game or its allowlist, or registered there anew, is let
    in again.

    ApproveRequest: An approval, of a batch with one choice of the password for all. The membership that it begins lasts
    `until` a time, or `for` so long; null: without end; without either as long as `membership.ends` says.
    """
    term = read_term(until, for_)
    end = UNSET if term is None else term.find_end(decisions.now())
    more = {"password_choice": password_choice, "member_until": end}
    return await change_status(call, decisions, mails, request, "approve", "approved", **more)


@ROUTES.add("POST", "/api/admin/user/reject", TRANSITIONS["reject"].permission, *DECISION_REFUSALS)
async def reject(
    call: Call, decisions: Decisions, mails: MailQueue, request: ReviewRequest, *, may_reapply: bool = False
) -> DecisionReply | BulkDecisionReply:
    """Reject a pending registration.

    RejectRequest: A rejection. `mayReapply`: the name is free again at once, not only after
    `registration.reapply_after`.
    """
    return await change_status(call, decisions, mails, request, "reject", "rejected", may_reapply=may_reapply)


@ROUTES.add("POST", "/api/admin/user/ban", TRANSITIONS["ban"].permission, *DECISION_REFUSALS, errors.RateLimited)
async def ban(
    call: Call,
    decisions: Decisions,
    mails: MailQueue,
    request: ReviewRequest,
    *,
    expires_at: EpochMilliseconds | UnsetType | None = UNSET,
) -> DecisionReply | BulkDecisionReply:
    """Ban a user, temporarily or permanently, or change a ban.

    BanRequest: A ban until `expiresAt`; null: permanent. If missing, an existing ban keeps its end; a new one has
    none.
    """
    end = None if isinstance(expires_at, UnsetType) else to_datetime(expires_at)

    def message(decided: DecisionResult) -> str:
        return "ban_changed" if decided.status_before == decided.status else "banned"

    return await change_status(
        call, decisions, mails, request, "ban", message, expires_at=end, keeps_expiry=expires_at is UNSET
    )


@ROUTES.add(
    "POST",
    "/api/admin/user/unban",
    TRANSITIONS["unban"].permission,
    *DECISION_REFUSALS,
    errors.PlayerReplaced,
    errors.AuthMeUnavailable,
    errors.RateLimited,
)
async def unban(
    call: Call, decisions: Decisions, mails: MailQueue, request: ReviewRequest
) -> DecisionReply | BulkDecisionReply:
    """Lift a ban: the user is approved.

    A player whose row AuthMe deleted meanwhile is in the game again; one that was registered there anew stays locked,
    with a warning.
    """
    return await change_status(call, decisions, mails, request, "unban", "unbanned")


@ROUTES.add("POST", "/api/admin/user/reopen", TRANSITIONS["reopen"].permission, *DECISION_REFUSALS, errors.RateLimited)
async def reopen(
    call: Call, decisions: Decisions, mails: MailQueue, request: ReviewRequest, *, silent: bool = True
) -> DecisionReply | BulkDecisionReply:
    """Let a rejected user wait for review again, or, with `users.ban`, an approved one, who may not play until then.

    ReopenRequest: Users who are to wait for review again; with `silent` false they are mailed.
    """
    return await change_status(call, decisions, mails, request, "reopen", "reopened")


@ROUTES.add("POST", "/api/admin/user/delete", TRANSITIONS["delete"].permission, *DECISION_REFUSALS)
async def delete(
    call: Call, decisions: Decisions, mails: MailQueue, request: ReviewRequest
) -> DecisionReply | BulkDecisionReply:
    """Delete a user and their player."""
    return await change_status(call, decisions, mails, request, "delete", "deleted")


async def apply(
    call: Call, mails: MailQueue, request: ReviewRequest, decide: Decide, message_key: str | MessageKey
) -> DecisionReply | BulkDecisionReply:
    """Apply `decide` to the targets; `message_key` is the key of the message, or derives it from the result."""
    if request.usernames is not None:
        reply: DecisionReply | BulkDecisionReply = BulkDecisionReply(
            results=[await _result(call, name, decide, message_key) for name in request.targets]
        )
    else:
        reply = decision_reply(call, await decide(request.targets[0]), message_key)
    mails.wake_all()
    return reply


def decision_reply(call: Call, decided: DecisionResult, message_key: str | MessageKey) -> DecisionReply:
    """Return the reply about one user."""
    return DecisionReply(**_outcome(call, decided, message_key))


async def change_status(
    call: Call,
    decisions: Decisions,
    mails: MailQueue,
    request: ReviewRequest,
    transition: str,
    message_key: str | MessageKey,
    **details: Any,
) -> DecisionReply | BulkDecisionReply:
    """Apply a transition to the targets; `details` are further ones of the decision."""
    is_attempt = call.attempt_nonce is not None
    decision = DecisionDetails(request.reason, is_silent=request.silent, is_attempt=is_attempt, **details)
    decide = partial(decisions.decide, transition=transition, by=call.principal, details=decision)
    return await apply(call, mails, request, partial(call.run, decide), message_key)


async def _result(call: Call, username: str, decide: Decide, message_key: str | MessageKey) -> BulkDecisionResult:
    try:
        decided = await decide(username)
    except Refusal as refusal:
        return BulkDecisionResult(
            success=False,
            message=call.translations.refusal(refusal, call.language),
            username=username,
            status=refusal.facts.get("status", UNSET),  # type: ignore[arg-type]  # that of WrongStatus is a text
            code=refusal.code,
            field=refusal.field or UNSET,
            permission=refusal.facts.get("permission", UNSET),  # type: ignore[arg-type]  # that of Forbidden is a text
        )
    return BulkDecisionResult(success=True, **_outcome(call, decided, message_key))


def _outcome(call: Call, decided: DecisionResult, message_key: str | MessageKey) -> dict[str, Any]:
    """Return the fields that replies about one user and about many have."""
    key = message_key if isinstance(message_key, str) else message_key(decided)
    return {
        "message": call.message(key, username=decided.username),
        "username": decided.username,
        "status": decided.status or "deleted",
        "warnings": list(decided.warnings) or UNSET,
    }


@ROUTES.add(
    "POST",
    "/api/admin/user/ask",
    Permission.USERS_REVIEW,
    *DECISION_REFUSALS,
    errors.TooManyQuestions,
    errors.RateLimited,
)
async def ask(
    call: Call,
    mail_queue: MailQueue,
    decisions: Decisions,
    *,
    username: Username,
    question: Annotated[str, Meta(min_length=1, max_length=MAX_QUESTION, examples=["Which Bob do you know?"])],
) -> DecisionReply:
    """Ask an applicant something: the application stays pending, and waits for the answer (`waitingFor`).

    The applicant is mailed a link to it; `warnings` says if they cannot be. A question that is open stays
    open beside another one, and an answer answers both.

    AskRequest: A question to an applicant.
    """
    asked = await call.run(decisions.ask, username, question, call.principal)
    mail_queue.wake_all()
    return decision_reply(call, asked, lambda it: "asked_unmailed" if it.warnings else "asked")
