"""`companion import`: valid records become users, others are reported by line, and a rerun changes nothing."""

import csv
import json
from datetime import timedelta
from pathlib import Path

import pytest

from plugin_bridge.hashers.password_hasher import HASHERS
from regsvc.cli.command_line import parse
from regsvc.cli.data import run_data_command
from regsvc.database.models import OutboxEntry, User
from regsvc.users.membership import Term
from tests.support.services import OLIVIA, MakeServices, ServiceHarness

Captured = pytest.CaptureFixture[str]


def run(services: ServiceHarness, *arguments: str) -> int:
    return run_data_command(parse(arguments), services.app)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "users.csv"


def names() -> set[str]:
    return {user.username for user in User.select()}


def test_who_is_imported_plays(services: ServiceHarness, file: Path, capsys: Captured) -> None:
    hashed = HASHERS["SHA256"].hash("alices-secret", "Alice").hash
    file.write_text(
        "username,email,is_email_verified,status,reason,registered_at,hash,algorithm\n"
        f"Alice,Alice@Example.org,yes,approved,,2020-02-03T04:05:06Z,{hashed},SHA256\n"
        "Bob,bob@example.org,no,pending,,1580702706000,,\n"
        "Mallory,,,banned,griefing,,,\n"
    )
    assert run(services, "import", str(file)) == 0
    assert capsys.readouterr().out.startswith("imported 3, updated 0, unchanged (existing) 0, refused 0\n")
    services.sync()
    assert services.authme.login("Alice", "alices-secret")
    assert services.login("Alice", "alices-secret").username == "Alice"
    alice, bob, mallory = services.user("Alice"), services.user("Bob"), services.user("Mallory")
    assert (alice.email_key, bool(alice.is_email_verified)) == ("alice@example.org", True)
    assert alice.created_at == bob.created_at.replace(microsecond=0)
    assert (mallory.status, mallory.reason, mallory.banned_from) == ("banned", "griefing", "approved")
    assert [entry.operator[:4] for entry in services.audits("user.imported")] == ["cli:"] * 3
    assert OutboxEntry.select().count() == 0

    assert run(services, "import", str(file)) == 0
    assert capsys.readouterr().out == "imported 0, updated 0, unchanged (existing) 3, refused 0\n"
    assert len(services.audits("user.imported")) == 3


REFUSED = """username,email,status,registered_at,hash,algorithm
Carol,carol@example.org,approved,,,
a b,a@example.org,approved,,,
Dora,no address,approved,,,
Dave,CAROL@example.org,approved,,,
Ed,,approved,,,
Fred,,dancing,,,
Gina,,approved,last year,,
Hans,,approved,,abc,ROT13
Ivan,,approved,,!locked!abc,SHA256
carol,,pending,,,
Jo"e,x
"""


def test_who_breaks_a_rule_is_told_by_line(services: ServiceHarness, file: Path, capsys: Captured) -> None:
    file.write_text(REFUSED.replace('Jo"e,x\n', "Joe,x\n"))
    for arguments in (("--dry-run",), ()):
        assert run(services, "import", str(file), *arguments) == 1
        told = capsys.readouterr()
        lines = told.err.splitlines()
        words = "the name breaks AuthMe's rules for names, or is a Bedrock name while bedrock.enabled is off"
        assert lines[0] == f"line 3: 'a b': invalid_username ({words})"
        assert lines[-1].endswith("(the record is not an object, or a line with other fields than the header)")
        assert [line.partition(" (")[0] for line in lines] == [
            "line 3: 'a b': invalid_username",
            "line 4: 'Dora': invalid_email",
            "line 5: 'Dave': email_taken",
            "line 6: 'Ed': invalid_username",
            "line 7: 'Fred': invalid_status",
            "line 8: 'Gina': invalid_registered_at",
            "line 9: 'Hans': unknown_algorithm",
            "line 10: 'Ivan': invalid_hash",
            "line 11: 'carol': duplicate_name",
            "line 12: '': not_a_record",
        ]
        assert "1, updated 0, unchanged (existing) 0, refused 10\n" in told.out
        assert names() == (set() if arguments else {"Carol"})


