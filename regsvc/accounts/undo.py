"""Undo: what one person or API token decided about users in a span of time is taken back, as one act."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from heapq import merge
from itertools import chain
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, UnsetType
from peewee import Database, fn

from plugin_bridge.authme.players import PlayersUnavailable
from regsvc.accounts.access import PLAYER_PENDING, AccountAccess, Warnings
from regsvc.auth.entitlement import MadeByRight, Principal
from regsvc.core import errors
from regsvc.core.clock import Clock, epoch_ms
from regsvc.core.rights import EVERYTHING, Permission, Team
from regsvc.core.shapes import EpochMilliseconds, Moment, Output, Username, to_datetime
from regsvc.core.text import name_key
from regsvc.database.audit import AUTOMATED_ACTORS, DECISIONS, SQL, SYNC, UNDONE, Audit, spellings_of
from regsvc.database.bulk import select_rows
from regsvc.database.models import (
    APPROVED,
    BANNED,
    ENDED,
    AuditEntry,
    Invitation,
    Link,
    OutboxEntry,
    Review,
    Token,
    User,
)
from regsvc.http.messages import Count, Reply, Status
from regsvc.http.route import Routes
from regsvc.notifications.mail.queue import MailQueue
from regsvc.sync.reconciler import Reconciler
from regsvc.sync.records import pages_of
from regsvc.users.gates import access_of, find_membership_edit
from regsvc.users.history import HistoryEntry, Undoing, UserStanding, find_first, stand, undo
from regsvc.users.membership import Memberships
from regsvc.users.transitions import (
    NO_MEMBERSHIP,
    TRANSITIONS,
    Restoration,
    Transitions,
    note_membership,
    read_membership,
)

if TYPE_CHECKING:
    from regsvc.http.call import Call

ROUTES: Final = Routes()

Kept = Literal["touched", "deleted", "registered_anew", "protected"]
"""Why decisions about a user stay: another actor, or SQL, changed the user since; the user was deleted; the name is
another user's by now; the user stands as high as who undoes."""

# --- Who is undone, and since when ---

MAX_LISTED: Final = 200
"""How many users are listed of each kind."""

TOKEN: Final = "token:"  # noqa: S105 - what marks the name of one
_PAGE: Final = 250
_UNDONE: Final = "the decision was undone"
_MAILS: Final = (
    *("approved", "approved_set_password", "approved_new_password", "rejected", "reopened", "banned", "unbanned"),
    *("unbanned_set_password", "ban_ended", "ban_ended_set_password", "ban_ended_unapproved", "decision_undone"),
)
"""The mails that are about a review."""
LinkFate = Literal["mailed", "needed"]
_TARGETED: Final = ("user.role_changed", "user.password_changed", "membership.set", "membership.renewed", UNDONE)


@dataclass(frozen=True)
class UndoSpan:
    """An actor, as `NAME` or `token:NAME`, the names that the audit log has for them, and the span of time."""

    of: str
    names: frozenset[str]
    since: datetime
    until: datetime

    def has(self, by: str, at: datetime) -> bool:
        """Return whether what was done by this actor at this time is to be undone."""
        return by in self.names and self.since <= at <= self.until


class UndoFields(Output, frozen=True):
    """A user for whom something is undone (`status` is null if nothing is), or stays (`kept`)."""

    username: Username
    status_before: Status | None = None
    status: Status | None = None
    role_before: Annotated[str | None, Meta(examples=["reviewer"])] = None
    role: Annotated[str | None, Meta(examples=["reviewer"])] = None
    until_before: Annotated[Moment | None, Meta(description="When the membership ended.")] = None
    until: Annotated[Moment | None, Meta(description="When the membership ends; null: it has no end.")] = None
    link: (
        Annotated[
            LinkFate,
            Meta(
                description="A password that was set cannot be brought back: a link to set one is mailed, or needed.",
                examples=["mailed"],
            ),
        ]
        | None
    ) = None
    kept: (
        Annotated[
            Kept,
            Meta(
                description="Why decisions stay: another actor (`keptBy`) decided since (`touched`), the user was "
                "deleted, the name registered anew, or the user stands too high (`protected`).",
                examples=["touched"],
            ),
        ]
        | None
    ) = None
    kept_by: Annotated[str | None, Meta(examples=["Olivia"])] = None

    @property
    def is_undone(self) -> bool:
        """Whether anything is undone."""
        return self.status is not None


