"""Signals: facts about an applicant that a reviewer wants to know before deciding. None of them refuses anybody.

Two statements tell them for a page of the queue: earlier decisions, and everything else. Where players were in the game
is read from our own copy (`PlayerAddress`), which the sync keeps: AuthMe's table may be on another server, and has no
index of addresses. While it is away newer addresses are missing, and the queue is not.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import IPv4Address, ip_address
from statistics import median
from typing import Annotated, Any, Final, Literal, get_args

from msgspec import Meta
from peewee import MySQLDatabase

from plugin_bridge.authme.players import Players, PlayersUnavailable
from regsvc.core.clock import Clock, epoch_ms, from_epoch_ms
from regsvc.core.shapes import Moment, Output, Username
from regsvc.core.text import name_key
from regsvc.database.bulk import select_rows, upsert_query
from regsvc.database.models import BANNED, REJECTED, PlayerAddress, Review, User
from regsvc.http.messages import Count, Status

_MAX_REVIEWS: Final = 10_000  # for the names and addresses of one page together
_MAX_ROWS: Final = 1_500  # of all networks of a page together
_MAX_OF_NETWORK: Final = 1_000
_MIN_OF_NETWORK: Final = 10
_MAX_ALIKE: Final = 20
_RECENT: Final = 200  # results of the questionnaire, by which the usual time is told
_FEW: Final = 10
_FAST: Final = 10  # times as fast as usual
_SHOWN: Final = 5
_COPIED: Final = 5_000  # of AuthMe's rows at once
_ROWS_PER_STATEMENT: Final = 500
_JOINED: Final = 400  # selections: SQLite joins no more than 500
_FIRST: Final = {BANNED: 0, REJECTED: 1}

Kind = Literal[
    "same_address",
    "same_network",
    "same_email",
    "earlier_ban",
    "earlier_rejection",
    "look_alike",
    "game_first",
    "no_email",
    "unproven_email",
    "fast_answers",
    "minecraft_account",
    "no_minecraft_account",
]
Source = Literal["registration", "login", "game_login", "game_registration"]
_SOURCES: Final[Mapping[str, Source]] = {"ip": "game_login", "regip": "game_registration"}
Network = str
"""The first three numbers of an IPv4 address, or the first four groups of an IPv6 one, each written out."""
FindAccounts = Callable[[Mapping[str, str]], Mapping[str, bool]]
"""Whether names, with their platforms, are those of Minecraft accounts; unknown ones are left out."""


class NeighbourFields(Output, frozen=True):
    """Another user whom a signal is about."""

    username: Username
    status: Status


class SignalFields(Output, frozen=True):
    """A fact about an applicant, which refuses nobody; `users` are at most 5, banned ones first."""

    kind: Annotated[
        str,
        Meta(
            extra_json_schema={"enum": list(get_args(Kind))},
            description="`same_address`, `same_network`: others had the address, or one of its IPv4 /24 or IPv6 /64. "
            "`same_email`: the proven address was another name's. `earlier_ban`, `earlier_rejection`: of the name or "
            "the proven address. `look_alike`: others' names differ by I, l and 1 or O and 0 alone. `game_first`: "
            "registered in the game. `no_email`, `unproven_email`: where addresses have to be proven. `fast_answers`: "
            "within a tenth of the usual time. `minecraft_account`, `no_minecraft_account`: whether the name is one's.",
            examples=["same_network"],
        ),
    ]
    count: Annotated[int, Meta(ge=0, examples=[1], description="Of other users, or of earlier decisions.")] = 0
    users: tuple[NeighbourFields, ...] = ()
    sources: Annotated[
        tuple[Annotated[str, Meta(extra_json_schema={"enum": list(get_args(Source))})], ...],
        Meta(description="Where the others had the address.", examples=[["registration"]]),
    ] = ()
    seconds: Annotated[
        int | None, Meta(description="Of `fast_answers`: from the proof of the address to the answers.")
    ] = None
    usual_seconds: Annotated[int | None, Meta(description="Of `fast_answers`: the median of recent applications.")] = (
        None
    )


class RejectionFields(Output, frozen=True):
    """Earlier rejections of this name, or of this e-mail address under any name."""

    count: Count = 0
    last_at: Moment | None = None
    last_reason: Annotated[str, Meta(examples=["Too young"])] | None = None


@dataclass(frozen=True)
class Findings:
    """Facts about an applicant: earlier rejections, and all signals."""

    rejections: RejectionFields
    signals: tuple[SignalFields, ...]


def is_warning(signal: SignalFields) -> bool:
    """Return whether a reviewer should look twice: that a name is a Minecraft account's is no reason to."""
    return signal.kind != "minecraft_account"


