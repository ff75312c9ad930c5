"""Checks of the gates: whether approvals let users in, and of the game's allowlist where it is kept."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import yaml

from plugin_bridge.server.files import ServerFileError, ServerProperties, read_bounded
from plugin_bridge.server.player_uuids import family_of
from regsvc.core.addresses import connect_host
from regsvc.core.i18n.sentences import Sentence, plural
from regsvc.doctor.facts.facts import ALLOWLIST, Facts, FixLocation, Source
from regsvc.doctor.facts.host import RunningDaemon
from regsvc.doctor.finding import Severity, Symptom, check, list_some
from regsvc.notifications.rcon import find_rcon_address
from regsvc.users.gates import HELD_BACK, NO_PROFILE, NO_UUID, REFUSED, RESTART, UUID_IN_DOUBT, find_gate_problem

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
    with suppress(OSError, ValueError, RecursionError, yaml.YAMLError):  # it is DiscordSRV's to complain
        document = yaml.safe_load(read_bounded(folder / _LINKS))
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
