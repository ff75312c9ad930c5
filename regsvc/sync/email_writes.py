"""E-mails that go into AuthMe's table, whose charset may not have room for them (latin1, utf8mb3).

Who may play is not kept out by what the address looks like: the rest is written without it, and a conflict is told.
"""

from collections.abc import Mapping

from plugin_bridge.authme.players import PlayerRefused, PlayerRow, Players

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
