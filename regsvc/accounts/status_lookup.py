"""The public status of a name, and its details for the owner and for admins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from peewee import Database, Field

from regsvc.auth.derived_secrets import ApplicationTokens
from regsvc.auth.verification_codes import VerificationCodes
from regsvc.config.live import LiveConfig
from regsvc.core.caller import VerifiedSession
from regsvc.core.clock import Clock
from regsvc.core.errors import InvalidCode
from regsvc.core.shared_lookup import SharedLookup
from regsvc.core.text import name_key
from regsvc.database.bulk import select_rows
from regsvc.database.engine import Worker
from regsvc.database.models import PENDING, REJECTED, User
from regsvc.users.retention import find_reapply_at


@dataclass(frozen=True)
class UserStatus:
    """The status of a name. The fields after `has_details` are for its owner and for admins, and empty for others."""

    username: str
    status: str
    has_details: bool = False
    email: str | None = None
    can_be_mailed: bool = False
    """Whether there is an address that mails about the user are sent to."""
    reason: str | None = None
    reviewed_at: datetime | None = None
    ban_expires_at: datetime | None = None
    reapply_at: datetime | None = None
    """When a rejected name becomes free, None if it is; also for clients who may register."""
    application_token: str | None = None
    """For the owner alone, while a question waits for their answer: opens the page where it is given."""


class StatusLookup:
    """Look-ups of the status by name. Those without a session, by far the most common, share queries."""

    def __init__(
        self,
        database: Database,
        worker: Worker,
        codes: VerificationCodes,
        tokens: ApplicationTokens,
        live: LiveConfig,
        now: Clock,
    ) -> None:
        self._database = database
        self._worker = worker
        self._codes = codes
        self._tokens = tokens
        self._live = live
        self._now = now
        self._public: SharedLookup[str, UserStatus] = SharedLookup(self._find_public)

    async def find(self, username: str, session: VerifiedSession | None, proof: str | None = None) -> UserStatus | None:
        """Return as much of the status as this session may see, or None for a name without a user.

        `proof`: of an address to register with. Raises `DatabaseUnavailable` and `Overloaded`.
        """
        key = name_key(username)
        if session is None and proof is None:
            return await self._public.find(key)
        return await self._worker.run(self._select_for, key, session, proof)

    async def _find_public(self, keys: Sequence[str]) -> Mapping[str, UserStatus]:
        return await self._worker.run(self._select_public, keys)

    def _select_public(self, keys: Sequence[str]) -> Mapping[str, UserStatus]:
        """Return the public status by key."""
        fields: list[Field] = [User.username_key, User.username, User.status]
        is_open_to_all = self._is_open_to_all
        if is_open_to_all:
            fields += [User.reviewed_at, User.may_reapply]
        rows = select_rows(self._database, User, fields, User.username_key, keys)
        if not is_open_to_all:
            return {key: UserStatus(username, status) for key, username, status in rows}
        names = [field.name for field in fields]
        users = [User(__no_default__=True, **dict(zip(names, row, strict=True))) for row in rows]
        return {
            user.username_key: UserStatus(user.username, user.status, reapply_at=self._find_reapply_at(user))
            for user in users
        }

    def _select_for(self, key: str, session: VerifiedSession | None, proof: str | None) -> UserStatus | None:
        user = User.get_or_none(User.username_key == key)
        if user is None:
            return None
        reapply_at = self._find_reapply_at(user)
        is_owner = session is not None and session.user_id == user.id
        has_to_answer = user.status == PENDING and user.asked_at is not None
        may_reapply = user.status == REJECTED and user.is_email_verified and reapply_at is None
        if session is not None and (session.is_admin or is_owner):
            return UserStatus(
                user.username,
                user.status,
                has_details=True,
                email=user.email,
                can_be_mailed=user.email_key is not None,
                reason=user.reason,
                reviewed_at=user.reviewed_at,
                ban_expires_at=user.ban_expires_at,
                reapply_at=reapply_at,
                application_token=self._tokens.token_of(user) if is_owner and (has_to_answer or may_reapply) else None,
            )
        is_told = self._is_open_to_all or self._proves(proof)
        return UserStatus(user.username, user.status, reapply_at=reapply_at if is_told else None)

    @property
    def _is_open_to_all(self) -> bool:
        """Whether nobody has to prove an address to register."""
        return not self._live.current.registration.requires_code

    def _find_reapply_at(self, user: User) -> datetime | None:
        return find_reapply_at(user, self._live.current.registration.reapply_after, self._now())

    def _proves(self, proof: str | None) -> bool:
        try:
            return proof is not None and bool(self._codes.find_proven_address(proof, "register"))
        except InvalidCode:
            return False
