"""Checks of the game server's files (operators, remote console, online mode) and of the gates: who is let in."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from plugin_bridge.java_formats import Oddity, OddityKind, parse_yaml
from plugin_bridge.server.files import ServerFileError, ServerProperties, find_last_saves, read_bounded
from plugin_bridge.server.player_uuids import family_of
from regsvc.config.value_checks import is_placeholder, missing_folder_reason
from regsvc.core.addresses import connect_host, is_loopback, is_public
from regsvc.core.i18n import Sentence, plural
from regsvc.doctor.facts.facts import ALLOWLIST, Facts, FixLocation, ServerFacts, Source
from regsvc.doctor.facts.host import RunningDaemon
from regsvc.doctor.finding import Severity, Symptom, check, list_some
from regsvc.notifications.rcon import find_rcon_address
from regsvc.users.gates import HELD_BACK, NO_PROFILE, NO_UUID, REFUSED, RESTART, UUID_IN_DOUBT, find_gate_problem

_SHORTEST_PASSWORD: Final = 12
_MAX_NAMES: Final = 5
_WELL_KNOWN: Final = ("password", "minecraft", "rcon", "admin", "server", "secret", "test", "qwerty", "letmein")


@check(
    "game.unreadable",
    Severity.BROKEN,
    means="game.directory is not a folder that we may read, ops.json cannot be read, or is not a list of operators; "
    "or, only risky, server.properties is not in game.directory, or cannot be read; or a list is odd.",
    why="Operators, AuthMe and the remote console are configured in these files: without them no admin can log in (a "
    "running companion keeps the last valid list of operators), and players cannot be kicked.",
    do="Set it to the folder that contains server.properties, and let the companion’s user read it.",
    where=FixLocation(Source.OURS, '[game] directory = "/path/to/the/game/server"'),
)
def files_are_unreadable(facts: Facts) -> Iterator[str | Symptom]:
    directory = facts.config.game.directory
    reason = None if directory is None else missing_folder_reason(directory)
    if reason is not None:
        yield Sentence("game.directory: {reason}.", reason=reason)
    if facts.operators_problem is not None:
        do = Sentence(
            "Fix the file (/op and /deop in the game rewrite it), and let the companion’s user read it. A game server "
            "that starts with a broken one has no operators."
        )
        yield Symptom(facts.operators_problem, do, FixLocation(Source.OPERATORS))
    for path, state in facts.list_states.items():
        do = Sentence("Correct it, or let the game write it anew: /op and /deop, /whitelist add and remove.")
        for oddity in state.oddities:
            yield Symptom(_describe_oddity(oddity, path.name), do, str(path), Severity.RISKY)
        if state.ignored:
            title = plural(
                len(state.ignored),
                "The game does not take {count} entry of {file}: {names}",
                "The game does not take {count} entries of {file}: {names}",
                file=path.name,
                names=list_some(state.ignored),
            )
            yield Symptom(title, do, str(path), Severity.RISKY)
    for server in facts.servers:
        directory, problem = server.game.directory, server.properties
        if isinstance(problem, ServerFileError) and directory is not None and missing_folder_reason(directory) is None:
            do = Sentence("Set game.directory to the game server’s folder, and let the companion’s user read the file.")
            yield Symptom(str(problem), do, str(server.game.server_properties_path), Severity.RISKY)


def _describe_oddity(oddity: Oddity, file: str) -> Sentence:
    facts = {"file": file, "line": oddity.line, "column": oddity.column}
    if oddity.kind is OddityKind.NOT_UTF8:
        return Sentence("{file}, line {line}, column {column}: it is not UTF-8, and the game reads � there.", **facts)
    return Sentence("{file}, line {line}, column {column}: it is no JSON; not every version reads it so.", **facts)


@check(
    "game.no_operators",
    Severity.RISKY,
    means="There are no operators.",
    why="No admin can log in, so registrations are never reviewed.",
    do="Make a player an operator (/op NAME in the game), or name operators in our config.",
    where=FixLocation(Source.OURS, '[game] operators = ["NAME"]'),
)
def operators_are_missing(facts: Facts) -> Iterator[Sentence]:
    needed = facts.config.auth.min_operator_level
    levels = facts.operator_levels
    if not levels:
        yield Sentence("There are no operators.")
    elif max(levels.values()) < needed:
        yield Sentence("No operator has level {needed} (auth.min_operator_level).", needed=needed)


@check(
    "game.op_held",
    Severity.RISKY,
    means="AuthMe noted that it gives op back to a player who is not in ops.json, and who does not stand at its login "
    "prompt.",
    why="AuthMe takes op from everybody who joins, and gives it back after the login: also at the next login, if the "
    "game server was killed in between, and whatever you did to ops.json meanwhile.",
    do="If they are to be an operator, they log in to the game once. If you took op from them, delete their note while "
    "they are not in the game.",
    where=FixLocation(Source.OPERATORS),
)
def op_is_held(facts: Facts) -> Iterator[Symptom]:
    notes, listed = facts.operators.notes, facts.listed_operators
    if notes is None or isinstance(listed, ServerFileError):
        return
    tables = facts.own_tables
    names = {uuid: name for name, uuid in facts.uuids.joined.items()}
    names |= {operator.player_uuid: operator.name for operator in (*tables.operators, *tables.former_operators)}
    for uuid, name in sorted(names.items(), key=lambda it: it[1]):
        note = notes.find(uuid) if name.lower() not in listed else None
        if note is not None and note.holds_op and notes.is_left_behind(note):
            title = Sentence("AuthMe makes {name} an operator again at their next login.", name=name)
            yield Symptom(title, where=str(note.place))


@check(
    "game.op_unseen",
    Severity.RISKY,
    means="AuthMe writes no notes of players at its login prompt (limbo.persistence.type is DISABLED), or they cannot "
    "be read.",
    why="AuthMe takes op from an operator’s name for as long as anybody stands at the prompt under it, which cannot be "
    "told from /deop without the note. The operator’s requests are refused meanwhile. After a real /deop, tokens and "
    "links of theirs are refused at once, and end only when nobody can stand there any more.",
    do="Set limbo.persistence.type to INDIVIDUAL_FILES, run /authme reload at once, and let the companion’s user read "
    "plugins/AuthMe/playerdata.",
    where=FixLocation(Source.AUTHME, "limbo.persistence.type"),
)
def op_is_unseen(facts: Facts) -> Iterator[Sentence]:
    notes = facts.operators.notes
    if notes is None or not notes.has_prompt or notes.are_readable:
        return
    seconds = round(notes.longest_prompt)
    yield Sentence("Whose op AuthMe holds cannot be seen: a /deop counts as one after {seconds} s.", seconds=seconds)


@check(
    "game.operator_levels",
    Severity.RISKY,
    means="Operators have other levels than op-permission-level in server.properties, and the game server has AuthMe; "
    "or one of them has a higher level in ops.json than counts here.",
    why="AuthMe gives op back after each login with op-permission-level, whatever the level was: in the game levels do "
    "not hold beside it. Here the lowest level counts that a name had since it became an operator’s.",
    do="Set op-permission-level to the level that all operators may have. To raise a level here, take op away (/deop), "
    "wait until the list of the team at /admin has them no more, and give it again.",
    where=FixLocation(Source.PROPERTIES, "op-permission-level"),
)
def levels_do_not_hold(facts: Facts) -> Iterator[Sentence]:
    notes, listed = facts.operators.notes, facts.listed_operators
    if notes is None or not notes.has_prompt or isinstance(listed, ServerFileError):
        return
    given, counted = facts.operators.given_level(), facts.operator_levels
    raised = sorted(key for key in listed if listed[key].level > counted.get(key, listed[key].level))
    if raised:
        names = list_some(raised, _MAX_NAMES)
        yield Sentence("AuthMe raised the level of {names} in ops.json; here the lower one counts.", names=names)
    others = sorted(key for key in listed if listed[key].level != given)
    if others:
        names = list_some(others, _MAX_NAMES)
        yield Sentence("In the game {names} get level {level} at their next login.", names=names, level=given)


@check(
    "game.operators_unregistered",
    Severity.RISKY,
    means="A name is an operator’s, and neither a user nor a player in AuthMe’s table has it.",
    why="AuthMe gives op back to registered players alone: a player who joins under this name takes op from it, and "
    "one who types /register has it. On the web they are pending, so approve the name only if you know who registered "
    "it.",
    do="Create each operator’s account (companion users create NAME) before they join. Take names that nobody uses out "
    "of the list (/deop).",
    where=FixLocation(Source.OPERATORS),
)
def operators_are_unregistered(facts: Facts) -> Iterator[Sentence]:
    players = facts.players.registered_operators
    free = sorted(facts.listed_names - facts.ours.users - (players or set()))
    if players is not None and free:
        names = list_some(free, _MAX_NAMES)
        yield Sentence("No player has registered as {names}, and the name is an operator’s.", names=names)


@check(
    "game.rcon_off",
    Severity.RISKY,
    means="The game server’s remote console (RCON) is off, or has no password.",
    why="Players cannot be kicked: a banned player can go on playing until they leave, and a player who is online "
    "under a name that is just being approved may be logged in without a password.",
    do="Switch it on with a long password and restart the game server. If you do not want that, set game.rcon = false.",
    where=FixLocation(Source.PROPERTIES, "enable-rcon=true, rcon.password=…"),
)
def rcon_is_off(facts: Facts) -> Iterator[Symptom]:
    for server, properties in _known_servers(facts):
        is_told = not server.name and facts.keeps_list  # by `allowlist.reload`
        if server.game.rcon == "auto" and not properties.rcon_enabled and not is_told:
            title = Sentence("RCON is off: enable-rcon is not true, or rcon.password is empty.")
            yield _on(server, title, "enable-rcon=true, rcon.password=…")


@check(
    "game.rcon_password",
    Severity.RISKY,
    means="The password of the remote console is short or easy to guess.",
    why="With it, an attacker can run every command of the server’s console.",
    do="Choose a long one, for example with openssl rand -hex 16, and restart the game server.",
    where=FixLocation(Source.PROPERTIES, "rcon.password"),
)
def rcon_password_is_weak(facts: Facts) -> Iterator[Symptom]:
    for server, properties in _known_servers(facts):
        if server.game.rcon is False or not (properties.rcon_enabled or server.game.rcon is True):
            continue
        password = server.game.rcon_password or properties.rcon_password
        letters = password.lower().strip("0123456789!_-.")
        if password and len(password) < _SHORTEST_PASSWORD:
            title = Sentence(
                "The password of the remote console has fewer than {count} characters.", count=_SHORTEST_PASSWORD
            )
            yield _on(server, title, "rcon.password")
        elif password and (letters in _WELL_KNOWN or is_placeholder(password) or len(set(password)) < 4):
            yield _on(server, Sentence("The password of the remote console is easy to guess."), "rcon.password")


@check(
    "game.rcon_exposed",
    Severity.RISKY,
    means="The remote console is reachable at a public address, or on another machine than ours (game.rcon_host).",
    why="Its password crosses the network unencrypted, and the number of guesses is not limited.",
    do="Let it listen on this machine only (rcon.ip on Paper, server-ip behind a proxy), or block its port.",
    where=FixLocation(Source.PROPERTIES, "rcon.ip=127.0.0.1"),
)
def rcon_is_exposed(facts: Facts) -> Iterator[Symptom]:
    for server, properties in _known_servers(facts):
        if not properties.rcon_enabled:
            continue
        address, port = properties.server_ip or facts.host.find_public_address(), properties.rcon_port
        if address and is_public(address) and facts.host.accepts_connections(address, port):
            title = Sentence("RCON is reachable at {address}:{port}.", address=address, port=port)
            yield _on(server, title, "rcon.ip=127.0.0.1")
    for server in facts.servers:
        host = server.game.rcon_host
        if server.game.rcon is not False and host and not is_loopback(host):
            yield Symptom(
                Sentence("rcon_host is {host}.", host=host),
                Sentence(
                    "Run the companion on the game server’s machine, or connect both by a private network (WireGuard, "
                    "SSH)."
                ),
                FixLocation(Source.OURS, f'{"[[game.server]]" if server.name else "[game]"} rcon_host = "127.0.0.1"'),
                server=server.name,
            )


@check(
    "game.online_mode",
    Severity.RISKY,
    means="The game server verifies players with Mojang (online-mode=true), and AuthMe asks for a password as well; "
    "or it accepts any name without verification (online-mode=false), and there is no AuthMe.",
    why="If both ask, users who have not bought the game can register and be approved, but cannot join. If none asks, "
    "anyone can join under an operator’s name, which is right only behind a proxy that verifies players.",
    do="Set it to false if they should be able to play; otherwise mention it on the registration page.",
    where=FixLocation(Source.PROPERTIES, "online-mode=false"),
)
def mode_does_not_fit(facts: Facts) -> Iterator[Sentence | Symptom]:
    if facts.properties.online_mode and facts.has_authme:
        yield Sentence("online-mode is true, and AuthMe is installed.")
    if not facts.properties.online_mode and not facts.has_authme:
        yield Symptom(
            Sentence("online-mode is false, and nothing asks for a password."),
            Sentence("Set it to true, or install AuthMe."),
            FixLocation(Source.PROPERTIES, "online-mode=true"),
        )


def _known_servers(facts: Facts) -> Iterator[tuple[ServerFacts, ServerProperties]]:
    """Yield the game servers whose server.properties can be read."""
    for server in facts.servers:
        if isinstance(server.properties, ServerProperties):
            yield server, server.properties


def _on(server: ServerFacts, title: Sentence, key: str) -> Symptom:
    """Return a symptom of this game server, with its own file."""
    where = f"{server.game.server_properties_path}: {key}" if server.name else None
    return Symptom(title, where=where, server=server.name)


_RCON: Final = FixLocation(Source.PROPERTIES, "enable-rcon=true, rcon.port=25575, rcon.password=…")
_LINKS: Final = Path("plugins/DiscordSRV/linking.yml")


@check(
    "allowlist.no_gate",
    Severity.BROKEN,
    means="Approvals let nobody in: there is no AuthMe, and the game’s allowlist is not in use; or the game uses it, "
    "and the companion was told not to keep it.",
    why="A decision changes nothing in the game unless another program asks for it (GET /api/user/status).",
    do="Set white-list=true in server.properties and restart the game server, or install AuthMe.",
    where=FixLocation(Source.PROPERTIES, "white-list=true"),
)
def there_is_no_gate(facts: Facts) -> Iterator[Symptom]:
    problem = find_gate_problem(
        facts.config, facts.gate_properties, has_authme=facts.has_authme, keeps_list=facts.keeps_list
    )
    if problem is not None:
        title, do = problem
        # who has switched both off lets another program decide
        is_meant = facts.config.authme.enabled is False and facts.config.allowlist.enabled is False
        yield Symptom(title, do, severity=Severity.RISKY if is_meant else None)


@check(
    "game.no_logins",
    Severity.RISKY,
    means="membership.idle is set, and nothing tells who plays: there is no AuthMe, nor a world in game.directory.",
    why="No membership ends because its user does not play.",
    do="Set game.directory to the folder with the world’s folder (level-name), and let the companion’s user read that; "
    "or set membership.idle to nothing.",
    where=FixLocation(Source.OURS, '[membership] idle = ""'),
)
def nothing_tells_of_logins(facts: Facts) -> Iterator[Sentence]:
    directory = facts.config.game.directory
    if facts.config.membership.idle is None or facts.has_authme or directory is None:
        return
    world = directory / facts.properties.level_name
    if find_last_saves(world, ()) is None:
        yield Sentence(
            "The folder {folder}, which would tell who plays, is missing or cannot be read.",
            folder=world / "playerdata",
        )


@check(
    "allowlist.unusable",
    Severity.BROKEN,
    means="The game’s allowlist cannot be read, or we may not write it.",
    why="Approved users are not put on the list, and banned ones stay on it. What is decided meanwhile follows later.",
    do="Run the companion as the game server’s user. A new list takes the place of the old one, so the folder has to "
    "be writable: run companion install again, which adds it to the unit, or name it in ReadWritePaths= (systemctl "
    "edit companion) and restart.",
    where=FixLocation(Source.ALLOWLIST),
)
def list_is_unusable(facts: Facts) -> Iterator[str | Symptom]:
    folder = facts.config.game.directory
    listing = facts.listing
    if isinstance(listing, ServerFileError):
        do = Sentence("Correct the file (a list in JSON), or replace it by [] and run: companion sync")
        yield Symptom(str(listing), do)
    elif folder is not None:
        file = (folder / ALLOWLIST).resolve()
        if not os.access(file.parent, os.W_OK):
            yield Sentence("We may not write to {path}.", path=file.parent)
        elif file.exists() and os.geteuid() not in (0, file.stat().st_uid):
            yield Sentence("{path} belongs to another user than ours.", path=file)
        elif _is_away(facts.running_daemon) and facts.uuid_in_doubt is None:  # which is a finding of its own
            yield Sentence(
                "The running companion cannot replace {path}, although the doctor could: its unit forbids it.",
                path=file,
            )


def _is_away(daemon: RunningDaemon | None) -> bool:
    return daemon is not None and not daemon.is_other and daemon.health.get("allowlist") == "away"


@check(
    "allowlist.reload",
    Severity.RISKY,
    means="The game’s allowlist is kept, and the remote console (RCON), by which a running server is told to read it, "
    "is off or does not answer.",
    why="Changes count when the game server starts again, and until then its own commands may overwrite them. Without "
    "RCON, nobody is kicked either: unless enforce-whitelist is true, who was removed stays until they leave.",
    do="Switch it on with a long password, and restart the game server.",
    where=_RCON,
)
def list_is_not_reloaded(facts: Facts) -> Iterator[Sentence]:
    properties = facts.properties
    if not facts.keeps_list:
        return
    address = find_rcon_address(facts.config.game, properties)
    game = connect_host(properties.server_ip), properties.server_port
    if address is None:
        yield Sentence("RCON is off: a running game server does not notice changes of its allowlist.")
    elif facts.host.accepts_connections(*game) and not facts.host.accepts_connections(address.host, address.port):
        yield Sentence("The game server runs, and RCON does not answer at port {port}.", port=address.port)


@check(
    "allowlist.uuids",
    Severity.BROKEN,
    means="A player joined with a UUID that players cannot have if the game server’s files say what is true.",
    why="The game compares UUIDs, not names: nobody is added to the list until it is clear which ones count.",
    do='Set it to "online" if players have the UUIDs of their Minecraft accounts (as behind a proxy that forwards '
    'them), and to "offline" if the server derives them from the names.',
    where=FixLocation(Source.OURS, '[allowlist] uuids = "online"'),
)
def uuids_are_in_doubt(facts: Facts) -> Iterator[Sentence]:
    name = facts.uuid_in_doubt
    if name is not None:
        uuid = facts.uuids.joined[name]
        yield Sentence(
            "{name} joined with {uuid} ({found}), and the server’s files say {family}.",
            name=name,
            uuid=uuid,
            found=family_of(uuid),
            family=facts.uuids.family,
        )


@check(
    "allowlist.waiting",
    Severity.RISKY,
    means="Users have been waiting for more than 10 minutes to be put on the game’s allowlist, or taken off it.",
    why="Who was approved cannot join yet, and who was banned still can.",
    do="Ask for the reason, and for what to do: companion why NAME",
    where=FixLocation(Source.DATABASE, "SELECT * FROM regsvc_allowlist WHERE reason IS NOT NULL"),
)
def users_wait_for_the_list(facts: Facts) -> Iterator[Symptom]:
    known = {
        NO_UUID: Sentence(
            "Their UUIDs are unknown: make sure that the companion can ask for them (game.profiles), or let an "
            "operator type /whitelist add NAME in the game."
        ),
        NO_PROFILE: Sentence(
            "There are no Minecraft accounts with these names: check the spelling, and let the players register the "
            "right names."
        ),
        REFUSED: Sentence(
            "The game server does not take these changes, as if a plugin objected or the names were unknown: type "
            "/whitelist add NAME (or remove) there, and read what it replies."
        ),
    }
    for reason, sample in facts.own_tables.waiting_on_list.items() if facts.keeps_list else ():
        if reason not in (UUID_IN_DOUBT, RESTART, HELD_BACK):  # which are findings of their own
            title = plural(
                sample.count, "{count} user waits: {names}", "{count} users wait: {names}", names=sample.names
            )
            yield Symptom(title, known.get(reason))


@check(
    "allowlist.taken_off",
    Severity.RISKY,
    means="Approved users were taken off the allowlist in the game (/whitelist remove).",
    why="They cannot join, although they are approved. The companion respects that (sync.on_player_removed).",
    do="Ban those who are meant to stay out. Put the others back with /whitelist add NAME in the game, or approve them "
    "again.",
    where=FixLocation(Source.DATABASE, "SELECT * FROM regsvc_allowlist WHERE state = 'taken_off'"),
)
def users_were_taken_off(facts: Facts) -> Iterator[Sentence]:
    sample = facts.own_tables.taken_off_list
    if facts.keeps_list and sample.count:
        yield plural(sample.count, "{count} user is off: {names}", "{count} users are off: {names}", names=sample.names)


@check(
    "allowlist.operators",
    Severity.RISKY,
    means="The game kicks players who are not on its allowlist (enforce-whitelist=true), and operators are not on it.",
    why="The vanilla server, and Fabric, kick operators as well at the next /whitelist reload.",
    do="Type /whitelist add NAME in the game for each.",
    where=FixLocation(Source.ALLOWLIST),
)
def operators_are_not_listed(facts: Facts) -> Iterator[Sentence]:
    listing = facts.listing
    if not facts.properties.enforce_whitelist or isinstance(listing, ServerFileError):
        return
    missing = sorted(facts.operator_levels.keys() - {entry.name.lower() for entry in listing.entries})
    if missing:
        yield Sentence("Not on the allowlist: {names}.", names=list_some(missing))


@check(
    "allowlist.discordsrv",
    Severity.RISKY,
    means="DiscordSRV requires a linked account or a role, but not of those on the allowlist (Whitelisted players "
    "bypass check), which is its default.",
    why="All approved users are on the list, so that the requirement holds for nobody.",
    do="Set it to false, and restart the game server.",
    where=FixLocation(Source.MACHINE, "plugins/DiscordSRV/linking.yml: Whitelisted players bypass check: false"),
)
def links_are_bypassed(facts: Facts) -> Iterator[Symptom]:
    folder = facts.config.game.directory
    if folder is None or not facts.keeps_list:
        return
    document: Any = {}
    with suppress(OSError, ValueError):  # it is DiscordSRV's to complain
        document, _oddities = parse_yaml(read_bounded(folder / _LINKS))
    required = document.get("Require linked account to play") if isinstance(document, dict) else None
    if not isinstance(required, dict) or required.get("Enabled") is not True:
        return
    if required.get("Whitelisted players bypass check", True) is True:
        where = f"{folder / _LINKS}: Whitelisted players bypass check: false"
        yield Symptom(Sentence("Everyone on the allowlist bypasses DiscordSRV’s check."), where=where)


@check(
    "game.management",
    Severity.BROKEN,
    means="The game server’s management protocol is on, and its TLS key or its secret is missing or unusable.",
    why="The game server does not start again. The companion does not use this protocol.",
    do="Switch it off, or on this machine set all four lines; the secret has exactly 40 letters and digits.",
    where=FixLocation(
        Source.PROPERTIES,
        "management-server-enabled=true, management-server-port=25585, management-server-tls-enabled=false, "
        "management-server-secret=…",
    ),
)
def management_is_incomplete(facts: Facts) -> Iterator[Sentence]:
    properties: ServerProperties = facts.properties
    if not properties.has_management:
        return
    if properties.management_tls and not properties.management_keystore:
        yield Sentence("management-server-tls-enabled is true, its default, and there is no keystore.")
    secret = properties.management_secret
    if secret is not None and not (len(secret) == 40 and secret.isascii() and secret.isalnum()):
        yield Sentence("management-server-secret is not 40 letters and digits.")
