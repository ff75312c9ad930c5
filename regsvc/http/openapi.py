"""The OpenAPI 3.1 document, generated from the route table: the types, refusals and docstrings of its functions.

Operations and schemas are never written by hand, so they cannot be out of date.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Final, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from regsvc import __version__
from regsvc.config.host_sections import WebhookEvent
from regsvc.core import errors
from regsvc.core.errors import REFUSALS, Category, Refusal
from regsvc.core.i18n import FALLBACK_LANGUAGE, Translations
from regsvc.core.shapes import LAST_MILLISECOND, EpochMilliseconds, Output, Username
from regsvc.http.call import Call
from regsvc.http.messages import Request
from regsvc.http.route import (
    ACCESS_TOKEN,
    ADDRESS_PROOF,
    APPLICATION_TOKEN,
    APPLICATION_TOKEN_HEADER,
    LINK_COOKIE,
    LINK_COOKIE_NAME,
    LINK_TOKEN,
    LINK_TOKEN_HEADER,
    PROOF_HEADER,
    PUBLIC,
    Access,
    Route,
    Routes,
)

Schema = dict[str, Any]

ROUTES: Final = Routes()

_REF_PREFIX: Final = "#/components/schemas/"
_PLACEHOLDERS: Final = {"string": "text", "integer": 1, "number": 1, "boolean": True, "array": [], "null": None}


def make_schemas(types: Iterable[type]) -> dict[str, Schema]:
    """Return the schemas of struct types and of all structs nested in them, by name.

    Fields of replies are marked as required even if they have a default: replies are only written, never read, and
    always contain them.
    """
    schemas: dict[str, Schema] = msgspec.json.schema_components(types, ref_template=_REF_PREFIX + "{name}")[1]
    outputs = {kind.__name__: kind for kind in _outputs(Output)}
    _rewrite_times(schemas)
    for name, schema in schemas.items():
        if "description" in schema:
            schema["description"] = inspect.cleandoc(schema["description"])
        for field in schema.get("properties", {}).values():
            _describe_default(field)
        if name in outputs:
            fields = msgspec.structs.fields(outputs[name])
            schema["required"] = [field.encode_name for field in fields if field.default is not UNSET]
    return schemas


def _rewrite_times(schema: Any) -> None:
    """Make the schemas of times those of what is sent (`encode_output`)."""
    if isinstance(schema, dict):
        if schema.get("format") == "date-time":
            del schema["format"]
            schema |= {"type": "integer", "minimum": 0, "maximum": LAST_MILLISECOND}
        schema = list(schema.values())
    if isinstance(schema, list):
        for member in schema:
            _rewrite_times(member)


def _describe_default(field: Schema) -> None:
    """Tell the default in words: generators of clients make each field that has one mandatory."""
    default = field.pop("default", None)
    if default or default is False:
        words = f"{json.dumps(default)} if missing."
        field["description"] = f"{field['description']} {words}" if "description" in field else words.capitalize()


def reference(kind: type) -> Schema:
    """Return a `$ref` schema for this type."""
    return {"$ref": _REF_PREFIX + kind.__name__}


def example_of(schema: Mapping[str, Any], schemas: Mapping[str, Schema]) -> Any:
    """Return a value that fits the schema: the declared examples, and placeholders for fields without one."""
    if "$ref" in schema:
        return example_of(schemas[schema["$ref"].removeprefix(_REF_PREFIX)], schemas)
    for key in ("examples", "enum"):
        if key in schema:
            return schema[key][0]
    if "const" in schema:
        return schema["const"]
    if "anyOf" in schema:
        alternatives = schema["anyOf"]
        told = (alternative for alternative in alternatives if _has_example(alternative, schemas))
        return example_of(next(told, alternatives[-1]), schemas)
    if schema.get("type") == "object":
        return _example_object(schema, schemas)
    if schema.get("type") == "array" and schema.get("minItems", 0 if "$ref" not in schema.get("items", {}) else 1):
        return [example_of(schema["items"], schemas)]
    return schema.get("default", _PLACEHOLDERS.get(schema.get("type", "null")))


def _example_object(schema: Mapping[str, Any], schemas: Mapping[str, Schema]) -> dict[str, Any]:
    """Return an object with the required fields and the optional ones that have an example."""
    required = schema.get("required", ())
    return {
        name: example_of(field, schemas)
        for name, field in schema.get("properties", {}).items()
        if name in required or _has_example(field, schemas)
    }


def _has_example(schema: Mapping[str, Any], schemas: Mapping[str, Schema]) -> bool:
    if "$ref" in schema:
        return _has_example(schemas[schema["$ref"].removeprefix(_REF_PREFIX)], schemas)
    if any(_has_example(part, schemas) for part in schema.get("anyOf", ())):
        return True
    return "examples" in schema or "const" in schema or "properties" in schema


def _outputs(kind: type[Output]) -> Iterator[type[Output]]:
    for output in kind.__subclasses__():
        yield output
        yield from _outputs(output)


GENERAL: Final[tuple[type[Refusal], ...]] = (
    errors.MalformedRequest,
    errors.MalformedBody,
    errors.Unauthorized,
    errors.BodyTooLarge,
    errors.HeadersTooLarge,
    errors.UnsupportedMediaType,
    errors.InternalServerError,
    errors.DatabaseUnavailable,
    errors.Overloaded,
    errors.Busy,
)
"""Refusals that any route may answer with."""


class WebhookFields(Output, frozen=True, kw_only=True):
    """An event; `reason` is in words, and `reasonCode` names it if it is a built-in one."""

    server: Annotated[str, Meta(description="`server.name`.", examples=["Willow Valley"])]
    event: Annotated[str, Meta(extra_json_schema={"enum": list(get_args(WebhookEvent))}, examples=["approved"])]
    delivery: Annotated[str, Meta(examples=["1f0e7c52-6c0b-4bb0-9f5e-2d1b6a0f9c11"])]
    username: Username
    status: Annotated[
        str,
        Meta(
            extra_json_schema={"enum": ["pending", "approved", "rejected", "banned", "deleted"]}, examples=["approved"]
        ),
    ]
    at: EpochMilliseconds
    reason: str | UnsetType = UNSET
    reason_code: str | UnsetType = UNSET
    expires_at: EpochMilliseconds | UnsetType = UNSET
    chat_account: (
        Annotated[dict[str, str], Meta(description="`platform`, `id` and `username` of the linked account.")]
        | UnsetType
    ) = UNSET
    admin_url: Annotated[str, Meta(description="The user's page at `/admin`.")] | UnsetType = UNSET


class WebhookCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a webhook: `companion` is for programs, the rest for chat services that take such messages."""

    content: Annotated[str, Meta(examples=["Alice was approved."])]
    embeds: list[dict[str, str]]
    allowed_mentions: dict[str, list[str]]
    companion: WebhookFields


