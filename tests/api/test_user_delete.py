"""POST /api/user/delete: the owner leaves for good, here and in the game."""

import pytest

from tests.support.authenticator import Authenticator
from tests.support.authme_tables import find_player
from tests.support.daemon import Reply
from tests.support.operators import Operators
from tests.support.our_tables import ago, everything_stored, our_database
from tests.support.refusals import TRANSLATIONS, assert_refused, assert_refused_as_200
from tests.support.stack import MakeVillage, Person, Village
from tests.support.together import at_once

PATH = "/api/user/delete"


def delete(village: Village, token: str | None, person: Person, **fields: object) -> Reply:
    return village.post(PATH, {"currentPassword": person.password, **fields}, token=token)


# --- What it does ---


def test_alice_leaves_for_good(village: Village) -> None:
    alice = village.approved("alice")
    tokens = [village.user_token(alice), village.user_token(alice)]
    reply = delete(village, tokens[0], alice)
    assert (reply.status, reply.json) == (
        200,
        {
            "success": True,
            "message": TRANSLATIONS.text("message.deleted_own", "en", username=alice.name),
            "username": alice.name,
            "warnings": [],
        },
    )
    assert village.status(alice) is None
    assert find_player(village.table, alice.key) is None
    for token in tokens:
        assert_refused(delete(village, token, alice), 401, "unauthorized")
    assert_refused(village.login(alice), 401, "bad_credentials")
    [entry] = village.audits(alice, "user.deleted")
    assert (entry["operator"], entry["ip"]) == (alice.name, "127.0.0.1")
    assert village.sync()["adopted"] == 0, "nothing comes back"


def test_the_password_may_be_called_so(village: Village) -> None:
    alice = village.approved("alice")
    token = village.user_token(alice)
    both = {"currentPassword": alice.password, "password": alice.password}
    assert_refused(village.post(PATH, both, token=token), 422, "invalid_field", field="currentPassword")
    assert village.post(PATH, {"password": alice.password}, token=token).status == 200
    assert village.status(alice) is None


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_mailbox_hears_of_it(village: Village, language: str) -> None:
    """If it was somebody else, with her session and her password, Alice should know."""
    alice = village.pending("alice", language=language)
    assert delete(village, village.user_token(alice), alice).status == 200
    subject = "已删除" if language == "zh" else "was deleted"
    letter = village.smtp.wait_for(alice.email, counts=lambda letter: subject in letter.subject)
    assert alice.name in letter.text


def test_name_and_address_are_free_and_nothing_is_inherited(village: Village) -> None:
    alice = village.approved("alice")
    assert delete(village, village.user_token(alice), alice).status == 200
    carl = Person(alice.name, alice.email, "another-secret")
    assert village.register(carl).status == 201
    assert_refused(village.login(alice), 401, "bad_credentials")
    village.decides("approve", carl)
    assert village.authme.login(carl.name, carl.password)


def test_the_history_of_the_name_stays_and_the_mailbox_is_forgotten(village: Village) -> None:
    alice = village.approved("alice")
    assert delete(village, village.user_token(alice), alice).status == 200
    rows = our_database(village).query(
        "SELECT transition, operator, email_key FROM regsvc_review WHERE username = ? ORDER BY id", (alice.name,)
    )
    assert [(row["transition"], row["operator"]) for row in rows] == [("approve", "Olivia"), ("delete", alice.name)]
    assert {row["email_key"] for row in rows} == {None}


def test_who_waits_may_leave_and_so_may_a_player_of_the_game(village: Village) -> None:
    alice, bob = village.pending("alice"), village.newcomer("bob")
    village.authme.register(bob.name, bob.password)
    for person in (alice, bob):
        assert delete(village, village.user_token(person), person).status == 200
        assert village.status(person) is None
        assert find_player(village.table, person.key) is None
    village.sync()
    assert village.status(bob) is None


