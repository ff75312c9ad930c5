"""`/docs`: the API reference as a page, generated from the OpenAPI document."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from tornado.escape import xhtml_escape

from regsvc.config.host_style import image_sources
from regsvc.core.i18n import Translations
from regsvc.http.openapi import OpenApiBuilder
from regsvc.http.route import ACCESS_TOKEN, Route
from regsvc.web.assets import asset_rules, host_style, icon_of, load_style, load_template
from regsvc.web.base import ReadOnlyHandler, accepts_gzip, content_security_policy

Schema = dict[str, Any]

_STYLE: Final = "docs"
_DEEPEST: Final = 3


class DocsHandler(ReadOnlyHandler):
    """Handler of the page, which needs no script."""

    async def get(self) -> None:
        config, is_compressed = self.config, accepts_gzip(self.request)
        style = host_style(config)
        plain, compressed = await asyncio.to_thread(
            _page,
            self.application.routes,
            self.translations,
            config.server.name,
            config.server.theme,
            icon_of(config),
            "" if style is None else style.path,
            config.http.legacy_status,
        )
        self.set_header("Content-Security-Policy", content_security_policy(image_sources(config)))
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Content-Language", "en")
        self.set_header("Vary", "Accept-Encoding")
        if is_compressed:
            self.set_header("Content-Encoding", "gzip")
        self.finish(compressed if is_compressed else plain)

    async def head(self) -> None:
        await self.get()


@lru_cache(maxsize=1)  # rendered once: it changes only with the config
def _page(
    routes: tuple[Route, ...],
    translations: Translations,
    server: str,
    theme: str,
    icon: str,
    own_style: str,
    is_legacy: bool,
) -> tuple[bytes, bytes]:
    """Return the page, plain and compressed."""
    document = OpenApiBuilder(routes, translations, server_url="/", is_legacy=is_legacy).build()
    groups: dict[str, list[Schema]] = {}  # in the order of their first operation
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            described = operation | {"method": method.upper(), "path": path}
            groups.setdefault(operation["tags"][0], []).append(described)
    page: bytes = load_template("docs.html").generate(
        server=server,
        theme=theme,
        icon=icon,
        styles=tuple(filter(None, (load_style(_STYLE).path, own_style))),
        info=document["info"],
        groups=groups,
        reference=_Reference(document),
        rich=rich,
    )
    return page, gzip.compress(page, mtime=0)


def rich(text: str) -> str:
    """Return a text as escaped HTML, with `backticks` as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", xhtml_escape(text))


@dataclass(frozen=True)
class _Reference:
    """Parts of the OpenAPI document that the template shows."""

    document: Schema

    def credentials(self, operation: Schema) -> str:
        """Return the credentials that the operation requires or accepts, in words."""
        words = []
        for name in (name for alternative in operation.get("security", ()) for name in alternative):
            scheme = self.document["components"]["securitySchemes"][name]
            is_bearer = scheme["type"] == "http"
            words.append("`Authorization: Bearer …`" if is_bearer else f"the {scheme['in']} `{scheme['name']}`")
        if not words:
            return ""
        verb = "Requires" if operation["security"] == [{ACCESS_TOKEN: []}] else "Accepts"
        return f"{verb} {', '.join(words)}"

    def bodies(self, operation: Schema) -> Iterator[tuple[str, Schema, str]]:
        """Yield schema and example of the request (with the status "") and of each reply."""
        if "requestBody" in operation:
            content = operation["requestBody"]["content"]["application/json"]
            yield "", self._resolve(content["schema"]), _dump(content["example"])
        elif parameters := operation.get("parameters"):
            fields = {
                each["name"]: {"description": each.get("description", ""), **each["schema"]} for each in parameters
            }
            yield "", {"properties": fields, "required": [each["name"] for each in parameters if each["required"]]}, ""
        for status, response in operation["responses"].items():
            content = self._resolve(response).get("content", {}).get("application/json", {})
            schema = content.get("schema", {})
            for kind in schema.get("anyOf", [schema]):
                if name := kind.get("$ref", "").rpartition("/")[2]:
                    yield status, self._resolve(kind), _dump(content["examples"][name]["value"])

    def refusals(self, operation: Schema) -> list[tuple[str, str, str]]:
        """Return status, code and cause of each refusal."""
        return [
            (status, code, about)
            for status, response in operation["responses"].items()
            for code, about in re.findall(r"^- `(\w+)`: (.*)$", self._resolve(response)["description"], re.MULTILINE)
        ]

    def fields(self, schema: Schema, prefix: str = "", depth: int = 1) -> Iterator[tuple[str, bool, str, str]]:
        """Yield the dotted name of each field (such as `data.status`), whether it is required, type and description."""
        for name, field in schema.get("properties", {}).items():
            value = self._unwrap(field)
            yield prefix + name, name in schema.get("required", ()), _kind_of(value), value.get("description", "")
            is_list = value.get("type") == "array" and "items" in value
            inner = self._unwrap(value["items"]) if is_list else value
            if "properties" in inner and depth < _DEEPEST:
                yield from self.fields(inner, f"{prefix}{name}{'[].' if is_list else '.'}", depth + 1)

    def _unwrap(self, schema: Schema) -> Schema:
        """Return the schema without its reference or null alternative; `may_be_null` records the latter."""
        kinds = [kind for kind in schema.get("anyOf", ()) if kind.get("type") != "null"]
        may_be_null = len(kinds) < len(schema.get("anyOf", ()))
        resolved = self._resolve(kinds[0] if len(kinds) == 1 else schema)
        return resolved | {"may_be_null": True} if may_be_null else resolved

    def _resolve(self, part: Schema) -> Schema:
        if "$ref" not in part:
            return part
        _root, _components, kind, name = part["$ref"].split("/")
        resolved: Schema = self.document["components"][kind][name]
        return resolved


def _dump(example: object) -> str:
    return json.dumps(example, indent=2, ensure_ascii=False)


def _kind_of(schema: Schema) -> str:
    """Return the type of a value in a few words."""
    kinds = [_kind_of(kind) for kind in schema["anyOf"]] if "anyOf" in schema else [_plain_kind(schema)]
    if schema.get("may_be_null"):
        kinds.append("null")
    return " | ".join(dict.fromkeys(kinds))


def _plain_kind(schema: Schema) -> str:
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


DOCS: Final[list[tuple[Any, ...]]] = [("/docs", DocsHandler), *asset_rules((load_style, _STYLE))]
"""Tornado's rules for the page and its style sheet."""
