"""R90: what a member of the team made works as long as all that was required to make it still holds."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from peewee import Database

from regsvc.auth.entitlement import (
    Entitlements,
    MakerState,
    Origin,
    Principal,
    find_active_token,
    find_cause,
    find_rights,
    require_active_token,
)
from regsvc.core.errors import ProtectedOperator, Refusal, Unauthorized
from regsvc.core.rights import EVERYTHING, NO_RIGHTS, Permission, Rights
from regsvc.core.rights import Team as Rule
from regsvc.database.audit import Actor
from regsvc.database.models import Invitation, Link, Review, Token, User
from regsvc.users.transitions import DecisionDetails
from tests.support.authme.authme_database import MariaDBSchema
from tests.support.database_fixtures import MakeUser
from tests.support.manual_clock import ManualClock
from tests.support.meanwhile import assert_locked
from tests.support.peers.mariadb import Database as MariaDBDatabase
from tests.support.services import CALLER, OLIVIA, PASSWORD, MakeServices, ServiceHarness

pytestmark = pytest.mark.every_database

MONA = "Mona"
DAY = timedelta(days=1)


MADE_AT = datetime(2031, 5, 4, tzinfo=UTC)
NOW = MADE_AT + DAY
TICK = timedelta(milliseconds=1)
BAN = Permission.USERS_BAN
MODERATOR = Rights(frozenset({BAN}), 2)


@pytest.mark.parametrize(
    ("origin", "state", "asked", "cause"),
    [
        ({}, {}, {}, None),
        ({}, {}, {"permission": None}, None),
        # its time is over: from that moment on
        ({}, {}, {"ends_at": NOW + TICK}, None),
        ({}, {}, {"ends_at": NOW}, "expired"),
        # its maker may not do it any more
        ({}, {"rights": NO_RIGHTS}, {}, "not_in_team"),
        ({}, {"rights": NO_RIGHTS}, {"permission": None}, "not_in_team"),
        ({}, {}, {"permission": Permission.TEAM_MANAGE}, "not_in_team"),
        # a decision ended it, and a later approval does not revive it; what was made after that works
        ({}, {"lost_at": MADE_AT - TICK}, {}, None),
        ({}, {"lost_at": MADE_AT}, {}, "not_in_team"),
        ({}, {"lost_at": NOW}, {}, "not_in_team"),
        # a second factor is required today
        ({}, {"needs_second_factor": True}, {}, "second_factor"),
        ({"has_second_factor": True}, {"needs_second_factor": True}, {}, None),
        ({"has_second_factor": True}, {}, {}, None),
        # the token that made it has ended
        ({"token_id": 7}, {"is_token_active": False}, {}, "token_ended"),
        ({"token_id": 7}, {}, {}, None),
        # the user for whom it is has a rank: below its maker's, and not for a bot at all
        ({}, {}, {"target_rank": 1}, None),
        ({}, {}, {"target_rank": 2}, "target_has_rank"),
        ({}, {}, {"target_rank": 3}, "target_has_rank"),
        ({"token_id": 7}, {}, {"target_rank": 1}, "target_has_rank"),
        # a player's rank is 0, and nobody's target is below that: also a maker without one may act on them
        ({"token_id": 7}, {"rights": Rights(frozenset({BAN}), 0)}, {"target_rank": 0}, None),
    ],
)
def test_each_condition_alone_ends_what_was_made(
    origin: dict[str, Any], state: dict[str, Any], asked: dict[str, Any], cause: str | None
) -> None:
    made = Origin("mona", MADE_AT, **origin)
    permission = asked.pop("permission", BAN)
    found = find_cause(made, permission, MakerState(**{"rights": MODERATOR} | state), NOW, **asked)
    assert found == cause


# --- what the rule needs of the database ---

LEVELS = {"Otto": (3, 3), "Held": (0, 3)}
"""Levels of operators, and those that AuthMe may hold at its login prompt."""


@pytest.fixture
def entitlements(our_database: Database, clock: ManualClock) -> Entitlements:
    team = Rule(
        lambda name: LEVELS.get(name, (0, 0))[0],
        lambda name: LEVELS.get(name, (0, 0))[1],
        lambda rights: rights.is_operator,
    )
    return Entitlements(team, clock)


def make_token(clock: ManualClock, name: str, **columns: Any) -> int:
    made = Token.create(
        name=name, public_part=name, hash="", permissions="", maker="Mona", created_at=clock(), **columns
    )
    return int(made.id)


def make_review(clock: ManualClock, after: str | None, name: str = "mona", **passed: float) -> None:
    Review.create(
        user_id=1,
        username=name,
        username_key=name,
        transition="ban",
        status_before="approved",
        status_after=after,
        operator="Olivia",
        reviewed_at=clock() - timedelta(**passed),
    )


def test_the_state_of_a_maker(entitlements: Entitlements, clock: ManualClock, make_user: MakeUser) -> None:
    make_user("Mona", status="approved", role="moderator")
    make_user("Otto", status="approved")
    make_user("Held", status="approved")
    make_user("Bert", status="banned", role="moderator")

    def state(maker: str | None, *, is_kept: bool = False) -> tuple[int, bool]:
        found = entitlements.state_of(Origin(maker, clock()), is_kept=is_kept)
        assert (found.lost_at, found.is_token_active) == (None, True)
        return found.rights.rank, found.needs_second_factor

    assert entitlements.state_of(Origin("held", clock())).rights == NO_RIGHTS
    assert state(None) == (EVERYTHING.rank, False)
    assert state("mona") == (2, False)
    assert state("otto") == (5, True)
    assert state("held") == (0, False)
    assert state("held", is_kept=True) == (5, True)
    assert state("bert") == state("bert", is_kept=True) == state("nobody") == (0, False)


def test_a_decision_since_then_ends_what_was_made(
    entitlements: Entitlements, clock: ManualClock, make_user: MakeUser
) -> None:
    make_user("Mona", status="approved", role="moderator")
    origin = Origin("mona", clock())
    make_review(clock, "banned", seconds=1)
    make_review(clock, "approved", seconds=-9)
    make_review(clock, None, "alice")
    assert entitlements.state_of(origin).lost_at is None
    make_review(clock, None)
    assert entitlements.state_of(origin).lost_at == clock()
    make_review(clock, "pending", seconds=-5)
    make_review(clock, "rejected", seconds=-2)
    assert entitlements.state_of(origin).lost_at == clock() + timedelta(seconds=5)


def test_a_token_works_until_it_is_revoked_or_expires(
    entitlements: Entitlements, clock: ManualClock, make_user: MakeUser
) -> None:
    make_user("Mona", status="approved", role="moderator")
    works = [make_token(clock, "lasting"), make_token(clock, "living", expires_at=clock() + timedelta(seconds=1))]
    ended = [
        make_token(clock, "revoked", revoked_at=clock()),
        make_token(clock, "expired", expires_at=clock()),
        works[1] + 99,
    ]
    for token in works:
        found = find_active_token(token, clock())
        assert found is not None
        assert found.id == token
        require_active_token(token, clock())
    for token in ended:
        assert find_active_token(token, clock()) is None
        with pytest.raises(Unauthorized):
            require_active_token(token, clock())
    require_active_token(None, clock())
    for maker in ("mona", None):
        for token in works:
            assert entitlements.state_of(Origin(maker, clock(), token_id=token)).is_token_active
        assert not entitlements.state_of(Origin(maker, clock(), token_id=ended[0])).is_token_active


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_nobody_ends_a_token_while_something_is_made_with_it(
    our_database: Database, database: MariaDBDatabase, clock: ManualClock
) -> None:
    """Else what is made would be committed after all that the token has made was ended."""
    token = make_token(clock, "bot")
    with our_database.atomic():
        require_active_token(token, clock())
        assert_locked(MariaDBSchema(database), "regsvc_token", f"id = {token}")


def test_the_rule_is_asked_with_the_rank_of_the_user_for_whom_a_link_is(
    entitlements: Entitlements, clock: ManualClock, make_user: MakeUser
) -> None:
    make_user("Mona", status="approved", role="moderator")
    alice = make_user("Alice")
    rita, mia = make_user("Rita", role="reviewer"), make_user("Mia", role="moderator")
    origin = Origin("mona", clock())
    find = entitlements.find_cause
    assert find(origin, BAN) is None
    assert find(Origin("mona", clock(), token_id=make_token(clock, "bot")), BAN) is None
    assert find(origin, BAN, target=alice) is find(origin, BAN, target=rita) is None
    assert find(origin, BAN, target=mia) == "target_has_rank"
    assert find(origin, BAN, ends_at=clock()) == "expired"
    assert find(origin, Permission.TEAM_MANAGE) == "not_in_team"
    make_user("Held", status="approved")
    assert find(Origin("held", clock(), has_second_factor=True), BAN) == "not_in_team"
    assert find(Origin("held", clock(), has_second_factor=True), BAN, is_kept=True) is None
    assert find(Origin("held", clock()), BAN, is_kept=True) == "second_factor"


def test_the_rights_of_a_name(entitlements: Entitlements, make_user: MakeUser) -> None:
    make_user("Mona", status="approved", role="moderator")
    assert find_rights(entitlements.team, "MONA").rank == 2
    assert find_rights(entitlements.team, "nobody") == NO_RIGHTS


def test_the_origin_of_what_a_principal_makes() -> None:
    person = Principal(Actor("Mona"), MODERATOR, "Mona", has_second_factor=True)
    bot = Principal(Actor("bot (Mona)"), MODERATOR, "Mona", NOW, 7)
    assert person.origin(NOW) == Origin("mona", NOW, has_second_factor=True)
    assert bot.origin(NOW) == Origin("mona", NOW, has_second_factor=False, token_id=7)
    assert Principal(Actor("companion"), EVERYTHING).origin(NOW) == Origin(None, NOW)
    assert (bot.is_token, person.is_token) == (True, False)
    person.require_current()
    limited = replace(person, require_current=lambda: None)
    assert (limited, repr(limited)) == (person, repr(person)), "who they are does not depend on what they act with"


@dataclass
class Team:
    """Mona, a moderator or an operator, and one of each kind that she made. Alice is a player."""

    services: ServiceHarness
    has_factor: bool = False
    accounts: int = 0

    def __post_init__(self) -> None:
        self.services.approved(MONA)
        self.services.approved("Alice")

    def run(self, function: Callable[..., object], *args: object, **kwargs: object) -> Any:
        return self.services.app.worker.run_here(partial(function, *args, **kwargs))

    def give_role(self, name: str, role: str | None) -> None:
        self.run(self.services.app.team_roles.give, name, role, OLIVIA)

    def appoint(self, *names: str) -> None:
        self.services.game.write_operators("Olivia", *names, levels=dict.fromkeys(names, 3))

    def make_all(self) -> "dict[str, Callable[[], object]]":
        """Let Mona make one of each kind; return what uses them."""
        app, by, has_factor = self.services.app, Actor(MONA), self.has_factor
        origin = Origin("mona", self.services.clock(), has_factor)
        issued = self.run(app.sessions.issue, self.services.user(MONA), "admin", CALLER, has_second_factor=has_factor)
        permissions = {Permission.USERS_READ}
        bearer, _record = self.run(
            app.api_tokens.create, "bot", permissions, by, MONA, 90 * DAY, has_second_factor=has_factor
        )
        invited, _record = self.run(app.invitations.create, 2, DAY, (), by, MONA, has_second_factor=has_factor)
        handed = self.run(app.links.issue_for_handover, self.services.user("Alice").id, MONA, origin, None)
        code = self.run(app.team_accounts.issue_code, self.services.user(MONA).id, has_second_factor=has_factor)
        self.accounts += 1
        account = str(self.accounts)
        self.run(app.team_accounts.redeem, code, "discord", account, "mona")
        link_token = app.links.token_of(handed)
        return {
            "session": lambda: app.sessions.authenticate_admin(issued.token, CALLER),
            "token": lambda: app.api_tokens.authenticate(bearer, CALLER, Permission.USERS_READ),
            "invitation": lambda: app.invitations.find(invited.partition("#invite=")[2]),
            "link": lambda: app.links.find(link_token),
            "chat account": lambda: app.team_accounts.find_member("discord", account),
        }

    def list_working(self, uses: "dict[str, Callable[[], object]]") -> set[str]:
        working = set()
        for kind, use in uses.items():
            try:
                if self.run(use) is not None:
                    working.add(kind)
            except Refusal:
                continue
        return working

    def end_lost(self) -> None:
        self.run(self.services.app.lost_rights.end)


ALL = {"session", "token", "invitation", "link", "chat account"}


@pytest.fixture
def team(make_services: MakeServices) -> Team:
    team = Team(make_services())
    team.appoint(MONA)
    return team


def lose_op(team: Team) -> None:
    team.appoint()


def get_op_back(team: Team) -> None:
    team.end_lost()
    team.appoint(MONA)


def be_banned(team: Team) -> None:
    team.services.decide("ban", MONA)


def be_unbanned(team: Team) -> None:
    team.services.decide("unban", MONA)


def be_deleted(team: Team) -> None:
    team.services.decide("delete", MONA)


def register_anew(team: Team) -> None:
    team.appoint()
    team.services.approved(MONA)
    team.appoint(MONA)


def reset_password(team: Team) -> None:
    app, mona = team.services.app, team.services.user(MONA)
    link = team.run(app.links.issue, mona.id, "reset", str(mona.email_key))
    asyncio.run(app.password_changes.reset(app.links.token_of(link), "a-new-one-2", CALLER))


def nothing(team: Team) -> None:
    """Nothing comes back."""


@pytest.mark.parametrize(
    ("stop", "comes_back"),
    [
        (lose_op, get_op_back),
        (be_banned, be_unbanned),
        (be_deleted, register_anew),
        (reset_password, nothing),
    ],
)
def test_all_of_it_ends_with_its_maker_and_does_not_revive(
    team: Team, stop: Callable[[Team], None], comes_back: Callable[[Team], None]
) -> None:
    uses = team.make_all()
    assert team.list_working(uses) == ALL
    team.services.clock.advance(seconds=1)
    stop(team)
    assert team.list_working(uses) == set()
    team.services.clock.advance(seconds=1)
    comes_back(team)
    assert team.list_working(uses) == set()
    team.end_lost()
    again = team.make_all() if team.services.find_user(MONA) else {}
    assert team.list_working({**uses, **{f"new {kind}": use for kind, use in again.items()}}) == {
        f"new {kind}" for kind in again
    }


@pytest.mark.parametrize("stop", ["ban", "role"])
def test_all_of_it_ends_while_it_is_used(team: Team, stop: str) -> None:
    """Eight times, requests with each kind race with what ends them: afterwards none works."""
    app = team.services.app
    team.appoint()
    decide = app.decisions.decide
    for number in range(8):
        team.give_role(MONA, "moderator" if number % 2 else "reviewer")
        uses = team.make_all()
        team.services.clock.advance(seconds=1)

        def end() -> object:
            if stop == "ban":
                return decide(MONA, "ban", OLIVIA, DecisionDetails())
            return app.team_roles.give(MONA, None, OLIVIA)

        async def race(uses: Mapping[str, Callable[[], object]], end: Callable[[], object]) -> list[object]:
            works = [*uses.values(), end, *uses.values()]
            return await asyncio.gather(*(app.worker.run(work) for work in works), return_exceptions=True)

        done = asyncio.run(race(uses, end))
        assert not isinstance(done[len(uses)], BaseException), done[len(uses)]
        assert [it for it in done if isinstance(it, Exception) and not isinstance(it, Refusal)] == []
        assert team.list_working(uses) == set()
        if stop == "ban":
            team.services.decide("unban", MONA)
        assert team.list_working(uses) == set()
        team.run(app.made_by_right.end_unentitled, {"mona"}, Actor("game"))  # as the daemon's job, for the next round
        team.services.clock.advance(hours=25)  # past the limits of what one member does in a day


@pytest.mark.parametrize(
    ("before", "after", "left"),
    [("moderator", "reviewer", set[str]()), ("moderator", None, set[str]()), ("reviewer", "moderator", set[str]())],
)
def test_another_role_ends_what_was_made_by_the_earlier_one(
    team: Team, before: str, after: str | None, left: set[str]
) -> None:
    team.appoint()
    team.give_role(MONA, before)
    uses = team.make_all()
    assert team.list_working(uses) == ALL - {"link"}  # which needs `users.manage`
    team.services.clock.advance(seconds=1)
    team.give_role(MONA, after)
    assert team.list_working(uses) == left
    team.give_role(MONA, before)
    assert team.list_working(uses) == left
    [detail] = [it for it in team.services.details("user.rights_ended", MONA) if it["cause"] == "role_changed"]
    assert detail["sessions"].startswith("20")  # when it began; addresses are not kept as long as the log
    assert (detail["tokens"], detail["chatAccounts"]) == ("bot", "discord")


def test_a_changed_password_ends_the_sessions_and_offers_to_end_the_rest(team: Team) -> None:
    uses, app = team.make_all(), team.services.app
    session = team.run(uses["session"])
    asyncio.run(app.password_changes.change_own(session, PASSWORD, "a-new-one-1", CALLER))
    assert team.list_working(uses) == ALL - {"session"}
    own = replace(session, token_generation=1)
    assert app.worker.run_here(app.team_credentials.list_own, own) == {
        "links": ["Alice"],
        "tokens": ["bot"],
        "invitations": ["1"],
        "chatAccounts": ["discord"],
    }
    app.worker.run_here(app.made_by_right.end_of, MONA, "by_its_maker", Actor(MONA))
    assert team.list_working(uses) == set()


@pytest.mark.parametrize("has_factor", [False, True])
def test_a_second_factor_that_becomes_required_ends_what_was_made_without_one(
    make_services: MakeServices, has_factor: bool
) -> None:
    team = Team(make_services(), has_factor)
    team.appoint(MONA)
    uses = team.make_all()
    live = team.services.app.live
    live.apply(replace(live.current, auth=replace(live.current.auth, team_needs_totp="all")))
    left = ALL if has_factor else set()
    assert team.list_working(uses) == left
    team.end_lost()
    live.apply(replace(live.current, auth=replace(live.current.auth, team_needs_totp="none")))
    assert team.list_working(uses) == left
    causes = {detail["cause"] for detail in team.services.details("user.rights_ended", MONA)}
    assert causes == (set() if has_factor else {"second_factor"})


def make_by_token(team: Team, lifetime: timedelta | None = DAY) -> "dict[str, Callable[[], object]]":
    """Let a bot of Mona's make an invitation and a link for Alice."""
    app, by = team.services.app, Actor("bot (Mona)")
    made = team.run(
        app.api_tokens.create, "bot", {Permission.USERS_REVIEW, Permission.USERS_MANAGE}, Actor(MONA), MONA, lifetime
    )
    token_id = int(made[1].id)
    invited, _record = team.run(app.invitations.create, 2, 9 * DAY, (), by, MONA, token_id=token_id)
    origin = Origin("mona", team.services.clock(), token_id=token_id)
    handed = team.run(app.links.issue_for_handover, team.services.user("Alice").id, "bot (Mona)", origin, None)
    link_token = app.links.token_of(handed)
    return {
        "invitation": lambda: app.invitations.find(invited.partition("#invite=")[2]),
        "link": lambda: app.links.find(link_token),
    }


