"""Memberships: how long who was approved may play. The team sets and prolongs their ends."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import UNSET, Meta, UnsetType

from regsvc.accounts.access import AccountAccess, AccountForUpdate
from regsvc.accounts.decisions import (
    DECISION_REFUSALS,
    BulkDecisionReply,
    DecisionReply,
    DecisionResult,
    Decisions,
    ReviewRequest,
    apply,
    require_nothing,
)
from regsvc.auth.entitlement import Principal
from regsvc.auth.rate_limits import DurableLimits, team_writes
from regsvc.config.live import LiveConfig
from regsvc.core import errors
from regsvc.core.clock import Clock
from regsvc.core.rights import Permission
from regsvc.core.text import name_key
from regsvc.database.audit import Actor
from regsvc.database.models import APPROVED, User
from regsvc.http.messages import MessageReply
from regsvc.http.route import USER, Routes
from regsvc.notifications.mail.queue import MailQueue
from regsvc.sync.effects import intent_effects
from regsvc.sync.rules import request_row
from regsvc.users.gates import EndCause, membership
from regsvc.users.membership import For, Memberships, Term, Until, read_term
from regsvc.users.notes import Notes

if TYPE_CHECKING:
    from regsvc.http.call import Call

ROUTES: Final = Routes()

_MAX_TEXT: Final = 500


@dataclass(frozen=True)
class MembershipChanges:
    """Changes of memberships by the team and the command line. Blocking: for a worker thread."""

    access: AccountAccess
    decisions: Decisions
    notes: Notes
    limits: DurableLimits
    live: LiveConfig
    now: Clock

    def set(
        self,
        username: str,
        term: Term,
        by: Principal,
        require: Callable[[User], None] = require_nothing,
        *,
        is_silent: bool = False,
    ) -> DecisionResult:
        """Let an approved user's membership last so long; one that has ended begins anew. `require`: see `Decisions`.

        Raises `UserNotFound`, `WrongStatus`, `ProtectedOperator`, `Forbidden`, `RateLimited`, `InvalidMembership`, and
        `MembershipNeverEnds` for an end of a member of the team.
        """
        work = partial(self._set, term=term, by=by, require=require, is_silent=is_silent)
        result, warnings = self.access.change(name_key(username), work, reconciles_first=True)
        return DecisionResult(result, APPROVED, tuple(sorted(warnings)), APPROVED)

    def let_stay(self, user: User, by: Principal, require: Callable[[User], None]) -> DecisionResult:
        """Let a member stay who asked for it, for as long as an approval lasts that says nothing else. See `set`.

        Who still plays, and until no date, gets none: that would be less than they have.
        """
        has_date = user.ended_because is not None or user.member_until is not None
        return self.set(
            user.username, Term(duration=self.live.current.membership.ends if has_date else None), by, require
        )

    def ask_to_stay(self, username: str, text: str) -> None:
        """Note that a member asks to stay; a text is kept as a note, which the team reads.

        Raises `UserNotFound` and `CannotAskToStay`.
        """

        def work(locked: AccountForUpdate) -> None:
            user, by = locked.user, Actor(locked.user.username)
            self.decisions.apply_sql_edit(locked)
            if self.live.current.membership.renew != "ask":
                raise errors.CannotAskToStay("off")
            found = membership(user, self.now())
            if found is None or found.state == "current":
                raise errors.CannotAskToStay("not_ending")
            if user.stay_asked_at is not None:
                raise errors.CannotAskToStay("asked")
            Memberships(self.decisions.transitions).ask_to_stay(user, by)
            if text.strip():
                with suppress(errors.TooManyNotes):  # how much the team wrote is not theirs to know: they have asked
                    self.notes.add(user.username, text, by)
            locked.take_user()

        self.access.change(name_key(username), work)

    def decline(self, username: str, by: Principal, *, is_silent: bool = False) -> DecisionResult:
        """Decline that a member stays, who asked for it; they may ask again.

        Raises `UserNotFound`, `NotAskedToStay`, `ProtectedOperator`, `Unauthorized`, `Forbidden` and `RateLimited`.
        """

        def work(locked: AccountForUpdate) -> str:
            user = locked.user
            self.access.require_permission(user, "membership", by)
            self.decisions.apply_sql_edit(locked)
            if user.status != APPROVED or user.stay_asked_at is None:
                raise errors.NotAskedToStay
            self.limits.hit_all(team_writes(by.username))
            Memberships(self.decisions.transitions).decline(user, by.actor, is_silent=is_silent)
            locked.take_user()
            return str(user.username)

        return DecisionResult(self.access.change(name_key(username), work)[0], APPROVED, (), APPROVED)

    def return_by_login(self, username: str) -> None:
        """Let a membership go on that ended for idleness, if a login on the web is enough for that.

        Raises `UserNotFound`.
        """
        if self.live.current.membership.idle_returns == "login":
            self.let_return(username, "idle", Actor(username))

    def let_return(self, username: str, because: EndCause, by: Actor) -> None:
        """Let a membership go on that ended for this cause, if its date has not come. Raises `UserNotFound`."""

        def work(locked: AccountForUpdate) -> None:
            self.decisions.apply_sql_edit(locked)
            user = locked.user
            is_past = user.member_until is not None and user.member_until <= self.now()
            if user.status != APPROVED or user.ended_because != because or is_past:
                return
            request = request_row(locked.account, self.decisions.reconciler.policy)
            Memberships(self.decisions.transitions).renew([user], user.member_until, by)
            locked.take_user()
            locked.intended |= intent_effects(request.intent)

        self.access.change(name_key(username), work)

    def _set(
        self,
        locked: AccountForUpdate,
        term: Term,
        by: Principal,
        require: Callable[[User], None],
        *,
        is_silent: bool,
    ) -> str:
        self.access.require_permission(locked.user, "membership", by)
        self.decisions.apply_sql_edit(locked)
        require(locked.user)
        user = locked.user
        has_ended = user.ended_because is not None
        if user.status != APPROVED:
            raise errors.WrongStatus(user.status)
        if term.has_end and self.access.has_rank(user):
            raise errors.MembershipNeverEnds
        before = user.member_until
        end = term.find_end(self.now(), None if has_ended else before)
        is_shorter = not has_ended and end is not None and (before is None or end < before)
        if is_shorter and not by.rights.may(Permission.USERS_BAN):  # it takes them out of the game, if later
            raise errors.Forbidden(permission=Permission.USERS_BAN)
        self.limits.hit_all(team_writes(by.username))
        reconciler = self.decisions.reconciler
        request = request_row(locked.account, reconciler.policy) if has_ended else None
        Memberships(self.decisions.transitions).renew([user], end, by.actor, is_silent=is_silent)
        locked.take_user()
        locked.intended |= intent_effects(None if request is None else request.intent)
        return str(user.username)


@ROUTES.add(
    "POST",
    "/api/admin/user/membership",
    Permission.USERS_REVIEW,
    *DECISION_REFUSALS,
    errors.InvalidMembership,
    errors.MembershipNeverEnds,
    errors.NotAskedToStay,
    errors.RateLimited,
)
async def set_membership(
    call: Call,
    changes: MembershipChanges,
    mails: MailQueue,
    request: ReviewRequest,
    *,
    until: Until | UnsetType | None = UNSET,
    for_: For | UnsetType = UNSET,
    decline: Annotated[bool, Meta(description="Decline what users asked for who asked to stay.")] = False,
) -> DecisionReply | BulkDecisionReply:
    """Let the memberships of approved users last until a time, or for some time more; null: without end.

    One that has ended begins anew. An earlier end than the one so far requires `users.ban`.

    MembershipRequest: A new end of memberships. `for` adds to the end so far, if that is still to come, else to now.
    """
    term = read_term(until, for_)
    if decline:
        if term is not None:
            raise errors.InvalidField("decline")
        refuse = partial(changes.decline, by=call.principal, is_silent=request.silent)
        return await apply(call, mails, request, partial(call.run, refuse), "stay_declined")
    if term is None:
        raise errors.InvalidField("until")
    decide = partial(changes.set, term=term, by=call.principal, is_silent=request.silent)
    return await apply(call, mails, request, partial(call.run, decide), "membership_set")


@ROUTES.add("POST", "/api/user/membership/ask", USER, errors.CannotAskToStay)
async def ask_to_stay(
    call: Call,
    changes: MembershipChanges,
    mails: MailQueue,
    *,
    text: Annotated[str, Meta(max_length=_MAX_TEXT, examples=["I was away for the exams."])] = "",
) -> MessageReply:
    """Ask to stay, where your membership ends within a week or has ended, and the host lets users ask.

    StayRequest: A text for the team, which may be left out.
    """
    await call.run(changes.ask_to_stay, call.require_session().username, text)
    mails.wake_all()
    return MessageReply(message=call.message("stay_asked"))
