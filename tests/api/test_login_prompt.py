"""Operators while AuthMe holds their op at its login prompt: they stay operators, whoever stands there."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.api.test_invitations import invite
from tests.api.test_team import with_role
from tests.api.test_team_credentials import is_revoked, make_token
from tests.support.authme.authme_database import DatabaseKind
from tests.support.authme.bukkit_server import BukkitServer
from tests.support.authme.game_server import write_game_server
from tests.support.our_tables import our_database
from tests.support.refusals import assert_refused
from tests.support.stack import OPERATOR, MakeStack, Stack
from tests.support.watching import ask_until

USERS = "/api/admin/users"
QUICK = {"settings.restrictions.timeout": 1}
"""Seconds at the prompt: a name without a note is away for 2 × 1 + 5."""


class Beside:
    """A daemon beside a running game server, with Oscar, an operator of the game, and what he made."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.server = BukkitServer(stack.game, stack.authme)
        self.server.start()
        self.oscar = stack.approved("oscar")
        self.server.op(self.oscar.name)
        self.bot = f"{self.oscar.name}-bot"
        self.browser = stack.admin_token(self.oscar.name, self.oscar.password)
        self.token = make_token(stack, self.bot, "users.read", by=self.browser)
        _id, self.invitation = invite(stack, 3, by=self.browser)
        assert self.statuses() == (200, 200)
        ask_until(self.find_stored, bool)  # within two seconds, for the next process

    def find_stored(self) -> dict[str, object]:
        """Return what our database says about Oscar as an operator; empty if nothing."""
        query = "SELECT level, note, left_at FROM regsvc_operator WHERE username_key = ?"
        rows = our_database(self.stack).query(query, (self.oscar.key,))
        return dict(rows[0]) if rows else {}

    def statuses(self) -> tuple[int, int]:
        """Return what Oscar's browser and his bot are answered."""
        browser, bot = (self.stack.get(USERS, token=token) for token in (self.browser, self.token))
        return browser.status, bot.status

    def entries(self) -> list[dict[str, object]]:
        """Return what the audit log says that Oscar's right took along."""
        return [entry["detail"] for entry in self.stack.audits(self.oscar, "user.rights_ended")]

    def assert_kept(self) -> None:
        assert self.statuses() == (200, 200)
        assert self.entries() == []
        assert not is_revoked(self.stack, self.bot)
        assert self.stack.post("/api/invitation/check", {"invitation": self.invitation}).status == 200

    def assert_ended(self) -> None:
        ask_until(lambda: is_revoked(self.stack, self.bot), bool)
        [detail] = ask_until(self.entries, bool)
        assert detail["cause"] == "not_in_team"
        assert detail["tokens"] == self.bot
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d", str(detail["sessions"]))  # no address: it would stay as long
        assert "invitations" in detail
        assert self.statuses() == (401, 401)

    @contextmanager
    def asking(self) -> Iterator[list[tuple[int, int]]]:
        """Ask as browser and bot again and again meanwhile; gives what they were answered."""
        answers: list[tuple[int, int]] = []
        is_over = threading.Event()

        def ask() -> None:
            while not is_over.is_set():
                answers.append(self.statuses())

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            yield answers
        finally:
            is_over.set()
            thread.join()


MakeBeside = Callable[..., Beside]


@pytest.fixture
def make_beside(make_stack: MakeStack) -> MakeBeside:
    def make(kind: DatabaseKind, **options: object) -> Beside:
        return Beside(make_stack(kind, **options))

    return make


@pytest.fixture(scope="module", params=["sqlite", "mariadb"])
def shared(request: pytest.FixtureRequest, make_stack: MakeStack) -> Stack:
    return make_stack(request.param, authme=QUICK)


@pytest.fixture
def beside(shared: Stack) -> Iterator[Beside]:
    beside = Beside(shared)
    yield beside
    if beside.server.is_running:
        beside.server.stop()


def test_oscar_plays_while_his_browser_and_his_bot_work(beside: Beside) -> None:
    name, password = beside.oscar.name, beside.oscar.password
    with beside.asking() as answers:
        for _time in range(4):
            assert beside.server.join(name) == "at the prompt"
            assert beside.server.login(name, password)
            beside.server.logout(name)
            assert beside.server.login(name, password)
            beside.server.quit(name)
    assert set(answers) == {(200, 200)}
    beside.assert_kept()


