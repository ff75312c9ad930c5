"""What `companion export` writes, `companion import` takes: whoever had a user has the same one on the new server."""

import csv
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from plugin_bridge.hashers.password_hasher import HASHERS
from plugin_bridge.hashers.slow_hashes import bcrypt_hasher
from regsvc.cli.command_line import parse
from regsvc.cli.data import run_data_command
from regsvc.cli.transfer.user_files import HASH_COLUMNS, USER_COLUMNS
from regsvc.core.clock import to_milliseconds
from regsvc.core.email_address import parse_email
from regsvc.core.text import MAX_REASON, clean_lines, clean_reason
from regsvc.database.audit import Actor
from regsvc.database.models import BANNED, STATUSES, ChatLink, StoredQuestionnaire, SyncRecord, User
from regsvc.users.chat_links import ChatAccount
from regsvc.users.transitions import DecisionDetails
from regsvc.users.user_details import AnsweredQuestion, QuestionnaireResult
from tests.cli.transfer.conftest import Run
from tests.support.authme.authme_tables import AuthMeTable
from tests.support.authme.game_server import GameServer
from tests.support.daemon import Daemon
from tests.support.manual_clock import ManualClock
from tests.support.services import ServiceHarness, open_services

Captured = pytest.CaptureFixture[str]
FORMS: Final = ("csv", "json")
ODD: Final = ("", "+tag", "'quoted'", ".dots.in", "ünïcode", "名", "=1-1", "_" * 50)
DOMAINS: Final = ("example.org", "bücher.example", "xn--bcher-kva.example", "MIXED.Example.Org", "a.test")
HASHED_BY: Final = (HASHERS["SHA256"], HASHERS["SALTEDSHA512"], bcrypt_hasher("BCRYPT", 4))
PASSWORDS: Final = tuple(hasher.hash("a-secret", "Alice") for hasher in HASHED_BY)
ALGORITHMS: Final = ("SHA256", "SALTEDSHA512", "BCRYPT")
EXECUTED: Final = "\x1b]0;PWNED\x07\x9b31m\u202egpj\u2066\x7f\x00"

storable = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
shown = storable.map(lambda text: " ".join(clean_lines(text).split()))
moments = st.datetimes(
    datetime(1970, 1, 2),  # noqa: DTZ001 - the zone is the third argument
    datetime(9999, 12, 30),  # noqa: DTZ001
    timezones=st.just(UTC),
).map(to_milliseconds)
names = st.one_of(st.from_regex(r"[A-Za-z0-9_]{3,16}", fullmatch=True), st.sampled_from(["NULL", "None", "___", "0e0"]))
integers = st.integers(-(2**31) + 1, 2**31 - 1)
reasons = st.one_of(
    st.none(),
    storable,
    st.sampled_from(["=1+1", "'", "\r\nlines\r\n", "ban.griefing", EXECUTED, "x" * 4000, "é" * 5000, " , \" ; '\n'"]),
)
answers = st.builds(
    AnsweredQuestion,
    *(integers, st.just("text"), storable, st.lists(storable, max_size=2).map(tuple), st.none() | integers),
    *(integers, storable, st.lists(integers, max_size=2).map(tuple)),
)
results = st.builds(
    QuestionnaireResult,
    *(integers, integers, integers, st.booleans(), st.booleans()),
    *(st.text(max_size=1000).map(clean_lines), moments, st.lists(answers, max_size=2).map(tuple)),
)
accounts = st.builds(
    ChatAccount,
    platform=st.sampled_from(["discord", "own"]),
    id=st.text("0123456789-abc", min_size=1, max_size=255),
    username=shown,
    discriminator=st.sampled_from(["0", "1234"]),
    avatar=st.none() | shown,
    global_name=st.none() | shown,
)


memberships = st.builds(
    lambda until, ended, renewed_at, stay_asked_at: {
        "member_until": until if ended[0] is not None or until is None else until.replace(year=9000),
        "ended_because": ended[0],
        "ended_at": ended[1],
        "renewed_at": renewed_at,
        "stay_asked_at": stay_asked_at,
    },
    st.none() | moments,
    st.just((None, None)) | st.tuples(st.sampled_from(["date", "idle", "role"]), moments),
    *(st.none() | moments, st.none() | moments),
).map(lambda columns: columns | {"applied_until": columns["member_until"]})


