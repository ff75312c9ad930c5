"""State machine of a user's status, and the effects of each transition on our side.

Every change of a status goes through here, whether made by an admin, the command line, an expired ban or SQL, so that
review, audit entry, mail and revoked sessions are the same. One user is a list of one: a list of any length takes the
same few statements. The player's row follows by the reconciler. Everything runs inside the caller's transaction.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, UnsetType

from regsvc.config.host_sections import Decision
from regsvc.core.clock import Clock, epoch_ms, from_epoch_ms, to_milliseconds
from regsvc.core.errors import Forbidden, UserNotFound, WrongStatus
from regsvc.core.rights import Permission, Rights
from regsvc.core.text import clean_reason, name_key
from regsvc.core.units import parse_duration
from regsvc.database.audit import SQL, SYNC, UNDONE, Actor, Audit
from regsvc.database.bulk import insert_rows, update_rows, upsert_query
from regsvc.database.models import (
    ADD,
    APPROVED,
    BANNED,
    PENDING,
    REJECTED,
    REMOVE,
    STATUSES,
    TAKEN_OFF,
    Allowed,
    ChatLink,
    Review,
    StoredQuestionnaire,
    User,
)
from regsvc.notifications.mail.queue import MailQueue, UserMail
from regsvc.notifications.rcon import Decided, RconQueue
from regsvc.notifications.webhook import WebhookQueue
from regsvc.users.chat_links import release_link
from regsvc.users.gates import HELD_BACK, Gates, has_ended

_ROWS: Final = 500
_NOTED: Final = (Allowed.state, Allowed.reason, Allowed.since, Allowed.user_id)
DELETED: Final = "deleted"
"""Stands for the status of a deleted user in webhook calls."""
BAN_ENDED: Final = "ban_ended"
NAME_TAKEN_IN_GAME: Final = "name_taken_in_game"
UNANSWERED: Final = "question_unanswered"
OWN_REASONS: Final = (BAN_ENDED, NAME_TAKEN_IN_GAME, UNANSWERED)
"""Codes of reasons that we give, not an operator; stored as they are, and worded when shown (`Translations.reason`)."""
BUILT_IN_REASONS: Final = (
    "reject.short_answers",
    "reject.name_not_allowed",
    "reject.has_account",
    "reject.answers_against_rules",
    "ban.griefing",
    "ban.cheating",
    "ban.insults",
    "approve.welcome",
)
"""Codes of reasons that operators choose from, stored and worded in the same way. Any other text is an operator's."""


@dataclass(frozen=True)
class Transition:
    """A transition: its source statuses, target status (None: the user is deleted) and event."""

    sources: frozenset[str]
    target: str | None
    event: Decision
    permission: Permission
    """What every principal needs for it; `require_permission` knows when more is needed."""
    is_by_sql: bool = True
    """Whether a status typed in SQL stands for it."""


_REVIEW: Final = Permission.USERS_REVIEW
TRANSITIONS: Final[dict[str, Transition]] = {
    "approve": Transition(frozenset({PENDING, REJECTED}), APPROVED, "approved", _REVIEW),
    "reject": Transition(frozenset({PENDING}), REJECTED, "rejected", _REVIEW),
    "ban": Transition(frozenset({PENDING, APPROVED, REJECTED}), BANNED, "banned", Permission.USERS_BAN),
    "unban": Transition(frozenset({BANNED}), APPROVED, "unbanned", Permission.USERS_BAN),
    # not by SQL: an import that resets a column would lock out everybody
    "reopen": Transition(frozenset({APPROVED, REJECTED}), PENDING, "reopened", _REVIEW, is_by_sql=False),
    "delete": Transition(frozenset(STATUSES), None, "deleted", Permission.USERS_MANAGE),
}

DecisionName = Annotated[str, Meta(extra_json_schema={"enum": list(TRANSITIONS)}, examples=["approve"])]

PasswordChoice = Literal["keep", "take", "link"]
"""What an approval does with a row that was registered anew in the game: `keep` the user's password from before,
`take` the one that it was registered with, or mail the user a `link` to set one, and keep the row locked until then.
"""


