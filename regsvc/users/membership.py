"""Effects of a membership's end, renewal and change on our side, for every cause.

As with `Transitions`, one user is a list of one, the player's row follows by the reconciler, and everything runs inside
the caller's transaction. What ends a membership is decided elsewhere: `gates.membership` is the rule.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, cast

from msgspec import UNSET, Meta, UnsetType

from regsvc.core.clock import epoch_ms, to_milliseconds
from regsvc.core.errors import InvalidMembership, WrongStatus
from regsvc.core.shapes import EpochMilliseconds, Moment, Output, to_datetime
from regsvc.core.units import parse_duration
from regsvc.database.audit import SQL, SYNC, Actor
from regsvc.database.models import APPROVED, ENDED, User
from regsvc.http.messages import to_reply
from regsvc.notifications.mail.queue import UserMail
from regsvc.notifications.rcon import Decided
from regsvc.users.gates import EndCause, find_membership_edit, membership
from regsvc.users.transitions import Transitions, columns_of_new_membership, note_membership


@dataclass(frozen=True)
class Term:
    """Length of a membership: until a moment, or for some time more; neither: without end."""

    until: datetime | None = None
    duration: timedelta | None = None

    @property
    def has_end(self) -> bool:
        """Whether the membership ends."""
        return self.until is not None or self.duration is not None

    def find_end(self, now: datetime, before: datetime | None = None) -> datetime | None:
        """Return the end; some time more begins `before`, the end so far, if that is still to come.

        Raises `InvalidMembership` for an end that is past, or after the year 9999.
        """
        end = self.until
        if self.duration is not None:
            try:
                end = (before if before is not None and before > now else now) + self.duration
            except OverflowError:
                raise InvalidMembership("too_long", field="for") from None
        if end is not None and end <= now:
            raise InvalidMembership("in_the_past", field="until" if self.until is not None else "for")
        return end


Until = Annotated[EpochMilliseconds, Meta(description="When the membership ends.", examples=[1_790_000_000_000])]
For = Annotated[str, Meta(description="How long the membership lasts, in place of `until`.", examples=["30 days"])]


def read_term(until: int | UnsetType | None, for_: str | UnsetType) -> Term | None:
    """Return the term that a request gives, or None if it says nothing. Raises `InvalidMembership`."""
    if for_ is UNSET:
        return None if until is UNSET else Term(until=to_datetime(until))
    if until is not UNSET:
        raise InvalidMembership("two_ends", field="for")
    return Term(duration=read_length(for_, "for"))


def read_length(text: str, field: str) -> timedelta:
    """Return the length of memberships that a field of a request gives. Raises `InvalidMembership`."""
    try:
        length = parse_duration(text)
    except ValueError:
        raise InvalidMembership("no_duration", field=field) from None
    if not length:
        raise InvalidMembership("in_the_past", field=field)
    return length


_State = Annotated[
    str,
    Meta(
        extra_json_schema={"enum": ["current", "ending", "ended"]},
        description="`ending`: within a week; `ended`: the user is approved, but may not play.",
        examples=["current"],
    ),
]
Because = Annotated[
    str | None,
    Meta(
        extra_json_schema={"enum": ["date", "idle", "role", None]},
        description="Why it ends or has ended; null: nothing ends it.",
        examples=["date"],
    ),
]
Asked = Annotated[Moment | None, Meta(description="When the user asked to stay; null: nothing is asked.")]


HAS_ENDED: Final = Meta(description="True: the user is approved, but the membership has ended.", examples=[True])


class MembershipFields(Output, frozen=True, kw_only=True):
    """The membership of an approved user: how long they may play."""

    state: _State
    because: Because
    ends_at: Moment | None
    ended_at: Moment | None
    stay_asked_at: Asked


class OwnMembershipFields(MembershipFields, frozen=True, kw_only=True):
    """State of a user's own membership, as they are told."""

    may_ask: Annotated[bool, Meta(description="Whether the user may ask to stay now.", examples=[False])]


