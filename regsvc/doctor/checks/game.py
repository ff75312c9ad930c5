"""Checks of the game server's files: operators, remote console, online mode."""

from collections.abc import Iterator
from typing import Final

from plugin_bridge.server.files import ServerFileError, ServerProperties
from regsvc.config.value_checks import is_placeholder, missing_folder_reason
from regsvc.core.addresses import is_loopback, is_public
from regsvc.core.i18n.sentences import Sentence
from regsvc.doctor.facts.facts import Facts, FixLocation, ServerFacts, Source
from regsvc.doctor.finding import Severity, Symptom, check, list_some

_SHORTEST_PASSWORD: Final = 12
_MAX_NAMES: Final = 5
_WELL_KNOWN: Final = ("password", "minecraft", "rcon", "admin", "server", "secret", "test", "qwerty", "letmein")


@check(
    "game.unreadable",
    Severity.BROKEN,
    means="game.directory is not a folder that we may read, ops.json cannot be read, or is not a list of operators; "
    "or, only risky, server.properties is not in game.directory, or cannot be read.",
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
        do = Sentence("Fix the file (/op and /deop in the game rewrite it), and let the companion’s user read it.")
        yield Symptom(facts.operators_problem, do, FixLocation(Source.OPERATORS))
    for server in facts.servers:
        directory, problem = server.game.directory, server.properties
        if isinstance(problem, ServerFileError) and directory is not None and missing_folder_reason(directory) is None:
            do = Sentence("Set game.directory to the game server’s folder, and let the companion’s user read the file.")
            yield Symptom(str(problem), do, str(server.game.server_properties_path), Severity.RISKY)


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