@dataclass(frozen=True)
class DecisionDetails:
    """Details of a decision, with its reason as `clean_reason` leaves it.

    `expires_at` is the end of a ban; None: permanent.
    """

    reason: str | None = None
    expires_at: datetime | None = None
    is_silent: bool = False
    keeps_expiry: bool = False
    """Whether a user already banned keeps the end of that ban; `expires_at` then applies to new bans only."""
    may_reapply: bool = False
    """Whether a rejected user may apply again at once, and not only after `registration.reapply_after`."""
    password_choice: PasswordChoice | None = None
    """The password that counts where the player registered anew in the game; None: there is nothing to choose."""
    is_on_time: bool = False
    """Whether a ban ends at its time, and is not lifted by an operator: the mail differs."""
    needs_password: bool = False
    """Whether a user who may play by it must set a password first, for the row in AuthMe's table: the mail differs."""
    is_attempt: bool = False
    """Whether the request may be sent again: the same principal's last decision about the user then counts as it."""
    member_until: datetime | UnsetType | None = UNSET
    """When the membership that an approval begins ends; None: never; UNSET: as the config says."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", clean_reason(self.reason))

    @property
    def sends_link(self) -> bool:
        """Whether the user is mailed a link to set a password, even by a silent decision."""
        return self.password_choice == "link"  # noqa: S105 - a choice, not a secret

    @property
    def hands_over(self) -> bool:
        """Whether the account becomes that of who registered the name anew: its owner is mailed, always."""
        return self.password_choice == "take"  # noqa: S105


def require_permission(name: str, status: str, details: DecisionDetails, rights: Rights) -> None:
    """Raise `Forbidden` with the missing permission where these rights do not permit a transition from a status.

    A review that takes an approved user out of the game needs `users.ban`, too. An approval that gives an account to
    the player who registered its name anew needs `users.manage`, as a new password does; with `keep` and `link` it
    stays with the one who had the password, or has the proven address.
    """
    transition = TRANSITIONS[name]
    needed = [transition.permission]
    ends_play = status == APPROVED and status in transition.sources and transition.target != APPROVED
    if ends_play and transition.permission == _REVIEW:
        needed.append(Permission.USERS_BAN)
    if details.hands_over:
        needed.append(Permission.USERS_MANAGE)
    for permission in needed:
        if not rights.may(permission):
            raise Forbidden(permission=permission)


def may_be_approved_again(*, is_anew: bool, is_kept_off: bool, is_absent: bool, has_password: bool) -> bool:
    """Return whether the approval of an approved user does anything: for the row in AuthMe's table or the game's list.

    `is_anew`: the row was registered anew in the game; `is_absent`: it is gone, and comes back only with a password.
    """
    return is_anew or is_kept_off or (is_absent and has_password)


def is_kept_off_list(state: str | None, reason: str | None) -> bool:
    """Return whether this record keeps an approved user off the game's list until an operator puts them on it."""
    return state == TAKEN_OFF or reason == HELD_BACK


def list_decisions(status: str, *, may_be_approved_again: bool) -> tuple[str, ...]:
    """Return the transitions that apply to a user with this status."""
    again = {"approve"} if status == APPROVED and may_be_approved_again else set()
    return tuple(name for name, it in TRANSITIONS.items() if status in it.sources or name in again)


def find_transition(source: str, target: str) -> str | None:
    """Return the transition that a status typed in SQL stands for, or None."""
    for name, transition in TRANSITIONS.items():
        if transition.is_by_sql and source in transition.sources and transition.target == target:
            return name
    return None


@dataclass(frozen=True, slots=True)
class Restoration:
    """Columns that a user is given back where decisions about them are undone.

    `columns`: those of the user, as they are to be; `detail`: of the audit entry; `is_told`: whether they are mailed.
    """

    user: User
    columns: Mapping[str, Any]
    detail: Mapping[str, Any]
    is_told: bool
    ends_sessions: bool

    @property
    def is_decision(self) -> bool:
        """Whether the status changes, or the ban; not only the role, or what was noted with the status."""
        user, columns = self.user, self.columns
        ban = [(it["reason"], it["ban_expires_at"]) for it in (user.__data__, columns) if it["status"] == BANNED]
        return user.status != columns["status"] or len(set(ban)) > 1

    def as_decision(self) -> "_Decision":
        """Return the transition that comes to the same, from any status to any other."""
        before, target, reason = self.user.status, self.columns["status"], self.columns["reason"]
        name = "ban" if target == BANNED else "unban" if before == BANNED else _WAYS_BACK[target]
        details = DecisionDetails(reason, self.columns["ban_expires_at"], is_silent=not self.is_told)
        return _Decision(self.user, name, before, target, details, self)


