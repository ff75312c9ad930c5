"""Tokens of applications: the private link with which applicants follow theirs, without a password.

A token is not stored (`regsvc.auth.derived_secrets`). It belongs to one row and its address, so it ends with the user,
and when the address changes. It opens nothing but the routes of its application.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from regsvc.auth.derived_secrets import DerivedSecrets, parse_row_id
from regsvc.core.clock import epoch_ms
from regsvc.database.models import User

APPLICATION_PATH: Final = "/application"


@dataclass(frozen=True)
class ApplicationTokens:
    """Derivation and verification of tokens; `find_users` runs on a worker thread."""

    secrets: DerivedSecrets

    def token_of(self, user: User) -> str:
        """Return the token of the user's application, derived anew each time."""
        return self.secrets.link_token(int(user.id), *_describe(user))

    def find_users(self, tokens: Collection[str]) -> dict[str, User]:
        """Return the users of the valid ones of these tokens, with one statement."""
        ids = {token: row_id for token in tokens if (row_id := parse_row_id(token)) is not None}
        if not ids:
            return {}
        users = {user.id: user for user in User.select().where(User.id.in_(sorted(set(ids.values()))))}
        found = ((token, users.get(row_id)) for token, row_id in ids.items())
        return {token: user for token, user in found if user is not None and self.is_token_of(user, token)}

    def is_token_of(self, user: User, token: str) -> bool:
        """Return whether this is the token of the user's application, in constant time."""
        return self.secrets.is_link_token(token, int(user.id), *_describe(user))


def application_address(base_url: str, token: str) -> str:
    """Return the address of the page that shows this application; the token is in its fragment."""
    return f"{base_url}{APPLICATION_PATH}#token={token}"


def _describe(user: User) -> tuple[str, str]:
    """Return the nonce and the purpose of the user's token. An address that nothing proves has no key."""
    return str(epoch_ms(user.created_at)), f"application of {user.email_key or user.email or ''}"
