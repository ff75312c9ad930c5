"""AuthMe's `config.yml` and its messages to players, read the way AuthMe reads them.

Keys are case-sensitive paths; a missing or unusable value silently means AuthMe's default, which is written
once, at the field. A host without access to the file sets the values in the daemon's own config:
`AuthMeConfig().with_overrides(...)`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from plugin_bridge.authme.rules import (
    ANYTHING,
    DEFAULT_NAME_RULE,
    DEFAULT_NAMES,
    DEFAULT_PASSWORD_RULE,
    MAX_PASSWORD_CHARACTERS,
    HostPattern,
    NameRule,
    PasswordRule,
    compile_java_pattern,
)
from plugin_bridge.hashers import HASHERS, UNSUPPORTED, HashingConfig, find_hasher
from plugin_bridge.hosts import plain_host, split_host
from plugin_bridge.java_formats import FormatError, Oddity, describe, int_value, parse_yaml
from plugin_bridge.server.files import require_regular_file
from plugin_bridge.server.versions import REMOVED_ALGORITHMS, is_fork, is_known_to_authme

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True, slots=True)
class IgnoredValue:
    """A value that AuthMe silently replaces. `written` is the name of a deprecated algorithm, never a secret."""

    key: str
    written: str = ""


class ConfigDocument:
    """Values by path, each converted to AuthMe's type or replaced by the default; `ignored` lists what AuthMe ignores.

    `root` is the object that the YAML parser returned.
    """

    def __init__(self, root: object) -> None:
        self._root = root
        self.ignored: list[IgnoredValue] = []

    def ignore(self, path: str, written: str = "") -> None:
        """Record that AuthMe does not use the value at this path, if there is one."""
        if self.find(path) is not None:
            self.ignored.append(IgnoredValue(path, written))

    def find(self, path: str) -> object:
        """Return the raw value, or None if there is none."""
        value = self._root
        for part in path.split("."):
            if not isinstance(value, dict):
                return None
            value = value.get(part)
        return value

    def text(self, path: str, default: str) -> str:
        found = self.find(path)
        value = None if found is None else describe(found)
        if value is None:
            self.ignore(path)
            return default
        return value

    def word(self, path: str, default: str) -> str:
        """Return the name of one of several choices, known or not."""
        if isinstance(self.find(path), list | dict):
            self.ignore(path)
            return default
        return self.text(path, default)

    def number(self, path: str, default: int) -> int:
        value = self.find(path)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < float("inf"):
            return int_value(value)  # neither .inf nor .nan
        self.ignore(path)
        return default

    def flag(self, path: str, default: bool) -> bool:
        value = self.find(path)
        if isinstance(value, bool):
            return value
        self.ignore(path)
        return default

    def texts(self, path: str, default: Iterable[str]) -> list[str]:
        value = self.find(path)
        if not isinstance(value, list):
            self.ignore(path)
            return list(default)
        return [text for text in (describe(item) for item in value if item is not None) if text is not None]

    def values_of(self, record: type[DataclassInstance]) -> dict[str, Any]:
        """Return the fields of `record` that have a path, each read as the type of its default."""
        return {
            part.name: self._read_like(part.metadata["key"], part.default)
            for part in fields(record)
            if "key" in part.metadata
        }

    def _read_like(self, path: str, default: Any) -> object:
        if isinstance(default, bool):
            return self.flag(path, default)
        if isinstance(default, int):
            return self.number(path, default)
        return self.text(path, default)


MAX_FILE_BYTES = 4 * 1024 * 1024
IDENTIFIER = re.compile(r"[A-Za-z0-9_]{1,64}")

# AuthMe no longer writes these: when it loads its config it makes them legacy and uses SHA256.
DEPRECATED_ALGORITHMS = frozenset(name for name, hasher in HASHERS.items() if hasher.is_deprecated)

# Values of MariaDbSslMode, with the aliases that MariaDB's driver for Java takes in any case.
_SSL_MODES = {
    **dict.fromkeys(("disable", "disabled", "0", "false"), "disable"),
    **dict.fromkeys(("trust", "required"), "trust"),
    **dict.fromkeys(("verify-ca", "verify_ca"), "verify-ca"),
    **dict.fromkeys(("", "verify-full", "verify_full", "verify_identity", "1", "true"), "verify-full"),
}

PASSWORD_HASH_KEY = "settings.security.passwordHash"  # noqa: S105 - a key of config.yml
LEGACY_HASHES_KEY = "settings.security.legacyHashes"
DIALOGS_KEY = "settings.registration.dialog"
PROXY_SECRET_KEY = "Hooks.proxySharedSecret"  # noqa: S105 - a key of config.yml

_OLD_SALT_COLUMN = "ExternalBoardOptions.mySQLColumnSalt"  # the key's path up to AuthMe 5.4
_PROMPT_SECONDS = 30
_OPTIONAL_COLUMNS = frozenset({"salt", "group", "uuid", "premium_uuid"})


class AuthMeConfigError(Exception):
    """AuthMe's config cannot be used. The message is a sentence that names the file and the key, but no secret."""


