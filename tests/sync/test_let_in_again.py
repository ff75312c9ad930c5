"""Alice may play again, by whatever decision, and AuthMe's row is gone meanwhile, or another player's.

`/authme purgebannedplayers`, say, deletes the rows of the banned. A ban's end asks for the row as an approval does;
where somebody registered the name anew, it cannot say which password counts, and promises nothing.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from regsvc.cli.command_line import parse
from regsvc.cli.data import run_data_command
from regsvc.core import errors
from regsvc.database.models import OutboxEntry
from tests.support.authme.game_server import GameServer
from tests.support.peers.allowlist_server import AllowlistServer, allowlist_server
from tests.support.peers.verifymc import record, write_folder
from tests.support.services import PASSWORD, MakeServices, ServiceHarness, authme_away

pytestmark = pytest.mark.every_database

NEW = "registered-anew"


def type_status(services: ServiceHarness, status: str) -> None:
    services.ours.execute("UPDATE regsvc_user SET status = ? WHERE username_key = 'alice'", (status,))
    services.sync()


def lift(services: ServiceHarness) -> None:
    services.decide("unban", "Alice")


def wait_for_the_end(services: ServiceHarness) -> None:
    services.clock.advance(hours=2)
    services.sync()


def type_approved(services: ServiceHarness) -> None:
    type_status(services, "approved")


Unban = Callable[[ServiceHarness], None]
every_end = pytest.mark.parametrize(
    ("unban", "mail"), [(lift, "unbanned"), (wait_for_the_end, "ban_ended"), (type_approved, "unbanned")]
)


def ban(services: ServiceHarness, name: str = "Alice") -> None:
    services.decide("ban", name, expires_at=services.clock() + timedelta(hours=1))


def last_mail(services: ServiceHarness) -> str:
    """Return the text of the last mail to Alice."""
    about = OutboxEntry.recipient_key == services.user("Alice").email_key
    mail = OutboxEntry.select().where(about).order_by(OutboxEntry.id.desc()).first()
    part = services.app.mail_renderer.render(mail).message.get_body(("plain",))
    assert part is not None
    return str(part.get_content())


@every_end
@pytest.mark.parametrize("is_synced", [True, False], ids=["a sync between", "no sync between"])
def test_a_row_that_was_purged_is_there_again(
    services: ServiceHarness, unban: Unban, mail: str, is_synced: bool
) -> None:
    services.approved("Bob")  # without whom the table would be suddenly empty
    services.approved("Alice")
    ban(services)
    services.authme.unregister_from_console("Alice")
    if is_synced:
        services.sync()
        assert services.plugin("Alice") == "absent"
    unban(services)
    assert services.authme.login("Alice", PASSWORD)
    assert services.plugin("Alice") == "synced"
    assert services.mails("Alice")[-1] == mail
    assert "You can join the game again." in last_mail(services)
    services.sync()
    assert not services.sync().has_effects


@every_end
def test_the_row_of_a_player_who_was_adopted_comes_back_with_the_games_password(
    services: ServiceHarness, unban: Unban, mail: str
) -> None:
    services.approved("Bob")
    services.authme.register("Alice", "the-games", email="alice@example.org")
    services.sync()
    services.decide("approve", "Alice")
    ban(services)
    services.authme.unregister_from_console("Alice")
    services.sync()
    unban(services)
    assert services.authme.login("Alice", "the-games")
    assert services.mails("Alice")[-1] == mail


def test_while_the_table_is_away_the_row_waits(services: ServiceHarness) -> None:
    services.approved("Bob")
    services.approved("Alice")
    ban(services)
    services.authme.unregister_from_console("Alice")
    services.sync()
    with authme_away(services):
        assert services.decide("unban", "Alice").warnings == ("player_pending",)
    services.sync()
    assert services.authme.login("Alice", PASSWORD)


@every_end
def test_a_ban_that_left_the_row_alone_asks_for_nothing(services: ServiceHarness, unban: Unban, mail: str) -> None:
    services.approved("Alice")
    before = services.row("alice")
    ban(services)
    unban(services)
    assert services.row("alice") == before
    assert services.player("Alice").intent is None
    assert services.mails("Alice")[-1] == mail


@every_end
@pytest.mark.parametrize("is_synced", [True, False], ids=["a sync between", "no sync between"])
def test_who_registered_anew_during_the_ban_is_not_let_in_and_not_told_so(
    services: ServiceHarness, unban: Unban, mail: str, is_synced: bool
) -> None:
    """Alice or a stranger: an approval asks which password counts; the end of a ban leaves that open."""
    services.approved("Bob")
    services.approved("Alice")
    ban(services)
    services.authme.unregister_from_console("Alice")
    services.clock.advance(minutes=30)
    services.authme.register("Alice", NEW)
    if is_synced:
        services.sync()
    unban(services)
    services.sync()
    assert services.user("Alice").status == "approved"
    assert (services.plugin("Alice"), services.is_locked("alice")) == ("returned", True)
    assert services.mails("Alice")[-1] == f"{mail}_set_password"
    text = last_mail(services)
    assert "You can join" not in text
    assert "Before you can join the game, set a new password" in text
    assert "/forgot-password" in text
    with pytest.raises(errors.PasswordChoiceNeeded):
        services.decide("approve", "Alice")
    assert services.decide("approve", "Alice", password_choice="take").warnings == ()
    assert services.authme.login("Alice", NEW)


def test_the_reply_says_that_the_row_stays_locked(services: ServiceHarness) -> None:
    services.approved("Bob")
    services.approved("Alice")
    ban(services)
    services.authme.unregister_from_console("Alice")
    services.clock.advance(minutes=30)
    services.authme.register("Alice", NEW)
    with pytest.raises(errors.WrongStatus):
        services.decide("approve", "Alice")
    assert services.decide("unban", "Alice").warnings == ("player_locked",)
    services.set_password("Alice", "as-the-mail-says")
    assert services.authme.login("Alice", "as-the-mail-says")
    assert not services.authme.login("Alice", NEW)


@every_end
def test_who_has_no_password_is_told_to_set_one(services: ServiceHarness, unban: Unban, mail: str) -> None:
    services.approved("Alice", password=None)
    ban(services)
    unban(services)
    assert services.mails("Alice")[-1] == f"{mail}_set_password"
    services.set_password("Alice", "as-the-mail-says")
    assert services.authme.login("Alice", "as-the-mail-says")


@every_end
def test_who_has_the_games_password_alone_is_not_told_to_set_one(
    services: ServiceHarness, unban: Unban, mail: str
) -> None:
    """Alice registered here, and changed her password in the game: ours is gone since then."""
    services.approved("Alice")
    assert services.authme.login("Alice", PASSWORD)
    assert services.authme.change_password("Alice", PASSWORD, "changed-in-game")
    services.sync()
    assert services.user("Alice").password_hash is None
    ban(services)
    unban(services)
    assert services.mails("Alice")[-1] == mail
    assert services.authme.login("Alice", "changed-in-game")


def test_who_waited_before_the_ban_gets_no_row_when_it_ends(services: ServiceHarness) -> None:
    services.register("Alice")
    ban(services)
    wait_for_the_end(services)
    assert services.user("Alice").status == "pending"
    assert services.mails("Alice") == ["banned", "ban_ended_unapproved"]
    assert services.authme.find("Alice") is None


def test_who_waited_before_the_ban_is_let_in_by_an_operator(services: ServiceHarness) -> None:
    """Somebody registered the name in the game around the review: the password chosen with it counts, as always."""
    services.register("Alice")
    ban(services)
    services.authme.register("Alice", NEW)
    services.sync()
    assert services.decide("unban", "Alice").warnings == ()
    assert services.authme.login("Alice", PASSWORD)
    assert not services.authme.login("Alice", NEW)
    assert services.mails("Alice")[-1] == "unbanned"


# --- Other decisions that somebody may play ---


def test_who_is_approved_anew_with_the_games_password_alone_is_not_told_to_set_one(services: ServiceHarness) -> None:
    services.approved("Alice")
    assert services.authme.login("Alice", PASSWORD)
    assert services.authme.change_password("Alice", PASSWORD, "changed-in-game")
    services.sync()
    services.decide("reopen", "Alice")
    services.decide("approve", "Alice")
    assert services.mails("Alice")[-1] == "approved"
    assert services.authme.login("Alice", "changed-in-game")


def test_an_approval_typed_in_sql_promises_no_row_that_stays_locked(services: ServiceHarness) -> None:
    services.approved("Bob")
    services.approved("Alice")
    services.decide("reopen", "Alice")
    services.authme.unregister_from_console("Alice")
    services.clock.advance(minutes=30)
    services.authme.register("Alice", NEW)
    services.sync()
    type_approved(services)
    assert services.is_locked("alice")
    assert services.mails("Alice")[-1] == "approved_set_password"


@pytest.fixture
def server(game_server: GameServer) -> Iterator[AllowlistServer]:
    with allowlist_server(game_server.directory) as running:
        game_server.write_properties(online_mode="false", white_list="true")  # no RCON: no row waits for a kick
        yield running


@pytest.fixture
def listed(make_services: MakeServices, server: AllowlistServer) -> ServiceHarness:
    """A server that asks both AuthMe and its own list, with Bob on it."""
    services = make_services()
    services.approved("Bob")
    services.sync()
    return services


def test_who_is_put_on_the_list_in_the_game_gets_the_row(listed: ServiceHarness, server: AllowlistServer) -> None:
    """The name was registered in the game around the review: Alice gets it, as by an approval here."""
    listed.register("Alice")
    listed.authme.register("Alice", NEW)
    listed.sync()
    assert listed.plugin("Alice") == "conflict"
    put_on_list(listed, server)
    assert listed.mails("Alice")[-1] == "approved"
    assert listed.authme.login("Alice", PASSWORD)
    assert not listed.authme.login("Alice", NEW)


def test_who_is_put_on_the_list_gets_a_row_that_was_purged(listed: ServiceHarness, server: AllowlistServer) -> None:
    listed.approved("Alice")
    listed.decide("reopen", "Alice")
    listed.sync()
    listed.authme.unregister_from_console("Alice")
    listed.sync()
    put_on_list(listed, server)
    assert listed.authme.login("Alice", PASSWORD)


def put_on_list(services: ServiceHarness, server: AllowlistServer) -> None:
    server._load()
    server.type_add("Alice")
    services.sync()
    assert services.user("Alice").status == "approved"
    services.sync()


def test_who_is_imported_as_approved_gets_a_row_that_was_purged(services: ServiceHarness, tmp_path: Path) -> None:
    services.approved("Bob")
    services.authme.register("Alice", "the-games")
    services.sync()
    assert services.user("Alice").status == "pending"
    services.authme.unregister_from_console("Alice")
    services.sync()
    write_folder(tmp_path / "VerifyMC", [record("Alice", "approved", None)], [])
    command = parse(["import", "--from", "verifymc", str(tmp_path / "VerifyMC")])
    assert run_data_command(command, services.app) == 0
    assert services.user("Alice").status == "approved"
    services.sync()
    assert services.authme.login("Alice", "the-games")
