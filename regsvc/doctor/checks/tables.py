"""Checks of AuthMe's table: what prevents us from writing it, and contents that will cause trouble."""

from collections.abc import Iterator
from typing import Final

from plugin_bridge.authme.config import Backend
from plugin_bridge.authme.players import NO_EMAIL
from regsvc.core.i18n.sentences import Sentence, plural
from regsvc.doctor.facts.databases import unwritable_paths
from regsvc.doctor.facts.facts import Facts, FixLocation, Source
from regsvc.doctor.facts.readonly_db import DatabaseUnreadable
from regsvc.doctor.finding import Severity, Symptom, check, list_some

# Columns our INSERT always fills; `email` keeps its default if the user has none.
_INSERTED_COLUMNS: Final = ("username", "realname", "password", "salt", "register_date", "register_ip")
# Columns that old versions of AuthMe do not have.
_OPTIONAL_COLUMNS: Final = frozenset({"premium_uuid", "totp"})
_TEXT_COLUMNS: Final = ("username", "realname", "email")
_MUCH_OF_THE_IDS: Final = 0.9
_UTF8: Final = ("utf8", "utf8mb3", "utf8mb4")


@check(
    "table.missing",
    Severity.BROKEN,
    means="AuthMe’s table, or its SQLite file, does not exist, cannot be read, or is not a database.",
    why="Approved users cannot play.",
    do="If it was lost, stop the game server and put a backup of it back (companion docs my-machine-died). Else start "
    "the server with AuthMe once, which creates the table, or correct the table’s name.",
    where=FixLocation(Source.AUTHME, "DataSource.mySQLTablename, DataSource.mySQLDatabase"),
)
def table_is_missing(facts: Facts) -> Iterator[Sentence | Symptom]:
    problem, authme = facts.authme_side, facts.authme
    place = str(authme.sqlite_file) if authme.backend == Backend.SQLITE else authme.database
    if isinstance(problem, DatabaseUnreadable):
        if facts.our_side is problem or (facts.is_shared and problem.is_away):
            return  # which `database.away` tells
        title = Sentence("{file} cannot be read: {problem}.", file=place, problem=str(problem))
        do = Sentence("Let the companion’s user read and write the file, or restore a backup of it.")
        if facts.is_shared:
            title = Sentence(
                "AuthMe’s table {table} cannot be read: {problem}.", table=authme.table, problem=str(problem)
            )
            do = Sentence("Wait until nothing locks the table any more; if it is damaged, repair it.")
        yield Symptom(title, do, place)
    elif facts.players.table is None and not facts.players.missing_rights:
        yield Sentence("There is no table {table} in {place}.", table=authme.table, place=place)


