"""Generator for the lists of docs/schema.md, from the migrations: `python -m tests.generators.schema [--check]`."""

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from regsvc.database.migrator import MIGRATION_TABLE, MYSQL_TYPES, list_migrations, statements_of
from regsvc.database.models import MODELS
from regsvc.users.transitions import BUILT_IN_REASONS, OWN_REASONS, TRANSITIONS
from tests.generators import bullets, grid, with_parts, write_or_check

# Hosts are told what is in them, but not each column: no query needs one, and any version may change them.
INNER_TABLES = {
    f"regsvc_{name}"
    for name in (
        *("installation", "migration", "lease", "sync_record", "bucket", "sync_state", "session", "known_client"),
        *("player_address", "reader", "recovery_code", "verification", "link", "chat_request", "rate_limit"),
        *("team_chat_message", "team_chat_link", "team_chat_event"),
    )
}
SCHEMA_FILE = Path(__file__).resolve().parents[2] / "docs" / "schema.md"


def main(arguments: list[str] | None = None, file: Path = SCHEMA_FILE) -> int:
    """Write or check the page; return the exit status."""
    parts = {
        "edits": _edits(),
        "reasons": _reasons(),
        "views": "\n".join(_section(view, _outer_tables()) for view in list_views()),
        "tables": "\n".join(_section(table, _outer_tables()[:place]) for place, table in enumerate(_outer_tables())),
        "inner": _inner_tables(),
    }
    return write_or_check(file, with_parts(file, parts), arguments, __doc__ or "")


# --- the tables and views, as the migrations' SQL describes them ---


_COLUMN = re.compile(r"^\s+(?:ADD COLUMN )?(\w+)\s+(.+?),? -- (.*)$", re.MULTILINE)
_VIEW = re.compile(r"^CREATE \{view\} (\w+) AS -- (.*)$", re.MULTILINE)
_VIEW_COLUMN = re.compile(r" AS (\w+),? -- (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Column:
    """`type` is MySQL's, empty for a column of a view. `choices`: the only values allowed; empty: any value is."""

    name: str
    note: str
    type: str = ""
    choices: tuple[str, ...] = ()
    may_be_empty: bool = False


@dataclass
class Relation:
    """A table or a view."""

    name: str
    note: str
    columns: list[Column] = field(default_factory=list)


def list_tables() -> list[Relation]:
    """Return all our tables in the order of the models, with the columns that all migrations together give them."""
    tables = {
        model._meta.table_name: Relation(model._meta.table_name, (model.__doc__ or "").strip().splitlines()[0])
        for model in MODELS
    }
    for statement in _table_statements():
        opening = re.match(r"(?:CREATE|ALTER) TABLE (?:IF NOT EXISTS )?(\w+)", statement)
        if opening is not None:
            columns = [_column(name, definition, note) for name, definition, note in _COLUMN.findall(statement)]
            earlier = tables[opening[1]].columns if statement.startswith("ALTER") else []  # one that is made anew
            tables[opening[1]].columns = [*earlier, *columns]
    return list(tables.values())


def list_views() -> list[Relation]:
    """Return all views in the order in which the migrations first create them, as the last one defines each."""
    views = {}
    for migration in list_migrations():
        for statement in statements_of(migration, "sqlite", "VIEWS"):
            if statement.startswith("DROP VIEW "):
                continue
            opening = _VIEW.match(statement)
            assert opening is not None, f"a view without a name or a note: {statement[:60]}"
            columns = [Column(name, note) for name, note in _VIEW_COLUMN.findall(statement, opening.end())]
            views[opening[1]] = Relation(opening[1], opening[2], columns)
    return list(views.values())


def _table_statements() -> Iterator[str]:
    yield MIGRATION_TABLE.strip()
    for migration in list_migrations():
        yield from [text for name in ("TABLES", "CHANGES") for text in statements_of(migration, "sqlite", name)]


def _column(name: str, definition: str, note: str) -> Column:
    check = re.search(r"CHECK \(\w+ IN \((.+?)\)\)", definition)
    return Column(
        name=name,
        note=note,
        type=_mysql_type(definition.split(" ")[0]),
        choices=tuple(re.findall(r"'(\w+)'", check[1])) if check else (),
        may_be_empty=bool(re.search(r"(?<!NOT) NULL", definition)),
    )


def _mysql_type(word: str) -> str:
    """Return MySQL's type for a placeholder: `{text:16}` is VARCHAR(16), `{id}` is BIGINT."""
    text = re.fullmatch(r"\{text:(\d+)\}", word)
    if text is not None:
        return f"VARCHAR({text[1]})"
    return MYSQL_TYPES.get(word.strip("{}"), word).split(" ")[0]


# --- Markdown ---


def _edits() -> str:
    rows = [
        (_words(sorted(transition.sources)), f"`{transition.target}`", name)
        for name, transition in TRANSITIONS.items()
        if transition.target is not None and transition.is_by_sql
    ]
    return grid(("from", "to", "is a"), *rows)


def _reasons() -> str:
    return f"{_words((*BUILT_IN_REASONS, *OWN_REASONS))}.\n"


def _outer_tables() -> list[Relation]:
    return [table for table in list_tables() if table.name not in INNER_TABLES]


def _inner_tables() -> str:
    return "\n".join(f"* `{table.name}`" for table in list_tables() if table.name in INNER_TABLES) + "\n"


def _section(relation: Relation, explained: list[Relation]) -> str:
    """Return the section of a table or view; the columns that it has from one of these tables are only named."""
    table, same = max(
        ((table, _same_columns(relation, table)) for table in explained),
        key=lambda found: len(found[1]),
        default=(relation, []),
    )
    rows = [(_name_and_type(column), _note(column)) for column in relation.columns if column.name not in same]
    parts = [f"### {relation.name}", f"{relation.note[0].upper()}{relation.note[1:].removesuffix('.')}."]
    if same:
        parts.append(f"As in `{table.name}`: {_words(same)}.")
    if rows:
        parts.append(bullets(rows).strip())
    return "\n\n".join(parts) + "\n"


def _same_columns(relation: Relation, table: Relation) -> list[str]:
    """Return the names of the columns that the table has with the same note, and the same type unless in a view."""
    told = {(column.name, column.note): column.type for column in table.columns}
    return [
        column.name
        for column in relation.columns
        if column.type in ("", told.get((column.name, column.note))) and (column.name, column.note) in told
    ]


def _name_and_type(column: Column) -> str:
    if not column.type:
        return f"`{column.name}`"
    return f"`{column.name}` {column.type}{'?' if column.may_be_empty else ''}"


def _note(column: Column) -> str:
    return f"{column.note}; one of {_words(column.choices)}" if column.choices else column.note


def _words(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


if __name__ == "__main__":
    sys.exit(main())
