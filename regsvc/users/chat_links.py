"""Chat links: each links one user with one account on a chat platform.

A link starts *unclaimed*: a client proved that a chat account is theirs, but no user has it yet. The registration or
login that shows its link token claims it; otherwise it expires after an hour. Unique indexes decide races. Every
method works inside the caller's transaction.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from peewee import IntegrityError

from regsvc.auth.derived_secrets import DerivedSecrets
from regsvc.auth.rate_limits import DurableLimits
from regsvc.config.host_sections import WebhookEvent
from regsvc.core.clock import Clock
from regsvc.core.email_address import EmailAddress
from regsvc.core.errors import ChatAccountTaken, ChatNotLinked, LinkTokenInvalid
from regsvc.core.text import name_key
from regsvc.core.units import RateLimit
from regsvc.database.audit import Actor, Audit
from regsvc.database.bulk import redate
from regsvc.database.engine import violates_unique
from regsvc.database.models import IS_MEMBER, REJECTED, ChatLink, User
from regsvc.notifications.webhook import WebhookQueue, describe_chat

CLAIM_TIMEOUT: Final = timedelta(hours=1)
"""How long an unclaimed link can be claimed, and how long a link token shows the account."""
_RELEASED_FOR: Final = timedelta(days=7)
"""How long to try to take the role of an account whose link ended."""
_LAPSES_IN: Final = timedelta(days=1)
"""How long a member without an account may take to link one that has a role."""
_LIMITS: Final = (RateLimit(5, timedelta(hours=1)), RateLimit(10, timedelta(days=1)))
"""Accounts that one user links: of each, and of its end, webhooks are told."""


@dataclass(frozen=True)
class ChatAccount:
    """An account on a chat platform, as the platform described it when it was linked.

    `id` never changes on the platform; `discriminator` is "0" where the platform has none; `avatar` is the platform's
    name for the picture (on Discord a hash). None: the platform gave none.
    """

    platform: str
    id: str
    username: str
    discriminator: str = "0"
    avatar: str | None = None
    global_name: str | None = None

    @property
    def key(self) -> str:
        """Value compared by the unique index."""
        return f"{self.platform}:{self.id}"


@dataclass(frozen=True)
class ChatLinks:
    """Chat links: create, claim, find and delete them."""

    secrets: DerivedSecrets
    audit: Audit
    webhook: WebhookQueue
    limits: DurableLimits
    now: Clock
    gives_role: bool = False
    """Whether who may play is given a role on the platform, which is to be taken when a link ends."""
    keeps_members: bool = False
    """Whether roles on the platform keep memberships, so that a member who unlinks the account lapses."""

    def token_hash(self, token: str) -> str:
        """Return the stored hash of a link token."""
        return self.secrets.digest("link token", token)

    # --- finding ---

    def find_of(self, user_id: int) -> ChatAccount | None:
        """Return the chat account of a user, or None."""
        link = ChatLink.get_or_none(ChatLink.user == user_id)
        return None if link is None else _account(link)

    def find_by_name(self, username: str) -> tuple[int, ChatAccount] | None:
        """Return the id of the user of this name, and the linked account; None without such a user or link."""
        link = ChatLink.select().join(User).where(User.username_key == name_key(username)).first()
        return None if link is None else (link.user_id, _account(link))

    def find_unclaimed(self, tokens: Sequence[str]) -> ChatAccount | None:
        """Return the account of the newest active unclaimed link of these tokens, or None."""
        link = self._find_unclaimed(tokens)
        return None if link is None else _account(link)

    def is_token_of(self, user_id: int, tokens: Sequence[str]) -> bool:
        """Return whether one of the tokens belongs to this user's link, within an hour of linking."""
        return bool(tokens) and bool(self._active(tokens).where(ChatLink.user == user_id).exists())

    def require_free(self, account: ChatAccount) -> None:
        """Raise `ChatAccountTaken` if the account belongs to a user who is not rejected."""
        holder = _find_holder(account)
        if holder is not None and holder.status != REJECTED:
            raise ChatAccountTaken

    # --- linking ---

    def create_unclaimed(self, account: ChatAccount, token_hash: str) -> None:
        """Create an unclaimed link, to be claimed with the token of this hash."""
        self._insert(account, token_hash, {})

    def link(self, account: ChatAccount, token_hash: str, user: User, by: Actor) -> None:
        """Create a link claimed by this user. Raises `ChatAccountTaken` and `RateLimited`."""
        is_new = self._detach_others(account, user, by)
        self._forget_released(account)
        with _unique_or_taken():
            self._insert(account, token_hash, {"user": user.id, "claimed_account": account.key})
        if is_new:
            self._record("chat.linked", account, user, by)

    def claim(self, tokens: Sequence[str], user: User, by: Actor) -> ChatAccount:
        """Claim the newest active unclaimed link of these tokens for this user.

        Raises `ChatAccountTaken`, `RateLimited`, and `LinkTokenInvalid`, also when another request claimed the link
        first.
        """
        link = self._find_unclaimed(tokens)
        if link is None:
            raise LinkTokenInvalid
        account = _account(link)
        is_new = self._detach_others(account, user, by)
        self._forget_released(account)
        with _unique_or_taken():
            claim = ChatLink.update(user=user.id, claimed_account=account.key)
            claimed = claim.where(ChatLink.id == link.id, ChatLink.user.is_null()).execute()
        if not claimed:
            raise LinkTokenInvalid
        if is_new:
            self._record("chat.linked", account, user, by)
        return account

    # --- unlinking ---

    def unlink(self, user: User, by: Actor) -> None:
        """Delete the user's link. Raises `ChatNotLinked`, also when another request deleted it first."""
        account = self.find_of(user.id)
        if account is None or not self._remove(user.id):
            raise ChatNotLinked
        if self.keeps_members:
            self._let_lapse(user)
        self._record("chat.unlinked", account, user, by)

    def _let_lapse(self, user: User) -> None:
        is_member = IS_MEMBER & User.role.is_null()
        is_new = User.lapse.is_null() | (User.lapse != "role")
        noted: Any = User.update(lapses_at=self.now() + _LAPSES_IN, lapse="role", changed_at=User.changed_at)
        noted.where(User.id == user.id, is_member, is_new).execute()

    def discard(self, token: str) -> None:
        """Delete an unclaimed link. Raises `LinkTokenInvalid`."""
        link = self._find_unclaimed([token])
        if link is None or not ChatLink.delete().where(ChatLink.id == link.id, ChatLink.user.is_null()).execute():
            raise LinkTokenInvalid

    def purge_expired(self) -> int:
        """Delete links that have expired, unclaimed ones and those kept until a role is taken; return their number."""
        redate(self.now(), ChatLink.linked_at)
        is_expired = ChatLink.roles_missed_at.is_null() & (ChatLink.linked_at <= self.now() - CLAIM_TIMEOUT)
        is_expired |= ChatLink.roles_missed_at <= self.now() - _RELEASED_FOR
        return int(ChatLink.delete().where(ChatLink.user.is_null(), is_expired).execute())

    def _remove(self, user_id: int) -> bool:
        if self.gives_role:
            return release_link(user_id, self.now())
        return bool(ChatLink.delete().where(ChatLink.user == user_id).execute())

    def _forget_released(self, account: ChatAccount) -> None:
        if self.gives_role:
            is_its = (ChatLink.platform == account.platform) & (ChatLink.account_id == account.id)
            ChatLink.delete().where(ChatLink.user.is_null(), ChatLink.roles_missed_at.is_null(False), is_its).execute()

    def _active(self, tokens: Sequence[str]) -> Any:
        hashes = [self.token_hash(token) for token in tokens]
        is_active = ChatLink.linked_at > self.now() - CLAIM_TIMEOUT
        return ChatLink.select().where(ChatLink.token_hash.in_(hashes), is_active).order_by(ChatLink.id.desc())

    def _find_unclaimed(self, tokens: Sequence[str]) -> ChatLink | None:
        link: ChatLink | None = self._active(tokens).where(ChatLink.user.is_null()).first() if tokens else None
        return link

    def _detach_others(self, account: ChatAccount, user: User, by: Actor) -> bool:
        """Detach the account from a rejected user, and from this user the account linked before.

        Returns False where this very account was linked before. Raises `ChatAccountTaken`, and `RateLimited` after too
        many accounts of this user.
        """
        before = self.find_of(user.id)
        if by.ip is not None and (before is None or before.key != account.key):  # an import is no client
            self.limits.hit("chat.link", user.username_key, _LIMITS)
        holder = _find_holder(account)
        if holder is not None and holder.id != user.id:
            if holder.status != REJECTED:
                raise ChatAccountTaken
            self._remove(holder.id)
            self._record("chat.unlinked", account, holder, by, why="proven by another")
        if before is None:
            return True
        self._remove(user.id)
        if before.key != account.key:
            self._record("chat.unlinked", before, user, by, why="linked another")
        return before.key != account.key

    def _insert(self, account: ChatAccount, token_hash: str, owner: dict[str, Any]) -> None:
        ChatLink.create(
            platform=account.platform,
            account_id=account.id,
            username=account.username,
            discriminator=account.discriminator,
            avatar=account.avatar,
            global_name=account.global_name,
            token_hash=token_hash,
            linked_at=self.now(),
            **owner,
        )

    def _record(self, action: str, account: ChatAccount, user: User, by: Actor, why: str | None = None) -> None:
        detail = {"platform": account.platform, "account": account.id} | ({"why": why} if why else {})
        self.audit.record(action, by, user.username, detail)
        told = describe_chat(account.platform, account.id, account.username)
        event: WebhookEvent = "chat_linked" if action == "chat.linked" else "chat_unlinked"
        self.webhook.enqueue(event, user.username, user.status, chat=told)