class Backend(StrEnum):
    """Kind of database with AuthMe's table that is supported."""

    SQLITE = "SQLITE"
    MYSQL = "MYSQL"
    MARIADB = "MARIADB"


def _key(path: str, default: object, *, is_secret: bool = False) -> Any:
    """Return a dataclass field that is read from a path of config.yml."""
    return field(default=default, repr=not is_secret, metadata={"key": path})


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """Names of the columns in AuthMe's table; empty where an optional one is not used (`_OPTIONAL_COLUMNS`)."""

    id: str = _key("DataSource.mySQLColumnId", "id")
    username: str = _key("DataSource.mySQLColumnName", "username")
    realname: str = _key("DataSource.mySQLRealName", "realname")
    password: str = _key("DataSource.mySQLColumnPassword", "password")
    salt: str = _key("DataSource.mySQLColumnSalt", "")
    ip: str = _key("DataSource.mySQLColumnIp", "ip")
    last_login: str = _key("DataSource.mySQLColumnLastLogin", "lastlogin")
    register_date: str = _key("DataSource.mySQLColumnRegisterDate", "regdate")
    register_ip: str = _key("DataSource.mySQLColumnRegisterIp", "regip")
    email: str = _key("DataSource.mySQLColumnEmail", "email")
    is_logged: str = _key("DataSource.mySQLColumnLogged", "isLogged")
    has_session: str = _key("DataSource.mySQLColumnHasSession", "hasSession")
    totp: str = _key("DataSource.mySQLtotpKey", "totp")
    group: str = _key("ExternalBoardOptions.mySQLColumnGroup", "")
    uuid: str = _key("DataSource.mySQLPlayerUUID", "")
    premium_uuid: str = _key("DataSource.mySQLColumnPremiumUUID", "premiumUUID")
    x: str = _key("DataSource.mySQLlastlocX", "x")
    y: str = _key("DataSource.mySQLlastlocY", "y")
    z: str = _key("DataSource.mySQLlastlocZ", "z")
    world: str = _key("DataSource.mySQLlastlocWorld", "world")
    yaw: str = _key("DataSource.mySQLlastlocYaw", "yaw")
    pitch: str = _key("DataSource.mySQLlastlocPitch", "pitch")


@dataclass(frozen=True, slots=True)
class MailAccount:
    """The account that AuthMe sends its own mail with."""

    address: str = _key("Email.mailAccount", "")
    password: str = _key("Email.mailPassword", "", is_secret=True)
    host: str = _key("Email.mailSMTP", "smtp.gmail.com")
    port: int = _key("Email.mailPort", 465)

    @property
    def is_set_up(self) -> bool:
        return self.address != "" and self.password != ""


