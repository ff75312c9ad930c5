"""`/docs`: the API reference as a page, generated from the OpenAPI document."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any, Final

from tornado.escape import xhtml_escape
from tornado.template import Template

from regsvc.api.openapi import OpenApiBuilder
from regsvc.api.route import ACCESS_TOKEN, Route
from regsvc.config.host_style import image_sources
from regsvc.config.sections import Config
from regsvc.core.i18n.translations import Translations
from regsvc.web.assets import asset_rules, load_style, load_template
from regsvc.web.base import ReadOnlyHandler, accepts_gzip, content_security_policy
from regsvc.web.branding import host_style, icon_of

_STYLE: Final = load_style("docs")
_TEMPLATE: Final[Template] = load_template("docs.html")
_DEEPEST: Final = 3


@dataclass(frozen=True)
class FieldView:
    """One field; `name` is the dotted path of a nested one, such as `data.status`."""

    name: str
    kind: str
    is_required: bool
    about: str


@dataclass(frozen=True)
class TypeView:
    """One request or reply type: its fields and an example as JSON text."""

    name: str
    about: str
    fields: tuple[FieldView, ...]
    example: str


@dataclass(frozen=True)
class RefusalView:
    status: str
    code: str
    about: str


@dataclass(frozen=True)
class OperationView:
    """One method of one path."""

    method: str
    path: str
    anchor: str
    group: str
    summary: str
    about: str
    needs_token: bool
    credentials: tuple[str, ...]
    request: TypeView | None
    replies: tuple[tuple[str, TypeView], ...]
    refusals: tuple[RefusalView, ...]


@dataclass(frozen=True)
class Look:
    """Name, theme, icon and style sheets of a host."""

    server: str
    theme: str
    icon: str
    styles: tuple[str, ...]


@dataclass(frozen=True)
class RenderedPage:
    content: bytes
    compressed: bytes


class DocsHandler(ReadOnlyHandler):
    """Handler of the page, which needs no script."""

    async def get(self) -> None:
        config, translations = self.services.config, self.services.translations
        page = await asyncio.to_thread(
            _page, self.application.routes, translations, look_of(config), config.http.legacy_status
        )
        self.set_header("Content-Security-Policy", content_security_policy(image_sources(config)))
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Content-Language", "en")
        self.set_header("Vary", "Accept-Encoding")
        if accepts_gzip(self.request):
            self.set_header("Content-Encoding", "gzip")
        self.finish(page.compressed if accepts_gzip(self.request) else page.content)

    async def head(self) -> None:
        await self.get()


def look_of(config: Config) -> Look:
    """Return how the page of a host looks."""
    style = host_style(config)
    styles = (_STYLE.path,) if style is None else (_STYLE.path, style.path)
    return Look(config.server.name, config.server.theme, icon_of(config), styles)


@lru_cache(maxsize=1)  # rendered once: it changes only with the config
def _page(routes: tuple[Route, ...], translations: Translations, look: Look, is_legacy: bool) -> RenderedPage:
    document = OpenApiBuilder(routes, translations, server_url="/", is_legacy=is_legacy).build()
    operations = list_operations(document)
    content: bytes = _TEMPLATE.generate(
        look=look,
        about=document["info"]["description"].strip().split("\n\n"),
        version=document["info"]["version"],
        groups=[(name, list(members)) for name, members in groupby(operations, lambda operation: operation.group)],
        rich=rich,
    )
    return RenderedPage(content, gzip.compress(content, mtime=0))


def list_operations(document: dict[str, Any]) -> list[OperationView]:
    """Return all operations of the document, grouped; groups are in the order of their first operation."""
    views = [
        _operation(document, method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    order = list(dict.fromkeys(view.group for view in views))
    return sorted(views, key=lambda view: order.index(view.group))


def rich(text: str) -> str:
    """Return a text as escaped HTML, with `backticks` as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", xhtml_escape(text))


def _group(operation: dict[str, Any]) -> str:
    name: str = operation["tags"][0]
    return name


def _operation(document: dict[str, Any], method: str, path: str, operation: dict[str, Any]) -> OperationView:
    responses = {status: _resolve(document, response) for status, response in operation["responses"].items()}
    return OperationView(
        method=method,
        path=path,
        anchor=operation["operationId"],
        group=_group(operation),
        summary=operation["summary"],
        about=operation.get("description", ""),
        needs_token=operation.get("security") == [{ACCESS_TOKEN: []}],
        credentials=tuple(_credentials(document, operation)),
        request=_body(document, operation) or _query(operation),
        replies=tuple(
            (status, type_view) for status, response in responses.items() for type_view in _replies(document, response)
        ),
        refusals=tuple(row for status, response in responses.items() for row in _refusals(status, response)),
    )