@dataclass(frozen=True)
class UndoRemainder:
    """Numbers of what an actor did beside decisions about users."""

    ended: Mapping[str, int]
    """Links to set passwords, invitations and API tokens that they made and that still work, by kind: these end."""
    stays: Mapping[str, int]
    """What is not taken back, by action of the audit log."""
    invited: Sequence[str]
    """Names of the first users who came in by their invitations, and stay."""
    invited_count: int


NOT_TAKEN_BACK: Final = {
    "user.note_added": "notes stay, and can be contradicted by others",
    "user.asked": "questions stay; decide about the applications",
    "user.answer_judged": "points stay; give others on the applications",
    "membership.declined": "requests to stay remain declined; these users may ask again",
    "user.email_changed": "addresses stay; look at these users' pages",
    "user.totp_disabled": "second factors stay off; ask these users to set theirs up again",
    "user.session_ended": "sessions stay ended; these users log in again",
    "chat.unlinked": "chat accounts stay unlinked; these users link theirs again",
    "team_chat.unlinked": "chat accounts of the team stay unlinked; their members link them again",
    "settings.changed": "settings stay; look at them in the admin page",
    "invitation.revoked": "invitations stay revoked; make others",
    "token.revoked": "API tokens stay revoked; make others",
    "mail.resent": "mails that were sent again stay sent",
    "data.exported": "exports stay where they are",
}
"""What is not taken back, and what to do about it, by action of the audit log."""


