"""`companion import --from verifymc`: a host moves from the plugin to us, with all its users."""

import json
from pathlib import Path

import pytest

from plugin_bridge.hashers.password_hasher import HASHERS
from regsvc.cli.command_line import parse
from regsvc.cli.data import run_data_command
from regsvc.database.models import AuditEntry, ChatLink, OutboxEntry, StoredQuestionnaire, User
from tests.support.authme.authme_tables import dump_table
from tests.support.peers.mariadb import Database
from tests.support.peers.verifymc import REGISTERED, Record, entry, record, unsalted, write_folder, write_tables
from tests.support.services import ServiceHarness

Captured = pytest.CaptureFixture[str]
DAY = 86_400_000
RECENT = 1_893_456_000_000  # 2030-01-01, a year before the clock's time


def import_from(services: ServiceHarness, source: object, *options: str) -> int:
    return run_data_command(parse(["import", "--from", "verifymc", str(source), *options]), services.app)


def salted(password: str) -> str:
    return HASHERS["SHA256"].hash(password, "").hash


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "plugins" / "VerifyMC"


def test_users_come_with_everything_that_is_known_of_them(
    services: ServiceHarness, folder: Path, capsys: Captured
) -> None:
    answers: Record = {
        "questionnaireScore": 80.0,
        "questionnairePassed": True,
        "questionnaireReviewSummary": "Q1: 40, good",
        "questionnaireScoredAt": float(REGISTERED),
    }
    write_folder(
        folder,
        [
            record("Alice", password=salted("alices-secret"), discordId="81384788765712384", **answers),
            record("Bob", "pending", unsalted("bobs-secret"), regTime=float(REGISTERED + DAY)),
            record("Carol", "approved", "carols-secret"),
            record("Mallory", "banned", salted("x"), email=None),
            record("Trent", "rejected", None),
        ],
        [
            entry("register", "Alice"),
            entry("ban", "mallory", "first time", at=RECENT),
            entry("unban", "Mallory", at=RECENT + 1),
            entry("ban", "mallory", "griefing", at=RECENT + 2),
            entry("reject", "Trent", "too young", operator="CONSOLE", at=RECENT),
            entry("approve", "Alice", at=RECENT),
            entry("approve", "Alice", at=RECENT),
            entry("email_update", "Alice", "Email updated to: alice@example.com", operator="Alice", at=RECENT),
            entry("authme_password_sync_failed", "Alice", operator="system", at=RECENT),
        ],
    )
    assert import_from(services, folder) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == f"VerifyMC: 5 records and 8 audit entries in {folder / 'users.json'}"
    assert "new users: 5" in told
    assert "by status: 1 pending, 2 approved, 1 rejected, 1 banned" in told
    assert (
        "passwords of new users: 2 kept as they are, 1 plain SHA-256, made AuthMe's SHA256, 1 not hashed, hashed now, "
        "1 without one"
    ) in told
    assert "e-mail addresses: 4 verified, 0 unverified" in told
    assert "audit entries: 7 new, 0 here already" in told
    assert "audit entries older than retention.audit, left out: 1" in told
    assert "audit entries of kinds that are not kept here, left out: 1 (authme_password_sync_failed)" in told
    assert told[-1] == "no mail was sent; the same command can be repeated"
    assert OutboxEntry.select().count() == 0

    mallory, trent, bob = services.user("Mallory"), services.user("Trent"), services.user("Bob")
    assert (mallory.reason, mallory.reviewed_by, mallory.banned_from) == ("griefing", "Olivia", "approved")
    assert (trent.status, trent.reason, trent.reviewed_by) == ("rejected", "too young", "CONSOLE")
    assert bob.created_at.isoformat() == "2025-01-02T00:00:00+00:00"
    link, result = ChatLink.get(), StoredQuestionnaire.get()
    assert (link.user_id, link.platform, link.account_id) == (services.user("Alice").id, "discord", "81384788765712384")
    assert (result.user, result.score, result.is_passed, result.expires_at) == (services.user("Alice"), 80, True, None)
    bans = services.audits("user.banned")
    assert [(ban.operator, ban.target, json.loads(ban.detail or "")["reason"]) for ban in bans] == [
        ("Olivia", "mallory", "first time"),
        ("Olivia", "mallory", "griefing"),
    ]
    assert bans[0].created_at.isoformat() == "2030-01-01T00:00:00+00:00"
    assert len(services.audits("user.approved")) == 2


