"""Who would have which e-mail: a run finds that in our table; a plan, which writes nothing, has to remember it."""

from collections.abc import Collection
from dataclasses import replace

from regsvc.database.models import User
from regsvc.sync.adoption import Adopted, free_emails, held_emails
from regsvc.sync.bulk.int64_set import Int64Set
from regsvc.sync.bulk.shared_emails import Checksums
from regsvc.sync.decisions import Adopt, Conflict, Decision, Merge
from regsvc.sync.emails import find_real_email


class PredictedEmails:
    """Of one plan. The steps are to come in the order in which a run takes them: the first one gets the e-mail."""

    def __init__(self) -> None:
        self._taken = Int64Set()  # hashes of the keys: 20 MB for a million
        self._given_up: set[str] = set()
        self.contested = Checksums()
        """Of the e-mails taken so far, and of those that a plan in SQL finds somebody else may have."""

    def adopt(self, adoptions: list[Adopt]) -> Adopted:
        """What `adoption.adopt_each` would come back with."""
        conflicts: dict[str, Conflict] = {}
        for address in free_emails(adoptions, conflicts, self._held).values():
            self._take(address.key)
        return Adopted(len(adoptions), conflicts)

    def predict_conflicts(self, username_key: str, decision: Decision) -> Decision:
        """The step, with the conflict that it would end in where a user does not get the e-mail that the game has."""
        if not isinstance(decision, Merge) or decision.takes_email is None:
            return decision
        if self._change(username_key, decision.takes_email):
            return decision
        return replace(decision, conflicts=(*decision.conflicts, Conflict("email", "both")))

    def _change(self, username_key: str, raw: str) -> bool:
        """False: it is somebody else's, or no address."""
        address = find_real_email(raw)
        if address is None:
            return False
        before = User.select(User.email_key).where(User.username_key == username_key).scalar()
        if address.key == before:
            return True
        if self._held([address.key]):
            return False
        if before is not None:
            self._given_up.add(before)
        self._take(address.key)
        return True

    def _take(self, key: str) -> None:
        self._taken.add(hash(key))
        self.contested.add_email(key)

    def _held(self, keys: Collection[str]) -> set[str]:
        return (held_emails(keys) - self._given_up) | {key for key in keys if hash(key) in self._taken}
