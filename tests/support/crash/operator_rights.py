"""Oracle for the rights of operators: what Olivia made by her right lives as long as the game has her for one.

`check` after every operation, as the daemon's job looks every two seconds; `look` between the steps of the game.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from peewee import ModelSelect

from regsvc.auth.entitlement import Origin, Principal
from regsvc.core.addresses import VerifiedSession
from regsvc.core.errors import ProtectedOperator, Refusal
from regsvc.core.rights import Permission, Team
from regsvc.database.audit import Actor
from regsvc.database.models import Invitation, Link, Session, Token, User
from regsvc.users.transitions import DecisionDetails
from tests.support.authme.bukkit_server import BukkitServer
from tests.support.authme.limbo_notes import find_left_notes
from tests.support.services import CALLER, ServiceHarness

OPERATORS: Final = ("Olivia", "Paul")
"""An approved one, and one who waits for review."""
GUEST: Final = "Guest"
KURT: Final = Principal(
    Actor("Kurt"), Team(lambda name: 0).rights_of(User(username="Kurt", status="approved", role="moderator")), "Kurt"
)
FRESH: Final = timedelta(minutes=20)  # so long nothing of it expires
SURELY_SETTLED: Final = timedelta(seconds=2 * 30 + 5 + 1)  # AuthMe's time-out, twice, and a margin


@dataclass(frozen=True)
class Made:
    """What Olivia has made by her right: a session, a token for a bot, an invitation, and a link for a password."""

    session: str
    token: str
    invitation: str
    link: str
    rows: tuple[str, int, int, int]
    at: datetime

    def list_alive(self) -> set[str]:
        """Return what has not ended for good."""
        jti, token, invitation, link = self.rows
        found: dict[str, ModelSelect[Any]] = {
            "session": Session.select().where(Session.jti == jti),
            "token": Token.select().where(Token.id == token, Token.active_name.is_null(False)),
            "invitation": Invitation.select().where(Invitation.id == invitation, Invitation.revoked_at.is_null()),
            "link": Link.select().where(Link.id == link, Link.redeemed_at.is_null()),
        }
        return {kind for kind, query in found.items() if query.exists()}


ALL: Final = {"session", "token", "invitation", "link"}


class OperatorRights:
    """`bukkit` is the truth. An operator is in ops.json, or AuthMe gives their op back.

    A prompt or a note gives nothing that was there already when the name left ops.json: that is a `/deop`, and what
    AuthMe gives back by it later is another right.
    """

    def __init__(self, services: ServiceHarness, bukkit: BukkitServer, end_lost: Callable[[], None]) -> None:
        """`end_lost` ends what is to end, as the daemon's job does."""
        self._services = services
        self._bukkit = bukkit
        self._end_lost = end_lost
        self._has_right = dict.fromkeys(OPERATORS, True)
        self._when_listed = dict.fromkeys(OPERATORS, (0, 0))
        self._lost_at: dict[str, datetime] = {}
        self._was_unlocked = True
        self._written = 0
        self._made: Made | None = None
        self._ended: set[str] = set()
        self._number = 0
        services.register(GUEST, None)
        self.follow_clock()
        self.make()

    def follow_clock(self) -> None:
        """Let the monotonic clock of a new process follow the manual one; it measures anew how long a name is away."""
        clock = self._services.clock
        self._services.app.context.operators._monotonic = lambda: clock().timestamp()
        self._lost_at = dict.fromkeys(self._lost_at, clock())

    def make(self) -> None:
        """Let Olivia make one of everything."""
        self._number += 1
        app, by, maker = self._services.app, Actor("Olivia"), "olivia"

        def make() -> Made:
            issued = app.sessions.issue(self._services.user("Olivia"), "admin", CALLER)
            token, _record = app.api_tokens.create(f"bot-{self._number}", {Permission.USERS_READ}, by, maker, None)
            link, invited = app.invitations.create(1, timedelta(days=1), (), by, maker)
            handed = app.links.issue_for_handover(
                self._services.user(GUEST).id, "Olivia", Origin("olivia", self._services.clock()), None
            )
            session = app.sessions.authenticate(issued.token)
            newest = Token.select(Token.id).order_by(Token.id.desc()).first()
            rows = (session.jti, int(newest.id), invited.id, int(handed.id))
            tokens = (issued.token, token, link.partition("invite=")[2], app.links.token_of(handed))
            return Made(*tokens, rows, self._services.clock())

        self._made, self._ended = app.worker.run_here(make), set()

    def look(self) -> None:
        """Look as the daemon's job does, in the middle of an operation: no right is lost by a moment."""
        self._end_lost()
        if self._made is not None and self._has_right["Olivia"] and not self._ended:
            assert self._alive() == ALL, "ended in the middle"

    def check(self) -> None:
        """Assert that nobody has lost what they should have, nor has what they should not."""
        had = dict(self._has_right)
        for name in OPERATORS:
            self._learn(name)
        self._written = self._bukkit.game.ops_file.stat().st_mtime_ns
        self._end_lost()
        self._check_olivia()
        self._check_paul(had["Paul"])
        if self._is_listed("Olivia") and self._ended:
            self.make()

    def _learn(self, name: str) -> None:
        """Take over from the game who is an operator."""
        listed, written = self._is_listed(name), self._bukkit.game.ops_file.stat().st_mtime_ns
        if name in self._lost_at and written != self._written:  # the name may have come and gone
            self._lost_at[name] = self._services.clock()
        if listed is None:  # half-written: the last list counts
            return
        if listed:
            self._when_listed[name] = self._count(name)
        is_held, is_left = self._is_held(name), self._is_left(name)
        had, self._has_right[name] = self._has_right[name], listed or (self._has_right[name] and is_held)
        if listed or is_held or is_left:
            self._lost_at.pop(name, None)
        elif had:
            self._lost_at[name] = self._services.clock()

    def _count(self, name: str) -> tuple[int, int]:
        return self._bukkit.prompts[name.lower()], self._bukkit.saved_notes[name.lower()]

    def _is_held(self, name: str) -> bool:
        """Return whether AuthMe gives op back, by a prompt or a note that is newer than ops.json's entry."""
        is_prompt_new = self._count(name)[0] != self._when_listed[name][0]
        return (is_prompt_new and self._bukkit.holds_op(name)) or self._has_new_note(name)

    def _has_new_note(self, name: str) -> bool:
        note = self._bukkit.find_note(name)
        return self._count(name)[1] != self._when_listed[name][1] and note is not None and bool(note["operator"])

    def _is_left(self, name: str) -> bool:
        """Return whether a note says so that counts once the host sets back `limbo.persistence.type`: anything goes."""
        left = find_left_notes(self._bukkit.game.authme_directory / "playerdata", self._bukkit.uuid_of(name))
        is_newer = self._count(name)[1] != self._when_listed[name][1]
        return is_newer and any(note["operator"] for note in left)

    def _is_listed(self, name: str) -> bool | None:
        try:
            entries = json.loads(self._bukkit.game.ops_file.read_text(encoding="utf-8"))
        except ValueError:
            return None
        return any(entry["name"] == name for entry in entries)

    def _check_olivia(self) -> None:
        assert self._made is not None
        if self._services.clock() - self._made.at > FRESH:
            self._ended = ALL
        alive, lost_at = self._alive() - self._ended, self._lost_at.get("Olivia")
        if self._has_right["Olivia"]:
            assert alive == ALL - self._ended, f"Olivia is an operator, and only {sorted(alive)} are left"
            assert self._is_protected(), "Kurt banned Olivia, an operator"
            if not self._ended and (self._is_listed("Olivia") or self._has_new_note("Olivia")):
                assert self._usable() == ALL, "Olivia is an operator, and is refused"
        elif lost_at is not None:
            assert self._usable() == set(), "used without the right"
            if self._services.clock() - lost_at > SURELY_SETTLED:
                assert alive == set(), f"Olivia is no operator any more, and still has {sorted(alive)}"
                assert self._services.audits("user.rights_ended", "Olivia"), "what ended is not in the audit log"
        self._ended = ALL - alive

    def _check_paul(self, had_right: bool) -> None:
        row = self._services.authme.find("Paul")
        is_unlocked = row is not None and not str(row["password"]).startswith("!locked!")
        if row is not None and self._was_unlocked and had_right and self._has_right["Paul"]:
            assert is_unlocked, "Paul is an operator, and his row was locked"
        self._was_unlocked = is_unlocked

    def _alive(self) -> set[str]:
        assert self._made is not None
        return self._services.app.worker.run_here(self._made.list_alive)

    def _usable(self) -> set[str]:
        """Return what works at this moment."""
        made, app = self._made, self._services.app
        assert made is not None

        def use_token(bearer: str) -> VerifiedSession:
            return app.api_tokens.authenticate(bearer, CALLER, Permission.USERS_READ)

        uses = {
            "session": lambda: app.sessions.authenticate_admin(made.session, CALLER),
            "token": lambda: use_token(made.token),
            "invitation": lambda: app.invitations.find(made.invitation),
            "link": lambda: app.links.find(made.link),
        }
        usable = set()
        for kind, use in uses.items():
            try:
                if app.worker.run_here(use) is not None:
                    usable.add(kind)
            except Refusal:
                continue
        return usable

    def _is_protected(self) -> bool:
        decisions = self._services.app.decisions
        try:
            self._services.app.worker.run_here(decisions.decide, "Olivia", "ban", KURT, DecisionDetails())
        except ProtectedOperator:
            return True
        return False
