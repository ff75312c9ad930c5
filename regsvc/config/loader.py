"""Config loading: layers over defaults, with every problem reported before anything starts.

Later layers win: the file, the environment, the command line. A value in a later layer hides the same key of an
earlier one, whether it was set as `key` or as `key_file`. Relative paths count from the folder of the file that sets
them, those of the environment and the command line from the current folder; all are absolute once loaded.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from regsvc.config.cross_key_rules import config_warnings, find_violations
from regsvc.config.host_sections import GameServer, TeamChat, WebhookSection
from regsvc.config.host_style import read_style
from regsvc.config.key_types import Key, keys_of, to_toml
from regsvc.config.layers import (
    DOWNLOADS,
    GAME_SERVERS,
    LISTED,
    SECTIONS,
    TEAM_CHATS,
    WEBHOOKS,
    Layer,
    command_line_layer,
    environment_layer,
    file_layer,
    header_of,
    key_of,
    section_class,
)
from regsvc.config.places import default_state_dir, find_credential_source, may_exist
from regsvc.config.sections import MISSING_SECRET, Config, ConfigError, Download
from regsvc.config.value_checks import exposed_reason, unreadable_reason, with_absolute_path
from regsvc.core.safe_paths import PlantedLink, open_file

_FILE_SUFFIX = "_file"
_MAX_SHOWN = 80


class SourcedValue(NamedTuple):
    """A configured TOML value, where it was set, and what a relative path counts from (None: the current folder)."""

    value: object
    source: str
    folder: Path | None = None


def load_config(
    path: Path | None,
    environ: Mapping[str, str],
    overrides: Mapping[str, object] = MappingProxyType({}),
    text: str | None = None,
) -> Config:
    """Load the config from a file (None: no file), the environment, and overrides by "section.key".

    `text` takes the place of what is in the file now, which need not exist then.
    Raises ConfigError with every problem found, one sentence each.
    """
    builder = _ConfigBuilder()
    file = path.absolute() if path else None
    exposures: tuple[str, ...] = ()
    if file:
        layer = file_layer(file, text)
        builder.add_layer(layer)
        exposures = _warnings_about_file(file, layer) if text is None else ()
    environment = environment_layer(environ)
    builder.add_layer(environment)
    builder.add_layer(command_line_layer(overrides))
    config = builder.build(file, default_state_dir(file, environ))
    variables = {
        f"{section}.{name.removesuffix(_FILE_SUFFIX)}": environment.source_of(section, name).split()[-1]
        for section, table in environment.tables.items()
        for name in table
    }
    warnings = (*exposures, *config_warnings(config))
    return replace(config, warnings=warnings, exposure_warnings=exposures, variables=MappingProxyType(variables))


class _SecretUnreadable(Exception):
    """The file of a secret is missing, or we may not read it; `str()` is a sentence.

    It takes the place of the value: whether anything needs the secret is found out later.
    """


class _ConfigBuilder:
    """The values of all layers so far, and every problem found in them."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, SourcedValue]] = {}
        self._problems: list[str] = []
        self._missing: dict[str, str] = {}
        self._invalid_sections: set[str] = set()

    def add_layer(self, layer: Layer) -> None:
        """Add a layer on top of the earlier ones."""
        self._problems += layer.problems
        for section, table in layer.tables.items():
            declaring = section_class(section)
            if declaring:
                self._add_section(section, keys_of(declaring), table, layer)
                continue
            for source in dict.fromkeys(layer.source_of(section, name) for name in table or ("",)):
                self._problems.append(f"{source}: there is no section [{section}]; {_section_hint(section)}")

    def build(self, path: Path | None, state_dir: Path) -> Config:
        """Return the finished config; `state_dir` applies unless it is set.

        Raises `ConfigError` if anything is wrong in any layer or between keys.
        """
        sections = {name: self._build_section(name, declaring) for name, declaring in SECTIONS.items()}
        if "state_dir" not in self._values.get("server", {}):
            sections["server"] = replace(sections["server"], state_dir=state_dir)
        if "folder" not in self._values.get("mail", {}):
            sections["mail"] = replace(sections["mail"], folder=sections["server"].state_dir / "mail")
        database = sections["database"]
        given = self._values.get("database", {}).get("url")
        sections["database"] = replace(database, url=with_absolute_path(database.url, given and given.folder))
        prefix = f"{DOWNLOADS}."
        downloads = {
            section.removeprefix(prefix): self._build_section(section, Download)
            for section in self._values
            if section.startswith(prefix)
        }
        missing = MappingProxyType(self._missing)
        config = Config(
            **sections,
            downloads=MappingProxyType(downloads),
            servers=self._build_listed(GAME_SERVERS, GameServer),
            team_chats=self._build_listed(TEAM_CHATS, TeamChat),
            more_webhooks=self._build_listed(WEBHOOKS, WebhookSection),
            custom_css=read_style(sections["server"].custom_css),
            file=path,
            missing_secrets=missing,
        )
        self._check_rules(config)
        if self._problems:
            raise ConfigError(*self._problems)
        return config

    def _add_section(
        self, section: str, keys: Mapping[str, Key[Any]], table: Mapping[str, object], layer: Layer
    ) -> None:
        values, header = self._values.setdefault(section, {}), header_of(section)
        for name, value in table.items():
            source = layer.source_of(section, name)
            secret = name.removesuffix(_FILE_SUFFIX)
            if name in keys:
                values[name] = _merge(values.get(name), SourcedValue(value, source, layer.folder))
            elif secret not in keys or not keys[secret].is_secret:
                self._add_problem(section, f'{source}: {header} has no key "{name}"; {_key_hint(section, name, keys)}')
            elif secret in table and value:
                self._add_problem(section, f"{source}: {header} has both {secret} and {name}; remove one of them.")
            elif value:
                try:
                    content = _read_secret(value, layer.folder, as_lines=isinstance(keys[secret].default, list))
                    values[secret] = SourcedValue(content, f"{source}, {name}", layer.folder)
                except _SecretUnreadable as error:
                    reason = f"{source}: {header} {name} = {_display(value)}: {error}."
                    values[secret] = SourcedValue(_SecretUnreadable(reason), source)
                except ValueError as error:
                    self._add_problem(section, f"{source}: {header} {name} = {_display(value)}: {error}.")

    def _build_section(self, section: str, declaring: type) -> Any:
        """Build a section; a key with an invalid value keeps its default, and a problem is recorded."""
        values: dict[str, object] = {}
        for name, given in self._values.get(section, {}).items():
            if isinstance(given.value, _SecretUnreadable):
                self._missing[f"{section}.{name}"] = str(given.value)
                is_list = isinstance(keys_of(declaring)[name].default, list)
                values[name] = () if is_list else MISSING_SECRET
                continue
            try:
                values[name] = _with_absolute_path(keys_of(declaring)[name].parse(given.value), given.folder)
            except ValueError as error:
                self._add_problem(section, _sentence(section, name, given, str(error)))
        return declaring(**values)

    def _build_listed(self, name: str, declaring: type) -> tuple[Any, ...]:
        sections = [section for section in self._values if section.startswith(f"{name}.")]
        return tuple(self._build_section(section, declaring) for section in sections)

    def _check_rules(self, config: Config) -> None:
        """Record violated rules, except of sections with an invalid value: those hold defaults now."""
        violations = [found for found in find_violations(config) if found.section not in self._invalid_sections]
        for section, name, reason, is_unreadable in violations:
            default = SourcedValue(key_of(section, name).default, str(config.file or "default"))
            sentence = _sentence(section, name, self._values.get(section, {}).get(name, default), reason)
            if is_unreadable:
                self._missing[f"{section}.{name}"] = sentence
            else:
                self._add_problem(section, sentence)

    def _add_problem(self, section: str, sentence: str) -> None:
        self._problems.append(sentence)
        self._invalid_sections.add(section)