_WAYS_BACK: Final = {APPROVED: "approve", PENDING: "reopen", REJECTED: "reject"}


@dataclass(frozen=True, slots=True, eq=False)
class _Decision:
    """A transition of one user. `target` None: the user is deleted; `restoration`: where it undoes others."""

    user: User
    name: str
    before: str
    target: str | None
    details: DecisionDetails
    restoration: Restoration | None = None
    role_before: str | None = field(init=False)
    membership_taken: dict[str, Any] | None = field(init=False)
    """As `note_membership` notes it; None: it takes none."""

    def __post_init__(self) -> None:
        takes = self.was_member and self.target in (PENDING, REJECTED)
        object.__setattr__(self, "role_before", self.user.role)
        object.__setattr__(self, "membership_taken", note_membership(self.user) if takes else None)

    @property
    def ban_expires_at(self) -> datetime | None:
        """End of the ban, as the column stores it; None where this is no ban."""
        expires_at = self.details.expires_at if self.name == "ban" else None
        return None if expires_at is None else to_milliseconds(expires_at)

    @property
    def begins_membership(self) -> bool:
        """Whether the user becomes a member by it, and not again by the end of a ban."""
        return self.target == APPROVED and not self.was_member

    @property
    def was_member(self) -> bool:
        """Whether the user was approved before it, or banned from that."""
        return self.before == APPROVED or (self.before == BANNED and self.user.banned_from == APPROVED)

    @property
    def ends_sessions(self) -> bool:
        """Whether the user's sessions end: by a ban, and with the approval, on which rights may rest."""
        return self.name == "ban" or (self.before == APPROVED and self.target != APPROVED)

    def columns(self, by: Actor, moment: datetime, member_for: timedelta | None) -> dict[str, Any]:
        """Return the user's columns after the transition, without those that it leaves alone.

        `member_for`: how long the membership lasts that it begins, if it does not say; None: without end.
        """
        columns = {
            "status": self.target,
            "applied_status": self.target,
            "reason": self.details.reason,
            "reviewed_by": by.name,
            "reviewed_at": moment,
            "ban_expires_at": self.ban_expires_at,
            "may_reapply": self.details.may_reapply,
            "asked_at": None,
            "answered_at": None,
        }
        if self.target != APPROVED:  # a role is lost with the approval, so that none revives with the next
            columns["role"] = columns["applied_role"] = None
        if self.name != "ban":
            columns["banned_from"] = None
        elif self.before != BANNED:
            columns["banned_from"] = self.before
        if self.begins_membership:
            columns |= columns_of_new_membership(self._find_end(moment, member_for), moment)
        elif self.target not in (APPROVED, BANNED):
            columns |= NO_MEMBERSHIP
        return columns

    def _find_end(self, moment: datetime, member_for: timedelta | None) -> datetime | None:
        typed: datetime | None = self.user.member_until
        if self.details.member_until is not UNSET:
            return self.details.member_until
        if typed != self.user.applied_until:  # in SQL, with the status
            return typed
        member_for = _invited_for(self.user) or member_for
        return None if member_for is None else moment + member_for

    def review(self, by: Actor, moment: datetime, answers: str | None) -> dict[str, Any]:
        """Return the columns of the review."""
        return {
            "user_id": self.user.id,
            "username": self.user.username,
            "username_key": self.user.username_key,
            "transition": self.name,
            "status_before": self.before,
            "status_after": self.target,
            "reason": self.details.reason,
            "ban_expires_at": self.ban_expires_at,
            "operator": by.name,
            "reviewed_at": moment,
            "email_key": self.user.proven_key,
            "answers": answers,
        }

    def audit_record(self, review_id: int | None) -> tuple[str, str, dict[str, Any]]:
        """Return action, target and details of the audit record."""
        if self.restoration is not None:
            return UNDONE, self.user.username, {**self.restoration.detail, "review": review_id}
        detail: dict[str, Any] = {"statusBefore": self.before}
        if self.role_before is not None and self.target != APPROVED:
            detail["roleBefore"] = self.role_before
        if self.membership_taken is not None:
            detail["membershipBefore"] = self.membership_taken
        if self.details.reason is not None:
            detail["reason"] = self.details.reason
        if self.details.expires_at is not None:
            detail["expiresAt"] = epoch_ms(self.details.expires_at)
        if self.details.may_reapply:
            detail["mayReapply"] = True
        if self.details.password_choice is not None:
            detail["returned"] = self.details.password_choice
        return f"user.{TRANSITIONS[self.name].event}", self.user.username, detail


