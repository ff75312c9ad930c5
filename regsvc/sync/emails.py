"""E-mails that come from AuthMe's table: is it one, and may this user have it?"""

from collections.abc import Mapping

from plugin_bridge.authme.lenient_sqlite import UNREADABLE
from plugin_bridge.authme.players import PlayerRefused, PlayerRow, Players
from regsvc.core.email_address import EmailAddress, parse_email
from regsvc.core.errors import Refusal
from regsvc.database.models import User


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


Changes = Mapping[str, str | int | None]


def update_row(players: Players, seen: PlayerRow, changes: Changes) -> bool:
    """`players.update`, once more without the e-mail where that is what the table does not take."""
    try:
        return players.update(seen, changes)
    except PlayerRefused:
        if changes.get("email") is None:
            raise
        return players.update(seen, without_email(changes))


def is_email_refused(players: Players, key: str, changes: Changes) -> bool:
    """Whether the table has another e-mail than the one that was just to be written."""
    email = changes.get("email")
    row = players.find(key) if email is not None else None
    return row is not None and row.email != email


def without_email(changes: Changes) -> dict[str, str | int | None]:
    """The same changes, with the e-mail left as it is."""
    return {name: value for name, value in changes.items() if name != "email"}
