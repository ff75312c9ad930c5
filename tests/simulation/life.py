"""The course of one world: steps of some operations at once, silence, checks, and time."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime
from functools import partial
from typing import Any, Final

from tests.simulation.faults import FAULTS
from tests.simulation.game import LONG_AGO, NEVER_PURGED, Surroundings
from tests.simulation.members import Members
from tests.simulation.oracle import Known, Oracle
from tests.simulation.peers import Peers
from tests.simulation.people import People
from tests.simulation.world import World
from tests.support.crash.operator_rights import OPERATORS, OperatorRights
from tests.support.services import PASSWORD

Act = Callable[[], Coroutine[Any, Any, None]]
SETTLED: Final = 70.0
"""Seconds in which at least one sync run begins and ends: `sync.every` is 30 s."""


class Life:
    """Everybody of one world. `run` is what its processes live through."""

    def __init__(self, world: World, *, operations: int, until: datetime) -> None:
        """End after so many operations, or `until`."""
        self.world = world
        self.operations = 0
        self._most = operations
        self._until = until
        self.oracle = Oracle(world)
        self.game = game = Surroundings(world, self.oracle)
        self.people = people = People(world, self.oracle, game)
        self.peers = peers = Peers(world)
        game.console = peers.console
        self.members = members = Members(world, self.oracle, people)
        people.begin_change = members.begin_change
        people.on_login, game.on_seen, game.on_gone = members.note_login, members.note_seen, members.note_gone
        self._acts: dict[Act, int] = {
            people.register: 14,
            people.log_in: 8,
            people.forget_password: 4,
            people.decide: 20,
            people.decide_in_chat: 4,
            people.set_password: 3,
            people.give_role: 3,
            members.set_membership: 6,
            members.ask_to_stay: 2,
            members.type_membership: 2,
            members.link_chat: 2,
            members.change_guild: 4,
            members.look_at_own: 1,
            members.decide_and_undo: 3,
            members.undo_days: 1,
            members.change_registration: 1,
            game.join_as_operator: 6,
            game.type_op: 3,
            game.restart_game: 1,
            game.register_there: 6,
            game.play: 9,
            game.purge_there: 2,
            game.edit_in_sql: 3,
            game.edit_allowlist: 2,
            game.take_table_away: 1,
            game.change_network: 3,
            self._change_peers: 3,
        }
        self._of_operators: set[Act] = {game.join_as_operator, game.type_op, game.restart_game, game.take_table_away}
        self._rights: OperatorRights

    async def _change_peers(self) -> None:
        self.peers.change()

    def settle_in(self) -> None:
        """Olivia and Paul are operators, of whom he waits for review; Rita may get a role; Guest is there for links."""
        world, bukkit = self.world, self.world.bukkit
        bukkit.start()
        for name in OPERATORS:
            password = self.game.new_password()
            assert world.services.authme.register(name, password)
            known = self.oracle.known[name.lower()]
            known.owner, known.ever = password, [password]
            self.game.write(name, lastlogin=NEVER_PURGED, **({"regdate": LONG_AGO} if name == "Olivia" else {}))
        bukkit.op("Paul")
        world.services.sync()
        world.services.approved("Rita")
        self.oracle.known["rita"] = Known(owner=PASSWORD, ever=[PASSWORD])
        self._rights = OperatorRights(world.services, bukkit, self._end_lost_rights)
        world.follow_clock = self._rights.follow_clock
        self.oracle.start()

    def _end_lost_rights(self) -> None:
        app = self.world.services.app
        app.worker.run_here(app.lost_rights.end)

    async def run(self) -> None:
        """Live until the end; a process that starts begins with what the last one has left."""
        self.oracle.end_open()
        self.game.bring_table_back()
        await self.game.start_game()
        await self._settle()
        while self.operations < self._most and self.world.clock() < self._until:
            await self._step()
        await self._settle()
        for _hour in range(3):  # the longest pause after an outage of the mail server, and of the chat
            self.world.clock.advance(hours=1)
            await self._settle()
        self.oracle.check_end()

    async def _step(self) -> None:
        world, chance, faults = self.world, self.world.chance, self.world.faults
        acts = chance.choices([*self._acts], [*self._acts.values()], k=chance.choice([1, 1, 2, 3, 4]))
        of_operators = [act for act in acts if act in self._of_operators]
        acts = [act for act in acts if act not in self._of_operators] + of_operators[:1]
        if chance.random() < 0.3:
            faults.plan(chance.choice(FAULTS))
        faults.is_on = True
        self.members.look_into_game()
        self.operations += len(acts)
        await asyncio.gather(*(act() for act in acts))
        await world.quiet()
        faults.stop()
        self.check(of_operators=bool(of_operators))
        await asyncio.sleep(chance.choice([0.1, 1, 5, 5, 40, 40]))
        if chance.random() < 0.1:  # nothing happens for so long, and no job needs to be seen to run all the time
            world.clock.advance(minutes=chance.randint(2, 20))
        if chance.random() < 0.08:
            world.clock.advance(hours=chance.randint(1, 100))
        world.bukkit.kick_late()
        if not all(map(world.bukkit.is_operator, OPERATORS)):
            await world.quiet()
            self._rights.check()
        if chance.random() < 0.3:
            await self._settle()

    def check(self, *, of_operators: bool = True) -> None:
        """Check what is true at every moment; the rights of operators where those may have changed."""
        self.oracle.check()
        self.members.check()
        self.peers.check()
        if of_operators:
            self._rights.check()

    async def _confirm(self) -> None:
        """Let the host end whose membership waits after a long silence: `companion sync --allow-mass-changes`."""
        waiting = [app.sync for app in self.world.apps if app.sync.has_held_back_changes]
        if waiting:
            await waiting[0]._run_in_turn(partial(waiting[0].run_here, allow_mass_changes=True, is_full=True))
            await asyncio.sleep(SETTLED)
            await self.world.quiet()

    async def _settle(self) -> None:
        """Let the product do all that is due, without faults, and check that nothing is left to do."""
        self.world.mail.is_away = self.world.chat.is_away = False
        self.members.guild.mood = "there"
        self.peers.come_back()
        await asyncio.sleep(SETTLED)
        await self.world.quiet()
        await self._confirm()
        self.check()
        rows = self.oracle.check_settled()
        self.members.check_settled(rows)
        self.peers.check_settled()
        self.peers.check_players(self.oracle.users)
