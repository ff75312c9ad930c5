"""E-mails that come from AuthMe's table: nobody has proven them, so they never take another user's place."""

from collections.abc import Mapping
from typing import TypeVar

from plugin_bridge.authme.lenient_sqlite import UNREADABLE
from regsvc.core.email_address import EmailAddress, parse_email
from regsvc.core.errors import Refusal
from regsvc.database.bulk import select_rows
from regsvc.database.models import User

Claimant = TypeVar("Claimant", int, str)


def claim_unverified(wanted: Mapping[Claimant, str]) -> dict[Claimant, EmailAddress]:
    """Return the claimants who get the e-mail they want, with its address; of two who want the same, the first.

    A claimant is a user's id, or the name of a player who has no user yet. An e-mail that is invalid or another user's
    is given to no claimant.
    """
    addresses = {claimant: address for claimant, raw in wanted.items() if (address := find_real_email(raw)) is not None}
    if not addresses:
        return {}
    keys = [address.key for address in addresses.values()]
    database = User._meta.database
    holder: dict[str, object] = dict(select_rows(database, User, [User.email_key, User.id], User.email_key, keys))
    granted = {}
    for claimant, address in addresses.items():
        if holder.setdefault(address.key, claimant) == claimant:
            granted[claimant] = address
    return granted


def find_real_email(raw: str | None) -> EmailAddress | None:
    """Return the address in AuthMe's column, or None if it is empty or holds no valid address."""
    if raw is None or UNREADABLE in raw:
        return None
    try:
        return parse_email(raw)
    except Refusal:
        return None
