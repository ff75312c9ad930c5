"""`GET /api/openapi.json`: the OpenAPI document is complete and correct."""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Annotated, Any, get_args

import pytest
from jsonschema_rs import Draft202012Validator

from regsvc.app.routes import ROUTES
from regsvc.config.host_sections import WebhookEvent
from regsvc.core.errors import REFUSALS
from regsvc.core.i18n import load_translations
from regsvc.core.shapes import Username, encode_output
from regsvc.database.models import OutboxEntry
from regsvc.http.messages import Count, MessageReply, convert
from regsvc.http.openapi import list_refusals, make_schemas
from regsvc.http.route import Access, Route, Routes, SentAs
from regsvc.legacy.routes import legacy_routes
from regsvc.notifications.webhook import render_webhook
from regsvc.users.signals import Kind
from tests.support.contract import document, with_types_in_place
from tests.support.each import assert_each
from tests.support.stack import MakeStack, Stack

CHAT = {"platform": "discord", "id": "1", "username": "alice"}
each_document = pytest.mark.parametrize("is_legacy", [False, True], ids=["true statuses", "legacy statuses"])


def operation_of(route: Route, *, is_legacy: bool = False) -> dict[str, Any]:
    operation: dict[str, Any] = document(is_legacy=is_legacy)["paths"][route.path][route.method.lower()]
    return operation


def response_of(operation: dict[str, Any], status: int) -> dict[str, Any]:
    response: dict[str, Any] = operation["responses"][str(status)]
    name = response.get("$ref", "").rpartition("/")[2]
    return document()["components"]["responses"][name] if name else response


def contents_in(value: object) -> list[dict[str, Any]]:
    """Every media type object in the document, wherever it stands."""
    if isinstance(value, list):
        return [content for member in value for content in contents_in(member)]
    if not isinstance(value, dict):
        return []
    content = value.get("content")
    here = list(content.values()) if isinstance(content, dict) and "examples" not in content else []  # or a field
    return here + [content for member in value.values() for content in contents_in(member)]


def descriptions_in(value: object) -> Iterator[str]:
    """Every description in the document."""
    if isinstance(value, list):
        for member in value:
            yield from descriptions_in(member)
    elif isinstance(value, dict):
        for name, member in value.items():
            if name == "description" and isinstance(member, str):
                yield member
            else:
                yield from descriptions_in(member)


@each_document
def test_it_is_openapi(is_legacy: bool) -> None:
    from openapi_spec_validator import validate  # here: each worker would wait for it, and one uses it

    validate(document(is_legacy=is_legacy))


def test_every_route_says_what_it_is_for() -> None:
    def check(route: Route) -> None:
        operation = operation_of(route)
        assert operation["summary"].endswith(".")
        if route.access is Access.PUBLIC:
            assert operation.get("security", [{}])[0] == {}, "a public route asks for nothing"
        else:
            assert operation["security"] == [{"accessToken": []}]

    assert_each(ROUTES, check)


def test_what_a_caller_may_show_is_told() -> None:
    schemes = document()["components"]["securitySchemes"]
    shown = [schemes[name] for kinds in document()["paths"]["/api/chat/status"]["get"]["security"] for name in kinds]
    places = [(scheme["type"], scheme.get("in"), scheme.get("name")) for scheme in shown]
    assert places == [
        ("http", None, None),
        ("apiKey", "header", "X-Link-Token"),
        ("apiKey", "cookie", "companion_link"),
    ]


def test_another_name_of_a_route_says_so() -> None:
    described = document()["paths"]
    assert described["/api/discord/unlink"]["post"]["description"] == "Alias of `POST /api/chat/unlink`."
    assert described["/api/captcha"]["get"]["description"] == "Alias of `GET /api/captcha/generate`."


def test_every_parameter_is_explained() -> None:
    def check(route: Route) -> None:
        parameters = operation_of(route).get("parameters", [])
        assert not [parameter["name"] for parameter in parameters if not parameter.get("description")]

    assert_each(ROUTES, check)


