"""AuthMe's table as it really is: what keeps us from writing it, and what in it will hurt somebody one day."""

from collections.abc import Iterable, Iterator
from typing import Final

from plugin_bridge.authme.config import Backend
from plugin_bridge.authme.players import NO_EMAIL
from regsvc.doctor.facts.databases import unwritable_paths
from regsvc.doctor.facts.facts import Facts, FixLocation, Source
from regsvc.doctor.facts.player_table import PlayerColumn
from regsvc.doctor.facts.readonly_db import DatabaseUnreadable
from regsvc.doctor.finding import Check, Severity, Symptom, check

# Columns an INSERT of ours fills; `email` is left to its default where there is none.
_INSERTED_COLUMNS: Final = ("username", "realname", "password", "salt", "register_date", "register_ip")
# Columns that old versions of AuthMe do not make.
_OPTIONAL_COLUMNS: Final = frozenset({"premium_uuid", "totp"})
_TEXT_COLUMNS: Final = ("username", "realname", "email")
_UTF8: Final = ("utf8", "utf8mb3", "utf8mb4")
_MAX_NAMES: Final = 3


@check(
    "table.missing",
    Severity.BROKEN,
    means="AuthMe's table, or its SQLite file, is not there.",
    why="Nobody who is approved can play.",
    do="Start the game server with AuthMe once: it makes the table. Or name the one it has.",
    where=FixLocation(Source.AUTHME, "DataSource.mySQLTablename, DataSource.mySQLDatabase"),
)
def table_is_missing(facts: Facts) -> Iterator[str]:
    players = facts.players
    if players.table is None and not players.missing_rights:
        place = _file_or_schema(facts)
        yield f"There is no table {facts.authme.table} in {place}."


@check(
    "table.unreadable",
    Severity.BROKEN,
    means="AuthMe's SQLite file cannot be read, or is no database.",
    why="Nobody who is approved can play.",
    do="Let the companion's user read and write the file, or restore a backup of it.",
    where=FixLocation(Source.AUTHME, "DataSource.mySQLDatabase"),
)
def file_is_unreadable(facts: Facts) -> Iterator[Symptom]:
    problem = facts.databases.players
    if isinstance(problem, DatabaseUnreadable) and facts.databases.ours is not problem:
        yield Symptom(f"{_file_or_schema(facts)} cannot be read: {problem}.", where=_file_or_schema(facts))


@check(
    "table.rights",
    Severity.BROKEN,
    means="We may not SELECT, INSERT, UPDATE or DELETE in AuthMe's table; on SQLite not write the file or its folder.",
    why="Approved players are not added, banned ones not locked, and passwords of the web do not reach the game.",
    do="Grant it; on SQLite give the companion the game server's own user or group.",
    where=FixLocation(Source.DATABASE, "GRANT"),
)
def rights_are_missing(facts: Facts) -> Iterator[Symptom]:
    authme = facts.authme
    if authme.backend == Backend.SQLITE:
        if facts.players.table is not None:
            for path in unwritable_paths(authme.sqlite_file):
                yield Symptom(f"We may not write to {path}.", where=str(path))
        return
    missing = facts.players.missing_rights
    if missing:
        grant = f"GRANT {', '.join(missing)} ON `{authme.database}`.`{authme.table}` TO {facts.login};"
        yield Symptom(f"Our login may not {', '.join(missing)} on AuthMe's table {authme.table}.", where=grant)


@check(
    "table.column_missing",
    Severity.BROKEN,
    means="AuthMe's config names a column that its table does not have.",
    why="AuthMe's own statements fail on it, and to AuthMe a failed one means “not registered”.",
    do="Restart the game server: AuthMe adds what is missing. If it does not, mend the name.",
    where=FixLocation(Source.AUTHME, "DataSource.mySQLColumn…"),
)
def column_is_missing(facts: Facts) -> Iterator[Symptom]:
    table, columns = facts.player_table, facts.authme.columns
    for field in columns.__dataclass_fields__:
        name = str(getattr(columns, field))
        if name and field not in _OPTIONAL_COLUMNS and table.find(name) is None:
            key = columns.__dataclass_fields__[field].metadata["key"]
            where = facts.describe(FixLocation(Source.AUTHME, f"{key}: {name}"))
            yield Symptom(f"AuthMe's table {facts.authme.table} has no column {name}.", where=where)


