"""Rules for usernames, passwords and e-mail addresses.

Those for usernames and passwords are AuthMe's own, so that every credential accepted here works in the game. An address
belongs to the user who verified it first; functions that look for its owner run inside the caller's transaction.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

from plugin_bridge.authme.rules import HostPattern
from regsvc.config.live import LiveConfig
from regsvc.core.email_address import EmailAddress
from regsvc.core.errors import (
    EmailTaken,
    InvalidField,
    InvalidPassword,
    InvalidUsername,
    PasswordRequired,
    Refusal,
    ReservedUsername,
)
from regsvc.core.text import name_key
from regsvc.database.audit import AUTOMATED_ACTORS, Actor, Audit
from regsvc.database.bulk import select_rows
from regsvc.database.models import REJECTED, User

_LONGEST_NAME = 64
_LONGEST_GAMERTAG = 16


def name_on_bedrock(gamertag: str, prefix: str) -> str:
    """Return Floodgate's name for the player: the prefix, then `_` for each space, cut to 16 characters.

    A name that already has the prefix is returned with one prefix. A name too long for a gamertag is not cut.
    """
    name = gamertag.removeprefix(prefix).replace(" ", "_")
    is_gamertag = len(name) <= _LONGEST_GAMERTAG
    return f"{prefix}{name}"[: _LONGEST_GAMERTAG if is_gamertag else None]


@dataclass(frozen=True)
class BedrockNames:
    """Names of Bedrock Edition players: Floodgate's prefix, and the pattern for prefixed names."""

    is_enabled: bool
    prefix: str
    pattern: HostPattern

    def in_game(self, gamertag: str) -> str:
        """Return Floodgate's name for the player (`name_on_bedrock`)."""
        return name_on_bedrock(gamertag, self.prefix)


class CredentialRules:
    """Rules for usernames and passwords; each refusal names the broken rule."""

    def __init__(
        self, live: LiveConfig, bedrock: BedrockNames, operators: Callable[[], Collection[str]], *, has_authme: bool
    ) -> None:
        """`operators` returns every name in ops.json, in lower case, whatever its level."""
        registration = live.current.registration
        self._live = live
        self._bedrock = bedrock
        self._reserved = AUTOMATED_ACTORS.union(name_key(name) for name in registration.reserved_names)
        self._operators = operators
        self._password_mode = registration.password_rule(has_authme=has_authme)

    def name_in_game(self, username: str, platform: str) -> str:
        """Return the name to register for what the user typed."""
        if platform == "bedrock" and self._bedrock.is_enabled and len(username) <= _LONGEST_NAME:
            return self._bedrock.in_game(username)
        return username

    def check_username(self, username: str, platform: str = "java") -> None:
        """Raise `InvalidUsername`, and `InvalidField` for a Bedrock name where Bedrock players are off."""
        names = self._live.authme.names

        def invalid(violation: str) -> Refusal:
            return InvalidUsername(
                violation, regex=names.regex, min_length=names.min_length, max_length=names.max_length
            )

        if len(username) > _LONGEST_NAME or not username.isprintable() or " " in username or not username:
            raise invalid("too_long" if len(username) > _LONGEST_NAME else "forbidden_characters")
        if platform == "bedrock":
            if not self._bedrock.is_enabled:
                raise InvalidField("platform")
            if not self._bedrock.pattern.matches(username):
                raise InvalidUsername(regex=self._bedrock.pattern.text)
            return
        violation = names.validate(username)
        if violation is not None:
            raise invalid(str(violation))

    def is_operator(self, username: str) -> bool:
        """Return whether ops.json has this name."""
        return name_key(username) in self._operators()

    def check_not_reserved(self, username: str) -> None:
        """Raise `ReservedUsername` for operators' names and the program's own.

        Otherwise a client could register an operator's name and be taken for that operator.
        """
        if name_key(username) in self._reserved or self.is_operator(username):
            raise ReservedUsername

    def password_at_registration(self, password: str | None, username: str) -> str | None:
        """Return the password to keep; None where none is given, or where passwords are off (`registration.password`).

        Raises `PasswordRequired` and `InvalidPassword`.
        """
        if self._password_mode == "off":  # noqa: S105 - a mode
            return None
        if password is None:
            if self._password_mode == "required":  # noqa: S105 - a mode
                raise PasswordRequired
            return None
        self.check_password(password, username)
        return password

    def check_password(self, password: str, username: str, field: str = "password") -> None:
        """Raise `InvalidPassword` for a password that breaks a rule; `field` is the request's name for the field."""
        passwords = self._live.authme.passwords
        violation = passwords.validate(password, username)
        if violation is not None:
            raise InvalidPassword(
                str(violation),
                field=field,
                regex=passwords.regex,
                min_length=passwords.min_length,
                max_length=passwords.max_length,
            )


Claimant = TypeVar("Claimant", int, str)


def find_holder(email_key: str) -> User | None:
    """Return the user who has this address, verified or not, or None. As fast for None as for a user."""
    columns = (User.id, User.username, User.email, User.is_email_verified, User.status)
    holder: User | None = User.select(*columns).where(User.email_key == email_key).first()
    return holder


def find_owner(email_key: str) -> User | None:
    """Return the user who has verified this address and is not rejected; None: it is free."""
    holder = find_holder(email_key)
    return holder if holder is not None and _is_owner(holder) else None


def may_have(address: EmailAddress, *, is_verified: bool, claimant_id: int | None = None) -> bool:
    """Return whether this user, or one not yet inserted, may have the address, verified or not."""
    holder = find_holder(address.key)
    return holder is None or holder.id == claimant_id or (is_verified and not _is_owner(holder))


def claim(email_key: str, audit: Audit, *, claimant_id: int | None = None) -> None:
    """Remove a verified address from a rejected user, or from one who never verified it. Raises `EmailTaken`.

    `claimant_id`: the user who claims it; None: a user not yet inserted.
    """
    holder = find_holder(email_key)
    if holder is None or holder.id == claimant_id:
        return
    if _is_owner(holder):
        raise EmailTaken
    User.update(email=None, email_key=None, is_email_verified=False).where(User.id == holder.id).execute()
    audit.record("user.email_changed", Actor(holder.username), holder.username, {"why": "proven by another"})


def grant_unverified(
    wanted: Mapping[Claimant, EmailAddress], moved: Mapping[str, int | str | None] = MappingProxyType({})
) -> dict[Claimant, EmailAddress]:
    """Return the claimants who may have the address that they want, unverified; of two who want the same, the first.

    A claimant is a user's id, or the name of a player who has no user yet. As in `may_have`, an address that another
    user has is granted to none of them. `moved`: by address, who has it instead of who does in our database.
    """
    if not wanted:
        return {}
    keys = [address.key for address in wanted.values()]
    rows = select_rows(User._meta.database, User, [User.email_key, User.id], User.email_key, keys)
    holder: dict[str, object] = dict(rows)
    for key in moved.keys() & keys:
        holder.pop(key, None)
        if moved[key] is not None:
            holder[key] = moved[key]
    return {
        claimant: address
        for claimant, address in wanted.items()
        if holder.setdefault(address.key, claimant) == claimant
    }


def _is_owner(holder: User) -> bool:
    return bool(holder.is_email_verified) and holder.status != REJECTED
