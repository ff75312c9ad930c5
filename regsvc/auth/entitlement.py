"""The one rule about what a member of the team makes by their right: whether it works at this moment.

Sessions at /admin, API tokens, password links that are handed over, invitations and chat accounts remember by whom and
by what they were made. They work as long as all that was required to make them still holds.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from peewee import Database

from regsvc.core.errors import Unauthorized
from regsvc.core.rights import EVERYTHING, NO_RIGHTS, Permission, Rights, RightsHolder, Team
from regsvc.core.text import name_key
from regsvc.database.audit import Actor, Audit
from regsvc.database.bulk import select_rows
from regsvc.database.models import APPROVED, Review, Token, User

EndCause = Literal["expired", "not_in_team", "second_factor", "token_ended", "target_has_rank"]
"""Why something does not work: its time is over; its maker may not do this any more, or did not when a decision ended
it; they have to show a second factor today and did not then; the token that made it ended; the user for whom it is has
a rank by now that its maker may not act on."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of something that was made by a right. `maker` is in lower case; None: the host, on the command line."""

    maker: str | None
    made_at: datetime
    has_second_factor: bool = False
    """Whether the maker had shown a second factor."""
    token_id: int | None = None
    """The API token that it was made with; None: by a person."""


def _require_nothing() -> None:
    """Refuse nobody: the command line acts with nothing that ends."""


@dataclass(frozen=True)
class Principal:
    """The principal behind a decision: who is named in the audit log, what they may do, and whose name they bear.

    `username` is a user's, for an API token its maker's; empty: the host, on the command line.
    """

    actor: Actor
    rights: Rights
    username: str = ""
    ends_at: datetime | None = None
    """Of an API token: when it ends, and with it what it makes."""
    token_id: int | None = None
    """Of an API token."""
    has_second_factor: bool = False
    """Whether they have shown a second factor."""
    require_current: Callable[[], None] = field(default=_require_nothing, compare=False, repr=False)
    """Raises a refusal if the token or chat account that they act with gives them this no more; see
    `require_active_token`. Asked in the transaction that acts."""

    @property
    def is_token(self) -> bool:
        """Whether it is a bot, which never takes over the account of a member of the team."""
        return self.token_id is not None

    def origin(self, now: datetime) -> Origin:
        """Return the origin of what they make now."""
        return Origin(name_key(self.username) or None, now, self.has_second_factor, self.token_id)


@dataclass(frozen=True, slots=True)
class MakerState:
    """The state of a maker that decides, now."""

    rights: Rights
    needs_second_factor: bool = False
    lost_at: datetime | None = None
    """When a decision last ended what they had made; None: never."""
    is_token_active: bool = True


def find_cause(
    origin: Origin,
    permission: Permission | None,
    state: MakerState,
    now: datetime,
    *,
    ends_at: datetime | None = None,
    target_rank: int = 0,
) -> EndCause | None:
    """Return why it does not work, or None if it does. `permission`: what its maker needs to have; None: any."""
    if ends_at is not None and ends_at <= now:
        return "expired"
    if not state.rights.may(permission) or (state.lost_at is not None and state.lost_at >= origin.made_at):
        return "not_in_team"
    if state.needs_second_factor and not origin.has_second_factor:
        return "second_factor"
    if not state.is_token_active:
        return "token_ended"
    if target_rank and (target_rank >= state.rights.rank or origin.token_id is not None):
        return "target_has_rank"
    return None


@dataclass(frozen=True)
class Entitlements:
    """The rule, with what it needs from the database. Blocking: in the transaction that uses what was made."""

    team: Team
    now: Callable[[], datetime]

    def find_cause(
        self,
        origin: Origin,
        permission: Permission | None,
        *,
        ends_at: datetime | None = None,
        target: RightsHolder | None = None,
        is_kept: bool = False,
    ) -> EndCause | None:
        """Return why it does not work, or None, as the function of this name does.

        `target`: the user for whom a link is. `is_kept`: by the rights that AuthMe may merely hold, so that nothing is
        ended that works again in a moment.
        """
        state = self.state_of(origin, is_kept=is_kept)
        target_rank = 0 if target is None else self.team.rank_of(target)
        return find_cause(origin, permission, state, self.now(), ends_at=ends_at, target_rank=target_rank)

    def state_of(self, origin: Origin, *, is_kept: bool = False) -> MakerState:
        """Load the state of a maker. One statement without a token, for a maker without rights; else up to three."""
        is_active = origin.token_id is None or find_active_token(origin.token_id, self.now()) is not None
        if origin.maker is None:
            return MakerState(EVERYTHING, is_token_active=is_active)
        columns = (User.username, User.status, User.role)
        maker = User.select(*columns).where(User.username_key == origin.maker).first()
        if maker is None:
            return MakerState(NO_RIGHTS)
        rights = self.team.kept_rights_of(maker) if is_kept else self.team.rights_of(maker)
        if not rights.permissions:
            return MakerState(rights)
        later = (Review.username_key == origin.maker) & (Review.reviewed_at >= origin.made_at)
        # what a ban, a rejection, a reopening or a deletion ended does not revive with the next approval
        is_ending = Review.status_after.is_null() | (Review.status_after != APPROVED)
        newest = Review.select(Review.reviewed_at).where(later, is_ending).order_by(Review.reviewed_at.desc())
        lost_at: datetime | None = newest.limit(1).scalar()
        return MakerState(rights, self.team.needs_second_factor(rights), lost_at, is_active)


def find_active_token(token_id: int, now: datetime) -> Token | None:
    """Return the token with this id if it has not ended."""
    token: Token | None = Token.get_or_none(Token.id == token_id, Token.revoked_at.is_null())
    return token if token is not None and (token.expires_at is None or now < token.expires_at) else None


def require_active_token(token_id: int | None, now: datetime) -> None:
    """Raise `Unauthorized` if the token that makes something has ended; it ends no more before this transaction has."""
    if token_id is None:
        return
    select_rows(Token._meta.database, Token, [Token.id], Token.id, [token_id], for_update=True)
    if find_active_token(token_id, now) is None:
        raise Unauthorized


@dataclass(frozen=True, slots=True)
class OpenThing:
    """Something that was made by a right and has not ended. `label` tells the team what it is, without its secret."""

    id: Any
    owner: str
    label: str
    cause: EndCause | None
    """Why it does not work any more; None: it does."""


class MadeThings(Protocol):
    """A kind of thing that is made by a right."""

    def list_open(self, owner: str | None = None) -> Iterable[OpenThing]:
        """Return those of this maker, in lower case, that have not ended; None: of all makers but the host.

        They are judged by the rights that their makers keep (`Team.kept_rights_of`).
        """
        ...

    def end(self, ids: Sequence[Any]) -> None:
        """End these for good."""
        ...


def find_rights(team: Team, username: str) -> Rights:
    """Return the rights of the user with this name now; none for an unknown name."""
    columns = (User.username, User.status, User.role)
    found = User.select(*columns).where(User.username_key == name_key(username)).first()
    return NO_RIGHTS if found is None else team.rights_of(found)


# --- Things that members of the team made by their right: listed, and ended for good ---


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
