"""Checks of our database and of AuthMe's table: whether they are the right ones, our rights, troublesome contents."""

from collections.abc import Iterator
from typing import Final

from peewee import MySQLDatabase

from plugin_bridge.authme.config import AuthMeConfig, Backend
from plugin_bridge.authme.players import NO_EMAIL
from regsvc.auth.keys import SigningKeys, fingerprint
from regsvc.core.addresses import is_loopback
from regsvc.core.i18n import Sentence, join, plural
from regsvc.database.location import (
    COPYING,
    MOVED,
    WrongDatabase,
    check_recorded_location,
    describe_login,
    describe_other_server,
    is_other_address,
    read_recorded_location,
    tables_are_gone,
)
from regsvc.database.migrator import list_migrations
from regsvc.database.schema import COLUMN, TABLE
from regsvc.doctor.facts.databases import unwritable_paths
from regsvc.doctor.facts.facts import Facts, FactUnavailable, FixLocation, Source
from regsvc.doctor.facts.readonly_db import DatabaseMigrating, DatabaseUnreadable
from regsvc.doctor.finding import Severity, Symptom, check, list_some

_DEFAULT_PASSWORD: Final = AuthMeConfig().password
_UNUSABLE: Final = "{database} cannot be used: {problem}."
_GRANT: Final = FixLocation(Source.DATABASE, "GRANT")
_MOST_SENTENCES: Final = 5
_QUORUM: Final = 3
"""Nodes of which one may fail."""


def advise_about_file(problem: DatabaseUnreadable) -> Sentence:
    """Return what to do about an SQLite file that cannot be read."""
    if problem.is_locked:
        return Sentence("End the program that locks the file, such as an editor or a backup, or wait until it is done.")
    return Sentence("Let the companion’s user read and write the file. If it is damaged, restore a backup of it.")


@check(
    "database.away",
    Severity.BROKEN,
    means="Our database cannot be reached, or refuses our login.",
    why="Every request that needs it is answered with 503 until it is available.",
    do="Start the database server, and correct host, port, user and password.",
    where=FixLocation(Source.DATABASE),
)
def database_is_away(facts: Facts) -> Iterator[Symptom]:
    problem: object = facts.our_side
    if isinstance(problem, DatabaseMigrating):
        return
    if not isinstance(problem, DatabaseUnreadable):
        if not facts.is_shared:
            return
        problem = facts.authme_side  # the server may have gone away between the two
        if not isinstance(problem, DatabaseUnreadable) or not problem.is_away:
            return
    if not isinstance(facts.location.database, MySQLDatabase):
        file = str(facts.own_sqlite_file)
        yield Symptom(Sentence(_UNUSABLE, database=file, problem=str(problem)), advise_about_file(problem), file)
        return
    is_authmes = facts.is_shared and facts.config.database.url == "auto"
    keys = FixLocation(Source.AUTHME, "DataSource") if is_authmes else FixLocation(Source.OURS, "[database] url")
    login = describe_login(facts.config, problem.code)
    title = Sentence(_UNUSABLE, database=facts.location.name, problem=str(problem))
    yield Symptom(title, where=login or keys)


@check(
    "database.read_only",
    Severity.BROKEN,
    means="The database server is read-only.",
    why="No registration or decision can be stored.",
    do="Use the primary server, or make this one writable.",
    where=FixLocation(Source.DATABASE, "read_only"),
)
def database_is_read_only(facts: Facts) -> Iterator[Sentence]:
    if facts.ours.is_read_only:
        yield Sentence("{database} accepts no changes (read_only).", database=facts.location.name)


@check(
    "database.rights",
    Severity.BROKEN,
    means="Our login lacks a right on our own tables: SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER or INDEX.",
    why="Our tables cannot be created, updated or used.",
    do="Grant it.",
    where=_GRANT,
)
def rights_are_missing(facts: Facts) -> Iterator[Symptom]:
    missing = facts.ours.missing_rights
    if missing:
        title = Sentence("Our login may not {rights} in our schema.", rights=", ".join(missing))
        yield Symptom(title, where=_grant(facts, *missing))


@check(
    "database.no_triggers",
    Severity.RISKY,
    means="The triggers that keep the audit log append-only are missing, and our login may not create or see any.",
    why="Anyone with access to the database can change the log, on purpose or by mistake.",
    do="Grant TRIGGER. If binary logging or Galera forbids it, set log_bin_trust_function_creators=1.",
    where=_GRANT,
)
def triggers_are_missing(facts: Facts) -> Iterator[Symptom]:
    if facts.ours.missing_triggers and not facts.ours.missing_rights:
        names = ", ".join(facts.ours.missing_triggers)
        yield Symptom(Sentence("Missing triggers: {names}.", names=names), where=_grant(facts, "TRIGGER"))


