"""Generate `tests/js/api.d.ts`, the types of the API's requests and replies: `python -m tests.js.api_types [--check]`.

They are made from the OpenAPI document, so the type check of the pages' scripts notices a renamed field.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.generators import write_or_check
from tests.support.contract import document

TYPES_FILE: Final = Path(__file__).with_name("api.d.ts")
_HEAD: Final = "// Written by `make sample` from the API's OpenAPI document.\n"
_SIMPLE: Final = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
_PREFIX: Final = "/api/"

Schema = dict[str, Any]


def api_types() -> str:
    """Return the text of `api.d.ts`."""
    described = document()
    schemas = described["components"]["schemas"]
    blocks = [f"export type {name} = {_type(schema)};\n" for name, schema in sorted(schemas.items())]
    for method in ("get", "post"):
        lines = [f"  {json.dumps(path)}: {route};\n" for path, route in _routes(described, method)]
        blocks.append(f"export interface {method.title()}Routes {{\n{''.join(lines)}}}\n")
    return "\n".join([_HEAD, *blocks])


def _routes(described: Schema, method: str) -> Iterator[tuple[str, str]]:
    """Yield the path of each route below `/api/` that replies with JSON, and the types of its reply and request."""
    below = [(path, operations) for path, operations in described["paths"].items() if path.startswith(_PREFIX)]
    for path, operation in ((path, operations[method]) for path, operations in below if method in operations):
        replies = [_content(reply) for status, reply in operation["responses"].items() if status.startswith("2")]
        body = _content(operation.get("requestBody", {}))
        types = [_type(reply) for reply in replies if reply is not None]
        if types:
            yield path.removeprefix(_PREFIX), f"{{ reply: {' | '.join(types)}; body: {_type(body) if body else '{}'} }}"


def _content(holder: Schema) -> Schema | None:
    content = holder.get("content", {}).get("application/json")
    return None if content is None else content["schema"]


def _type(schema: Schema) -> str:
    """Return a schema of JSON Schema as a TypeScript type."""
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    alternatives = schema.get("anyOf") or schema.get("oneOf")
    if alternatives:
        return " | ".join(dict.fromkeys(_type(option) for option in alternatives))
    kind = schema.get("type")
    if kind == "array":
        return f"Array<{_type(schema.get('items', {}))}>"
    if kind == "object":
        return _object(schema)
    return _SIMPLE.get(str(kind), "unknown")


def _object(schema: Schema) -> str:
    if "properties" not in schema:
        values = schema.get("additionalProperties")
        return f"Record<string, {_type(values) if isinstance(values, dict) else 'unknown'}>"
    required = schema.get("required", ())
    fields = (
        f"{name if name.isidentifier() else json.dumps(name)}{'' if name in required else '?'}: {_type(field)}"
        for name, field in schema["properties"].items()
    )
    return f"{{ {'; '.join(fields)} }}"


def main(arguments: list[str] | None = None) -> int:
    """Write the file; with --check say whether it is current (exit status 0) or not (1)."""
    return write_or_check(TYPES_FILE, api_types(), arguments, __doc__ or "")


if __name__ == "__main__":
    sys.exit(main())
