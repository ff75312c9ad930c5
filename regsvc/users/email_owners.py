"""Ownership of e-mail addresses: an address belongs to the user who verified it first.

Every function runs inside the caller's transaction.
"""

from regsvc.core.email_address import EmailAddress
from regsvc.core.errors import EmailTaken
from regsvc.database.audit import Audit
from regsvc.database.models import REJECTED, User


def find_owner(address: EmailAddress) -> User | None:
    """Return the user who has verified this address and is not rejected; None: the address is free."""
    owner: User | None = User.get_or_none(
        (User.email_key == address.key) & User.is_email_verified & (User.status != REJECTED)
    )
    return owner


def claim(address: EmailAddress, audit: Audit, *, claimant_id: int | None = None) -> None:
    """Remove a verified address from a rejected user, or from one who never verified it. Raises `EmailTaken`.

    `claimant_id`: the user who claims it; None: a user not yet inserted.
    """
    owner = find_owner(address)
    if owner is not None and owner.id != claimant_id:
        raise EmailTaken
    previous = User.get_or_none((User.email_key == address.key) & (User.id != (claimant_id or 0)))
    if previous is None:
        return
    User.update(email=None, email_key=None, is_email_verified=False).where(User.id == previous.id).execute()
    audit.record("user.email_changed", previous.username, previous.username, {"why": "proven by another"})
