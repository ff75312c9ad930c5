"""Which names and passwords are taken: AuthMe's own rules, so that what works here works in the game."""

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from plugin_bridge.authme.rules import NameRule, PasswordRule
from regsvc.core.errors import InvalidField, InvalidPassword, InvalidUsername, PasswordRequired, ReservedUsername
from regsvc.database.audit import AUTOMATED_ACTORS

_LONGEST_NAME = 64
_LONGEST_GAMERTAG = 16


@dataclass(frozen=True)
class BedrockNames:
    """Names of players of the Bedrock edition: their own prefix and pattern."""

    is_enabled: bool
    prefix: str
    pattern: re.Pattern[str]

    def in_game(self, gamertag: str) -> str:
        """What Floodgate calls the player in the game: with the prefix, `_` for each space, and 16 characters of that.

        A name that has the prefix is one already. What is too long for a gamertag stays so.
        """
        name = gamertag.removeprefix(self.prefix).replace(" ", "_")
        is_gamertag = len(name) <= _LONGEST_GAMERTAG
        return f"{self.prefix}{name}"[: _LONGEST_GAMERTAG if is_gamertag else None]


class InputRules:
    """Refuses what breaks a rule, and says which."""

    def __init__(
        self,
        *,
        names: NameRule,
        passwords: PasswordRule,
        bedrock: BedrockNames,
        reserved_names: Iterable[str],
        operators: Callable[[], Collection[str]],
        password_mode: str,
    ) -> None:
        """`operators` gives every name in ops.json, in lower case, whatever its level.

        `password_mode` is `registration.password`: whether registering takes, needs or ignores a password.
        """
        self._names = names
        self._passwords = passwords
        self._bedrock = bedrock
        self._reserved = AUTOMATED_ACTORS.union(name.lower() for name in reserved_names)
        self._operators = operators
        self._mode = password_mode

    def take_over(self, names: NameRule, passwords: PasswordRule) -> None:
        """AuthMe has other rules from now on."""
        self._names, self._passwords = names, passwords

    def name_in_game(self, username: str, platform: str) -> str:
        """The name that is registered where this one was typed."""
        if platform == "bedrock" and self._bedrock.is_enabled and len(username) <= _LONGEST_NAME:
            return self._bedrock.in_game(username)
        return username

    def check_username(self, username: str, platform: str = "java") -> None:
        """Raises `InvalidUsername`."""
        if len(username) > _LONGEST_NAME or not username.isprintable() or " " in username or not username:
            raise self._invalid_username("too_long" if len(username) > _LONGEST_NAME else "forbidden_characters")
        if platform == "bedrock":
            if not self._bedrock.is_enabled:
                raise InvalidField("platform")
            if not self._bedrock.pattern.fullmatch(username):
                raise InvalidUsername(regex=self._bedrock.pattern.pattern)
            return
        fault = self._names.validate(username)
        if fault is not None:
            raise self._invalid_username(str(fault))

    def is_operator(self, username: str) -> bool:
        """Whether ops.json has this name."""
        return username.lower() in self._operators()

    def check_not_reserved(self, username: str) -> None:
        """Raises `ReservedUsername`: else a stranger could register an operator's name, or one of the program's own."""
        if username.lower() in self._reserved or self.is_operator(username):
            raise ReservedUsername

    def password_at_registration(self, password: str | None, username: str) -> str | None:
        """The password to keep, None for none. Raises `PasswordRequired` and `InvalidPassword`."""
        if self._mode == "off":
            return None
        if password is None:
            if self._mode == "required":
                raise PasswordRequired
            return None
        self.check_password(password, username)
        return password

    def check_password(self, password: str, username: str, field: str = "password") -> None:
        """Raises `InvalidPassword`; `field` is what the request calls it."""
        fault = self._passwords.validate(password, username)
        if fault is not None:
            raise InvalidPassword(
                str(fault),
                field=field,
                regex=self._passwords.regex,
                min_length=self._passwords.min_length,
                max_length=self._passwords.max_length,
            )

    def _invalid_username(self, fault: str) -> InvalidUsername:
        names = self._names
        return InvalidUsername(fault, regex=names.regex, min_length=names.min_length, max_length=names.max_length)
