"""Judges what we changed in AuthMe's table: column by column, from what is known of each person from outside.

It knows nothing of how the sync works. A change that no reason of its list allows is an AssertionError.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from plugin_bridge.authme.players import lock_text, locked_hash
from regsvc.database.models import APPROVED, User
from tests.support.authme_database import Row
from tests.support.authme_like import StoredPassword
from tests.support.authme_tables import AuthMeTable, dump_table

NO_EMAIL = (None, "", "your@email.com")
SPARED = ("ip", "lastlogin", "isLogged", "x", "y", "z", "world", "yaw", "pitch")
"""Columns that we never write, not even in a row that we make."""


@dataclass
class Known:
    """One person, as somebody sees it who watches both sides.

    own             the passwords that were this user's own, newest last; empty: none that anybody knows of
    others          every other password that was ever typed under this name: none of them may open anything
    is_strangers    the row was registered in the game under the name of a user who was there already
    has_left        the row went in the game, and nobody has asked for it since
    is_promised     the newest of `own` was set here while the row was locked: until it is open, nothing that is typed
                    in the game takes that back, nor that the row goes
    is_asked_back   somebody has just asked for the row; where that was cut short it may come, or not
    is_unsure       something was cut short or not seen: any of `own` may be the one that counts
    premium         what the owner's row last had as premiumUUID
    """

    name: str
    own: list[str] = field(default_factory=list)
    others: set[str] = field(default_factory=set)
    is_strangers: bool = False
    has_left: bool = False
    is_promised: bool = False
    is_asked_back: bool = False
    is_unsure: bool = False
    premium: str | None = None

    @property
    def key(self) -> str:
        return self.name.lower()

    @property
    def counts(self) -> list[str]:
        """The passwords of which one is the right one."""
        return self.own if self.is_unsure else self.own[-1:]

    def forget(self) -> None:
        """The user is gone; whoever comes next under this name has nothing of it."""
        self.others |= set(self.own)
        self.own, self.is_unsure, self.has_left, self.premium = [], False, False, None
        self.is_promised = False

    def opens(self, row: Row) -> list[str]:
        """Of all passwords ever typed under this name, those that AuthMe would take now."""
        return self.opened_by(str(row["password"]))

    def opened_by(self, hash_: str | None) -> list[str]:
        """The same of a hash; None: nothing opens it."""
        if hash_ is None:
            return []
        stored = StoredPassword(hash_)
        return [password for password in [*self.own, *sorted(self.others)] if stored.is_made_from(password)]


@dataclass(frozen=True)
class Picture:
    """AuthMe's rows by name: every byte, and the values."""

    exact: Mapping[str, Row]
    rows: Mapping[str, Row]


def is_locked(row: Row) -> bool:
    return str(row["password"]).startswith("!locked!")


def take_picture(table: AuthMeTable) -> Picture:
    """AssertionError when a name has two rows."""
    exact: dict[str, Row] = {}
    for row in dump_table(table):
        name = _plain(str(row["username"]))
        assert name not in exact, f"two rows of {name}"
        exact[name] = row
    return Picture(exact, {row["username"]: row for row in table.database.query(f"SELECT * FROM {table.name}")})


def judge(before: Picture, after: Picture, people: Mapping[str, Known], users: Mapping[str, User]) -> None:
    """Whether we may have made all of `after` from `before`; `users` are those there are afterwards."""
    for key in {*before.exact, *after.exact}:
        person, user = people[key], users.get(key)
        old, new = before.rows.get(key), after.rows.get(key)
        if new is None:
            assert user is None, f"the row of {key} went, and the user is {user and user.status}"
        elif old is None:
            _judge_new_row(person, user, new)
        elif changed := {column for column in new if before.exact[key][column] != after.exact[key][column]}:
            _judge_changes(person, user, old, new, changed)


