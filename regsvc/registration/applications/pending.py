"""Locks on applications that wait for review, for changes that a decision must not overtake."""

from peewee import Database

from regsvc.auth.application_tokens import ApplicationTokens
from regsvc.core.errors import ApplicationNotFound, WrongStatus
from regsvc.database.bulk import select_rows
from regsvc.database.models import PENDING, User


def lock_pending(database: Database, tokens: ApplicationTokens, token: str) -> User:
    """Return the user of this token, locked in the caller's transaction while pending.

    Raises `ApplicationNotFound` and `WrongStatus`.
    """
    user = tokens.find_users([token]).get(token)
    if user is None:
        raise ApplicationNotFound
    for (status,) in select_rows(database, User, [User.status], User.id, [user.id], for_update=True):
        if status != PENDING:
            raise WrongStatus(status)
        return user
    raise ApplicationNotFound
