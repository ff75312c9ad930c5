"""Ownership of e-mail addresses: an address belongs to the user who verified it first.

Every function runs inside the caller's transaction.
"""

from typing import Final

from regsvc.core.email_address import EmailAddress
from regsvc.core.errors import EmailTaken
from regsvc.database.audit import Audit
from regsvc.database.models import REJECTED, User
from regsvc.database.prepared import PreparedQuery, slot


def find_owner(address: EmailAddress) -> User | None:
    """Return id and address of the user who has verified this address and is not rejected; None: it is free."""
    holder: User | None = _FIND_HOLDER.first(email_key=address.key)
    return holder if holder is not None and _is_owner(holder) else None


def claim(address: EmailAddress, audit: Audit, *, claimant_id: int | None = None) -> None:
    """Remove a verified address from a rejected user, or from one who never verified it. Raises `EmailTaken`.

    `claimant_id`: the user who claims it; None: a user not yet inserted.
    """
    holder: User | None = _FIND_HOLDER.first(email_key=address.key)
    if holder is None or holder.id == claimant_id:
        return
    if _is_owner(holder):
        raise EmailTaken
    User.update(email=None, email_key=None, is_email_verified=False).where(User.id == holder.id).execute()
    audit.record("user.email_changed", holder.username, holder.username, {"why": "proven by another"})


def _is_owner(holder: User) -> bool:
    return bool(holder.is_email_verified) and holder.status != REJECTED


_FIND_HOLDER: Final = PreparedQuery(
    User,
    lambda: User.select(User.id, User.username, User.email, User.is_email_verified, User.status).where(
        User.email_key == slot(User.email_key)
    ),
)