def test_descriptions_speak_of_what_is_sent() -> None:
    """Docstrings become descriptions, so they use the names on the wire (`banExpiresAt`, null), not the code's."""
    payload = list(descriptions_in(document()))
    codes = {name for text in payload for name in re.findall(r"`([a-z]+(?:_[a-z]+)+)`", text)}
    codes -= set(get_args(Kind))  # of signals, which the description explains
    assert codes - set(REFUSALS) == {event for event in codes if event.startswith(("user_", "sync_"))} - set(REFUSALS)
    assert not [text for text in payload if re.search(r"\bNone\b", text)]


def test_no_example_is_a_mere_word() -> None:
    """A text without an example of its own would be shown as "text"."""
    examples = [
        example
        for content in contents_in(document())
        for example in [content.get("example"), *content.get("examples", {}).values()]
    ]
    assert examples
    named = re.compile(r'"text":|"field": "text"')
    assert not [example for example in examples if '"text"' in named.sub("", json.dumps(example))]


def test_every_operation_has_a_name_of_its_own() -> None:
    names = [operation_of(route)["operationId"] for route in ROUTES]
    assert len(names) == len(set(names))


@each_document
def test_every_example_fits_its_schema(is_legacy: bool) -> None:
    whole = document(is_legacy=is_legacy)
    contents = [content for content in contents_in(whole) if "schema" in content]
    assert len(contents) > len(ROUTES)
    for content in contents:
        validator = Draft202012Validator(with_types_in_place(content["schema"], whole["components"]["schemas"]))
        for example in [content["example"]] if "example" in content else content.get("examples", {}).values():
            validator.validate(example["value"] if "example" not in content else example)


def test_one_and_many_are_told_apart() -> None:
    reply = response_of(document()["paths"]["/api/admin/user/approve"]["post"], 200)["content"]["application/json"]
    one, many = "#/components/schemas/DecisionReply", "#/components/schemas/BulkDecisionReply"
    assert reply["schema"]["discriminator"] == {"propertyName": "kind", "mapping": {"one": one, "many": many}}
    assert [example["value"]["kind"] for example in reply["examples"].values()] == ["one", "many"]


def test_every_event_of_the_webhook_is_described() -> None:
    whole = document()
    assert set(whole["webhooks"]) == set(get_args(WebhookEvent))
    schema = with_types_in_place({"$ref": "#/components/schemas/WebhookCall"}, whole["components"]["schemas"])
    validator = Draft202012Validator(schema)
    for event in whole["webhooks"]:
        payload = {"event": event, "delivery": "1", "username": "Alice", "status": "approved", "at": 1}
        for more in ({}, {"reason": "reject.short_answers"}, {"expiresAt": 2}):
            message = OutboxEntry(language="en", payload=json.dumps(payload | more))
            validator.validate(
                json.loads(
                    render_webhook(message, load_translations(), "Willow Valley", "https://example.org", CHAT)[1]
                )
            )


def test_every_refusal_of_a_route_stands_under_its_status() -> None:
    def check(route: Route) -> None:
        operation = operation_of(route)
        for refusal in list_refusals(route):
            response = response_of(operation, int(refusal.category))
            [content] = response["content"].values()
            assert refusal.code in content["schema"]["allOf"][1]["properties"]["code"]["enum"]
            assert f"`{refusal.code}`" in response["description"]

    assert_each(ROUTES, check)


def test_a_softened_refusal_stands_under_200() -> None:
    def check(route: Route) -> None:
        operation = operation_of(route, is_legacy=True)
        payload = str(operation["responses"].get("200"))
        assert all(f"'{refusal.code}'" in payload for refusal in list_refusals(route) if route.sends_as_200(refusal))

    assert_each(legacy_routes(ROUTES), check)


