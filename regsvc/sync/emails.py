"""E-mails that come from AuthMe's table: the game verifies none of them."""

from collections.abc import Mapping

from plugin_bridge.authme.lenient_sqlite import UNREADABLE
from regsvc.core.email_address import EmailAddress, parse_email
from regsvc.core.errors import Refusal
from regsvc.users.email_owners import Claimant, grant_unverified


def claim_unverified(wanted: Mapping[Claimant, str]) -> dict[Claimant, EmailAddress]:
    """Return the claimants who get the e-mail of their row, as an address: it is valid, and `grant_unverified`."""
    found = {claimant: address for claimant, raw in wanted.items() if (address := find_real_email(raw)) is not None}
    return grant_unverified(found)


def find_real_email(raw: str | None) -> EmailAddress | None:
    """Return the address in AuthMe's column, or None if it is empty or holds no valid address."""
    if raw is None or UNREADABLE in raw:
        return None
    try:
        return parse_email(raw)
    except Refusal:
        return None