def find_nothing(_names: Mapping[str, str]) -> Mapping[str, bool]:
    """Return nothing: `FindAccounts` where accounts are not looked up."""
    return {}


def find_out(
    users: Sequence[Any], find_accounts: FindAccounts = find_nothing, *, tells_email: bool = True
) -> dict[int, Findings]:
    """Return what is known of applicants by user id, with two statements, for rows of the user list.

    `tells_email`: whether applicants have to prove an address, so that one who has not is told from the others.
    """
    if not users:
        return {}
    reviews, others = _Reviews(users), _Others(users)
    accounts = find_accounts({user.username: user.platform for user in users})
    found = {}
    for user in users:
        signals = [*others.signals_of(user), *reviews.signals_of(user, others.of_mailbox(user))]
        if user.origin == "adopted":
            signals.append(SignalFields("game_first"))
        if tells_email and not user.is_email_verified:
            signals.append(SignalFields("unproven_email" if user.email else "no_email"))
        if (has_account := accounts.get(user.username)) is not None:
            signals.append(SignalFields("minecraft_account" if has_account else "no_minecraft_account"))
        found[user.id] = Findings(_summarize(reviews.of(user)), tuple(signals))
    return found


# --- earlier decisions ---


class _Reviews:
    """Earlier decisions about the names and the proven mailboxes of applicants."""

    def __init__(self, users: Sequence[Any]) -> None:
        names = {user.username_key for user in users}
        mailboxes = {user.proven_mailbox for user in users if user.proven_mailbox is not None}
        fields = (Review.id, Review.username, Review.username_key, Review.mailbox, Review.transition)
        found = (
            Review.select(*fields, Review.status_before, Review.status_after, Review.reason, Review.reviewed_at)
            .where(Review.username_key.in_(names) | Review.mailbox.in_(mailboxes))
            .order_by(Review.id.desc())
            .limit(_MAX_REVIEWS)
        )
        self._by_name: dict[str, list[Review]] = {}
        self._by_mailbox: dict[str | None, list[Review]] = {}
        for review in found:
            self._by_name.setdefault(review.username_key, []).append(review)
            self._by_mailbox.setdefault(review.mailbox, []).append(review)
        self._by_mailbox.pop(None, None)  # reviews without an address are not each other's

    def of(self, user: Any) -> list[Review]:
        """Return the decisions, the newest first."""
        by_name, of_mailbox = self._by_name.get(user.username_key, ()), self._by_mailbox.get(user.proven_mailbox, ())
        distinct = {review.id: review for review in (*by_name, *of_mailbox)}
        return [distinct[number] for number in sorted(distinct, reverse=True)]

    def signals_of(self, user: Any, sharing: Sequence[NeighbourFields]) -> Iterator[SignalFields]:
        """Yield the signals that the decisions give. `sharing`: users who have the mailbox now."""
        reviews = self.of(user)
        kinds: tuple[tuple[Kind, str, str], ...] = (
            ("earlier_ban", "ban", BANNED),
            ("earlier_rejection", "reject", REJECTED),
        )
        for kind, transition, status in kinds:
            about = [review for review in reviews if review.transition == transition]
            if about:
                names = dict.fromkeys(review.username for review in about)
                yield SignalFields(kind, len(about), tuple(NeighbourFields(name, status) for name in names)[:_SHOWN])
        others = {name_key(it.username): it for it in sharing}
        for review in reviews:
            if review.username_key != user.username_key:
                status = review.status_after or review.status_before
                others.setdefault(review.username_key, NeighbourFields(review.username, status))
        if others:
            yield SignalFields("same_email", len(others), tuple(others.values())[:_SHOWN])