@dataclass(frozen=True, slots=True)
class AuthMeConfig:
    """The values that the daemon needs of AuthMe's config. Without arguments: those of a new AuthMe."""

    source: Path | None = None  # the config.yml; None if all values come from the daemon's own config
    version: str | None = field(default=None, compare=False)  # of the installed plugin; None if it is unknown
    backend: str = Backend.SQLITE  # in upper case; one that is no `Backend` has a `backend_problem`
    host: str = _key("DataSource.mySQLHost", "127.0.0.1")
    port: int = 3306
    user: str = _key("DataSource.mySQLUsername", "authme")
    password: str = _key("DataSource.mySQLPassword", "12345", is_secret=True)
    database: str = _key("DataSource.mySQLDatabase", "authme")
    table: str = _key("DataSource.mySQLTablename", "authme")
    use_ssl: bool = _key("DataSource.mySQLUseSSL", True)
    check_server_certificate: bool = _key("DataSource.mySQLCheckServerCertificate", True)
    mariadb_ssl_mode: str | None = _key("DataSource.MariaDbSslMode", None)  # AuthMeReReloaded
    allow_public_key_retrieval: bool = _key("DataSource.mySQLAllowPublicKeyRetrieval", True)
    caching: bool = _key("DataSource.caching", True)
    columns: ColumnNames = ColumnNames()
    password_hash: str = "SHA256"  # noqa: S105 - the name of an algorithm
    legacy_hashes: tuple[str, ...] = ()
    stated_hashes: frozenset[str] = field(default=frozenset(), compare=False)  # named in the daemon's own config
    pbkdf2_rounds: int = _key("settings.security.pbkdf2Rounds", 10_000)
    bcrypt_log2_rounds: int = _key("ExternalBoardOptions.bCryptLog2Round", 12)
    double_md5_salt_length: int = _key("settings.security.doubleMD5SaltLength", 8)
    password_rule: PasswordRule = DEFAULT_PASSWORD_RULE
    name_rule: NameRule = DEFAULT_NAME_RULE
    registration_enabled: bool = _key("settings.registration.enabled", True)
    kick_non_registered: bool = _key("settings.restrictions.kickNonRegistered", False)
    forces_registration: bool = _key("settings.registration.force", True)
    registration_type: str = _key("settings.registration.type", "PASSWORD")
    dialogs: tuple[str, ...] = ()  # the keys of the forms that AuthMe 6 shows, where they are on
    messages_language: str = _key("settings.messagesLanguage", "en")
    sessions_enabled: bool = _key("settings.sessions.enabled", False)
    premium_enabled: bool = _key("settings.enablePremium", False)
    unactivated_group: int = _key("ExternalBoardOptions.nonActivedUserGroup", -1)
    bungeecord: bool = _key("Hooks.bungeecord", False)
    velocity: bool = _key("Hooks.velocity", False)
    has_proxy_secret: bool | None = field(default=None, compare=False)  # None: no such key, as before AuthMe 6
    unrestricted_names: tuple[str, ...] = ()
    hooks_floodgate: bool = _key("Hooks.floodgate", False)
    bedrock_auto_login: bool = _key("3rdPartyFeature.features.bedrockAutoLogin", False)
    unregisters_unverified: bool = _key("settings.registration.email.unregisterOnEmailVerificationFailure", False)
    unregisters_after_minutes: int = _key("settings.registration.email.unregisterAfterMinutes", 10)
    purges_by_itself: bool = _key("Purge.useAutoPurge", False)
    purges_after_days: int = _key("Purge.daysBeforeRemovePlayer", 60)
    limbo_persistence: str = _key("limbo.persistence.type", "INDIVIDUAL_FILES")
    prompt_seconds: int = _PROMPT_SECONDS  # for which a player may stand at the login prompt; 0: for ever
    mail: MailAccount = MailAccount()
    ignored: tuple[IgnoredValue, ...] = field(default=(), compare=False)
    oddities: tuple[Oddity, ...] = field(default=(), compare=False)  # of the file: AuthMe reads it all the same

    @property
    def sqlite_file(self) -> Path:
        """Path of AuthMe's database file with the SQLITE backend, beside its config.yml."""
        folder = Path() if self.source is None else self.source.parent
        return folder / f"{self.database}.db"

    @property
    def writes_notes(self) -> bool:
        """Whether AuthMe notes on disk whose op it holds (`plugin_bridge.server.operators`)."""
        return self.limbo_persistence.strip().upper() != "DISABLED"

    @property
    def lock_group(self) -> int | None:
        """The group that AuthMe lets nobody in with, however they log in; None where there is none that it obeys.

        It reads the column of groups on MySQL and MariaDB alone. Its default number, -1, is left to those who have no
        such group.
        """
        has_groups = self.columns.group != "" and self.backend in (Backend.MYSQL, Backend.MARIADB)
        return self.unactivated_group if has_groups and self.unactivated_group >= 0 else None

    @property
    def backend_problem(self) -> str | None:
        """Why AuthMe's table cannot be used where it is, as a sentence; None if it can."""
        if self.backend not in Backend.__members__:
            return f"AuthMe's backend is {self.backend}, which is not supported: use MYSQL, MARIADB or SQLITE."
        if is_known_to_authme(self.backend, self.version) is False:
            return f"AuthMe {self.version} has no backend {self.backend}, and uses SQLITE instead: use MYSQL."
        return None

    @property
    def ssl_mode(self) -> str:
        """TLS of AuthMe's connection, as MariaDB names it: disable, trust, verify-ca or verify-full."""
        if self._has_ssl_mode:
            return _SSL_MODES[str(self.mariadb_ssl_mode).lower()]
        if not self.use_ssl:
            return "disable"
        return "verify-ca" if self.check_server_certificate else "trust"

    @property
    def ssl_key(self) -> str:
        """The key of config.yml that switches TLS on."""
        return _KEYS["mariadb_ssl_mode" if self._has_ssl_mode else "use_ssl"]

    @property
    def _has_ssl_mode(self) -> bool:
        """Whether the key of the fork AuthMeReReloaded counts, which AuthMe itself ignores."""
        may_be_fork = self.version is None or is_fork(self.version)
        return self.backend == Backend.MARIADB and self.mariadb_ssl_mode is not None and may_be_fork

    @property
    def unverified_minutes(self) -> int:
        """Minutes after which AuthMe deletes the row of a player who registered by e-mail and has not logged in yet.

        0: it deletes none. Only the fork AuthMeReReloaded does.
        """
        is_on = self.unregisters_unverified and self.registration_enabled and self.registration_type.upper() == "EMAIL"
        return max(self.unregisters_after_minutes, 0) if is_on else 0

    @property
    def hashing(self) -> HashingConfig:
        """The values that the hashers need."""
        absent = {name: self._why_absent(name) for name in (self.password_hash, *self.legacy_hashes)}
        return HashingConfig(
            password_hash=self.password_hash,
            legacy_hashes=self.legacy_hashes,
            pbkdf2_rounds=self.pbkdf2_rounds,
            bcrypt_log2_rounds=self.bcrypt_log2_rounds,
            double_md5_salt_length=self.double_md5_salt_length,
            has_salt_column=self.columns.salt != "",
            has_forum_extension=self.backend in (Backend.MYSQL, Backend.MARIADB),
            absent={name: reason for name, reason in absent.items() if reason is not None},
        )

    def _why_absent(self, algorithm: str) -> str | None:
        """Return why this AuthMe does not have an algorithm, or may not have it, and what to do; None if it has it.

        Where the version is unknown, one of an old AuthMe needs to be stated in the daemon's own config. One of AuthMe
        6 does not: an older AuthMe removes an unknown name from its config when it starts.
        """
        is_known = is_known_to_authme(algorithm, self.version)
        if is_known is False:
            return f"AuthMe {self.version}, which is installed, does not have this algorithm; choose one that it has"
        if is_known is None and algorithm in REMOVED_ALGORITHMS and algorithm not in self.stated_hashes:
            return (
                "only AuthMe 5.6 and older, and AuthMeReReloaded, have this algorithm, others silently replace it, and "
                "no jar beside AuthMe's folder tells its version; if yours has the algorithm, name it in "
                "authme.password_hash or authme.legacy_hashes of the companion's config, too"
            )
        return None

    def with_overrides(self, **given: Any) -> AuthMeConfig:
        """Return this config with the given values in place of its own; `columns` maps field names to column names.

        Raises `AuthMeConfigError` naming the key under `authme` of the daemon's own config: there a mistake is an
        error, and not replaced by a default as in AuthMe's file.
        """
        changes = dict(given)
        if "backend" in given:
            name = given["backend"].upper()
            if name not in Backend.__members__:
                raise AuthMeConfigError(
                    f"authme.backend is {given['backend']!r}; it must be one of {', '.join(Backend)}."
                )
            changes["backend"] = Backend(name)
        if "columns" in given:
            changes["columns"] = _override_columns(self.columns, given["columns"])
        names = [("legacy_hashes", name) for name in given.get("legacy_hashes", ())]
        names += [("password_hash", given["password_hash"])] if "password_hash" in given else []
        if names:
            configured = given.get("password_hash", self.password_hash)
            legacy = given.get("legacy_hashes", self.legacy_hashes)
            changes["password_hash"], changes["legacy_hashes"] = _normalize_algorithms(configured, legacy)
            changes["stated_hashes"] = frozenset(_override_algorithm(name, key) for key, name in names)
        config = replace(self, **changes)
        _check_names(config, lambda name: f"authme.{name}")
        return config