@dataclass(frozen=True)
class Somebody:
    """A user as the services can make them, or as an older version has left them."""

    row: dict[str, Any]
    chat: ChatAccount | None
    result: QuestionnaireResult | None


@st.composite
def people(draw: st.DrawFn) -> list[Somebody]:
    chosen = draw(st.lists(names, min_size=1, max_size=5, unique_by=str.lower))
    return [draw(somebody(number, name)) for number, name in enumerate(chosen)]


@st.composite
def somebody(draw: st.DrawFn, number: int, name: str) -> Somebody:
    is_bedrock = draw(st.booleans())
    username = f".{name}"[:16] if is_bedrock else name
    status = draw(st.sampled_from(STATUSES))
    local_part = draw(st.sampled_from([f"p{number}{odd}" for odd in ODD] + [f'"p{number} \\"q"']))
    address = parse_email(f"{local_part}@{draw(st.sampled_from(DOMAINS))}")
    ownership = draw(st.sampled_from(["none", "noted", "unverified", "verified"]))
    index = draw(st.sampled_from([None, 0, 1, 2]))
    row = {
        "username": username,
        "username_key": username.lower(),
        "email": None if ownership == "none" else address.display,
        "email_key": address.key if ownership in ("unverified", "verified") else None,
        "is_email_verified": ownership == "verified",
        "status": status,
        "applied_status": status,
        "language": draw(st.sampled_from([None, "en", "zh", "pt-BR"])),
        "platform": "bedrock" if is_bedrock else "java",
        "password_hash": None if index is None else PASSWORDS[index].hash,
        "password_salt": None if index is None else PASSWORDS[index].salt,
        "password_algorithm": None if index is None else ALGORITHMS[index],
        "password_set_at": None if index is None else draw(moments),
        "origin": draw(st.sampled_from(["registered", "created"])),
        "registration_ip": draw(st.sampled_from([None, "198.51.100.7", "2001:db8::1", "::ffff:192.0.2.1"])),
        "created_at": draw(moments),
        "reason": draw(reasons),
        "reviewed_by": draw(st.sampled_from([None, "Olivia", "cli:root", "cli:Ünsal O'Hara", "-"])),
        "reviewed_at": draw(st.none() | moments),
        "banned_from": draw(st.sampled_from(STATUSES[:3])) if status == BANNED else None,
        "ban_expires_at": draw(st.none() | moments) if status == BANNED else None,
        "may_reapply": draw(st.booleans()),
        "last_login_at": draw(st.none() | moments),
        "member_for": draw(st.sampled_from([None, "30 days", "1 hour"])),
        **dict.fromkeys(("member_until", "applied_until", "ended_because", "ended_at", "renewed_at", "stay_asked_at")),
    }
    if "approved" in (status, row["banned_from"]):
        row |= draw(memberships)
    account = draw(st.none() | accounts)
    chat = account and ChatAccount(**(asdict(account) | {"id": f"{number}{account.id}"[:255]}))
    return Somebody(row, chat, draw(st.none() | results))


@pytest.fixture
def server(
    game_server: GameServer, authme_table: AuthMeTable, clock: ManualClock, tmp_path: Path
) -> Iterator[ServiceHarness]:
    harness = open_services(game_server, authme_table, clock, tmp_path / "state", bedrock__enabled=True)
    yield harness
    harness.close()


def run_here(services: ServiceHarness, *arguments: str) -> int:
    return run_data_command(parse(arguments), services.app)


def move_in(everyone: list[Somebody]) -> None:
    for number, person in enumerate(everyone):
        user = User.create(**person.row)
        if person.chat is not None:
            given = asdict(person.chat)
            account_id, key = given.pop("id"), person.chat.key
            link = {"account_id": account_id, "claimed_account": key, "token_hash": f"{number}"}
            ChatLink.create(user=user, linked_at=user.created_at, **link, **given)
        if person.result is not None:
            given = vars(person.result) | {"answers": msgspec.json.encode(person.result.answers).decode()}
            StoredQuestionnaire.create(user=user, nonce="nonce", expires_at=None, **given)


def move_out() -> None:
    for model in (ChatLink, StoredQuestionnaire, SyncRecord, User):
        model.delete().execute()