_ABOUT: Final = """\
The registration and administration backend beside a Minecraft server.

Bodies are JSON objects in UTF-8; unknown fields are ignored. A success is `{"success": true, …}`. A refusal is
`{"success": false, "code": …, "message": …}` with an HTTP error status: `code` is stable and for programs, `message` is
for people, in the requested language (`language`, else the user's own, else `Accept-Language`). Times are milliseconds
since 1970, UTC. Every reply has an `X-Request-ID` header; the server's log contains the same id.

A `POST` whose reply was lost can be sent again with the same `Idempotency-Key` (16 to 64 letters, digits, `-` and `_`):
within an hour it is carried out once, and gets the reply again. Only the answer to a captcha, `totp` and `language` may
differ. With `X-Replay-Only` nothing is carried out; the status is 204 if nothing was. A restart of the server forgets.
"""
_ABOUT_LEGACY: Final = """
On this host, refusals by business rules have status 200 and `success: false` (`http.legacy_status`).
"""

_REFUSAL: Final[Schema] = {
    "title": "Refusal",
    "description": "An error with a stable code, and the facts that a client may need.",
    "type": "object",
    "properties": {
        "success": {"type": "boolean", "const": False},
        "code": {"type": "string", "enum": sorted(REFUSALS), "description": "A stable code for programs."},
        "message": {"type": "string", "description": "Text for people, in their language."},
        "field": {"type": "string", "description": "The field of the request that was refused."},
        "fault": {"type": "string", "description": "The exact rule that was broken."},
        "remainingSeconds": {"type": "integer", "description": "Seconds until the next attempt is allowed."},
        "captchaHelps": {
            "type": "boolean",
            "description": "Whether the next attempt is allowed at once, with a solved captcha.",
        },
    },
    "required": ["success", "code", "message"],
}
_HEADERS: Final[dict[str, Schema]] = {
    "X-Request-ID": {
        "description": "The id that the request sent, else a new one; the server's log contains the same id.",
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"},
    },
    "Location": {"description": "The address to continue at.", "schema": {"type": "string"}},
    "Retry-After": {
        "description": "Seconds until a retry makes sense.",
        "schema": {"type": "string", "pattern": "^[0-9]+$"},
    },
}
_SECURITY_SCHEMES: Final[dict[str, Schema]] = {
    ACCESS_TOKEN: {
        "type": "http",
        "scheme": "bearer",
        "description": "The `token` returned by `POST /api/login` or `POST /api/admin/login`.",
    },
    LINK_TOKEN: {
        "type": "apiKey",
        "in": "header",
        "name": LINK_TOKEN_HEADER,
        "description": "The `linkToken` returned by `GET /api/chat/auth`.",
    },
    ADDRESS_PROOF: {
        "type": "apiKey",
        "in": "header",
        "name": PROOF_HEADER,
        "description": "The `proof` returned by `POST /api/verify/check`.",
    },
    APPLICATION_TOKEN: {
        "type": "apiKey",
        "in": "header",
        "name": APPLICATION_TOKEN_HEADER,
        "description": "The `applicationToken` returned by `POST /api/register`, or the token in the receipt's link.",
    },
    LINK_COOKIE: {
        "type": "apiKey",
        "in": "cookie",
        "name": LINK_COOKIE_NAME,
        "description": "The link tokens of this browser, set by `GET /api/chat/auth`; over HTTPS the cookie's name "
        "starts with `__Host-`.",
    },
}
_FACTS: Final[dict[str, object]] = {
    "field": "username",
    "maxBytes": 65536,
    "questionId": 1,
    "remainingSeconds": 42,
    "requestId": "5f3c",
    "status": "banned",
}
"""Values for the placeholders in the messages of example refusals."""


