"""Prediction of e-mail conflicts for a plan, which writes nothing that our unique index could compare with."""

from collections.abc import Collection
from dataclasses import replace

from regsvc.database.models import User
from regsvc.sync.actions import Adopt, Conflict, Merge, SyncAction
from regsvc.sync.adoption import AdoptionResult, claimable_emails, find_taken_emails
from regsvc.sync.bulk.int64_set import Int64Set
from regsvc.sync.bulk.shared_emails import EmailBloomFilter
from regsvc.sync.emails import find_real_email


class PredictedEmails:
    """E-mails that the users of one plan would have.

    Actions must be given in the order in which a run applies them: the first one gets the e-mail.
    """

    def __init__(self) -> None:
        self._taken = Int64Set()  # hashes of the keys: 20 MB for a million
        self._released: set[str] = set()
        self.maybe_taken = EmailBloomFilter()
        """The e-mails taken so far, and those that a plan in SQL finds in more than one row."""

    def adopt(self, adoptions: list[Adopt]) -> AdoptionResult:
        """Return what `adoption.adopt_each` would return."""
        conflicts: dict[str, Conflict] = {}
        for address in claimable_emails(adoptions, conflicts, self._find_taken).values():
            self._take(address.key)
        return AdoptionResult(len(adoptions), conflicts)

    def predict_conflicts(self, username_key: str, action: SyncAction) -> SyncAction:
        """Return the action, with a conflict added if it would give the user an e-mail that is taken or invalid."""
        if not isinstance(action, Merge) or action.takes_email is None:
            return action
        if self._change(username_key, action.takes_email):
            return action
        return replace(action, conflicts=(*action.conflicts, Conflict("email", "both")))

    def _change(self, username_key: str, raw: str) -> bool:
        """Return False if the e-mail is invalid or another user's."""
        address = find_real_email(raw)
        if address is None:
            return False
        before = User.select(User.email_key).where(User.username_key == username_key).scalar()
        if address.key == before:
            return True
        if self._find_taken([address.key]):
            return False
        if before is not None:
            self._released.add(before)
        self._take(address.key)
        return True

    def _take(self, key: str) -> None:
        self._taken.add(hash(key))
        self.maybe_taken.add_email(key)

    def _find_taken(self, keys: Collection[str]) -> set[str]:
        return (find_taken_emails(keys) - self._released) | {key for key in keys if hash(key) in self._taken}
