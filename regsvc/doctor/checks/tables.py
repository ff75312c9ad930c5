"""Checks of AuthMe's table: what prevents us from writing it, and contents that will cause trouble."""

from collections.abc import Iterator
from typing import Final

from plugin_bridge.authme.config import Backend
from plugin_bridge.authme.players import NO_EMAIL
from regsvc.core.i18n.sentences import Sentence, plural
from regsvc.doctor.facts.databases import unwritable_paths
from regsvc.doctor.facts.facts import Facts, FixLocation, Source
from regsvc.doctor.facts.player_table import PlayerColumn
from regsvc.doctor.facts.readonly_db import DatabaseUnreadable
from regsvc.doctor.finding import Check, Severity, Symptom, check, list_some

# Columns our INSERT always fills; `email` keeps its default if the user has none.
_INSERTED_COLUMNS: Final = ("username", "realname", "password", "salt", "register_date", "register_ip")
# Columns that old versions of AuthMe do not have.
_OPTIONAL_COLUMNS: Final = frozenset({"premium_uuid", "totp"})
_TEXT_COLUMNS: Final = ("username", "realname", "email")
_UTF8: Final = ("utf8", "utf8mb3", "utf8mb4")


@check(
    "table.missing",
    Severity.BROKEN,
    means="AuthMe's table, or its SQLite file, does not exist.",
    why="Approved users cannot play.",
    do="Start the game server with AuthMe once, which creates the table; or correct the table's name.",
    where=FixLocation(Source.AUTHME, "DataSource.mySQLTablename, DataSource.mySQLDatabase"),
)
def table_is_missing(facts: Facts) -> Iterator[Sentence]:
    players = facts.players
    if players.table is None and not players.missing_rights:
        yield Sentence("There is no table {table} in {place}.", table=facts.authme.table, place=_file_or_schema(facts))


@check(
    "table.unreadable",
    Severity.BROKEN,
    means="AuthMe's SQLite file cannot be read, or is not a database.",
    why="Approved users cannot play.",
    do="Let the companion's user read and write the file, or restore a backup of it.",
    where=FixLocation(Source.AUTHME, "DataSource.mySQLDatabase"),
)
def file_is_unreadable(facts: Facts) -> Iterator[Symptom]:
    problem = facts.databases.players
    if isinstance(problem, DatabaseUnreadable) and facts.databases.ours is not problem:
        file = _file_or_schema(facts)
        yield Symptom(Sentence("{file} cannot be read: {problem}.", file=file, problem=str(problem)), where=file)


@check(
    "table.rights",
    Severity.BROKEN,
    means="Our login lacks SELECT, INSERT, UPDATE or DELETE on AuthMe's table; on SQLite, write access to its folder.",
    why="Approved players are not added, banned ones are not locked, and passwords set on the web do not work.",
    do="Grant the rights; on SQLite run the companion as the game server's user or in its group.",
    where=FixLocation(Source.DATABASE, "GRANT"),
)
def rights_are_missing(facts: Facts) -> Iterator[Symptom]:
    authme = facts.authme
    if authme.backend == Backend.SQLITE:
        if facts.players.table is not None:
            for path in unwritable_paths(authme.sqlite_file):
                yield Symptom(Sentence("We may not write to {path}.", path=path), where=str(path))
        return
    missing = facts.players.missing_rights
    if missing:
        grant = f"GRANT {', '.join(missing)} ON `{authme.database}`.`{authme.table}` TO {facts.login};"
        rights = ", ".join(missing)
        title = Sentence("Our login may not {rights} on AuthMe's table {table}.", rights=rights, table=authme.table)
        yield Symptom(title, where=grant)


@check(
    "table.column_missing",
    Severity.BROKEN,
    means="AuthMe's config names a column that its table does not have.",
    why="AuthMe's own statements fail, and AuthMe treats that as “not registered”.",
    do="Restart the game server, so that AuthMe adds the column. If it does not, correct the name.",
    where=FixLocation(Source.AUTHME, "DataSource.mySQLColumn…"),
)
def column_is_missing(facts: Facts) -> Iterator[Symptom]:
    table, columns = facts.player_table, facts.authme.columns
    for field in columns.__dataclass_fields__:
        name = str(getattr(columns, field))
        if field == "group" and facts.authme.backend == Backend.SQLITE:
            continue  # AuthMe does not read it there
        if name and field not in _OPTIONAL_COLUMNS and table.find(name) is None:
            key = columns.__dataclass_fields__[field].metadata["key"]
            where = facts.describe(FixLocation(Source.AUTHME, f"{key}: {name}"))
            title = Sentence("AuthMe's table {table} has no column {column}.", table=facts.authme.table, column=name)
            yield Symptom(title, where=where)