def read_authme_config(path: Path) -> AuthMeConfig:
    """Read a config.yml. Raises `AuthMeConfigError` if it is unreadable or names an impossible table or column."""
    loaded, oddities = load_yaml(path)
    document = ConfigDocument(loaded)
    old_salt_column = document.text(_OLD_SALT_COLUMN, ColumnNames().salt)
    columns = ColumnNames(**document.values_of(ColumnNames))
    if document.find("DataSource.mySQLColumnSalt") is None:
        columns = replace(columns, salt=old_salt_column)
    backend = document.word("DataSource.backend", Backend.SQLITE).upper()
    password_hash = document.word(PASSWORD_HASH_KEY, "SHA256")
    if password_hash.upper() in DEPRECATED_ALGORITHMS:
        document.ignore(PASSWORD_HASH_KEY, password_hash)
    configured, legacy = _normalize_algorithms(password_hash, document.texts(LEGACY_HASHES_KEY, ()))
    config = AuthMeConfig(
        source=path,
        backend=Backend(backend) if backend in Backend.__members__ else backend,
        port=_read_port(document, path),
        columns=columns,
        password_hash=configured,
        legacy_hashes=legacy,
        password_rule=_read_password_rule(document),
        name_rule=_read_name_rule(document),
        prompt_seconds=_read_prompt_seconds(document),
        dialogs=_read_dialogs(document),
        has_proxy_secret=_has_proxy_secret(document),
        unrestricted_names=tuple(
            sorted({name.lower() for name in document.texts("settings.unrestrictions.UnrestrictedName", ())})
        ),
        mail=_read_mail(document),
        oddities=oddities,
        **document.values_of(AuthMeConfig),
    )
    _check_names(config, lambda name: f"{path}: {_KEYS[name]}")
    if config.backend != Backend.SQLITE:
        config = _with_plain_host(config, path)
    return replace(config, ignored=tuple(dict.fromkeys(document.ignored)))


