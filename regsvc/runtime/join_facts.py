"""Facts about why a player cannot join, from our tables, AuthMe's, and the game server's files."""

import string
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from plugin_bridge.authme.players import PlayersUnavailable
from plugin_bridge.server.allowlist import AllowlistFile, Entry
from plugin_bridge.server.files import PropertiesFile, ServerFileError
from plugin_bridge.server.player_uuids import PlayerUuids, UuidFamily
from regsvc.config.live import LiveConfig
from regsvc.core.errors import InvalidField, InvalidUsername
from regsvc.core.text import clean_name, name_key
from regsvc.database.bulk import select_rows
from regsvc.database.models import APPROVED, Allowed, ChatLink, User
from regsvc.runtime.game_status import LastStatus
from regsvc.runtime.why import JoinFacts, JoinStep, ListFacts, find_steps
from regsvc.sync.reconciler import Reconciler
from regsvc.sync.records import Account
from regsvc.sync.service import SyncService
from regsvc.users.credential_rules import CredentialRules
from regsvc.users.gates import Gates
from regsvc.users.retention import find_reapply_at

_LETTERS: Final = string.ascii_lowercase + string.digits + "_"
_CONFUSED: Final = str.maketrans("0158", "olsb")
_LONGEST_COMPARED: Final = 16


@dataclass(frozen=True)
class WhyNot:
    """Answers to "why can't I join?"."""

    reconciler: Reconciler
    rules: CredentialRules
    live: LiveConfig
    gates: Gates
    sync: SyncService
    uuids: PlayerUuids
    properties: PropertiesFile

    def find_steps(self, username: str, server: LastStatus | None) -> tuple[JoinStep, ...]:
        """Return the steps for this name. `server` None: nobody knows where it is. Blocking."""
        key, name = name_key(username), clean_name(username)
        account = self._load(key)
        user = User.get_or_none(User.username_key == key)
        config, report, rules = self.live.current, self.sync.last_report, self.live.authme
        chat = config.chat
        needs_chat = bool(chat.platform) and chat.required
        lacks_chat = (
            user is not None
            and needs_chat
            and user.origin == "registered"
            and not ChatLink.select().where(ChatLink.user == user.id).exists()
        )
        listed = self._find_listed(key, name if user is None else user.username, user)
        facts = JoinFacts(
            # where accounts count, the game writes the name as Mojang does
            name if user is None or self._family != "online" else user.username,
            account,
            self.reconciler.policy,
            listed,
            server,
            name_rule=self._find_broken_rule(name) if user is None else None,
            similar=None if user is not None else _find_similar(key),
            reason=None if user is None else user.reason,
            reapply_at=(
                None if user is None else find_reapply_at(user, config.registration.reapply_after, account.now)
            ),
            lacks_chat=chat.platform if lacks_chat else None,
            is_cached=rules.is_cached or self.live.is_cached_elsewhere,
            is_shared=len(config.game_servers) > 1,
            is_held_back=None if report is None else report.held_back is not None,
            stands_still=None if report is None else self.sync.stands_still,
        )
        return find_steps(facts)

    @property
    def _family(self) -> UuidFamily | None:
        given = self.live.current.allowlist.uuids
        return self.uuids.family if given == "auto" else given

    def _load(self, key: str) -> Account:
        try:
            return self.reconciler.load(key)
        except PlayersUnavailable:
            return self.reconciler.loader.load([key], None)[0]

    def _find_broken_rule(self, name: str) -> str | None:
        bedrock = self.live.current.bedrock
        is_bedrock = bedrock.enabled and name.startswith(bedrock.prefix)
        try:
            self.rules.check_username(name, "bedrock" if is_bedrock else "java")
        except (InvalidUsername, InvalidField) as refusal:
            return str(refusal.facts.get("regex", "–"))
        return None

    def _find_listed(self, key: str, name: str, user: User | None) -> ListFacts:
        record = Allowed.get_or_none(Allowed.username_key == key)
        status = APPROVED if user is None else user.status
        stored = (None, None) if record is None else (record.state, record.reason)
        uuid, properties = None if record is None else record.uuid, self.properties.refresh()
        is_used = None if properties is None else properties.white_list
        state, directory = self.gates.listed_state(status, *stored), self.live.current.game.directory
        self.uuids.refresh()
        is_on_bedrock = user is not None and user.platform == "bedrock"
        found_joined = self.uuids.find_joined(name, self._family, is_on_bedrock=is_on_bedrock)
        joined = found_joined[1] if found_joined else None
        entries: tuple[Entry, ...] | None = None
        if directory is None and state == "listed":  # the run has seen them there, by RCON
            entries = (Entry(uuid or "", name),)
        if directory is not None and (is_used or state != "off"):
            with suppress(ServerFileError):  # which is told as unknown
                found = AllowlistFile(directory / "whitelist.json").read().entries
                entries = tuple(it for it in found if name_key(it.name) == key or it.uuid in (uuid, joined))
        since = None if record is None else record.since
        return ListFacts(state, stored[1], uuid, is_used, entries, joined, is_on_bedrock, since)


def _find_similar(key: str) -> str | None:
    """Return a user whose name differs from this one by a letter, or by letters that look alike; None if none does."""
    if not 0 < len(key) <= _LONGEST_COMPARED:
        return None
    database, wanted = User._meta.database, set(_variants(key))
    found: Mapping[str, str] = dict(
        select_rows(database, User, [User.username_key, User.username], User.username_key, wanted)
    )
    return min(found.values(), default=None)


def _variants(key: str) -> Iterator[str]:
    plain = key.translate(_CONFUSED)
    yield from {plain, plain.replace("l", "i"), plain.replace("i", "l"), key.replace("_", ""), f".{key}"} - {key}
    for place in range(len(key) + 1):
        before, after = key[:place], key[place:]
        if after:
            yield before + after[1:]
            yield from (before + letter + after[1:] for letter in _LETTERS if letter != after[0])
            yield before + after[1:2] + after[:1] + after[2:]
        yield from (before + letter + after for letter in _LETTERS)
