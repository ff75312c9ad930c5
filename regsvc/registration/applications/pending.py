"""Locks on applications that wait for review, for changes that a decision must not overtake."""

from peewee import Database

from regsvc.auth.application_tokens import ApplicationTokens
from regsvc.core.errors import ApplicationNotFound, WrongStatus
from regsvc.database.bulk import select_rows
from regsvc.database.models import PENDING, User


def lock_pending(database: Database, tokens: ApplicationTokens, token: str) -> User:
    """Return the user of this token, locked in the caller's transaction while pending.

    The token is verified before, so that a guess locks nothing, and after, as the lock may have waited for a change
    that ended it. Raises `ApplicationNotFound` and `WrongStatus`.
    """
    select_rows(database, User, [User.id], User.id, [_find_user(tokens, token).id], for_update=True)
    user = _find_user(tokens, token)
    if user.status != PENDING:
        raise WrongStatus(user.status)
    return user


def _find_user(tokens: ApplicationTokens, token: str) -> User:
    user = tokens.find_users([token]).get(token)
    if user is None:
        raise ApplicationNotFound
    return user