@dataclass(frozen=True)
class Transitions:
    """Transitions, applied to our users.

    The `User` objects given have been loaded in the caller's transaction; afterwards they have the new values, except
    that `token_generation` is counted up from the value loaded. Every method raises `WrongStatus` where another actor
    changed one of the users first, and `UserNotFound` where one was deleted; the caller then rolls back.
    """

    audit: Audit
    mail_queue: MailQueue
    webhook: WebhookQueue
    console: RconQueue
    now: Clock
    _: KW_ONLY
    gates: Gates
    tell_applicant: Callable[[User], None] = lambda user: None
    """Tells a user of their approval or rejection, beside the mail."""
    find_member_for: Callable[[], timedelta | None] = lambda: None
    """Returns how long an approval lasts that says nothing else; None: without end."""
    gives_role: bool = False
    """Whether who may play is given a role on the chat platform."""

    def change(self, user: User, name: str, by: Actor, details: DecisionDetails) -> None:
        """Approve, reject, reopen, ban or unban. Raises `WrongStatus`."""
        target = TRANSITIONS[name].target
        assert target is not None, "delete() deletes"
        self._apply([_decide(user, name, target, details)], by)

    def approve_again(self, user: User, by: Actor, details: DecisionDetails) -> None:
        """Confirm the approval of a user whose row in AuthMe's table was removed or registered by another player."""
        if user.status != APPROVED:
            raise WrongStatus(user.status)
        self._apply([_Decision(user, "approve", APPROVED, APPROVED, details)], by)

    def change_ban(self, user: User, by: Actor, details: DecisionDetails) -> None:
        """Change the reason or end of a ban. Raises `WrongStatus` when neither differs."""
        reason = details.reason or user.reason
        expires_at = user.ban_expires_at if details.keeps_expiry else details.expires_at
        if user.status != BANNED or (reason, expires_at) == (user.reason, user.ban_expires_at):
            raise WrongStatus(user.status)
        changed = DecisionDetails(reason, expires_at, details.is_silent)
        self._apply([_Decision(user, "ban", BANNED, BANNED, changed)], by)

    def apply_sql_edits(
        self, users: Sequence[User], by: Actor = SQL, *, lacking_password: Collection[int] = ()
    ) -> None:
        """Apply the transitions that statuses set with SQL stand for; reset a status that stands for none.

        `lacking_password`: ids of users of whom `DecisionDetails.needs_password` is true.
        """
        edited = [user for user in users if user.status != user.applied_status]
        names = {user.id: find_transition(user.applied_status, user.status) for user in edited}
        self._refuse_edits([user for user in edited if names[user.id] is None], by)
        legal = [user for user in edited if names[user.id] is not None]
        reasons = _sql_reasons(legal)
        decisions = []
        for user in legal:
            needs_password = user.id in lacking_password
            details = DecisionDetails(reasons.get(user.id), user.ban_expires_at, needs_password=needs_password)
            decisions.append(_Decision(user, str(names[user.id]), user.applied_status, user.status, details))
        self._apply(decisions, by)

    def end_bans(self, users: Sequence[User], by: Actor = SYNC, *, lacking_password: Collection[int] = ()) -> None:
        """End expired bans: restore the status from before the ban. `lacking_password`: see `apply_sql_edits`."""
        decisions = []
        for user in users:
            details = DecisionDetails(BAN_ENDED, is_on_time=True, needs_password=user.id in lacking_password)
            decisions.append(_decide(user, "unban", user.banned_from or APPROVED, details))
        self._apply(decisions, by)

    def reject_name_conflicts(self, users: Sequence[User], by: Actor = SYNC) -> None:
        """Reject users whose names belong to players registered before."""
        details = DecisionDetails(NAME_TAKEN_IN_GAME)
        self._apply([_decide(user, "reject", REJECTED, details) for user in users], by)

    def take_back(self, restorations: Sequence[Restoration], by: Actor) -> None:
        """Give users back what they had before decisions that are undone, each with an audit entry, and a review.

        The caller's transaction has locked them. Those who have the status and the ban already get no review.
        """
        moment = to_milliseconds(self.now())
        decisions = [it.as_decision() for it in restorations if it.is_decision]
        others = [(UNDONE, it.user.username, it.detail) for it in restorations if not it.is_decision]
        leaving = {decision.user.id for decision in decisions if decision.ends_sessions}
        rows = list[dict[str, Any]]()
        for it in restorations:
            generation = it.user.token_generation + (it.ends_sessions or it.user.id in leaving)
            rows.append({"id": it.user.id, **it.columns, "token_generation": generation})
            for name, value in rows[-1].items():
                setattr(it.user, name, value)
        update_rows(User._meta.database, User, rows)
        self._record(decisions, by, moment)
        self.audit.record_all(by, others, at=moment)

    def announce_registration(self, user: User, by: Actor) -> None:
        """Record and announce a new user."""
        detail = {"invitedBy": user.invited_by} if user.invited_by else None
        self.audit.record("user.registered", by, user.username, detail)
        self.webhook.enqueue("registered", user.username, user.status)
        if self.gates.keeps_list():  # who had the name before was deleted in SQL, which no run has seen yet
            is_anothers = (Allowed.username_key == user.username_key) & (Allowed.user_id != user.id)
            Allowed.update(state=REMOVE, reason=None, user_id=user.id).where(is_anothers).execute()

    def record_deletions(self, realnames: Mapping[str, str | None]) -> None:
        """Record and announce the deletion of users with SQL.

        `realnames`: by lower-case name, as AuthMe last spelled it; None: unknown.
        """
        keys = list(realnames)
        self.audit.record_each("user.deleted", SQL, keys)
        with self.webhook.outbox.batched():
            for key in keys:
                self.webhook.enqueue("deleted", key, DELETED)
        last = _last_reviews(keys)
        if self.console.is_on:
            banned = [key for key in keys if key in last and last[key].status_after == BANNED]
            self.console.on_deletions(dict.fromkeys(keys), banned)
        spelled = {key: last[key].username if key in last else realnames[key] or key for key in keys}
        names = [name if name_key(name) == key else key for key, name in spelled.items()]
        self.console.on_decisions([Decided("deleted", name, None, None, None) for name in names])
        self.note_access([(key, None, None) for key in keys])

    def delete(self, user: User, by: Actor, details: DecisionDetails) -> None:
        """Delete the user and their sessions; the reviews stay. Raises `UserNotFound`."""
        chat = self.webhook.find_chat(user.username)  # gone with the user
        if self.gives_role:
            release_link(user.id, self.now())
        if not User.delete().where(User.id == user.id).execute():
            raise UserNotFound
        self._record([_Decision(user, "delete", user.status, None, details)], by, to_milliseconds(self.now()), chat)

    def _refuse_edits(self, users: Sequence[User], by: Actor) -> None:
        records, groups = [], defaultdict(list)
        for user in users:
            detail = {"status": user.status, "appliedStatus": user.applied_status}
            records.append(("sync.edit_refused", user.username, detail))
            groups[user.status, user.applied_status].append(user)
        for (_, applied_status), group in groups.items():
            self._update(group, {"status": applied_status})
        for user in users:
            user.status = user.applied_status
        self.audit.record_all(by, records)

    def _apply(self, decisions: Sequence[_Decision], by: Actor) -> None:
        """Write the changes if all users are still as loaded, with all their effects."""
        moment = to_milliseconds(self.now())
        member_for = self.find_member_for()
        # users of one status who get the same columns are written with one statement
        groups: dict[tuple[str, str, bool, tuple[tuple[str, Any], ...]], list[User]] = defaultdict(list)
        for decision in decisions:
            user = decision.user
            columns = decision.columns(by, moment, member_for)
            # what differs only, so that users with reasons and ends of their own, set with SQL, are one group
            differing = tuple((n, v) for n, v in columns.items() if n == "reviewed_at" or getattr(user, n) != v)
            groups[user.status, user.applied_status, decision.ends_sessions, differing].append(user)
        for (_status, _applied, ends_sessions, differing), group in groups.items():
            ended = {"token_generation": User.token_generation + 1} if ends_sessions else {}
            self._update(group, dict(differing) | ended)
        for (_status, _applied, ends_sessions, differing), group in groups.items():
            for user in group:
                user.token_generation += ends_sessions
                for name, value in differing:
                    setattr(user, name, value)
        self._record(decisions, by, moment)

    def _update(self, users: Sequence[User], changes: dict[str, Any]) -> None:
        """Change users who have the same status. Raises `WrongStatus` or `UserNotFound` unless all are as loaded."""
        first, ids = users[0], [user.id for user in users]
        is_as_loaded = (User.status == first.status) & (User.applied_status == first.applied_status)
        if User.update(changes).where(User.id.in_(ids) & is_as_loaded).execute() == len(ids):
            return
        found = [row.status for row in User.select(User.status).where(User.id.in_(ids))]
        if len(found) < len(ids):
            raise UserNotFound
        raise WrongStatus(next((status for status in found if status != first.status), first.status))

    def _record(
        self, decisions: Sequence[_Decision], by: Actor, moment: datetime, chat: Mapping[str, str] | None = None
    ) -> None:
        """Write reviews and audit records, and announce the transitions. `chat`: the account of one who is deleted."""
        if not decisions:
            return
        mailed, decided = [], []
        for decision in decisions:
            decided.append((decision.user.username, decision.user.id, decision.target))
            is_told = not decision.details.is_silent or decision.details.sends_link or decision.details.hands_over
            if is_told and decision.name in ("approve", "reject") and decision.before != decision.target:
                self.tell_applicant(decision.user)
            if is_told and self.mail_queue.is_available:
                mailed.append(decision)
        restored = [decision for decision in decisions if decision.restoration is not None]
        review_ids = _write_reviews(decisions, restored or mailed, by, moment)
        self.audit.record_all(by, [it.audit_record(review_ids.get(it.user.id)) for it in decisions], at=moment)
        with self.webhook.outbox.batched(), self.mail_queue.outbox.batched():
            for decision in decisions:
                self.webhook.enqueue(
                    TRANSITIONS[decision.name].event,
                    decision.user.username,
                    decision.target or DELETED,
                    decision.details.reason,
                    decision.ban_expires_at,
                    chat,
                )
            for decision in mailed:
                mail = self._mail_of(decision)
                review_id = None if mail == "password_link" else review_ids[decision.user.id]
                self.mail_queue.send(decision.user, mail, review_id)
        self._enqueue_commands(decisions)
        self.note_access(decided)

    def _mail_of(self, decision: _Decision) -> UserMail:
        """Return the mail that tells the user of this decision."""
        if decision.restoration is not None:
            return "decision_undone"
        sends_link = decision.details.sends_link
        if sends_link and decision.before == APPROVED:
            return "password_link"
        if decision.details.hands_over:
            return "approved_new_password"
        if decision.name == "approve" and (sends_link or decision.details.needs_password):
            return "approved_set_password"
        if decision.name == "unban":
            return _mail_after_ban(decision, self.now())
        event = TRANSITIONS[decision.name].event
        assert event != "registered", "a registration is no decision"
        return event

    def is_kept_off(self, user: User) -> bool:
        """Return whether an approved user is not on the game's list until an operator puts them (back) on it."""
        found = Allowed.get_or_none(Allowed.username_key == user.username_key) if self.gates.keeps_list() else None
        return found is not None and is_kept_off_list(found.state, found.reason)

    def note_access(self, decided: Sequence[tuple[str, int | None, str | None]]) -> None:
        """Note who may play from now on, and who may not: names, ids, statuses.

        The game's allowlist follows with its next run, and the role on the chat platform with the next look.
        """
        if self.gives_role:
            for start in range(0, len(decided), _ROWS):
                ids = [user_id for _name, user_id, _target in decided[start : start + _ROWS] if user_id is not None]
                ChatLink.update(roles_seen_at=None).where(ChatLink.user.in_(ids)).execute()
        if not self.gates.keeps_list():
            return
        moment = to_milliseconds(self.now())
        rows = [
            {
                "username_key": name_key(name),
                "username": name,
                "state": ADD if target == APPROVED else REMOVE,
                "reason": None,
                "since": moment,
                "user_id": None if target is None else user_id,
            }
            for name, user_id, target in decided
        ]
        for start in range(0, len(rows), _ROWS):
            part = rows[start : start + _ROWS]
            upsert_query(Allowed, part, unique=[Allowed.username_key], overwrite=_NOTED).execute()

    def _enqueue_commands(self, decisions: Sequence[_Decision]) -> None:
        """Enqueue the console commands, also for silent decisions: banned players must be kicked."""
        by_name: dict[str, list[_Decision]] = defaultdict(list)
        changed = []
        for decision in decisions:
            by_name[decision.name].append(decision)
            if decision.before != decision.target:
                event = _ENDED_BAN_EVENTS.get(decision.target, TRANSITIONS[decision.name].event)
                user = decision.user
                changed.append(Decided(event, user.username, user.id, user.language, user.platform))
        if "ban" in by_name:
            self.console.on_bans([decision.user for decision in by_name["ban"] if decision.before != BANNED])
        if "reopen" in by_name:
            self.console.on_reopenings([it.user for it in by_name["reopen"] if it.before == APPROVED])
        if "unban" in by_name:
            self.console.on_unbans({decision.user.username: decision.user.id for decision in by_name["unban"]})
        if "delete" in by_name:
            deleted = {decision.user.username: decision.user.id for decision in by_name["delete"]}
            banned = [decision.user.username for decision in by_name["delete"] if decision.before == BANNED]
            self.console.on_deletions(deleted, banned)
        self.console.on_decisions(changed)


