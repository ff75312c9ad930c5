"""Validates every reply that the tests receive against the OpenAPI document."""

import functools
import json
from typing import Any

from jsonschema_rs import Draft202012Validator

from regsvc.app.routes import ROUTES
from regsvc.core.i18n import load_translations
from regsvc.http.openapi import OpenApiBuilder
from regsvc.legacy.routes import legacy_routes


def check_reply(method: str, path: str, status: int, content_type: str, body: bytes, *, is_legacy: bool) -> None:
    """Raise AssertionError for a reply whose status, fields or code the document does not describe.

    `is_legacy`: whether the daemon has `http.legacy_status`.
    """
    path = path.partition("?")[0]
    if method not in ("GET", "POST") or not path.startswith("/api"):
        return
    operation = document(is_legacy=is_legacy)["paths"].get(path, {}).get(method.lower())
    if operation is None or not content_type.startswith("application/json"):
        return
    reply = json.loads(body)
    validator = find_validator(method, path, status, is_legacy=is_legacy)
    assert validator is not None, f"{method} {path} answered {status}, which is not documented: {reply}"
    errors = [error.message for error in validator.iter_errors(reply)]
    assert not errors, f"{method} {path} answered {status} with a body that differs from the document: {errors}"


@functools.cache
def document(*, is_legacy: bool = False) -> dict[str, Any]:
    """Return the OpenAPI document of the whole API."""
    routes = legacy_routes(ROUTES) if is_legacy else ROUTES
    return OpenApiBuilder(routes, load_translations(), server_url="/", is_legacy=is_legacy).build()


@functools.cache
def find_validator(method: str, path: str, status: int, *, is_legacy: bool) -> Draft202012Validator | None:
    """Return the validator of replies with this status; None if the status is not documented."""
    whole = document(is_legacy=is_legacy)
    response = whole["paths"][path][method.lower()]["responses"].get(str(status))
    if response is None:
        return None
    if "$ref" in response:
        response = whole["components"]["responses"][response["$ref"].rpartition("/")[2]]
    schema = response.get("content", {}).get("application/json", {}).get("schema", {})
    return Draft202012Validator(with_types_in_place(schema, whole["components"]["schemas"]))


def with_types_in_place(schema: Any, types: dict[str, Any]) -> Any:
    """Return the schema without references: to follow one costs the validator more than all else."""
    if isinstance(schema, list):
        return [with_types_in_place(part, types) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {name: with_types_in_place(part, types) for name, part in schema.items() if name != "$ref"}
    if "$ref" in schema:
        parts = {**with_types_in_place(types[schema["$ref"].rpartition("/")[2]], types), **parts}
    return parts


def example_body(path: str) -> dict[str, Any]:
    """Return the required fields of a POST, with values of the right type."""
    return {name: value for name, value in _example(path).items() if name in _body_schema(path).get("required", ())}


def list_fields(path: str) -> dict[str, Draft202012Validator]:
    """Return the fields of a POST's body, each with a validator of its type."""
    components = document()["components"]
    return {
        name: Draft202012Validator({**schema, "components": components})
        for name, schema in _body_schema(path).get("properties", {}).items()
    }


def _example(path: str) -> dict[str, Any]:
    body = document()["paths"][path]["post"].get("requestBody")
    example: dict[str, Any] = body["content"]["application/json"]["example"] if body else {}
    return example


def _body_schema(path: str) -> dict[str, Any]:
    body = document()["paths"][path]["post"].get("requestBody")
    if body is None:
        return {}
    name = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    schema: dict[str, Any] = document()["components"]["schemas"][name]
    return schema
