"""Histories of answers about one name, and whether any order of what happened explains them all.

What companions beside the nodes of one cluster promise (docs/several-daemons.md), by which histories are checked:

* All effects have one order. What was acknowledged is in it once, before all that began later at any companion; what
  was not answered is in it once, at any time after it began, or never.
* An effect is decided by what came before it, wherever its request arrived: one code makes one user, one link sets one
  password, of two decisions the second meets the status that the first has left.
* What changes nothing (a look, a refusal, the check of a session) may show an earlier state of that order, as its node
  has it. It shows at least what the same companion has acknowledged before, the login that began its session, and what
  was acknowledged anywhere `lag` seconds before. With `database.causal_reads = "always"` the lag is 0.

The search is that of Wing and Gong (1993) with the memory of Lowe (2017): of the operations that may be next, those
that change nothing are taken at once if a state explains them; those with an effect are tried one after the other.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.support.cluster.account_model import AUDITED, Operation, State, apply, explains, has_effect, is_possible


class Unexplained(AssertionError):
    """No order explains the history."""


@dataclass(frozen=True)
class _Node:
    """How far a search is: the effects in order with all states, and the state that each operation taken has shown."""

    order: tuple[int, ...] = ()
    states: tuple[State, ...] = (State(),)
    shown: Mapping[int, int] = field(default_factory=dict)


class _Search:
    def __init__(self, history: Sequence[Operation], lag: Mapping[str, float], audited: Counter[str] | None) -> None:
        self._history = sorted(history, key=lambda it: it.started)
        self._lag = lag
        self._audited = audited
        self._answered = {number for number, it in enumerate(self._history) if it.answer is not None}
        self._before = [self._list_before(it) for it in self._history]

    def _list_before(self, by: Operation) -> list[int]:
        """Return the operations of which this one shows at least the state that they have shown or left."""

        def is_before(it: Operation) -> bool:
            is_own = it.companion == by.companion and it.ended < by.started
            is_login = it.kind == "login" and it.made == by.given != ""
            is_old = has_effect(it) and it.ended < by.started - self._lag.get(by.companion, 0.0)
            return is_own or is_login or is_old

        return [number for number, it in enumerate(self._history) if is_before(it)]

    def run(self) -> list[Operation]:
        deepest, known, stack = _Node(), set(), [_Node()]
        while stack:
            node = self._take_explained(stack.pop())
            if len(node.shown) > len(deepest.shown):
                deepest = node
            if self._is_complete(node):
                return [self._history[number] for number in node.order]
            key = self._key(node)
            if key not in known:
                known.add(key)
                fitting = [number for number in self._list_next(node) if self._fits(node, number)]
                fitting.sort(key=lambda number: -self._history[number].ended)  # the last one is tried first
                stack += [self._with_effect(node, number) for number in fitting]
        raise Unexplained(self._describe(deepest))

    def _is_complete(self, node: _Node) -> bool:
        if not self._answered <= node.shown.keys():
            return False
        left = Counter(AUDITED[it.kind] for it in map(self._history.__getitem__, node.order) if it.kind in AUDITED)
        return self._audited is None or left == self._audited

    def _list_next(self, node: _Node) -> list[int]:
        """Return what began before anything ended that is not taken yet."""
        left = [number for number in range(len(self._history)) if number not in node.shown]
        first_end = min((self._history[number].ended for number in left), default=math.inf)
        return [number for number in left if self._history[number].started <= first_end]

    def _take_explained(self, node: _Node) -> _Node:
        """Take what a state explains as it is, by the earliest such state: nothing later could make that wrong."""
        while True:
            shown = dict(node.shown)
            for number in self._list_next(node):
                it, floor = self._history[number], self._floor(node, number)
                states = enumerate(node.states[floor:], floor) if it.answer is not None else ()
                found = next((at for at, state in states if explains(state, it)), None)
                if found is not None:
                    shown[number] = found
            if len(shown) == len(node.shown):
                return node
            node = _Node(node.order, node.states, shown)

    def _fits(self, node: _Node, number: int) -> bool:
        """Return whether this effect may be the next.

        A session lets a request in by a state before: a logout has then done what it says, whatever has happened since,
        and a change does not care for logouts since.
        """
        it = self._history[number]
        if it.kind in ("logout", "change"):
            since = self._find_shown(node, number)
            if not any(it.given in state.sessions for state in node.states[since:]):
                return False
        return has_effect(it) and (it.kind == "logout" or is_possible(node.states[-1], it))

    def _floor(self, node: _Node, number: int) -> int:
        """Return the earliest state that may explain this operation, by its position; without a lag it is the last."""
        has_lag = self._lag.get(self._history[number].companion)
        return self._find_shown(node, number) if has_lag else len(node.order)

    def _find_shown(self, node: _Node, number: int) -> int:
        """Return the latest state that was shown before this operation began, by its position."""
        return max((node.shown[it] for it in self._before[number] if it in node.shown), default=0)

    def _with_effect(self, node: _Node, number: int) -> _Node:
        state = apply(node.states[-1], self._history[number])
        shown = {**node.shown, number: len(node.states)}
        return _Node((*node.order, number), (*node.states, state), shown)

    def _key(self, node: _Node) -> object:
        """Return all of the node that what is left depends on."""
        floors = [self._find_shown(node, number) for number in sorted(self._answered - node.shown.keys())]
        least = min(floors, default=len(node.order))
        return frozenset(node.shown), node.states[least:], tuple(floor - least for floor in floors)

    def _describe(self, deepest: _Node) -> str:
        lines = ["the longest order that explains its answers:", *(f"  {self._history[n]}" for n in deepest.order)]
        lines += [f"  {deepest.states[-1]}", "and then none of these:"]
        lines += [f"  {self._history[n]}" for n in self._list_next(deepest)]
        return "\n".join([*lines, f"audited: {dict(self._audited)}" if self._audited is not None else ""])


def find_order(
    history: Sequence[Operation], lag: Mapping[str, float], audited: Counter[str] | None = None
) -> list[Operation]:
    """Return an order of effects that explains the answers about one name. Raises `Unexplained`.

    `lag`: seconds, by companion; 0 for those that it lacks. `audited`: the audit entries that there are in the end.
    """
    return _Search(history, lag, audited).run()
