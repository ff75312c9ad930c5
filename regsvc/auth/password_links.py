"""Links that set a password, mailed or handed over, for users who forgot theirs or never had one.

The link carries a token in its fragment (after `#`); the token is not stored (`regsvc.auth.derived_secrets`).
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from regsvc.auth.derived_secrets import DerivedSecrets, new_nonce, parse_row_id
from regsvc.auth.entitlement import EndCause, Entitlements, OpenThing, Origin, require_active_token
from regsvc.core.clock import Clock
from regsvc.core.errors import ResetTokenInvalid
from regsvc.core.rights import Permission, Team
from regsvc.database.bulk import redate
from regsvc.database.models import Link, User

LinkPurpose = Literal["reset", "first_password"]

LIFETIMES: Final[dict[str, timedelta]] = {
    "reset": timedelta(minutes=30),
    "first_password": timedelta(days=7),
}
UNDO_LIFETIME: Final = timedelta(days=3)
"""Lifetime of a link that undoes a change: some players read their mail after the weekend."""
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
        self._entitlements = Entitlements(team, now)

    def issue(self, user_id: int, purpose: LinkPurpose, email_key: str) -> Link:
        """Create a link for the reader of this address; it expires after its purpose's lifetime.

        Revokes the user's earlier link of this kind. Others stay: anyone can request a reset, and that must not
        invalidate the link for the first password, or one that was handed over.
        """
        return self._issue(user_id, purpose, email_key, LIFETIMES[purpose])

    def issue_for_handover(self, user_id: int, maker: str, origin: Origin, ends_at: datetime | None) -> Link:
        """Create a link to hand over; it proves no address. Revokes the user's earlier one.

        It works as long as its origin entitles to it. `maker`: who makes it, as the audit log shows them; `ends_at`:
        the end of the API token with which it is made, which it does not outlive. Raises `Unauthorized` if that has
        ended.
        """
        require_active_token(origin.token_id, self._now())
        lifetime = HANDOVER_LIFETIME if ends_at is None else min(HANDOVER_LIFETIME, ends_at - self._now())
        made = {"issued_by": origin.maker, "maker": maker, "token_id": origin.token_id}
        made["has_second_factor"] = origin.has_second_factor
        return self._issue(user_id, "reset", _NOT_MAILED, lifetime, **made)

    def _issue(self, user_id: int, purpose: LinkPurpose, email_key: str, lifetime: timedelta, **made: Any) -> Link:
        moment = self._now()
        is_mailed = Link.email_key != _NOT_MAILED
        is_same_kind = (Link.purpose == purpose) & (is_mailed if email_key else ~is_mailed)
        self._revoke((Link.user == user_id) & is_same_kind & ~Link.undoes)
        return Link.create(
            user=user_id,
            purpose=purpose,
            email_key=email_key,
            nonce=new_nonce(),
            created_at=moment,
            expires_at=moment + lifetime,
            **made,
        )

    def issue_undo(self, user_id: int, email_key: str) -> None:
        """Create the link that takes the account back for the reader of this address, or prolong the one there is.

        No change of the account ends it, also not one of the address: the change may be a thief's, and not their last.
        Only another such link does, for an address that was the user's before (`redeem`).
        """
        moment = self._now()
        is_open = self._is_undo(user_id, email_key) & (Link.expires_at > moment)
        expires_at = moment + UNDO_LIFETIME
        if Link.update(expires_at=expires_at).where(is_open).execute() == 0:
            row = {"user": user_id, "purpose": "reset", "email_key": email_key, "nonce": new_nonce(), "undoes": True}
            Link.insert(**row, created_at=moment, expires_at=expires_at).execute()

    def find_undo(self, user_id: int, email_key: str) -> Link | None:
        """Return the link that takes the account back for the reader of this address, or None."""
        row = Link.select(Link.id).where(self._is_undo(user_id, email_key)).order_by(Link.id.desc()).first()
        return None if row is None else self.find_by_id(row.id)

    def _is_undo(self, user_id: int, email_key: str) -> Any:
        return (Link.user == user_id) & Link.undoes & (Link.email_key == email_key) & Link.redeemed_at.is_null()

    def find_by_id(self, row_id: int) -> Link | None:
        """Return the link if it can still be used.

        None when it is used, expired, deleted with its user, mailed to an address the user no longer has (unless it
        undoes just that), or when its maker could not hand it over today (`regsvc.auth.entitlement`).
        """
        link: Link | None = _with_users().where(Link.id == row_id).first()
        return link if link is not None and self._is_active(link) else None

    def find(self, token: str) -> Link | None:
        """Return the link of this token; None when it is not ours, used or expired. Does not redeem it."""
        row_id = parse_row_id(token)
        link = None if row_id is None else self.find_by_id(row_id)
        if link is None or not self._secrets.is_link_token(token, link.id, link.nonce, link.purpose):
            return None
        return link

    def redeem(self, token: str) -> Link:
        """Redeem the link and revoke the user's others. Raises `ResetTokenInvalid`, also for the loser of a race.

        Of links that undo a change, it revokes those for addresses that came later, if it is one itself: the address
        that was the user's first has the last word.
        """
        link = self.find(token)
        if link is None or self._revoke(Link.id == link.id) == 0:
            raise ResetTokenInvalid
        self.revoke_all(link.user.id)
        if link.undoes:
            self._revoke((Link.user == link.user.id) & Link.undoes & (Link.id > link.id))
        return link

    def revoke_all(self, user_id: int) -> None:
        """Revoke all links of a user who has a new password: none mailed before may set another, but to undo it."""
        self._revoke((Link.user == user_id) & ~Link.undoes)

    def token_of(self, link: Link) -> str:
        """Return the link's token, derived anew each time."""
        return self._secrets.link_token(int(link.id), link.nonce, link.purpose)

    def purge_expired(self) -> int:
        """Delete expired links; returns their number."""
        redate(self._now(), Link.created_at, Link.expires_at)
        return int(Link.delete().where(Link.expires_at < self._now()).execute())

    def _is_active(self, link: Link) -> bool:
        is_its_users = bool(link.undoes) or link.email_key in (_NOT_MAILED, link.user.email_key)
        is_open = link.redeemed_at is None and bool(link.expires_at > self._now())
        return is_its_users and is_open and self._find_cause(link) is None

    def _find_cause(self, link: Link, *, is_kept: bool = False) -> EndCause | None:
        """Return why the link's maker could not hand it over today, or None, as for one that was mailed."""
        origin = Origin(link.issued_by, link.created_at, bool(link.has_second_factor), link.token_id)
        find = self._entitlements.find_cause
        return find(origin, Permission.USERS_MANAGE, target=link.user, is_kept=is_kept)

    def list_open(self, owner: str | None = None) -> Iterator[OpenThing]:
        """Return the links that were handed over, as `MadeThings` does."""
        is_open = Link.redeemed_at.is_null() & (Link.expires_at > self._now())
        whose = Link.issued_by.is_null(False) if owner is None else Link.issued_by == owner
        for link in _with_users().where(is_open, whose):
            yield OpenThing(link.id, link.issued_by, link.user.username, self._find_cause(link, is_kept=True))

    def end(self, ids: Sequence[int]) -> None:
        """Revoke the links with these ids."""
        self._revoke(Link.id.in_(list(ids)))

    def _revoke(self, which: object) -> int:
        """Revoke the matching links; returns how many could still have been used."""
        unredeemed = Link.redeemed_at.is_null()
        return int(Link.update(redeemed_at=self._now()).where(which, unredeemed).execute())


def _with_users() -> Any:
    columns = (User.id, User.username, User.username_key, User.email_key, User.status, User.role)
    return Link.select(Link, *columns).join(User)


def proves_address(link: Link) -> bool:
    """Return whether using this link shows that its user reads their mail."""
    return bool(link.email_key != _NOT_MAILED)


def link_address(base_url: str, token: str) -> str:
    """Return the address of the page that sets a password with this token."""
    return f"{base_url}{SET_PASSWORD_PATH}#token={token}"
