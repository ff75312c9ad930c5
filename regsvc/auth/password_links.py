"""Links that set a password, mailed or handed over, for users who forgot theirs or never had one.

The link carries a token in its fragment (after `#`); the token is not stored (`regsvc.auth.derived_secrets`).
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final, Literal

from regsvc.auth.derived_secrets import DerivedSecrets, new_nonce, parse_row_id
from regsvc.auth.sessions import Ended, find_rights, group_ended
from regsvc.core.clock import Clock
from regsvc.core.errors import ResetTokenInvalid
from regsvc.core.rights import Permission, Team
from regsvc.core.text import name_key
from regsvc.database.bulk import redate
from regsvc.database.models import Link, User

LinkPurpose = Literal["reset", "first_password"]

LIFETIMES: Final[dict[str, timedelta]] = {
    "reset": timedelta(minutes=30),
    "first_password": timedelta(days=7),
}
HANDOVER_LIFETIME: Final = timedelta(hours=1)
"""Lifetime of a link that an operator hands over."""

_NOT_MAILED: Final = ""  # in place of the address

SET_PASSWORD_PATH: Final = "/set-password"  # noqa: S105 - a path
FORGOT_PASSWORD_PATH: Final = "/forgot-password"  # noqa: S105 - a path


class PasswordLinks:
    """Password links, from issue to redemption; every method runs inside the caller's transaction."""

    def __init__(self, secrets: DerivedSecrets, now: Clock, team: Team) -> None:
        self._secrets = secrets
        self._now = now
        self._team = team

    def issue(self, user_id: int, purpose: LinkPurpose, email_key: str) -> Link:
        """Create a link for the reader of this address; it expires after its purpose's lifetime.

        Revokes the user's earlier link of this kind. Others stay: anyone can request a reset, and that must not
        invalidate the link for the first password, or one that was handed over.
        """
        return self._issue(user_id, purpose, email_key, LIFETIMES[purpose])

    def issue_for_handover(self, user_id: int, operator: str | None, maker: str, ends_at: datetime | None) -> Link:
        """Create a link to hand over; it proves no address. Revokes the user's earlier one.

        It is void once this operator is none any more. None: the host, on the command line. `maker`: who makes it, as
        the audit log shows them; `ends_at`: the end of the API token with which it is made, which it does not outlive.
        """
        issued_by = None if operator is None else name_key(operator)
        lifetime = HANDOVER_LIFETIME if ends_at is None else min(HANDOVER_LIFETIME, ends_at - self._now())
        return self._issue(user_id, "reset", _NOT_MAILED, lifetime, issued_by=issued_by, maker=maker)

    def _issue(
        self, user_id: int, purpose: LinkPurpose, email_key: str, lifetime: timedelta, **made_by: str | None
    ) -> Link:
        moment = self._now()
        is_mailed = Link.email_key != _NOT_MAILED
        is_same_kind = (Link.purpose == purpose) & (is_mailed if email_key else ~is_mailed)
        self._revoke((Link.user == user_id) & is_same_kind)
        return Link.create(
            user=user_id,
            purpose=purpose,
            email_key=email_key,
            nonce=new_nonce(),
            created_at=moment,
            expires_at=moment + lifetime,
            **made_by,
        )

    def find_by_id(self, row_id: int) -> Link | None:
        """Return the link if it can still be used.

        None when it is used, expired, deleted with its user, mailed to an address the user no longer has, or made
        by an operator who is none any more.
        """
        columns = (User.id, User.username, User.username_key, User.email_key)
        link: Link | None = Link.select(Link, *columns).join(User).where(Link.id == row_id).first()
        return link if link is not None and self._is_active(link) else None

    def find(self, token: str) -> Link | None:
        """Return the link of this token; None when it is not ours, used or expired. Does not redeem it."""
        row_id = parse_row_id(token)
        link = None if row_id is None else self.find_by_id(row_id)
        if link is None or not self._secrets.is_link_token(token, link.id, link.nonce, link.purpose):
            return None
        return link

    def redeem(self, token: str) -> Link:
        """Redeem the link and revoke the user's others. Raises `ResetTokenInvalid`, also for the loser of a race."""
        link = self.find(token)
        if link is None or self._revoke(Link.id == link.id) == 0:
            raise ResetTokenInvalid
        self._revoke(Link.user == link.user.id)
        return link

    def revoke_all(self, user_id: int) -> None:
        """Revoke all links of a user who has a new password: none mailed before may set another."""
        self._revoke(Link.user == user_id)

    def token_of(self, link: Link) -> str:
        """Return the link's token, derived anew each time."""
        return self._secrets.link_token(int(link.id), link.nonce, link.purpose)

    def purge_expired(self) -> int:
        """Delete expired links; returns their number."""
        redate(self._now(), Link.created_at, Link.expires_at)
        return int(Link.delete().where(Link.expires_at < self._now()).execute())

    def _is_active(self, link: Link) -> bool:
        is_its_users = link.email_key in (_NOT_MAILED, link.user.email_key)
        is_open = link.redeemed_at is None and bool(link.expires_at > self._now())
        return is_its_users and is_open and self._is_entitled(link)

    def _is_entitled(self, link: Link, *, is_kept: bool = False) -> bool:
        """Whether its operator may still hand the link over: operators lose theirs with their right, or by a ban."""
        if link.issued_by is None:
            return True
        rights = find_rights(self._team, link.issued_by, link.created_at, is_kept=is_kept)
        return rights.may(Permission.USERS_MANAGE)

    def revoke_of(self, issuer: str) -> int:
        """Revoke the links that this member of the team handed over, who has another role now; return their number."""
        return self._revoke(Link.issued_by == name_key(issuer))

    def revoke_unentitled(self, dismissed: Collection[str]) -> Ended:
        """Revoke the links of operators who are none any more, or are in `dismissed`: none revives with the right."""
        is_open = Link.issued_by.is_null(False) & Link.redeemed_at.is_null() & (Link.expires_at > self._now())
        links = Link.select(Link, User.username).join(User).where(is_open)
        lost = {
            link.id: (str(link.issued_by), link.user.username)
            for link in links
            if link.issued_by in dismissed or not self._is_entitled(link, is_kept=True)
        }
        if lost:
            self._revoke(Link.id.in_(list(lost)))
        return group_ended(lost.values())

    def _revoke(self, which: object) -> int:
        """Revoke the matching links; returns how many could still have been used."""
        unredeemed = Link.redeemed_at.is_null()
        return int(Link.update(redeemed_at=self._now()).where(which, unredeemed).execute())


def proves_address(link: Link) -> bool:
    """Return whether using this link shows that its user reads their mail."""
    return bool(link.email_key != _NOT_MAILED)


def link_address(base_url: str, token: str) -> str:
    """Return the address of the page that sets a password with this token."""
    return f"{base_url}{SET_PASSWORD_PATH}#token={token}"