def test_passwords_stay_whatever_form_they_were_kept_in(services: ServiceHarness, folder: Path) -> None:
    write_folder(
        folder,
        [
            record("Alice", password=salted("alices-secret")),
            record("Bob", "pending", unsalted("bobs-secret")),
            record("Carol", "approved", "carols-secret"),
        ],
    )
    assert import_from(services, folder) == 0
    services.sync()
    for name in ("Alice", "Carol"):
        assert services.authme.login(name, f"{name.lower()}s-secret")
        assert services.login(name, f"{name.lower()}s-secret").username == name
    assert services.login("bob@example.com", "bobs-secret").status == "pending"
    assert services.decide("approve", "Bob").status == "approved"
    assert services.authme.login("Bob", "bobs-secret")


def test_who_plays_already_is_matched(services: ServiceHarness, folder: Path, capsys: Captured) -> None:
    """Alice and Mallory have a row; the sync knows Mallory already."""
    services.restart(sync__new_players="approved")
    services.authme.register("Mallory", "mallorys-password")
    services.sync()
    services.authme.register("Alice", "alices-password", email="alice@example.com")
    write_folder(
        folder,
        [record("Alice", password=salted("old"), discordId="7"), record("Mallory", "banned")],
        [entry("ban", "Mallory", "griefing", at=RECENT)],
    )
    assert import_from(services, folder, "--dry-run") == 0
    assert "would be matched with players in AuthMe's table, whose passwords stay: 2" in capsys.readouterr().out
    assert services.find_user("Alice") is None
    assert not services.is_locked("mallory")

    assert import_from(services, folder) == 0
    assert "matched with players in AuthMe's table, whose passwords stay: 2" in capsys.readouterr().out
    assert services.authme.login("Alice", "alices-password")
    assert services.login("Alice", "alices-password")
    alice, mallory = services.user("Alice"), services.user("Mallory")
    assert (alice.status, alice.is_email_verified, alice.email) == ("approved", True, "alice@example.com")
    assert alice.created_at.isoformat() == "2025-01-01T00:00:00+00:00"
    assert (mallory.status, mallory.reason, services.is_locked("mallory")) == ("banned", "griefing", True)
    assert not services.authme.login("Mallory", "mallorys-password")
    assert ChatLink.get().user_id == alice.id

    assert OutboxEntry.select().count() == 0
    services.decide("unban", "Mallory")
    before, entries = dump_table(services.table), AuditEntry.select().count()
    assert import_from(services, folder) == 0
    assert "users here already, left as they are: 2" in capsys.readouterr().out
    services.sync()
    assert (services.user("Mallory").status, dump_table(services.table)) == ("approved", before)
    assert AuditEntry.select().count() == entries


def test_who_registered_here_is_left_alone(services: ServiceHarness, folder: Path, capsys: Captured) -> None:
    services.approved("Alice")
    write_folder(folder, [record("ALICE", "banned", discordId="7")])
    assert import_from(services, folder) == 0
    told = capsys.readouterr()
    assert "users here already, left as they are: 1" in told.out
    assert "the record bans a player who is here already and is not banned here" in told.err
    assert (services.user("Alice").status, ChatLink.select().count()) == ("approved", 0)


def test_what_two_have_goes_to_the_approved_who_registered_first(
    services: ServiceHarness, folder: Path, capsys: Captured
) -> None:
    same = {"email": "Family@example.com", "discordId": "7"}
    write_folder(
        folder,
        [
            record("Bob", regTime=REGISTERED + 1, **same),
            record("Dave", "pending", regTime=REGISTERED - DAY, **same),
            record("Alice", **same),
            record("Eve", email="no address"),
        ],
        config="auth:\n  must_auth_methods: [captcha]\n",
    )
    assert import_from(services, folder) == 0
    told = capsys.readouterr().out
    assert "e-mail addresses: 0 verified, 1 unverified\n  (if the players proved them by codes, import with" in told
    assert "e-mail addresses left out, as another user has them or they are none: 3\n" in told
    assert "chat links: 1, left out: 2\n" in told
    owners = [user.username for user in User.select().where(User.email.is_null(False))]
    assert (User.select().count(), owners, ChatLink.get().user_id) == (4, ["Alice"], services.user("Alice").id)


