"""A minor version breaks no promise of the released one: what is promised is in docs/compatibility.md."""

import argparse
import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from regsvc import __version__
from regsvc.cli.command_line import CommandParser, build_parser
from regsvc.cli.transfer.user_files import AUDIT_COLUMNS, HASH_COLUMNS, USER_COLUMNS
from regsvc.config import key_types as key
from regsvc.config.host_sections import COMMAND_EVENTS
from regsvc.config.key_types import keys_of
from regsvc.config.layers import SECTIONS
from regsvc.database.migrator import statements_of
from regsvc.runtime.metrics import Metrics
from tests.compatibility import names, released
from tests.compatibility.api import Promises, find_broken, promises_of
from tests.compatibility.names import list_names, promises_of_names
from tests.compatibility.released import WHAT_TO_DO, released_document, released_names
from tests.generators.schema import list_tables
from tests.support.contract import document

Change = Callable[[Any], object]


@cache
def promised() -> Promises:
    return promises_of(released_document())


def test_the_api_keeps_what_was_released() -> None:
    broken = find_broken(promised(), promises_of(document()))
    assert not broken, "\n".join([WHAT_TO_DO.format(released=released_document()["info"]["version"]), *broken])


def test_every_name_of_the_release_is_there_and_means_the_same() -> None:
    broken = find_broken(promises_of_names(released_names()), promises_of_names(list_names()))
    assert not broken, "\n".join([WHAT_TO_DO.format(released=released_document()["info"]["version"]), *broken])


def test_the_files_are_this_versions() -> None:
    assert released_document()["info"]["version"] == __version__, "run: make promise"


def test_the_released_document_is_openapi() -> None:
    from openapi_spec_validator import validate  # here: each worker would wait for it, and one uses it

    validate(released_document())


def schema(whole: Any, name: str) -> Any:
    return whole["components"]["schemas"][name]


def drop_a_code(whole: Any) -> None:
    whole["paths"]["/api/register"]["post"]["responses"]["409"]["content"]["application/json"]["schema"]["allOf"][1][
        "properties"
    ]["code"]["enum"].remove("reapply_later")


def need_an_address(whole: Any) -> None:
    schema(whole, "RegisterRequest")["required"].append("email")


def rename_a_field(whole: Any) -> None:
    fields = schema(whole, "RegisterReply")["properties"]
    fields["applicationKey"] = fields.pop("applicationToken")


def refuse_bedrock(whole: Any) -> None:
    schema(whole, "RegisterRequest")["properties"]["platform"]["enum"].remove("bedrock")


def leave_a_field_out(whole: Any) -> None:
    schema(whole, "RegisterReply")["required"].remove("applicationToken")


def reply_with_null(whole: Any) -> None:
    fields = schema(whole, "RegisterReply")["properties"]
    fields["username"] = {"anyOf": [fields["username"], {"type": "null"}]}


def shorten_a_field(whole: Any) -> None:
    fields = schema(whole, "RegisterRequest")["properties"]
    fields["invitation"]["anyOf"][0]["maxLength"] = 50


def ask_for_a_token(whole: Any) -> None:
    whole["paths"]["/api/server/status"]["get"]["security"] = [{"accessToken": []}]


def need_another_permission(whole: Any) -> None:
    whole["paths"]["/api/admin/users"]["get"]["x-permission"] = "users.manage"


def take_no_null(whole: Any) -> None:
    schema(whole, "RegisterRequest")["properties"]["email"] = {"type": "string"}


def rename_a_webhooks_field(whole: Any) -> None:
    fields = schema(whole, "WebhookFields")["properties"]
    fields["name"] = fields.pop("username")


def need_a_parameter(whole: Any) -> None:
    new = {"name": "edition", "in": "query", "required": True, "schema": {"type": "string"}}
    whole["paths"]["/api/server/status"]["get"].setdefault("parameters", []).append(new)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda whole: whole["paths"].pop("/api/user/why"), "gone: GET /api/user/why"),
        (lambda whole: whole["webhooks"].pop("approved"), "gone: webhook approved"),
        (rename_a_webhooks_field, "gone: webhook approved: has companion.username"),
        (take_no_null, "gone: POST /api/register: takes email: a value of type null"),
        (drop_a_code, "gone: POST /api/register: refuses with 409 reapply_later"),
        (need_an_address, "demanded: POST /api/register: needs email"),
        (rename_a_field, "gone: POST /api/register: 201: has applicationToken"),
        (refuse_bedrock, "gone: POST /api/register: takes platform: 'bedrock'"),
        (leave_a_field_out, "gone: POST /api/register: 201: has applicationToken always"),
        (reply_with_null, "demanded: POST /api/register: 201: has username: may be of type null"),
        (shorten_a_field, "tighter: POST /api/register: takes invitation: maxLength 50"),
        (ask_for_a_token, "gone: GET /api/server/status: may be asked with no token"),
        (need_another_permission, "demanded: GET /api/admin/users: needs the permission users.manage"),
        (need_a_parameter, "demanded: GET /api/server/status: needs query parameter edition"),
    ],
)
def test_a_broken_promise_is_told(change: Change, told: str) -> None:
    later = copy.deepcopy(released_document())
    change(later)
    assert told in find_broken(promised(), promises_of(later))


