"""UUIDs of users: as the game server's files tell them, as the allowlist has them, or looked up at Mojang by name.

A look-up that fails loses nothing: who waits goes on waiting, and is looked up again.
"""

import asyncio
import contextlib
import logging
import re
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from plugin_bridge.server.player_uuids import PlayerUuids, UuidFamily, offline_uuid
from plugin_bridge.text import decode_json
from regsvc.allowlist.rules import keeps_uuid
from regsvc.config.live import LiveConfig
from regsvc.core.addresses import is_loopback, is_private
from regsvc.core.clock import Clock, is_over
from regsvc.core.errors import Refusal
from regsvc.core.exceptions import describe_exception, locate_exception
from regsvc.core.http_response import NoResponse, Response
from regsvc.core.text import name_key
from regsvc.database.bulk import select_rows
from regsvc.database.engine import Worker
from regsvc.database.models import ADD, LISTED, Allowed, User
from regsvc.users.gates import NO_PROFILE, NO_UUID, UUID_IN_DOUBT

log = logging.getLogger(__name__)

_KNOWN_FOR: Final = timedelta(days=30)
_UNKNOWN_FOR: Final = timedelta(hours=1)
_TIMEOUT: Final = timedelta(seconds=10)
_AT_ONCE: Final = 20
_KEYS: Final = 5000  # SQLite takes no more than 32,766 values in a statement
_MAX_ANSWERS: Final = 1_000
_OF_JAVA: Final = re.compile(r"[A-Za-z0-9_]{1,16}")
_ABSENT: Final = frozenset({204, 404})
_REFUSED: Final = frozenset({403, 429})


@dataclass(frozen=True, slots=True)
class Profile:
    """Answer about one name. `uuid` None: no account has the name, which is then spelled as it was asked."""

    name: str
    uuid: str | None
    asked_at: datetime

    def is_fresh(self, now: datetime) -> bool:
        return not is_over(self.asked_at, _UNKNOWN_FOR if self.uuid is None else _KNOWN_FOR, now)


