"""Our tables and views as the migrations' SQL describes them: the only place where the notes on columns are written."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from regsvc.database.migrator import MIGRATION_TABLE, MYSQL_TYPES, list_migrations, split_statements
from regsvc.database.models import MODELS

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
        model._meta.table_name: Relation(model._meta.table_name, _first_sentence(model.__doc__ or ""))
        for model in MODELS
    }
    for statement in _table_statements():
        opening = re.match(r"(?:CREATE|ALTER) TABLE (?:IF NOT EXISTS )?(\w+)", statement)
        if opening is not None:
            columns = (_column(name, definition, note) for name, definition, note in _COLUMN.findall(statement))
            tables[opening[1]].columns += columns
    return list(tables.values())


def list_views() -> list[Relation]:
    """Return all views in the order in which the migrations create them."""
    views = []
    for migration in list_migrations():
        for statement in split_statements(getattr(migration.module, "VIEWS", "")):
            opening = _VIEW.match(statement)
            assert opening is not None, f"a view without a name or a note: {statement[:60]}"
            columns = [Column(name, note) for name, note in _VIEW_COLUMN.findall(statement, opening.end())]
            views.append(Relation(opening[1], opening[2], columns))
    return views


def _table_statements() -> Iterator[str]:
    yield MIGRATION_TABLE.strip()
    for migration in list_migrations():
        yield from split_statements(getattr(migration.module, "TABLES", ""))


def _column(name: str, definition: str, note: str) -> Column:
    check = re.search(r"CHECK \(\w+ IN \((.+?)\)\)", definition)
    return Column(
        name=name,
        note=note,
        type=_type(definition.split(" ")[0]),
        choices=tuple(re.findall(r"'(\w+)'", check[1])) if check else (),
        may_be_empty=bool(re.search(r"(?<!NOT) NULL", definition)),
    )


def _type(word: str) -> str:
    """Return MySQL's type for a placeholder: `{text:16}` is VARCHAR(16), `{id}` is BIGINT."""
    text = re.fullmatch(r"\{text:(\d+)\}", word)
    if text is not None:
        return f"VARCHAR({text[1]})"
    return MYSQL_TYPES.get(word.strip("{}"), word).split(" ")[0]


def _first_sentence(docstring: str) -> str:
    return docstring.strip().splitlines()[0]