@check(
    "table.rights",
    Severity.BROKEN,
    means="Our login lacks SELECT, INSERT, UPDATE or DELETE on AuthMe’s table; on SQLite, write access to its folder.",
    why="Approved players are not added, banned ones are not locked, and passwords set on the web do not work.",
    do="Grant the rights; on SQLite run the companion as the game server’s user or in its group.",
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
        grant = f"GRANT {', '.join(missing)} ON `{authme.database}`.`{authme.table}` TO {facts.ours.login};"
        rights = ", ".join(missing)
        title = Sentence("Our login may not {rights} on AuthMe’s table {table}.", rights=rights, table=authme.table)
        yield Symptom(title, where=grant)


@check(
    "table.column_missing",
    Severity.BROKEN,
    means="AuthMe’s config names a column that its table does not have.",
    why="AuthMe’s own statements fail, and AuthMe treats that as “not registered”.",
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
            where = FixLocation(Source.AUTHME, f"{key}: {name}")
            title = Sentence("AuthMe’s table {table} has no column {column}.", table=facts.authme.table, column=name)
            yield Symptom(title, where=where)


@check(
    "table.needs_more",
    Severity.BROKEN,
    means="AuthMe’s table has a NOT NULL column without a default that is not one of AuthMe’s.",
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
    "table.ids_end",
    Severity.RISKY,
    means="90 % of the ids of AuthMe’s table are used up (AuthMe’s MEDIUMINT ends at 16777215), or, broken, all. Every "
    "refused registration uses one, too.",
    why="After the last one neither we nor AuthMe can add players; AuthMe even reports success to the player.",
    do="Enlarge the column while the game server is stopped.",
    where=FixLocation(Source.DATABASE, "ALTER TABLE"),
)
def ids_end(facts: Facts) -> Iterator[Symptom]:
    table = facts.player_table
    column = table.find(facts.authme.columns.id)
    if column is None or column.max_value is None or not column.is_generated or table.next_id is None:
        return
    where = f"ALTER TABLE {_full_name(facts)} MODIFY `{column.name}` INT UNSIGNED NOT NULL AUTO_INCREMENT;"
    if table.next_id > column.max_value:
        title = Sentence("The ids of the column {name} in AuthMe’s table are used up.", name=column.name)
        yield Symptom(title, where=where, severity=Severity.BROKEN)
    elif table.next_id - 1 >= column.max_value * _MUCH_OF_THE_IDS:
        title = Sentence(
            "The column {name} in AuthMe’s table ends at {max_value}, and the next id is {next}.",
            name=column.name,
            max_value=column.max_value,
            next=table.next_id,
        )
        yield Symptom(title, where=where)


@check(
    "table.email_required",
    Severity.RISKY,
    means="The e-mail column of an old table cannot be NULL: players without an address have your@email.com.",
    why="Other programs that use this table take the placeholder for a real address.",
    do="Allow NULL: /authme debug mysqldef on the game server’s console does it.",
    where=FixLocation(Source.DATABASE, Sentence("the e-mail column of AuthMe’s table")),
)
def email_is_required(facts: Facts) -> Iterator[Sentence]:
    email = facts.player_table.find(facts.authme.columns.email)
    if email is not None and not email.is_nullable and email.default is not None:
        default = NO_EMAIL if NO_EMAIL in email.default else email.default
        yield Sentence(
            "The column {column} of AuthMe’s table is NOT NULL with the default {default}.",
            column=email.name,
            default=default,
        )


@check(
    "table.not_transactional",
    Severity.RISKY,
    means="AuthMe’s table is not InnoDB.",
    why="It is locked as a whole, a crash can damage it, and it cannot be changed in one transaction with our tables.",
    do="Convert it while the game server is stopped.",
    where=FixLocation(Source.DATABASE, "ALTER TABLE … ENGINE=InnoDB"),
)
def table_is_not_innodb(facts: Facts) -> Iterator[Symptom]:
    engine = facts.player_table.engine
    if engine is not None and engine.lower() != "innodb":
        title = Sentence("AuthMe’s table is {engine}.", engine=engine)
        yield Symptom(title, where=f"ALTER TABLE {_full_name(facts)} ENGINE=InnoDB;")


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
    narrow = [column for column in found if column and column.charset and column.charset.lower() not in _UTF8]
    if narrow:
        names = ", ".join(f"{column.name} ({column.charset})" for column in narrow)
        where = f"ALTER TABLE {_full_name(facts)} CONVERT TO CHARACTER SET utf8mb4;"
        title = Sentence("These columns of AuthMe’s table cannot store every character: {names}.", names=names)
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
    means="Names in AuthMe’s table, written by another program, are not in lower case, or are there twice, in "
    "different case.",
    why="AuthMe searches in lower case: depending on how the database compares text, it finds such a row always, "
    "sometimes or never. The companion ignores it, so this player cannot log in here or be banned.",
    do="Change them to lower case while the game server is stopped.",
    where=FixLocation(Source.DATABASE, "UPDATE … SET username = LOWER(username)"),
)
def names_are_mixed_case(facts: Facts) -> Iterator[Sentence | Symptom]:
    twice = facts.player_row_counts.twice
    if twice:
        yield Symptom(
            plural(
                len(twice),
                "{count} name appears in AuthMe’s table more than once, in different case: {names}",
                "{count} names appear in AuthMe’s table more than once, in different case: {names}",
                names=list_some(twice),
            ),
            Sentence("Find out which row is the player’s, and delete the other."),
            FixLocation(Source.DATABASE, Sentence("AuthMe’s table")),
        )
    names = facts.player_row_counts.mixed_case
    if names:
        yield plural(
            len(names),
            "{count} name is not in lower case in AuthMe’s table: {names}",
            "{count} names are not in lower case in AuthMe’s table: {names}",
            names=list_some(names),
        )


@check(
    "table.dates",
    Severity.RISKY,
    means="Times in AuthMe’s table, written by old versions or other programs, are in seconds, not milliseconds; or "
    "players have none, and AuthMe purges old players automatically.",
    why="AuthMe believes that these players were last online in 1970. If it purges players, it deletes them when the "
    "game server starts.",
    do="Multiply them by 1000 while the game server is stopped. The companion understands both.",
    where=FixLocation(Source.DATABASE, Sentence("the columns of the registration date and the last login")),
)
def dates_are_unusable(facts: Facts) -> Iterator[Sentence | Symptom]:
    rows, authme = facts.player_row_counts, facts.authme
    purged = rows.old if authme.purges_by_itself else 0
    if purged:
        title = plural(
            purged,
            "{count} player has no date that AuthMe can use, and it purges players after {days} days.",
            "{count} players have no date that AuthMe can use, and it purges players after {days} days.",
            days=authme.purges_after_days,
        )
        do = Sentence("Switch the purge off until the dates are corrected.")
        yield Symptom(title, do, FixLocation(Source.AUTHME, "Purge.useAutoPurge: false"))
    count = rows.in_seconds - (purged and purged - rows.undated)
    if count > 0:
        yield plural(count, "{count} player has a time in seconds.", "{count} players have a time in seconds.")


def _full_name(facts: Facts) -> str:
    """Return the name of AuthMe's table on a server, for SQL."""
    return f"`{facts.authme.database}`.`{facts.authme.table}`"
