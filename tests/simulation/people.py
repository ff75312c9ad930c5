"""What people do on the web: applicants and players, Olivia, who is an operator, and Rita, who has a role."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Final

from regsvc.auth.entitlement import Principal
from regsvc.auth.verification_codes import CodeOrProof
from regsvc.core.addresses import Caller, VerifiedSession
from regsvc.core.errors import Busy, DatabaseUnavailable, Refusal
from regsvc.core.rights import Permission
from regsvc.database.audit import Actor
from regsvc.database.models import TeamChatMessage
from regsvc.registration.registration import RegistrationRequest
from regsvc.team_chat.decisions import ChatReceiver, Click, Person
from regsvc.users.membership import Term
from regsvc.users.transitions import TRANSITIONS, DecisionDetails
from tests.simulation.game import NAMES, Surroundings
from tests.simulation.oracle import Oracle, Outcome
from tests.simulation.world import World
from tests.support.stack import _CODE

HOME: Final = Caller("198.51.100.7", "198.51.100.7", "en", "request-1")
TEAM: Final = ("Olivia", "Olivia", "Rita")
OLIVIAS: Final = Person("discord", "Discord", "77", "olivia")
"""Her account on the chat platform."""
OLIVIA_IN_CHAT: Final = "Olivia (Discord)"
_LINK: Final = re.compile(r"/set-password#token=(\S+)")


class People:
    """Each operation goes as far as its person gets: a code that never came is asked for another time."""

    def __init__(self, world: World, oracle: Oracle, surroundings: Surroundings) -> None:
        self.world = world
        self.oracle = oracle
        self.chance = world.chance
        self._new_password = surroundings.new_password
        self.on_login: Callable[[str], None] = lambda name: None
        self.begin_change: Callable[[str, str, Term], Callable[[Outcome], None]]
        self._admin: dict[str, str] = {}  # the tokens of the team's sessions

    async def attempt(self, told: str, work: Awaitable[Any]) -> tuple[Outcome, Any]:
        """Return what came of it, with the result or the refusal."""
        result: tuple[Outcome, Any]
        try:
            result = "done", await work
            shown = "done"
        except DatabaseUnavailable as refusal:
            result, shown = ("unknown", refusal), refusal.code
        except Refusal as refusal:
            result, shown = ("refused", refusal), refusal.code
        self.world.trace.note(f"{told}: {shown}")
        return result

    # --- players ---

    async def register(self) -> None:
        """Ask for a code, and register with the one that came, if one did."""
        name, app = self.chance.choice(NAMES), self.world.app
        address = f"{name.lower()}@example.org"
        await self.attempt(f"{name} asks for a code", app.verification.send_code(address, "register", HOME))
        await asyncio.sleep(self.chance.choice([3, 10]))
        code = self.world.mail.find(address, _CODE)
        if code is None:
            return
        password = self._new_password()
        request = RegistrationRequest(name, address, CodeOrProof(code), password, "java", "en")
        end = self.oracle.begin_registration(name, password)
        outcome, _reply = await self.attempt(f"{name} registers", app.registration.register(request, HOME))
        end(outcome)

    async def log_in(self) -> None:
        """Log in, and perhaps change the password or delete the account."""
        name, app = self.chance.choice(NAMES), self.world.app
        password = self.oracle.any_password(name, self.chance)
        if password is None:
            return
        self.on_login(name)
        outcome, logged_in = await self.attempt(f"{name} logs in", app.logins.log_in(name, password, "user", HOME))
        if outcome != "done":
            return
        self.oracle.note_login(name, logged_in.token)
        then = self.chance.choice(["reads", "reads", "password", "deletes"])
        if then == "reads":
            return
        outcome, session = await self.attempt(
            f"{name}'s session", app.worker.run(app.sessions.authenticate, logged_in.token)
        )
        if outcome != "done":
            return
        if then == "password":
            new = self._new_password()
            end = self.oracle.begin_password(name, new)
            work = app.password_changes.change_own(session, password, new, HOME)
        else:
            end = self.oracle.begin_decision(name, "delete", name)
            work = app.self_deletion.delete(session, password, None, HOME)
        end((await self.attempt(f"{name}: {then}", work))[0])

    async def forget_password(self) -> None:
        """Ask for a link, and set a password with the one that came."""
        name, app = self.chance.choice(NAMES), self.world.app
        address = f"{name.lower()}@example.org"
        await self.attempt(f"{name} forgot the password", app.password_mails.forgot(address, HOME))
        await asyncio.sleep(self.chance.choice([3, 10]))
        token = self.world.mail.find(address, _LINK)
        if token is not None:
            new = self._new_password()
            end = self.oracle.begin_password(name, new)
            end((await self.attempt(f"{name} uses the link", app.password_changes.reset(token, new, HOME)))[0])

    # --- the team ---

    async def find_principal(self, member: str, permission: Permission) -> Principal:
        """Return the member by their session, as a route with this permission does.

        Raises a refusal, after which they log in anew.
        """
        app = self.world.app
        try:
            if member not in self._admin:
                password = self.oracle.known[member.lower()].owner
                self._admin[member] = (await app.logins.log_in(member, password, "admin", HOME)).token
            work = app.worker.run(app.sessions.authenticate_admin, self._admin[member], HOME, permission)
            admin: VerifiedSession = await work
        except (DatabaseUnavailable, Busy):
            raise
        except Refusal:
            self._admin.pop(member, None)
            raise
        actor = Actor(admin.username, HOME.address)
        return Principal(actor, admin.rights, admin.username, None, None, admin.has_second_factor)

    async def decide(self) -> None:
        """Let a member of the team decide about somebody."""
        member, name = self.chance.choice(TEAM), self.chance.choice(NAMES)
        user = self.world.services.find_user(name)
        is_banned = user is not None and user.status == "banned"
        transition = self.chance.choice(
            ("unban", "unban", "ban", "delete")
            if is_banned
            else ("approve", "approve", "approve", "reject", "ban", "delete")
        )
        ends_at = self.world.clock() + timedelta(days=self.chance.randint(1, 9))
        details = DecisionDetails(
            expires_at=ends_at if transition == "ban" and self.chance.random() < 0.5 else None,
            password_choice=self.chance.choice([None, "keep", "link"]) if transition == "approve" else None,
        )
        app = self.world.app

        async def work() -> Any:
            by = await self.find_principal(member, TRANSITIONS[transition].permission)
            return await app.worker.run(app.decisions.decide, name, transition, by, details)

        end = self.oracle.begin_decision(name, transition, member)
        outcome, _result = await self.attempt(f"{member}: {transition} {name}", work())
        end(outcome)
        app.mail_queue.wake_all()

    async def decide_in_chat(self) -> None:
        """Let Olivia press a button in the team's channel, which the platform sends twice at times."""
        app, chance = self.world.app, self.chance
        shown = [row for row in TeamChatMessage.select().order_by(TeamChatMessage.id) if row.is_open and row.remote_id]
        if not shown:
            return
        row, receiver = chance.choice(shown), app.team_chat.discord._receiver
        name = row.username_key.capitalize()
        is_linked = app.worker.run(receiver.decisions.accounts.find_member, "discord", OLIVIAS.account_id)
        outcome: str
        outcome, member = await self.attempt("Olivia opens the chat", is_linked)
        if outcome == "done" and member is None:
            await self.attempt("Olivia links an account", app.worker.run(self._link_olivia, receiver))
        verb, event = chance.choice(["approve", "reject"]), str(chance.getrandbits(60))
        version = chance.choice([row.version, None])
        click = Click(self.world.chat.chat, OLIVIAS, verb, row.id, version, remote_id=row.remote_id)
        for _time in range(chance.choice([1, 1, 2])):
            user, ends = self.world.services.find_user(name), [self.oracle.begin_decision(name, verb, OLIVIA_IN_CHAT)]
            if asks := user is not None and user.asks_to_stay:  # no decision then, unless others decide meanwhile
                ends.append(self.begin_change(name, OLIVIA_IN_CHAT, Term()))
            work = receiver.run("discord", event, receiver.decisions.decide, click)
            told, _none = await self.attempt(f"{OLIVIA_IN_CHAT}: {verb} {name}", work)
            assert (outcome, told) != ("acted", "done"), "what a platform sends twice was done twice"
            for end in ends:
                end("unknown" if asks and told == "done" else told)
            outcome = "acted" if told == "done" else outcome

    def _link_olivia(self, receiver: ChatReceiver) -> None:
        accounts, olivia = receiver.decisions.accounts, self.world.services.find_user("Olivia")
        assert olivia is not None
        accounts.redeem(accounts.issue_code(olivia.id), "discord", OLIVIAS.account_id, OLIVIAS.name)

    async def set_password(self) -> None:
        """Let Olivia set somebody's password."""
        name, new, app = self.chance.choice(NAMES), self._new_password(), self.world.app

        async def work() -> Any:
            return await app.password_changes.set_by_admin(
                name, new, await self.find_principal("Olivia", Permission.USERS_MANAGE)
            )

        end = self.oracle.begin_password(name, new)
        end((await self.attempt(f"Olivia sets {name}'s password", work()))[0])

    async def give_role(self) -> None:
        """Let Olivia give Rita a role, or take it."""
        role, app = self.chance.choice(["moderator", None]), self.world.app

        async def work() -> Any:
            by = await self.find_principal("Olivia", Permission.TEAM_MANAGE)
            return await app.worker.run(app.team_roles.give, "Rita", role, by)

        end = self.oracle.begin_role(role)
        end((await self.attempt(f"Olivia: Rita is {role}", work()))[0])