def _with_absolute_path(value: object, folder: Path | None) -> object:
    """Return a path as an absolute one, any other value unchanged."""
    return (folder or Path()).absolute() / value if isinstance(value, Path) else value


def _sentence(section: str, name: str, given: SourcedValue, reason: str) -> str:
    """Return a sentence with the source, section, key, the value unless it is secret, and what to do."""
    value = "" if key_of(section, name).is_secret else f" = {_display(given.value)}"
    return f"{given.source}: {header_of(section)} {name}{value}: {reason}."


def _display(value: object) -> str:
    written = to_toml(value)
    return written if len(written) <= _MAX_SHOWN else f"{written[:_MAX_SHOWN]}..."


def _merge(earlier: SourcedValue | None, later: SourcedValue) -> SourcedValue:
    """Return the later value; tables (authme.columns) are merged, and the later names win."""
    if earlier and isinstance(earlier.value, dict) and isinstance(later.value, dict):
        return later._replace(value={**earlier.value, **later.value})
    return later


def _read_secret(written: object, folder: Path | None, *, as_lines: bool) -> object:
    """Read a secret from a file, without the final newline.

    Raises ValueError and `_SecretUnreadable`, each with a sentence.
    """
    if not isinstance(written, str):
        raise ValueError("this must be a file name in quotes")
    file = _existing_secret((folder or Path()).absolute() / written)
    if reason := exposed_reason(file):
        raise ValueError(reason)
    try:
        with open(open_file(file), encoding="utf-8") as secret:  # noqa: PTH123 - a descriptor, not a path
            content = secret.read()
    except UnicodeDecodeError:
        raise ValueError(f"{file} is not UTF-8 text") from None
    except PlantedLink as link:
        raise _SecretUnreadable(f"{link.filename} cannot be read ({link.strerror})") from None
    lines = content.splitlines()
    if not any(lines):
        raise ValueError(f"{file} is empty; write the secret into it")
    return lines if as_lines else content.removesuffix("\n").removesuffix("\r")