@check(
    "table.needs_more",
    Severity.BROKEN,
    means="AuthMe's table has a NOT NULL column without a default that is not one of AuthMe's.",
    why="Neither we nor AuthMe can add players.",
    do="Give it a default, or allow NULL; an id needs AUTO_INCREMENT.",
    where=FixLocation(Source.DATABASE, "ALTER TABLE"),
)
def column_must_be_filled(facts: Facts) -> Iterator[Symptom]:
    columns, table = facts.authme.columns, facts.player_table
    filled = {str(getattr(columns, name)).lower() for name in _INSERTED_COLUMNS}
    if any(name and table.find(name) is None for name in filled):
        return  # a column has another name than in the config, which is reported: it may well be this one
    for column in table.columns.values():
        must_be_filled = not column.is_nullable and column.default is None and not column.is_generated
        if must_be_filled and column.name.lower() not in filled:
            where = f"ALTER TABLE {facts.authme.table}: {column.name}"
            title = Sentence("The column {column} is NOT NULL without a default.", column=column.name)
            yield Symptom(title, where=where)


@check(
    "table.ids_used_up",
    Severity.BROKEN,
    means="The id column of AuthMe's table is exhausted: AuthMe's MEDIUMINT ends at 16777215.",
    why="Neither we nor AuthMe can add players; AuthMe even reports success to the player.",
    do="Enlarge the column while the game server is stopped.",
    where=FixLocation(Source.DATABASE, "ALTER TABLE"),
)
def ids_are_used_up(facts: Facts) -> Iterator[Symptom]:
    column = _find_used_up(facts, share=1.0)
    if column is not None:
        title = Sentence("The ids of the column {name} in AuthMe's table are used up.", name=column.name)
        yield Symptom(title, where=_enlarge(facts, column))


@check(
    "table.ids_end",
    Severity.RISKY,
    means="90 % of the ids of AuthMe's table are used up. Every refused registration uses one, too.",
    why="After the last one neither we nor AuthMe can add players.",
    do="Enlarge the column while the game server is stopped.",
    where=FixLocation(Source.DATABASE, "ALTER TABLE"),
)
def ids_will_end(facts: Facts) -> Iterator[Symptom]:
    column = _find_used_up(facts, share=0.9)
    if column is not None and _find_used_up(facts, share=1.0) is None:
        title = Sentence(
            "The column {name} in AuthMe's table ends at {max_value}, and the next id is {next}.",
            name=column.name,
            max_value=column.max_value,
            next=facts.player_table.next_id,
        )
        yield Symptom(title, where=_enlarge(facts, column))


@check(
    "table.email_required",
    Severity.RISKY,
    means="The e-mail column of an old table cannot be NULL: players without an address have your@email.com.",
    why="Other programs that use this table take the placeholder for a real address.",
    do="Allow NULL: /authme debug mysqldef on the game server's console does it.",
    where=FixLocation(Source.DATABASE, Sentence("the e-mail column of AuthMe's table")),
)
def email_is_required(facts: Facts) -> Iterator[Sentence]:
    email = facts.player_table.find(facts.authme.columns.email)
    if email is not None and not email.is_nullable and email.default is not None:
        default = NO_EMAIL if NO_EMAIL in email.default else email.default
        yield Sentence(
            "The column {column} of AuthMe's table is NOT NULL with the default {default}.",
            column=email.name,
            default=default,
        )


@check(
    "table.not_transactional",
    Severity.RISKY,
    means="AuthMe's table is not InnoDB.",
    why="It is locked as a whole, a crash can damage it, and it cannot be changed in one transaction with our tables.",
    do="Convert it while the game server is stopped.",
    where=FixLocation(Source.DATABASE, "ALTER TABLE … ENGINE=InnoDB"),
)
def table_is_not_innodb(facts: Facts) -> Iterator[Symptom]:
    engine = facts.player_table.engine
    if engine is not None and engine.lower() != "innodb":
        table = f"`{facts.authme.database}`.`{facts.authme.table}`"
        title = Sentence("AuthMe's table is {engine}.", engine=engine)
        yield Symptom(title, where=f"ALTER TABLE {table} ENGINE=InnoDB;")


@check(
    "table.charset",
    Severity.RISKY,
    means="A column of an old table has a character set that cannot store every name or address, such as latin1.",
    why="Players whose name or address cannot be stored are added without it, or not at all.",
    do="Convert the table while the game server is stopped, and make a backup first.",
    where=FixLocation(Source.DATABASE, "ALTER TABLE … CONVERT TO CHARACTER SET utf8mb4"),
)
def charset_is_narrow(facts: Facts) -> Iterator[Symptom]:
    found = (facts.player_table.find(str(getattr(facts.authme.columns, name))) for name in _TEXT_COLUMNS)
    narrow = [column for column in found if column is not None and _is_narrow(column)]
    if narrow:
        names = ", ".join(f"{column.name} ({column.charset})" for column in narrow)
        table = f"`{facts.authme.database}`.`{facts.authme.table}`"
        where = f"ALTER TABLE {table} CONVERT TO CHARACTER SET utf8mb4;"
        title = Sentence("These columns of AuthMe's table cannot store every character: {names}.", names=names)
        yield Symptom(title, where=where)