@dataclass(frozen=True)
class Undo:
    """Undoing what an actor decided. Blocking: for a worker thread."""

    database: Database
    team: Team
    access: AccountAccess
    reconciler: Reconciler
    transitions: Transitions
    made: MadeByRight
    mail_queue: MailQueue
    audit: Audit
    now: Clock

    def find_span(self, of: str, since: datetime, until: datetime | None, by: Principal) -> UndoSpan:
        """Return what is to be undone, of a user's name, an actor of the audit log, or `token:NAME`.

        Raises `UndoOfOneself`, `ActorUnknown`, `ProtectedOperator` where the actor stands above `by`, `SinceInFuture`
        and `UntilBeforeSince`.
        """
        moment, of = self.now(), of.strip()
        if since > moment:
            raise errors.SinceInFuture
        if until is not None and until <= since:
            raise errors.UntilBeforeSince
        if not of:
            raise errors.ActorUnknown
        if name_key(of) in (name_key(by.actor.name), name_key(by.username)):
            raise errors.UndoOfOneself
        tokens = list(Token.select().where(Token.name == of.removeprefix(TOKEN)))
        shown = {f"{row.name} ({row.maker})" for row in tokens}
        if of.startswith(TOKEN):  # a token acts on nobody above the highest operators, whatever its maker may do
            names, makers, highest = shown, [row.made_by or "" for row in tokens], EVERYTHING.rank - 1
        else:
            names, makers, highest = _names_of(of, shown), [of], EVERYTHING.rank
        if not AuditEntry.select().where(AuditEntry.operator.in_(sorted(names))).exists():
            raise errors.ActorUnknown
        if min(highest, max(map(self._rank_of, makers))) > by.rights.rank:
            raise errors.ProtectedOperator
        return UndoSpan(of, frozenset(names), since, until or moment)

    def _rank_of(self, name: str) -> int:
        """Return the rank that protects what an actor decided: that of the host, unless it is a user's name."""
        is_host = not name or name in AUTOMATED_ACTORS or ":" in name
        found = User.get_or_none(User.username_key == name_key(name))
        return EVERYTHING.rank if is_host else self.team.rank_of(found or User(username=name, status="", role=None))

    def find_names(self, span: UndoSpan) -> list[str]:
        """Return the lower-case names about which the actor decided, the newest decision first."""
        names, review, entry = sorted(span.names), Review, AuditEntry
        is_theirs = review.operator.in_(names) & review.reviewed_at.between(span.since, span.until)
        decided: Any = review.select(review.username_key, review.operator, review.reviewed_at).where(is_theirs)
        is_theirs = entry.operator.in_(names) & entry.created_at.between(span.since, span.until)
        is_theirs &= entry.action.in_(_TARGETED)
        noted: Any = entry.select(entry.target, entry.operator, entry.created_at).where(is_theirs)
        newest: dict[str, datetime] = {}
        for target, operator, at in chain(decided.tuples(), noted.tuples()):
            key = name_key(target)
            if key != name_key(operator):
                newest[key] = max(at, newest.get(key, at))
        return sorted(newest, key=lambda key: newest[key], reverse=True)

    def pages(self, names: Sequence[str]) -> Iterator[Sequence[str]]:
        """Yield the names in the pages that `run` takes."""
        yield from pages_of(names, _PAGE)

    def plan(self, span: UndoSpan, names: Sequence[str], by: Principal) -> list[UndoFields]:
        """Return what `run` would do for these users."""
        return [self._outcome(case) for case in self._decide(span, names, by)]

    def run(self, span: UndoSpan, names: Sequence[str], by: Principal) -> tuple[list[UndoFields], bool]:
        """Undo for these users, in one transaction, and let their rows follow; returns whether these could.

        Who is undone already, by a run that was interrupted, is not again; their rows follow all the same.
        """
        request = self.reconciler.row_requester(names)
        with self.database.atomic():
            by.require_current()
            cases = self._decide(span, names, by, is_locking=True)
            restored = [(it, it.user, it.undoing) for it in cases if it.user is not None and it.undoing is not None]
            columns = {user.id: _columns_of(user, undoing) for _case, user, undoing in restored}
            may_play = {it for it, new in columns.items() if access_of(SimpleNamespace(**new)) == APPROVED}
            request([user.username_key for _case, user, _undoing in restored if user.id in may_play])
            outcomes = [self._outcome(case) for case in cases]
            self._restore(span, restored, columns, by)
        try:  # however many they are: unlike what a run of the sync finds, this was meant
            self.reconciler.reconcile_names(names)
        except PlayersUnavailable:
            return outcomes, False
        return outcomes, True

    def find_remainder(self, span: UndoSpan) -> UndoRemainder:
        """Return what the actor did beside decisions about users."""
        entry, names = AuditEntry, sorted(span.names)
        is_theirs = entry.operator.in_(names) & entry.created_at.between(span.since, span.until)
        is_theirs &= entry.action.in_(list(NOT_TAKEN_BACK)) & (fn.COALESCE(entry.target, "") != entry.operator)
        counted: Any = entry.select(entry.action, fn.COUNT(entry.id)).where(is_theirs).group_by(entry.action)
        ended = {kind: len(ids) for kind, ids in self._find_made(span).items() if ids}
        came_in = User.invited_by.in_(names) & User.created_at.between(span.since, span.until)
        invited = User.select(User.username).where(came_in, User.status == APPROVED)
        first: Any = invited.order_by(User.created_at, User.id).limit(MAX_LISTED).tuples()
        return UndoRemainder(ended, dict(counted.tuples()), [name for (name,) in first], invited.count())

    def _find_made(self, span: UndoSpan) -> dict[str, list[int]]:
        """Return the ids of what the actor made and still works, by kind."""
        found, now = {}, self.now()
        for kind, model, ended_at in _MADE:
            is_theirs = model.maker.in_(sorted(span.names)) & model.created_at.between(span.since, span.until)
            is_open = ended_at.is_null() & (model.expires_at.is_null() | (model.expires_at > now))
            found[kind] = [row.id for row in model.select(model.id).where(is_theirs & is_open)]
        return found

    def finish(self, span: UndoSpan, outcomes: Sequence[UndoFields], by: Principal) -> None:
        """Record the undo as a whole, and end what the actor made and still works: links, invitations and tokens."""
        undone = sum(outcome.is_undone for outcome in outcomes)
        detail = {"of": span.of, "fromAt": epoch_ms(span.since), "untilAt": epoch_ms(span.until), "users": undone}
        detail["left"] = sum(outcome.kept is not None for outcome in outcomes)
        with self.database.atomic():
            made = self._find_made(span)
            for kind, ids in made.items():
                self.made.kinds[kind].end(ids)
            if undone or any(made.values()):
                ended = {kind: len(ids) for kind, ids in made.items()}
                self.audit.record("undo.run", by.actor, None, {**detail, **ended})
        self.mail_queue.wake_all()

    def _decide(self, span: UndoSpan, names: Sequence[str], by: Principal, *, is_locking: bool = False) -> list[_Case]:
        users = _load_users(self.database, names, is_locking=is_locking)
        histories, of_others = _load_histories(names, users)
        cases = [self._decide_one(span, users.get(key), histories[key], of_others[key], by) for key in names]
        return [case for case in cases if case is not None]

    def _decide_one(
        self,
        span: UndoSpan,
        user: User | None,
        history: Sequence[HistoryEntry],
        of_others: Sequence[HistoryEntry],
        by: Principal,
    ) -> _Case | None:
        """Decide about one name; None: nothing is left to undo. `of_others`: what is of earlier users of the name."""
        if user is None:
            last = of_others[-1] if of_others else None
            return None if last is None else _Case(last.username, kept="deleted", kept_by=last.by)
        targets = {it.id for it in history if it.kind not in ("ended", "returned") and span.has(it.by, it.at)}
        if not targets:
            is_earlier = any(span.has(entry.by, entry.at) for entry in of_others)
            return _Case(user.username, kept="registered_anew") if is_earlier else None
        first = find_first(history, user.applied_status, user.role)
        undoing = undo(history, targets, first)
        if not undoing.undone:
            by_whom = undoing.kept_by
            return None if by_whom is None else _Case(user.username, kept="touched", kept_by=by_whom)
        is_edited = find_membership_edit(user, self.now()) is not None
        if is_edited or not _is_as_decided(user, stand(first, history)):
            return _Case(user.username, kept="touched", kept_by=SQL.name)
        undoing = replace(undoing, standing=undoing.standing.at(self.now()))
        if not self._may_change(user, undoing.standing, by):
            return _Case(user.username, kept="protected")
        kept: Kept | None = "touched" if undoing.kept_by is not None else None
        return _Case(user.username, user, undoing, kept, undoing.kept_by, user.status, user.role)

    def _may_change(self, user: User, standing: UserStanding, by: Principal) -> bool:
        lets_in = standing.status == APPROVED and user.status != APPROVED
        try:
            self.access.require_permission(user, "approve" if lets_in else "undo", by)
        except errors.ProtectedOperator:
            return False
        return True

    def _outcome(self, case: _Case) -> UndoFields:
        user, undoing = case.user, case.undoing
        if user is None or undoing is None:
            return UndoFields(case.username, kept=case.kept, kept_by=case.kept_by)
        link: LinkFate | None = None
        if undoing.needs_link:
            link = "mailed" if self.mail_queue.can_reach(user) else "needed"
        after = undoing.standing
        was = case.status_before, after.status, case.role_before, after.role
        until = user.member_until, _columns_of(user, undoing)["member_until"]
        return UndoFields(case.username, *was, *until, link, case.kept, case.kept_by)

    def _restore(
        self,
        span: UndoSpan,
        restored: Sequence[tuple[_Case, User, Undoing]],
        columns: Mapping[int, Mapping[str, Any]],
        by: Principal,
    ) -> None:
        """Give these users back what they had, tell those who were told otherwise, and end what a role had made."""
        told, members_told = self._end_mails(restored)
        access_before = {user.id: access_of(user) for _case, user, _undoing in restored}
        asked_before = {user.id for _case, user, _undoing in restored if user.asks_to_stay}
        restorations = []
        for _case, user, undoing in restored:
            detail = _detail_of(span, user, undoing)
            restorations.append(Restoration(user, columns[user.id], detail, user.id in told, undoing.needs_link))
        self.transitions.take_back(restorations, by.actor)
        changed = [user for _, user, _ in restored if access_of(user) != access_before[user.id]]
        Memberships(self.transitions).announce_restored(
            [user for user in changed if access_of(user) == ENDED],
            [user for user in changed if access_of(user) == APPROVED and access_before[user.id] == ENDED],
            [user for _, user, _ in restored if user.id in members_told - told and user.status == APPROVED],
        )
        for case, user, undoing in restored:
            if user.asks_to_stay and user.id not in asked_before:
                self.transitions.webhook.also_tell("stay_asked", user.username)
            if undoing.needs_link:
                self.mail_queue.send(user, "password_link")
            if case.role_before != user.role:
                if case.role_before is not None:
                    self.made.end_of(user.username, "role_changed", by.actor)
                self.transitions.webhook.enqueue("role_changed", user.username, user.status)

    def _end_mails(self, restored: Sequence[tuple[_Case, User, Undoing]]) -> tuple[set[int], set[int]]:
        """Drop the mails of undone decisions that wait; return the ids of users who got one, or may have.

        One that was tried may be on its way. The second ids are of users who got a mail about a membership; one that
        waits says what it is as it is sent.
        """
        reviews = {number for _case, _user, undoing in restored for number in _numbers(undoing, "r")}
        ids = [user.id for _case, user, _undoing in restored]
        renewed = {
            user.id: min((it.at for it in undoing.undone if it.kind == "membership"), default=None)
            for _case, user, undoing in restored
        }
        fields: Any = [OutboxEntry.id, OutboxEntry.user_id, OutboxEntry.row_id, OutboxEntry.outcome]
        fields += [OutboxEntry.attempts, OutboxEntry.kind, OutboxEntry.template, OutboxEntry.created_at]
        waiting, told, members_told = [], set(), set()
        for found in select_rows(self.database, OutboxEntry, fields, OutboxEntry.user_id, ids):
            mail_id, user_id, row_id, outcome, attempts, kind, template, created_at = found
            is_told, renewed_at = outcome == "sent" or (outcome is None and attempts), renewed[user_id]
            if template == "membership_renewed" and renewed_at is not None and is_told and created_at >= renewed_at:
                members_told.add(user_id)
            if kind != "mail" or template not in _MAILS or row_id not in reviews:
                continue
            if outcome is None:
                waiting.append(mail_id)
            if is_told:
                told.add(user_id)
        over = {"next_attempt_at": None, "done_at": self.now(), "outcome": "dropped", "last_error": _UNDONE}
        if waiting:
            is_waiting = OutboxEntry.id.in_(waiting) & OutboxEntry.outcome.is_null()
            OutboxEntry.update(over).where(is_waiting).execute()
        return told, members_told