class Profiles:
    """UUIDs of users, and look-ups at Mojang for those that wait for theirs: one a second, apart from all requests.

    The list's own records keep what was answered; answers are also kept in memory, for where no list is kept.
    """

    def __init__(
        self,
        live: LiveConfig,
        uuids: PlayerUuids,
        worker: Worker,
        on_found: Callable[[], None],
        now: Clock,
        *,
        pause: timedelta = timedelta(seconds=1),
        silence: timedelta = timedelta(minutes=2),
    ) -> None:
        """`on_found` is called once the list's records have a UUID more.

        `pause` is that between two look-ups, `silence` that after Mojang had enough of them.
        """
        self._live = live
        self._uuids = uuids
        self._worker = worker
        self._on_found = on_found
        self._now = now
        self._pause = pause.total_seconds()
        self._silence = silence.total_seconds()
        self._silent_until = 0.0
        self._wanted: dict[str, str] = {}  # by key; asked for while no list was kept
        self._answers: dict[str, Profile] = {}
        self._asked: dict[str, float] = {}  # when each was asked in vain, so that one that fails delays no other
        self._work = asyncio.Event()
        self._stopped = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_failing = False

    def find_uuids(self, players: Mapping[str, str | None]) -> dict[str, str]:
        """Return the UUIDs that users have in the game, as far as they are known. Blocking, but asks nobody.

        `players`: their platforms by name; None: unknown. The other Java players' are then looked up, if accounts are;
        ask again a few seconds later.
        """
        fields = (Allowed.username_key, Allowed.state, Allowed.uuid, Allowed.reason)
        records: dict[str, tuple[Any, ...]] = {}
        keys = [name_key(name) for name in players]
        for start in range(0, len(keys), _KEYS):
            rows = select_rows(Allowed._meta.database, Allowed, fields, fields[0], keys[start : start + _KEYS])
            records |= {key: rest for key, *rest in rows}
        found = {}
        for name, platform in players.items():
            is_java = platform == "java" if platform else _OF_JAVA.fullmatch(name) is not None
            uuid = self._find_uuid(name, is_java, *records.get(name_key(name), (None, None, None)))
            if uuid is not None:
                found[name] = uuid
        if self._wanted:
            self.wake()
        return found

    def _find_uuid(
        self, name: str, is_java: bool, state: str | None, listed: str | None, reason: str | None
    ) -> str | None:
        """Return the UUID of a user with this record (None: there is none), or None, and note that it is wanted."""
        family, key = self._family(), name_key(name)
        joined = self._uuids.find_joined(name, family, is_on_bedrock=not is_java)
        if joined is not None and not keeps_uuid(listed, joined[1]):
            return joined[1]
        is_doubted = self._live.current.allowlist.uuids == "auto" and self._uuids.find_doubt({key}, family) is not None
        if reason == UUID_IN_DOUBT or is_doubted:
            return None
        if listed is not None and (state == LISTED or family != "offline" or not is_java):
            return listed
        if not is_java:
            return None
        if family == "offline":
            return offline_uuid(name)
        answer = self._answers.get(key)
        if answer is not None and answer.is_fresh(self._now()):
            return answer.uuid
        if self.is_on:
            self._wanted[key] = name
        return None

    def find_accounts(self, players: Mapping[str, str]) -> dict[str, bool]:
        """Return whether names, with their platforms, are those of Minecraft accounts, as far as that is known.

        Asks nobody; unknown ones are looked up, if the host turned that on.
        """
        found = {}
        for name, platform in players.items():
            answer = self._answers.get(name_key(name))
            if answer is not None and answer.is_fresh(self._now()):
                found[name] = answer.uuid is not None
            elif platform == "java" and self._is_asked and len(self._wanted) < _MAX_ANSWERS:
                self._wanted.setdefault(name_key(name), name)
        if len(found) < len(players) and self._wanted:
            self.wake()
        return found

    @property
    def is_on(self) -> bool:
        """Whether accounts are looked up: where players have the UUIDs of Minecraft accounts, and the host lets us."""
        asked, family = self._live.current.game.profiles, self._family()
        return asked is not False and (family == "online" or (asked is True and family is None))

    @property
    def _is_asked(self) -> bool:
        """Whether applicants' names are looked up for reviewers, too, whatever UUIDs players have."""
        return self._live.current.game.profiles is True

    def wake(self) -> None:
        """Look up soon what is missing. Called on any thread; does nothing before `run`."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has just been closed
                self._loop.call_soon_threadsafe(self._work.set)

    async def run(self) -> None:
        """Look up what is missing each time it is woken, until `stop`."""
        self._loop = asyncio.get_running_loop()
        self._work.set()
        while not self._stopped.is_set():
            await self._work.wait()
            self._work.clear()
            try:
                while not self._stopped.is_set() and await self.look_up():
                    pass
            except Refusal as refusal:
                log.debug("accounts are looked up later: %s", refusal.code)
            except Exception as error:
                log.error("accounts could not be looked up: %s", locate_exception(error))
                log.info("for a bug report about accounts: %s", describe_exception(error))

    def stop(self) -> None:
        """Start no further look-up. Called on the event loop."""
        self._stopped.set()
        self._work.set()

    async def look_up(self) -> bool:
        """Look up the next names that wait; return whether there may be more. On the event loop."""
        if not (self.is_on or self._is_asked) or time.monotonic() < self._silent_until:
            return False
        names = await self._worker.run(self._list_waiting)
        found = 0
        for name in names:
            answer, is_enough = await self._ask(name)
            if answer is not None and await self._worker.run(self._keep, name_key(name), answer):
                found += 1
                if found == 1:
                    self._on_found()  # who waits alone waits no longer than for this
            if is_enough or self._stopped.is_set():
                names = []
                break
        if found > 1:
            self._on_found()
        return len(names) == _AT_ONCE

    def _family(self) -> UuidFamily | None:
        given = self._live.current.allowlist.uuids
        return self._uuids.family if given == "auto" else given

    def _list_waiting(self) -> list[str]:
        """Return names to look up: of Java players on the list's records, and those asked for."""
        if not self.is_on:
            return self._by_last_attempt(self._wanted)
        waits_again = (Allowed.reason == NO_PROFILE) & (Allowed.since <= self._now() - _UNKNOWN_FOR)
        waiting = (
            Allowed.select(Allowed.username)
            .join(User, on=(User.username_key == Allowed.username_key))
            .where(Allowed.state == ADD, Allowed.uuid.is_null(), User.platform == "java")
            .where((Allowed.reason == NO_UUID) | waits_again)
            .order_by(Allowed.since)
            .limit(_AT_ONCE * 10)
        )
        rows: Any = waiting.tuples()
        names = {name_key(name): name for (name,) in rows} | self._wanted
        return self._by_last_attempt(names)

    def _by_last_attempt(self, names: Mapping[str, str]) -> list[str]:
        return sorted([*names.values()], key=lambda name: self._asked.get(name_key(name), 0.0))[:_AT_ONCE]

    def _keep(self, key: str, answer: Profile) -> bool:
        """Keep the answer where it is waited for; return whether the list's records have a UUID more."""
        if len(self._answers) >= _MAX_ANSWERS:
            self._answers.clear()
        self._answers[key] = answer
        self._wanted.pop(key, None)
        self._asked.pop(key, None)
        if answer.uuid is None:
            changes: dict[Any, Any] = {Allowed.reason: NO_PROFILE, Allowed.since: answer.asked_at}
        else:
            changes = {Allowed.uuid: answer.uuid, Allowed.username: answer.name, Allowed.reason: None}
        waits = (Allowed.username_key == key) & (Allowed.state == ADD) & Allowed.uuid.is_null()
        return bool(Allowed.update(changes).where(waits).execute()) and answer.uuid is not None

    async def _ask(self, name: str) -> tuple[Profile | None, bool]:
        """Return what is answered about a name, None for a failure, and whether to leave the others for later."""
        known = self._answers.get(name_key(name))
        if known is not None and known.is_fresh(self._now()):
            return known, False
        if _OF_JAVA.fullmatch(name) is None:
            return Profile(name, None, self._now()), False
        try:
            response = await self._fetch(name)
            await self._wait()
            profile = _read_profile(response, name, self._now())
        except NoResponse as problem:
            self._asked[name_key(name)] = time.monotonic()
            if not self._is_failing:
                log.warning(
                    "Minecraft accounts cannot be looked up (%s): players whom the game server does not know yet get "
                    "their UUID later",
                    problem,
                )
            self._is_failing = True
            return None, True
        self._is_failing = False
        return profile, False

    async def _fetch(self, name: str) -> Response:
        from regsvc.core.http_client import HttpClient

        address = self._live.current.game.profiles_url
        host = urlsplit(address).hostname or ""
        public_only = not (is_loopback(host) or is_private(host))
        with HttpClient(_TIMEOUT, public_only=public_only) as client:
            response = await client.get(f"{address}/{name}", {"Accept": "application/json"})
        if response.status in _REFUSED:
            self._silent_until = time.monotonic() + self._silence
        return response

    async def _wait(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), self._pause)


def _read_profile(response: Response, asked: str, moment: datetime) -> Profile:
    """Return what the response says. Raises `NoResponse` if that is nothing about this name."""
    if response.status in _ABSENT:
        return Profile(asked, None, moment)
    if response.status != 200:
        raise NoResponse(response.describe())
    try:
        match decode_json(response.body):
            case {"id": str(written), "name": str(name)} if name.lower() == asked.lower():
                return Profile(name, str(uuid.UUID(written)), moment)
    except ValueError:
        pass
    raise NoResponse("the answer is no profile")