def test_nobody_who_is_there_is_changed(services: ServiceHarness, file: Path, capsys: Captured) -> None:
    services.approved("Alice")
    services.authme.register("Bob", "bobs-password", email=None)
    file.write_text("username;email;status\nALICE ;other@example.org;banned\nBob;bob@example.org;banned\n")
    assert run(services, "import", str(file)) == 0
    told = capsys.readouterr()
    assert "unchanged (existing) 2" in told.out
    lines = [line.partition(" (")[0] for line in told.err.splitlines()]
    assert lines == ["line 2: 'ALICE': not_banned_here", "line 3: 'Bob': not_banned_here"]
    assert (services.user("Alice").status, services.user("Alice").email) == ("approved", "alice@example.org")
    assert (services.user("Bob").origin, services.user("Bob").email) == ("adopted", None)
    assert run(services, "import", str(file), "--update") == 0
    assert "updated 1, unchanged (existing) 1" in capsys.readouterr().out
    assert (services.user("Alice").email, services.user("Bob").email) == ("alice@example.org", "bob@example.org")


def test_an_export_of_those_who_are_there_is_no_failure(
    services: ServiceHarness, tmp_path: Path, capsys: Captured
) -> None:
    """Players of an old server: names and addresses that today's rules refuse, and a locked row."""
    for name in ("Al", "Bob", "Old_Player_With_A_Long_Name"):
        assert services.authme.register(name, "a-password")
    services.approved("Mallory")
    services.decide("ban", "Mallory")
    services.sync()
    User.update(email="mallory at home").where(User.username == "Mallory").execute()
    file = tmp_path / "users.csv"
    assert run(services, "export", "--with-hashes", "--output", str(file)) == 0
    capsys.readouterr()
    assert run(services, "import", str(file)) == 0, capsys.readouterr()
    told = capsys.readouterr()
    assert (told.out, told.err) == ("imported 0, updated 0, unchanged (existing) 4, refused 0\n", "")


@pytest.mark.parametrize("form", ["csv", "json"])
def test_our_own_export_comes_back_as_it_was(
    services: ServiceHarness, tmp_path: Path, capsys: Captured, form: str
) -> None:
    services.approved("Alice")
    services.register("Bob")
    services.approved("Mallory")
    services.decide("ban", "Mallory", reason='\'=1+1\n"quoted", and more')
    first, second = tmp_path / f"first.{form}", tmp_path / f"second.{form}"
    assert run(services, "export", "--format", form, "--with-hashes", "--output", str(first)) == 0
    User.delete().execute()
    services.sync()
    assert run(services, "import", str(first)) == 0, capsys.readouterr()
    assert run(services, "export", "--format", form, "--with-hashes", "--output", str(second)) == 0
    assert comparable(second, form) == comparable(first, form)


def comparable(file: Path, form: str) -> object:
    """Return an export without what an import cannot restore: history and registration addresses."""
    lost = ("reviews", "registration_ip", "password_set_at", "last_login_at")
    text = file.read_text("utf-8")
    users = list(csv.DictReader(text.splitlines(keepends=True))) if form == "csv" else json.loads(text)["users"]
    return [{name: value for name, value in user.items() if name not in lost} for user in users]


@pytest.mark.parametrize("form", ["csv", "json"])
def test_an_address_that_nothing_proves_comes_back_unproven(
    services: ServiceHarness, tmp_path: Path, capsys: Captured, form: str
) -> None:
    services.register("Alice")
    noted = {User.email: "Bob@example.org", User.email_key: None, User.is_email_verified: False}
    User.update(noted).where(User.username_key == "alice").execute()
    file, second = tmp_path / f"users.{form}", tmp_path / f"again.{form}"
    assert run(services, "export", "--format", form, "--output", str(file)) == 0
    User.delete().where(User.username_key == "alice").execute()
    services.sync()
    assert run(services, "import", str(file), "--update") == 0, capsys.readouterr()
    alice = services.user("Alice")
    assert (alice.email, alice.email_key, bool(alice.is_email_verified)) == ("Bob@example.org", None, False)
    assert run(services, "export", "--format", form, "--output", str(second)) == 0
    assert comparable(second, form) == comparable(file, form)


def test_an_operators_name_waits_for_no_review(services: ServiceHarness, file: Path, capsys: Captured) -> None:
    hashed = HASHERS["SHA256"].hash("mallorys-secret", "Olivia").hash
    others = "".join(f"{status.title()},{status},\n" for status in ("pending", "rejected"))
    file.write_text(f"username,status,hash,algorithm\nOlivia,pending,{hashed},SHA256\n{others}")
    file.write_text(file.read_text().replace(",\n", ",,\n"))
    assert run(services, "import", str(file)) == 1
    assert "line 2: 'Olivia': reserved_username" in capsys.readouterr().err
    assert names() == {"Pending", "Rejected"}


