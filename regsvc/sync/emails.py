"""E-mails that come from AuthMe's table: is it one, and may this user have it?"""

from plugin_bridge.guest_file import UNREADABLE
from regsvc.email_address import EmailAddress, parse_email
from regsvc.models import User
from regsvc.refusal import Refusal


def is_email_free(address: EmailAddress, user_id: int | None) -> bool:
    """Whether no other user has this e-mail."""
    holder = User.select(User.id).where(User.email_key == address.key).first()
    return holder is None or holder.id == user_id


def find_real_email(raw: str | None) -> EmailAddress | None:
    """The address of AuthMe's column, or None where it holds none, or nothing that is one."""
    if raw is None or UNREADABLE in raw:
        return None
    try:
        return parse_email(raw)
    except Refusal:
        return None