def test_a_stranger_at_his_prompt_takes_nothing_and_gains_nothing(beside: Beside) -> None:
    _kurt, kurts = with_role(beside.stack, "moderator", "kurt")
    with beside.asking() as answers:
        for _time in range(20):
            beside.server.join(beside.oscar.name)
            ban = beside.stack.post("/api/admin/user/ban", {"username": beside.oscar.name}, token=kurts)
            assert_refused(ban, 409, "protected_operator", field="username")
            beside.server.quit(beside.oscar.name)
    assert set(answers) == {(200, 200)}
    beside.assert_kept()
    beside.server.join(beside.oscar.name)  # and stands there for longer than a name may be away without a note
    members = beside.stack.get("/api/admin/team", token=beside.stack.olivia()).json["members"]
    assert [it["role"] for it in members if it["username"] == beside.oscar.name] == ["operator"]
    reserved = beside.stack.post("/api/admin/user/delete", {"username": beside.oscar.name}, token=kurts)
    assert reserved.status == 403
    beside.assert_kept()


def test_the_row_of_a_pending_operator_is_not_locked_while_they_stand_at_the_prompt(beside: Beside) -> None:
    stack, server = beside.stack, beside.server
    paul, password = f"Paul_{beside.oscar.name[-3:]}", "pauls-secret"
    server.join(paul)
    assert server.register(paul, password)
    server.op(paul)
    server.quit(paul)
    stack.sync()
    server.join(paul)
    stack.sync()
    assert server.login(paul, password)


@pytest.mark.every_database
@pytest.mark.parametrize("note", ["none", "of an earlier ride"])
def test_a_real_deop_ends_everything_within_seconds(beside: Beside, note: str) -> None:
    name = beside.oscar.name
    if note == "of an earlier ride":  # AuthMe 6 keeps it while they are away, and will give op back by it
        beside.server.version = (6, 0)
        beside.server.join(name)
        assert beside.server.login(name, beside.oscar.password)
        beside.server.quit(name, in_vehicle=True)
        ask_until(beside.find_stored, lambda row: row["note"] is not None)
    beside.assert_kept()
    beside.server.deop(name)
    assert beside.statuses() in ((403, 401), (401, 401))
    beside.assert_ended()
    beside.stack.daemon.stop()
    beside.stack.daemon.start()
    assert beside.stack.post("/api/admin/login", {"username": name, "password": beside.oscar.password}).status == 403


def test_a_name_taken_out_of_the_file_while_the_game_is_off_loses_everything(beside: Beside) -> None:
    beside.server.stop()
    beside.stack.game.write_operators(OPERATOR)
    beside.assert_ended()


@pytest.mark.every_database
def test_an_operator_stays_one_when_the_game_is_killed_at_the_prompt(beside: Beside) -> None:
    name = beside.oscar.name
    beside.server.join(name)
    beside.server.kill()
    beside.assert_kept()
    beside.stack.daemon.stop()
    beside.server.start()  # which writes ops.json anew, without the name
    beside.stack.daemon.start()
    beside.assert_kept()
    beside.server.join(name)
    assert beside.server.login(name, beside.oscar.password)
    beside.assert_kept()


def test_an_operator_stays_one_while_the_daemon_restarts(beside: Beside) -> None:
    beside.server.join(beside.oscar.name)
    beside.stack.daemon.stop()
    beside.stack.daemon.start()
    beside.assert_kept()


def test_notes_of_many_players_in_one_file_tell_it_too(beside: Beside) -> None:
    server, name = beside.server, beside.oscar.name
    for size in ("FOUR", "SIXTEEN", "TWO_FIFTY"):
        changes = {"limbo.persistence.type": "DISTRIBUTED_FILES", "limbo.persistence.distributionSize": size}
        beside.stack.game.change_authme(changes)
        server.reload_authme()
        server.join("Carla")
        server.join(name)
        with beside.asking() as answers:
            for number in range(10):
                server.join(f"Guest{number}")
        assert set(answers) == {(200, 200)}
        server.deop(name)  # of whose op AuthMe holds it changes nothing
        beside.assert_kept()
        for player in list(server.online.values()):
            server.quit(player)
        beside.assert_kept()
    server.deop(name)
    beside.assert_ended()