@check(
    "table.needs_more",
    Severity.BROKEN,
    means="AuthMe's table has a column that must be filled, has no default, and is none of AuthMe's.",
    why="No player can be added, by us or by AuthMe.",
    do="Give it a default, or let it be NULL; an id needs AUTO_INCREMENT.",
    where=FixLocation(Source.DATABASE, "ALTER TABLE"),
)
def column_must_be_filled(facts: Facts) -> Iterator[Symptom]:
    columns, table = facts.authme.columns, facts.player_table
    filled = {str(getattr(columns, name)).lower() for name in _INSERTED_COLUMNS}
    if any(name and table.find(name) is None for name in filled):
        return  # under another name than the config has, which is told: it may well be this column
    for column in table.columns.values():
        must_be_filled = not column.is_nullable and column.default is None and not column.is_generated
        if must_be_filled and column.name.lower() not in filled:
            where = f"ALTER TABLE {facts.authme.table}: {column.name}"
            yield Symptom(f"The column {column.name} is NOT NULL without a default.", where=where)


@check(
    "table.ids_used_up",
    Severity.BROKEN,
    means="The id column of AuthMe's table has no number left: AuthMe's own MEDIUMINT ends at 16777215.",
    why="No player can be added, by us or by AuthMe, which tells the player that it was done.",
    do="Make the column larger while the game server is stopped.",
    where=FixLocation(Source.DATABASE, "ALTER TABLE"),
)
def ids_are_used_up(facts: Facts) -> Iterator[Symptom]:
    yield from _ids(facts, "The numbers of the column {name} in AuthMe's table are used up.", share=1.0)


@check(
    "table.ids_end",
    Severity.RISKY,
    means="Nine tenths of the numbers of AuthMe's id column are used up. Every refused registration takes one, too.",
    why="After the last one no player can be added, by us or by AuthMe.",
    do="Make the column larger while the game server is stopped.",
    where=FixLocation(Source.DATABASE, "ALTER TABLE"),
)
def ids_will_end(facts: Facts) -> Iterator[Symptom]:
    if not list(ids_are_used_up.examine(facts)):
        yield from _ids(
            facts, "The column {name} in AuthMe's table ends at {max_value}, and stands at {next}.", share=0.9
        )


@check(
    "table.email_required",
    Severity.RISKY,
    means="The e-mail column of an old table cannot be NULL: who has no e-mail has your@email.com.",
    why="Other programs on this table take the placeholder for everybody's address.",
    do="Let it be NULL: /authme debug mysqldef on the game server's console does it.",
    where=FixLocation(Source.DATABASE, "the e-mail column of AuthMe's table"),
)
def email_is_required(facts: Facts) -> Iterator[str]:
    email = facts.player_table.find(facts.authme.columns.email)
    if email is not None and not email.is_nullable and email.default is not None:
        default = f"the default {NO_EMAIL}" if NO_EMAIL in email.default else "a default"
        yield f"The column {email.name} of AuthMe's table is NOT NULL with {default}."


@check(
    "table.not_transactional",
    Severity.RISKY,
    means="AuthMe's table is not InnoDB.",
    why="It locks as a whole, a crash can damage it, and its rows do not change in one transaction with ours.",
    do="Convert it while the game server is stopped.",
    where=FixLocation(Source.DATABASE, "ALTER TABLE … ENGINE=InnoDB"),
)
def table_is_not_innodb(facts: Facts) -> Iterator[Symptom]:
    engine = facts.player_table.engine
    if engine is not None and engine.lower() != "innodb":
        table = f"`{facts.authme.database}`.`{facts.authme.table}`"
        yield Symptom(f"AuthMe's table is {engine}.", where=f"ALTER TABLE {table} ENGINE=InnoDB;")


@check(
    "table.charset",
    Severity.RISKY,
    means="A column of an old table has a character set that cannot hold every name or address, such as latin1.",
    why="Players whose name or address does not fit are added without it, or not at all.",
    do="Convert the table while the game server is stopped, and keep a backup.",
    where=FixLocation(Source.DATABASE, "ALTER TABLE … CONVERT TO CHARACTER SET utf8mb4"),
)
def charset_is_narrow(facts: Facts) -> Iterator[Symptom]:
    found = (facts.player_table.find(str(getattr(facts.authme.columns, name))) for name in _TEXT_COLUMNS)
    narrow = [column for column in found if column is not None and _is_narrow(column)]
    if narrow:
        names = ", ".join(f"{column.name} ({column.charset})" for column in narrow)
        table = f"`{facts.authme.database}`.`{facts.authme.table}`"
        where = f"ALTER TABLE {table} CONVERT TO CHARACTER SET utf8mb4;"
        yield Symptom(f"These columns of AuthMe's table cannot hold every character: {names}.", where=where)


@check(
    "table.collation",
    Severity.RISKY,
    means="AuthMe allows names with accents, and its table takes them for the same name without.",
    why="Who is called like somebody else but for an accent cannot register, or is taken for the other.",
    do="Allow plain letters only, or give the username column a _bin collation.",
    where=FixLocation(Source.AUTHME, "settings.restrictions.allowedNicknameCharacters: '[a-zA-Z0-9_]*'"),
)
def accents_are_lost(facts: Facts) -> Iterator[str]:
    allows_accents = facts.authme.name_rule.pattern.matches("Jérôme")
    if allows_accents and facts.players.ignores_accents:
        username = facts.player_table.find(facts.authme.columns.username)
        yield f"To the column username ({username.collation if username else None}) Jérôme and Jerome are one name."