NO_MEMBERSHIP: Final[Mapping[str, Any]] = dict.fromkeys(
    (
        *("member_until", "applied_until", "lapses_at", "lapse", "ended_because", "applied_ended", "ended_at"),
        *("renewed_at", "reminded_at", "stay_asked_at"),
    )
)


def columns_of_new_membership(until: datetime | None, moment: datetime) -> dict[str, Any]:
    """Return a user's columns for a membership that begins at this moment; `until` None: without end."""
    ends_at = None if until is None else to_milliseconds(until)
    begun = {"renewed_at": moment, "reminded_at": moment if ends_at is not None else None}
    return {**NO_MEMBERSHIP, "member_until": ends_at, "applied_until": ends_at, **begun}


_NOTED_TIMES: Final = {
    "ended_at": "endedAt",
    "renewed_at": "renewedAt",
    "reminded_at": "remindedAt",
    "applied_until": "until",
    "stay_asked_at": "stayAskedAt",
}


def note_membership(user: User) -> dict[str, Any]:
    """Return a user's membership for the audit entry of what takes it, without what SQL has changed it to."""
    times = {name: getattr(user, column) for column, name in _NOTED_TIMES.items()}
    noted: dict[str, Any] = {name: epoch_ms(at) for name, at in times.items() if at is not None}
    return noted | ({"because": user.applied_ended} if user.applied_ended else {})