def test_what_a_bot_made_ends_with_its_token(team: Team) -> None:
    uses = make_by_token(team)
    assert team.list_working(uses) == {"invitation", "link"}
    team.run(team.services.app.api_tokens.revoke, "bot", Actor("Olivia"))
    assert team.list_working(uses) == set()
    uses = make_by_token(team, timedelta(minutes=5))
    team.services.clock.advance(minutes=6)
    assert team.list_working(uses) == set()


def promote(team: Team) -> None:
    team.give_role("Alice", "reviewer")


def appoint_alice(team: Team) -> None:
    team.appoint(MONA, "Alice")


@pytest.mark.parametrize(
    ("rise", "by_token", "is_left"),
    [(promote, True, False), (promote, False, True), (appoint_alice, True, False), (appoint_alice, False, False)],
)
def test_a_link_ends_when_its_user_gets_a_rank_on_which_its_maker_may_not_act(
    team: Team, rise: Callable[[Team], None], by_token: bool, is_left: bool
) -> None:
    uses = make_by_token(team) if by_token else team.make_all()
    rise(team)
    assert ("link" in team.list_working(uses)) is is_left


@pytest.mark.parametrize("transition", ["approve", "unban", "reopen"])
def test_a_bot_lets_nobody_in_who_has_a_rank(team: Team, transition: str) -> None:
    services = team.services
    services.register("Otto")
    if transition == "unban":
        services.decide("ban", "Otto")
    if transition == "reopen":
        services.decide("approve", "Otto")
    team.appoint(MONA, "Otto")
    bot = Principal(Actor("bot (Mona)"), OLIVIA.rights, MONA, services.clock() + DAY, token_id=7)
    with pytest.raises(ProtectedOperator):
        services.app.worker.run_here(services.app.decisions.decide, "Otto", transition, bot, DecisionDetails())


