"""Accounts on chat platforms that act for members of the team.

A member proves that an account is theirs with a code from /admin, or linked it as a player (`regsvc_chat_link`). What
the account may do is what the member may do at that moment.
"""

import re
import secrets
from collections.abc import Collection, Iterator, Sequence
from datetime import timedelta
from typing import Annotated, Any, Final

from msgspec import Meta

from regsvc.auth.derived_secrets import DerivedSecrets
from regsvc.auth.entitlement import EndCause, Entitlements, OpenThing, Origin
from regsvc.auth.rate_limits import DurableLimits, SharedLimits
from regsvc.core.clock import Clock
from regsvc.core.errors import ChatCodeInvalid, UserNotFound
from regsvc.core.rights import Team
from regsvc.core.shapes import Moment, Output, Username
from regsvc.core.text import name_key, shorten, strip_invisible
from regsvc.core.units import RateLimit
from regsvc.database.audit import Actor, Audit
from regsvc.database.bulk import redate
from regsvc.database.models import TeamChatLink, User

CODE_VALID: Final = timedelta(minutes=10)
_ALPHABET: Final = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
_CODE_LENGTH: Final = 8
_CODES: Final = re.compile(rf"(?<![A-Z0-9])[{_ALPHABET}]{{{_CODE_LENGTH}}}(?![A-Z0-9])")
_MAX_CODES: Final = 20
"""Codes that are looked for in one text."""
_LONGEST_NAME: Final = 255
_TRIES: Final = (RateLimit(300, timedelta(minutes=10)),)
"""Codes that all accounts of a platform may try; one account alone the `_ACCOUNTS`th part of them."""
_ACCOUNTS: Final = 60

PlatformName = Annotated[str, Meta(min_length=1, max_length=16, examples=["discord"])]


class TeamAccountFields(Output, frozen=True):
    """An account on a chat platform, and the member of the team for whom it acts."""

    username: Username
    platform: PlatformName
    account_name: Annotated[str, Meta(examples=["olivia"])]
    linked_at: Moment


def find_codes(text: str) -> list[str]:
    """Return what may be codes in a text, of `_MAX_CODES` at most."""
    return _CODES.findall(text.upper())[:_MAX_CODES]