_MADE: Final[Sequence[tuple[str, Any, Any]]] = (
    ("links", Link, Link.redeemed_at),
    ("invitations", Invitation, Invitation.revoked_at),
    ("tokens", Token, Token.revoked_at),
)
"""The kinds of things that are made by rights for others to use (`MadeByRight.kinds`), and when they ended."""


@dataclass(frozen=True, slots=True)
class _Case:
    """A user, and what is decided about them."""

    username: str
    user: User | None = None
    undoing: Undoing | None = None
    kept: Kept | None = None
    kept_by: str | None = None
    status_before: str | None = None
    role_before: str | None = None


def _names_of(name: str, tokens: Collection[str]) -> set[str]:
    """Return the names that the audit log has for a person, also where they decided in a chat; not those of tokens."""
    names = set(spellings_of(name))
    for spelled in list(names):
        in_chats = AuditEntry.operator.startswith(f"{spelled} (")
        names |= {it.operator for it in AuditEntry.select(AuditEntry.operator).where(in_chats).distinct()}
    return names - set(tokens)


def _is_as_decided(user: User, standing: UserStanding) -> bool:
    """Return whether the user's columns are as their history has made them, and were not edited in SQL since."""
    is_same_ban = user.status != BANNED or user.ban_expires_at == standing.ban_expires_at
    return user.status == user.applied_status == standing.status and user.role == user.applied_role and is_same_ban


