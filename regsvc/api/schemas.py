"""JSON Schemas of request and reply types, and example values that fit them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, get_args, get_type_hints

import msgspec
from msgspec import UnsetType

from regsvc.api.types.messages import Output

Schema = dict[str, Any]

_REF_PREFIX: Final = "#/components/schemas/"
_PLACEHOLDERS: Final = {"string": "text", "integer": 1, "number": 1, "boolean": True, "array": [], "null": None}


def make_schemas(types: Iterable[type]) -> dict[str, Schema]:
    """Return the schemas of struct types and of all structs nested in them, by name.

    Fields of replies are marked as required even if they have a default: replies are only written, never read, and
    always contain them.
    """
    wanted = list(types)
    schemas: dict[str, Schema] = msgspec.json.schema_components(wanted, ref_template=_REF_PREFIX + "{name}")[1]
    outputs = {kind.__name__: kind for kind in _all_structs(wanted) if issubclass(kind, Output)}
    for name, schema in schemas.items():
        if "description" in schema:
            schema["description"] = inspect.cleandoc(schema["description"])
        if name in outputs:
            schema["required"] = list(_required_fields(outputs[name]))
    return schemas


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
        return example_of(_preferred(schema["anyOf"], schemas), schemas)
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


def _preferred(alternatives: list[Schema], schemas: Mapping[str, Schema]) -> Schema:
    return next((schema for schema in alternatives if _has_example(schema, schemas)), alternatives[-1])


def _has_example(schema: Mapping[str, Any], schemas: Mapping[str, Schema]) -> bool:
    if "$ref" in schema:
        return _has_example(schemas[schema["$ref"].removeprefix(_REF_PREFIX)], schemas)
    if any(_has_example(part, schemas) for part in schema.get("anyOf", ())):
        return True
    return "examples" in schema or "const" in schema or "properties" in schema


def _required_fields(kind: type[Output]) -> Iterator[str]:
    hints = get_type_hints(kind)
    for field in msgspec.structs.fields(kind):
        if UnsetType not in get_args(hints[field.name]):
            yield field.encode_name


def _all_structs(types: Iterable[Any]) -> Iterator[type]:
    """Yield each struct type among the types or nested in their fields once."""
    seen: set[Any] = set()
    waiting = list(types)
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            if kind not in seen:
                seen.add(kind)
                waiting.extend(get_type_hints(kind).values())
                yield kind
        else:
            waiting.extend(get_args(kind))
