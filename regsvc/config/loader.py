"""Reading the config: layers over defaults, every problem found before anything starts.

Later layers win: STATE_DIRECTORY, the file, the environment, the command line. A value in a later layer hides
the same key of an earlier one, whether it was written as `key` or as `key_file`.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from regsvc.config.cross_key_rules import broken_rules, config_warnings
from regsvc.config.key_types import Key, keys_of, to_toml
from regsvc.config.layers import (
    DOWNLOADS,
    SECTIONS,
    Layer,
    command_line_layer,
    environment_layer,
    file_layer,
    section_class,
    state_directory_layer,
)
from regsvc.config.sections import Config, ConfigError, Download
from regsvc.config.value_checks import unreadable_reason, why_not_secret

DEFAULT_FILES = (Path("conf/companion.toml"), Path("/etc/companion/companion.toml"))

_FILE_SUFFIX = "_file"
_MAX_SHOWN = 80


class SourcedValue(NamedTuple):
    """A value somebody gave for a key, as TOML holds it, and the place where."""

    value: object
    source: str


def find_config_file(given: str | None) -> Path | None:
    """The file to read: `given`, else the first default that exists, else None (all defaults).

    Raises ConfigError when `given` does not exist. A file that cannot be read is found all the same: it is
    better not to start than to start on defaults.
    """
    if given is not None:
        if not _exists(Path(given)):
            raise ConfigError([f"{given}: there is no such file; check what follows --config."])
        return Path(given)
    return next((file for file in DEFAULT_FILES if _exists(file)), None)


def load_config(
    path: Path | None,
    environ: Mapping[str, str],
    overrides: Mapping[str, object] = MappingProxyType({}),
) -> Config:
    """The config from a file (None: no file), the environment, and overrides by "section.key".

    Raises ConfigError with every problem found, one sentence each.
    """
    reading = _Reading()
    reading.take(state_directory_layer(environ))
    warnings: list[str] = []
    if path:
        layer = file_layer(path)
        reading.take(layer)
        warnings += _warnings_about_file(path, layer)
    reading.take(environment_layer(environ))
    reading.take(command_line_layer(overrides))
    config = reading.config(path)
    return replace(config, warnings=(*warnings, *config_warnings(config)))


def warn_of_shown_secrets(path: Path) -> list[str]:
    """Of the warnings, those about secrets in a config file that everybody on the machine may read."""
    return _warnings_about_file(path, file_layer(path))


def _exists(file: Path) -> bool:
    """Whether there is such a file, as far as we may look."""
    try:
        return file.exists()
    except PermissionError:
        return True


class _Reading:
    """What has been given so far, and everything that is wrong with it."""

    def __init__(self) -> None:
        self._given: dict[str, dict[str, SourcedValue]] = {}
        self._problems: list[str] = []
        self._broken_sections: set[str] = set()

    def take(self, layer: Layer) -> None:
        """Put a layer on top of those taken before."""
        self._problems += layer.problems
        for section, table in layer.tables.items():
            declaring = section_class(section)
            if declaring:
                self._take_section(section, keys_of(declaring), table, layer)
                continue
            for source in dict.fromkeys(layer.source_of(section, name) for name in table or ("",)):
                self._problems.append(f"{source}: there is no section [{section}]; {_section_hint(section)}")

    def config(self, path: Path | None) -> Config:
        """The finished config; raises ConfigError if anything was wrong in any layer or between keys."""
        sections = {name: self._build(name, declaring) for name, declaring in SECTIONS.items()}
        if "folder" not in self._given.get("mail", {}) and "state_dir" in self._given.get("server", {}):
            sections["mail"] = replace(sections["mail"], folder=sections["server"].state_dir / "mail")
        prefix = f"{DOWNLOADS}."
        downloads = {
            section.removeprefix(prefix): self._build(section, Download)
            for section in self._given
            if section.startswith(prefix)
        }
        config = Config(**sections, downloads=MappingProxyType(downloads), file=path)
        self._check_rules(config)
        if self._problems:
            raise ConfigError(self._problems)
        return config

    def _take_section(
        self, section: str, keys: Mapping[str, Key[Any]], table: Mapping[str, object], layer: Layer
    ) -> None:
        taken = self._given.setdefault(section, {})
        for name, value in table.items():
            source = layer.source_of(section, name)
            secret = name.removesuffix(_FILE_SUFFIX)
            if name in keys:
                taken[name] = _merged(taken.get(name), SourcedValue(value, source))
            elif secret not in keys or not keys[secret].is_secret:
                self._complain(section, f'{source}: [{section}] has no key "{name}"; {_key_hint(name, keys)}')
            elif secret in table and value:
                self._complain(section, f"{source}: [{section}] has both {secret} and {name}; remove one of them.")
            elif value:
                try:
                    content = _read_secret(value, as_lines=isinstance(keys[secret].default, list))
                    taken[secret] = SourcedValue(content, f"{source}, {name}")
                except ValueError as error:
                    self._complain(section, f"{source}: [{section}] {name} = {_shown(value)}: {error}.")

    def _build(self, section: str, declaring: type) -> Any:
        """A section from what was given; a key with a bad value keeps its default, and a problem is noted."""
        values: dict[str, object] = {}
        for name, given in self._given.get(section, {}).items():
            try:
                values[name] = keys_of(declaring)[name].parse(given.value)
            except ValueError as error:
                self._complain(section, _sentence(section, name, given, str(error)))
        return declaring(**values)

    def _check_rules(self, config: Config) -> None:
        """Note the broken rules, but not of sections with a bad value: defaults stand in for these."""
        sound = [broken for broken in broken_rules(config) if broken.section not in self._broken_sections]
        for section, name, reason in sound:
            default = SourcedValue(_key(section, name).default, str(config.file or "default"))
            given = self._given.get(section, {}).get(name, default)
            self._complain(section, _sentence(section, name, given, reason))

    def _complain(self, section: str, sentence: str) -> None:
        self._problems.append(sentence)
        self._broken_sections.add(section)


def _key(section: str, name: str) -> Key[Any]:
    declaring = section_class(section)
    assert declaring is not None
    return keys_of(declaring)[name]


def _sentence(section: str, name: str, given: SourcedValue, reason: str) -> str:
    """Place, section, key, the bad value unless it is secret, and what to do."""
    value = "" if _key(section, name).is_secret else f" = {_shown(given.value)}"
    return f"{given.source}: [{section}] {name}{value}: {reason}."


def _shown(value: object) -> str:
    written = to_toml(value)
    return written if len(written) <= _MAX_SHOWN else f"{written[:_MAX_SHOWN]}..."


def _merged(earlier: SourcedValue | None, later: SourcedValue) -> SourcedValue:
    """The later value; of tables (authme.columns) every name of both, the later ones first."""
    if earlier and isinstance(earlier.value, dict) and isinstance(later.value, dict):
        return SourcedValue({**earlier.value, **later.value}, later.source)
    return later


def _read_secret(written: object, *, as_lines: bool) -> object:
    """What a secret's file holds, without its final newline; ValueError says what is wrong with it."""
    if not isinstance(written, str):
        raise ValueError("this must be the name of a file, in quotes")
    file = Path(written)
    if reason := unreadable_reason(file) or why_not_secret(file):
        raise ValueError(reason)
    try:
        content = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{file} is not UTF-8 text") from None
    lines = content.splitlines()
    if not any(lines):
        raise ValueError(f"{file} is empty; write the secret into it")
    return lines if as_lines else content.removesuffix("\n").removesuffix("\r")


