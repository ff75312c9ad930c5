"""The rules of the allowlist as pure functions: what is known of one name in, the next change out.

What is wanted follows from our users, what is there from the game's list. A change is made, and the rules are asked
again, until there is nothing left to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from plugin_bridge.server.allowlist import Entry
from plugin_bridge.server.player_uuids import family_of, is_bedrock
from regsvc.database.models import ADD, APPROVED, BANNED, LISTED, PENDING, REMOVE, TAKEN_OFF, AllowlistState
from regsvc.users.gates import HELD_BACK, NO_PROFILE, NO_UUID, REFUSED, RESTART, UUID_IN_DOUBT

Effect = Literal["adopt", "approve"]


class ListRecord(NamedTuple):
    """A name on the list, as we remember it."""

    state: AllowlistState
    uuid: str | None = None
    reason: str | None = None

    def has_decided(self, state: AllowlistState) -> bool:
        """Return whether this state follows from a decision, or from changes that a person has confirmed."""
        return self.state == state and self.reason != HELD_BACK


@dataclass(frozen=True, slots=True)
class Member:
    """All that is known of one name.

    `status` is the user's access, which is `ENDED` where the membership has ended; None: the name has no user, and
    `username` is the list's spelling.
    """

    key: str
    username: str
    status: str | None
    record: ListRecord | None
    entries: tuple[Entry, ...]
    """Entries of this player: those of the name as the game compares it, and those with the UUID in the record."""
    uuid: str | None
    """The UUID that the player has in the game; None: it is not known; "": the server finds it itself."""
    has_joined: bool = False
    """Whether that is the UUID of a player of this name who was in the game, which proves it."""
    is_refused: bool = False
    """Whether the server did not take a change of this name, which is not tried again now."""
    is_on_bedrock: bool = False
    """Whether the user plays the Bedrock edition: only Floodgate's UUIDs let them in."""
    is_operator: bool = False
    """Whether ops.json has the name, with a UUID."""
    user_id: int | None = None
    may_be_old: bool = False
    """Whether entries may be older than the user's status, so that they approve nobody."""


@dataclass(frozen=True, slots=True)
class ListPolicy:
    """Settings of the host, and how the list was found."""

    approves_added: bool
    """Whether an operator's `/whitelist add` approves a user who waits for review, or was rejected."""
    restores: bool
    """Whether who was taken off the list in the game is put on it again."""
    adopts: bool
    """Whether entries without a user get one."""
    is_loaded: bool
    """Whether the server has read the file as it is, or will before anybody can join."""
    may_have_lost: bool
    """Whether the list may lack entries that nobody took off, as one that is empty."""
    unknown: str = NO_UUID
    """Why UUIDs are not known that are not."""
    kicks_operators: bool = False
    """Whether the server kicks operators who are not on the list (enforce-whitelist)."""


@dataclass(frozen=True, slots=True)
class ListChange:
    """A change to make for one name. `state` None: nothing is remembered any more."""

    state: AllowlistState | None
    uuid: str | None = None
    reason: str | None = None
    add: Entry | None = None
    remove: tuple[Entry, ...] = ()
    effect: Effect | None = None
    """What happens to our user first: created, or approved, as the game's operator wanted."""
    is_guarded: bool = False
    """Whether it follows from no decision of ours, so that many at once wait for a person."""


def decide(member: Member, policy: ListPolicy) -> ListChange | None:
    """Return the next change for this name, or None if nothing is to do."""
    change = _decide(member, policy)
    if change is None or not member.is_refused or (change.add is None and not change.remove):
        return change
    refused = ListRecord(change.state or REMOVE, change.uuid or None, REFUSED)
    return None if member.record == refused else ListChange(refused.state, refused.uuid, REFUSED)