def _summarize(reviews: Sequence[Review]) -> RejectionFields:
    rejections = [review for review in reviews if review.transition == "reject"]
    if not rejections:
        return RejectionFields()
    return RejectionFields(len(rejections), rejections[0].reviewed_at, rejections[0].reason)


# --- addresses in the game ---


def copy_addresses(players: Players, keep: timedelta, clock: Clock) -> int:
    """Copy from AuthMe's table where players logged in, or registered, since the newest copy; return how many.

    A look at the whole table there, of which only news cross the wire. `keep`: how long addresses are kept. While the
    table is away nothing is copied, which the sync tells; the next call copies what is missing then.
    """
    now = clock()
    newest = PlayerAddress.select().order_by(PlayerAddress.seen_at.desc()).first()
    oldest = now - keep
    since = oldest if newest is None else max(oldest, min(newest.seen_at, now))
    try:
        found = players.find_addresses(epoch_ms(since), _COPIED)
    except PlayersUnavailable:
        return 0
    names = [name for name, *_rest in found]
    ids = dict(select_rows(User._meta.database, User, [User.username_key, User.id], User.username_key, names))
    rows: list[dict[Any, Any]] = []
    for name, ip, regip, last_login, regdate in found:
        for source, written, milliseconds in (("ip", ip, last_login), ("regip", regip, regdate)):
            address = parse_ip(written)
            milliseconds = milliseconds or 0
            if name in ids and address is not None and epoch_ms(oldest) < milliseconds <= epoch_ms(now):
                row = {PlayerAddress.user: ids[name], PlayerAddress.source: source, PlayerAddress.address: address}
                rows.append(row | {PlayerAddress.seen_at: from_epoch_ms(milliseconds)})
    unique, overwrite = (PlayerAddress.user, PlayerAddress.source), (PlayerAddress.address, PlayerAddress.seen_at)
    with User._meta.database.atomic():
        for start in range(0, len(rows), _ROWS_PER_STATEMENT):
            some = rows[start : start + _ROWS_PER_STATEMENT]
            upsert_query(PlayerAddress, some, unique=unique, overwrite=overwrite).execute()
    return len(rows)


def parse_ip(written: str | None) -> str | None:
    """Return the address as we write addresses, or None where it tells nothing."""
    return str(ip_address(written)) if written is not None and _network_of(written) is not None else None


# --- other users ---


@dataclass
class _Other:
    """Another user, with their addresses and where those come from."""

    id: int
    username: str
    status: str
    addresses: dict[str, set[Source]] = field(default_factory=dict)

    @property
    def order(self) -> tuple[int, int]:
        return _FIRST.get(self.status, 2), -self.id