def load_yaml(path: Path) -> tuple[object, tuple[Oddity, ...]]:
    """Return one of AuthMe's files, and what is odd about it.

    Raises `AuthMeConfigError` if it is unreadable, or is no YAML with sections.
    """
    try:
        require_regular_file(path)
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as problem:
        raise AuthMeConfigError(f"{path} cannot be read: {problem.strerror}.") from problem
    if len(content) > MAX_FILE_BYTES:
        raise AuthMeConfigError(f"{path} is larger than {MAX_FILE_BYTES} bytes; this is not an AuthMe config.")
    try:
        loaded, oddities = parse_yaml(content)
    except FormatError as problem:
        raise AuthMeConfigError(f"{path} is not valid YAML ({problem}).") from None
    if not isinstance(loaded, dict):
        raise AuthMeConfigError(f"{path} is not an AuthMe config: it has no sections.")
    return loaded, oddities


def _read_port(document: ConfigDocument, path: Path) -> int:
    text = document.text("DataSource.mySQLPort", "3306").strip()
    if re.fullmatch(r"[0-9]{1,5}", text) is None:
        raise AuthMeConfigError(f"{path}: DataSource.mySQLPort must be a port number.")
    return int(text)


def _with_plain_host(config: AuthMeConfig, path: Path) -> AuthMeConfig:
    """Return the config with the host as a look-up wants it; AuthMe puts it into an address of JDBC, as it is.

    Several hosts, to which JDBC turns one after the other, stay as they are. Raises `AuthMeConfigError` for one that
    AuthMe cannot reach, either.
    """
    if "," in config.host:
        return config
    try:
        host, port = split_host(config.host.strip() or "localhost")
    except ValueError:
        raise AuthMeConfigError(f"{path}: {_KEYS['host']} must be a name or an IP address alone.") from None
    if port is not None:
        raise AuthMeConfigError(f"{path}: {_KEYS['host']} must not have a port, which belongs to {_KEYS['port']}.")
    return replace(config, host=host)