class OpenApiBuilder:
    """Builder of the OpenAPI document for a route table."""

    def __init__(
        self, routes: Iterable[Route], translations: Translations, *, server_url: str, is_legacy: bool
    ) -> None:
        """Prepare the schemas; `server_url` precedes all paths, `is_legacy` gives business refusals status 200."""
        self._routes = list(routes)
        self._translations = translations
        self._server_url = server_url
        self._is_legacy = is_legacy
        self._shared_responses: dict[str, Any] = {}
        used = (kind for route in self._routes for kind in (route.request_type, *route.reply_types))
        self._schemas = make_schemas({kind: None for kind in (*used, WebhookCall) if kind is not None})

    def build(self) -> dict[str, Any]:
        """Return the whole document as plain data."""
        paths: dict[str, dict[str, Any]] = {}
        for route in self._routes:
            paths.setdefault(route.path, {})[route.method.lower()] = self._operation(route)
        return {
            "openapi": "3.1.0",
            "info": {
                "title": "Companion",
                "version": __version__,
                "description": _ABOUT + (_ABOUT_LEGACY if self._is_legacy else ""),
            },
            "servers": [{"url": self._server_url}],
            "paths": paths,
            "webhooks": {event: {"post": self._webhook(event)} for event in get_args(WebhookEvent)},
            "components": {
                "schemas": {**self._schemas, "Refusal": _REFUSAL},
                "responses": self._shared_responses,
                "headers": _HEADERS,
                "securitySchemes": _SECURITY_SCHEMES,
            },
        }

    def _webhook(self, event: str) -> dict[str, Any]:
        schema = reference(WebhookCall)
        return {
            "operationId": "webhook" + event.title().replace("_", ""),
            "summary": f"The event `{event}` of a user.",
            "description": "Sent to `webhook.url`, signed in `webhook-signature`; `webhook-id` is the same at every "
            "attempt. It is repeated for a day until the status is one of 2xx.",
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": schema, "example": example_of(schema, self._schemas)}},
            },
            "responses": {"2XX": {"description": "The event was received."}},
        }

    def _operation(self, route: Route) -> dict[str, Any]:
        summary, _blank, more = route.doc.partition("\n\n")
        first = next(known for known in self._routes if known.answer is route.answer)
        if first is not route:
            more = f"Alias of `{route.method} {first.path}`."
        operation: dict[str, Any] = {
            "operationId": _operation_id(route.method, route.path),
            "tags": [route.path.removeprefix("/api").split("/")[1].removesuffix(".json")],
            "summary": " ".join(summary.split()),
            "responses": self._responses(route),
        }
        if route.is_deprecated:
            operation["deprecated"] = True
        if route.permission is not None:
            operation["x-permission"] = route.permission.value
            more = f"{more}\n\nRequires the permission `{route.permission}`.".strip()
        if more:
            operation["description"] = more
        if route.access in (Access.USER, Access.ADMIN):
            operation["security"] = [{ACCESS_TOKEN: []}]
        elif route.credentials:
            operation["security"] = [{}, *({scheme: []} for scheme in route.credentials)]
        if route.request_type is not None:
            operation |= self._input(route.method, route.request_type)
        return operation

    def _input(self, method: str, request_type: type[Request]) -> dict[str, Any]:
        if method == "GET":
            return {"parameters": list(self._parameters(request_type))}
        schema = reference(request_type)
        content = {"application/json": {"schema": schema, "example": example_of(schema, self._schemas)}}
        is_needed = bool(self._schemas[request_type.__name__].get("required"))
        return {"requestBody": {"required": is_needed, "content": content}}

    def _parameters(self, query: type[Request]) -> Iterator[dict[str, Any]]:
        schema = self._schemas[query.__name__]
        for name, field in schema["properties"].items():
            kinds = [kind for kind in field.get("anyOf", [field]) if kind.get("type") != "null"]
            value = dict(kinds[0] if len(kinds) == 1 else {"anyOf": kinds})
            parameter = {"name": name, "in": "query", "required": name in schema.get("required", ())}
            if "description" in value:
                parameter["description"] = value.pop("description")
            yield parameter | {"schema": value}

    def _responses(self, route: Route) -> dict[str, Any]:
        refusals = list_refusals(route)
        sent_as_200 = [kind for kind in refusals if self._is_legacy and route.sends_as_200(kind)]
        responses: dict[str, Any] = {str(route.status): self._success(route, sent_as_200)}
        if sent_as_200 and route.status != 200:
            responses["200"] = self._refused(sent_as_200)
        if route.redirects:
            responses["303"] = {"description": route.redirects, "headers": _headers("X-Request-ID", "Location")}
        for category in sorted({kind.category for kind in refusals}):
            kinds = [kind for kind in refusals if kind.category is category and kind not in sent_as_200]
            if kinds:
                responses[str(int(category))] = self._refused(kinds)
        return responses

    def _success(self, route: Route, sent_as_200: list[type[Refusal]]) -> dict[str, Any]:
        described: dict[str, Any] = {"description": "Done.", "headers": _headers("X-Request-ID")}
        if route.media_type != "application/json":
            content: dict[str, Any] = {route.media_type: {"schema": {"type": "string"}}}
            if sent_as_200 and route.status == 200:
                content["application/json"] = {"schema": _refusal_schema(sent_as_200)}
            return described | {"content": content}
        if not route.reply_types:
            return described | {"content": {"application/json": {"schema": {"type": "object"}}}}
        kinds = [reference(kind) for kind in route.reply_types]
        examples = {kind.__name__: {"value": example_of(reference(kind), self._schemas)} for kind in route.reply_types}
        schema = kinds[0] if len(kinds) == 1 else self._alternatives(route.reply_types)
        if sent_as_200 and route.status == 200:
            schema = {"anyOf": [schema, _refusal_schema(sent_as_200)]}
        return described | {"content": {"application/json": {"schema": schema, "examples": examples}}}

    def _alternatives(self, kinds: Sequence[type]) -> Schema:
        """Return the schema of replies of which each names its kind, or which have nothing that tells them apart."""
        fields = [self._schemas[kind.__name__]["properties"].get("kind") for kind in kinds]
        references = [reference(kind) for kind in kinds]
        if not all(fields):
            return {"anyOf": references}
        mapping = {field["const"]: it["$ref"] for field, it in zip(fields, references, strict=True)}
        return {"oneOf": references, "discriminator": {"propertyName": "kind", "mapping": mapping}}

    def _refused(self, kinds: list[type[Refusal]]) -> dict[str, Any]:
        """Return the response of one status, as a reference if all routes may answer with it."""
        if not set(kinds) <= set(GENERAL):
            return self._refused_response(kinds)
        name = f"Refused{int(kinds[0].category)}"
        self._shared_responses.setdefault(name, self._refused_response(kinds))
        return {"$ref": f"#/components/responses/{name}"}

    def _refused_response(self, kinds: list[type[Refusal]]) -> dict[str, Any]:
        may_retry = any(kind.category in (Category.LIMITED, Category.UNAVAILABLE) for kind in kinds)
        return {
            "description": "\n".join(f"- `{kind.code}`: {self._about(kind)}" for kind in kinds),
            "headers": _headers("X-Request-ID", *(["Retry-After"] if may_retry else [])),
            "content": {
                "application/json": {
                    "schema": _refusal_schema(kinds),
                    "examples": {kind.code: {"value": self._example_refusal(kind)} for kind in kinds},
                }
            },
        }

    def _about(self, kind: type[Refusal]) -> str:
        """Return the first paragraph of the refusal's docstring, else its message."""
        doc = inspect.cleandoc(vars(kind).get("__doc__") or "").partition("\n\n")[0]
        return " ".join(doc.split()) or self._message(kind)

    def _message(self, kind: type[Refusal]) -> str:
        return self._translations.text(f"refusal.{kind.code}", FALLBACK_LANGUAGE, **(_FACTS | kind.usual_facts))

    def _example_refusal(self, kind: type[Refusal]) -> dict[str, Any]:
        body: dict[str, Any] = {"success": False, "code": kind.code, "message": self._message(kind)}
        if kind.field:
            body["field"] = kind.field
        return body | ({"remainingSeconds": 42} if kind.category is Category.LIMITED else {})


