"""A minor version breaks no promise of the released one: what is promised is in docs/compatibility.md."""

import copy
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from regsvc import __version__
from tests.compatibility import released
from tests.compatibility.api import Promises, find_broken, promises_of
from tests.compatibility.names import list_names
from tests.compatibility.released import WHAT_TO_DO, find_lost_names, released_document, released_names
from tests.support.contract import document

Change = Callable[[Any], object]


@cache
def promised() -> Promises:
    return promises_of(released_document())


def test_the_api_keeps_what_was_released() -> None:
    broken = find_broken(promised(), promises_of(document()))
    assert not broken, "\n".join([WHAT_TO_DO.format(released=released_document()["info"]["version"]), *broken])


def test_every_name_of_the_release_is_there() -> None:
    lost = find_lost_names(released_names(), list_names())
    assert not lost, "\n".join([WHAT_TO_DO.format(released=released_document()["info"]["version"]), *lost])


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


def need_a_parameter(whole: Any) -> None:
    new = {"name": "edition", "in": "query", "required": True, "schema": {"type": "string"}}
    whole["paths"]["/api/server/status"]["get"].setdefault("parameters", []).append(new)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda whole: whole["paths"].pop("/api/user/why"), "gone: GET /api/user/why"),
        (lambda whole: whole["webhooks"].pop("approved"), "gone: webhook approved"),
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


def test_a_lost_name_is_told() -> None:
    now = list_names()
    now["config keys"].remove("server.base_url")
    assert find_lost_names(released_names(), now) == ["config keys: server.base_url"]


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