def _columns_of(user: User, undoing: Undoing) -> dict[str, Any]:
    """Return the user's columns once these are undone. That they asked to stay is their own doing, and stays."""
    standing, membership = undoing.standing, undoing.membership
    columns: dict[str, Any] = {name: getattr(standing, name) for name in _STANDING}
    columns |= {"applied_status": standing.status, "applied_role": standing.role, "asked_at": None, "answered_at": None}
    columns |= {name: getattr(user, name) for name in NO_MEMBERSHIP} if membership is None else membership
    if standing.status == APPROVED:
        columns["stay_asked_at"] = user.stay_asked_at or columns["stay_asked_at"]
    return columns


_STANDING: Final = tuple(field.name for field in fields(UserStanding))


def _numbers(undoing: Undoing, table: str) -> list[int]:
    return [int(entry.id[1:]) for entry in undoing.undone if entry.id.startswith(table)]


def _detail_of(span: UndoSpan, user: User, undoing: Undoing) -> dict[str, Any]:
    """Return the details of the audit entry about this user."""
    after, others = undoing.standing, dict[str, Any]()
    if user.role != after.role:
        others = {"roleBefore": user.role, "role": after.role}
    if undoing.membership is not None:
        others["membershipBefore"] = note_membership(user)
    ids = {"reviews": _numbers(undoing, "r"), "entries": _numbers(undoing, "a")}
    return {"of": span.of, "statusBefore": user.status, "status": after.status, **others, **ids}


