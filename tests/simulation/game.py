"""What happens beside the product: in the game, in SQL, in files, on the network, and to the machine."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from regsvc.database.models import STATUSES
from tests.simulation.oracle import Oracle
from tests.simulation.scheduler import OUTSIDE
from tests.simulation.world import World
from tests.support.authme.authme_like import offline_uuid
from tests.support.crash.operator_rights import OPERATORS

NAMES: Final = ("Alice", "Bob", "Carol", "Dave", "Erin", "Frank", "Grace", "Heidi")
LONG_AGO: Final = 1_577_836_800_000  # 2020
NEVER_PURGED: Final = 10**14  # epoch milliseconds, long after everything
ENTERED: Final = ("at the prompt", "in the game")


class Surroundings:
    """The game with its players and strangers, and the host."""

    def __init__(self, world: World, oracle: Oracle) -> None:
        self.world = world
        self.oracle = oracle
        self.chance = world.chance
        self.is_table_away = False
        self._passwords = 0
        self.console: Any = None
        self.on_seen: Callable[[str], None] = lambda name: None
        self.on_gone: Callable[[str], None] = lambda name: None

    def new_password(self) -> str:
        self._passwords += 1
        return f"the-password-{self._passwords}"

    def note(self, line: str) -> None:
        self.world.trace.note(line)

    # --- in the game ---

    async def in_game(self, told: str, act: Callable[[], Any]) -> Any:
        """Do this on the game's thread; None while the game does not run, or has no table."""
        bukkit = self.world.bukkit

        def act_if_running() -> Any:
            return act() if bukkit.is_running and not self.is_table_away else None

        result = await self.world.on_thread(OUTSIDE, act_if_running)
        self.note(f"{told}: {result}")
        return result

    async def join_as_operator(self) -> None:
        """Join under an operator's name, as the operator or as a stranger, and stand at the prompt for a while."""
        bukkit, name = self.world.bukkit, self.chance.choice(OPERATORS)
        if await self.in_game(f"{name} joins", lambda: bukkit.join(name)) not in ENTERED:
            await self.in_game(f"{name} leaves", lambda: bukkit.quit(name))
            return
        await asyncio.sleep(self.chance.choice([0.5, 3, 8, 25]))
        if self.chance.random() < 0.5:
            password = self.oracle.known[name.lower()].owner
            assert password is not None
            await self.in_game(f"{name} logs in there", lambda: bukkit.login(name, password))
            await asyncio.sleep(self.chance.choice([0.5, 30]))
        if self.chance.random() < 0.7:
            await self.in_game(f"{name} leaves", lambda: bukkit.quit(name))
        self.keep_operators()

    async def type_op(self) -> None:
        """Type `/op` or `/deop`; for some seconds after a real `/deop` nobody can tell it from a join."""
        bukkit, name = self.world.bukkit, self.chance.choice(OPERATORS)
        act = bukkit.deop if bukkit.is_operator(name) and self.chance.random() < 0.5 else bukkit.op
        await self.in_game(f"/{act.__name__} {name}", lambda: act(name))
        await asyncio.sleep(4)

    async def restart_game(self) -> None:
        bukkit = self.world.bukkit
        end = self.chance.choice([bukkit.stop, bukkit.kill])
        await self.in_game(f"the game: {end.__name__}", end)
        await asyncio.sleep(self.chance.choice([1, 20]))
        await self.start_game()

    async def start_game(self) -> None:
        bukkit = self.world.bukkit
        if not bukkit.is_running and not self.is_table_away:
            await self.world.on_thread(OUTSIDE, bukkit.start)
            self.console.load()
            self.note("the game starts")

    async def register_there(self) -> None:
        name, password, bukkit = self.chance.choice(NAMES), self.new_password(), self.world.bukkit
        if await self.in_game(f"{name} joins", lambda: bukkit.join(name)) not in ENTERED:
            return
        end = self.oracle.begin_game_registration(name, password)
        end(bool(await self.in_game(f"{name} registers there", lambda: bukkit.register(name, password))))
        await self.in_game(f"{name} leaves", lambda: bukkit.quit(name))

    async def play(self) -> None:
        """Log in to the game with a password that was used under the name, and perhaps change something there."""
        name, bukkit, authme = self.chance.choice(NAMES), self.world.bukkit, self.world.services.authme
        password = self.oracle.any_password(name, self.chance)
        if password is None or await self.in_game(f"{name} joins", lambda: bukkit.join(name)) not in ENTERED:
            return
        is_in = await self.in_game(f"{name} logs in there", lambda: bukkit.login(name, password))
        if is_in:
            self.on_seen(name)
        then = self.chance.choice(["plays", "plays", "password", "unregister", "session"]) if is_in else "leaves"
        if then == "password":
            new = self.new_password()
            if await self.in_game(f"/changepassword {name}", lambda: authme.change_password(name, password, new)):
                self.oracle.note_game_password(name, password, new)
        elif then == "unregister":
            self._note_gone(name)
            await self.in_game(f"/unregister {name}", lambda: bukkit.unregister(name, password))
        elif then == "session" and not self.is_table_away:
            self.write(name, hasSession=1)
        await self.in_game(f"{name} leaves", lambda: bukkit.quit(name))

    async def purge_there(self) -> None:
        """Let AuthMe purge who was away for long, or the console unregister somebody."""
        authme, name = self.world.services.authme, self.chance.choice(NAMES)
        self._note_gone(name)
        await self.in_game(f"the console: unregister {name}", lambda: authme.unregister_from_console(name))

    def _note_gone(self, name: str) -> None:
        self.oracle.note_gone(name)
        self.on_gone(name)

    def keep_operators(self) -> None:
        """AuthMe's purge leaves the operators alone."""
        for name in OPERATORS if not self.is_table_away else ():
            self.write(name, lastlogin=NEVER_PURGED)

    def write(self, name: str, **columns: object) -> None:
        changes = ", ".join(f"{column} = ?" for column in columns)
        table = self.world.services.table
        table.database.execute(
            f"UPDATE {table.name} SET {changes} WHERE username = ?", (*columns.values(), name.lower())
        )

    # --- the host ---

    async def edit_in_sql(self) -> None:
        """Type a status, or delete a user."""
        name, ours = self.chance.choice(NAMES), self.world.services.ours
        status = self.chance.choice([*sorted(STATUSES), *sorted(STATUSES), None])
        self.oracle.note_sql_edit(name, status)
        self.note(f"SQL: {name} is {status}")
        if status is None:
            ours.execute("DELETE FROM regsvc_user WHERE username_key = ?", (name.lower(),))
        else:
            ours.execute("UPDATE regsvc_user SET status = ? WHERE username_key = ?", (status, name.lower()))

    async def edit_allowlist(self) -> None:
        """Type `/whitelist add` or `remove` in the game, which writes its whole list: who is added is approved."""
        name, console = self.chance.choice(NAMES), self.console
        if not self.world.bukkit.is_running:
            return
        uuid = offline_uuid(name)
        is_added = uuid not in console.listed
        if is_added:
            console.listed[uuid] = name
        else:
            del console.listed[uuid]
        self.oracle.note_list_edit(name, is_added=is_added)
        self.note(f"/whitelist {'add' if is_added else 'remove'} {name}")
        console.save()

    async def take_table_away(self) -> None:
        """Rename AuthMe's table for a while, as a host does who restores a backup."""
        table = self.world.services.table
        self.is_table_away = True
        self.note("AuthMe's table is away")
        table.database.execute(f"ALTER TABLE {table.name} RENAME TO elsewhere")
        await asyncio.sleep(self.chance.choice([1, 40]))
        self.bring_table_back()

    def bring_table_back(self) -> None:
        table = self.world.services.table
        if self.is_table_away:
            table.database.execute(f"ALTER TABLE elsewhere RENAME TO {table.name}")
            self.is_table_away = False
            self.note("AuthMe's table is back")

    async def change_network(self) -> None:
        """Let the mail server and the chat go away, or come back."""
        for place in (self.world.mail, self.world.chat):
            place.is_away = self.chance.random() < 0.5
        self.note(f"away: mail {self.world.mail.is_away}, chat {self.world.chat.is_away}")