@check(
    "table.mixed_case",
    Severity.RISKY,
    means="Names in AuthMe's table are not in lower case, as another program wrote them.",
    why="AuthMe looks for lower case: such a row it finds always, at times or never, as the database compares texts. "
    "The companion leaves it alone: this player cannot log in here, or be banned.",
    do="Write them in lower case, with the game server stopped.",
    where=FixLocation(Source.DATABASE, "UPDATE … SET username = LOWER(username)"),
)
def names_are_mixed_case(facts: Facts) -> Iterator[str]:
    names = facts.player_row_counts.mixed_case
    if names:
        yield f"{_at_least(names)} in AuthMe's table: {_some(names)}"


@check(
    "table.same_name_twice",
    Severity.RISKY,
    means="AuthMe's table has two rows for one name, in different case.",
    why="The game uses one here and the other there. We keep to the row in lower case and leave the other alone.",
    do="Decide which row is the player's, and delete the other.",
    where=FixLocation(Source.DATABASE, "AuthMe's table"),
)
def names_are_there_twice(facts: Facts) -> Iterator[str]:
    names = facts.player_row_counts.twice
    if names:
        stand = "name stands" if len(names) == 1 else "names stand"
        yield f"{len(names)} {stand} in AuthMe's table more than once, in different case: {_some(names)}"


@check(
    "table.dates_in_seconds",
    Severity.RISKY,
    means="Times in AuthMe's table are in seconds, as old versions and other programs wrote them, not milliseconds.",
    why="AuthMe takes them for January 1970: these players are the first to go in a purge.",
    do="Multiply them by 1000, with the game server stopped. The companion knows what is meant, before and after.",
    where=FixLocation(Source.DATABASE, "the columns of the registration date and the last login"),
)
def dates_are_in_seconds(facts: Facts) -> Iterator[str]:
    rows = facts.player_row_counts
    told_as_purged = rows.old - rows.undated if facts.authme.purges_by_itself else 0
    count = rows.in_seconds - told_as_purged
    if count > 0:
        yield f"{count} {'player has' if count == 1 else 'players have'} a time in seconds."


@check(
    "table.purge",
    Severity.RISKY,
    means="AuthMe deletes old players by itself, and there are players without a date, or with one in seconds.",
    why="To AuthMe they were last here in 1970: they are deleted when the game server starts.",
    do="Switch it off until the dates are mended.",
    where=FixLocation(Source.AUTHME, "Purge.useAutoPurge: false"),
)
def players_are_purged(facts: Facts) -> Iterator[str]:
    if facts.authme.purges_by_itself and facts.player_row_counts.old:
        count = facts.player_row_counts.old
        days = facts.authme.purges_after_days
        yield f"{count} {_have_no_date(count)} that AuthMe can use, and it deletes who was away for {days} days."


CHECKS: Final[tuple[Check, ...]] = (
    *(table_is_missing, file_is_unreadable, rights_are_missing, column_is_missing, column_must_be_filled),
    *(ids_are_used_up, ids_will_end, email_is_required, table_is_not_innodb, charset_is_narrow, accents_are_lost),
    *(names_are_mixed_case, names_are_there_twice, dates_are_in_seconds, players_are_purged),
)


def _file_or_schema(facts: Facts) -> str:
    """Where AuthMe's table should be."""
    authme = facts.authme
    return str(authme.sqlite_file) if authme.backend == Backend.SQLITE else authme.database


def _ids(facts: Facts, title: str, *, share: float) -> Iterator[Symptom]:
    """Where this share of the numbers is used up."""
    table = facts.player_table
    column = table.find(facts.authme.columns.id)
    if column is None or column.max_value is None or not column.is_generated or table.next_id is None:
        return
    if table.next_id - 1 >= column.max_value * share:
        name = column.name
        place = f"`{facts.authme.database}`.`{facts.authme.table}`"
        where = f"ALTER TABLE {place} MODIFY `{name}` INT UNSIGNED NOT NULL AUTO_INCREMENT;"
        yield Symptom(title.format(name=name, max_value=column.max_value, next=table.next_id), where=where)


def _is_narrow(column: PlayerColumn) -> bool:
    return column.charset is not None and column.charset.lower() not in _UTF8


def _at_least(names: Iterable[str]) -> str:
    count = len(list(names))
    return f"{count} name{'s are' if count > 1 else ' is'} not in lower case"


def _have_no_date(count: int) -> str:
    return "player has no date" if count == 1 else "players have no date"


def _some(names: tuple[str, ...]) -> str:
    more = ", …" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more
