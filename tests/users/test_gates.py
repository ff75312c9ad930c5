"""What keeps players out of the game, and why approvals let nobody in, without a database."""

from dataclasses import replace
from pathlib import Path

import pytest

from plugin_bridge.server.files import ServerProperties
from regsvc.config.sections import Config
from regsvc.users.gates import (
    HELD_BACK,
    NO_PROFILE,
    NO_UUID,
    REFUSED,
    RESTART,
    UNSETTLED,
    UUID_IN_DOUBT,
    Gates,
    find_gate_problem,
)


@pytest.mark.parametrize(
    ("has_authme", "keeps_list", "names", "words"),
    [
        (True, True, ("authme", "allowlist"), "AuthMe's table and the game's allowlist"),
        (True, False, ("authme",), "AuthMe's table"),
        (False, True, ("allowlist",), "the game's allowlist"),
        (False, False, (), "nothing"),
    ],
)
def test_the_gates_in_force(has_authme: bool, keeps_list: bool, names: tuple[str, ...], words: str) -> None:
    gates = Gates(has_authme, lambda: keeps_list)
    assert (gates.names, str(gates)) == (names, words)


@pytest.mark.parametrize(
    ("status", "state", "reason", "shown"),
    [
        ("approved", None, None, "waiting"),
        ("pending", None, None, "absent"),
        ("approved", "add", None, "waiting"),
        ("approved", "add", UUID_IN_DOUBT, "conflict"),
        ("approved", "add", HELD_BACK, "waiting"),
        ("approved", "listed", None, "listed"),
        ("approved", "listed", HELD_BACK, "waiting"),
        ("approved", "listed", UUID_IN_DOUBT, "waiting"),
        ("approved", "taken_off", None, "removed"),
        ("approved", "taken_off", UUID_IN_DOUBT, "removed"),
        ("banned", "remove", None, "waiting"),
    ],
)
def test_what_admins_see_of_a_users_entry(status: str, state: str | None, reason: str | None, shown: str) -> None:
    assert Gates(True, lambda: True).listed_state(status, state, reason) == shown  # type: ignore[arg-type]
    assert Gates(True, lambda: False).listed_state(status, state, reason) == "off"  # type: ignore[arg-type]


def test_who_is_waiting_removed_or_in_conflict_is_not_where_their_status_wants_them() -> None:
    assert set(UNSETTLED) == {"waiting", "removed", "conflict"}


def test_the_reasons_stay_as_they_are_stored() -> None:
    reasons = (NO_UUID, NO_PROFILE, UUID_IN_DOUBT, RESTART, REFUSED, HELD_BACK)
    assert reasons == ("no_uuid", "no_profile", "uuid_in_doubt", "restart", "refused", "held_back")


@pytest.mark.parametrize(
    ("has_authme", "keeps_list", "white_list", "has_folder", "title", "advice"),
    [
        (True, False, False, True, None, None),
        (True, False, None, True, None, None),
        (True, True, True, True, None, None),
        (False, True, True, True, None, None),
        (False, True, None, False, None, None),
        (True, False, True, True, "The game lets in only who", 'Set allowlist.enabled = "auto"'),
        (False, False, True, False, "The game lets in only who", 'Set allowlist.enabled = "auto"'),
        (False, False, False, True, "there is no AuthMe (/srv/mc/config.yml)", "Set white-list=true"),
        (False, False, None, True, "there is no AuthMe (/srv/mc/config.yml)", "Set white-list=true"),
        (False, False, None, False, "does not say where the game server is", "Set game.directory"),
    ],
)
def test_why_approvals_let_nobody_in(
    monkeypatch: pytest.MonkeyPatch,
    has_authme: bool,
    keeps_list: bool,
    white_list: bool | None,
    has_folder: bool,
    title: str | None,
    advice: str | None,
) -> None:
    path = Path("/srv/mc/config.yml") if has_folder else None
    monkeypatch.setattr(Config, "authme_config_path", property(lambda _config: path))
    properties = None if white_list is None else replace(ServerProperties(), white_list=white_list)
    found = find_gate_problem(Config(), properties, has_authme=has_authme, keeps_list=keeps_list)
    if title is None or advice is None:
        assert found is None
    else:
        assert found is not None
        assert title in str(found[0])
        assert advice in str(found[1])