def read_membership(noted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a membership that `note_membership` noted; when it lapses is found anew."""
    times = {column: noted.get(name) for column, name in _NOTED_TIMES.items()}
    columns = {name: None if at is None else from_epoch_ms(at) for name, at in times.items()}
    because = noted.get("because")
    ended_at = None if because is None else columns["ended_at"]
    ends = {"member_until": columns["applied_until"], "ended_at": ended_at}
    ends |= {"ended_because": because, "applied_ended": because}
    return {**NO_MEMBERSHIP, **columns, **ends}


@dataclass(frozen=True, kw_only=True)
class PlannedTransitions(Transitions):
    """Transitions of the `User` objects given alone: nothing is stored or announced. Its `audit` is a silent one."""

    decided: list[tuple[str, int | None, str | None]]
    """Gets what would be noted for the game's allowlist: names, ids, statuses."""

    def record_deletions(self, realnames: Mapping[str, str | None]) -> None:
        """Note the deletions for the game's allowlist."""
        self.note_access([(key, None, None) for key in realnames])

    def _update(self, users: Sequence[User], changes: dict[str, Any]) -> None:
        pass

    def _record(
        self, decisions: Sequence[_Decision], by: Actor, moment: datetime, chat: Mapping[str, str] | None = None
    ) -> None:
        self.note_access([(it.user.username, it.user.id, it.target) for it in decisions])

    def note_access(self, decided: Sequence[tuple[str, int | None, str | None]]) -> None:
        if self.gates.keeps_list():
            self.decided.extend(decided)


def _mail_after_ban(decision: _Decision, now: datetime) -> UserMail:
    is_on_time, needs_password = decision.details.is_on_time, decision.details.needs_password
    if decision.target != APPROVED or has_ended(decision.user, now):
        return "ban_ended_unapproved"
    if needs_password:
        return "ban_ended_set_password" if is_on_time else "unbanned_set_password"
    return "ban_ended" if is_on_time else "unbanned"


_ENDED_BAN_EVENTS: Final[Mapping[str | None, str]] = {PENDING: "reopened", REJECTED: "rejected"}
"""Events whose commands follow the end of a ban, by the status that it ends in, if that is not approved.

Any other transition into such a status has this event itself.
"""


def _invited_for(user: User) -> timedelta | None:
    """Return how long a membership lasts by the user's invitation; None: it does not say, or SQL has made it none."""
    try:
        return parse_duration(user.member_for or "")
    except ValueError:
        return None


def needs_password(user: User) -> bool:
    """Return whether a user has to set a first password, to log in: an adopted player has one in the game."""
    return user.password_hash is None and user.origin != "adopted"


def _decide(user: User, name: str, target: str, details: DecisionDetails) -> _Decision:
    """Return the decision if the user's status allows it. Raises `WrongStatus`."""
    if user.status not in TRANSITIONS[name].sources:
        raise WrongStatus(user.status)
    return _Decision(user, name, user.status, target, details)


def _write_reviews(
    decisions: Sequence[_Decision], asked: Sequence[_Decision], by: Actor, moment: datetime
) -> dict[int, int]:
    """Write the reviews and return, by user id, at least the ids of those asked for."""
    about = [it.user.id for it in decisions if it.before == PENDING or it.name == "reopen"]
    answers = find_answers(about) if about else {}
    rows = [decision.review(by, moment, answers.get(decision.user.id)) for decision in decisions]
    if len(rows) == 1:
        return {decisions[0].user.id: Review.insert(rows[0]).execute()}
    insert_rows(Review._meta.database, Review, rows)
    is_asked = (Review.reviewed_at == moment) & Review.username_key.in_([it.user.username_key for it in asked])
    written: Any = Review.select(Review.user_id, Review.id).where(is_asked).order_by(Review.id)
    return dict(written.tuples()) if asked else {}


def find_answers(user_ids: Sequence[int]) -> dict[int, str]:
    """Return the stored answers by user id: once such a user applies again, their row is gone, and with it these."""
    stored: Any = StoredQuestionnaire.select(StoredQuestionnaire.user, StoredQuestionnaire.answers)
    return dict(stored.where(StoredQuestionnaire.user.in_(user_ids)).tuples())


def _reviews_of(users: Sequence[User]) -> list[tuple[int, int, str | None]]:
    """Return user id, id and reason of the users' reviews, oldest first."""
    if not users:
        return []
    # the name has an index, the user's id has none
    has_name = Review.username_key.in_([user.username_key for user in users])
    is_of_users = Review.user_id.in_([user.id for user in users])
    reviews: Any = Review.select(Review.user_id, Review.id, Review.reason).where(has_name, is_of_users)
    return list(reviews.order_by(Review.id).tuples())


def _sql_reasons(users: Sequence[User]) -> dict[int, str]:
    """Return the reasons set with SQL together with the status, by user id; without those of the last review."""
    with_reason = [user for user in users if user.reason]
    last = {user_id: reason for user_id, _, reason in _reviews_of(with_reason)}
    return {user.id: str(user.reason) for user in with_reason if last.get(user.id) != user.reason}


def _last_reviews(keys: Collection[str]) -> dict[str, Review]:
    """Return the last review of each name of a deleted user that has one."""
    fields = (Review.username_key, Review.username, Review.status_after)
    reviews: Any = Review.select(*fields).where(Review.username_key.in_(keys)).order_by(Review.id)
    return {review.username_key: review for review in reviews}
