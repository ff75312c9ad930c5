"""Generator for docs/schema.md, from migrations and example queries: `python -m regsvc.cli.docs.schema [--check]`."""

import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from regsvc.cli.docs import write_or_check
from regsvc.core.i18n.languages import FALLBACK_LANGUAGE
from regsvc.core.i18n.translation_files import read_built_in_texts
from regsvc.database.migrator import MIGRATION_TABLE, MYSQL_TYPES, list_migrations, split_statements
from regsvc.database.models import MODELS
from regsvc.users.transitions import BUILT_IN_REASONS, OWN_REASONS, TRANSITIONS


@dataclass(frozen=True)
class ExampleQuery:
    """`sql` is one statement without a semicolon that runs on SQLite, MariaDB and MySQL; `note` explains the result."""

    name: str
    title: str
    sql: str
    note: str


EXAMPLE_QUERIES: Final = (
    ExampleQuery(
        "review_queue",
        "Who is waiting for review, and since when?",
        """\
SELECT username, email, registered_at, times_rejected, plugin_state, plugin_since
FROM regsvc_v_review_queue
ORDER BY registered_at""",
        "Oldest first. `times_rejected` counts earlier rejections of the name. A `plugin_state` of `conflict` "
        "means that the game has had a row of this name since `plugin_since` that is not the applicant's.",
    ),
    ExampleQuery(
        "banned",
        "Who is banned, why, and until when?",
        """\
SELECT username, reason, reviewed_by, reviewed_at, ban_expires_at
FROM regsvc_v_users
WHERE status = 'banned'
ORDER BY ban_expires_at IS NULL, ban_expires_at""",
        "The ban that ends next is first. An empty `ban_expires_at` means a permanent ban.",
    ),
    ExampleQuery(
        "story_of_alice",
        "What happened to Alice?",
        """\
SELECT created_at, action, operator, detail, ip
FROM regsvc_audit
WHERE target IN ('Alice', 'alice')
ORDER BY id""",
        "The audit log has names as they were written at the time, or in lower case. "
        "It outlives the user, and so does `regsvc_review`, which has every decision with its reason.",
    ),
    ExampleQuery(
        "undelivered_mails",
        "Which mails were not delivered?",
        """\
SELECT created_at, recipient, template, state, attempts, next_attempt_at, last_error
FROM regsvc_v_outbox
WHERE state <> 'sent'
ORDER BY id""",
        "`waiting` is tried again at `next_attempt_at`; `failed` is not tried again; `dropped` is no longer needed, "
        "for example a code that expired before the mail server accepted it.",
    ),
    ExampleQuery(
        "drift",
        "Which players differ from the expected state, and why?",
        """\
SELECT username, status, difference, found_at, why
FROM regsvc_v_sync_drift
ORDER BY difference, found_at""",
        "The state after the last sync run. `locked` is expected for a ban or a pending review; "
        "`conflict` and `returned` need a decision by an operator.",
    ),
    ExampleQuery(
        "rejected_names",
        "Which names were rejected earlier, and what is their status now?",
        """\
SELECT r.username, r.reviewed_at, r.operator, r.reason, u.status AS status_now
FROM regsvc_review r
LEFT JOIN regsvc_user u ON u.username_key = r.username_key
WHERE r.transition = 'reject'
ORDER BY r.id DESC""",
        "Newest first. An empty `status_now` means that no user has this name any more.",
    ),
    ExampleQuery(
        "logins_by_address",
        "From which addresses were logins as Alice attempted?",
        """\
SELECT ip, action, SUM(occurrences) AS times, MIN(created_at) AS first_at, MAX(created_at) AS last_at
FROM regsvc_audit
WHERE target IN ('Alice', 'alice') AND action IN ('user.logged_in', 'admin.logged_in', 'user.login_failed')
GROUP BY ip, action
ORDER BY last_at DESC""",
        "Web logins only; the game keeps its own. They are counted per hour, so their times are rounded.",
    ),
    ExampleQuery(
        "approvals_by_month",
        "Who approved most this month?",
        """\
SELECT SUBSTR(reviewed_at, 1, 7) AS month, operator, COUNT(*) AS approvals
FROM regsvc_review
WHERE transition = 'approve'
GROUP BY month, operator
ORDER BY month DESC, approvals DESC""",
        "The current month comes first. The operator `sql` stands for approvals made by editing the table.",
    ),
    ExampleQuery(
        "ban",
        "Ban Alice",
        """\
UPDATE regsvc_user
SET status = 'banned', reason = 'griefing'
WHERE username_key = 'alice'""",
        "The mail to Alice contains the reason. For a temporary ban also set "
        "`ban_expires_at = '2031-06-01 00:00:00'`, in UTC.",
    ),
    ExampleQuery(
        "unban",
        "Lift Alice's ban",
        """\
UPDATE regsvc_user
SET status = 'approved'
WHERE username_key = 'alice'""",
        "Her old password works again. The same statement approves a pending or rejected user.",
    ),
    ExampleQuery(
        "delete",
        "Delete Alice",
        """\
DELETE FROM regsvc_user
WHERE username_key = 'alice'""",
        "The next sync run removes her player. Her reviews and audit entries stay. On SQLite, run "
        "`PRAGMA foreign_keys = ON` first to delete her sessions and links as well; otherwise they are refused, and "
        "removed when they expire.",
    ),
)