def test_without_the_second_factor_nothing_is_deleted(village: Village) -> None:
    alice = village.approved("alice")
    token = village.user_token(alice)
    app = Authenticator()
    village.authme.set_totp(alice.name, app.secret)
    for language in ("en", "zh"):
        reply = delete(village, token, alice, language=language)
        assert_refused(reply, 401, "totp_required", field="totp", language=language)
    assert_refused(delete(village, token, alice, totp=app.wrong_code()), 401, "totp_required", field="totp")
    assert village.status(alice) == "approved"
    assert delete(village, token, alice, totp=app.code()).status == 200
    assert find_player(village.table, alice.key) is None


def test_the_code_of_the_login_does_not_serve_twice(village: Village) -> None:
    alice = village.approved("alice")
    app = Authenticator()
    village.authme.set_totp(alice.name, app.secret)
    code = app.code()
    body = {"username": alice.name, "password": alice.password, "totp": code}
    token = village.post("/api/login", body).json["token"]
    assert_refused(delete(village, token, alice, totp=code), 401, "totp_required", field="totp")
    assert delete(village, token, alice, totp=app.code(1)).status == 200


def test_twice_at_once_is_once(village: Village) -> None:
    alice = village.approved("alice")
    token = village.user_token(alice)
    replies = at_once([lambda: delete(village, token, alice)] * 4)
    statuses = sorted(reply.status for reply in replies)
    assert statuses[0] == 200
    assert set(statuses[1:]) <= {401, 422}, [reply.text for reply in replies]
    assert len(village.audits(alice, "user.deleted")) == 1


# --- What it refuses ---


@pytest.mark.parametrize("language", ["en", "zh"])
def test_it_refuses_a_wrong_password(village: Village, language: str) -> None:
    alice = village.approved("alice")
    token = village.user_token(alice)
    reply = delete(village, token, alice, currentPassword="not-the-password", language=language)
    assert_refused(reply, 422, "wrong_password", field="currentPassword", language=language)
    assert village.status(alice) == "approved"
    assert village.authme.login(alice.name, alice.password)


def test_wrong_passwords_delay_as_failed_logins_do(village: Village) -> None:
    alice = village.pending("alice")
    token = village.user_token(alice)
    replies = [
        village.post(PATH, {"currentPassword": "wrong"}, token=token, headers={"X-Forwarded-For": "198.51.100.1"})
        for _try in range(7)
    ]
    assert [reply.status for reply in replies] == [422] * 6 + [429]
    assert_refused(replies[-1], 429, "rate_limited")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_operator_leaves_his_name_to_whoever_comes_next(
    village: Village, operators: Operators, language: str
) -> None:
    """With the row gone, anybody could register the operator's name in the game."""
    oscar = operators.new()
    for token in (village.user_token(oscar), village.admin_token(oscar.name, oscar.password)):
        reply = delete(village, token, oscar, language=language)
        assert_refused(reply, 409, "protected_operator", field="username", language=language)
    assert village.authme.login(oscar.name, oscar.password)
    operators.dismiss(oscar)
    assert delete(village, village.user_token(oscar), oscar).status == 200


@pytest.mark.parametrize("language", ["en", "zh"])
def test_who_was_rejected_cannot_free_the_name_before_its_time(village: Village, language: str) -> None:
    rick = village.pending("rick")
    village.decides("reject", rick, reason="bad name")
    token = village.user_token(rick)
    told = assert_refused(delete(village, token, rick, language=language), 409, "wrong_status", language=language)
    assert told["status"] == "rejected"
    our_database(village).execute(
        "UPDATE regsvc_user SET reviewed_at = ? WHERE username = ?", (ago(hours=25), rick.name)
    )
    assert delete(village, token, rick).status == 200


def test_nobody_escapes_a_ban(village: Village) -> None:
    alice = village.approved("alice")
    token = village.user_token(alice)
    village.decides("ban", alice)
    assert_refused(delete(village, token, alice), 401, "unauthorized")
    assert_refused(village.login(alice), 403, "banned")
    assert village.status(alice) == "banned"


