"""Things that members of the team made by their right: listed, and ended for good."""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from peewee import Database

from regsvc.auth.entitlement import MadeThings, OpenThing
from regsvc.core.text import name_key
from regsvc.database.audit import Actor, Audit
from regsvc.database.models import User

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MadeByRight:
    """All that is made by rights. Blocking: in the caller's transaction, or one of its own.

    Whether something works is asked as it is used (`regsvc.auth.entitlement`). Here it is ended, so that lists and the
    audit log show that, and so that it does not revive with the right.
    """

    database: Database
    kinds: Mapping[str, MadeThings]
    """By the name that the audit log has for it."""
    audit: Audit

    def list_of(self, username: str) -> dict[str, list[str]]:
        """Return labels of what this user has open, by kind; kinds of which there is nothing are left out."""
        found = {kind: list(source.list_open(name_key(username))) for kind, source in self.kinds.items()}
        return {kind: [it.label for it in things if it.cause is None] for kind, things in found.items() if things}

    def end_of(self, username: str, cause: str, by: Actor, *, kept: Collection[object] = ()) -> Counter[str]:
        """End all that this user has open, but the sessions `kept` (`jti`); return the numbers by kind."""
        return self._end(lambda it: cause if it.id not in kept else None, by, name_key(username))

    def end_unentitled(self, dismissed: Collection[str], by: Actor) -> Counter[str]:
        """End what works no more, and all of the users `dismissed`, in lower case; return the numbers by kind."""
        return self._end(lambda it: "not_in_team" if it.owner in dismissed else it.cause, by)

    def _end(self, find_cause: Callable[[OpenThing], str | None], by: Actor, owner: str | None = None) -> Counter[str]:
        counts, told = Counter[str](), dict[tuple[str, str], dict[str, list[str]]]()
        with self.database.atomic():
            for kind, source in self.kinds.items():
                ended = [(it, cause) for it in source.list_open(owner) if (cause := find_cause(it)) is not None]
                if ended:
                    source.end([it.id for it, _cause in ended])
                counts[kind] = len(ended)
                for it, cause in ended:
                    told.setdefault((it.owner, cause), {}).setdefault(kind, []).append(it.label)
            self._record(told, by)
        if told:
            log.info("ended without the right: %s", ", ".join(f"{_WORDS[kind]} {counts[kind]}" for kind in self.kinds))
        return counts

    def _record(self, told: Mapping[tuple[str, str], Mapping[str, Collection[str]]], by: Actor) -> None:
        owners = sorted({owner for owner, _cause in told})
        users = User.select(User.username_key, User.username).where(User.username_key.in_(owners)) if owners else ()
        names = {user.username_key: user.username for user in users}
        for (owner, cause), labels in sorted(told.items()):
            detail = {"cause": cause, **{kind: ", ".join(of_kind) for kind, of_kind in labels.items()}}
            self.audit.record("user.rights_ended", by, names.get(owner, owner), detail)


_WORDS = {
    "sessions": "sessions",
    "links": "links",
    "tokens": "tokens",
    "invitations": "invitations",
    "chatAccounts": "chat accounts",
}
"""The kinds as the log names them."""
