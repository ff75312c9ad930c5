"""Checks of e-mails that come from AuthMe's table."""

from plugin_bridge.authme.lenient_sqlite import UNREADABLE
from regsvc.core.email_address import EmailAddress, parse_email
from regsvc.core.errors import Refusal
from regsvc.database.models import User


def is_email_free(address: EmailAddress, user_id: int | None) -> bool:
    """Return whether no other user has this e-mail."""
    holder = User.select(User.id).where(User.email_key == address.key).first()
    return holder is None or holder.id == user_id


def find_real_email(raw: str | None) -> EmailAddress | None:
    """Return the address in AuthMe's column, or None if it is empty or holds no valid address."""
    if raw is None or UNREADABLE in raw:
        return None
    try:
        return parse_email(raw)
    except Refusal:
        return None
