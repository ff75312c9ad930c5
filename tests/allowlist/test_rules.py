"""What is done about the allowlist, for any users and any list."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugin_bridge.server.allowlist import Entry
from plugin_bridge.server.player_uuids import offline_uuid
from regsvc.allowlist.rules import ListChange, ListPolicy, ListRecord, Member, decide, hold_back, keeps_uuid
from regsvc.database.models import ADD, APPROVED, BANNED, LISTED, PENDING, REJECTED, REMOVE, TAKEN_OFF
from regsvc.users.gates import HELD_BACK, NO_PROFILE, NO_UUID, REFUSED, RESTART, UUID_IN_DOUBT

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


REFUSED_ADD = ListRecord(ADD, UUID, REFUSED)
OF_FLOODGATE = FLOODGATES.uuid
UNLOADED = replace(RESPECT, is_loaded=False)


@pytest.mark.parametrize(
    ("member", "policy", "change"),
    [
        # a change that the server did not take is noted once; what asks nothing of the server is done
        (alice(APPROVED, ADD, is_refused=True), RESPECT, ListChange(ADD, UUID, REFUSED)),
        (replace(alice(is_refused=True), record=REFUSED_ADD), RESPECT, None),
        (replace(alice(), record=REFUSED_ADD), RESPECT, ListChange(ADD, UUID, add=ENTRY)),
        (alice(BANNED, LISTED, ENTRY, is_refused=True), RESPECT, ListChange(REMOVE, UUID, REFUSED)),
        (
            replace(alice(BANNED, None, ENTRY, is_refused=True), record=ListRecord(REMOVE, UUID, REFUSED)),
            RESPECT,
            None,
        ),
        (
            replace(alice(APPROVED, is_refused=True), uuid="", record=None),
            RESPECT,
            ListChange(ADD, None, REFUSED),
        ),
        (alice(APPROVED, LISTED, is_refused=True), RESPECT, ListChange(TAKEN_OFF, UUID, is_guarded=True)),
        (alice(APPROVED, LISTED, ENTRY, is_refused=True), RESPECT, None),
        # nobody is approved who is no user
        (alice(None, TAKEN_OFF, ENTRY), RESPECT, ListChange(REMOVE, UUID, remove=(ENTRY,), is_guarded=True)),
        # the server has not read a removal yet
        (alice(BANNED, LISTED), UNLOADED, ListChange(None)),
        (alice(BANNED, ADD), UNLOADED, ListChange(REMOVE, UUID)),
        (replace(alice(BANNED), record=ListRecord(REMOVE)), UNLOADED, ListChange(None)),
        (alice(APPROVED, LISTED, ENTRY), UNLOADED, None),
        (alice(APPROVED, None, ENTRY), UNLOADED, ListChange(LISTED, UUID)),
        # which entry an operator's own approves: the player's, on Bedrock one of Floodgate's
        (
            alice(PENDING, None, Entry(OTHER, "alice"), ENTRY),
            RESPECT,
            ListChange(LISTED, UUID, effect="approve", is_guarded=True),
        ),
        (
            alice(PENDING, None, Entry(OTHER, "alice")),
            RESPECT,
            ListChange(ADD, UUID, effect="approve", is_guarded=True),
        ),
        (
            alice(PENDING, None, ENTRY, uuid=None),
            RESPECT,
            ListChange(LISTED, UUID, effect="approve", is_guarded=True),
        ),
        # of several entries, the one in the record; of a player who has joined, the one that lets them in
        (
            alice(APPROVED, ADD, Entry(OTHER, "alice"), ENTRY),
            RESPECT,
            ListChange(LISTED, UUID),
        ),
        (
            alice(APPROVED, None, Entry(OTHER, "alice"), ENTRY),
            RESPECT,
            ListChange(LISTED, OTHER),
        ),
        (
            alice(APPROVED, None, Entry(OTHER, "alice"), ENTRY, has_joined=True),
            RESPECT,
            ListChange(LISTED, UUID),
        ),
        (
            alice(APPROVED, None, Entry("", "Alice")),
            RESPECT,
            ListChange(LISTED, None),
        ),
        (alice(PENDING, LISTED, ENTRY, is_operator=True), STRICT, None),
        (
            alice(PENDING, LISTED, ENTRY, is_operator=True),
            replace(STRICT, is_loaded=False),
            None,
        ),
        (
            alice(PENDING, ADD, ENTRY, is_operator=True),
            STRICT,
            ListChange(LISTED, UUID),
        ),
        # why it is not known changes; the UUID in the record stays
        (
            replace(alice(), record=ListRecord(ADD, UUID, NO_PROFILE)),
            replace(RESPECT, unknown=UUID_IN_DOUBT),
            ListChange(ADD, UUID, UUID_IN_DOUBT),
        ),
        (
            replace(alice(), record=ListRecord(ADD, UUID, UUID_IN_DOUBT)),
            replace(RESPECT, unknown=UUID_IN_DOUBT),
            None,
        ),
        (
            replace(alice(uuid=None), record=ListRecord(ADD, None, NO_UUID)),
            replace(RESPECT, unknown=NO_PROFILE),
            ListChange(ADD, None, NO_PROFILE),
        ),
    ],
)
def test_each_condition_alone_changes_what_is_done(
    member: Member, policy: ListPolicy, change: ListChange | None
) -> None:
    assert decide(member, policy) == change


def test_what_nobody_said_is_not_so() -> None:
    plain = Member("alice", "Alice", APPROVED, None, (), UUID)
    flags = (plain.has_joined, plain.is_refused, plain.is_on_bedrock, plain.is_operator, plain.may_be_old)
    assert not any(flags)
    policy = ListPolicy(approves_added=False, restores=False, adopts=False, is_loaded=True, may_have_lost=False)
    assert (policy.unknown, policy.kicks_operators, ListChange(None).is_guarded) == (NO_UUID, False, False)


@pytest.mark.parametrize(
    ("known", "joined", "expected"),
    [
        (ACCOUNT, STRANGER, True),
        (OF_FLOODGATE, "00000000-0000-0000-0009-01f64f65c7c4", True),
        (UUID, OTHER, False),
        (ACCOUNT, UUID, False),
        (UUID, ACCOUNT, False),
        (ACCOUNT, OF_FLOODGATE, False),
        (None, ACCOUNT, False),
        (ACCOUNT, None, False),
        (ACCOUNT, "", False),
        (None, None, False),
    ],
)
def test_an_account_keeps_its_uuid_although_another_one_has_joined(
    known: str | None, joined: str | None, expected: bool
) -> None:
    assert keeps_uuid(known, joined) is expected


@pytest.mark.parametrize(
    ("record", "change", "note"),
    [
        (None, ListChange(ADD, UUID, add=ENTRY, is_guarded=True), ListChange(ADD, UUID, HELD_BACK)),
        (ListRecord(ADD, UUID), ListChange(ADD, UUID, add=ENTRY, is_guarded=True), ListChange(ADD, UUID, HELD_BACK)),
        (HELD_ADD, ListChange(ADD, UUID, add=ENTRY, is_guarded=True), None),
        (None, ListChange(TAKEN_OFF, UUID, is_guarded=True), ListChange(LISTED, UUID, HELD_BACK)),
        (None, ListChange(REMOVE, UUID, remove=(ENTRY,)), ListChange(REMOVE, UUID, HELD_BACK)),
        (None, ListChange(None, UUID), ListChange(REMOVE, UUID, HELD_BACK)),
        (None, ListChange(LISTED, UUID, effect="approve", is_guarded=True), None),
        (None, ListChange(LISTED, UUID, effect="adopt"), ListChange(LISTED, UUID, HELD_BACK)),
    ],
)
def test_what_waits_for_a_person_is_noted_once(
    record: ListRecord | None, change: ListChange, note: ListChange | None
) -> None:
    assert hold_back(replace(alice(), record=record), change) == note


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