def release_link(user_id: int, now: datetime) -> bool:
    """End the link of a user, but keep the account's id until the role is taken; returns False if there is no link."""
    link = ChatLink.get_or_none(ChatLink.user == user_id)
    if link is None:
        return False
    nobody = {"user": None, "claimed_account": None, "token_hash": f"released {link.id}"}
    unnamed = {"username": "", "discriminator": "0", "avatar": None, "global_name": None}
    released = {"roles_seen_at": None, "roles_missed_at": now}
    query = ChatLink.update({**nobody, **unnamed, **released}).where(ChatLink.id == link.id, ChatLink.user == user_id)
    return bool(query.execute())


def find_linked_owner(address: EmailAddress) -> User | None:
    """Return the user with this verified e-mail address and a linked chat account, or None."""
    linked = User.select().join(ChatLink).where(User.email_key == address.key, User.is_email_verified)
    owner: User | None = linked.first()
    return owner


@contextmanager
def _unique_or_taken() -> Iterator[None]:
    """Raise `ChatAccountTaken` for a violated unique index: another request linked the account or user first."""
    try:
        yield
    except IntegrityError as error:
        if not violates_unique(error):
            raise
        raise ChatAccountTaken from None


def _find_holder(account: ChatAccount) -> User | None:
    """Return the user with this account, or None."""
    holder: User | None = User.select().join(ChatLink).where(ChatLink.claimed_account == account.key).first()
    return holder


def _account(link: ChatLink) -> ChatAccount:
    return ChatAccount(
        platform=link.platform,
        id=link.account_id,
        username=link.username,
        discriminator=link.discriminator,
        avatar=link.avatar,
        global_name=link.global_name,
    )