def _read_mail(document: ConfigDocument) -> MailAccount:
    account = MailAccount(**document.values_of(MailAccount))
    return replace(account, host=plain_host(account.host))


def _normalize_algorithms(configured: str, legacy: Iterable[str]) -> tuple[str, tuple[str, ...]]:
    """Normalize the two algorithm keys as AuthMe does: upper case, no duplicates, deprecated ones only as legacy."""
    names = [name.upper() for name in legacy if name.strip()]
    configured = configured.upper()
    if configured in DEPRECATED_ALGORITHMS:
        names.append(configured)
        configured = "SHA256"
    return configured, tuple(dict.fromkeys(names))


def _read_password_rule(document: ConfigDocument) -> PasswordRule:
    default = DEFAULT_PASSWORD_RULE
    unsafe = document.texts("settings.security.unsafePasswords", default.unsafe)
    return PasswordRule(
        pattern=_read_pattern(document, "settings.restrictions.allowedPasswordCharacters", default.pattern, ANYTHING),
        min_length=document.number("settings.security.minPasswordLength", default.min_length),
        max_length=min(
            document.number("settings.security.passwordMaxLength", default.max_length), MAX_PASSWORD_CHARACTERS
        ),
        unsafe=frozenset(password.lower() for password in unsafe),
    )


def _read_name_rule(document: ConfigDocument) -> NameRule:
    default = DEFAULT_NAME_RULE
    return NameRule(
        pattern=_read_pattern(
            document, "settings.restrictions.allowedNicknameCharacters", default.pattern, DEFAULT_NAMES
        ),
        min_length=document.number("settings.restrictions.minNicknameLength", default.min_length),
        max_length=document.number("settings.restrictions.maxNicknameLength", default.max_length),
    )


def _read_pattern(document: ConfigDocument, path: str, default: HostPattern, substitute: HostPattern) -> HostPattern:
    return compile_java_pattern(document.text(path, default.text), path, substitute)


def _read_prompt_seconds(document: ConfigDocument) -> int:
    """Return for how long a player may stand at the prompt. Versions after 6.0.0 have a key for each kind of prompt."""
    before = document.number("settings.restrictions.timeout", _PROMPT_SECONDS)
    return max(0, document.number("settings.restrictions.loginTimeout", before))