@check(
    "database.too_new",
    Severity.BROKEN,
    means="The database was migrated by a newer version of the companion.",
    why="This version does not start (exit status 78).",
    do="Install the newer version again, or restore the backup made before the update.",
    where=FixLocation(Source.DATABASE, "regsvc_migration"),
)
def schema_is_too_new(facts: Facts) -> Iterator[Sentence]:
    known = list_migrations()[-1].number
    if facts.own_tables.newest_migration > known:
        yield Sentence(
            "The database has migration {number}, this version knows {known} at most.",
            number=facts.own_tables.newest_migration,
            known=known,
        )


@check(
    "database.schema_differs",
    Severity.BROKEN,
    means="A table or column of ours is missing or not as we made it, or, only risky, an index, key, trigger or view.",
    why="What needs it fails, or takes longer and longer.",
    do="Make a backup, and on a server grant our login all of docs/hosting.md. Let the next start repair tables, "
    "columns, indexes, triggers and views: DELETE FROM regsvc_migration WHERE number = 113, and restart. If something "
    "is left, back up again, and restore that into an empty database.",
    where=FixLocation(Source.DATABASE, "companion upgrade-check"),
)
def schema_differs(facts: Facts) -> Iterator[Symptom]:
    differences = facts.schema_differences
    if differences:
        sentences = [it.sentence for it in differences]
        if len(sentences) > _MOST_SENTENCES:
            left = len(sentences) - _MOST_SENTENCES
            sentences[_MOST_SENTENCES:] = [plural(left, "And {count} more.", "And {count} more.")]
        is_needed = any(it.part.kind in (TABLE, COLUMN) for it in differences)
        yield Symptom(join(sentences, "{first} {next}"), severity=Severity.BROKEN if is_needed else Severity.RISKY)


@check(
    "database.elsewhere",
    Severity.BROKEN,
    means="The config leads to another database than the one this installation uses, or to no usable one.",
    why="The companion does not start (exit status 78).",
    do="Follow the instruction in the finding.",
    where=FixLocation(Source.OURS, "[database] url"),
)
def location_is_wrong(facts: Facts) -> Iterator[str]:
    if facts.location_problem is not None and not (facts.has_authme and facts.authme.backend_problem):
        yield facts.location_problem
        return
    state_dir = facts.state_dir
    try:
        check_recorded_location(facts.config, facts.authme if facts.has_authme else None, facts.location)
        recorded = read_recorded_location(state_dir)
    except WrongDatabase as error:
        yield str(error)
        return
    ours = facts.ours
    if recorded is not None and ours.tables is None and not (ours.missing_rights or ours.is_read_only):
        yield str(tables_are_gone(recorded, facts.location, state_dir))
        return
    tables = facts.own_tables
    if tables.recorded_location.startswith(MOVED):
        yield Sentence(
            "The data of {database} was {moved}. Set database.url to that database.",
            database=facts.location.name,
            moved=tables.recorded_location,
        )
    elif tables.recorded_location.startswith(COPYING):
        yield Sentence(
            "A move to {database} was interrupted. Run it again, or set database.url to the old database.",
            database=facts.location.name,
        )
    elif recorded is not None and is_other_address(recorded, facts.location) and tables.installation_id is None:
        yield Sentence(
            "{database} has none of our tables: this installation lives in {home}.",
            database=facts.location.name,
            home=recorded["home"],
        )
    elif other_server := describe_other_server(tables.players_table, facts.location):
        yield other_server
    elif recorded is not None and tables.installation_id not in (None, recorded["installation_id"]):
        yield Sentence(
            "The database belongs to another installation than the state directory: use the one that belongs to it."
        )


@check(
    "database.other_key",
    Severity.BROKEN,
    means="The database was created with another installation key, for example by a second companion with its own key; "
    "or, only risky, the daemon that started last on it signs access tokens with another key.",
    why="With another installation key, the companion does not start (exit status 78): codes and links mailed by one "
    "would be invalid for the other. With another signing key, daemons refuse each other’s sessions.",
    do="Give another game server’s companion a database of its own (database.url). All companions of one game server "
    "have the keys of the first.",
    where=FixLocation(Source.OURS, "[auth] installation_key_file, signing_key_file"),
)
def key_is_another(facts: Facts) -> Iterator[Sentence | Symptom]:
    tables, key, signing_keys = facts.own_tables, facts.installation_key, facts.signing_keys
    made_with, started_with = tables.key_fingerprint, tables.signing_key_fingerprint
    if made_with is not None and key is None:
        yield Sentence("The database exists, but the installation key it was created with is missing.")
    elif made_with is not None and isinstance(key, bytes) and fingerprint(key) != made_with:
        yield Sentence("Our installation key is not the one the database was created with.")
    known = signing_keys.fingerprints if isinstance(signing_keys, SigningKeys) else (started_with,)
    if started_with is not None and started_with not in known:
        title = Sentence("Another daemon on this database signs access tokens with another key.")
        yield Symptom(title, severity=Severity.RISKY)


