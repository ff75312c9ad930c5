"""What the list of users offers is what the API does: every decision about every kind of user, offered or refused."""

from itertools import product

from regsvc.core.errors import WrongStatus
from regsvc.database.models import SyncRecord, User
from regsvc.users.transitions import TRANSITIONS
from tests.support.services import ServiceHarness

WHO_PLAYED = ("playing", "gone", "anew", "imported", "foreign")
KINDS = ("pending", "rejected", "banned", *WHO_PLAYED)


def names_of(*kinds: str) -> list[str]:
    return [f"{kind}_{transition}" for kind, transition in product(kinds, TRANSITIONS)]


def make_everybody(services: ServiceHarness) -> None:
    """One of each kind for each transition.

    Some were removed from the game, of whom some registered there anew, and some have no password that could be used.
    """
    for name in names_of("pending", "rejected", "banned"):
        services.register(name)
    for name in names_of(*WHO_PLAYED):
        services.approved(name)
    for name in names_of("rejected"):
        services.decide("reject", name)
    for name in names_of("banned"):
        services.decide("ban", name, reason="Loud")
    User.update(password_hash=None, password_algorithm=None).where(User.username.in_(names_of("imported"))).execute()
    User.update(password_algorithm="not_authmes").where(User.username.in_(names_of("foreign"))).execute()
    for name in names_of("gone", "anew", "imported", "foreign"):
        services.authme.unregister_from_console(name)
    services.sync(allow_mass_changes=True)
    unknown = names_of("imported", "foreign")
    SyncRecord.update(base_hash=None).where(SyncRecord.username_key.in_(unknown)).execute()
    for name in names_of("anew"):
        services.authme.register(name, "another-secret")
    services.sync(allow_mass_changes=True)


def test_what_is_offered_is_done_and_nothing_else(services: ServiceHarness) -> None:
    make_everybody(services)
    offered = {}
    for kind, transition in product(KINDS, TRANSITIONS):
        name = f"{kind}_{transition}"
        entry = services.app.users.find_user(name)
        assert entry is not None
        offered[kind] = set(entry.decisions)
        try:
            services.decide(transition, name, reason="Louder", password_choice="keep" if kind == "anew" else None)
        except WrongStatus:
            assert transition not in entry.decisions, name
        else:
            is_ban_changed = (kind, transition) == ("banned", "ban")
            assert (transition in entry.decisions) != is_ban_changed, name
    assert {kind for kind in KINDS if "approve" in offered[kind]} == {"pending", "rejected", "gone", "anew"}
