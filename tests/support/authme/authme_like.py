"""A stand-in for the plugin: it reads and writes its table as AuthMe does for players in the game.

Each method is one command or event; it writes the columns AuthMe writes, one commit a statement. Hashes are
made here, apart from the ones under test. What AuthMe remembers from login to quit is remembered here too.
"""

import hashlib
import secrets
import sqlite3
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import bcrypt
import pymysql

from tests.support.authme.authme_database import Row
from tests.support.authme.authme_tables import AuthMeTable, find_player, insert_player

Algorithm = Literal["SHA256", "BCRYPT", "SALTEDSHA512"]
HOME_IP = "203.0.113.7"
SESSION_MILLISECONDS = 600_000


@dataclass(frozen=True)
class StoredPassword:
    """The two columns; `salt` is None for an algorithm that keeps it inside the hash."""

    hash: str
    salt: str | None = None

    def is_made_from(self, password: str) -> bool:
        """Verify the password; the form of the hash identifies the algorithm among the three created here."""
        if self.hash.startswith("$2a$"):
            return bcrypt.checkpw(password.encode(), self.hash.encode())
        if self.hash.startswith("$SHA$"):
            return self.hash == sha256(password, self.hash.split("$")[2]).hash
        return self.salt is not None and self == salted_sha512(password, self.salt)


def sha256(password: str, salt: str) -> StoredPassword:
    inner = hashlib.sha256(password.encode()).hexdigest()
    return StoredPassword(f"$SHA${salt}${hashlib.sha256((inner + salt).encode()).hexdigest()}")


def salted_sha512(password: str, salt: str) -> StoredPassword:
    return StoredPassword(hashlib.sha512((password + salt).encode()).hexdigest(), salt)


def store_password(algorithm: Algorithm, password: str) -> StoredPassword:
    """A new random salt each time; bcrypt at the lowest cost, to keep the tests fast."""
    if algorithm == "SHA256":
        return sha256(password, secrets.token_hex(8))
    if algorithm == "SALTEDSHA512":
        return salted_sha512(password, secrets.token_hex(16))
    return StoredPassword(bcrypt.hashpw(password.encode(), bcrypt.gensalt(4, prefix=b"2a")).decode())


def offline_uuid(name: str) -> str:
    """The UUID an offline-mode server gives this exact name."""
    digest = hashlib.md5(f"OfflinePlayer:{name}".encode(), usedforsecurity=False).digest()
    return str(uuid.UUID(bytes=digest, version=3))


def system_now() -> datetime:
    return datetime.now(UTC)