@check(
    "database.default_password",
    Severity.RISKY,
    means="AuthMe’s database login has the default password of AuthMe’s config.",
    why="The password is public.",
    do="Choose another one, in the database and in AuthMe’s config.",
    where=FixLocation(Source.AUTHME, "DataSource.mySQLPassword"),
)
def password_is_the_default(facts: Facts) -> Iterator[Sentence]:
    if facts.is_shared and facts.authme.password == _DEFAULT_PASSWORD:
        yield Sentence("DataSource.mySQLPassword is AuthMe’s default.")


@check(
    "database.unencrypted",
    Severity.RISKY,
    means="The connection to a database on another machine is not encrypted.",
    why="Password hashes and addresses cross the network unencrypted.",
    do="Switch on TLS in AuthMe’s config, which applies to us, too; or use a private network (WireGuard).",
    where=FixLocation(Source.AUTHME, "DataSource.mySQLUseSSL: true, or DataSource.MariaDbSslMode: verify-ca"),
)
def connection_is_plain(facts: Facts) -> Iterator[Symptom]:
    parameters = facts.server_database.connect_params
    host = str(parameters.get("host", ""))
    if parameters.get("ssl") is None and not is_loopback(host):
        where = FixLocation(Source.AUTHME, facts.authme.ssl_key) if facts.is_shared else None
        yield Symptom(Sentence("The database is at {host}, and TLS is off.", host=host), where=where)


def _grant(facts: Facts, *rights: str) -> str:
    """Return the statement that the database administrator has to run."""
    database = facts.server_database
    return f"GRANT {', '.join(rights)} ON `{database.database}`.* TO {facts.ours.login};"


@check(
    "database.galera",
    Severity.RISKY,
    means="Our database is a Galera cluster of fewer than three nodes, our connections lead to several of its nodes, "
    "or AuthMe’s table is not replicated.",
    why="Of two nodes none accepts changes once the other has failed. What one node has committed, another shows a "
    "moment later: a status may be an old one.",
    do="Have three nodes, of which one takes all writes (docs/several-daemons.md).",
    where=FixLocation(Source.DATABASE, "wsrep"),
)
def cluster_is_fragile(facts: Facts) -> Iterator[Sentence]:
    nodes = facts.ours.cluster_nodes
    if not nodes:
        return
    size = min(node.cluster_size for node in nodes)
    if size < _QUORUM:
        yield plural(size, "The cluster has {count} node.", "The cluster has {count} nodes.")
    names = sorted({node.name for node in nodes})
    is_causal = facts.config.database.causal_reads == "always" or all(node.is_causal for node in nodes)
    if len(names) > 1 and not is_causal:
        yield Sentence("Connections lead to several nodes: {names}.", names=", ".join(names))
    engine = _find_engine(facts)
    if engine is not None and engine.lower() != "innodb":
        yield Sentence("AuthMe’s table is {engine}, which Galera does not replicate.", engine=engine)


@check(
    "database.not_durable",
    Severity.RISKY,
    means="Our database has a setting under which a commit can be lost: no flush to disk at each commit, pages that "
    "can be half-written, a table that is not InnoDB, a file of ours in memory or on a network.",
    why="A registration or decision that was answered can be gone after a crash or a power failure; on Galera, when "
    "all nodes fail at once.",
    do="Change the setting, in the server’s config too, or move the file.",
    where=FixLocation(Source.DATABASE, "innodb_flush_log_at_trx_commit=1, sync_binlog=1"),
)
def database_is_not_durable(facts: Facts) -> Iterator[Symptom]:
    for setting in facts.ours.lossy:
        where = setting.better if "=" in setting.better else str(facts.own_sqlite_file)
        yield Symptom(Sentence("A commit can be lost with {setting}.", setting=setting.found), where=where)


def _find_engine(facts: Facts) -> str | None:
    try:
        return facts.player_table.engine
    except FactUnavailable:
        return None


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
        do = advise_about_file(problem)
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
def rights_on_authme_are_missing(facts: Facts) -> Iterator[Symptom]:
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
    dotless = () if facts.authme.name_rule.pattern.matches("ı") else facts.player_row_counts.dotless
    if dotless:
        yield Symptom(
            plural(
                len(dotless),
                "{count} name in AuthMe’s table has ı in place of I, as Java writes it in Turkish: {names}",
                "{count} names in AuthMe’s table have ı in place of I, as Java writes it in Turkish: {names}",
                names=list_some(dotless),
            ),
            Sentence(
                "While the game server is stopped, write i for ı in these names, and give its Java -Duser.language=en."
            ),
            FixLocation(Source.DATABASE, "UPDATE … SET username = REPLACE(username, 'ı', 'i')"),
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
