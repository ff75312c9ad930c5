"""Names that hosts write into configs, SQL, scripts, templates and dashboards, and how each may be used."""

import argparse
import json
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from string import Template
from typing import Any, Final

import msgspec

from regsvc.accounts.chat.linking import PATH as CHAT_LINKED
from regsvc.cli.command_line import ALIASES, build_parser
from regsvc.cli.transfer.user_files import AUDIT_COLUMNS, COLUMNS_WITH_HASHES, REVIEW_COLUMNS, USER_COLUMNS
from regsvc.config.host_sections import COMMAND_EVENTS
from regsvc.config.key_types import Key, keys_of
from regsvc.config.layers import DOWNLOADS, LISTED, SECTIONS
from regsvc.config.sections import Download
from regsvc.config.value_checks import COMMAND_VALUES
from regsvc.core.clock import now
from regsvc.database.audit import ACTIONS
from regsvc.database.migrator import SQLITE_TYPES, in_sqlite, list_migrations, statements_of
from regsvc.database.models import AuditEntry
from regsvc.doctor.checkup import Checkup, as_json
from regsvc.doctor.finding import FindingFields
from regsvc.runtime.event_streams import EVENT_NAMES, _event
from regsvc.runtime.health import AliveReply, ReadyReply
from regsvc.runtime.metrics import Metrics
from regsvc.sync.report import SyncReport
from regsvc.users.transitions import BUILT_IN_REASONS, OWN_REASONS
from regsvc.web.pages import PAGE_TABLE
from tests.compatibility.api import Promises
from tests.compatibility.values import find_bounds, find_kinds
from tests.generators.schema import INNER_TABLES, list_tables, list_views

REGSVC = Path(__file__).resolve().parents[2] / "regsvc"
MAILS = REGSVC / "notifications" / "mail" / "texts" / "en"
REFERENCE = REGSVC.parent / "docs" / "reference.md"
DEMANDS: Final = "demands"
BOUNDS: Final = "bounds"
_LIMITS: Final = (DEMANDS, BOUNDS)


Demands = list[list[str]]
"""What may not come to a name that was released: the name, after its group, and a sentence."""
Bounds = list[list[Any]]
"""A name after its group, the kind of a bound of its values, and the bound."""


def list_names() -> dict[str, list[Any]]:
    """Return all names, and a sentence about each way to use one, sorted, by group; then `Demands` and `Bounds`."""
    groups: Mapping[str, Iterator[str] | Sequence[str]] = {
        "config keys": _config_keys(),
        "commands": _commands(),
        "tables and views": _columns(),
        "actions of the audit log": ACTIONS,
        "codes of reasons": (*BUILT_IN_REASONS, *OWN_REASONS),
        "mails": _mails(),
        "events": _events(),
        "columns of the export": _export(),
        "exit statuses": _exit_statuses(),
        "fields of --json": _json_fields(),
        "fields of /health": _health_fields(),
        "metrics": (
            *_found(r'"(companion_[a-z_]+)"', REGSVC / "runtime" / "metrics.py", REGSVC / "http" / "metrics.py"),
            *_labels(),
        ),
        "pages": (*(page.path for page in PAGE_TABLE), "/docs", CHAT_LINKED),
        "variables of the style sheet": _found(r"(--[a-z0-9-]+):", REGSVC / "web" / "static" / "styles" / "tokens.css"),
    }
    demands = [[f"commands: {place}", f"commands: {place} needs {needed}"] for place, needed in _demands_of_commands()]
    return {group: sorted(set(names)) for group, names in groups.items()} | {
        DEMANDS: sorted(demands),
        BOUNDS: sorted([*_bounds_of_keys(), *_bounds_of_columns()]),
    }


def promises_of_names(groups: Mapping[str, list[Any]]) -> Promises:
    """Return the names of a version as promises, which `find_broken` compares."""
    return Promises(
        offers={f"{group}: {name}" for group, names in groups.items() if group not in _LIMITS for name in names},
        demands={(place, demand) for place, demand in groups.get(DEMANDS, ())},
        bounds={(place, kind): bound for place, kind, bound in groups.get(BOUNDS, ())},
    )


def _keys() -> Iterator[tuple[str, Key[Any]]]:
    for section, declaring in {**SECTIONS, f"{DOWNLOADS}.NAME": Download, **LISTED}.items():
        yield from ((f"{section}.{name}", key) for name, key in keys_of(declaring).items())


def _config_keys() -> Iterator[str]:
    for name, key in _keys():
        yield name
        if key.is_secret:
            yield f"{name}_file"
        yield from (f"{name} = {choice!r}" for choice in key.choices)
        if key.choices:
            yield f"{name}: {key.default!r} by default"
        yield from (f"{name}: {kind}" for kind in find_kinds(key))
        yield from (f"{name}: {unit}" for unit, *_bounds in find_bounds(key))
    for event in COMMAND_EVENTS:
        yield f"game.commands.{event}"
    yield from (f"game.commands: {{{name}}}" for name in COMMAND_VALUES)


def _bounds_of_keys() -> Bounds:
    return [
        [f"config keys: {name}: {unit}", kind, bound]
        for name, key in _keys()
        for unit, least, greatest in find_bounds(key)
        for kind, bound in (("minimum", least), ("maximum", greatest))
    ]


def _parser() -> argparse.ArgumentParser:
    parser, parsers = build_parser()
    for lazy in parsers.values():
        lazy.declare()
    return parser


def _commands() -> Iterator[str]:
    yield from ALIASES.values()
    yield from _walk(_parser(), "")