def test_every_refusal_is_told_by_some_route() -> None:
    """One that no route has is dead, or was forgotten where it is raised."""
    beside_the_table = {"unknown_path", "method_not_allowed"}
    beside_the_table |= {
        "answers_changed",
        "chat_code_invalid",
        "chat_message_unknown",
        "chat_person_unknown",
    }  # in chats
    payload = {refusal.code for route in (*ROUTES, *legacy_routes(ROUTES)) for refusal in list_refusals(route)}
    assert payload | beside_the_table == set(REFUSALS)


def test_no_text_has_a_gap() -> None:
    """`{names}` that nothing fills would look like a mistake of ours."""
    examples = [
        example["value"]["message"]
        for content in contents_in(document())
        for example in content.get("examples", {}).values()
        if isinstance(example["value"], dict) and "message" in example["value"]
    ]
    assert examples
    assert not [message for message in examples if "{" in message]


def test_the_signature_and_the_docstring_are_the_schemas() -> None:
    routes = Routes()

    @routes.add("POST", "/api/greet", Access.PUBLIC)
    async def greet(call: object, *, name: Username, times: Count = 1) -> Annotated[str, SentAs("text", "Greeting")]:
        """Greet somebody."""
        return ", ".join([name] * times)

    @routes.add("POST", "/api/part", Access.PUBLIC)
    async def part(call: object, *, until: int) -> None:
        """Say when to meet again.

        GoodbyeRequest: When to
        meet again.
        """

    names = [route.request_type.__name__ for route in routes if route.request_type is not None]
    assert (names, [route.doc for route in routes]) == (
        ["GreetRequest", "GoodbyeRequest"],
        ["Greet somebody.", "Say when to meet again."],
    )
    schemas = make_schemas([kind for it in routes for kind in (it.request_type, *it.reply_types) if kind is not None])
    assert schemas["GoodbyeRequest"]["description"] == "When to meet again."
    assert (schemas["GreetRequest"]["required"], schemas["Greeting"]["required"]) == (["name"], ["success", "text"])
    [greeted, _parted] = routes
    assert greeted.request_type is not None
    taken: dict[str, Any] = greeted.arguments_of(convert({"name": " Alice ", "times": 2}, greeted.request_type))
    reply = greeted.reply_of(asyncio.run(greet(None, **taken)))
    assert encode_output(reply) == b'{"success":true,"text":"Alice, Alice"}'


def test_a_function_without_types_is_no_route() -> None:
    def untyped(call: object, name: str) -> object: ...

    with pytest.raises(TypeError, match="untyped has no request and reply types"):
        Routes().add("GET", "/api/untyped", Access.PUBLIC)(untyped)  # type: ignore[type-var]


@pytest.mark.parametrize("described", ["NoteReqest", "NoteQuery: A name.\n\nNoteRequest", "NoteReply", "Note"])
def test_a_docstring_describes_no_other_schema(described: str) -> None:
    async def note(call: object, *, text: str) -> MessageReply:
        return MessageReply(message=text)

    note.__doc__ = f"Write a note.\n\n{described}: A note about a user."
    with pytest.raises(TypeError, match=r"note describes Note.*, which it does not define"):
        Routes().add("POST", "/api/note", Access.PUBLIC)(note)


def test_the_host_serves_it_to_anybody(stack: Stack) -> None:
    reply = stack.get("/api/openapi.json")
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "application/json; charset=utf-8"
    assert reply.json == document()
    assert stack.get("/api/openapi.json").body == reply.body


def test_it_tells_where_the_host_is_and_how_it_refuses(make_stack: MakeStack) -> None:
    config = {"server": {"base_url": "https://play.example.org/companion"}, "http": {"legacy_status": True}}
    reply = make_stack("sqlite", config=config).get("/api/openapi.json")
    assert reply.json["servers"] == [{"url": "https://play.example.org/companion"}]
    assert "200" in reply.json["info"]["description"]
    assert reply.json["paths"] == document(is_legacy=True)["paths"]