def _decide(member: Member, policy: ListPolicy) -> ListChange | None:
    if member.status == APPROVED:
        return _listed(member, policy) if member.entries else _missing(member, policy)
    record, entries = member.record, member.entries
    is_operator = member.is_operator and member.status in (None, PENDING)  # a ban or rejection wins
    if not entries:
        if is_operator and policy.kicks_operators:
            return _missing(member, policy)
        may_be_loaded = record is not None and record.state == REMOVE and record.uuid is not None
        if record is None or (may_be_loaded and not policy.is_loaded):
            return None
        return ListChange(REMOVE, record.uuid) if record.state == ADD else ListChange(None)
    if member.status is None and record is None:
        return ListChange(LISTED, entries[0].uuid, effect="adopt") if policy.adopts else None
    is_ours = record is not None and record.state != TAKEN_OFF
    is_typed = not is_ours and not member.may_be_old
    if member.status not in (None, BANNED) and is_typed and policy.approves_added:
        right = [entry.uuid for entry in entries if entry.uuid == member.uuid]
        if member.uuid is None:
            right = [entry.uuid for entry in entries if is_bedrock(entry.uuid) or not member.is_on_bedrock]
        uuid = right[0] if right else member.uuid
        return ListChange(LISTED if right else ADD, uuid, effect="approve", is_guarded=True)
    if is_operator:
        return _listed(member, policy)
    is_decided = record is not None and record.has_decided(REMOVE)
    return ListChange(REMOVE, entries[0].uuid, remove=entries, is_guarded=not is_decided)


def _listed(member: Member, policy: ListPolicy) -> ListChange | None:
    """A user who may play, and is on the list."""
    record, right = member.record, member.entries
    if member.has_joined and not keeps_uuid(record.uuid if record is not None else None, member.uuid):
        right = tuple(entry for entry in member.entries if entry.uuid == member.uuid)
        if not right:
            assert member.uuid is not None, "who has joined has a UUID"
            return ListChange(ADD, member.uuid, add=Entry(member.uuid, member.username), remove=member.entries)
    known = [entry.uuid for entry in right if record is not None and entry.uuid == record.uuid]
    uuid = (known or [right[0].uuid])[0] or None
    change = ListChange(LISTED, uuid)
    if record is not None and record.state == ADD and not policy.is_loaded:
        change = ListChange(ADD, uuid, RESTART)
    return None if record == ListRecord(change.state or LISTED, change.uuid, change.reason) else change


def _missing(member: Member, policy: ListPolicy) -> ListChange | None:
    """A user who may play, and is not on the list."""
    record = member.record
    if record is not None and not policy.restores:
        if record.state == TAKEN_OFF:
            return None
        if record.state == LISTED and not policy.may_have_lost:
            return ListChange(TAKEN_OFF, record.uuid, is_guarded=True)
    uuid = (
        record.uuid
        if record is not None and (member.uuid is None or keeps_uuid(record.uuid, member.uuid))
        else member.uuid
    )
    is_decided = record is not None and record.has_decided(ADD)
    if uuid is not None and policy.unknown != UUID_IN_DOUBT:
        return ListChange(ADD, uuid, add=Entry(uuid, member.username), is_guarded=not is_decided)
    known = record.uuid if record is not None else None
    if record == ListRecord(ADD, known, policy.unknown):
        return None
    if record == ListRecord(ADD, known, NO_PROFILE) and policy.unknown == NO_UUID:
        return None
    return ListChange(ADD, known, policy.unknown, is_guarded=not is_decided)


def keeps_uuid(known: str | None, joined: str | None) -> bool:
    """Return whether the UUID in a record stays the player's, although another one has joined under the name.

    An account may give its name up, and a stranger take it: they must not get in for it.
    """
    if not known or not joined:
        return False
    return family_of(known) != "offline" and family_of(known) == family_of(joined)


def hold_back(member: Member, change: ListChange) -> ListChange | None:
    """Return the change that notes that this one waits for a person; None: it is noted, or needs no note.

    Whom the game's operators approved has no record until then: who has one that is ours is taken off.
    """
    if change.effect == "approve":
        return None
    note = ListRecord(LISTED if change.state == TAKEN_OFF else change.state or REMOVE, change.uuid, HELD_BACK)
    return None if member.record == note else ListChange(note.state, note.uuid, note.reason)