def _existing_secret(file: Path) -> Path:
    """Return the file to read a secret from: this one, or what systemd makes it from. Raises `_SecretUnreadable`."""
    reason = unreadable_reason(file)
    if reason is None:
        return file
    source = find_credential_source(file)
    if source is None:
        then = "" if may_exist(file) else "; write the secret into it, readable by the companion's user alone"
        raise _SecretUnreadable(f"{reason}{then}")
    if unreadable_reason(source) is None:
        return source
    if not may_exist(source):
        raise _SecretUnreadable(f"{reason}; write the secret into {source}, from which systemd makes it")
    raise _SecretUnreadable(
        f"{reason}; systemd makes it from {source} for the unit alone, while it is running: run this command as root, "
        "which reads that file"
    )


def _warnings_about_file(path: Path, layer: Layer) -> tuple[str, ...]:
    """Return a warning if a config file with secrets may be read by every user of the machine."""
    if exposed_reason(path) is None:
        return ()
    secrets = [
        f"{section}.{name}"
        for section, table in layer.tables.items()
        if (declaring := section_class(section))
        for name, key in keys_of(declaring).items()
        if key.is_secret and is_confidential(table.get(name), key)
    ]
    if not secrets:
        return ()
    return (f"{path} holds {', '.join(secrets)} and every user of this machine may read it; run: chmod 600 {path}",)


def is_confidential(value: object, key: Key[Any]) -> bool:
    """Return whether the value of a secret key is worth hiding: the default and an SQLite path are not."""
    return bool(value) and value != key.default and not str(value).startswith("sqlite:")


def _section_hint(section: str) -> str:
    if section.startswith(f"{DOWNLOADS}."):
        return "the id of a download consists of letters, digits, _ and -."
    if section in LISTED:
        return f"write [[{section}]], since there may be several."
    return _did_you_mean(section, (*SECTIONS, DOWNLOADS, TEAM_CHATS), "sections")


def _key_hint(section: str, name: str, keys: Iterable[str]) -> str:
    if f"{section}.{name}_".startswith(f"{GAME_SERVERS}_"):
        return f"other game servers are in the config file alone, below [[{GAME_SERVERS}]]."
    sections = [section for section, declaring in SECTIONS.items() if name in keys_of(declaring)]
    if sections:
        return f"it belongs to {' or '.join(f'[{section}]' for section in sections)}."
    return _did_you_mean(name, keys, "keys")


def _did_you_mean(name: str, known: Iterable[str], kind: str) -> str:
    alike = difflib.get_close_matches(name, list(known), n=1)
    return f'did you mean "{alike[0]}"?' if alike else f"the {kind} are {', '.join(known)}."
