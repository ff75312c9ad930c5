"""Audit of our changes to AuthMe's table, column by column, from what an outside observer knows of each person.

It does not depend on how the sync works. A change that no rule allows is an AssertionError.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from plugin_bridge.authme.players import lock_text, locked_hash
from regsvc.database.models import APPROVED, User
from tests.support.authme.authme_database import Row
from tests.support.authme.authme_like import StoredPassword
from tests.support.authme.authme_tables import AuthMeTable, dump_table

NO_EMAIL = (None, "", "your@email.com")


@dataclass
class Known:
    """One person, as known to an observer of both sides.

    own             the passwords that were this user's own, newest last; empty if there are none
    others          every other password that was ever used under this name: none of them may log in
    is_foreign      the row was registered in the game under the name of an existing user
    has_left        the row was removed in the game, and not requested since; None: or `is_recorded` requested it before
    is_recorded     the newest of `own` was set on the web while the row was locked: until it is unlocked, neither a
                    password set in the game nor the removal of the row overrides that; None: that was interrupted
    is_asked_back   the row was just requested; if that was interrupted, it may come or not
    is_unsure       something was interrupted or not seen: any of `own` may be the valid one
    premium         the last premiumUUID of the owner's row
    """

    name: str
    own: list[str] = field(default_factory=list)
    others: set[str] = field(default_factory=set)
    is_foreign: bool = False
    has_left: bool | None = False
    is_recorded: bool | None = False
    is_asked_back: bool = False
    is_unsure: bool = False
    premium: str | None = None

    @property
    def key(self) -> str:
        return self.name.lower()

    @property
    def counts(self) -> list[str]:
        """The passwords of which one is valid."""
        return self.own if self.is_unsure else self.own[-1:]

    def forget(self) -> None:
        """Forget a deleted user; the next one under this name inherits nothing."""
        self.others |= set(self.own)
        self.own, self.is_unsure, self.has_left, self.premium = [], False, False, None
        self.is_recorded = False

    def opens(self, row: Row) -> list[str]:
        """The passwords ever used under this name that AuthMe would accept now."""
        return self.opened_by(str(row["password"]))

    def opened_by(self, hash_: str | None) -> list[str]:
        """The passwords ever used under this name that match the hash; none for None."""
        if hash_ is None:
            return []
        stored = StoredPassword(hash_)
        return [password for password in [*self.own, *sorted(self.others)] if stored.is_made_from(password)]


@dataclass(frozen=True)
class Snapshot:
    """AuthMe's rows by name: the exact bytes, and the values."""

    exact: Mapping[str, Row]
    rows: Mapping[str, Row]


def is_locked(row: Row) -> bool:
    return str(row["password"]).startswith("!locked!")


def take_snapshot(table: AuthMeTable) -> Snapshot:
    """Read AuthMe's table; AssertionError when a name has two rows."""
    exact: dict[str, Row] = {}
    for row in dump_table(table):
        name = _plain(str(row["username"]))
        assert name not in exact, f"two rows of {name}"
        exact[name] = row
    return Snapshot(exact, {row["username"]: row for row in table.database.query(f"SELECT * FROM {table.name}")})


def audit_changes(before: Snapshot, after: Snapshot, people: Mapping[str, Known], users: Mapping[str, User]) -> None:
    """Assert that we were allowed to change `before` into `after`; `users` are those that exist afterwards."""
    for key in {*before.exact, *after.exact}:
        person, user = people[key], users.get(key)
        old, new = before.rows.get(key), after.rows.get(key)
        if new is None:
            assert user is None, f"the row of {key} went, and the user is {user and user.status}"
        elif old is None:
            _audit_new_row(person, user, new)
        elif changed := {column for column in new if before.exact[key][column] != after.exact[key][column]}:
            _audit_changes(person, user, old, new, changed)


