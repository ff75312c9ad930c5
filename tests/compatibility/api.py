"""What an OpenAPI document offers its clients and what it demands of them, as sentences that can be compared."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Schema = Mapping[str, Any]

BOUNDS: Final = {"maxLength": -1, "maxItems": -1, "maximum": -1, "minLength": 1, "minItems": 1, "minimum": 1}
"""Bounds of a request's values, and the direction in which each is tighter."""


@dataclass
class Promises:
    """`offers`: what must stay. `demands`: what may not come to a place that a released document has.

    The place of a demand is an offer. `bounds`: of the values of requests, by place and keyword.
    """

    offers: set[str] = field(default_factory=set)
    demands: set[tuple[str, str]] = field(default_factory=set)
    bounds: dict[tuple[str, str], Any] = field(default_factory=dict)


def find_broken(old: Promises, new: Promises) -> list[str]:
    """Return a sentence about each old promise that the new ones break, sorted."""
    gone = {f"gone: {offer}" for offer in old.offers - new.offers}
    demanded = {f"demanded: {demand}" for place, demand in new.demands - old.demands if place in old.offers}
    tighter = {
        f"tighter: {place}: {bound} {value}"
        for (place, bound), value in new.bounds.items()
        if place in old.offers and _is_tighter(bound, old.bounds.get((place, bound)), value)
    }
    # the fields of what is gone itself say nothing more
    whole = {offer for offer in gone if any(offer.startswith(f"{other}: ") for other in gone)}
    return sorted((gone - whole) | demanded | tighter)


def _is_tighter(bound: str, old: Any, new: Any) -> bool:
    if old is None:
        return True
    return bool(new != old if bound == "pattern" else (new - old) * BOUNDS[bound] > 0)


def promises_of(document: Schema) -> Promises:
    """Return everything that the document promises."""
    walk = _Walk(document)
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            walk.operation(f"{method.upper()} {path}", operation)
    for event, operations in document.get("webhooks", {}).items():
        content = operations["post"]["requestBody"]["content"]["application/json"]
        walk.promises.offers.add(f"webhook {event}")
        walk.reply(f"webhook {event}", content["schema"])
    return walk.promises


class _Walk:
    def __init__(self, document: Schema) -> None:
        self._components = document.get("components", {})
        self._open: list[str] = []
        self.promises = Promises()

    def operation(self, route: str, operation: Schema) -> None:
        offer = self.promises.offers.add
        offer(route)
        access = operation.get("security", [{}])
        for kinds in access:
            offer(f"{route}: may be asked with {' and '.join(sorted(kinds)) or 'no token'}")
        if "x-permission" in operation:
            self.promises.demands.add((route, f"{route}: needs the permission {operation['x-permission']}"))
        for parameter in operation.get("parameters", []):
            place = f"{route}: takes {parameter['in']} parameter {parameter['name']}"
            offer(place)
            if parameter.get("required"):
                self.promises.demands.add((route, f"{route}: needs {parameter['in']} parameter {parameter['name']}"))
            self._values(place, parameter["schema"], takes=True)
        for content in operation.get("requestBody", {}).get("content", {}).values():
            self._object(f"{route}: takes", route, content["schema"], takes=True)
        for status, response in operation["responses"].items():
            self._response(route, status, self._resolve(response))

    def _response(self, route: str, status: str, response: Schema) -> None:
        if int(status) >= 400:
            for content in response.get("content", {}).values():
                for part in content["schema"].get("allOf", [content["schema"]]):
                    codes = part.get("properties", {}).get("code", {}).get("enum", [])
                    self.promises.offers |= {f"{route}: refuses with {status} {code}" for code in codes}
                    if "$ref" in part:
                        self.reply("refusals", part)
            return
        self.promises.offers.add(f"{route}: replies {status}")
        for kind, content in response.get("content", {}).items():
            self.promises.offers.add(f"{route}: replies {status} as {kind}")
            self.reply(f"{route}: {status}", content.get("schema", {}))

    def reply(self, place: str, schema: Schema) -> None:
        self._object(f"{place}: has", place, schema, takes=False)

    def _object(self, place: str, parent: str, schema: Schema, *, takes: bool) -> None:
        """Note the fields of what is at `place`; demands of it count if `parent`, an offer, was released."""
        name = schema.get("$ref", "")
        if name in self._open:
            return
        if name:
            self._open.append(name)
        described = self._resolve(schema)
        choices = described.get("anyOf") or described.get("oneOf") or []
        objects = [choice for choice in choices if self._is_structured(choice)]
        for choice in objects:
            title = f" <{choice['$ref'].rpartition('/')[2]}>" if len(objects) > 1 and "$ref" in choice else ""
            self._object(f"{place}{title}", parent, choice, takes=takes)
        for part in ("items", "additionalProperties"):
            if isinstance(described.get(part), Mapping):
                inner = f"{place} {'each' if part == 'items' else 'any'}"
                self.promises.offers.add(inner)
                self._values(inner, described[part], takes=takes)
                self._object(inner, parent, described[part], takes=takes)
        required = set(described.get("required", ()))
        for field_name, field_schema in described.get("properties", {}).items():
            inner = f"{place} {field_name}" if place.endswith((": takes", ": has")) else f"{place}.{field_name}"
            self.promises.offers.add(inner)
            if field_name in required and takes:
                self.promises.demands.add((parent, inner.replace(": takes", ": needs", 1)))
            elif field_name in required:
                self.promises.offers.add(f"{inner} always")
            self._values(inner, field_schema, takes=takes)
            self._object(inner, inner, field_schema, takes=takes)
        if name:
            self._open.pop()

    def _values(self, place: str, schema: Schema, *, takes: bool) -> None:
        """Note the types and choices of a value: a request may take more of them later, a reply may not have more."""
        for choice in self._alternatives(schema):
            kind = choice.get("type") or ("choice" if "enum" in choice or "const" in choice else "anything")
            for one in kind if isinstance(kind, list) else [kind]:
                if takes:
                    self.promises.offers.add(f"{place}: a value of type {one}")
                else:
                    self.promises.demands.add((place, f"{place}: may be of type {one}"))
            for value in choice.get("enum", [choice["const"]] if "const" in choice else []):
                self.promises.offers.add(f"{place}: {value!r}")
            if takes:
                bounds = {name: choice[name] for name in (*BOUNDS, "pattern") if name in choice}
                self.promises.bounds |= {(place, name): value for name, value in bounds.items()}

    def _alternatives(self, schema: Schema) -> Iterator[Schema]:
        described = self._resolve(schema)
        choices = described.get("anyOf") or described.get("oneOf")
        if choices:
            for choice in choices:
                yield from self._alternatives(choice)
        else:
            yield described

    def _is_structured(self, schema: Schema) -> bool:
        described = self._resolve(schema)
        return any(key in described for key in ("properties", "items", "additionalProperties", "anyOf", "oneOf"))

    def _resolve(self, schema: Schema) -> Schema:
        if "$ref" not in schema:
            return schema
        group, name = schema["$ref"].rsplit("/", 2)[1:]
        described: Schema = self._components[group][name]
        return described
