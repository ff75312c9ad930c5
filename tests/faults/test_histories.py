"""The checker of histories of a cluster: it explains what may happen there, and sees what may not."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from tests.support.cluster.account_model import DONE, Operation, State, apply, has_effect, is_possible
from tests.support.cluster.history import Unexplained, find_order

LAG = 3.0
"""Of companions a and b; c always waits for its node."""


class Story:
    """Answers one after the other, a second apart."""

    def __init__(self) -> None:
        self.told: list[Operation] = []

    def at(self, companion: str, kind: str, answer: str | None = DONE, **fields: str) -> "Story":
        began = float(len(self.told))
        ended = math.inf if answer is None else began + 0.5
        self.told.append(Operation("client", companion, kind, began, ended, answer, **fields))
        return self

    def waits(self) -> "Story":
        """Nothing happens for longer than the lag."""
        return self.at("z", "wait").at("z", "wait").at("z", "wait").at("z", "wait")

    def order(self, audited: Counter[str] | None = None) -> list[str]:
        history = [it for it in self.told if it.kind != "wait"]
        return [it.kind for it in find_order(history, {"a": LAG, "b": LAG}, audited)]

    def cannot_be(self, audited: Counter[str] | None = None) -> None:
        with pytest.raises(Unexplained):
            self.order(audited)


def registered() -> Story:
    return Story().at("a", "register", given="111111", new="first")


def approved() -> Story:
    return registered().at("a", "approve")


def test_what_happened_one_after_the_other_is_explained() -> None:
    story = approved().at("a", "login", password="first", made="s1").at("b", "check", given="s1")
    story.at("a", "link", made="l1").at("b", "redeem", given="l1", new="second").at(
        "b", "check", "unauthorized", given="s1"
    )
    story.at("c", "login", "bad_credentials", password="first").at("c", "login", password="second", made="s2")
    story.at("b", "logout", given="s2").at("c", "ban").at("c", "login", "banned", password="second")
    assert story.at("c", "status", "banned").order() == [
        *("register", "approve", "login", "link", "redeem", "login", "logout", "ban")
    ]


def test_a_lost_write_is_seen() -> None:
    approved().at("c", "status", "pending").cannot_be()
    registered().waits().at("b", "status", "None").cannot_be()


def test_a_code_or_a_link_that_is_redeemed_twice_is_seen() -> None:
    registered().at("a", "reject").at("b", "register", given="111111", new="second").cannot_be()
    story = approved().at("a", "link", made="l1").at("a", "redeem", given="l1", new="second")
    story.at("b", "redeem", given="l1", new="third").cannot_be()


def test_an_earlier_link_that_opens_is_seen() -> None:
    story = approved().at("a", "link", made="l1").at("b", "link", made="l2")
    story.at("b", "redeem", given="l1", new="second").cannot_be()


def test_a_stale_look_after_an_own_write_is_seen() -> None:
    approved().at("a", "status", "pending").cannot_be()


def test_a_stale_look_elsewhere_is_none_within_the_lag_alone() -> None:
    assert approved().at("b", "ban", "user_not_found").at("b", "status", "pending").order() == ["register", "approve"]
    approved().waits().at("b", "status", "pending").cannot_be()


def test_a_node_that_goes_back_is_seen() -> None:
    approved().at("b", "status", "pending").at("b", "ban", "user_not_found").cannot_be()


def test_no_decision_is_by_an_earlier_status() -> None:
    approved().at("b", "reject").cannot_be()
    approved().at("b", "approve").cannot_be()
    approved().at("a", "ban").at("b", "login", password="first", made="s1").cannot_be()


def test_a_login_is_good_at_once_and_a_logout_after_a_while() -> None:
    login = approved().at("a", "login", password="first", made="s1")
    stale = replace(login.told[-1], companion="b", kind="check", started=3, ended=4, given="s1", made="")
    login.told.append(replace(stale, answer="unauthorized"))
    login.cannot_be()
    assert (
        approved()
        .at("a", "login", password="first", made="s1")
        .at("a", "logout", given="s1")
        .at("b", "check", given="s1")
        .order()
    )
    approved().at("a", "login", password="first", made="s1").at("a", "logout", given="s1").waits().at(
        "b", "check", given="s1"
    ).cannot_be()


def test_what_was_not_answered_happened_once_or_not() -> None:
    assert registered().at("a", "approve", None).at("c", "status", "pending").order() == ["register"]
    assert registered().at("a", "approve", None).at("c", "status", "approved").order() == ["register", "approve"]
    late = registered().at("a", "approve", None).at("c", "status", "pending").at("c", "status", "approved")
    assert late.order() == ["register", "approve"]
    late.at("c", "status", "pending").cannot_be()
    once = registered().at("a", "approve", None).at("c", "status", "approved").at("a", "reopen")
    once.at("c", "status", "approved").cannot_be()


def test_a_registration_is_answered_again_to_who_made_it() -> None:
    again = (
        Story().at("a", "register", None, given="111111", new="first").at("b", "register", given="111111", new="first")
    )
    assert again.order() == ["register"]
    again.order(Counter({"user.registered": 1}))
    again.cannot_be(Counter({"user.registered": 2}))
    registered().at("b", "register", given="111111", new="another").cannot_be()


def test_what_is_audited_once_too_often_or_not_at_all_is_seen() -> None:
    assert approved().order(Counter({"user.registered": 1, "user.approved": 1}))
    approved().cannot_be(Counter({"user.registered": 1}))
    approved().cannot_be(Counter({"user.registered": 1, "user.approved": 2}))


CHOICES = (
    "register",
    "approve",
    "reject",
    "ban",
    "unban",
    "reopen",
    "login",
    "check",
    "logout",
    "change",
    "link",
    "redeem",
)


def live(chance: Random, length: int) -> list[Operation]:
    """Return what clients at three companions are told while all is right; each asks a while before it is decided."""
    state, history, made = State(), list[Operation](), ["none"]
    for number in range(length):
        moment = number + chance.random()
        started, ended = moment - chance.random() * 3, moment + chance.random() * 3
        kind, given = chance.choice(CHOICES), chance.choice(made[-3:])
        it = Operation(
            "client", chance.choice("abc"), kind, started, ended, DONE, given, state.password, f"new{number}"
        )
        if kind == "register":
            it = replace(it, given=f"code{number}")
        if kind in ("login", "link"):
            it = replace(it, made=f"{kind}{number}")
        if is_possible(state, it):
            state = apply(state, it) if has_effect(it) else state
            is_lost = chance.random() < 0.1
            made += [it.made] if it.made and not is_lost else []
            history.append(replace(it, answer=None, ended=math.inf, made="") if is_lost else it)
        history.append(Operation("client", "c", "status", moment, moment, str(state.status)))
    return history


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_right_is_explained(seed: int) -> None:
    history = live(Random(seed), 60)
    find_order(history, {})
    find_order(history, {"a": LAG, "b": LAG})


@pytest.mark.parametrize("seed", range(20))
def test_an_effect_that_is_lost_or_doubled_is_seen(seed: int) -> None:
    chance = Random(seed)
    history = [it for it in live(chance, 60) if it.answer is not None]
    told: Sequence[Operation] = [it for it in history if it.kind in ("approve", "ban", "reject")]
    it = chance.choice(told)
    for wrong in ([one for one in history if one is not it], [*history, replace(it, ended=it.ended + 0.1)]):
        with pytest.raises(Unexplained):
            find_order(wrong, {})
