"""Mallory registers Alice's name in the game at every moment of Alice's story: her password never opens anything."""

from contextlib import AbstractContextManager, nullcontext
from typing import Final

import pytest

from regsvc.auth.rate_limits import LoginLimits
from regsvc.core import errors
from regsvc.database.models import PENDING
from tests.support.services import PASSWORD, Away, MakeServices, ServiceHarness

STORY: Final = (
    "register",
    "approve",
    "unregister in the game",
    "approve",
    "unregister in the game",
    "set a password",
    "ban",
    "unregister in the game",
    "unban",
    "unregister in the game",
    "ban",
    "unregister in the game",
    "set a password",
    "unban",
    "ban with SQL",
    "unregister in the game",
    "unban with SQL",
    "delete",
)
"""A sync run follows each of them."""
BUSY_MOMENTS: Final = (1, 8)
"""Few, as each step waits for the file: while an approval or an unban is not in the row yet."""
MALLORYS: Final = "mallorys-secret"


def act(services: ServiceHarness, name: str, step: str, number: int) -> str | None:
    """Carry out a step of the story; return the owner's new password if it sets one."""
    if step == "register":
        services.register(name)
        return PASSWORD
    if step == "unregister in the game":
        services.authme.unregister_from_console(name)
    elif step == "set a password":
        services.set_password(name, f"the-password-{number}")
        return f"the-password-{number}"
    elif step.endswith("SQL"):
        status = "banned" if step.startswith("ban") else "approved"
        services.ours.execute("UPDATE regsvc_user SET status = ? WHERE username_key = ?", (status, name.lower()))
    else:
        decide(services, step, name)
    return None


def decide(services: ServiceHarness, transition: str, name: str) -> None:
    """Decide as Olivia, who knows that Alice registers nothing in the game: her password is to stay."""
    services.decide(transition, name, password_choice="keep" if transition == "approve" else None)


def gets_in(services: ServiceHarness, name: str, password: str) -> bool:
    """Return whether the password opens the game or the web."""
    try:
        services.login(name, password)
    except errors.BadCredentials:
        return services.authme.login(name, password)
    return True


def while_busy(services: ServiceHarness, step: str) -> AbstractContextManager[None]:
    """Keep AuthMe's SQLite file busy during a step of ours; a registration would be refused then."""
    is_ours = step not in ("register", "unregister in the game")
    return Away(services.table) if is_ours and services.table.database.kind == "sqlite" else nullcontext()


@pytest.mark.parametrize(
    ("database_kind", "is_busy"),
    [("mariadb", False), ("sqlite", False), ("sqlite", True)],
    ids=["mariadb", "sqlite", "sqlite while AuthMe's file is busy"],
)
@pytest.mark.parametrize("is_before_sync", [True, False], ids=["before the sync", "after the sync"])
def test_mallory_gets_in_at_no_moment(
    make_services: MakeServices, monkeypatch: pytest.MonkeyPatch, is_before_sync: bool, is_busy: bool
) -> None:
    """For each moment there is a name, all of which have the same story but for Mallory's moment."""
    monkeypatch.setattr(LoginLimits, "start_attempt", lambda *given, **named: None)  # she guesses without delay
    services = make_services(sync__max_changes="1000 and 100%", database__busy_timeout="100 ms")
    services.authme.register("Zoe", "zoes-secret")  # without her the table would be suddenly empty
    moments = BUSY_MOMENTS if is_busy else range(len(STORY))
    names = {moment: f"Alice{moment:02}" for moment in moments}
    passwords: dict[str, str] = {}
    for number, step in enumerate(STORY):
        services.clock.advance(seconds=10)
        with while_busy(services, step) if is_busy else nullcontext():
            for name in names.values():
                passwords[name] = act(services, name, step, number) or passwords[name]
        services.clock.advance(seconds=10)
        if not is_before_sync:
            services.sync()
        if number in names and services.authme.register(names[number], MALLORYS):
            services.authme.set_totp(names[number], "MALLORYSAPP")
        services.clock.advance(seconds=10)
        services.sync()
        if step == "delete" and number in names:  # the name is free, and Mallory's request for it waits for a review
            assert not services.authme.login(names[number], MALLORYS)
            user = services.find_user(names[number])
            assert user is None or user.status == PENDING
            del names[number]
        known = [name for moment, name in names.items() if moment <= number]
        assert [name for name in known if gets_in(services, name, MALLORYS)] == [], step
        if step.startswith("unban"):
            for name in names.values():
                if services.plugin(name) in ("returned", "absent"):
                    decide(services, "approve", name)
            assert [name for name in names.values() if not gets_in(services, name, passwords[name])] == [], step