_USER: Final[list[Any]] = [
    *(User.id, User.username, User.username_key, User.email, User.email_key, User.is_email_verified, User.status),
    *(User.applied_status, User.language, User.platform, User.token_generation, User.reason, User.reviewed_by),
    *(User.reviewed_at, User.banned_from, User.ban_expires_at, User.may_reapply, User.role, User.applied_role),
    *(User.asked_at, User.answered_at, User.created_at),
    *(getattr(User, name) for name in NO_MEMBERSHIP),
]
_REVIEW: Final = [
    *(Review.id, Review.user_id, Review.username, Review.username_key, Review.transition, Review.status_before),
    *(Review.status_after, Review.reason, Review.ban_expires_at, Review.operator, Review.reviewed_at),
]
_NOTED: Final = (
    *(AuditEntry.id, AuditEntry.action, AuditEntry.target, AuditEntry.operator, AuditEntry.created_at),
    AuditEntry.detail,
)


def _load_users(database: Database, names: Sequence[str], *, is_locking: bool) -> dict[str, User]:
    users = {}
    for row in select_rows(database, User, _USER, User.username_key, names, for_update=is_locking):
        user = User(__no_default__=True)
        user.__data__.update(zip((field.name for field in _USER), row, strict=True))
        users[str(user.username_key)] = user
    return users


def _load_histories(
    names: Sequence[str], users: Mapping[str, User]
) -> tuple[dict[str, list[HistoryEntry]], dict[str, list[HistoryEntry]]]:
    """Return the history of each user by name, oldest first, and that of earlier users of the name."""
    reviews = list(Review.select(*_REVIEW).where(Review.username_key.in_(names)).order_by(Review.id))
    spelled = {*names, *(user.username for user in users.values()), *(review.username for review in reviews)}
    is_about = AuditEntry.target.in_(sorted(spelled)) & AuditEntry.action.in_(
        (*DECISIONS, *_TARGETED, "membership.ended")
    )
    noted: dict[str, list[HistoryEntry]] = defaultdict(list)
    details: dict[tuple[str, str, datetime], dict[str, Any]] = {}
    for row in AuditEntry.select(*_NOTED).where(is_about).order_by(AuditEntry.id):
        key, detail = name_key(str(row.target)), json.loads(row.detail or "{}")
        if row.action in DECISIONS:
            details[key, row.action, row.created_at] = detail
        elif key in users and row.created_at >= users[key].created_at:
            noted[key].append(_entry_of(row, detail))
    own, of_others = defaultdict[str, list[HistoryEntry]](list), defaultdict[str, list[HistoryEntry]](list)
    for review in reviews:
        key = review.username_key
        action = f"user.{TRANSITIONS[review.transition].event}"
        entry = _review_entry(review, details.get((key, action, review.reviewed_at), {}))
        is_own = key in users and users[key].id == review.user_id
        (own if is_own else of_others)[key].append(entry)
    histories = {key: list(merge(own[key], noted[key], key=lambda entry: entry.at)) for key in names}
    return histories, of_others


def _review_entry(review: Review, detail: Mapping[str, Any]) -> HistoryEntry:
    return HistoryEntry(
        id=f"r{review.id}",
        kind="status",
        by=review.operator,
        at=review.reviewed_at,
        username=review.username,
        before=review.status_before,
        after=review.status_after,
        reason=review.reason,
        ban_expires_at=review.ban_expires_at,
        may_reapply=bool(detail.get("mayReapply")),
        role_before=detail.get("roleBefore"),
        membership=_membership_before(detail),
    )


