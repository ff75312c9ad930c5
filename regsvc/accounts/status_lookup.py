"""The public status of a name, and its details for the owner and for admins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from peewee import Database

from regsvc.core.caller import VerifiedSession
from regsvc.core.names import name_key
from regsvc.core.shared_lookup import SharedLookup
from regsvc.database.bulk import select_rows
from regsvc.database.engine import Worker
from regsvc.database.models import User


@dataclass(frozen=True)
class UserStatus:
    """The status of a name. The fields after `has_details` are for its owner and for admins, and empty for others."""

    username: str
    status: str
    has_details: bool = False
    email: str | None = None
    reason: str | None = None
    reviewed_at: datetime | None = None
    ban_expires_at: datetime | None = None


class StatusLookup:
    """Look-ups of the status by name. Those without a session, by far the most common, share queries."""

    def __init__(self, database: Database, worker: Worker) -> None:
        self._database = database
        self._worker = worker
        self._public: SharedLookup[str, UserStatus] = SharedLookup(self._find_public)

    async def find(self, username: str, session: VerifiedSession | None) -> UserStatus | None:
        """Return as much of the status as this session may see, or None for a name without a user.

        Raises `DatabaseUnavailable` and `Overloaded`.
        """
        key = name_key(username)
        if session is None:
            return await self._public.find(key)
        return await self._worker.run(self._select_for, key, session)

    async def _find_public(self, keys: Sequence[str]) -> Mapping[str, UserStatus]:
        return await self._worker.run(self._select_public, keys)

    def _select_public(self, keys: Sequence[str]) -> Mapping[str, UserStatus]:
        """Return the public status by key."""
        fields = [User.username_key, User.username, User.status]
        rows = select_rows(self._database, User, fields, User.username_key, keys)
        return {key: UserStatus(username, status) for key, username, status in rows}

    def _select_for(self, key: str, session: VerifiedSession) -> UserStatus | None:
        user = User.get_or_none(User.username_key == key)
        if user is None:
            return None
        if not (session.is_admin or session.user_id == user.id):
            return UserStatus(user.username, user.status)
        return UserStatus(
            user.username, user.status, True, user.email, user.reason, user.reviewed_at, user.ban_expires_at
        )
