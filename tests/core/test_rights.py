"""What each role permits, and who stands above whom, without a database."""

from dataclasses import dataclass

import pytest

from regsvc.core.rights import (
    EVERYTHING,
    NO_RIGHTS,
    NOT_FOR_TOKENS,
    PERMISSIONS_OF,
    Permission,
    Rights,
    Team,
    parse_permissions,
)

READS = frozenset({Permission.USERS_READ, Permission.USERS_REVIEW})
MODERATES = READS | {Permission.USERS_BAN, Permission.AUDIT_READ}
ALL = frozenset(Permission)


@dataclass(frozen=True)
class Member:
    username: str
    role: str | None = None
    status: str = "approved"


def team(level: int = 0, kept: int | None = None) -> Team:
    """A team of which only Olivia is in ops.json, with this level; `kept`: the level that AuthMe may hold for her."""
    levels = {"Olivia": level}
    if kept is None:
        return Team(lambda name: levels.get(name, 0))
    return Team(lambda name: levels.get(name, 0), lambda name: kept if name == "Olivia" else 0)


@pytest.mark.parametrize(
    ("member", "permissions", "rank"),
    [
        (Member("Alice"), frozenset[Permission](), 0),
        (Member("Alice", "owner"), frozenset[Permission](), 0),  # a role of a newer version, or typed in SQL
        (Member("Rita", "reviewer"), READS, 1),
        (Member("Mona", "moderator"), MODERATES, 2),
    ],
)
def test_a_role_permits_what_its_table_says(member: Member, permissions: frozenset[Permission], rank: int) -> None:
    assert team().rights_of(member) == Rights(permissions, rank)
    assert team().kept_rights_of(member) == Rights(permissions, rank)
    assert team().rank_of(member) == rank
    assert not team().rights_of(member).is_operator


@pytest.mark.parametrize("level", [1, 4])
def test_an_operator_may_do_everything_and_stands_above_all_roles(level: int) -> None:
    rights = team(level).rights_of(Member("Olivia", "reviewer"))
    assert (rights, rights.is_operator) == (Rights(ALL, 2 + level), True)
    assert rights.rank < EVERYTHING.rank
    assert Rights(ALL, 7) == EVERYTHING


@pytest.mark.parametrize("status", ["pending", "rejected", "banned"])
def test_who_is_not_approved_may_nothing_but_keeps_the_rank_that_protects_them(status: str) -> None:
    olivia, mona = Member("Olivia", status=status), Member("Mona", "moderator", status)
    assert team(4).rights_of(olivia) == team(4).rights_of(mona) == NO_RIGHTS
    assert team(4).kept_rights_of(olivia) == NO_RIGHTS
    assert (team(4).rank_of(olivia), team(4).rank_of(mona)) == (6, 2)


def test_an_op_that_authme_holds_protects_and_is_kept_but_permits_nothing() -> None:
    olivia = Member("Olivia")
    held = team(level=0, kept=3)
    assert held.rights_of(olivia) == NO_RIGHTS
    assert held.kept_rights_of(olivia) == Rights(ALL, 5)
    assert held.rank_of(olivia) == 5
    assert not held.needs_second_factor(held.kept_rights_of(olivia))


def test_permission_none_asks_whether_anything_is_permitted() -> None:
    assert Rights(READS).may(None)
    assert not NO_RIGHTS.may(None)
    assert Rights(READS).may(Permission.USERS_READ)
    assert not Rights(READS).may(Permission.USERS_BAN)


def test_only_operators_manage_and_no_token_makes_the_next_one() -> None:
    assert dict(PERMISSIONS_OF) == {"reviewer": READS, "moderator": MODERATES}
    assert {Permission.SETTINGS_WRITE, Permission.TEAM_MANAGE} == NOT_FOR_TOKENS


def test_permissions_are_parsed_by_their_names() -> None:
    assert parse_permissions(["users.read", "users.ban"]) == {Permission.USERS_READ, Permission.USERS_BAN}
    with pytest.raises(ValueError, match=r"^users\.everything$"):
        parse_permissions(["users.read", "users.everything"])