class _Others:
    """Other users of the same networks, those whose names look alike, and the time that answers usually take."""

    def __init__(self, users: Sequence[Any]) -> None:
        self._own = {user.id: _addresses_of(user) for user in users}
        self._near: dict[Network, dict[int, _Other]] = {}
        self._alike: dict[str, list[_Other]] = {}
        self._sharing: dict[str, list[_Other]] = {}
        self._usual: float | None = None
        networks = dict.fromkeys(network for own in self._own.values() for network in own.values())
        is_timed = any(user.answer_seconds is not None for user in users)
        times = []
        addresses = dict.fromkeys(address for own in self._own.values() for address in own)
        for number, username, status, source, value in _select(networks, addresses, users, is_timed=is_timed):
            if source == "time":
                times.append(int(value))
            elif source == "look":
                self._alike.setdefault(value, []).append(_Other(number, username, status))
            elif source == "mailbox":
                self._sharing.setdefault(value, []).append(_Other(number, username, status))
            # of IPv4, addresses of these networks alone are found
            elif (network := _network_of(value) if ":" in value else value.rpartition(".")[0]) is not None:
                of_network = self._near.setdefault(network, {})
                other = of_network.get(number)
                if other is None:
                    other = of_network[number] = _Other(number, username, status)
                other.addresses.setdefault(value, set()).add(source)
        if len(times) >= _FEW:
            self._usual = median(times)

    def signals_of(self, user: Any) -> Iterator[SignalFields]:
        """Yield the signals that other users of a network, or with a name like this, give."""
        own = self._own[user.id]
        near = {other.id: other for network in {*own.values()} for other in self._near.get(network, {}).values()}
        near.pop(user.id, None)
        same = [other for other in near.values() if not own.keys().isdisjoint(other.addresses)]
        sharing = {other.id for other in same}
        yield from _signal("same_address", same, own)
        yield from _signal("same_network", [other for other in near.values() if other.id not in sharing])
        yield from _signal("look_alike", [it for it in self._alike.get(user.look_key, ()) if it.id != user.id])
        seconds = user.answer_seconds
        if self._usual is not None and seconds is not None and seconds * _FAST <= self._usual:
            yield SignalFields("fast_answers", seconds=seconds, usual_seconds=round(self._usual))

    def of_mailbox(self, user: Any) -> list[NeighbourFields]:
        """Return the others who have proven an address of the user's mailbox, banned ones first."""
        others = [it for it in self._sharing.get(user.proven_mailbox, ()) if it.id != user.id]
        return [NeighbourFields(it.username, it.status) for it in sorted(others, key=lambda it: it.order)]


def _signal(kind: Kind, others: Iterable[_Other], addresses: Collection[str] | None = None) -> Iterator[SignalFields]:
    """Yield the signal about these users, if there are any; its sources are those of `addresses`, or of all."""
    found = sorted(others, key=lambda other: other.order)
    if not found:
        return
    sources = {
        source
        for other in found
        for address, its in other.addresses.items()
        if addresses is None or address in addresses
        for source in its
    }
    shown = tuple(NeighbourFields(other.username, other.status) for other in found[:_SHOWN])
    yield SignalFields(kind, len(found), shown, tuple(sorted(sources)))


def _addresses_of(user: Any) -> dict[str, Network]:
    """Return the applicant's own addresses that tell something, of whatever source, with their networks."""
    listed = (user.registration_ip, *(user.game_addresses or "").split(","), *(user.clients or "").split(","))
    return {address: network for address in listed if address and (network := _network_of(address)) is not None}