def find_everyone(services: ServiceHarness, columns: list[str]) -> dict[str, Somebody]:
    chats, questionnaires = services.app.chat_links, services.app.questionnaires.results
    return {
        user.username: Somebody(
            {name: getattr(user, name) for name in columns}, chats.find_of(user.id), questionnaires.find_of(user.id)
        )
        for user in User.select()
    }


def check_move(services: ServiceHarness, everyone: list[Somebody], form: str, told: Captured) -> None:
    """Export everyone, import them into the empty installation, and compare."""
    file = services.directory / f"everyone.{form}"
    try:
        move_in(everyone)
        assert run_here(services, "export", "--format", form, "--with-hashes", "--output", str(file)) == 0
        move_out()
        assert run_here(services, "import", str(file)) == 0, told.readouterr()
        assert "imported without" not in told.readouterr().err
        expected = {
            str(person.row["username"]): Somebody(
                person.row | {"reason": clean_reason(person.row["reason"])}, person.chat, person.result
            )
            for person in everyone
        }
        assert find_everyone(services, [*everyone[0].row]) == expected
    finally:
        move_out()


@pytest.mark.one_database("sqlite")
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(everyone=people(), form=st.sampled_from(FORMS))
def test_everyone_arrives_as_they_left(
    server: ServiceHarness, capsys: Captured, everyone: list[Somebody], form: str
) -> None:
    check_move(server, everyone, form, capsys)


@pytest.mark.one_database("mariadb")
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(everyone=people(), form=st.sampled_from(FORMS))
def test_everyone_arrives_as_they_left_on_mariadb(
    server: ServiceHarness, capsys: Captured, everyone: list[Somebody], form: str
) -> None:
    check_move(server, everyone, form, capsys)


@pytest.mark.one_database("sqlite")
@given(written=st.text(st.characters()))
def test_a_reason_is_one_whoever_keeps_it(written: str) -> None:
    kept = clean_reason(written)
    assert kept == clean_reason(kept) == DecisionDetails(written).reason
    assert kept is None or (kept.encode() and kept == kept.strip() and len(kept) <= MAX_REASON)
    assert not set(kept or "") & set("\r\t\0\x1b\x7f\x9b\u2028\u202e")


@pytest.mark.parametrize("form", FORMS)
def test_nothing_that_a_terminal_executes_goes_out(services: ServiceHarness, capsys: Captured, form: str) -> None:
    """Mallory was banned by an older version, and Bob is by this one."""
    services.approved("Mallory")
    services.approved("Bob")
    services.decide("ban", "Bob", reason=f"one\r\ntwo{EXECUTED}")
    services.decide("ban", "Mallory")
    User.update(reason=f"one\r\ntwo{EXECUTED}").where(User.username == "Mallory").execute()
    services.app.audit.record("user.login_failed", Actor(f"Eve{EXECUTED}"))
    for what in ("users", "audit"):
        assert run_here(services, "export", "--format", form, "--what", what) == 0
        out = capsys.readouterr().out
        assert not {*out} & {*EXECUTED} - {*"]0;PWNED31mgpj"}
    assert services.user("Bob").reason == "one\ntwo]0;PWNED31mgpj"
    assert [detail["reason"] for detail in services.details("user.banned", "Bob")] == ["one\ntwo]0;PWNED31mgpj"]


@pytest.mark.one_database("sqlite")
def test_an_export_is_in_utf_8_in_any_locale(place: Daemon, run: Run) -> None:
    file = place.directory / "users.json"
    file.write_text(json.dumps([{"username": "Alice", "status": "banned", "reason": "破坏 \N{GRINNING FACE}"}]))
    assert run("import", str(file)).status == 0
    assert "破坏 \N{GRINNING FACE}" in run("export", PYTHONIOENCODING="latin-1").output


