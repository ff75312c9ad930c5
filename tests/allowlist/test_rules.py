"""What is done about the allowlist, for any users and any list."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugin_bridge.server.allowlist import Entry
from plugin_bridge.server.player_uuids import offline_uuid
from regsvc.allowlist.rules import ListChange, ListPolicy, ListRecord, Member, decide
from regsvc.database.models import ADD, APPROVED, BANNED, LISTED, PENDING, REJECTED, REMOVE, TAKEN_OFF
from regsvc.users.gates import HELD_BACK, NO_PROFILE, NO_UUID, RESTART, UUID_IN_DOUBT

RESPECT = ListPolicy(approves_added=True, restores=False, adopts=True, is_loaded=True, may_have_lost=False)
STRICT = replace(RESPECT, kicks_operators=True)
RESTORE = replace(RESPECT, restores=True)
UUID, OTHER = offline_uuid("Alice"), offline_uuid("alice")
ENTRY = Entry(UUID, "Alice")
HELD_ADD = ListRecord(ADD, UUID, HELD_BACK)
ACCOUNT, STRANGER = "069a79f4-44e9-4726-a5be-fca90e38aaf5", "853c80ef-3c37-49fd-aa49-938b674adae6"
RENAMED = Entry(ACCOUNT, "Alice")
FLOODGATES = Entry("00000000-0000-0000-0009-01f64f65c7c3", "Alice")


def alice(
    status: str | None = APPROVED, state: str | None = None, *entries: Entry, uuid: str | None = UUID, **more: bool
) -> Member:
    record = ListRecord(state, UUID) if state else None  # type: ignore[arg-type]  # a test's shorthand
    return Member("alice", "Alice", status, record, entries, uuid, **more)


@pytest.mark.parametrize(
    ("member", "policy", "change"),
    [
        # approved: added, unless it was taken off in the game
        (alice(), RESPECT, ListChange(ADD, UUID, add=ENTRY, is_guarded=True)),
        (alice(APPROVED, ADD), RESPECT, ListChange(ADD, UUID, add=ENTRY)),
        (alice(APPROVED, ADD, ENTRY), RESPECT, ListChange(LISTED, UUID)),
        (alice(APPROVED, ADD, ENTRY), replace(RESPECT, is_loaded=False), ListChange(ADD, UUID, RESTART)),
        (alice(APPROVED, LISTED, ENTRY), RESPECT, None),
        (alice(APPROVED, LISTED), RESPECT, ListChange(TAKEN_OFF, UUID, is_guarded=True)),
        (alice(APPROVED, LISTED), RESTORE, ListChange(ADD, UUID, add=ENTRY, is_guarded=True)),
        (
            alice(APPROVED, LISTED),
            replace(RESPECT, may_have_lost=True),
            ListChange(ADD, UUID, add=ENTRY, is_guarded=True),
        ),
        (alice(APPROVED, TAKEN_OFF), RESPECT, None),
        (alice(APPROVED, TAKEN_OFF), RESTORE, ListChange(ADD, UUID, add=ENTRY, is_guarded=True)),
        (alice(APPROVED, TAKEN_OFF, ENTRY), RESPECT, ListChange(LISTED, UUID)),
        # another UUID: what is there counts, unless a player who joined proves it wrong
        (alice(APPROVED, None, Entry(OTHER, "Alice")), RESPECT, ListChange(LISTED, OTHER)),
        (
            alice(APPROVED, None, Entry(OTHER, "Alice"), has_joined=True),
            RESPECT,
            ListChange(ADD, UUID, add=ENTRY, remove=(Entry(OTHER, "Alice"),)),
        ),
        (alice(APPROVED, ADD, uuid=None), RESPECT, ListChange(ADD, UUID, add=ENTRY)),
        (alice(uuid=None), RESPECT, ListChange(ADD, None, NO_UUID, is_guarded=True)),
        # held back before: a person has not confirmed it yet
        (replace(alice(), record=HELD_ADD), RESPECT, ListChange(ADD, UUID, add=ENTRY, is_guarded=True)),
        (replace(alice(APPROVED, None, ENTRY), record=HELD_ADD), RESPECT, ListChange(LISTED, UUID)),
        (
            replace(alice(APPROVED), record=ListRecord(LISTED, UUID, HELD_BACK)),
            RESPECT,
            ListChange(TAKEN_OFF, UUID, is_guarded=True),
        ),
        (
            replace(alice(BANNED, None, ENTRY), record=ListRecord(REMOVE, UUID, HELD_BACK)),
            RESPECT,
            ListChange(REMOVE, UUID, remove=(ENTRY,), is_guarded=True),
        ),
        (
            replace(alice(uuid=None), record=ListRecord(ADD)),
            RESPECT,
            ListChange(ADD, None, NO_UUID),
        ),
        (replace(alice(uuid=None), record=ListRecord(ADD, None, NO_UUID)), RESPECT, None),
        (replace(alice(uuid=None), record=ListRecord(ADD, None, NO_PROFILE)), RESPECT, None),
        (
            replace(alice(uuid=None), record=ListRecord(ADD, None, NO_PROFILE)),
            replace(RESPECT, unknown=UUID_IN_DOUBT),
            ListChange(ADD, None, UUID_IN_DOUBT),
        ),
        (alice(APPROVED, ADD), replace(RESPECT, unknown=UUID_IN_DOUBT), ListChange(ADD, UUID, UUID_IN_DOUBT)),
        # an account that gave its name up stays the player's, and whoever has the name now stays out
        (
            replace(alice(APPROVED, None, RENAMED, uuid=STRANGER, has_joined=True), record=ListRecord(LISTED, ACCOUNT)),
            RESPECT,
            None,
        ),
        (
            replace(alice(uuid=STRANGER, has_joined=True), record=ListRecord(ADD, ACCOUNT)),
            RESPECT,
            ListChange(ADD, ACCOUNT, add=RENAMED),
        ),
        # not approved: an operator who adds somebody in the game approves them
        (alice(PENDING), RESPECT, None),
        (alice(PENDING, None, ENTRY), RESPECT, ListChange(LISTED, UUID, effect="approve", is_guarded=True)),
        (alice(REJECTED, TAKEN_OFF, ENTRY), RESPECT, ListChange(LISTED, UUID, effect="approve", is_guarded=True)),
        (
            alice(PENDING, None, ENTRY),
            replace(RESPECT, approves_added=False),
            ListChange(REMOVE, UUID, remove=(ENTRY,), is_guarded=True),
        ),
        (
            alice(PENDING, None, ENTRY, uuid=None, is_on_bedrock=True),
            RESPECT,
            ListChange(ADD, None, effect="approve", is_guarded=True),
        ),
        (
            alice(PENDING, None, ENTRY, FLOODGATES, uuid=None, is_on_bedrock=True),
            RESPECT,
            ListChange(LISTED, FLOODGATES.uuid, effect="approve", is_guarded=True),
        ),
        # but not what may have been there before they were rejected, nor what we put there
        (
            alice(REJECTED, None, ENTRY, may_be_old=True),
            RESPECT,
            ListChange(REMOVE, UUID, remove=(ENTRY,), is_guarded=True),
        ),
        (alice(PENDING, LISTED, ENTRY), RESPECT, ListChange(REMOVE, UUID, remove=(ENTRY,), is_guarded=True)),
        (alice(REJECTED, REMOVE, ENTRY), RESPECT, ListChange(REMOVE, UUID, remove=(ENTRY,))),
        (alice(BANNED, None, ENTRY), RESPECT, ListChange(REMOVE, UUID, remove=(ENTRY,), is_guarded=True)),
        (alice(BANNED, REMOVE, ENTRY), RESPECT, ListChange(REMOVE, UUID, remove=(ENTRY,))),
        (alice(BANNED, REMOVE), replace(RESPECT, is_loaded=False), None),
        (alice(BANNED, REMOVE), RESPECT, ListChange(None)),
        (alice(BANNED, ADD), RESPECT, ListChange(REMOVE, UUID)),
        (alice(BANNED, LISTED), RESPECT, ListChange(None)),
        # no user: adopted, or deleted by us
        (alice(None), RESPECT, None),
        (alice(None, None, ENTRY), RESPECT, ListChange(LISTED, UUID, effect="adopt")),
        (alice(None, None, ENTRY), replace(RESPECT, adopts=False), None),
        (alice(None, REMOVE, ENTRY), RESPECT, ListChange(REMOVE, UUID, remove=(ENTRY,))),
        (alice(None, LISTED, ENTRY), RESPECT, ListChange(REMOVE, UUID, remove=(ENTRY,), is_guarded=True)),
        # operators who would be kicked are added, unless a decision keeps them out
        (alice(None, is_operator=True), RESPECT, None),
        (alice(None, is_operator=True), STRICT, ListChange(ADD, UUID, add=ENTRY, is_guarded=True)),
        (alice(PENDING, is_operator=True), STRICT, ListChange(ADD, UUID, add=ENTRY, is_guarded=True)),
        (alice(None, LISTED, ENTRY, is_operator=True), STRICT, None),
        (alice(None, LISTED, ENTRY, is_operator=True), RESPECT, None),
        (alice(None, LISTED, is_operator=True), STRICT, ListChange(TAKEN_OFF, UUID, is_guarded=True)),
        (alice(None, None, ENTRY, is_operator=True), STRICT, ListChange(LISTED, UUID, effect="adopt")),
        (
            alice(PENDING, None, ENTRY, is_operator=True),
            STRICT,
            ListChange(LISTED, UUID, effect="approve", is_guarded=True),
        ),
        (alice(BANNED, is_operator=True), STRICT, None),
        (alice(BANNED, REMOVE, ENTRY, is_operator=True), STRICT, ListChange(REMOVE, UUID, remove=(ENTRY,))),
        (
            alice(REJECTED, LISTED, ENTRY, is_operator=True),
            STRICT,
            ListChange(REMOVE, UUID, remove=(ENTRY,), is_guarded=True),
        ),
    ],
)
def test_the_next_change(member: Member, policy: ListPolicy, change: ListChange | None) -> None:
    assert decide(member, policy) == change


NAMES = ("Alice", "bob", "Carla", "dave")
statuses = st.sampled_from([None, PENDING, APPROVED, REJECTED, BANNED])
records = st.none() | st.builds(
    ListRecord,
    st.sampled_from([ADD, LISTED, REMOVE, TAKEN_OFF]),
    st.none() | st.just(OTHER),
    st.sampled_from([None, HELD_BACK]),
)
policies = st.builds(
    ListPolicy,
    *[st.booleans()] * 5,
    unknown=st.sampled_from([NO_UUID, UUID_IN_DOUBT]),
    kicks_operators=st.booleans(),
)


@given(
    statuses=st.fixed_dictionaries(dict.fromkeys(NAMES, statuses)),
    records=st.fixed_dictionaries(dict.fromkeys(NAMES, records)),
    listed=st.sets(st.sampled_from([*NAMES, "zoe"])),
    unknown=st.sets(st.sampled_from(NAMES)),
    operators=st.sets(st.sampled_from(NAMES)),
    policy=policies,
)
def test_after_one_round_nothing_is_to_do(
    statuses: Mapping[str, str | None],
    records: Mapping[str, ListRecord | None],
    listed: set[str],
    unknown: set[str],
    operators: set[str],
    policy: ListPolicy,
) -> None:
    """Who may play is on the list, as far as it is known how; who may not is not; entries of others are untouched."""
    for name in NAMES:
        entries = (Entry(offline_uuid(name), name),) if name in listed else ()
        uuid = None if name in unknown else offline_uuid(name)
        member = Member(name.lower(), name, statuses[name], records[name], entries, uuid, is_operator=name in operators)
        rounds = 0
        while (change := decide(member, policy)) is not None:
            rounds += 1
            assert rounds <= 4, (member, change)
            member = apply(member, change)
        if member.status == APPROVED and not member.entries:
            is_respected = member.record is not None and member.record.state == TAKEN_OFF and not policy.restores
            is_unknown = policy.unknown == UUID_IN_DOUBT or member.uuid is None
            assert is_respected or is_unknown, member
        if member.status in (REJECTED, BANNED) or (member.status == PENDING and name not in operators):
            assert not member.entries, member
        if member.status is None and member.entries and name not in operators:
            assert not policy.adopts
            assert records[name] is None


def apply(member: Member, change: ListChange) -> Member:
    kept = tuple(entry for entry in member.entries if entry not in change.remove)
    status = APPROVED if change.effect else member.status
    record = None if change.state is None else ListRecord(change.state, change.uuid, change.reason)
    return replace(member, status=status, record=record, entries=kept if change.add is None else (*kept, change.add))