def _audit_new_row(person: Known, user: User | None, row: Row) -> None:
    assert user is not None, f"a row without a user: {person.key}"
    if user.status != APPROVED:  # there was none when the ban came: the pending provisioning is done first
        kept = locked_hash(str(row["password"]))
        assert set(person.opened_by(kept)) & set(person.counts), f"a row for {person.key}, who is {user.status}"
    assert not person.has_left or person.is_asked_back, f"{person.key} left the game, and the row was not requested"
    person.has_left = person.is_recorded = False
    assert row["realname"] == user.username
    if user.status == APPROVED:
        assert set(person.opens(row)) & set(person.counts), f"{person.key} got a row with another password"
    assert (row["ip"], row["lastlogin"], row["isLogged"], row["hasSession"]) == (None, None, 0, 0)
    assert (row["x"], row["y"], row["z"], row["world"], row["yaw"], row["pitch"]) == (0, 0, 0, "world", None, None)
    assert row["email"] in (user.email, *NO_EMAIL)


def _audit_changes(person: Known, user: User | None, old: Row, new: Row, changed: Collection[str]) -> None:
    told = f"{sorted(changed)} of {person.key}"
    assert user is not None, f"{told}, who has no user"
    is_opened = person.is_foreign and user.status == APPROVED and not is_locked(new)
    may_change = {"password", "salt", "hasSession", "premiumUUID", "email", "realname"} | (
        {"totp"} if is_opened else set()
    )
    assert set(changed) <= may_change, told
    if "password" in changed:
        _audit_password(person, user, old, new)
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
        is_emptied = is_opened and user.email is None and new["email"] in NO_EMAIL
        assert is_emptied or new["email"] == user.email, told
        assert is_opened or (old["email"] in NO_EMAIL and user.is_email_verified), told


def _audit_password(person: Known, user: User, old: Row, new: Row) -> None:
    if is_locked(new):
        assert user.status != APPROVED or person.is_foreign, f"{person.key} was locked, being {user.status}"
        is_kept = new["password"] == lock_text(str(old["password"])) or is_locked(old)
        # an expired ban, the recorded password written, and another ban
        is_own = person.is_recorded is not False and set(person.opened_by(locked_hash(str(new["password"])))) & set(
            person.counts
        )
        assert is_kept or is_own, f"{person.key} was locked with another password"
        return
    assert user.status == APPROVED, f"{person.key} was opened, being {user.status}"
    assert set(person.opens(new)) & set(person.counts), f"{person.key} was given another password"
    person.is_foreign = person.is_recorded = False


def audit_state(snapshot: Snapshot, people: Mapping[str, Known], users: Mapping[str, User]) -> None:
    """Assert that the two sides are in a state that a completed sync run may leave."""
    for person in people.values():
        row, user = snapshot.rows.get(person.key), users.get(person.key)
        told = f"{person.name}, {user.status if user is not None else 'nobody'}"
        if row is None:
            has_row = user is not None and user.status == APPROVED and bool(person.own) and person.has_left is False
            assert not has_row, f"{told}, has no row"
        else:
            assert user is not None, f"{told}, was not adopted"
            _audit_login(person, user.status == APPROVED, row, told)


def _audit_login(person: Known, may_play: bool, row: Row, told: str) -> None:
    if is_locked(row):
        assert not may_play or person.is_foreign, f"{told}, is locked"
        assert person.opens(row) == [], told
        assert (row["hasSession"], row["premiumUUID"]) == (0, None), f"{told}, needs no password"
        return
    assert may_play, f"{told}, is not locked"
    [opened] = person.opens(row)
    assert opened in person.counts, f"{told}: not the password that counts"
    person.others |= {password for password in person.own if password != opened}
    person.own, person.is_unsure, person.is_recorded = [opened], False, False


def _plain(dumped: str) -> str:
    """Return a name as `dump_table` writes it."""
    return (
        dumped.removeprefix("text '").removesuffix("'")
        if dumped.startswith("text ")
        else bytes.fromhex(dumped).decode()
    )
