"""Memberships that last as long as a role on Discord, and a role that lasts as long as the membership."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from regsvc.accounts.chat.guild_roles import LEASE, LEASE_PERIOD
from regsvc.database.lease import TaskLease
from regsvc.database.models import ChatLink, User
from regsvc.sync.report import SyncReport
from regsvc.users.chat_links import ChatAccount
from regsvc.users.membership import OwnMembershipFields
from tests.support.authme.game_server import GameServer
from tests.support.each import assert_each
from tests.support.peers.allowlist_server import allowlist_server
from tests.support.peers.discord import GUILD, PLAYER, ROLE, SUPPORTER, TOKEN, Answer, Discord
from tests.support.services import OLIVIA, MakeServices, ServiceHarness

ALICES, BOBS, CAROLS = "90000000000000001", "90000000000000002", "90000000000000003"
ACCOUNTS = {"Alice": ALICES, "Bob": BOBS, "Carol": CAROLS}
MEMBERS = f"/guilds/{GUILD}/members/"


@pytest.fixture
def guild() -> Iterator[Discord]:
    with Discord() as made:
        made.members = {account: {SUPPORTER} for account in ACCOUNTS.values()}
        yield made


def open_place(make_services: MakeServices, guild: Discord, **changes: Any) -> ServiceHarness:
    """The services beside the guild, where Alice and Bob may play and Carol waits; all have linked their accounts."""
    settings = {
        "chat__platform": "discord",
        "chat__client_id": "1",
        "chat__client_secret": "secret",
        "chat__profile_url": f"{guild.address}/users/@me",
        "chat__guild_id": GUILD,
        "chat__bot_token": TOKEN,
        "membership__role_ids": [SUPPORTER],
    }
    services = make_services(**settings | changes)
    services.approved("Alice")
    services.approved("Bob")
    services.register("Carol")
    for name in ACCOUNTS:
        link(services, name)
    return services


def link(services: ServiceHarness, name: str) -> None:
    account = ChatAccount("discord", ACCOUNTS[name], name.lower())
    services.app.chat_links.link(account, f"token of {name}", services.user(name), OLIVIA.actor)


def look(services: ServiceHarness, **later: float) -> SyncReport:
    """Let the job look, after a while and whatever pause it makes; then the sync."""
    services.clock.advance(**later)
    roles = services.app.guild_roles
    roles.pause.reset()
    roles.giving_pause.reset()
    asyncio.run(roles.look())
    return services.sync()


def ended(services: ServiceHarness) -> set[str]:
    return {user.username for user in User.select() if user.ended_because == "role"}


def look_at_own(services: ServiceHarness, name: str) -> OwnMembershipFields | None:
    return asyncio.run(services.app.guild_roles.look_at_own(services.user(name).id))


@pytest.mark.every_database
def test_two_looks_without_the_role_end_a_membership_and_the_role_brings_it_back(
    make_services: MakeServices, guild: Discord
) -> None:
    services = open_place(make_services, guild)
    look(services)
    assert ended(services) == set()
    guild.members[ALICES] = set()
    del guild.members[BOBS]
    look(services, hours=1)
    look(services, minutes=9)
    assert ended(services) == set()
    look(services, minutes=1)
    assert ended(services) == {"Alice", "Bob"}
    assert services.is_locked("alice")
    assert services.details("membership.ended", "Alice") == [{"because": "role"}]
    assert services.mails("Alice")[-1] == "membership_ended"

    guild.members[ALICES] = {SUPPORTER}
    look(services, minutes=59)
    assert ended(services) == {"Alice", "Bob"}
    look(services, minutes=1)
    assert ended(services) == {"Bob"}
    assert not services.is_locked("alice")
    assert services.mails("Alice")[-1] == "membership_renewed"
    guild.members[BOBS] = {SUPPORTER}
    own = look_at_own(services, "Bob")
    assert own is not None
    assert (own.state, own.because) == ("current", None)
    assert not services.is_locked("bob")


def test_the_allowlist_follows_without_authme(
    make_services: MakeServices, guild: Discord, game_server: GameServer
) -> None:
    with allowlist_server(game_server.directory) as server:
        game_server.write_properties(online_mode="false", white_list="true", **server.properties)
        services = open_place(make_services, guild, authme__enabled=False)
        services.sync()
        assert server.may_join("Alice")
        del guild.members[ALICES]
        look(services)
        look(services, minutes=10)
        services.sync()
        assert not server.may_join("Alice")
        assert server.may_join("Bob")
        guild.members[ALICES] = {SUPPORTER}
        look(services, hours=1)
        assert server.may_join("Alice")


def test_a_role_that_is_back_at_the_second_look_changes_nothing(make_services: MakeServices, guild: Discord) -> None:
    services = open_place(make_services, guild)
    guild.members[ALICES] = set()
    look(services)
    guild.members[ALICES] = {SUPPORTER}
    look(services, minutes=10)
    guild.members[ALICES] = set()
    look(services, hours=1)
    assert ended(services) == set()
    look(services, minutes=10)
    assert ended(services) == {"Alice"}


ANSWERS: dict[str, tuple[str, Answer]] = {
    "refused token": ("/guilds/", (401, {}, {"message": "401: Unauthorized", "code": 0})),
    "no access": (MEMBERS, (403, {}, {"message": "Missing Access", "code": 50001})),
    "unknown guild": (MEMBERS, (404, {}, {"message": "Unknown Guild", "code": 10004})),
    "unknown user": (MEMBERS, (404, {}, {"message": "Unknown User", "code": 10013})),
    "another server": (MEMBERS, (404, {}, b"<html>Not Found</html>")),
    "limited": (MEMBERS, (429, {"Retry-After": "0.2"}, {"message": "You are being rate limited.", "code": 0})),
    "broken": (MEMBERS, (500, {}, {"message": "500", "code": 0})),
    "away": ("/guilds/", (503, {}, b"upstream connect error")),
    "no JSON": (MEMBERS, (200, {}, b"<html>maintenance</html>")),
    "a list": (MEMBERS, (200, {}, [])),
    "nothing": (MEMBERS, (200, {}, b"")),
    "no roles": (MEMBERS, (200, {}, {"user": {"id": ALICES}})),
    "roles that are none": (MEMBERS, (200, {}, {"user": {"id": ALICES}, "roles": [1]})),
    "another member": (MEMBERS, (200, {}, {"user": {"id": "1"}, "roles": []})),
    "redirect": (MEMBERS, (302, {"Location": "/elsewhere"}, b"")),
    "guild without roles": (f"/guilds/{GUILD}?", (200, {}, {"id": GUILD, "approximate_member_count": 9})),
    "roles of another guild": (f"/guilds/{GUILD}?", (200, {}, {"roles": [{"id": "1"}], "approximate_member_count": 9})),
    "empty guild": (
        f"/guilds/{GUILD}?",
        (200, {}, {"roles": [{"id": SUPPORTER}], "approximate_member_count": 1}),
    ),
    "no count": (f"/guilds/{GUILD}?", (200, {}, {"roles": [{"id": SUPPORTER}]})),
}


def test_an_answer_that_is_not_about_a_member_ends_nobody(make_services: MakeServices, guild: Discord) -> None:
    services = open_place(make_services, guild)

    def check(case: str) -> None:
        guild.members = {account: set() for account in ACCOUNTS.values()}
        path, answer = ANSWERS[case]
        guild.faults[path] = answer
        for _look in range(2):
            look(services, hours=2)
            assert services.app.guild_roles.problem
        assert ended(services) == set()
        assert ChatLink.select().where(ChatLink.roles_missed_at.is_null(False)).count() == 0
        guild.faults.clear()
        guild.members = {account: {SUPPORTER} for account in ACCOUNTS.values()}
        look(services, hours=2)
        assert services.app.guild_roles.problem == ""

    assert_each(ANSWERS, check)
    guild.members = {account: set() for account in ACCOUNTS.values()}
    look(services, hours=1)
    look(services, minutes=10)
    assert ended(services) == {"Alice", "Bob"}


def test_a_guild_that_is_away_for_a_week_ends_nobody_and_is_told_once(
    make_services: MakeServices, guild: Discord, caplog: pytest.LogCaptureFixture
) -> None:
    services = open_place(make_services, guild)
    look(services)
    guild.stop()
    for _day in range(7):
        look(services, days=1)
    guild.start()
    look(services)
    look(services, minutes=10)
    assert ended(services) == set()
    told = [record.getMessage() for record in caplog.records if "roles of the guild" in record.getMessage()]
    assert len(told) == 1, told
    assert TOKEN not in caplog.text


def test_one_account_that_cannot_be_looked_at_holds_up_no_other(make_services: MakeServices, guild: Discord) -> None:
    services = open_place(make_services, guild)
    guild.faults[f"{MEMBERS}{ALICES}"] = (500, {}, {"message": "500", "code": 0})
    guild.members[BOBS] = set()
    look(services)
    look(services)
    look(services, minutes=10)
    look(services, minutes=1)
    assert ended(services) == {"Bob"}


def test_while_discord_limits_requests_none_is_made(make_services: MakeServices, guild: Discord) -> None:
    services = open_place(make_services, guild)
    guild.faults[f"{MEMBERS}{ALICES}"] = (429, {"Retry-After": "120"}, {"message": "limited", "code": 0})
    look(services)
    made = len(guild.looks)
    asyncio.run(services.app.guild_roles.look())
    look_at_own(services, "Bob")
    assert len(guild.looks) == made
    assert 110 < services.app.guild_roles.pause.remaining() <= 120


def test_an_emptied_guild_waits_for_a_person(make_services: MakeServices, guild: Discord) -> None:
    services = open_place(make_services, guild, sync__max_changes="1 and 1%")
    for member in guild.members.values():
        member.clear()
    look(services)
    report = look(services, minutes=10)
    assert report.held_back is not None
    assert report.held_back.locked == 2
    assert ended(services) == set()
    for member in guild.members.values():
        member.add(SUPPORTER)
    assert look(services, hours=1).held_back is None
    assert User.select().where(User.lapse.is_null(False)).count() == 0


@pytest.mark.every_database
def test_an_emptied_guild_that_is_seen_member_by_member_waits_for_a_person(
    make_services: MakeServices, guild: Discord
) -> None:
    services = open_place(make_services, guild, sync__max_changes="1 and 1%")
    look(services)
    guild.members[ALICES].clear()
    look(services, hours=1)
    assert look(services, minutes=10).memberships_ended == {"role": 1}
    guild.members[BOBS].clear()
    ChatLink.update(roles_seen_at=None).where(ChatLink.account_id == BOBS).execute()  # his turn is another one
    look(services, minutes=5)
    report = look(services, minutes=10)
    assert (report.held_back is not None, ended(services)) == (True, {"Alice"})
    assert look(services, hours=2).memberships_ended == {"role": 1}, "who is one of few"


def test_the_team_is_kept_and_a_host_that_looks_no_more_ends_nobody(
    make_services: MakeServices, guild: Discord
) -> None:
    services = open_place(make_services, guild)
    User.update(role="reviewer", applied_role="reviewer").where(User.username == "Alice").execute()
    guild.members = {"1": set()}
    look(services)
    services.clock.advance(minutes=10)
    asyncio.run(services.app.guild_roles.look())
    assert [user.username for user in User.select().where(User.lapse == "role")] == ["Bob"]
    services.restart(membership__role_ids=[])
    services.sync()
    assert ended(services) == set()
    assert User.select().where(User.lapse.is_null(False)).count() == 0
    assert not services.app.guild_roles.guild.is_used


def test_a_renewal_gives_time_for_two_more_looks(make_services: MakeServices, guild: Discord) -> None:
    services = open_place(make_services, guild)
    guild.members[ALICES] = set()
    look(services)
    look(services, minutes=10)
    assert ended(services) == {"Alice"}
    services.clock.advance(days=3)
    services.app.worker.run_here(services.app.membership_changes.let_return, "Alice", "role", OLIVIA.actor)
    look(services)
    assert ended(services) == set()
    look(services, minutes=10)
    assert ended(services) == {"Alice"}


@pytest.mark.every_database
def test_a_member_who_unlinks_has_a_day_to_link_an_account_with_the_role(
    make_services: MakeServices, guild: Discord
) -> None:
    services = open_place(make_services, guild)
    look(services)

    def unlink(name: str) -> None:
        services.app.worker.run_here(services.app.chat_links.unlink, services.user(name), OLIVIA.actor)

    unlink("Alice")
    look(services, hours=23)
    assert services.mails("Alice")[-1] == "membership_ending"
    link(services, "Alice")
    look(services)
    assert services.user("Alice").lapse is None

    unlink("Alice")
    guild.members[ALICES] = set()
    look(services, hours=12)
    link(services, "Alice")
    look(services)
    unlink("Alice")
    look(services, hours=11)
    assert ended(services) == set()
    look(services, hours=1)
    assert ended(services) == {"Alice"}

    guild.members[ALICES] = {SUPPORTER}
    link(services, "Alice")
    look(services)
    assert ended(services) == set()
    services.approved("Dora")
    look(services, days=3)
    assert ended(services) == set()


@pytest.mark.every_database
def test_the_role_of_players_is_given_and_taken(make_services: MakeServices, guild: Discord) -> None:
    services = open_place(make_services, guild, chat__give_role_id=PLAYER)
    guild.members[CAROLS].add(PLAYER)

    def players() -> set[str]:
        return {name for name, account in ACCOUNTS.items() if PLAYER in guild.members.get(account, set())}

    look(services)
    assert players() == {"Alice", "Bob"}
    changes: list[tuple[str, str, set[str]]] = [
        ("approve", "Carol", {"Alice", "Bob", "Carol"}),
        ("ban", "Bob", {"Alice", "Carol"}),
        ("unban", "Bob", {"Alice", "Bob", "Carol"}),
        ("reopen", "Alice", {"Bob", "Carol"}),
        ("reject", "Alice", {"Bob", "Carol"}),
        ("approve", "Alice", {"Alice", "Bob", "Carol"}),
    ]
    for transition, name, expected in changes:
        services.decide(transition, name)
        look(services)
        assert players() == expected, (transition, name)
    guild.members[ALICES].discard(SUPPORTER)
    look(services, hours=1)
    look(services, minutes=10)
    look(services)
    assert players() == {"Bob", "Carol"}


@pytest.mark.every_database
def test_the_role_is_taken_with_the_link_and_with_the_user(make_services: MakeServices, guild: Discord) -> None:
    services = open_place(make_services, guild, chat__give_role_id=PLAYER)
    look(services)
    services.app.worker.run_here(services.app.chat_links.unlink, services.user("Alice"), OLIVIA.actor)
    services.decide("delete", "Bob")
    guild.faults[MEMBERS] = (500, {}, {"message": "500", "code": 0})
    look(services)
    assert PLAYER in guild.members[ALICES] & guild.members[BOBS]
    guild.faults.clear()
    services.app.purge_expired()
    look(services, minutes=11)
    assert PLAYER not in guild.members[ALICES] | guild.members[BOBS]
    assert [it.account_id for it in ChatLink.select()] == [CAROLS]


def test_an_account_that_is_linked_again_keeps_the_role(make_services: MakeServices, guild: Discord) -> None:
    services = open_place(make_services, guild, chat__give_role_id=PLAYER)
    look(services)
    services.app.worker.run_here(services.app.chat_links.unlink, services.user("Alice"), OLIVIA.actor)
    assert services.app.chat_links.find_unclaimed(["token of Alice"]) is None
    link(services, "Alice")
    look(services)
    assert PLAYER in guild.members[ALICES]
    assert not any(it.startswith("DELETE") for it in guild.looks)
    services.app.worker.run_here(services.app.chat_links.unlink, services.user("Alice"), OLIVIA.actor)
    services.restart(chat__give_role_id="")
    services.clock.advance(days=8)
    services.app.purge_expired()
    assert {it.account_id for it in ChatLink.select()} == {BOBS, CAROLS}


def test_a_bot_that_may_not_give_the_role_is_told_and_does_not_go_on(
    make_services: MakeServices, guild: Discord
) -> None:
    guild.bots_position = 1
    services = open_place(make_services, guild, chat__give_role_id=PLAYER)
    look(services)
    tried = [it for it in guild.looks if it.startswith("PUT")]
    assert len(tried) == 1
    problem = services.app.guild_roles.problem
    assert "HTTP 403 Forbidden, code 50013" in problem
    assert ROLE not in guild.members[ALICES]
    guild.bots_position = 9
    look(services, hours=1)
    assert PLAYER in guild.members[ALICES]
    assert services.app.guild_roles.problem == ""


@pytest.mark.every_database
def test_one_of_several_daemons_looks(make_services: MakeServices, guild: Discord) -> None:
    services = open_place(make_services, guild)
    database = services.app.context.location.database
    other = TaskLease(database, LEASE, LEASE_PERIOD, "another", process_id=1)
    assert services.app.worker.run_here(other.acquire)
    look(services)
    assert guild.looks == []
    services.app.worker.run_here(other.remove)
    look(services)
    assert guild.looks.count(f"GET {MEMBERS}{ALICES}") == 1


def test_a_decision_during_a_look_is_followed_by_another(make_services: MakeServices, guild: Discord) -> None:
    services = open_place(make_services, guild, chat__give_role_id=PLAYER)
    roles = services.app.guild_roles
    [alice] = [it for it in services.app.worker.run_here(roles._find_due) if it.account_id == ALICES]
    services.decide("ban", "Alice")
    asyncio.run(roles._look_at([alice]))
    assert PLAYER in guild.members[ALICES]  # by what was known when the look began
    look(services)
    assert PLAYER not in guild.members[ALICES]