SCHEMA_FILE = Path(__file__).resolve().parents[3] / "docs" / "schema.md"

_WIDTH = 120

_HEAD = """\
# Database reference for SQL users

Generated by `make sample` from the notes in `regsvc/database/migrations/`.

All our tables begin with `regsvc_`. The types are those of MySQL and MariaDB; on SQLite every text is `TEXT`, and times
are text, too, such as `2031-05-04 12:00:00.123`, which sorts by time. All times are UTC. Columns ending in `_key` are
for comparing: a `username_key` is the name in lower case.

On MySQL and MariaDB the tables are in AuthMe's database, or in the one that `database.url` names. On SQLite they are in
`companion.db` in the state directory, usually `/var/lib/companion`; `companion check-config` prints the path. Open it
as the user who owns it, with SQLite 3.35 or newer, whether the companion is running or not:
`sudo -u mc sqlite3 /var/lib/companion/companion.db` (Debian: `apt install sqlite3`). Put `PRAGMA busy_timeout = 5000;`
before an edit, and keep a transaction short: the companion waits while it is open.

No secret is stored in plain text: passwords are hashed, codes and mailed links are derived from a key that is not in
the database, and access tokens are stored by their id.
"""

_EDITING = """\
## What may be edited

A user's `status` is a request. Change it, and the next sync run (`sync.every`, usually within half a minute) does what
the API would have done: it writes the review and the audit entry with the operator `sql`, mails the user, sets
`applied_status` to match, and locks, unlocks or creates the player in the game. A ban ends the user's sessions sooner:
at their next request. These edits have a meaning:

{edits}

With the status you may set a `reason`, and with `banned` a `ban_expires_at`. A ban ends when its `ban_expires_at` has
passed, however it was set.

A reason is what an operator wrote, or one of these codes, here and in the details of the audit log. Mails and pages
have its words in the reader's language:

{reasons}

Write dates as `2031-06-01` or `2031-06-01 18:30:00`, in UTC. The database refuses anything else, `01.06.2031` for
example. A date that cannot be read (in a database of an older version, or a zero date of MySQL and MariaDB) counts as
empty, so that a ban with such an end is permanent; a required date counts as 1970. The sync reports it once, in the log
and with the entry `sync.edit_refused` in the audit log; `companion users show` names it until it is corrected.

Deleting a row means deleting the user: sessions are refused at their next request, and the next sync run removes the
player and writes the audit entry.

The sync reverts, with the entry `sync.edit_refused` in the audit log: a status change that is not in the table above
(`approved` back to `pending`, for example), another `username_key`, and a `username` that is not the same name in
another case. The database itself refuses an unknown status, and, where the database login may create triggers, every
change of the audit log.

Do not change: `applied_status`, which is how the sync detects edits (changed together with `status` it hides the edit:
no review, no mail, no audit entry); `regsvc_sync_record`, which is all that the sync knows about the game; hashes,
salts and nonces. Edits of the game's own table count as changes made in the game.

Without a `WHERE`, an edit affects all users. If one run finds more edits than `sync.max_changes`, it applies none of
them and waits for `companion sync --allow-mass-changes`; until then you can undo them. Meanwhile `regsvc_v_sync_drift`
lists them as `edited` and `deleted`.
"""

_VIEWS = """\
## Views

The views read our tables only, and return rows in no particular order: add `ORDER BY`. They are missing if the database
login may not create views; once it may, run `DELETE FROM regsvc_migration WHERE name = 'baseline'` and restart.
"""


def schema_doc() -> str:
    """Return the text of docs/schema.md."""
    blocks = [
        _HEAD,
        _EDITING.format(edits=_edits(), reasons=_reasons()),
        "## Example queries\n",
        *(_query(number, query) for number, query in enumerate(EXAMPLE_QUERIES, 1)),
        _VIEWS,
        *(_view(view) for view in list_views()),
        "## Tables\n",
        *(_table(table) for table in list_tables()),
    ]
    return "\n".join(blocks)


def main(arguments: list[str] | None = None, file: Path = SCHEMA_FILE) -> int:
    """Write or check the page; return the exit status."""
    return write_or_check(file, schema_doc(), arguments, __doc__ or "")


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


def _first_sentence(docstring: str) -> str:
    return docstring.strip().splitlines()[0]


# --- Markdown ---


def _edits() -> str:
    rows = [
        (_words(sorted(transition.sources)), f"`{transition.target}`", name)
        for name, transition in TRANSITIONS.items()
        if transition.target is not None
    ]
    return _grid(("from", "to", "is a"), rows).rstrip()


def _reasons() -> str:
    texts = read_built_in_texts()[FALLBACK_LANGUAGE]
    rows = [(f"`{code}`", texts[f"reason.{code}"]) for code in (*BUILT_IN_REASONS, *OWN_REASONS)]
    return _grid(("code", "in English"), rows).rstrip()


def _query(number: int, query: ExampleQuery) -> str:
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
    """Escape what Markdown would take for the end of the cell or for a tag."""
    return cell.replace("|", r"\|").replace("<", r"\<")


if __name__ == "__main__":
    sys.exit(main())