class AuthMeLike:
    """The plugin on one table. It writes every time as `now()` in epoch milliseconds.

    `has_sessions`: `settings.sessions.enabled`. `closed_group`: the column and number of `ExternalBoardOptions`, by
    which AuthMe refuses every kind of login.
    """

    def __init__(
        self, table: AuthMeTable, algorithm: Algorithm = "SHA256", now: Callable[[], datetime] = system_now
    ) -> None:
        self.table = table
        self.has_sessions = False
        self.closed_group: tuple[str, int] | None = None
        self.algorithm: Algorithm = algorithm
        self._now = now
        self._registered_ms = 0
        self._online: dict[str, StoredPassword] = {}  # what the plugin remembers from login to quit

    def find(self, name: str) -> Row | None:
        """The row of this name in any case, by AuthMe's default column names, or None."""
        return find_player(self.table, name.lower())

    def get(self, name: str) -> Row:
        """The row of this name; LookupError when there is none."""
        row = self.find(name)
        if row is None:
            raise LookupError(f"AuthMe has no player {name}")
        return row

    def register(self, name: str, password: str, email: str | None = None, ip: str = HOME_IP) -> bool:
        """`/register` in game: False when the name is known. Never writes ip, lastlogin or a position.

        On MariaDB a duplicate that slips in between look and insert is reported as a success, as AuthMe does.
        """
        if self.find(name) is not None:
            return False
        values: dict[str, object] = {"username": name.lower(), "realname": name}
        values |= self._password_columns(password)
        self._registered_ms = max(self._registered_ms + 1, self._milliseconds())  # in an order that can be told
        values |= {"regdate": self._registered_ms, "regip": ip}
        if self.table.has_uuid:
            values["uuid"] = offline_uuid(name)
        if email is not None:
            values["email"] = email
        try:
            insert_player(self.table, **values)
        except sqlite3.IntegrityError:
            return False
        except pymysql.err.IntegrityError:
            return True
        return True

    def join(self, name: str) -> None:
        """Before the login: only a real name that is unknown yet is filled in."""
        row = self.find(name)
        if row is not None and row["realname"] in ("", "Player"):
            self._update(name, realname=name)

    def login(self, name: str, password: str, ip: str = HOME_IP) -> bool:
        """`/login`: True when the table's hash says yes; the player is then online until `quit`."""
        row = self.find(name)
        if row is None:
            return False
        stored = StoredPassword(row["password"], row.get("salt"))
        return stored.is_made_from(password) and self._log_in(name, row, ip)

    def resume_session(self, name: str, ip: str = HOME_IP) -> bool:
        """Join again: no password is asked within the time-out, from the same address, while the session is open."""
        row = self.find(name)
        if row is None or not row["hasSession"]:
            return False
        self._update(name, isLogged=0)
        self._update(name, hasSession=0)
        is_recent = self._milliseconds() - (row["lastlogin"] or 0) <= SESSION_MILLISECONDS
        return is_recent and row["ip"] == ip and self._log_in(name, row, ip)

    def join_as_premium(self, name: str, verified_uuid: str) -> bool:
        """Join with a Mojang account that the server verified: its row says whether a password is asked."""
        row = self.find(name)
        return row is not None and row["premiumUUID"] == verified_uuid and self._log_in(name, row, HOME_IP)

    def join_through_proxy(self, name: str) -> bool:
        """Switch to this server behind a proxy with `autoLogin`: the proxy says who is logged in."""
        row = self.find(name)
        return row is not None and self._log_in(name, row, HOME_IP)

    def set_premium(self, name: str, uuid: str | None) -> bool:
        """`/premium`, `/freemium` and `authme premium NAME`: also on a row that somebody locked meanwhile."""
        return self._update(name, premiumUUID=uuid) == 1

    def _log_in(self, name: str, row: Row, ip: str) -> bool:
        if self.closed_group is not None and (row[self.closed_group[0]] or 0) == self.closed_group[1]:
            return False
        self._update(name, ip=ip, realname=name, lastlogin=self._milliseconds())
        self._update(name, isLogged=1)
        if self.has_sessions:
            self._update(name, hasSession=1)
        self._online[name.lower()] = StoredPassword(row["password"], row.get("salt"))
        return True

    def quit(self, name: str, ip: str = HOME_IP) -> None:
        """Leaves the game; `lastlogin` becomes the time of the quit."""
        if self._online.pop(name.lower(), None) is not None:
            self._update(name, ip=ip, realname=name, lastlogin=self._milliseconds())
            self._update(name, isLogged=0)
            if not self.has_sessions:
                self._update(name, hasSession=0)

    def logout(self, name: str) -> None:
        """`/logout`: an open session ends too."""
        if self._online.pop(name.lower(), None) is not None:
            self._update(name, isLogged=0)
            self._update(name, hasSession=0)

    def is_online(self, name: str) -> bool:
        """Whether the player has logged in and neither left nor logged out."""
        return name.lower() in self._online

    def change_password(self, name: str, old: str, new: str) -> bool:
        """`/changepassword`: the old one is compared with what was true at the login, not with the table."""
        remembered = self._online.get(name.lower())
        if remembered is None or not remembered.is_made_from(old):
            return False
        return self.set_password(name, new)

    def set_password(self, name: str, password: str) -> bool:
        """`authme password NAME PASSWORD`, and what `/email recovery` does with a password of its own."""
        columns = self._password_columns(password)
        if self._update(name, **columns) == 0:
            return False
        if name.lower() in self._online:
            self._online[name.lower()] = StoredPassword(str(columns["password"]), columns.get("salt"))
        return True

    def unregister(self, name: str, password: str) -> bool:
        """`/unregister`: by the password of the login; the row goes."""
        remembered = self._online.get(name.lower())
        if remembered is None or not remembered.is_made_from(password):
            return False
        return self.unregister_from_console(name)

    def unregister_from_console(self, name: str) -> bool:
        """`authme unregister NAME`: AuthMe calls a row that is not there deleted, too."""
        self._online.pop(name.lower(), None)
        condition = f"{self.table.column('username')} = ?"
        self.table.database.execute(f"DELETE FROM {self.table.name} WHERE {condition}", (name.lower(),))
        return True

    def set_email(self, name: str, email: str) -> bool:
        """`/email add` and `/email change`."""
        return self._update(name, email=email) == 1

    def set_totp(self, name: str, secret: str | None) -> bool:
        """`/2fa confirm` with a new secret; None: `/2fa remove`."""
        return self._update(name, totp=secret) == 1

    def purge(self, before: datetime) -> int:
        """Deletes everyone who neither registered nor logged in since; the number of rows that went."""
        last_seen = f"COALESCE({self.table.column('lastlogin')}, 0)"
        registered = self.table.column("regdate")
        limit = int(before.timestamp() * 1000)
        return self.table.database.execute(
            f"DELETE FROM {self.table.name} WHERE {last_seen} < ? AND {registered} < ?", (limit, limit)
        )

    def start_server(self) -> None:
        """Start with no player online: every `isLogged` is reset."""
        column = self.table.column("isLogged")
        self.table.database.execute(f"UPDATE {self.table.name} SET {column} = 0 WHERE {column} = 1")
        self._online.clear()

    def _password_columns(self, password: str) -> dict[str, str | None]:
        stored = store_password(self.algorithm, password)
        columns: dict[str, str | None] = {"password": stored.hash}
        if self.table.has_salt:
            columns["salt"] = stored.salt
        return columns

    def _update(self, name: str, **columns: object) -> int:
        changes = ", ".join(f"{self.table.column(column)} = ?" for column in columns)
        condition = f"{self.table.column('username')} = ?"
        return self.table.database.execute(
            f"UPDATE {self.table.name} SET {changes} WHERE {condition}", (*columns.values(), name.lower())
        )

    def _milliseconds(self) -> int:
        return int(self._now().timestamp() * 1000)


def long_ago(table: AuthMeTable) -> AuthMeLike:
    """Return the plugin as it was years before the companion's first start."""
    return AuthMeLike(table, now=lambda: datetime(2020, 1, 1, tzinfo=UTC))
