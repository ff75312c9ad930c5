"""What operations about one name do to its account, and which answers a state explains: none of the product's code."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

DONE: Final = "done"
LOOKS: Final = frozenset({"status", "password"})
"""Their answer is what was seen; that of all others is `DONE` or the code of a refusal."""
SOURCES: Final[Mapping[str, Sequence[str | None]]] = {
    "approve": ("pending", "rejected"),
    "reject": ("pending",),
    "ban": ("pending", "approved", "rejected"),
    "unban": ("banned",),
    "reopen": ("approved", "rejected"),
}
TARGETS: Final = {
    "approve": "approved",
    "reject": "rejected",
    "ban": "banned",
    "unban": "approved",
    "reopen": "pending",
}
AUDITED: Final = {
    "register": "user.registered",
    "approve": "user.approved",
    "reject": "user.rejected",
    "ban": "user.banned",
    "unban": "user.unbanned",
    "reopen": "user.reopened",
    "change": "user.password_changed",
    "redeem": "user.password_changed",
    "link": "user.password_link_created",
}
"""The audit entry that each effect leaves, by operation; logins are counted together."""


@dataclass(frozen=True)
class Operation:
    """A request about the name, and its answer; None: there was none, and it may have happened at any time.

    `given`: the code, session or link that was sent; `password` the current one, `new` the one to be set; `made`: the
    session or link that came with the answer.
    """

    client: str
    companion: str
    kind: str
    started: float
    ended: float = math.inf
    answer: str | None = None
    given: str = ""
    password: str = ""
    new: str = ""
    made: str = ""

    def __str__(self) -> str:
        sent = ", ".join(filter(None, (self.given, self.password, self.new)))
        told = f"{self.answer} {self.made}".strip()
        return f"{self.started:.3f} to {self.ended:.3f} {self.client}: {self.kind}({sent}) -> {told}"


class State(NamedTuple):
    """The account of the name. `spent`: codes, with the password of the registration that each was spent on.

    `left`: sessions that were logged out, and would not have ended otherwise.
    `has_row`: whether the player has ever had a row in AuthMe's table, whose name then is nobody else's.
    """

    status: str | None = None
    password: str = ""
    spent: frozenset[tuple[str, str]] = frozenset()
    sessions: frozenset[str] = frozenset()
    left: frozenset[str] = frozenset()
    links: frozenset[str] = frozenset()
    has_row: bool = False

    @property
    def is_free(self) -> bool:
        return self.status is None or (self.status == "rejected" and not self.has_row)


def has_effect(operation: Operation) -> bool:
    """Return whether this may have changed anything: a session that nobody was told of is as good as none."""
    if operation.answer is None:
        return operation.kind in AUDITED or operation.kind == "logout"
    return operation.answer == DONE and operation.kind not in (*LOOKS, "check")


def is_possible(state: State, it: Operation) -> bool:
    """Return whether this operation succeeds in this state."""
    match it.kind:
        case "register":
            return state.is_free and it.given not in dict(state.spent)
        case "login":
            return state.status not in (None, "banned") and state.password == it.password
        case "check" | "logout":
            return it.given in state.sessions
        case "change":
            return it.given in state.sessions | state.left and state.password == it.password
        case "link":
            return state.status is not None
        case "redeem":
            return it.given in state.links
        case decision:
            return state.status in SOURCES[decision]


def explains(state: State, it: Operation) -> bool:
    """Return whether this state explains an answer without an effect."""
    match it.kind, it.answer:
        case "status", status:
            return str(state.status) == status
        case "password", password:
            return state.password == password
        case "register", "done":  # again, since the first reply was lost
            return (it.given, it.new) in state.spent and state.status in ("pending", "approved")
        case "register", "invalid_code":
            return it.given in dict(state.spent)
        case "register", "username_taken" | "email_taken":
            return not state.is_free
        case "login", "bad_credentials":
            return state.status is None or state.password != it.password
        case "login", "banned":
            return state.status == "banned" and state.password == it.password
        case "check", "done":
            return it.given in state.sessions
        case (("check" | "logout" | "change"), "unauthorized"):
            return it.given not in state.sessions
        case "change", "wrong_password":
            return state.password != it.password
        case "redeem", "invalid_token":
            return it.given not in state.links
        case _, "user_not_found":
            return state.status is None
        case decision, "wrong_status":
            return state.status is not None and state.status not in SOURCES[decision]
    return False


def apply(state: State, it: Operation) -> State:
    """Return the state that this operation leaves where it succeeds."""
    match it.kind:
        case "register":
            return State("pending", it.new, state.spent | {(it.given, it.new)})
        case "login":
            return state._replace(sessions=state.sessions | {it.made})
        case "logout":
            return state._replace(sessions=state.sessions - {it.given}, left=state.left | {it.given} & state.sessions)
        case "change" | "redeem":
            return state._replace(password=it.new, sessions=frozenset(), left=frozenset(), links=frozenset())
        case "link":
            return state._replace(links=frozenset({it.made}))
        case decision:
            if decision == "ban" or (decision == "reopen" and state.status == "approved"):
                state = state._replace(sessions=frozenset(), left=frozenset())
            target = TARGETS[decision]
            return state._replace(status=target, has_row=state.has_row or target == "approved")
