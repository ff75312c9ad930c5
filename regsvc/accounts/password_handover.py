"""Links that set a password, for an operator to hand over: for users who cannot be mailed one."""

from dataclasses import dataclass
from datetime import datetime

from peewee import Database

from regsvc.accounts.access import Principal
from regsvc.accounts.password_store import PasswordStore
from regsvc.auth.password_links import PasswordLinks, link_address
from regsvc.database.audit import Audit
from regsvc.database.models import User


@dataclass(frozen=True)
class HandedOverLink:
    """A link that sets this user's password once; only the operator who made it has seen it."""

    username: str
    status: str
    expires_at: datetime
    link: str


@dataclass(frozen=True)
class PasswordHandover:
    """Creation of links for operators. Blocking: for a worker thread. `base_url` has no trailing slash."""

    database: Database
    store: PasswordStore
    links: PasswordLinks
    audit: Audit
    base_url: str

    def create_link(self, username: str, by: Principal) -> HandedOverLink:
        """Create a link; the user's earlier one of this kind ends. Raises `UserNotFound` and `ProtectedOperator`."""
        owner = self.store.get_owner(username, by)
        with self.database.atomic():
            user = User.get_by_id(owner.user_id)
            link = self.links.issue_for_handover(user.id)
            self.audit.record("user.password_link_created", by.actor.name, user.username, ip=by.actor.ip)
        address = link_address(self.base_url, self.links.token_of(link))
        return HandedOverLink(user.username, user.status, link.expires_at, address)