def test_a_list_as_other_programs_keep_it(services: ServiceHarness, tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "users"
    people = [
        {"username": f"Player{number}", "email": None, "status": "approved", "regTime": 1580702706000 + number}
        for number in range(450)
    ]
    file.write_text(json.dumps(people, indent=2), "utf-8")
    assert run(services, "import", str(file)) == 0, capsys.readouterr()
    assert User.select().count() == 450


TABLE = "Username, E-Mail ,Status\n Alice , alice@example.org ,approved\n,,\nBob,\u00a0bob@example.org\u200b,pending\n"
QUOTED = '"User name";"Email address";status\n"Alice";" alice@example.org";approved\nBob;bob@example.org;'
LIST = [
    {"name": " Alice", "EMAIL": "alice@example.org ", "status": "approved"},
    {"name": "Bob", "e-mail": "bob@example.org"},
]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(f"\n , ,\r\n{TABLE}", id="blank lines above"),
        pytest.param(TABLE.replace(",", ";"), id="semicolons"),
        pytest.param(f"sep=|\n{TABLE.replace(',', '|')}", id="as Excel tells it"),
        pytest.param(TABLE.replace("\n", "\r\n").replace(",", "\t").encode("utf-16"), id="Unicode text"),
        pytest.param(f"\ufeff{TABLE}", id="byte order mark"),
        pytest.param(QUOTED, id="quotes"),
        pytest.param(f"\ufeff{json.dumps(LIST)}", id="JSON"),
        pytest.param(json.dumps({"users": LIST}).encode("utf-16"), id="JSON in UTF-16"),
    ],
)
def test_a_table_as_spreadsheets_save_it(
    services: ServiceHarness, tmp_path: Path, capsys: Captured, content: str | bytes
) -> None:
    file = tmp_path / "users"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert run(services, "import", str(file)) == 0, capsys.readouterr()
    assert capsys.readouterr().err == ""
    found = [(user.username, user.email, user.status) for user in User.select().order_by(User.username)]
    assert found == [("Alice", "alice@example.org", "approved"), ("Bob", "bob@example.org", "pending")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("users.csv", "username,emial,rank\nAlice,alice@example.org,vip\n"),
        ("users.json", '[{"username": "Alice", "rank": "vip", "emial": "alice@example.org"}]'),
    ],
)
def test_a_column_that_is_almost_one_is_not_ignored(
    services: ServiceHarness, tmp_path: Path, capsys: Captured, name: str, content: str
) -> None:
    file = tmp_path / name
    file.write_text(content, encoding="utf-8")
    assert run(services, "import", str(file)) == 1
    assert "is the column 'emial' email? Rename it, or take it out." in capsys.readouterr().err
    assert names() == set()
    file.write_text(content.replace("emial", "email"), encoding="utf-8")
    assert run(services, "import", str(file)) == 0
    assert capsys.readouterr().err == "columns that mean nothing here: 'rank'\n"


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("", "must be username"),
        ("name,mail\nx,y\n", ""),
        ('{"players": []}', 'no list called "users"'),
        ('[{"username": "Alice"}', "ends too early"),
        ('[{"username": "Alice",}]', "Line 1: this is not JSON"),
        ('username\n"Alice', "not CSV"),
        (b"username\n\xff\xfe", "not encoded as UTF-8"),
    ],
)
def test_a_file_that_is_none_is_explained(
    services: ServiceHarness, tmp_path: Path, capsys: Captured, content: str | bytes, word: str
) -> None:
    file = tmp_path / "users.txt"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert run(services, "import", str(file)) == 1
    assert word in capsys.readouterr().err


def test_a_file_that_is_broken_further_down_is_told_with_what_was_done(
    services: ServiceHarness, file: Path, capsys: Captured
) -> None:
    file.write_text("username\n" + "".join(f"User{number}\n" for number in range(250)) + '"Alice')
    assert run(services, "import", str(file)) == 1
    told = capsys.readouterr().err
    assert "the import stopped after 200 records, which stay as they are now; the same command can be run again" in told
    assert "Line 252: this is not CSV" in told
    assert User.select().count() == 200