def _membership_before(detail: Mapping[str, Any]) -> Mapping[str, Any] | None:
    noted = detail.get("membershipBefore")
    return None if noted is None else read_membership(noted)


def _entry_of(row: AuditEntry, detail: Mapping[str, Any]) -> HistoryEntry:
    entry = HistoryEntry(f"a{row.id}", "password", row.operator, row.created_at, str(row.target))
    entry = replace(entry, membership=_membership_before(detail))
    if row.action.startswith("membership."):
        if row.operator != SYNC.name and name_key(row.operator) != name_key(entry.username):
            return replace(entry, kind="membership")
        return replace(
            entry, kind="ended" if row.action == "membership.ended" else "returned", after=detail.get("because")
        )
    if row.action == "user.role_changed":
        return replace(entry, kind="role", before=detail.get("roleBefore"), after=detail.get("role"))
    if row.action == UNDONE:
        undoes = {f"r{number}" for number in detail["reviews"]} | {f"a{number}" for number in detail["entries"]}
        return replace(entry, kind="undo", undoes=frozenset(undoes), review=f"r{detail.get('review')}")
    return entry


# --- The route ---


class UndoReply(Reply, frozen=True, kw_only=True):
    """Numbers of users, and at most 200 of them: those for whom decisions stay come first."""

    undone: Count
    kept: Count
    users: list[UndoFields]
    ended: Annotated[
        dict[str, Count],
        Meta(description="Links, invitations and tokens that were made and still worked.", examples=[{"tokens": 1}]),
    ]
    stays: Annotated[
        dict[str, Count],
        Meta(description="What is not taken back, by action.", examples=[{"user.note_added": 2}]),
    ]
    invited_count: Annotated[Count, Meta(description="Users who came in by invitations of the actor, and stay.")]
    invited: Annotated[list[Username], Meta(description="At most 200 of them.")]
    warnings: Warnings | UnsetType = UNSET


@ROUTES.add(
    "POST",
    "/api/admin/undo",
    Permission.TEAM_MANAGE,
    errors.UndoOfOneself,
    errors.ActorUnknown,
    errors.ProtectedOperator,
    errors.SinceInFuture,
    errors.UntilBeforeSince,
)
async def undo_decisions(
    call: Call,
    feature: Undo,
    *,
    of: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=255,
            description="As the audit log has them; `token:` before the name of an API token.",
            examples=["Mallory"],
        ),
    ],
    since: EpochMilliseconds,
    until: EpochMilliseconds | None = None,
    plan: bool = False,
) -> UndoReply:
    """Take back what a member of the team, or an API token, decided about users since a moment.

    Status, ban and role are as before; users about whom another actor decided since stay as they are. Deletions stay.

    UndoRequest: Who decided, and when. With `plan`, nothing is done.
    """
    by, begins_at = call.principal, to_datetime(since)
    assert begins_at is not None
    span = await call.run(feature.find_span, of, begins_at, to_datetime(until), by)
    outcomes, has_followed, remainder = list[UndoFields](), True, await call.run(feature.find_remainder, span)
    for page in feature.pages(await call.run(feature.find_names, span)):
        if plan:
            outcomes += await call.run(feature.plan, span, page, by)
        else:
            found, follows = await call.run(feature.run, span, page, by)
            outcomes, has_followed = outcomes + found, has_followed and follows
    if not plan:
        await call.run(feature.finish, span, outcomes, by)
    undone, kept = sum(it.is_undone for it in outcomes), sum(it.kept is not None for it in outcomes)
    listed = sorted(outcomes, key=lambda outcome: outcome.kept is None)[:MAX_LISTED]
    return UndoReply(
        message=call.message("undo_planned" if plan else "undone", count=undone),
        undone=undone,
        kept=kept,
        users=listed,
        ended=dict(remainder.ended),
        stays=dict(remainder.stays),
        invited_count=remainder.invited_count,
        invited=list(remainder.invited),
        warnings=UNSET if has_followed else (PLAYER_PENDING,),
    )
