"""Checks of our database: whether it is reachable and the right one, the rights of our login, its cluster."""

from collections.abc import Iterator
from typing import Final

from peewee import MySQLDatabase

from plugin_bridge.authme.config import AuthMeConfig
from regsvc.auth.keys import SigningKeys, fingerprint
from regsvc.core.addresses import is_loopback
from regsvc.core.i18n.sentences import Sentence, join, plural
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
from regsvc.doctor.facts.facts import Facts, FactUnavailable, FixLocation, Source
from regsvc.doctor.facts.readonly_db import DatabaseMigrating, DatabaseUnreadable
from regsvc.doctor.finding import Severity, Symptom, check

_DEFAULT_PASSWORD: Final = AuthMeConfig().password
_UNUSABLE: Final = "{database} cannot be used: {problem}."
_GRANT: Final = FixLocation(Source.DATABASE, "GRANT")
_MOST_SENTENCES: Final = 5
_QUORUM: Final = 3
"""Nodes of which one may fail."""


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
        do = Sentence("Let the companion’s user read and write the file. If it is damaged, restore a backup of it.")
        yield Symptom(Sentence(_UNUSABLE, database=file, problem=str(problem)), do, file)
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