def test_nor_one_that_was_typed_in_sql(village: Village) -> None:
    alice = village.approved("alice")
    token = village.user_token(alice)
    our_database(village).execute("UPDATE regsvc_user SET status = 'banned' WHERE username = ?", (alice.name,))
    assert_refused(delete(village, token, alice), 401, "unauthorized")
    assert village.status(alice) == "banned"


def test_a_rejection_typed_in_sql_counts_as_one(village: Village) -> None:
    rick = village.pending("rick")
    token = village.user_token(rick)
    our_database(village).execute("UPDATE regsvc_user SET status = 'rejected' WHERE username = ?", (rick.name,))
    assert_refused(delete(village, token, rick), 409, "wrong_status")
    village.sync()
    assert village.status(rick) == "rejected"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_it_refuses_a_missing_password(village: Village, language: str) -> None:
    alice = village.pending("alice")
    reply = village.post(PATH, {"language": language}, token=village.user_token(alice))
    assert_refused(reply, 422, "invalid_field", field="currentPassword", language=language)


def test_it_refuses_who_shows_no_token(village: Village) -> None:
    alice = village.pending("alice")
    token = village.user_token(alice)
    assert_refused(delete(village, None, alice), 401, "unauthorized")
    assert_refused(delete(village, "rubbish", alice), 401, "unauthorized")
    body = {"currentPassword": alice.password, "token": token}
    assert_refused(village.post(f"{PATH}?token={token}", body), 401, "unauthorized")
    assert village.status(alice) == "pending"


def test_nothing_secret_is_kept_or_told(village: Village) -> None:
    alice = village.approved("alice")
    delete(village, village.user_token(alice), alice)
    for text in (everything_stored(village), "\n".join(village.daemon.log), str(village.audits(alice))):
        assert alice.password not in text


# --- While AuthMe is busy ---


def test_the_row_goes_when_a_busy_authme_lets_it(impatient: Village) -> None:
    alice = impatient.approved("alice")
    token = impatient.user_token(alice)
    file = impatient.table.database.connect()  # type: ignore[attr-defined]
    file.execute("BEGIN IMMEDIATE")  # it can be read, but not written
    reply = delete(impatient, token, alice)
    file.execute("ROLLBACK")
    file.close()
    assert (reply.status, reply.json["warnings"]) == (200, ["player_pending"])
    assert impatient.status(alice) is None
    assert find_player(impatient.table, alice.key) is not None
    impatient.sync()
    assert find_player(impatient.table, alice.key) is None
    assert impatient.status(alice) is None


def test_while_the_row_cannot_be_read_it_is_refused(impatient: Village) -> None:
    """It may have a second factor."""
    alice = impatient.approved("alice")
    token = impatient.user_token(alice)
    file = impatient.table.database.connect()  # type: ignore[attr-defined]
    file.execute("BEGIN EXCLUSIVE")
    reply = delete(impatient, token, alice)
    file.execute("ROLLBACK")
    file.close()
    assert_refused(reply, 503, "players_away")
    assert impatient.status(alice) == "approved"


# --- Other hosts ---


def test_every_refusal_is_a_200_for_front_ends_that_want_it(make_village: MakeVillage) -> None:
    softened = make_village(config={"http": {"legacy_status": True}})
    alice, rick = softened.approved("alice"), softened.pending("rick")
    token = softened.user_token(alice)
    assert_refused_as_200(
        delete(softened, token, alice, currentPassword="wrong", language="zh"), "wrong_password", "zh"
    )
    softened.decides("reject", rick)
    assert_refused_as_200(delete(softened, softened.user_token(rick), rick), "wrong_status")
    app = Authenticator()
    softened.authme.set_totp(alice.name, app.secret)
    assert_refused_as_200(delete(softened, token, alice), "totp_required")
    softened.game.write_operators("Olivia", alice.name)
    assert_refused_as_200(delete(softened, token, alice, totp=app.code()), "protected_operator")
    assert_refused(delete(softened, "rubbish", alice), 401, "unauthorized")
