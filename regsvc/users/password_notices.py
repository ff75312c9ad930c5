"""Notices of a changed password: to the address that the user has proven, with a link that undoes it, and in chat.

Each is enqueued in the transaction of the change. A user's first password is no change.
"""

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import reduce
from operator import or_
from typing import Final, Literal

from plugin_bridge.hashers import HashedPassword
from regsvc.auth.hashing import StoredPassword
from regsvc.auth.password_links import PasswordLinks
from regsvc.auth.rate_limits import DurableLimits, LimitCheck
from regsvc.config.live import LiveConfig
from regsvc.core.clock import Clock, epoch_ms
from regsvc.core.errors import RateLimited
from regsvc.core.units import RateLimit
from regsvc.database.models import ChatLink, User
from regsvc.notifications.mail.queue import MailQueue

log = logging.getLogger(__name__)

Place = Literal["website", "link", "handed_over", "operator", "host", "game", "taken"]
"""Where a password was changed: on a page, by its owner or with a mailed or a handed over link; by an operator; on the
command line; in the game; or by an operator who let the password count with which the name was registered anew.
"""

_PER_USER: Final = (RateLimit(3, timedelta(hours=1)), RateLimit(6, timedelta(days=1)))
"""So that nobody fills a mailbox. The link in the first of them undoes the later changes as well."""
_USED_UP: Final = "verification.limits_total_forgot is used up"
_IN_GAME: Final = "password_changed.game"
"""Scope of the limit on notices about the game in total: a host may write a thousand passwords into AuthMe's table."""


@dataclass(frozen=True)
class PasswordChange:
    """A change of a user's password that the sync found. `before` None: they had none."""

    user_id: int
    place: Literal["game", "taken"]
    before: StoredPassword | None = field(repr=False)
    after: StoredPassword = field(repr=False)


@dataclass(frozen=True)
class PasswordNotices:
    """Notices to users whose password was changed. Blocking: in the caller's transaction.

    `tell_in_chat` tells a user, place and time (milliseconds since 1970) in their accounts on `chat_platforms`.
    """

    mail_queue: MailQueue
    chat_platforms: Sequence[str]
    tell_in_chat: Callable[[User, Place, int], None]
    links: PasswordLinks
    limits: DurableLimits
    live: LiveConfig
    now: Clock

    def tell(self, user: User, place: Place, address: str | None = None) -> None:
        """Tell a user, as they are now, that their password has just been changed, unless they were told too often.

        `address`: that of the client, where it is the owner's or poses as the owner's.
        """
        if self._find_address(user) is not None or (self.chat_platforms and self._find_reachable([user.id])):
            self._tell(user, place, address, [_of_user(user)])

    def tell_each(self, changes: Sequence[PasswordChange]) -> None:
        """Tell the users of changes that the sync found, not more in total than there are mails with links.

        Changes in the game are told where the host wants that, unless they may be AuthMe's own rehash of the same
        password.
        """
        wanted = {change.user_id: change for change in changes if self._is_told(change)}
        total: LimitCheck = (_IN_GAME, "", self.live.current.verification.limits_total_forgot)
        users = self._find_reachable(list(wanted))
        for index, user in enumerate(users):
            is_left = index or not self.limits.remaining_seconds([total])
            if is_left and self._tell(user, wanted[user.id].place, None, [_of_user(user), total]):
                continue
            if self.limits.remaining_seconds([total]):
                log.warning("%d players are not told that their password was changed: %s", len(users) - index, _USED_UP)
                return

    def tell_of_address(self, user: User) -> None:
        """Tell the user's address that it is about to be replaced; one that was proven gets the link that undoes it."""
        if self.mail_queue.send(user, "email_changed") and user.proven_key is not None:
            self.links.issue_undo(user.id, user.proven_key)

    def _find_address(self, user: User) -> str | None:
        """Return the key of the address that the user is mailed at, which they have proven, or None."""
        return user.proven_key if self.mail_queue.can_reach(user) else None

    def _is_told(self, change: PasswordChange) -> bool:
        if change.before is None:
            return False
        if change.place == "taken":
            return True
        hasher = self.live.authme.hasher
        before = HashedPassword(change.before.hash, change.before.salt)
        after = HashedPassword(change.after.hash, change.after.salt)
        is_rehash = hasher is not None and hasher.may_have_rehashed(before, after)
        return self.live.current.mail.password_changed_in_game and not is_rehash

    def _find_reachable(self, ids: Sequence[int]) -> list[User]:
        """Return those of these users who can be mailed, at an address that they have proven, or told in chat."""
        ways = []
        if self.mail_queue.is_available:
            ways.append(User.is_email_verified & User.email_key.is_null(False))
        if self.chat_platforms:
            linked = ChatLink.select(ChatLink.user).where(ChatLink.platform.in_(self.chat_platforms))
            ways.append(User.id.in_(linked.where(ChatLink.user.in_(ids))))
        if not ways or not ids:
            return []
        return list(User.select().where(User.id.in_(ids), reduce(or_, ways)).order_by(User.id))

    def _tell(self, user: User, place: Place, address: str | None, checks: Sequence[LimitCheck]) -> bool:
        """Tell the user; return False if they are not told, because of a limit."""
        try:
            self.limits.hit_all(checks)
        except RateLimited:
            return False
        moment = epoch_ms(self.now())
        if self.chat_platforms:
            self.tell_in_chat(user, place, moment)
        email_key = self._find_address(user)
        if email_key is not None:
            self.links.issue_undo(user.id, email_key)
            facts = {"place": place, "address": address, "at": moment}
            self.mail_queue.send(user, "password_changed", payload=json.dumps(facts))
        return True


def _of_user(user: User) -> LimitCheck:
    return "password_changed.user", str(user.id), _PER_USER
