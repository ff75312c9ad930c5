"""docs/schema.md, made from the migrations and the worked queries: `python -m regsvc.cli.docs.schema [--check]`."""

import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path

from regsvc.cli.docs.example_queries import WORKED_QUERIES, WorkedQuery
from regsvc.cli.docs.generated_file import write_or_check
from regsvc.database.schema import Column, Relation, list_tables, list_views
from regsvc.users.transitions import TRANSITIONS

SCHEMA_FILE = Path(__file__).resolve().parents[3] / "docs" / "schema.md"

_WIDTH = 120

_HEAD = """\
# The database, for people who type SQL

Written by `make sample`; the notes stand in `regsvc/database/migrations/`.

Everything of ours begins with `regsvc_`. The types are those of MySQL and MariaDB; on SQLite a text is `TEXT` whatever
its length, and a moment is text too, such as `2031-05-04 12:00:00.123`, which sorts by time. All times are UTC. Names
ending in `_key` are for comparing: a `username_key` is the name in lower case.

No secret stands here in clear: passwords are hashes, codes and mailed links are derived from a key that is not in the
database, access tokens are known by their id.
"""

_EDITING = """\
## What may be edited

A user's `status` is a wish. Type another one, and the next run of the sync (`sync.every`, usually within half a
minute) does what the API would have done. It writes the review and the audit entry with the operator `sql`, mails the
user, sets `applied_status` to match, and locks, opens or makes the player in the game. A ban ends the user's sessions
sooner: at their next request. These are the edits that stand for something:

{edits}

Together with a status you may type a `reason`, and with `banned` a `ban_expires_at`. A ban ends when its
`ban_expires_at` has passed, whoever wrote it.

A deleted row means what deleting the user means: sessions are refused at their next request, and the next run removes
the player and writes the audit entry.

What is put back, with the entry `sync.edit_refused` in the audit log: a status that the table above does not have
(`approved` back to `pending`, say), and another `username_key`, or a `username` that is not the same name in another
case. A word that is no status is refused by the database itself, and so is every change of the audit log where the
database login may make triggers.

What to leave alone: `applied_status`, which tells us that somebody typed something (typed along with `status` it hides
the edit: no review, no mail, no audit entry); `regsvc_player`, which is all that the sync knows of the game; whatever
is a hash, a salt or a nonce. What is typed into the game's own table counts as done in the game.

Without a `WHERE` an edit is for everybody. When one run finds more of them than `sync.max_changes`, it carries out none
and waits for `companion sync --allow-mass-changes`; until then they can be typed back. Meanwhile `regsvc_v_sync_drift`
lists them as `edited` and `deleted`.
"""

_VIEWS = """\
## Views

They read our tables alone, and have no order of their own: say `ORDER BY`. A database login that may not make views
goes without; once it may, `DELETE FROM regsvc_migration WHERE name = 'views'` and a start make them.
"""


def schema_doc() -> str:
    """The text of docs/schema.md."""
    blocks = [
        _HEAD,
        _EDITING.format(edits=_edits()),
        "## Worked queries\n",
        *(_query(number, query) for number, query in enumerate(WORKED_QUERIES, 1)),
        _VIEWS,
        *(_view(view) for view in list_views()),
        "## Tables\n",
        *(_table(table) for table in list_tables()),
    ]
    return "\n".join(blocks)


def main(arguments: list[str] | None = None, file: Path = SCHEMA_FILE) -> int:
    """Write the page; with --check say whether the file is current (exit status 0) or not (1)."""
    return write_or_check(file, schema_doc(), arguments, __doc__ or "")


def _edits() -> str:
    rows = [
        (_words(sorted(transition.sources)), f"`{transition.target}`", name)
        for name, transition in TRANSITIONS.items()
        if transition.target is not None
    ]
    return _grid(("from", "to", "is a"), rows).rstrip()


def _query(number: int, query: WorkedQuery) -> str:
    return f"### {number}. {query.title}\n\n```sql\n{query.sql};\n```\n\n{textwrap.fill(query.note, _WIDTH)}\n"


def _view(view: Relation) -> str:
    rows = [(f"`{column.name}`", column.note) for column in view.columns]
    return f"### {view.name}\n\n{_sentence(view.note)}\n\n{_grid(('column', 'note'), rows)}"


def _table(table: Relation) -> str:
    rows = [(f"`{column.name}`", _type(column), _note(column)) for column in table.columns]
    return f"### {table.name}\n\n{table.note}\n\n{_grid(('column', 'type', 'note'), rows)}"


def _type(column: Column) -> str:
    return f"{column.type}, may be empty" if column.may_be_empty else column.type


def _note(column: Column) -> str:
    return f"{column.note}; one of {_words(column.choices)}" if column.choices else column.note


def _words(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _sentence(note: str) -> str:
    return f"{note[0].upper()}{note[1:]}."


def _grid(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "".join(f"| {' | '.join(_escaped(cell) for cell in line)} |\n" for line in lines)


def _escaped(cell: str) -> str:
    """Without what Markdown would take for the end of the cell or for a tag."""
    return cell.replace("|", r"\|").replace("<", r"\<")


if __name__ == "__main__":
    sys.exit(main())
