"""Chat links: which chat account is whose. One account belongs to one user, and one user has one account.

A link begins *unclaimed*: somebody proved a chat account to be his, but nobody has it yet. It is claimed by the
registration or login that shows its link token, and dies after an hour otherwise. The unique indexes decide races.
Every method works inside the caller's transaction.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from peewee import IntegrityError

from regsvc.auth.derived_secrets import DerivedSecrets
from regsvc.core.clock import Clock
from regsvc.core.email_address import EmailAddress
from regsvc.core.errors import ChatAccountTaken, ChatNotLinked, LinkTokenInvalid
from regsvc.database.audit import Actor, Audit
from regsvc.database.engine import violates_unique
from regsvc.database.models import REJECTED, ChatLink, User

CLAIM_TIMEOUT: Final = timedelta(hours=1)
"""How long a link waits for whoever claims it; how long its token shows the account, too."""


@dataclass(frozen=True)
class ChatAccount:
    """An account on a chat platform, as the platform described it when it was linked.

    `id` never changes there; `discriminator` is "0" where the platform has none; `avatar` is what the platform calls
    the picture (on Discord a hash). None: the platform told none.
    """

    platform: str
    id: str
    username: str
    discriminator: str = "0"
    avatar: str | None = None
    global_name: str | None = None

    @property
    def key(self) -> str:
        """What the unique index compares."""
        return f"{self.platform}:{self.id}"


@dataclass(frozen=True)
class LinkedUser:
    """A user and the chat account he has."""

    user_id: int
    account: ChatAccount


class ChatLinks:
    """Keeps, claims, finds and ends chat links."""

    def __init__(self, secrets: DerivedSecrets, audit: Audit, now: Clock) -> None:
        self._secrets = secrets
        self._audit = audit
        self._now = now

    def token_hash(self, token: str) -> str:
        """What is stored of a link token."""
        return self._secrets.digest("link token", token)

    # --- finding ---

    def find_of(self, user_id: int) -> ChatAccount | None:
        """The chat account of a user; None: there is none."""
        link = ChatLink.get_or_none(ChatLink.user == user_id)
        return None if link is None else _account(link)

    def find_by_name(self, username: str) -> LinkedUser | None:
        """Who has this name and which account; None: there is no such user, or nothing is linked."""
        link = ChatLink.select().join(User).where(User.username_key == username.lower()).first()
        return None if link is None else LinkedUser(link.user_id, _account(link))

    def find_unclaimed(self, tokens: Sequence[str]) -> ChatAccount | None:
        """The account of the newest living unclaimed link that one of the tokens opens."""
        link = self._find_unclaimed(tokens)
        return None if link is None else _account(link)

    def is_token_of(self, user_id: int, tokens: Sequence[str]) -> bool:
        """Whether one of the tokens is, for the hour after linking, that of this user's link."""
        return bool(tokens) and bool(self._active(tokens).where(ChatLink.user == user_id).exists())

    def require_free(self, account: ChatAccount) -> None:
        """Raises `ChatAccountTaken` if the account is another user's who would keep it."""
        holder = _find_holder(account)
        if holder is not None and holder.status != REJECTED:
            raise ChatAccountTaken

    # --- linking ---

    def create_unclaimed(self, account: ChatAccount, token_hash: str) -> None:
        """An unclaimed link, which the token behind the hash opens."""
        self._insert(account, token_hash, {})

    def link(self, account: ChatAccount, token_hash: str, user: User, by: Actor) -> None:
        """A link that is this user's at once. Raises `ChatAccountTaken`."""
        is_new = self._detach_others(account, user, by)
        with _unique_or_taken():
            self._insert(account, token_hash, {"user": user.id, "claimed_account": account.key})
        if is_new:
            self._record("chat.linked", account, user, by)

    def claim(self, tokens: Sequence[str], user: User, by: Actor) -> ChatAccount:
        """The newest living unclaimed link of these tokens is this user's from now on.

        Raises `LinkTokenInvalid`, also for who comes second with the same token, and `ChatAccountTaken`.
        """
        link = self._find_unclaimed(tokens)
        if link is None:
            raise LinkTokenInvalid
        account = _account(link)
        is_new = self._detach_others(account, user, by)
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
        """The user has no chat account any more. Raises `ChatNotLinked`, also for who comes second."""
        account = self.find_of(user.id)
        if account is None or not ChatLink.delete().where(ChatLink.user == user.id).execute():
            raise ChatNotLinked
        self._record("chat.unlinked", account, user, by)

    def discard(self, token: str) -> None:
        """Drop an unclaimed link before anybody claims it. Raises `LinkTokenInvalid`."""
        link = self._find_unclaimed([token])
        if link is None or not ChatLink.delete().where(ChatLink.id == link.id, ChatLink.user.is_null()).execute():
            raise LinkTokenInvalid

    def purge_expired(self) -> int:
        """Delete the links that nobody claimed in time; how many they were."""
        is_expired = ChatLink.user.is_null() & (ChatLink.linked_at <= self._now() - CLAIM_TIMEOUT)
        return int(ChatLink.delete().where(is_expired).execute())

    def _active(self, tokens: Sequence[str]) -> Any:
        hashes = [self.token_hash(token) for token in tokens]
        is_active = ChatLink.linked_at > self._now() - CLAIM_TIMEOUT
        return ChatLink.select().where(ChatLink.token_hash.in_(hashes), is_active).order_by(ChatLink.id.desc())

    def _find_unclaimed(self, tokens: Sequence[str]) -> ChatLink | None:
        link: ChatLink | None = self._active(tokens).where(ChatLink.user.is_null()).first() if tokens else None
        return link

    def _detach_others(self, account: ChatAccount, user: User, by: Actor) -> bool:
        """Take the account from a rejected record, and from the user the one there was before.

        False: it was this very account, so that nothing changes. Raises `ChatAccountTaken`.
        """
        holder = _find_holder(account)
        if holder is not None and holder.id != user.id:
            if holder.status != REJECTED:
                raise ChatAccountTaken
            ChatLink.delete().where(ChatLink.user == holder.id).execute()
            self._record("chat.unlinked", account, holder, by, why="proven by another")
        before = self.find_of(user.id)
        if before is None:
            return True
        ChatLink.delete().where(ChatLink.user == user.id).execute()
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
            linked_at=self._now(),
            **owner,
        )

    def _record(self, action: str, account: ChatAccount, user: User, by: Actor, why: str | None = None) -> None:
        detail = {"platform": account.platform, "account": account.id} | ({"why": why} if why else {})
        self._audit.record(action, by.name, user.username, detail, by.ip)


def find_linked_owner(address: EmailAddress) -> User | None:
    """The user who proved this e-mail address and has a chat account linked; None: nobody."""
    linked = User.select().join(ChatLink).where(User.email_key == address.key, User.is_email_verified)
    owner: User | None = linked.first()
    return owner


@contextmanager
def _unique_or_taken() -> Iterator[None]:
    """Turns the unique indexes' no into ours: somebody was faster with this account, or for this user."""
    try:
        yield
    except IntegrityError as error:
        if not violates_unique(error):
            raise
        raise ChatAccountTaken from None


def _find_holder(account: ChatAccount) -> User | None:
    """Whose the account is; None: nobody has claimed it."""
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
