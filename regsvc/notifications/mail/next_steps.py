"""Parts of mails that no row has: links to pages, the game's address, when a name is free, reasons in words."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from regsvc.auth.application_tokens import ApplicationTokens, application_address
from regsvc.database.models import Review, User

_PAGES: Final[Mapping[str, str]] = {
    "already_registered": "/account",
    "approved": "/server",
    "rejected": "/register",
    "banned": "/",
    "unbanned": "/server",
    "ban_ended": "/server",
    "ban_ended_unapproved": "/account",
    "deleted": "/",
    "email_changed": "/",
    "totp_enabled": "/account",
    "totp_disabled": "/account",
    "totp_reset": "/account",
    "account_deleted": "/",
    "digest": "/admin#queue",
    "mail_test": "/",
}
"""The page that each mail leads to. A mail with a code leads back to the page that asked for it, which is open."""


@dataclass(frozen=True)
class NextSteps:
    """Next steps of players and operators after reading a mail. `base_url` has no trailing slash."""

    base_url: str
    game_address: str | None
    """The address that players type into the game; None: the host has set none."""
    has_own_pages: bool
    """Whether the built-in pages exist; otherwise mails lead to the home page of the host's own front end."""
    application_tokens: ApplicationTokens
    find_reapply_at: Callable[[Review], datetime | None]
    """Return when the name of the rejected registration is free again; None if it already is."""
    word_reason: Callable[[str | None, str], str | None]
    """Return the reason of a decision in words of a language (`Translations.reason`)."""
    offered_language: Callable[[str], str]
    """Return the language to write in to a user with this one (`Translations.offered_for`)."""

    def find_link(self, mail: str) -> str | None:
        """Return the address of the page that this mail leads to, if any."""
        page = _PAGES.get(mail)
        if page is None:
            return None
        return self.base_url + (page if self.has_own_pages else "/")

    def make_application_link(self, user: User) -> tuple[str, str]:
        """Return the address of the page of the user's application, which exists on every host, and the token in it."""
        token = self.application_tokens.token_of(user)
        return application_address(self.base_url, token), token
