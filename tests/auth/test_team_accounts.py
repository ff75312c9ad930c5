"""Accounts on chat platforms: for which member of the team they act."""

import pytest
from peewee import Database

from regsvc.auth.derived_secrets import DerivedSecrets
from regsvc.auth.rate_limits import DurableLimits
from regsvc.auth.team_accounts import TeamAccounts
from regsvc.core.errors import ChatCodeInvalid
from regsvc.core.rights import Rights, Team
from regsvc.database.audit import Audit
from regsvc.database.models import ChatLink
from regsvc.registration.user_creation import new_user
from tests.support.manual_clock import ManualClock


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
