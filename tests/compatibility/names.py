"""Names that hosts write into configs, SQL, scripts, templates and dashboards, by what they name."""

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from string import Template

import msgspec

from regsvc.accounts.chat.linking import PATH as CHAT_LINKED
from regsvc.cli.command_line import ALIASES, build_parser
from regsvc.config.key_types import keys_of
from regsvc.config.layers import DOWNLOADS, LISTED, SECTIONS
from regsvc.config.sections import Download
from regsvc.core.clock import now
from regsvc.database.audit import ACTIONS
from regsvc.database.models import AuditEntry
from regsvc.doctor.checkup import Checkup, as_json
from regsvc.doctor.finding import Finding
from regsvc.runtime.event_streams import EVENT_NAMES, _event
from regsvc.runtime.health import AliveReply, ReadyReply
from regsvc.runtime.metrics import Metrics
from regsvc.sync.report import SyncReport
from regsvc.users.transitions import BUILT_IN_REASONS, OWN_REASONS
from regsvc.web.pages import PAGE_TABLE
from tests.generators.schema import INNER_TABLES, list_tables, list_views

REGSVC = Path(__file__).resolve().parents[2] / "regsvc"
MAILS = REGSVC / "notifications" / "mail" / "texts" / "en"


def list_names() -> dict[str, list[str]]:
    """Return all names, sorted, by group."""
    groups: Mapping[str, Iterator[str] | Sequence[str]] = {
        "config keys": _config_keys(),
        "commands": _commands(),
        "tables and views": _columns(),
        "actions of the audit log": ACTIONS,
        "codes of reasons": (*BUILT_IN_REASONS, *OWN_REASONS),
        "mails": _mails(),
        "events": _events(),
        "fields of --json": _json_fields(),
        "fields of /health": _health_fields(),
        "metrics": (
            *_found(r'"(companion_[a-z_]+)"', REGSVC / "runtime" / "metrics.py", REGSVC / "http" / "metrics.py"),
            *_labels(),
        ),
        "pages": (*(page.path for page in PAGE_TABLE), "/docs", CHAT_LINKED),
        "variables of the style sheet": _found(r"(--[a-z0-9-]+):", REGSVC / "web" / "static" / "styles" / "tokens.css"),
    }
    return {group: sorted(set(names)) for group, names in groups.items()}


def _config_keys() -> Iterator[str]:
    for section, declaring in {**SECTIONS, f"{DOWNLOADS}.NAME": Download, **LISTED}.items():
        for name, key in keys_of(declaring).items():
            yield f"{section}.{name}"
            if key.is_secret:
                yield f"{section}.{name}_file"
            yield from (f"{section}.{name} = {choice!r}" for choice in key.choices)


def _commands() -> Iterator[str]:
    parser, parsers = build_parser()
    for lazy in parsers.values():
        lazy.declare()
    yield from ALIASES.values()
    yield from _walk(parser, "")


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


def _columns() -> Iterator[str]:
    for relation in (*(table for table in list_tables() if table.name not in INNER_TABLES), *list_views()):
        for column in relation.columns:
            yield f"{relation.name}.{column.name}"
            yield from (f"{relation.name}.{column.name} = {choice!r}" for choice in column.choices)


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
    yield from (f"doctor findings.{field.name}" for field in fields(Finding))
    yield from (f"status {name}" for name in _found(r'"(\w+)": (?!\()', REGSVC / "cli" / "status.py"))
    yield from (f"sync {name}" for name in SyncReport(now()).as_json())


def _health_fields() -> Iterator[str]:
    for path, reply in (("alive", AliveReply), ("ready", ReadyReply)):
        yield from (f"/health/{path} {field.encode_name}" for field in msgspec.structs.fields(reply))


def _labels() -> Iterator[str]:
    """Yield each label of our metrics, which the client library keeps to itself."""
    for metric, names in Metrics()._registry._collector_to_names.items():
        yield from (f"{names[0]}{{{label}}}" for label in getattr(metric, "_labelnames", ()))


def _found(pattern: str, *files: Path) -> list[str]:
    return [name for file in files for name in re.findall(pattern, file.read_text(encoding="utf-8"))]