@pytest.mark.parametrize("form", FORMS)
def test_a_ban_moves_whatever_else_is_wrong_with_its_record(
    services: ServiceHarness, tmp_path: Path, capsys: Captured, form: str
) -> None:
    services.approved("Alice")
    wrong: list[dict[str, object]] = [
        {"username": "Al", "status": "banned", "email": "no address", "reason": "\x1b" + "x" * 9000},
        {"username": "Eve", "status": "Banned ", "email": "alice@example.org", "registered_at": "last year"},
        {"username": ".Steve", "status": "banned", "platform": "bedrock", "hash": "!locked!abc", "chat": "{}"},
        {"username": "Griefer", "status": "APPROVED", "is_banned": 1.0, "ban_reason": "griefing", "salt": "\0"},
        {"username": "Trudy", "status": "approved", "is_banned": "t "},
    ]
    file = tmp_path / f"users.{form}"
    if form == "json":
        file.write_text(json.dumps(wrong))
    else:
        columns = list(dict.fromkeys(name for record in wrong for name in record))
        with file.open("w", newline="") as opened:
            writer = csv.DictWriter(opened, columns)
            writer.writeheader()
            writer.writerows(wrong)
    assert run_here(services, "import", str(file)) == 0
    told = capsys.readouterr()
    assert "imported 5, " in told.out
    assert {line.split(": ", 1)[1] for line in told.err.splitlines()} == {
        "'Al': invalid_email (this is no e-mail address); imported without it",
        "'Eve': email_taken (another user has the e-mail address); imported without it",
        "'Eve': invalid_registered_at (registered_at, or regTime, is not a time); imported without it",
        "'.Steve': invalid_hash (the password's hash has characters that no hash has); imported without it",
        "'.Steve': invalid_chat (the value of chat cannot be used); imported without it",
        "'Griefer': invalid_salt (the value of salt cannot be used); imported without it",
    }
    banned = {user.username: user.reason for user in User.select().where(User.status == BANNED)}
    assert banned == {"Al": "x" * 3999 + "…", "Eve": None, ".Steve": None, "Griefer": "griefing", "Trudy": None}
    assert services.user("Griefer").banned_from == "approved"


anything = st.one_of(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=40),
    st.sampled_from(
        ["banned", "APPROVED", "0001-01-01", "0001-01-01T00:00+14:00", "9999-12-31T23:59:59-14:00", "x" * 400]
    ),
    st.sampled_from(["\N{GRINNING FACE}@example.org", "a@b.test", "SHA256", "$SHA$a$b", "java", "1e999", '{"id": 7}']),
    st.sampled_from([asdict(ChatAccount("discord", "1" * 256, "")), {"platform": "\ud800"}, [], [[]] * 9]),
    results.map(lambda result: msgspec.to_builtins(result) | {"submitted_at": "0001-01-01T00:00:00+14:00"}),
)
records = st.dictionaries(st.sampled_from([*USER_COLUMNS, *HASH_COLUMNS, "banned", "regTime", "\ud800"]), anything)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(odd=st.lists(records | anything, max_size=8), name=st.none() | names)
@example(odd=[{"username": "\ud800x"}], name=None)
def test_whatever_a_record_says_it_stops_nothing_else(
    server: ServiceHarness, capsys: Captured, odd: list[Any], name: str | None
) -> None:
    """Alice is the last of the file."""
    if name is not None:
        odd = [
            record | {"username": f"{name}{number}"[-16:]}
            for number, record in enumerate(odd)
            if isinstance(record, dict)
        ]
    file = server.directory / "users.json"
    file.write_text(json.dumps([*odd, {"username": "__Alice__", "status": "banned"}]))
    try:
        status = run_here(server, "import", str(file))
        told = capsys.readouterr()
        assert (server.user("__Alice__").status, "refused 0" in told.out) == (BANNED, status == 0)
        assert run_here(server, "export", "--with-hashes", "--output", str(file)) == 0
    finally:
        move_out()


def test_a_name_that_no_database_takes_is_its_own_records_refusal(
    services: ServiceHarness, tmp_path: Path, capsys: Captured
) -> None:
    file = tmp_path / "users.json"
    file.write_text('[{"username": "\\ud800x"}, {"username": "J\\u0000"}, {"username": "Alice", "guild": 7}]')
    assert run_here(services, "import", str(file)) == 1
    told = capsys.readouterr()
    assert [line.partition(" (")[0] for line in told.err.splitlines()] == [
        "line 1: '\\ud800x': invalid_username",
        "line 1: 'J\\x00': invalid_username",
        "columns that mean nothing here: 'guild'",
    ]
    assert [user.username for user in User.select()] == ["Alice"]