def _judge_new_row(person: Known, user: User | None, row: Row) -> None:
    assert user is not None, f"a row for nobody: {person.key}"
    if user.status != APPROVED:  # there was none yet as the ban came: what an approval had left to do is done first
        kept = locked_hash(str(row["password"]))
        assert set(person.opened_by(kept)) & set(person.counts), f"a row for {person.key}, who is {user.status}"
    assert not person.has_left or person.is_asked_back, f"{person.key} left the game, and nobody asked for the row"
    person.has_left = person.is_promised = False
    assert row["realname"] == user.username
    if user.status == APPROVED:
        assert set(person.opens(row)) & set(person.counts), f"{person.key} got a row with another password"
    assert (row["ip"], row["lastlogin"], row["isLogged"], row["hasSession"]) == (None, None, 0, 0)
    assert (row["x"], row["y"], row["z"], row["world"], row["yaw"], row["pitch"]) == (0, 0, 0, "world", None, None)
    assert row["email"] in (user.email, *NO_EMAIL)


def _judge_changes(person: Known, user: User | None, old: Row, new: Row, changed: Collection[str]) -> None:
    told = f"{sorted(changed)} of {person.key}"
    assert user is not None, f"{told}, who is nobody's"
    is_opened = person.is_strangers and user.status == APPROVED and not is_locked(new)
    may_change = {"password", "salt", "hasSession", "premiumUUID", "email", "realname"} | (
        {"totp"} if is_opened else set()
    )
    assert set(changed) <= may_change, told
    if "password" in changed:
        _judge_password(person, user, old, new)
    if "hasSession" in changed:
        assert new["hasSession"] == 0, told
    if "totp" in changed:
        assert new["totp"] is None, told
    if "premiumUUID" in changed:
        is_put_back = new["premiumUUID"] == person.premium and not is_locked(new)
        assert new["premiumUUID"] is None or is_put_back, told
    if "realname" in changed:
        assert new["realname"] == user.username, told
        assert str(new["realname"]).lower() == person.key, told
    if "email" in changed:
        assert new["email"] == user.email, told
        assert is_opened or (old["email"] in NO_EMAIL and user.is_email_verified), told


def _judge_password(person: Known, user: User, old: Row, new: Row) -> None:
    if is_locked(new):
        assert user.status != APPROVED or person.is_strangers, f"{person.key} was locked, being {user.status}"
        is_kept = new["password"] == lock_text(str(old["password"])) or is_locked(old)
        # a ban that was over, a promise kept, and another ban
        is_own = person.is_promised and set(person.opened_by(locked_hash(str(new["password"])))) & set(person.counts)
        assert is_kept or is_own, f"{person.key} was locked with another password"
        return
    assert user.status == APPROVED, f"{person.key} was opened, being {user.status}"
    assert set(person.opens(new)) & set(person.counts), f"{person.key} was given another password"
    person.is_strangers = person.is_promised = False


def judge_rest(picture: Picture, people: Mapping[str, Known], users: Mapping[str, User]) -> None:
    """Whether this is where the two sides may come to rest after a run of the sync."""
    for person in people.values():
        row, user = picture.rows.get(person.key), users.get(person.key)
        told = f"{person.name}, {user.status if user is not None else 'nobody'}"
        if row is None:
            has_row = user is not None and user.status == APPROVED and bool(person.own) and not person.has_left
            assert not has_row, f"{told}, has no row"
        else:
            assert user is not None, f"{told}, was not adopted"
            _judge_door(person, user.status == APPROVED, row, told)


def _judge_door(person: Known, may_play: bool, row: Row, told: str) -> None:
    if is_locked(row):
        assert not may_play or person.is_strangers, f"{told}, is locked"
        assert person.opens(row) == [], told
        return
    assert may_play, f"{told}, is not locked"
    [opened] = person.opens(row)
    assert opened in person.counts, f"{told}: not the password that counts"
    person.others |= {password for password in person.own if password != opened}
    person.own, person.is_unsure, person.is_promised = [opened], False, False


def _plain(dumped: str) -> str:
    """A name of `dump_table`."""
    return (
        dumped.removeprefix("text '").removesuffix("'")
        if dumped.startswith("text ")
        else bytes.fromhex(dumped).decode()
    )