def _read_dialogs(document: ConfigDocument) -> tuple[str, ...]:
    """Return the keys of the dialogs that are on. AuthMe 6 writes the section itself; others know no dialogs."""
    if not isinstance(document.find(DIALOGS_KEY), dict):
        return ()
    keys = (f"{DIALOGS_KEY}.preJoin.enable", f"{DIALOGS_KEY}.postJoin.enable")
    return tuple(key for key in keys if document.flag(key, True))


def _has_proxy_secret(document: ConfigDocument) -> bool | None:
    """Return whether requests of a proxy are signed; None without the key. The secret itself is not kept."""
    if document.find(PROXY_SECRET_KEY) is None:
        return None
    return document.text(PROXY_SECRET_KEY, "").strip() != ""


def _override_columns(columns: ColumnNames, given: Mapping[str, str]) -> ColumnNames:
    known = {part.name for part in fields(ColumnNames)}
    for name in given:
        if name not in known:
            raise AuthMeConfigError(f"authme.columns.{name} is not known; choose from {', '.join(sorted(known))}.")
    return replace(columns, **given)


def _override_algorithm(name: str, key: str) -> str:
    if find_hasher(name) is None and name.upper() not in UNSUPPORTED:
        raise AuthMeConfigError(f"authme.{key}: AuthMe has no algorithm {name!r}; choose one, such as BCRYPT.")
    return name.upper()


_KEYS: dict[str, str] = {
    "port": "DataSource.mySQLPort",
    "prompt_seconds": "settings.restrictions.timeout",
    **{part.name: part.metadata["key"] for part in fields(AuthMeConfig) if "key" in part.metadata},
    **{f"columns.{part.name}": part.metadata["key"] for part in fields(ColumnNames)},
}


def _check_names(config: AuthMeConfig, key_of: Callable[[str], str]) -> None:
    """Reject values that no connection or statement can be made of; `key_of` returns where a field was written."""
    if not 0 < config.port <= 65535:
        raise AuthMeConfigError(f"{key_of('port')} is {config.port}; it must be between 1 and 65535.")
    if config._has_ssl_mode and str(config.mariadb_ssl_mode).lower() not in _SSL_MODES:
        raise AuthMeConfigError(
            f"{key_of('mariadb_ssl_mode')} is {config.mariadb_ssl_mode!r}; it must be disable, trust, verify-ca or "
            "verify-full."
        )
    if not config.database.strip() or "\0" in config.database:
        raise AuthMeConfigError(f"{key_of('database')} must not be empty.")
    _check_identifier(config.table, key_of("table"))
    taken: dict[str, str] = {}
    for part in fields(config.columns):
        column: str = getattr(config.columns, part.name)
        key = key_of(f"columns.{part.name}")
        if not column and part.name in _OPTIONAL_COLUMNS:
            continue
        if part.name == "group" and config.backend not in (Backend.MYSQL, Backend.MARIADB):
            continue  # AuthMe reads none there, and we do not use it
        _check_identifier(column, key)
        other = taken.setdefault(column.lower(), key)
        if other != key:
            raise AuthMeConfigError(f"{key} is {column!r}, which {other} already names.")


def _check_identifier(name: str, key: str) -> None:
    if IDENTIFIER.fullmatch(name) is None:
        raise AuthMeConfigError(
            f"{key} is {name!r}; it must be 1 to 64 letters, digits or underscores (A-Z, a-z, 0-9, _)."
        )


# --- Comparison of AuthMe's running config with its file: what applies at once, and what needs a restart ---


_NEEDS_RESTART = frozenset(
    {
        *("source", "backend", "host", "port", "user", "database", "table", "columns", "mail"),
        *("use_ssl", "check_server_certificate", "mariadb_ssl_mode", "allow_public_key_retrieval", "unactivated_group"),
    }
)
"""Fields that say where the table is and what its columns are called: for other data everything must be reopened."""

_ALGORITHMS = frozenset({"password_hash", "legacy_hashes"})

_RECORDS = {"columns": ColumnNames, "mail": MailAccount}
"""Fields whose values have keys of their own."""

