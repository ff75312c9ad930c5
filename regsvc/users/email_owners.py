"""Ownership of e-mail addresses: an address belongs to the user who verified it first.

Every function runs inside the caller's transaction.
"""

from collections.abc import Mapping
from typing import TypeVar

from regsvc.core.email_address import EmailAddress
from regsvc.core.errors import EmailTaken
from regsvc.database.audit import Actor, Audit
from regsvc.database.bulk import select_rows
from regsvc.database.models import REJECTED, User

Claimant = TypeVar("Claimant", int, str)


def find_holder(email_key: str) -> User | None:
    """Return the user who has this address, verified or not, or None. As fast for None as for a user."""
    columns = (User.id, User.username, User.email, User.is_email_verified, User.status)
    holder: User | None = User.select(*columns).where(User.email_key == email_key).first()
    return holder


def find_owner(email_key: str) -> User | None:
    """Return the user who has verified this address and is not rejected; None: it is free."""
    holder = find_holder(email_key)
    return holder if holder is not None and _is_owner(holder) else None


def may_have(address: EmailAddress, *, is_verified: bool, claimant_id: int | None = None) -> bool:
    """Return whether this user, or one not yet inserted, may have the address, verified or not."""
    holder = find_holder(address.key)
    return holder is None or holder.id == claimant_id or (is_verified and not _is_owner(holder))


def claim(email_key: str, audit: Audit, *, claimant_id: int | None = None) -> None:
    """Remove a verified address from a rejected user, or from one who never verified it. Raises `EmailTaken`.

    `claimant_id`: the user who claims it; None: a user not yet inserted.
    """
    holder = find_holder(email_key)
    if holder is None or holder.id == claimant_id:
        return
    if _is_owner(holder):
        raise EmailTaken
    User.update(email=None, email_key=None, is_email_verified=False).where(User.id == holder.id).execute()
    audit.record("user.email_changed", Actor(holder.username), holder.username, {"why": "proven by another"})


def grant_unverified(wanted: Mapping[Claimant, EmailAddress]) -> dict[Claimant, EmailAddress]:
    """Return the claimants who may have the address that they want, unverified; of two who want the same, the first.

    A claimant is a user's id, or the name of a player who has no user yet. As in `may_have`, an address that another
    user has is granted to none of them.
    """
    if not wanted:
        return {}
    keys = [address.key for address in wanted.values()]
    rows = select_rows(User._meta.database, User, [User.email_key, User.id], User.email_key, keys)
    holder: dict[str, object] = dict(rows)
    return {
        claimant: address
        for claimant, address in wanted.items()
        if holder.setdefault(address.key, claimant) == claimant
    }


def _is_owner(holder: User) -> bool:
    return bool(holder.is_email_verified) and holder.status != REJECTED
