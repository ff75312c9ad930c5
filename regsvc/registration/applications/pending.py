"""Applications that wait for review, locked for changes that a decision must not overtake."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from peewee import Database

from regsvc.auth.application_tokens import ApplicationTokens
from regsvc.core.errors import ApplicationNotFound, WrongStatus
from regsvc.database.bulk import select_rows
from regsvc.database.models import PENDING, User


@dataclass(frozen=True)
class PendingApplications:
    """The users who wait for review, by the tokens of their applications. Blocking."""

    database: Database
    tokens: ApplicationTokens

    @contextmanager
    def locked(self, token: str) -> Iterator[User]:
        """Begin a transaction and yield the user of this token, locked while pending.

        The token is verified before, so that a guess locks nothing, and after, as the lock may have waited for a change
        that ended it. Raises `ApplicationNotFound` and `WrongStatus`.
        """
        with self.database.atomic():
            select_rows(self.database, User, [User.id], User.id, [self._find_user(token).id], for_update=True)
            user = self._find_user(token)
            if user.status != PENDING:
                raise WrongStatus(user.status)
            yield user

    def _find_user(self, token: str) -> User:
        user = self.tokens.find_users([token]).get(token)
        if user is None:
            raise ApplicationNotFound
        return user