_LABELS = {
    "source": "its path",
    "backend": "DataSource.backend",
    "port": "DataSource.mySQLPort",
    "password": "DataSource.mySQLPassword (as soon as the database refuses the one in use)",
    "password_hash": PASSWORD_HASH_KEY,
    "legacy_hashes": LEGACY_HASHES_KEY,
    "password_rule": "the rules for passwords",
    "name_rule": "the rules for names",
    "dialogs": DIALOGS_KEY,
    "prompt_seconds": "settings.restrictions.timeout or loginTimeout",
    "unrestricted_names": "settings.unrestrictions.UnrestrictedName",
}
"""Labels for fields that have no single key in config.yml."""


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """`config` is the running one with all values that may change now; the tuples name keys that differ, no values.

    `applied` keys are in `config`; `waiting` keys take effect at the next start.
    """

    config: AuthMeConfig
    applied: tuple[str, ...]
    waiting: tuple[str, ...]


def plan_change(running: AuthMeConfig, read: AuthMeConfig) -> ConfigChange:
    """Return the running config with the changes of `read` that may be applied at once, and the keys that differ."""
    differing = [
        part.name
        for part in fields(AuthMeConfig)
        if part.compare and getattr(running, part.name) != getattr(read, part.name)
    ]
    needs_restart = _NEEDS_RESTART | (_ALGORITHMS if _needs_waiting_salt_column(running, read) else frozenset())
    live = [name for name in differing if name not in needs_restart]
    waiting = [key for name in differing if name in needs_restart for key in _keys_of(name, running, read)]
    always = {part.name for part in fields(AuthMeConfig) if not part.compare}
    config = replace(running, **{name: getattr(read, name) for name in (*live, *always)})
    return ConfigChange(config, tuple(key for name in live for key in _keys_of(name, running, read)), tuple(waiting))


def _needs_waiting_salt_column(running: AuthMeConfig, read: AuthMeConfig) -> bool:
    """Return whether the algorithms of `read` need a salt column that `running` does not have."""
    if running.columns.salt or not read.columns.salt:
        return False
    hashers = [find_hasher(name) for name in (read.password_hash, *read.legacy_hashes)]
    return any(hasher is not None and hasher.needs_salt_column for hasher in hashers)


def _keys_of(name: str, running: AuthMeConfig, read: AuthMeConfig) -> list[str]:
    """Return the keys of a field in config.yml, or its label."""
    if name in _RECORDS:
        before, after = getattr(running, name), getattr(read, name)
        return [
            str(part.metadata["key"])
            for part in fields(_RECORDS[name])
            if getattr(before, part.name) != getattr(after, part.name)
        ]
    if name in _LABELS:
        return [_LABELS[name]]
    return [str(part.metadata["key"]) for part in fields(AuthMeConfig) if part.name == name]


KICKED: Final = "registration.reg_only"
"""Shown when AuthMe refuses players without an account (`kickNonRegistered`)."""
ASKED: Final = "registration.register_request"
"""Shown in the chat to players without an account whom AuthMe lets in."""

_FALLBACK_LANGUAGE: Final = "en"


@dataclass(frozen=True, slots=True)
class StrangersText:
    """The text for players without an account: `key` of `file` (`messages/messages_en.yml` and the like)."""

    file: Path
    key: str
    text: str


def find_strangers_text(config: AuthMeConfig) -> StrangersText | None:
    """Return the text for players without an account.

    None if they may play, or if there is no such text, as before AuthMe's first start and before version 5.5.
    """
    if config.source is None or not (config.kick_non_registered or config.forces_registration):
        return None
    key = KICKED if config.kick_non_registered else ASKED
    for language in (config.messages_language, _FALLBACK_LANGUAGE):
        file = config.source.parent / "messages" / f"messages_{Path(language).name}.yml"
        try:
            text = ConfigDocument(load_yaml(file)[0]).find(key)
        except AuthMeConfigError:
            continue  # AuthMe takes the other file if there is none
        return StrangersText(file, key, text) if isinstance(text, str) else None
    return None