def test_its_config_is_read_as_the_game_server_reads_it(
    services: ServiceHarness, folder: Path, capsys: Captured
) -> None:
    """In an encoding of before, with a tab, and a key that was written twice."""
    write_folder(folder, [record("Alice", email="alice@example.com")], config="")
    config = "# 验证方式\nstorage: mysql\nstorage: file\t# 文件\nauth_methods: [email]\n"
    next(folder.rglob("config.yml")).write_bytes(config.encode("gbk"))
    assert import_from(services, folder) == 0
    assert "e-mail addresses: 1 verified, 0 unverified\n" in capsys.readouterr().out


def test_records_that_cannot_become_users_are_told_in_words(
    services: ServiceHarness, folder: Path, capsys: Captured
) -> None:
    broken: list[Record] = [record("a b"), record("Carl", "dancing"), record("Dora", regTime="last year")]
    write_folder(folder, [record("Alice"), *broken])
    users = json.loads((folder / "users.json").read_text())
    (folder / "users.json").write_text(json.dumps(users | {"bob": "approved"}))
    for options in (("--dry-run",), ()):
        assert import_from(services, folder, *options) == 1
        told = capsys.readouterr()
        assert "not imported: 4\n" in told.out
        assert told.err.splitlines() == [
            "not imported: 'a b' (record 2): the name breaks AuthMe's rules for names, or is a Bedrock name while "
            "bedrock.enabled is off",
            "not imported: 'Carl' (record 3): the status is none of pending, approved, rejected and banned",
            "not imported: 'Dora' (record 4): registered_at, or regTime, is not a time",
            "not imported: 'bob' (record 5): the record is not an object, or a line with other fields than the header",
        ]
    assert [user.username for user in User.select()] == ["Alice"]


def test_a_folder_of_an_old_version(services: ServiceHarness, folder: Path) -> None:
    """Before 1.6: records by UUID, in data/, with names in snake case."""
    users = {
        "5c6b2f1e-0000-4000-8000-00000000000a": {
            "uuid": "5c6b2f1e-0000-4000-8000-00000000000a",
            "username": "Alice",
            "status": "approved",
            "email": "alice@example.com",
            "password": unsalted("alices-secret").upper(),
            "regTime": 1.7356896e12,
            "discord_id": "7",
            "questionnaire_score": 61,
            "questionnaire_passed": True,
        }
    }
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "users.json").write_text(json.dumps(users))
    assert import_from(services, folder) == 0
    assert services.user("Alice").created_at.isoformat() == "2025-01-01T00:00:00+00:00"
    assert not services.user("Alice").is_email_verified
    assert (ChatLink.get().account_id, StoredQuestionnaire.get().score) == ("7", 61)
    services.sync()
    assert services.authme.login("Alice", "alices-secret")


def test_bedrock_players_keep_their_names(services: ServiceHarness, folder: Path) -> None:
    write_folder(folder, [record(".Steve", password=salted("steves-secret"))])
    assert import_from(services, folder) == 1
    services.restart(bedrock__enabled=True)
    assert import_from(services, folder) == 0
    assert (services.user(".Steve").platform, services.user(".Steve").status) == ("bedrock", "approved")


@pytest.mark.parametrize("options", [("--verified-emails",), ("--from", "verifymc", "--format", "csv")])
def test_options_that_do_not_go_together(capsys: Captured, options: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit):
        parse(["import", "users.csv", *options])
    assert "--from" in capsys.readouterr().err


