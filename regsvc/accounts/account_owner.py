"""The user whose password was just checked, at the moment something is done about him."""

from peewee import Database

from regsvc.accounts.login_lookup import Candidate
from regsvc.core.errors import Unauthorized
from regsvc.database.models import BANNED, User


def get_owner(database: Database, candidate: Candidate) -> User:
    """The candidate's user, held until the transaction ends.

    Raises `Unauthorized` where his sessions have ended since the password was checked: whatever did that (an admin's
    reset, a ban, a deletion) is the newer word.
    """
    query = User.select().where(User.username_key == candidate.key)
    user: User | None = (query.for_update() if database.for_update else query).first()
    if user is None or user.id != candidate.user_id or user.status == BANNED:
        raise Unauthorized
    if user.token_generation != candidate.token_generation:
        raise Unauthorized
    return user