class TeamAccounts:
    """Accounts of the team on chat platforms: linked, found and ended. Blocking: for a worker thread."""

    def __init__(
        self,
        secrets: DerivedSecrets,
        limits: DurableLimits,
        team: Team,
        audit: Audit,
        now: Clock,
    ) -> None:
        self._entitlements = Entitlements(team, now)
        self._secrets = secrets
        self._limits = limits
        self._audit = audit
        self._now = now

    def issue_code(self, user_id: int, *, has_second_factor: bool = False) -> str:
        """Return a code that links one account to this user, once and within `CODE_VALID`; it ends an earlier one.

        `has_second_factor`: whether the user has shown one, which the account then counts for.
        """
        code = "".join(secrets.choice(_ALPHABET) for _ in range(_CODE_LENGTH))
        with TeamChatLink._meta.database.atomic():
            TeamChatLink.delete().where(TeamChatLink.user == user_id, TeamChatLink.linked_at.is_null()).execute()
            made = {"code_hash": self._digest(code), "created_at": self._now(), "has_second_factor": has_second_factor}
            TeamChatLink.create(user=user_id, **made)
        return code

    def redeem(self, code: str, platform: str, account_id: str, name: str) -> str:
        """Link the account to the member of the team who has this code; return their name.

        Every try counts. Raises `ChatCodeInvalid`, and `RateLimited` after five of an account, or 300 of a platform, in
        ten minutes.
        """
        with TeamChatLink._meta.database.atomic():
            self.count_try(platform, account_id)  # which makes tries of one account wait for each other
            username = self._redeem(code, platform, account_id, name)
        if username is None:
            raise ChatCodeInvalid  # not before the try is counted for good
        return username

    def void_codes(self, found: Collection[str]) -> bool:
        """End these codes, which others could read; return whether one of them could still be used."""
        is_one = TeamChatLink.code_hash.in_([self._digest(code) for code in found])
        is_open = TeamChatLink.created_at >= self._now() - CODE_VALID
        return bool(found) and bool(TeamChatLink.delete().where(is_one, is_open).execute())

    def count_try(self, platform: str, account_id: str) -> None:
        """Count a code that an account tried. Raises `RateLimited` as `redeem` does."""
        tries = SharedLimits("team_chat.code", _TRIES, account_id, subject=platform, network_divisor=_ACCOUNTS)
        with TeamChatLink._meta.database.atomic():
            self._limits.hit_all([], [tries])

    def _redeem(self, code: str, platform: str, account_id: str, name: str) -> str | None:
        """Link the account; return the member's name, or None, having changed nothing, if the code is not valid."""
        account, found = f"{platform}:{account_id}", TeamChatLink.code_hash == self._digest(code.strip().upper())
        link = TeamChatLink.select(TeamChatLink, User).join(User).where(found).first()
        if link is None or self._now() - link.created_at > CODE_VALID or self._find_cause(link) is not None:
            return None
        if not TeamChatLink.update(code_hash=None).where(TeamChatLink.id == link.id, found).execute():
            return None  # another account was faster
        is_theirs = (TeamChatLink.user == link.user_id) & (TeamChatLink.platform == platform)
        TeamChatLink.delete().where((TeamChatLink.account == account) | is_theirs).execute()
        changes = {"platform": platform, "account": account, "linked_at": self._now()}
        changes["name"] = shorten(" ".join(strip_invisible(name).split()), _LONGEST_NAME)
        TeamChatLink.update(changes).where(TeamChatLink.id == link.id).execute()
        detail = {"platform": platform, "account": account_id}
        self._audit.record("team_chat.linked", Actor(link.user.username), link.user.username, detail)
        return str(link.user.username)

    def find_member(self, platform: str, account_id: str) -> User | None:
        """Return the user for whom this account acts, whatever they may do now, or None.

        Only an account that was linked with a code from /admin acts for anybody: the one that a player links takes no
        more than a session of theirs.
        """
        account = f"{platform}:{account_id}"
        link = TeamChatLink.select(TeamChatLink, User).join(User).where(TeamChatLink.account == account).first()
        if link is None or self._find_cause(link) is not None:
            return None
        member: User = link.user
        return member

    def list_accounts(self, user_id: int | None = None) -> list[TeamAccountFields]:
        """Return the linked accounts of all members, or of one, by name."""
        condition = TeamChatLink.linked_at.is_null(False)
        if user_id is not None:
            condition &= TeamChatLink.user == user_id
        links: Any = TeamChatLink.select(TeamChatLink, User).join(User).where(condition).order_by(User.username_key)
        return [
            TeamAccountFields(link.user.username, link.platform, link.name or "", link.linked_at)
            for link in links
            if self._find_cause(link, is_kept=True) is None
        ]

    def unlink(self, username: str, platform: str, by: Actor) -> None:
        """End the member's link on this platform. Raises `UserNotFound` where there is none."""
        with TeamChatLink._meta.database.atomic():
            user = User.get_or_none(User.username_key == name_key(username))
            own = (TeamChatLink.user == user) & (TeamChatLink.platform == platform)
            if user is None or not TeamChatLink.delete().where(own).execute():
                raise UserNotFound
            self._audit.record("team_chat.unlinked", by, user.username, {"platform": platform})

    def list_open(self, owner: str | None = None) -> Iterator[OpenThing]:
        """Return the linked accounts and the codes that are not used yet, as `MadeThings` does."""
        links: Any = TeamChatLink.select(TeamChatLink, User).join(User)
        for link in links if owner is None else links.where(User.username_key == owner):
            cause = self._find_cause(link, is_kept=True)
            yield OpenThing(link.id, link.user.username_key, link.platform or "code", cause)

    def end(self, ids: Sequence[int]) -> None:
        """End the links, and the codes, with these ids."""
        TeamChatLink.delete().where(TeamChatLink.id.in_(list(ids))).execute()

    def purge_expired(self) -> int:
        """Delete codes that were not used in time; return their number."""
        redate(self._now(), TeamChatLink.created_at)
        is_expired = TeamChatLink.linked_at.is_null() & (TeamChatLink.created_at <= self._now() - CODE_VALID)
        return int(TeamChatLink.delete().where(is_expired).execute())

    def _find_cause(self, link: TeamChatLink, *, is_kept: bool = False) -> EndCause | None:
        origin = Origin(link.user.username_key, link.created_at, bool(link.has_second_factor))
        return self._entitlements.find_cause(origin, None, is_kept=is_kept)

    def _digest(self, code: str) -> str:
        return self._secrets.digest("team chat code", code)