@pytest.mark.parametrize(
    ("ending", "told"),
    [
        ('\n  {"username": "Alice",}]}', "Line 304: this is not JSON"),
        ('\n  {"username": "Alice"} {"username": "Bob"}]}', "Line 304: expected ',' or ']'"),
        ("\n  null", "Line 304: the file ends too early"),
    ],
)
def test_a_list_that_is_broken_further_down_is_told_with_its_line(
    services: ServiceHarness, tmp_path: Path, capsys: Captured, ending: str, told: str
) -> None:
    file = tmp_path / "users.json"
    people = "".join(f'\n  {{"username": "User{number}"}},' for number in range(300))
    odd = '\n  {"username": "Bob", "status":\n "none"},'
    file.write_text(f'{{"server": {{"users": []}}, "users": [{odd}{people}{ending}')
    assert run(services, "import", str(file)) == 1
    err = capsys.readouterr().err
    assert "line 2: 'Bob': invalid_status" in err
    assert told in err
    assert User.select().count() == 199, "two whole pages, without Bob"
    assert not User.select().where(User.username_key.in_(["alice", "bob"])).exists()


def test_who_has_ended_in_the_file_alone_is_named(make_services: MakeServices, file: Path, capsys: Captured) -> None:
    services = make_services(sync__new_players="approved")
    for name in ("Alice", "Carol"):
        services.approved(name)
    services.authme.register("Bob", "bobs-password", email=None)
    services.register("Dave")
    services.ours.execute("UPDATE regsvc_user SET ended_because = 'idle' WHERE username = 'Carol'")
    services.sync()
    ended = "".join(f"{name},approved,2020-01-01\n" for name in ("Alice", "Bob", "Carol", "Dave"))
    file.write_text(f"username,status,member_until\n{ended}Alice2,approved,2020-01-01\n")
    for arguments in (["--dry-run"], []):
        run(services, "import", str(file), *arguments)
        lines = [line.partition(" (")[0] for line in capsys.readouterr().err.splitlines()]
        assert lines == ["line 2: 'Alice': not_ended_here", "line 3: 'Bob': not_ended_here"]
    assert services.user("Alice").access == "approved"
    assert services.user("Alice2").access == "ended"


def test_a_file_that_is_not_there_is_explained(services: ServiceHarness, tmp_path: Path, capsys: Captured) -> None:
    assert run(services, "import", str(tmp_path / "users.csv")) == 1
    assert "cannot be read" in capsys.readouterr().err


@pytest.mark.every_database
@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_membership_that_has_ended_lets_nobody_in_after_a_move(
    services: ServiceHarness, tmp_path: Path, capsys: Captured, form: str
) -> None:
    """Alice's ended, Bob's has a month to go, Carol's date came in a file that another program wrote."""
    for name in ("Alice", "Bob"):
        services.approved(name)
    for name, days in (("Alice", 30), ("Bob", 60)):
        term = Term(duration=timedelta(days=days))
        services.app.worker.run_here(services.app.membership_changes.set, name, term, OLIVIA)
    services.clock.advance(days=31)
    services.sync()
    file = tmp_path / f"users.{form}"
    assert run(services, "export", "--format", form, "--with-hashes", "--output", str(file)) == 0
    kept = {name: services.user(name).__data__ for name in ("Alice", "Bob")}
    User.delete().execute()
    services.sync(allow_mass_changes=True)
    assert run(services, "import", str(file)) == 0, capsys.readouterr()
    hashed = HASHERS["SHA256"].hash("carols-secret", "Carol").hash
    file.write_text(f"username,status,member_until,hash,algorithm\nCarol,approved,2020-01-01,{hashed},SHA256\n")
    assert run(services, "import", "--format", "csv", str(file)) == 0, capsys.readouterr()
    services.sync()
    columns = ("member_until", "applied_until", "ended_because", "ended_at", "renewed_at")
    for name, before in kept.items():
        assert {it: services.user(name).__data__[it] for it in columns} == {it: before[it] for it in columns}
    assert [services.user(name).access for name in ("Alice", "Bob", "Carol")] == ["ended", "approved", "ended"]
    assert [services.plugin(name) for name in ("alice", "bob", "carol")] == ["absent", "synced", "absent"]