def test_its_tables(services: ServiceHarness, database: Database, capsys: Captured) -> None:
    users = [record("Alice", password=salted("alices-secret"), discordId="7"), record("Mallory", "banned")]
    write_tables(database, users, [entry("ban", "Mallory", "griefing")])
    assert import_from(services, database.url, "--verified-emails") == 0
    told = capsys.readouterr().out
    assert "new users: 2\n" in told
    assert "e-mail addresses: 2 verified, 0 unverified\n" in told
    assert database.password not in told
    assert services.user("Mallory").reason == "griefing"
    services.sync()
    assert services.authme.login("Alice", "alices-secret")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"alice": {"username": "Alice", "status": "approved"}, "bo', "line 1, column 56: this is not JSON"),
        ("", "this is not JSON"),
        ('[{"username": "Alice"}]', "must be one object with a record for each player"),
        (b'{"alice": {"username": "Al\xff"}}', "is not JSON in UTF-8"),
    ],
)
def test_a_broken_file_is_explained_and_changes_nothing(
    services: ServiceHarness, folder: Path, capsys: Captured, content: str | bytes, words: str
) -> None:
    write_folder(folder, [])
    for name in ("users.json", "audits.json"):
        write_folder(folder, [record("Alice")], [entry("approve", "Alice")])
        file, expected = folder / name, words
        if name == "audits.json" and "one object" in words:
            content, expected = "{}", "must be a list of entries"
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        assert import_from(services, folder) == 1
        told = capsys.readouterr().err
        assert expected in told
        assert "nothing was imported" in told
        assert (User.select().count(), AuditEntry.select().count()) == (0, 0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: folder.mkdir(parents=True), "has no users.json: name VerifyMC's folder"),
        (lambda folder: None, "cannot be read: No such file"),
        (
            lambda folder: (
                write_folder(folder, [record("Alice")], config="").joinpath("config.yml").write_text("storage: mysql")
            ),
            "has storage: mysql",
        ),
        (
            lambda folder: write_folder(folder, [record("Alice")], config="auth_methods: [email\n"),
            "config.yml cannot be read as YAML (line 3, column 1), and says whether addresses were verified",
        ),
    ],
)
def test_a_place_without_its_data_is_explained(
    services: ServiceHarness, folder: Path, capsys: Captured, make: object, words: str
) -> None:
    assert callable(make)
    make(folder)
    assert import_from(services, folder) == 1
    assert words in capsys.readouterr().err


def test_a_path_that_cannot_be_looked_at_is_explained(services: ServiceHarness, capsys: Captured) -> None:
    assert import_from(services, f"/{'x' * 300}") == 1
    assert "cannot be read: File name too long; nothing was imported." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://user:s3cret@127.0.0.1:1/verifymc", "cannot be used"),
        ("mysql://user:s3cret@127.0.0.1", "a database URL is"),
    ],
)
def test_a_database_that_cannot_be_used_is_explained_without_its_password(
    services: ServiceHarness, capsys: Captured, url: str, words: str
) -> None:
    assert import_from(services, url) == 1
    told = capsys.readouterr().err
    assert words in told
    assert "s3cret" not in told


def test_a_ban_holds_for_every_spelling_of_the_name(services: ServiceHarness, folder: Path) -> None:
    write_folder(folder, [])
    people = {"1": record("Mallory"), "2": record("MALLORY", "banned"), "3": record("Alice")}
    (folder / "users.json").write_text(json.dumps(people), "utf-8")
    assert import_from(services, folder) == 0
    assert {user.username: user.status for user in User.select()} == {"MALLORY": "banned", "Alice": "approved"}


@pytest.mark.parametrize("stored", ["0a" * 35, "0a" * 70, "{SSHA}" + "Ab3/" * 8, "pbkdf2_sha512$1$a$b"])
def test_a_hash_of_no_known_form_is_nobodys_password(services: ServiceHarness, folder: Path, stored: str) -> None:
    write_folder(folder, [record("Alice", password=stored)])
    assert import_from(services, folder) == 0
    assert services.user("Alice").password_hash is None


def test_operators_among_the_records_are_told(services: ServiceHarness, folder: Path, capsys: Captured) -> None:
    write_folder(folder, [record("Olivia", password=salted("olivias-secret")), record("Alice")])
    assert import_from(services, folder, "--dry-run") == 0
    [told] = [line for line in capsys.readouterr().out.splitlines() if "open /admin" in line]
    assert "'Olivia'; check" in told


