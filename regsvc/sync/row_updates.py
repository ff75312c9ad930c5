"""Updates of AuthMe's row that succeed without the e-mail where the table cannot hold it."""

from collections.abc import Mapping

from plugin_bridge.authme.players import PlayerRefused, PlayerRow, Players

Changes = Mapping[str, str | int | None]


def update_row(players: Players, seen: PlayerRow, changes: Changes) -> bool:
    """Update the row by compare-and-set; if the table refuses the e-mail, write the other fields without it.

    Returns False if the row is not as `seen`. Raises `PlayerRefused`.
    """
    try:
        return players.update(seen, changes)
    except PlayerRefused:
        if changes.get("email") is None:
            raise
        return players.update(seen, without_email(changes))


def is_email_refused(players: Players, key: str, changes: Changes) -> bool:
    """Return whether the row holds another e-mail than the one just written with `changes`."""
    email = changes.get("email")
    row = players.find(key) if email is not None else None
    return row is not None and row.email != email


def without_email(changes: Changes) -> dict[str, str | int | None]:
    """Return these changes without the e-mail."""
    return {name: value for name, value in changes.items() if name != "email"}