def test_a_revoked_token_leaves_nothing_that_was_made_meanwhile(team: Team) -> None:
    """Nine requests of a bot race with its end, 24 times."""
    app = team.services.app
    for number in range(24):
        name = f"bot-{number}"
        may = {Permission.USERS_REVIEW, Permission.USERS_MANAGE}
        made = team.run(app.api_tokens.create, name, may, Actor(MONA), MONA, DAY)
        token_id = int(made[1].id)

        def invite(token_id: int = token_id) -> None:
            app.invitations.create(1000, 365 * DAY, (), Actor("bot"), None, token_id=token_id)

        def make_link(token_id: int = token_id) -> None:
            with app.context.location.database.atomic():
                origin = Origin("mona", team.services.clock(), token_id=token_id)
                app.links.issue_for_handover(User.get(User.username == "Alice").id, "bot", origin, None)

        async def race(name: str, invite: Callable[[], None], link: Callable[[], None]) -> None:
            revoke = partial(app.api_tokens.revoke, name, Actor("Olivia"))
            works: list[Callable[[], object]] = [invite, invite, link, invite, revoke, invite, link, invite, invite]
            await asyncio.gather(*(app.worker.run(work) for work in works), return_exceptions=True)

        asyncio.run(race(name, invite, make_link))
        assert Token.get_by_id(token_id).revoked_at is not None
        open_links = Link.select().where(Link.token_id == token_id, Link.redeemed_at.is_null())
        open_ones = Invitation.select().where(Invitation.token_id == token_id, Invitation.revoked_at.is_null())
        assert (open_links.count(), open_ones.count()) == (0, 0)