@pytest.mark.parametrize("kind", ["sqlite", "mariadb"])
def test_without_notes_use_is_refused_and_nothing_ends_until_it_is_certain(
    make_beside: MakeBeside, kind: DatabaseKind
) -> None:
    beside = make_beside(kind, authme={**QUICK, "limbo.persistence.type": "DISABLED"})
    _kurt, kurts = with_role(beside.stack, "moderator", "kurt")
    for _time in range(5):
        beside.server.join(beside.oscar.name)
        assert beside.statuses() == (403, 401)
        credentials = {"username": beside.oscar.name, "password": beside.oscar.password}
        login = beside.stack.post("/api/admin/login", credentials)
        assert (login.status, login.json["code"], login.json.get("fault")) == (403, "not_operator", None)
        ban = beside.stack.post("/api/admin/user/ban", {"username": beside.oscar.name}, token=kurts)
        assert_refused(ban, 409, "protected_operator", field="username")
        beside.server.quit(beside.oscar.name)
    beside.assert_kept()
    beside.server.join(beside.oscar.name)
    beside.stack.daemon.stop()
    beside.stack.daemon.start()
    assert beside.statuses() == (403, 401)
    beside.server.quit(beside.oscar.name)
    beside.assert_kept()
    beside.server.deop(beside.oscar.name)
    assert beside.statuses() == (403, 401)
    beside.assert_ended()


def test_an_operator_with_a_role_needs_an_operators_second_factor_while_they_are_away(make_stack: MakeStack) -> None:
    stack = make_stack("sqlite", authme={"limbo.persistence.type": "DISABLED"})
    rita, browser = with_role(stack, "moderator", "rita")
    stack.restart_with({"auth": {"operators_need_totp": True}})
    credentials = {"username": rita.name, "password": rita.password}
    assert stack.post("/api/admin/login", credentials).status == 200
    server = BukkitServer(stack.game, stack.authme)
    server.start()
    server.op(rita.name)
    assert_refused(stack.post("/api/admin/login", credentials), 403, "totp_setup_required")
    server.join(rita.name)
    assert_refused(stack.post("/api/admin/login", credentials), 403, "totp_setup_required")
    assert stack.get(USERS, token=browser).status == 401


@pytest.mark.every_database
def test_what_a_ban_ended_has_not_ended_for_want_of_a_second_factor(shared: Stack) -> None:
    kurt = shared.approved("kurt")
    shared.game.write_operators(OPERATOR, kurt.name, levels={kurt.name: 2})
    invite(shared, 3, by=shared.admin_token(kurt.name, kurt.password))
    for decision in ("ban", "unban"):
        assert shared.post(f"/api/admin/user/{decision}", {"username": kurt.name}, token=shared.olivia()).status == 200
    shared.daemon.stop()
    shared.daemon.start()
    [entry] = ask_until(lambda: shared.audits(kurt, "user.rights_ended"), bool)
    assert entry["detail"]["cause"] == "not_in_team"


def test_the_prompt_of_another_server_of_the_network_is_its_own(
    make_beside: MakeBeside, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("survival")
    survival = write_game_server(folder, operators=())
    beside = make_beside("sqlite", config={"game.server": [{"name": "survival", "directory": str(folder)}]})
    survival.authme_directory.mkdir(parents=True)
    survival.install_authme(beside.stack.table)
    other = BukkitServer(survival, beside.stack.authme)
    other.start()
    other.op(beside.oscar.name)
    with beside.asking() as answers:
        other.join(beside.oscar.name)
        beside.server.join(beside.oscar.name)
        other.quit(beside.oscar.name)
        assert beside.server.login(beside.oscar.name, beside.oscar.password)
    assert set(answers) == {(200, 200)}
    beside.server.deop(beside.oscar.name)
    beside.assert_ended()
    other.join(beside.oscar.name)
    assert beside.statuses() == (401, 401)


def test_a_level_that_authme_raised_does_not_count(beside: Beside) -> None:
    stack, name = beside.stack, beside.oscar.name
    stack.game.write_operators(OPERATOR, name, levels={name: 2})
    beside.server.stop()
    beside.server.start()

    def rank() -> list[int]:
        members = stack.get("/api/admin/team", token=stack.olivia()).json["members"]
        return [it["level"] for it in members if it["username"] == name]

    assert rank() == [2]
    beside.server.join(name)
    assert rank() == [2]
    assert beside.server.login(name, beside.oscar.password)
    assert '"level": 2' not in stack.game.ops_file.read_text()
    assert rank() == [2]
    ask_until(beside.find_stored, lambda row: row["level"] == 2)
    stack.daemon.stop()
    stack.daemon.start()
    assert rank() == [2]
    beside.server.deop(name)
    beside.assert_ended()
    beside.server.op(name)
    assert rank() == [4]