def own_membership_fields(user: Any, now: datetime, *, may_ask: bool) -> OwnMembershipFields | None:
    """Return `membership_fields` for the user. `may_ask`: whether the host lets users ask to stay."""
    shown = membership_fields(user, now)
    if shown is None:
        return None
    may_ask = may_ask and shown.state != "current" and shown.stay_asked_at is None
    return to_reply(OwnMembershipFields, shown, may_ask=may_ask)


def membership_fields(user: Any, now: datetime) -> MembershipFields | None:
    """Return the membership of a user's row; None for one who is not approved."""
    found = membership(user, now)
    if found is None:
        return None
    return MembershipFields(
        state=found.state,
        because=found.because,
        ends_at=found.ends_at,
        ended_at=user.ended_at,
        stay_asked_at=user.stay_asked_at,
    )


@dataclass(frozen=True)
class Memberships:
    """Ends, renewals and changes of memberships. The `User` objects given have the new values afterwards."""

    transitions: Transitions

    def end(self, users: Sequence[User], because: Mapping[int, EndCause], by: Actor = SYNC) -> None:
        """End memberships for these causes, by user id. Raises `WrongStatus` where a user is no longer approved."""
        moment = to_milliseconds(self.transitions.now())
        by_cause = defaultdict[EndCause, list[User]](list)
        before = {} if by == SYNC else _note(users)
        for user in users:
            by_cause[because[user.id]].append(user)
        for cause, group in by_cause.items():
            ended = {"ended_because": cause, "applied_ended": cause, "ended_at": moment}
            self._write(group, {**ended, "lapses_at": None, "lapse": None})
        self._record(
            "membership.ended", users, by, lambda user: {"because": user.ended_because, **before.get(user.id, {})}
        )
        self._announce("ended", users, is_open=False)
        self._mail(users, "membership_ended")

    def renew(self, users: Sequence[User], until: datetime | None, by: Actor, *, is_silent: bool = False) -> None:
        """Let memberships last until a moment; None: without end. Those that have ended begin anew.

        Raises `WrongStatus` where a user is no longer approved.
        """
        moment = to_milliseconds(self.transitions.now())
        ended = [user for user in users if user.applied_ended is not None]
        others = [user for user in users if user.applied_ended is None]
        asked = [user.username for user in users if user.stay_asked_at is not None]
        before, detail = _note(users), {} if until is None else {"until": epoch_ms(until)}
        self._write(users, columns_of_new_membership(until, moment))
        self._record("membership.renewed", ended, by, lambda user: detail | before[user.id])
        self._record("membership.set", others, by, lambda user: detail | before[user.id])
        self._announce("renewed", ended, is_open=True)
        self._tell_chats(asked)
        if not is_silent:
            self._mail(users, "membership_renewed")

    def ask_to_stay(self, user: User, by: Actor) -> None:
        """Note that a member asks to stay, and tell the team's webhooks. Raises `WrongStatus`."""
        self._write([user], {"stay_asked_at": to_milliseconds(self.transitions.now())})
        self._record("membership.asked", [user], by, lambda user: None)
        self.transitions.webhook.enqueue("stay_asked", user.username, user.status)

    def decline(self, user: User, by: Actor, *, is_silent: bool = False) -> None:
        """Decline that a member stays: the membership ends as it would, or stays ended. Raises `WrongStatus`."""
        self._write([user], {"stay_asked_at": None})
        self._record("membership.declined", [user], by, lambda user: None)
        self._tell_chats([user.username])
        if not is_silent:
            self._mail([user], "membership_declined")

    def renew_as_usual(self, users: Sequence[User], by: Actor) -> None:
        """Renew memberships for as long as an approval lasts that says nothing else."""
        member_for = self.transitions.find_member_for()
        self.renew(users, None if member_for is None else self.transitions.now() + member_for, by)

    def announce_restored(self, ended: Sequence[User], renewed: Sequence[User], mailed: Sequence[User]) -> None:
        """Announce memberships that have ended, or go on, again, since the decisions that changed them are undone.

        `mailed`: users who get a mail about theirs.
        """
        self._announce("ended", ended, is_open=False)
        self._announce("renewed", renewed, is_open=True)
        for user in mailed:
            self._mail([user], "membership_renewed" if user.ended_because is None else "membership_ended")

    def apply_sql_edits(self, users: Sequence[User]) -> None:
        """Do for memberships edited in SQL what we would have done: they hold, and are audited."""
        now = self.transitions.now()
        ended, renewed = list[User](), defaultdict[datetime | None, list[User]](list)
        for user in users:
            edit = find_membership_edit(user, now)
            if edit == "ended":
                ended.append(user)
            elif edit == "renewed" or (edit is not None and user.ended_because is None):
                renewed[user.member_until].append(user)
            elif edit is not None:  # another date of one that ended for something else, and stays so
                self._write([user], {})
        self.end(ended, {user.id: cast(EndCause, user.ended_because) for user in ended}, SQL)
        for until, group in renewed.items():
            self.renew(group, until, SQL, is_silent=True)

    def forget_lapses(self, users: Sequence[User]) -> None:
        """Forget that memberships lapse by themselves."""
        self._write(users, {"lapses_at": None, "lapse": None})

    def _write(self, users: Sequence[User], columns: Mapping[str, Any]) -> None:
        """Write columns of users; an end typed in SQL is applied with them."""
        if not users:
            return
        self._store(users, columns)
        for user in users:
            user.__data__.update({"applied_until": user.member_until, **columns})

    def _store(self, users: Sequence[User], columns: Mapping[str, Any]) -> None:
        is_approved = (User.status == APPROVED) & (User.applied_status == APPROVED)
        applied: Any = User.update({"applied_until": User.member_until, **columns})
        if applied.where(User.id.in_([user.id for user in users]) & is_approved).execute() < len(users):
            raise WrongStatus(next((user.status for user in users if user.status != APPROVED), APPROVED))

    def _record(self, action: str, users: Sequence[User], by: Actor, detail: Any) -> None:
        self.transitions.audit.record_all(by, [(action, user.username, detail(user) or None) for user in users])

    def _mail(self, users: Sequence[User], mail: UserMail) -> None:
        for user in users:
            self.transitions.mail_queue.send(user, mail)

    def _tell_chats(self, usernames: Sequence[str]) -> None:
        """Tell the team's chats that it is decided whether these users stay."""
        for username in usernames:
            self.transitions.webhook.also_tell("stay_decided", username)

    def _announce(self, event: str, users: Sequence[User], *, is_open: bool) -> None:
        """Tell webhooks, consoles and the game's list of memberships that have ended, or begun anew."""
        it = self.transitions
        with it.webhook.outbox.batched():
            for user in users:
                it.webhook.enqueue(f"membership_{event}", user.username, user.status)  # type: ignore[arg-type]
        it.console.on_decisions([Decided(event, u.username, u.id, u.language, u.platform) for u in users])
        self._note_access(users, is_open=is_open)

    def _note_access(self, users: Sequence[User], *, is_open: bool) -> None:
        access = APPROVED if is_open else ENDED
        self.transitions.note_access([(user.username, user.id, access) for user in users])


def _note(users: Sequence[User]) -> dict[int, dict[str, Any]]:
    """Return the details that say what users' memberships were, by user id."""
    return {user.id: {"membershipBefore": note_membership(user)} for user in users}


@dataclass(frozen=True)
class PlannedMemberships(Memberships):
    """Memberships of the `User` objects given alone: nothing is stored or announced."""

    def _store(self, users: Sequence[User], columns: Mapping[str, Any]) -> None:
        pass

    def _record(self, action: str, users: Sequence[User], by: Actor, detail: Any) -> None:
        pass

    def _mail(self, users: Sequence[User], mail: UserMail) -> None:
        pass

    def _tell_chats(self, usernames: Sequence[str]) -> None:
        pass

    def _announce(self, event: str, users: Sequence[User], *, is_open: bool) -> None:
        self._note_access(users, is_open=is_open)