def test_tables_of_another_program_are_refused(
    services: ServiceHarness, database: Database, folder: Path, capsys: Captured
) -> None:
    """Griefer is banned in another program's way, which would make them approved."""
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE users (username VARCHAR(32), password_hash VARCHAR(128), salt VARCHAR(64), "
            "status VARCHAR(16), banned BOOLEAN, ban_reason TEXT, created_at BIGINT)"
        )
        cursor.execute("INSERT INTO users VALUES ('Griefer', 'abc', 'def', 'APPROVED', 1, 'griefing', 1735689600000)")
        connection.commit()
    assert import_from(services, database.url) == 1
    assert "The table users has no column reg_time: this is another program's" in capsys.readouterr().err
    write_folder(folder, [record("Alice"), record("Griefer", "APPROVED", banned=True, ban_reason="griefing")])
    assert import_from(services, folder) == 1
    told = capsys.readouterr().err
    assert "has ban_reason, banned, which VerifyMC does not keep" in told
    assert "Expected are username, status, password and regTime." in told
    assert User.select().count() == 0


def test_nothing_is_left_out_without_a_word(services: ServiceHarness, folder: Path, capsys: Captured) -> None:
    """Dup is there three times; Nils has no status, and a telephone."""
    write_folder(folder, [])
    people: dict[str, Record] = {"1": record("Dup"), "2": record("dup", "rejected"), "3": record("DUP", "pending")}
    people |= {"4": record("Nils") | {"status": None, "phone": "+4912345"}, "5": record("Mallory", "banned", email="-")}
    (folder / "users.json").write_text(json.dumps(people), "utf-8")
    for users in (0, 3):
        assert import_from(services, folder) == 0
        told = capsys.readouterr()
        assert f"users here already, left as they are: {users}" in told.out
        assert "records of a name that another record has, left out: 2" in told.out
        assert "fields that are not kept here, left out: 'phone' (1)" in told.out
        nils = [
            "imported, but not whole: 'Nils' (record 4): the record has no status, so the user waits for a decision"
        ]
        assert told.err.splitlines() == [
            "not imported: 'dup' (record 2): another record has the same name",
            "not imported: 'DUP' (record 3): another record has the same name",
            *(nils if users == 0 else []),
        ]
    found = {user.username: user.status for user in User.select()}
    assert found == {"Dup": "approved", "Nils": "pending", "Mallory": "banned"}


def test_a_ban_moves_whatever_is_wrong_with_its_record(
    services: ServiceHarness, folder: Path, capsys: Captured
) -> None:
    """Bedrock players are off here, a name is none, and the plugin kept a reason of any length."""
    people = [record(".Steve", "banned"), record("Al", "banned", regTime="last year"), record("\ud800x", "banned")]
    write_folder(folder, people, [entry("ban", ".Steve", "one\r\ntwo\x1b" + "x" * 3000, at=RECENT)])
    assert import_from(services, folder) == 1
    assert capsys.readouterr().err.splitlines() == [
        "imported, but not whole: 'Al' (record 2): registered_at, or regTime, is not a time",
        "not imported: '\\ud800x' (record 3): the name breaks AuthMe's rules for names, or is a Bedrock name while "
        "bedrock.enabled is off",
    ]
    banned = {user.username: user.reason for user in User.select().where(User.status == "banned")}
    assert banned == {".Steve": "one\ntwo" + "x" * 3000, "Al": None}


@pytest.mark.parametrize(
    ("config", "password", "is_told"),
    [
        ("", "optional", True),
        ("authme:\n  require_password: true\n", "optional", True),
        ("authme:\n  require_password: false\n", "optional", False),
        ("authme:\n  enabled: false\n  require_password: true\n", "optional", False),
        ("authme:\n  require_password: true\n", "required", False),
    ],
)
def test_whether_players_chose_a_password_is_told(
    services: ServiceHarness, folder: Path, capsys: Captured, config: str, password: str, is_told: bool
) -> None:
    services.restart(registration__password=password)
    write_folder(folder, [record("Alice")], config=config)
    assert import_from(services, folder, "--dry-run") == 0
    assert ('set registration.password = "required"' in capsys.readouterr().out) == is_told
