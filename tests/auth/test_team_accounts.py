"""Accounts on chat platforms: for which member of the team they act."""

import json

import pytest
from peewee import Database

from regsvc.auth.derived_secrets import DerivedSecrets
from regsvc.auth.rate_limits import DurableLimits
from regsvc.auth.team_accounts import TeamAccounts
from regsvc.core.errors import ChatCodeInvalid, RateLimited
from regsvc.core.rights import Rights, Team
from regsvc.database.audit import Audit
from regsvc.database.models import AuditEntry, ChatLink, TeamChatLink, User
from regsvc.registration.user_creation import new_user
from tests.support.database_fixtures import MakeUser
from tests.support.manual_clock import ManualClock
from tests.support.meanwhile import meanwhile


def test_only_a_code_of_the_team_lets_an_account_act(our_database: Database, clock: ManualClock) -> None:
    """Rita has linked her Discord account as a player, for which a session of hers was enough."""
    rita = new_user("Rita", None, "registered", clock())
    rita.status = rita.applied_status = "approved"
    rita.role = rita.applied_role = "reviewer"
    fields = {name: getattr(rita, name) for name in ("username", "username_key", "status", "applied_status", "role")}
    rita_id = type(rita).insert({**fields, "origin": "registered", "created_at": clock()}).execute()
    account = {"platform": "discord", "account_id": "42", "claimed_account": "discord:42"}
    ChatLink.create(user=rita_id, username="rita", discriminator="0", token_hash="x" * 64, linked_at=clock(), **account)
    is_needed: list[bool] = [False]

    def needs(rights: Rights) -> bool:
        assert not rights.is_operator
        return is_needed[0]

    limits, team = DurableLimits(clock), Team(lambda name: 0, needs_second_factor=needs)
    accounts = TeamAccounts(DerivedSecrets(b"k" * 32), limits, team, Audit(clock), clock)

    def find() -> str | None:
        member = accounts.find_member("discord", "42")
        return None if member is None else str(member.username)

    assert find() is None
    accounts.redeem(accounts.issue_code(rita_id), "discord", "42", "rita")
    assert find() == "Rita"

    is_needed[0] = True
    assert find() is None
    with pytest.raises(ChatCodeInvalid):
        accounts.redeem(accounts.issue_code(rita_id), "discord", "42", "rita")
    accounts.redeem(accounts.issue_code(rita_id, has_second_factor=True), "discord", "42", "rita")
    assert find() == "Rita"


# --- codes ---

BOB = "77"


@pytest.fixture
def accounts(our_database: Database, clock: ManualClock) -> TeamAccounts:
    team = Team(lambda name: 0)
    return TeamAccounts(DerivedSecrets(b"k" * 32), DurableLimits(clock), team, Audit(clock), clock)


@pytest.fixture
def rita(make_user: MakeUser) -> User:
    return make_user("Rita", status="approved", role="reviewer")


def is_of(accounts: TeamAccounts, account: str, platform: str = "discord") -> str | None:
    member = accounts.find_member(platform, account)
    return None if member is None else str(member.username)


def test_a_code_links_one_account_once_within_ten_minutes(
    accounts: TeamAccounts, rita: User, clock: ManualClock
) -> None:
    code = accounts.issue_code(rita.id)
    clock.advance(minutes=10)
    assert accounts.redeem(f" {code.lower()}\n", "discord", "42", " Rita \u202e the  first") == "Rita"
    [listed] = accounts.list_accounts()
    assert (listed.platform, listed.account_name, listed.linked_at) == ("discord", "Rita the first", clock())
    [entry] = AuditEntry.select()
    assert (entry.action, entry.operator, entry.target) == ("team_chat.linked", "Rita", "Rita")
    assert json.loads(entry.detail or "") == {"platform": "discord", "account": "42"}
    with pytest.raises(ChatCodeInvalid):
        accounts.redeem(code, "discord", BOB, "bob")
    late = accounts.issue_code(rita.id)
    clock.advance(minutes=10, milliseconds=1)
    with pytest.raises(ChatCodeInvalid):
        accounts.redeem(late, "discord", BOB, "bob")
    assert (is_of(accounts, "42"), is_of(accounts, BOB), is_of(accounts, "42", "slack")) == ("Rita", None, None)


def test_a_code_that_two_accounts_send_at_once_links_the_first(accounts: TeamAccounts, rita: User) -> None:
    code = accounts.issue_code(rita.id)

    def redeem_first() -> None:
        accounts.redeem(code, "discord", "42", "rita")

    with meanwhile(accounts, "_find_cause", redeem_first, after=True), pytest.raises(ChatCodeInvalid):
        accounts.redeem(code, "discord", BOB, "bob")
    assert (is_of(accounts, "42"), is_of(accounts, BOB)) == ("Rita", None)


def test_an_account_acts_for_one_member_and_a_member_by_one_account(
    accounts: TeamAccounts, rita: User, make_user: MakeUser
) -> None:
    mona = make_user("Mona", status="approved", role="moderator")
    for user, platform, account in (
        (rita, "discord", "1"),
        (rita, "slack", "1"),
        (mona, "discord", "2"),
        (rita, "discord", "3"),  # another account of hers, in place of the first
        (rita, "slack", "9"),
        (mona, "slack", "9"),  # an account of Rita's, which is Mona's from now on
    ):
        accounts.redeem(accounts.issue_code(user.id), platform, account, "name")
    found = {(link.account, link.user.username) for link in TeamChatLink.select()}
    assert found == {("discord:2", "Mona"), ("discord:3", "Rita"), ("slack:9", "Mona")}


def test_a_code_that_others_could_read_is_void(accounts: TeamAccounts, rita: User, clock: ManualClock) -> None:
    code = accounts.issue_code(rita.id)
    assert not accounts.void_codes([])
    assert not accounts.void_codes(["ABCDEFGH"])
    clock.advance(minutes=10)
    assert accounts.void_codes(["ABCDEFGH", code])
    assert TeamChatLink.select().count() == 0
    code = accounts.issue_code(rita.id)
    clock.advance(minutes=10, milliseconds=1)
    assert not accounts.void_codes([code])


def test_five_tries_of_an_account_are_enough(accounts: TeamAccounts, rita: User, clock: ManualClock) -> None:
    code = accounts.issue_code(rita.id)
    for _try in range(5):
        with pytest.raises(ChatCodeInvalid):
            accounts.redeem("ABCDEFGH", "discord", "42", "rita")
    for _try in range(2):
        with pytest.raises(RateLimited):
            accounts.redeem(code, "discord", "42", "rita")
    assert accounts.redeem(code, "slack", "42", "rita") == "Rita", "an account of the same number elsewhere"
    assert accounts.redeem(accounts.issue_code(rita.id), "discord", BOB, "rita") == "Rita"