def list_refusals(route: Route) -> list[type[Refusal]]:
    """Return every refusal the route may reply with, its own first."""
    return list(dict.fromkeys((*route.refusals, *_general_refusals(route))))


def _general_refusals(route: Route) -> Iterator[type[Refusal]]:
    yield from GENERAL
    if route.access is Access.ADMIN:
        yield errors.Forbidden
    if route.request_type is not None:
        yield errors.InvalidField


def _refusal_schema(kinds: list[type[Refusal]]) -> Schema:
    codes = {"properties": {"code": {"enum": [kind.code for kind in kinds]}}}
    return {"allOf": [{"$ref": "#/components/schemas/Refusal"}, codes]}


def _headers(*names: str) -> dict[str, Schema]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _operation_id(method: str, path: str) -> str:
    words = [word for part in path.split("/") for word in part.replace(".", "-").split("-") if word not in ("", "api")]
    return method.lower() + "".join(word.capitalize() for word in words)


_building: Final = threading.Lock()


@ROUTES.add("GET", "/api/openapi.json", PUBLIC)
async def show_document(call: Call) -> None:
    """Show this document."""
    config = call.config
    # building it is slow enough to block the event loop noticeably
    content = await asyncio.to_thread(
        _encoded,
        call.application.routes,
        call.translations,
        config.server.base_url or "/",
        config.http.legacy_status,
    )
    call.finish_with(content)


def _encoded(routes: tuple[Route, ...], translations: Translations, server_url: str, is_legacy: bool) -> bytes:
    with _building:  # many may ask at once for a document that is built once
        return _build(routes, translations, server_url, is_legacy)


@lru_cache(maxsize=1)  # it changes only with the config
def _build(routes: tuple[Route, ...], translations: Translations, server_url: str, is_legacy: bool) -> bytes:
    builder = OpenApiBuilder(routes, translations, server_url=server_url, is_legacy=is_legacy)
    return msgspec.json.encode(builder.build())