def _credentials(document: dict[str, Any], operation: dict[str, Any]) -> Iterator[str]:
    """Yield the credentials that the operation accepts, as text with `backticks`."""
    for name in (name for alternative in operation.get("security", ()) for name in alternative):
        scheme = document["components"]["securitySchemes"][name]
        if scheme["type"] == "http":
            yield "`Authorization: Bearer …`"
        else:
            yield f"the {scheme['in']} `{scheme['name']}`"


def _body(document: dict[str, Any], operation: dict[str, Any]) -> TypeView | None:
    if "requestBody" not in operation:
        return None
    content = operation["requestBody"]["content"]["application/json"]
    return _type_view(document, content["schema"], content["example"])


def _query(operation: dict[str, Any]) -> TypeView | None:
    fields = tuple(
        FieldView(
            parameter["name"],
            _kind_of(parameter["schema"]),
            parameter["required"],
            parameter.get("description", ""),
        )
        for parameter in operation.get("parameters", ())
    )
    return TypeView("Query", "", fields, "") if fields else None


def _replies(document: dict[str, Any], response: dict[str, Any]) -> Iterator[TypeView]:
    content = response.get("content", {}).get("application/json", {})
    schema = content.get("schema", {})
    for kind in schema.get("anyOf", [schema]):
        name = kind.get("$ref", "").rpartition("/")[2]
        if name:
            yield _type_view(document, kind, content["examples"][name]["value"])


def _refusals(status: str, response: dict[str, Any]) -> Iterator[RefusalView]:
    for code, about in re.findall(r"^- `(\w+)`: (.*)$", response["description"], re.MULTILINE):
        yield RefusalView(status, code, about)


def _type_view(document: dict[str, Any], schema: dict[str, Any], example: object) -> TypeView:
    resolved = _resolve(document, schema)
    text = json.dumps(example, indent=2, ensure_ascii=False)
    return TypeView(resolved["title"], resolved.get("description", ""), tuple(_fields(document, resolved)), text)


def _fields(document: dict[str, Any], schema: dict[str, Any], prefix: str = "", depth: int = 1) -> Iterator[FieldView]:
    for name, field in schema.get("properties", {}).items():
        value = _unwrap(document, field)
        is_required = name in schema.get("required", ())
        yield FieldView(f"{prefix}{name}", _kind_of(value), is_required, value.get("description", ""))
        inner = _unwrap(document, value["items"]) if value.get("type") == "array" and "items" in value else value
        if "properties" in inner and depth < _DEEPEST:
            mark = "[]." if inner is not value else "."
            yield from _fields(document, inner, f"{prefix}{name}{mark}", depth + 1)


def _unwrap(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema without its reference or null alternative; `may_be_null` records the latter."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind.get("type") != "null"]
    may_be_null = len(kinds) < len(schema.get("anyOf", ()))
    resolved = _resolve(document, kinds[0] if len(kinds) == 1 else schema)
    return resolved | {"may_be_null": True} if may_be_null else resolved


def _kind_of(schema: dict[str, Any]) -> str:
    """Return the type of a value in a few words."""
    kinds = [_kind_of(kind) for kind in schema["anyOf"]] if "anyOf" in schema else [_plain_kind(schema)]
    if schema.get("may_be_null"):
        kinds.append("null")
    return " | ".join(dict.fromkeys(kinds))


def _plain_kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"])
    if schema.get("type") == "array":
        inner = schema.get("items", {})
        return f"list of {_plain_kind(inner) if 'type' in inner else 'object'}s"
    low, high = schema.get("minimum", schema.get("minLength")), schema.get("maximum", schema.get("maxLength"))
    bounds = f" ({low if low is not None else ''}…{high})" if high is not None and high < 10**6 else ""
    return f"{schema.get('type', 'anything')}{bounds}"


def _resolve(document: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in part:
        return part
    _root, _components, kind, name = part["$ref"].split("/")
    resolved: dict[str, Any] = document["components"][kind][name]
    return resolved


DOCS: Final[list[tuple[Any, ...]]] = [("/docs", DocsHandler), *asset_rules(_STYLE)]
"""Tornado's rules for the page and its style sheet."""