def _select(
    networks: Collection[Network], addresses: Collection[str], users: Sequence[Any], *, is_timed: bool
) -> Iterator[tuple[Any, ...]]:
    """Yield rows of id, name, status, source and address, or what else the source says, with one statement.

    Each network has a bound of its own, so that a crowded one takes nothing from the others. Its banned users, and
    those of the very addresses, are looked for apart, lest the bound hide them.
    """
    database = User._meta.database
    limit = max(_MIN_OF_NETWORK, min(_MAX_OF_NETWORK, _MAX_ROWS // max(1, len(networks))))
    person, joined = "u.id, u.username, u.status", "JOIN regsvc_user u ON u.id = a.user_id"
    registered = f"SELECT {person}, 'registration', u.registration_ip FROM regsvc_user u"  # noqa: S608
    selections = [
        (registered, "u.registration_ip", "", limit),
        # with the plus, SQLite does not read all who are banned to find those of an address
        (registered, "u.registration_ip", f"+u.status = '{BANNED}' AND ", _SHOWN),
        (f"SELECT {person}, 'login', a.client FROM regsvc_known_client a {joined}", "a.client", "", limit),  # noqa: S608
        (f"SELECT {person}, a.source, a.address FROM regsvc_player_address a {joined}", "a.address", "", limit),  # noqa: S608
    ]
    groups = [[f"{registered} WHERE u.registration_ip = ? LIMIT {limit:d}"] * len(addresses)]
    values = list[Any](addresses)
    for select, column, condition, at_most in selections:
        branches = []
        for network in networks:
            ranges = sorted(_text_ranges(network))
            is_near = " OR ".join([f"({column} >= ? AND {column} < ?)"] * len(ranges))
            branches.append(f"{select} WHERE {condition}({is_near}) LIMIT {at_most:d}")
            values += [bound for span in ranges for bound in span]
        groups.append(branches)
    mailboxes = dict.fromkeys(user.proven_mailbox for user in users if user.proven_mailbox is not None)
    shared: tuple[tuple[str, str, str, Collection[str]], ...] = (
        ("look", "look_key", "", dict.fromkeys(user.look_key for user in users)),
        ("mailbox", "mailbox", " AND u.is_email_verified = 1", mailboxes),
    )
    for source, column, condition, keys in shared:
        if not keys:
            continue
        place = f"ROW_NUMBER() OVER (PARTITION BY u.{column} ORDER BY u.id DESC) AS place"
        of_keys = f"u.{column} IN ({_marks(keys)}){condition}"
        found = f"SELECT {person}, u.{column}, {place} FROM regsvc_user u WHERE {of_keys}"  # noqa: S608
        columns = f"id, username, status, '{source}', {column}"
        groups.append([f"SELECT {columns} FROM ({found}) found WHERE place <= {_MAX_ALIKE} LIMIT 2000"])  # noqa: S608
        values += keys
    if is_timed:
        results = "SELECT id, answer_seconds FROM regsvc_questionnaire_result WHERE user_id IS NOT NULL"
        newest = f"({results} ORDER BY id DESC LIMIT {_RECENT:d}) newest"
        groups.append(
            [f"SELECT 0, '', '', 'time', answer_seconds FROM {newest} WHERE answer_seconds IS NOT NULL LIMIT 1000"]  # noqa: S608
        )
    if isinstance(database, MySQLDatabase):
        sql = " UNION ALL ".join(f"({branch})" for branches in groups for branch in branches)
    else:  # of other joins, SQLite joins as many again
        joins = [branches[start:][:_JOINED] for branches in groups for start in range(0, len(branches), _JOINED)]
        sql = " UNION ALL ".join(
            f"SELECT * FROM ({' UNION ALL '.join(f'SELECT * FROM ({branch})' for branch in branches)})"  # noqa: S608
            for branches in joins
        )
    for number, username, status, source, value in database.execute_sql(sql.replace("?", database.param), values):
        yield number, username, status, _SOURCES.get(source, source), value


def _marks(values: Collection[Any]) -> str:
    return ", ".join("?" * len(values))


def _network_of(written: str | None) -> Network | None:
    """Return the network of an address; None without one, and for loopback, where a proxy hides the addresses."""
    try:
        address = ip_address((written or "").removesuffix("/64"))  # of a login, an IPv6 address is its network
    except ValueError:
        return None
    if address.is_loopback:
        return None
    if isinstance(address, IPv4Address):
        return str(address).rpartition(".")[0]
    return ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":")[:4])


def _text_ranges(network: Network) -> Iterator[tuple[str, str]]:
    """Return ranges of texts among which are the addresses of the network, so that the column's index finds them."""
    if ":" not in network:
        yield f"{network}.", f"{network}/"  # the character after the dot
        return
    groups, starts = network.split(":"), {network}
    for begin in range(4):  # zeros may be left out, of the network alone or together with those of the host
        for end in range(begin + 1, 5):
            if set(groups[begin:end]) == {"0"} and (end == 4 or end - begin > 1):
                starts.add(":".join(groups[:begin]) + ":" + "".join(f":{group}" for group in groups[end:]))
    for start in starts:
        yield f"{start}:", f"{start};"  # the character after the colon