def test_what_is_added_breaks_nothing() -> None:
    later = copy.deepcopy(released_document())
    register, reply = schema(later, "RegisterRequest"), schema(later, "RegisterReply")
    register["properties"]["platform"]["enum"].append("console")
    register["properties"]["guardian"] = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 40}},
        "required": ["name"],
    }
    register["required"].remove("username")
    reply["properties"]["place"] = {"type": "integer"}
    reply["properties"]["status"]["enum"].append("invited")
    reply["required"].append("place")
    later["paths"]["/api/admin/greet"] = {
        "post": {
            "requestBody": {
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/RegisterRequest"}}}
            },
            "responses": {"200": {"description": ""}},
        }
    }
    assert find_broken(promised(), promises_of(later)) == []


def find_lost() -> list[str]:
    return find_broken(promises_of_names(released_names()), promises_of_names(list_names()))


def change_option(command: str, option: str, **changed: object) -> Callable[[CommandParser], None]:
    """Return a change of an option or argument of a command."""

    def change(parser: CommandParser) -> None:
        [action] = [it for it in find_command(parser, command)._actions if option in (*it.option_strings, it.dest)]
        for name, value in changed.items():
            setattr(action, name, value)

    return change


def add_option(command: str, name: str, **given: Any) -> Callable[[CommandParser], object]:
    return lambda parser: find_command(parser, command).add_argument(name, **given)


def exclude_each_other(parser: CommandParser) -> None:
    export = find_command(parser, "export")
    export.add_mutually_exclusive_group()._group_actions += [
        it for it in export._actions if it.dest in ("format", "what")
    ]


def find_command(parser: argparse.ArgumentParser, command: str) -> argparse.ArgumentParser:
    for word in command.split():
        [choices] = [it.choices for it in parser._actions if isinstance(it, argparse._SubParsersAction)]
        parser = choices[word]
    return parser


def change_commands(patched: pytest.MonkeyPatch, *changes: Callable[[CommandParser], object]) -> None:
    parser, parsers = build_parser.__wrapped__()
    for lazy in parsers.values():
        lazy.declare()
    for change in changes:
        change(parser)
    patched.setattr(names, "build_parser", lambda: (parser, {}))


def change_keys(patched: pytest.MonkeyPatch, **changed: Any) -> None:
    """Declare these keys in another way; each is named by its section, too."""

    def keys(declaring: type) -> dict[str, Any]:
        [section] = [name for name, one in SECTIONS.items() if one is declaring] or [""]
        found = {name: changed.get(f"{section}_{name}") for name in keys_of(declaring)}
        return keys_of(declaring) | {name: it.metadata["key"] for name, it in found.items() if it}

    patched.setattr(names, "keys_of", keys)


def change_columns(patched: pytest.MonkeyPatch, **changed: Mapping[str, Any]) -> None:
    """Change these columns of the users."""
    tables = list_tables()
    users = next(table for table in tables if table.name == "regsvc_user")
    users.columns = [replace(column, **changed.get(column.name, {})) for column in users.columns]
    patched.setattr(names, "list_tables", lambda: tables)


def change_text(patched: pytest.MonkeyPatch, name: str, old: str, new: str, folder: Path) -> None:
    """Change one of the texts that names are read from."""
    file: Path = getattr(names, name)
    text = file.read_text("utf-8")
    assert old in text
    (folder / file.name).write_text(text.replace(old, new), "utf-8")
    patched.setattr(names, name, folder / file.name)


class OtherMetrics(Metrics):
    """A counter has become a gauge."""

    def __init__(self) -> None:
        super().__init__()
        self._sync_errors._type = "gauge"