@check(
    "table.collation",
    Severity.RISKY,
    means="AuthMe allows names with accents, but its table treats them like the names without.",
    why="A player whose name differs from another only by an accent cannot register, or is confused with the other.",
    do="Allow plain letters only, or give the username column a _bin collation.",
    where=FixLocation(Source.AUTHME, "settings.restrictions.allowedNicknameCharacters: '[a-zA-Z0-9_]*'"),
)
def accents_are_lost(facts: Facts) -> Iterator[Sentence]:
    allows_accents = facts.authme.name_rule.pattern.matches("Jérôme")
    if allows_accents and facts.players.ignores_accents:
        username = facts.player_table.find(facts.authme.columns.username)
        yield Sentence(
            "The column username ({collation}) treats Jérôme and Jerome as one name.",
            collation=username.collation if username else None,
        )


@check(
    "table.mixed_case",
    Severity.RISKY,
    means="Names in AuthMe's table, written by another program, are not in lower case.",
    why="AuthMe searches in lower case: depending on how the database compares text, it finds such a row always, "
    "sometimes or never. The companion ignores it, so this player cannot log in here or be banned.",
    do="Change them to lower case while the game server is stopped.",
    where=FixLocation(Source.DATABASE, "UPDATE … SET username = LOWER(username)"),
)
def names_are_mixed_case(facts: Facts) -> Iterator[Sentence]:
    names = facts.player_row_counts.mixed_case
    if names:
        yield plural(
            len(names),
            "{count} name is not in lower case in AuthMe's table: {names}",
            "{count} names are not in lower case in AuthMe's table: {names}",
            names=list_some(names),
        )


@check(
    "table.same_name_twice",
    Severity.RISKY,
    means="AuthMe's table has two rows for one name, in different case.",
    why="The game sometimes uses one and sometimes the other. The companion uses the one in lower case only.",
    do="Find out which row is the player's, and delete the other.",
    where=FixLocation(Source.DATABASE, Sentence("AuthMe's table")),
)
def names_are_there_twice(facts: Facts) -> Iterator[Sentence]:
    names = facts.player_row_counts.twice
    if names:
        yield plural(
            len(names),
            "{count} name appears in AuthMe's table more than once, in different case: {names}",
            "{count} names appear in AuthMe's table more than once, in different case: {names}",
            names=list_some(names),
        )


@check(
    "table.dates_in_seconds",
    Severity.RISKY,
    means="Times in AuthMe's table, written by old versions or other programs, are in seconds, not milliseconds.",
    why="AuthMe reads them as January 1970, so these players are purged first.",
    do="Multiply them by 1000 while the game server is stopped. The companion understands both.",
    where=FixLocation(Source.DATABASE, Sentence("the columns of the registration date and the last login")),
)
def dates_are_in_seconds(facts: Facts) -> Iterator[Sentence]:
    rows = facts.player_row_counts
    reported_as_purged = rows.old - rows.undated if facts.authme.purges_by_itself else 0
    count = rows.in_seconds - reported_as_purged
    if count > 0:
        yield plural(count, "{count} player has a time in seconds.", "{count} players have a time in seconds.")


@check(
    "table.purge",
    Severity.RISKY,
    means="AuthMe purges old players automatically, and there are players without a date, or with one in seconds.",
    why="AuthMe believes that they were last online in 1970, and deletes them when the game server starts.",
    do="Switch the purge off until the dates are corrected.",
    where=FixLocation(Source.AUTHME, "Purge.useAutoPurge: false"),
)
def players_are_purged(facts: Facts) -> Iterator[Sentence]:
    if facts.authme.purges_by_itself and facts.player_row_counts.old:
        count = facts.player_row_counts.old
        yield plural(
            count,
            "{count} player has no date that AuthMe can use, and it purges players after {days} days.",
            "{count} players have no date that AuthMe can use, and it purges players after {days} days.",
            days=facts.authme.purges_after_days,
        )


CHECKS: Final[tuple[Check, ...]] = (
    *(table_is_missing, file_is_unreadable, rights_are_missing, column_is_missing, column_must_be_filled),
    *(ids_are_used_up, ids_will_end, email_is_required, table_is_not_innodb, charset_is_narrow, accents_are_lost),
    *(names_are_mixed_case, names_are_there_twice, dates_are_in_seconds, players_are_purged),
)


def _file_or_schema(facts: Facts) -> str:
    """Return AuthMe's SQLite file, or the schema of its table."""
    authme = facts.authme
    return str(authme.sqlite_file) if authme.backend == Backend.SQLITE else authme.database


def _find_used_up(facts: Facts, *, share: float) -> PlayerColumn | None:
    """Return the id column if this share of its ids is used up, or None."""
    table = facts.player_table
    column = table.find(facts.authme.columns.id)
    if column is None or column.max_value is None or not column.is_generated or table.next_id is None:
        return None
    return column if table.next_id - 1 >= column.max_value * share else None


def _enlarge(facts: Facts, column: PlayerColumn) -> str:
    """Return the statement that enlarges the id column."""
    table = f"`{facts.authme.database}`.`{facts.authme.table}`"
    return f"ALTER TABLE {table} MODIFY `{column.name}` INT UNSIGNED NOT NULL AUTO_INCREMENT;"


def _is_narrow(column: PlayerColumn) -> bool:
    return column.charset is not None and column.charset.lower() not in _UTF8
