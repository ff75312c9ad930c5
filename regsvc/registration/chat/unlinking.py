"""Removal of chat links: by access token, password or mailed code, or by link token while unclaimed."""

from dataclasses import dataclass, field

from peewee import Database

from regsvc.accounts.password_checker import LoginIdentity, PasswordChecker
from regsvc.auth.address_proofs import NO_CODE_OR_PROOF, CodeOrProof
from regsvc.auth.verification_codes import VerificationCodes
from regsvc.core.caller import Caller, VerifiedSession
from regsvc.core.clock import epoch_ms
from regsvc.core.errors import (
    BadCredentials,
    Banned,
    ChatNotLinked,
    InvalidCode,
    ProofRequired,
    TotpRequired,
    UserNotFound,
)
from regsvc.core.names import name_key
from regsvc.database.audit import Actor
from regsvc.database.engine import Worker
from regsvc.database.models import BANNED, User
from regsvc.users.chat_links import ChatLinks

_UNUSED_ADDRESS = "@"
"""An address that no user has, so that an unknown name takes the same lookup as a known one."""


@dataclass(frozen=True)
class UnlinkProof:
    """Proof of a request without an access token; the first field that is set counts.

    `totp` goes with the password, where the player has a second factor.
    """

    password: str | None = field(default=None, repr=False)
    totp: str | None = field(default=None, repr=False)
    code_or_proof: CodeOrProof = NO_CODE_OR_PROOF
    link_token: str | None = field(default=None, repr=False)


class ChatUnlinking:
    """Removal of links.

    A banned user's link stays: otherwise the same person could register again under another name.
    """

    def __init__(
        self, database: Database, worker: Worker, links: ChatLinks, checker: PasswordChecker, codes: VerificationCodes
    ) -> None:
        self._database = database
        self._worker = worker
        self._links = links
        self._checker = checker
        self._codes = codes

    async def unlink(self, username: str, proof: UnlinkProof, session: VerifiedSession | None, caller: Caller) -> None:
        """Remove the link of this name, or the unclaimed link of a link token.

        Raises `ProofRequired`, `BadCredentials`, `TotpRequired`, `RateLimited`, `InvalidCode`, `LinkTokenInvalid`; only
        after sufficient proof `ChatNotLinked` and `Banned`; and for admins `UserNotFound`.
        """
        run = self._worker.run
        if session is not None and (session.is_admin or name_key(session.username) == name_key(username)):
            await run(self._unlink_by_session, username, session, caller)
        elif proof.password is not None:
            identity = await self._checker.check_with_totp(username, proof.password, proof.totp, caller)
            await run(self._unlink_by_password, identity, caller)
        elif proof.code_or_proof != NO_CODE_OR_PROOF:
            if not await run(self._is_code_correct, username, proof.code_or_proof, caller):
                raise InvalidCode
            await run(self._unlink_by_code, username, proof.code_or_proof, caller)
        elif proof.link_token is not None:
            await run(self._discard, proof.link_token)
        else:
            raise ProofRequired

    def _unlink_by_session(self, username: str, session: VerifiedSession, caller: Caller) -> None:
        with self._database.atomic():
            user = _find_user(username)
            if user is None:
                raise UserNotFound
            self._links.unlink(user, Actor(session.username, caller.address))

    def _unlink_by_password(self, identity: LoginIdentity, caller: Caller) -> None:
        with self._database.atomic():
            user = User.get_or_none(User.id == identity.user_id)
            if user is None:  # only AuthMe knows the name, or the user was deleted since
                raise ChatNotLinked
            if user.token_generation != identity.token_generation:  # the password was changed since it was looked up
                raise BadCredentials
            if not self._checker.use_second_factor(identity, user.id, caller):
                raise TotpRequired
            self._unlink_own(user, caller)

    def _is_code_correct(self, username: str, given: CodeOrProof, caller: Caller) -> bool:
        with self._database.atomic():
            return self._codes.verify_either(_proven_address(_find_user(username)), "unlink", given, caller)

    def _unlink_by_code(self, username: str, given: CodeOrProof, caller: Caller) -> None:
        with self._database.atomic():
            user = _find_user(username)
            self._codes.redeem_either(_proven_address(user), "unlink", given, caller)
            if user is None:  # a code was issued for the unused address
                raise InvalidCode
            self._unlink_own(user, caller)

    def _unlink_own(self, user: User, caller: Caller) -> None:
        if user.status == BANNED:
            raise Banned(user.reason, epoch_ms(user.ban_expires_at) if user.ban_expires_at else None)
        self._links.unlink(user, Actor(user.username, caller.address))

    def _discard(self, link_token: str) -> None:
        with self._database.atomic():
            self._links.discard(link_token)


def _find_user(username: str) -> User | None:
    user: User | None = User.get_or_none(User.username_key == name_key(username))
    return user


def _proven_address(user: User | None) -> str:
    """Return the user's verified address, or `_UNUSED_ADDRESS`."""
    if user is None or user.email_key is None or not user.is_email_verified:
        return _UNUSED_ADDRESS
    return str(user.email_key)