TOLD = {
    "demanded: commands: purge needs --for",
    "demanded: commands: users show needs SERVER",
    "demanded: commands: export needs --output",
    "gone: commands: export --with-hashes: without a value",
    "gone: commands: doctor --language: with a value",
    "demanded: commands: docs needs FILE",
    "gone: commands: export --format json",
    "demanded: commands: export --format needs no --what",
    "tighter: config keys: server.port: a number: minimum 1024",
    "tighter: config keys: sync.every: seconds: maximum 3600",
    "tighter: config keys: http.max_body: bytes: maximum 1048576",
    "gone: config keys: database.threads: may be 1",
    "gone: config keys: registration.methods: may be []",
    "gone: config keys: registration.approval: True by default",
    "gone: config keys: game.commands.banned",
    "gone: config keys: game.commands: {uuid}",
    "gone: tables and views: regsvc_user.registration_ip: VARCHAR",
    "tighter: tables and views: regsvc_user.email: maxLength 100",
    "gone: tables and views: regsvc_user.username: is never empty",
    "gone: tables and views: regsvc_user.reason: may be empty",
    "gone: tables and views: regsvc_v_users.registered_at: TEXT",
    "gone: columns of the export: users: column 4 is status",
    "gone: columns of the export: audit: column 8 is occurrences",
    "gone: columns of the export: users --with-hashes: column 22 is hash",
    "gone: exit statuses: 4 of upgrade-check",
    "gone: metrics: companion_sync_errors: a counter",
}
"""What is told of the changes below, which are made all at once, since to list all names takes a while."""


def test_what_is_lost_or_used_otherwise_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    change_commands(
        monkeypatch,
        add_option("purge", "--for", required=True),
        add_option("users show", "server"),
        change_option("export", "--output", required=True),
        change_option("export", "--with-hashes", nargs=1),
        change_option("doctor", "--language", nargs=0),
        change_option("docs", "file", nargs=None),
        change_option("export", "--format", choices=("csv",)),
        exclude_each_other,
    )
    change_keys(
        monkeypatch,
        server_port=key.integer(8080, "Port.", at_least=1024, at_most=65535),
        sync_every=key.duration("1 minute", "How often.", at_most="1 hour"),
        http_max_body=key.size("64 KiB", "Largest body.", at_least="1 KiB", at_most="1 MiB"),
        database_threads=key.text("4", "Threads."),
        registration_methods=key.text("email", "What proves an applicant."),
        registration_approval=key.flag(False, "Whether the team decides."),
    )
    monkeypatch.setattr(names, "COMMAND_EVENTS", ("approved",))
    monkeypatch.setattr(names, "COMMAND_VALUES", ("username",))
    change_columns(
        monkeypatch,
        registration_ip={"type": "BIGINT"},
        email={"type": "VARCHAR(100)"},
        username={"may_be_empty": True},
        reason={"may_be_empty": False},
    )
    monkeypatch.setattr(
        names,
        "statements_of",
        lambda *given: [text.replace("u.created_at AS", "u.id AS") for text in statements_of(*given)],
    )
    monkeypatch.setattr(names, "USER_COLUMNS", (*USER_COLUMNS[:3], "role", *USER_COLUMNS[3:]))
    monkeypatch.setattr(names, "AUDIT_COLUMNS", AUDIT_COLUMNS[:-1])
    monkeypatch.setattr(names, "COLUMNS_WITH_HASHES", (*USER_COLUMNS, *HASH_COLUMNS))
    change_text(monkeypatch, "REFERENCE", "| 4 | `upgrade-check` |", "| 5 | `upgrade-check` |", tmp_path)
    monkeypatch.setattr(names, "Metrics", OtherMetrics)
    assert set(find_lost()) >= TOLD


def test_a_name_may_be_used_in_more_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    change_commands(
        monkeypatch,
        add_option("users show", "server", nargs="?"),
        add_option("export", "--since"),
        change_option("export", "--with-hashes", nargs="?"),
        change_option("restore", "folder", nargs="*"),
        change_option("export", "--format", choices=("csv", "json", "ods")),
    )
    change_keys(monkeypatch, server_port=key.integer(8080, "Port.", at_least=0, at_most=100_000))
    change_columns(monkeypatch, email={"type": "VARCHAR(640)"})
    monkeypatch.setattr(names, "COMMAND_EVENTS", (*COMMAND_EVENTS, "praised"))
    monkeypatch.setattr(names, "AUDIT_COLUMNS", (*AUDIT_COLUMNS, "server"))
    assert find_lost() == []


def test_a_promise_ends_with_a_major_version_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever only wants the test to pass is stopped, too."""
    monkeypatch.setattr(released, "API_FILE", tmp_path / "openapi.json")
    monkeypatch.setattr(released, "NAMES_FILE", tmp_path / "names.json")
    monkeypatch.setattr(released, "__version__", "1.0.0")
    assert released.main() == 0

    less = copy.deepcopy(document())
    del less["paths"]["/api/user/why"]
    monkeypatch.setattr(released, "document", lambda: less)
    monkeypatch.setattr(released, "__version__", "1.1.0")
    assert released.main() == 1
    assert "gone: GET /api/user/why" in capsys.readouterr().err
    monkeypatch.setattr(released, "__version__", "2.0.0")
    assert released.main() == 0
    assert "/api/user/why" not in released_document()["paths"]
