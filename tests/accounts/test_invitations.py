"""Invitations: whom they let in, and what ends them, at the moment of their use."""

from datetime import timedelta

import pytest
from peewee import Database

from regsvc.accounts.invitations import Invitations
from regsvc.auth.derived_secrets import DerivedSecrets
from regsvc.core.errors import InvitationExpired, InvitationInvalid, InvitationRevoked, InvitationUsedUp
from regsvc.core.rights import Team
from regsvc.database.audit import Actor, Audit
from regsvc.database.models import Invitation, Review, Token, User
from tests.support.database_fixtures import MakeUser
from tests.support.manual_clock import ManualClock

LEVELS = {"Olivia": (3, 3), "Held": (0, 3), "Rita": (0, 0)}
"""Levels of operators, and those that AuthMe may hold at its login prompt."""
OLIVIA = Actor("Olivia")


@pytest.fixture
def invitations(our_database: Database, clock: ManualClock, make_user: MakeUser) -> Invitations:
    for name in LEVELS:
        make_user(name, status="approved", role="reviewer" if name == "Rita" else None)
    team = Team(lambda name: LEVELS[name][0], lambda name: LEVELS[name][1], lambda rights: rights.is_operator)
    return Invitations(DerivedSecrets(b"k" * 32), team, Audit(clock), clock, "https://example.org")


def invite(invitations: Invitations, uses: int = 2, **columns: object) -> str:
    """Return the token of an invitation of Rita's for an hour, with these columns changed."""
    link, record = invitations.create(uses, timedelta(hours=1), ("no_review",), OLIVIA, "Rita")
    if columns:
        Invitation.update(columns).where(Invitation.id == record.id).execute()
    return link.partition("#invite=")[2]


def test_it_lets_in_as_many_as_it_says(invitations: Invitations) -> None:
    token, other = invite(invitations), invite(invitations)
    found = invitations.find(token)
    assert (found.uses, found.used, found.grants, found.made_by) == (2, 0, ("no_review",), "Olivia")
    for used in range(2):
        assert invitations.find(token).used == used
        invitations.redeem(found)
    with pytest.raises(InvitationUsedUp):
        invitations.find(token)
    with pytest.raises(InvitationUsedUp):  # who was slower than the last friend
        invitations.redeem(found)
    assert invitations.find(other).used == 0


def test_nobody_comes_in_with_one_that_ended_between_look_and_use(invitations: Invitations) -> None:
    token, other = invite(invitations), invite(invitations)
    found = invitations.find(token)
    invitations.revoke(found.id, OLIVIA)
    with pytest.raises(InvitationRevoked):
        invitations.redeem(found)
    assert Invitation.get_by_id(found.id).used == 0
    with pytest.raises(InvitationRevoked):
        invitations.find(token)
    found = invitations.find(other)
    User.update(role=None).where(User.username == "Rita").execute()
    with pytest.raises(InvitationRevoked):
        invitations.redeem(found)
    with pytest.raises(InvitationRevoked):
        invitations.find(other)


def test_it_lives_as_long_as_it_says(invitations: Invitations, clock: ManualClock) -> None:
    token = invite(invitations)
    clock.advance(minutes=59, seconds=59)
    assert invitations.find(token).expires_at - clock() == timedelta(seconds=1)
    clock.advance(seconds=1)
    with pytest.raises(InvitationExpired):
        invitations.find(token)


def test_no_other_token_opens_it(invitations: Invitations) -> None:
    token, other = invite(invitations), invite(invitations)
    row_id, _dot, mac = token.partition(".")
    nonce = Invitation.get_by_id(int(row_id)).nonce
    for forged in (
        "",
        mac,
        f"{int(row_id) + 99}.{mac}",
        f"{row_id}.{other.partition('.')[2]}",
        DerivedSecrets(b"k" * 32).link_token(int(row_id), nonce, "reset"),
    ):
        with pytest.raises(InvitationInvalid):
            invitations.find(forged)
    assert token == DerivedSecrets(b"k" * 32).link_token(int(row_id), nonce, "invitation")


def test_it_works_as_long_as_its_maker_could_make_it(invitations: Invitations, clock: ManualClock) -> None:
    """Operators need a second factor; AuthMe holds the op of one of them."""
    columns = {"name": "bot", "public_part": "bot", "hash": "", "permissions": "", "maker": "Rita"}
    bot = Token.create(**columns, created_at=clock())
    made = {
        "by Rita": (invite(invitations), True),
        "by the host": (invite(invitations, made_by=None), True),
        "by a bot": (invite(invitations, token_id=bot.id), True),
        "by Olivia with a second factor": (invite(invitations, made_by="olivia", has_second_factor=True), True),
        "by Olivia without one": (invite(invitations, made_by="olivia"), False),
        "by who is held": (invite(invitations, made_by="held", has_second_factor=True), False),
    }

    def works(token: str) -> bool:
        try:
            return invitations.find(token) is not None
        except InvitationRevoked:
            return False

    assert {how: works(token) for how, (token, _) in made.items()} == {how: is_so for how, (_, is_so) in made.items()}
    ids = {how: int(token.partition(".")[0]) for how, (token, _) in made.items()}
    causes = {it.id: it.cause for it in invitations.list_open()}
    assert causes[ids["by who is held"]] is None, "nothing is ended that works again in a moment"
    assert causes[ids["by Olivia without one"]] == "second_factor"
    Token.update(revoked_at=clock()).execute()
    assert not works(made["by a bot"][0])
    review = {"user_id": 1, "username": "Rita", "username_key": "rita", "transition": "ban", "operator": "Olivia"}
    Review.create(**review, status_before="approved", status_after="banned", reviewed_at=clock())
    assert not works(made["by Rita"][0]), "the ban ended it, also when it is over"
    clock.advance(seconds=1)
    assert works(invite(invitations))