def _warnings_about_file(path: Path, layer: Layer) -> list[str]:
    """Sentences about a config file that shows its secrets to everybody on the machine."""
    if why_not_secret(path) is None:
        return []
    secrets = [
        f"{section}.{name}"
        for section, table in layer.tables.items()
        if (declaring := section_class(section))
        for name, key in keys_of(declaring).items()
        if key.is_secret and _is_confidential(table.get(name), key)
    ]
    if not secrets:
        return []
    return [f"{path} holds {', '.join(secrets)} and everybody on this machine may read it; run: chmod 600 {path}"]


def _is_confidential(value: object, key: Key[Any]) -> bool:
    """Whether a secret key's value tells anything: the path of an SQLite file does not."""
    return bool(value) and value != key.default and not str(value).startswith("sqlite:")


def _section_hint(section: str) -> str:
    if section.startswith(f"{DOWNLOADS}."):
        return "the id of a download has letters, digits, _ and -."
    return _did_you_mean(section, (*SECTIONS, DOWNLOADS), "sections")


def _key_hint(name: str, keys: Iterable[str]) -> str:
    homes = [section for section, declaring in SECTIONS.items() if name in keys_of(declaring)]
    if homes:
        return f"it belongs to {' or '.join(f'[{home}]' for home in homes)}."
    return _did_you_mean(name, keys, "keys")


def _did_you_mean(name: str, known: Iterable[str], kind: str) -> str:
    alike = difflib.get_close_matches(name, list(known), n=1)
    return f'did you mean "{alike[0]}"?' if alike else f"the {kind} are {', '.join(known)}."