def _walk(parser: argparse.ArgumentParser, path: str) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                name = f"{path} {choice.dest}".strip()
                yield name
                yield from _walk(action.choices[choice.dest], name)
            continue
        for name in action.option_strings or (action.dest.upper(),):
            yield f"{path} {name}".strip()
            yield from (f"{path} {name} {choice}".strip() for choice in action.choices or ())
            yield from (f"{path} {name}: {use}".strip() for use in _uses(action))
    for place, action in enumerate(parser._get_positional_actions(), start=1):
        if not isinstance(action, argparse._SubParsersAction):
            yield f"{path}: argument {place} is {action.dest.upper()}"


def _uses(action: argparse.Action) -> Iterator[str]:
    """Yield how an option or argument may be written."""
    how = action.nargs if action.nargs is not None else 1
    if how in (0, "?", "*"):
        yield "without a value" if action.option_strings else "left out"
    if how != 0:
        yield "with a value"
    if how in ("*", "+") or isinstance(action, argparse._AppendAction):
        yield "with several"


def _demands_of_commands() -> Iterator[tuple[str, str]]:
    """Yield each command with what it is refused without, or together."""
    parsers = [("", _parser())]
    while parsers:
        path, parser = parsers.pop()
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                parsers += [(f"{path} {name}".strip(), action.choices[name]) for name in action.choices]
            elif action.required and action.nargs not in ("?", "*"):
                yield path, (action.option_strings or [action.dest.upper()])[-1]
        for group in parser._mutually_exclusive_groups:
            names = sorted((action.option_strings or [action.dest.upper()])[-1] for action in group._group_actions)
            if group.required:
                yield path, f"an option of those with {names[0]}"
            yield from ((f"{path} {one}", f"no {other}") for one in names for other in names if one != other)


def _columns() -> Iterator[str]:
    for relation in (*(table for table in list_tables() if table.name not in INNER_TABLES), *list_views()):
        for column in relation.columns:
            yield f"{relation.name}.{column.name}"
            yield from (f"{relation.name}.{column.name} = {choice!r}" for choice in column.choices)
            if column.type:
                yield f"{relation.name}.{column.name}: {column.type.partition('(')[0]}"
                yield f"{relation.name}.{column.name}: {'may be' if column.may_be_empty else 'is never'} empty"
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        for migration in list_migrations():
            for name in ("TABLES", "CHANGES", "VIEWS"):
                for statement in statements_of(migration, "sqlite", name):
                    made.execute(in_sqlite(statement, SQLITE_TYPES, "VARCHAR({})"))
        for view in list_views():
            for _place, name, kind, *_rest in made.execute(f"PRAGMA table_info({view.name})"):
                yield f"{view.name}.{name}: {kind.partition('(')[0] or 'made of others'}"


def _bounds_of_columns() -> Bounds:
    return [
        [f"tables and views: {table.name}.{column.name}", "maxLength", int(length[1])]
        for table in list_tables()
        if table.name not in INNER_TABLES
        for column in table.columns
        if (length := re.fullmatch(r"VARCHAR\((\d+)\)", column.type))
    ]


def _export() -> Iterator[str]:
    """Yield the columns of each file of `companion export` at their places: new ones come last."""
    tables = {"users": USER_COLUMNS, "users --with-hashes": COLUMNS_WITH_HASHES, "audit": AUDIT_COLUMNS}
    for kind, columns in tables.items():
        yield from (f"{kind}: column {place} is {name}" for place, name in enumerate(columns, start=1))
    yield from (f"reviews {name}" for name in REVIEW_COLUMNS)


def _exit_statuses() -> Iterator[str]:
    """Yield each status of the reference with the commands that end with it."""
    text = REFERENCE.read_text(encoding="utf-8").partition("## Exit statuses")[2].partition("\n## ")[0]
    for status, commands in re.findall(r"^\| (\d+) \| (.+?) \|", text, re.MULTILINE):
        yield from (f"{status} of {command}" for command in commands.replace("`", "").split(", "))


def _mails() -> Iterator[str]:
    for file in MAILS.glob("*.txt"):
        yield file.stem
        yield from (f"{file.stem} ${name}" for name in Template(file.read_text(encoding="utf-8")).get_identifiers())


def _events() -> Iterator[str]:
    for action in EVENT_NAMES:
        event = _event(AuditEntry(id=1, action=action, target="Alice", operator="Olivia", created_at=now()), {})
        yield event.name
        yield from (f"{event.name} {name}" for name in event.data)


def _json_fields() -> Iterator[str]:
    yield from (f"doctor {name}" for name in json.loads(as_json(Checkup((), ()), {})))
    yield from (f"doctor findings.{field.name}" for field in msgspec.structs.fields(FindingFields))
    yield from (f"status {name}" for name in _found(r'"(\w+)": (?!\()', REGSVC / "cli" / "status.py"))
    yield from (f"sync {name}" for name in SyncReport(started_at=now()).as_json())


def _health_fields() -> Iterator[str]:
    for path, reply in (("alive", AliveReply), ("ready", ReadyReply)):
        yield from (f"/health/{path} {field.encode_name}" for field in msgspec.structs.fields(reply))


def _labels() -> Iterator[str]:
    """Yield each label of our metrics, which the client library keeps to itself, and each metric's type."""
    for metric, names in Metrics()._registry._collector_to_names.items():
        yield from (f"{names[0]}{{{label}}}" for label in getattr(metric, "_labelnames", ()))
        yield f"{names[0]}: a {getattr(metric, '_type', 'metric of several')}"


def _found(pattern: str, *files: Path) -> list[str]:
    return [name for file in files for name in re.findall(pattern, file.read_text(encoding="utf-8"))]
