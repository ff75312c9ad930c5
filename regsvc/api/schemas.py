"""JSON Schema of the types that requests and replies are made of, and examples that fit it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, get_args, get_type_hints

import msgspec
from msgspec import UnsetType

from regsvc.api.types.messages import Output

Schema = dict[str, Any]

_PLACE: Final = "#/components/schemas/"
_BLANK: Final = {"string": "text", "integer": 1, "number": 1, "boolean": True, "array": [], "null": None}


def make_schemas(types: Iterable[type]) -> dict[str, Schema]:
    """The schemas of struct types and of everything they consist of, by name.

    What is in a reply is always there: unlike msgspec, which reads with these types, we only write with them.
    """
    wanted = list(types)
    schemas: dict[str, Schema] = msgspec.json.schema_components(wanted, ref_template=_PLACE + "{name}")[1]
    outputs = {kind.__name__: kind for kind in _all_parts(wanted) if issubclass(kind, Output)}
    for name, schema in schemas.items():
        if "description" in schema:
            schema["description"] = inspect.cleandoc(schema["description"])
        if name in outputs:
            schema["required"] = list(_required_fields(outputs[name]))
    return schemas


def reference(kind: type) -> Schema:
    """A schema that points at the one of this type."""
    return {"$ref": _PLACE + kind.__name__}


def example_of(schema: Mapping[str, Any], schemas: Mapping[str, Schema]) -> Any:
    """A value that fits the schema: the examples its fields declare, and something plain where none is needed."""
    if "$ref" in schema:
        return example_of(schemas[schema["$ref"].removeprefix(_PLACE)], schemas)
    for key in ("examples", "enum"):
        if key in schema:
            return schema[key][0]
    if "const" in schema:
        return schema["const"]
    if "anyOf" in schema:
        return example_of(_most_telling(schema["anyOf"], schemas), schemas)
    if schema.get("type") == "object":
        return _example_object(schema, schemas)
    if schema.get("type") == "array" and schema.get("minItems", 0 if "$ref" not in schema.get("items", {}) else 1):
        return [example_of(schema["items"], schemas)]
    return schema.get("default", _BLANK.get(schema.get("type", "null")))


def _example_object(schema: Mapping[str, Any], schemas: Mapping[str, Schema]) -> dict[str, Any]:
    """The fields that have to be there, and those that have something to show."""
    required = schema.get("required", ())
    return {
        name: example_of(field, schemas)
        for name, field in schema.get("properties", {}).items()
        if name in required or _has_example(field, schemas)
    }


def _most_telling(alternatives: list[Schema], schemas: Mapping[str, Schema]) -> Schema:
    return next((schema for schema in alternatives if _has_example(schema, schemas)), alternatives[-1])


def _has_example(schema: Mapping[str, Any], schemas: Mapping[str, Schema]) -> bool:
    if "$ref" in schema:
        return _has_example(schemas[schema["$ref"].removeprefix(_PLACE)], schemas)
    if any(_has_example(part, schemas) for part in schema.get("anyOf", ())):
        return True
    return "examples" in schema or "const" in schema or "properties" in schema


def _required_fields(kind: type[Output]) -> Iterator[str]:
    hints = get_type_hints(kind)
    for field in msgspec.structs.fields(kind):
        if UnsetType not in get_args(hints[field.name]):
            yield field.encode_name


def _all_parts(types: Iterable[Any]) -> Iterator[type]:
    """The struct types among the types, and those that their fields are made of; each once."""
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
