"""Config loading: layers over defaults, with every problem reported before anything starts.

Later layers win: the file, the environment, the command line. A value in a later layer hides the same key of an
earlier one, whether it was set as `key` or as `key_file`. Relative paths count from the folder of the file that sets
them, those of the environment and the command line from the current folder; all are absolute once loaded.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from regsvc.config.cross_key_rules import config_warnings, find_violations
from regsvc.config.host_sections import GameServer, TeamChat, WebhookSection
from regsvc.config.host_style import read_style
from regsvc.config.key_types import Key, find_unmet, keys_of, to_toml
from regsvc.config.layers import (
    COMMAND_LINE,
    DOWNLOADS,
    ENVIRONMENT_PREFIX,
    GAME_SERVERS,
    LISTED,
    SECTIONS,
    TEAM_CHATS,
    VARIABLE_SOURCE,
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
from regsvc.config.value_checks import clean_value, exposed_reason, unreadable_reason, with_absolute_path
from regsvc.core.i18n import Sentence
from regsvc.core.safe_paths import PlantedLink, open_file

_FILE_SUFFIX = "_file"
_MAX_SHOWN = 80
_CREDENTIALS = re.compile(r"(?<=://)[^/\s\"]*@")
"""Name and password in an address."""


class SourcedValue(NamedTuple):
    """A configured TOML value, where it was set, and what a relative path counts from (None: the current folder)."""

    value: object
    source: str
    folder: Path | None = None
    place: str = ""
    """`source` with the line."""


def load_config(
    path: Path | None,
    environ: Mapping[str, str],
    overrides: Mapping[str, object] = MappingProxyType({}),
    text: str | None = None,
    *,
    shadowed: Path | None = None,
) -> Config:
    """Load the config from a file (None: no file), the environment, and overrides by "section.key".

    `text` takes the place of what is in the file now, which need not exist then. `shadowed`: another config that sets
    keys, and is not read.
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
    unread = [Sentence("{file} is not read, since {other} is.", file=shadowed, other=file)] if shadowed else []
    without_effect = (*unread, *_misspelt_variables(environ), *builder.hidden, *builder.find_without_effect(config))
    return replace(
        config,
        warnings=(*exposures, *builder.remarks, *config_warnings(config), *without_effect),
        exposure_warnings=exposures,
        without_effect=without_effect,
        variables=MappingProxyType(variables),
    )


def _misspelt_variables(environ: Mapping[str, str]) -> Iterator[Sentence]:
    """Yield a sentence for each variable that would set a key in capitals."""
    for name in sorted(environ):
        if name.upper().startswith(ENVIRONMENT_PREFIX) and not name.startswith(ENVIRONMENT_PREFIX):
            yield Sentence(
                "The environment variable {name} has no effect: write {right}.", name=name, right=name.upper()
            )


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
        self._remarks: dict[tuple[str, str], tuple[str, list[str]]] = {}
        self.hidden: list[Sentence] = []
        """Sentences about keys of the file in whose place a variable of the environment is read."""

    def add_layer(self, layer: Layer) -> None:
        """Add a layer on top of the earlier ones."""
        self._problems += layer.problems
        for section, table in layer.tables.items():
            declaring = section_class(section)
            if declaring:
                self._add_section(section, keys_of(declaring), table, layer)
                continue
            sources = {layer.source_of(section, name): name for name in table or ("",)}
            for source, name in sources.items():
                hint = _variable_hint(f"{section}_{name}") if source.startswith(VARIABLE_SOURCE) else None
                self._problems.append(f"{source}: there is no section [{section}]; {hint or _section_hint(section)}")

    def build(self, path: Path | None, state_dir: Path) -> Config:
        """Return the finished config; `state_dir` applies unless it is set.

        Raises `ConfigError` if anything is wrong in any layer or between keys.
        """
        sections = {name: self._build_section(name, declaring) for name, declaring in SECTIONS.items()}
        if "state_dir" not in self._values.get("server", {}):
            sections["server"] = replace(sections["server"], state_dir=state_dir)
        mail = sections["mail"]
        # a login without its password was not used before, either, and must not end a start after an upgrade
        if mail.backend == "auto" and mail.host and not (mail.username and not mail.password):
            sections["mail"] = replace(mail, backend="smtp")
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
            place = layer.place_of(section, name)
            if name in keys:
                value = self._read(section, name, keys[name], value, place, is_typed=layer.is_typed)
                given = SourcedValue(value, source, layer.folder, place)
                self._note_hidden(section, name, values.get(name), given)
                values[name] = _merge(values.get(name), given)
            elif secret not in keys or not keys[secret].is_secret:
                self._add_problem(section, f'{source}: {header} has no key "{name}"; {_key_hint(section, name, keys)}')
            elif secret in table and value:
                self._add_problem(section, f"{source}: {header} has both {secret} and {name}; remove one of them.")
            elif value:
                value, _remarks = clean_value(value)
                try:
                    content = _read_secret(value, layer.folder, as_lines=isinstance(keys[secret].default, list))
                    content = self._read(section, secret, keys[secret], content, place)
                    given = SourcedValue(content, f"{source}, {name}", layer.folder, place)
                    self._note_hidden(section, secret, values.get(secret), given)
                    values[secret] = given
                except _SecretUnreadable as error:
                    reason = f"{source}: {header} {name} = {_display(value)}: {error}."
                    values[secret] = SourcedValue(_SecretUnreadable(reason), source, layer.folder, place)
                except ValueError as error:
                    self._add_problem(section, f"{source}: {header} {name} = {_display(value)}: {error}.")

    def _read(
        self, section: str, name: str, key: Key[Any], value: object, place: str, *, is_typed: bool = False
    ) -> object:
        """Return the clean value, and keep the remarks about it; of several layers those of the last one count."""
        value, remarks = key.read(value, is_typed=is_typed)
        self._remarks[section, name] = place, remarks
        return value

    @property
    def remarks(self) -> list[str]:
        """A sentence about each value that is not taken as it is written, or may be a mistake."""
        return [
            f"{place}: {header_of(section)} {name}: {'; '.join(remarks)}."
            for (section, name), (place, remarks) in self._remarks.items()
            if remarks
        ]

    def _note_hidden(self, section: str, name: str, earlier: SourcedValue | None, later: SourcedValue) -> None:
        """Note that a variable takes the place of what the file says; the command line does so on purpose."""
        is_variable = later.source.startswith(VARIABLE_SOURCE)
        if earlier and is_variable and earlier.value != later.value and not isinstance(later.value, dict):
            self.hidden.append(
                Sentence(
                    "{place}: {key} has no effect: {other} takes its place.",
                    place=earlier.place,
                    key=f"{header_of(section)} {name}",
                    other=later.place,
                )
            )

    def find_without_effect(self, config: Config) -> Iterator[Sentence]:
        """Yield a sentence for each key that the host set in vain, because of another key or of the game's files.

        Not for a default: it says nothing, and panels and uncommented samples have it.
        """
        for section, values in self._values.items():
            declaring = section_class(section)
            assert declaring is not None
            for name, given in values.items():
                if given.value == keys_of(declaring)[name].default or given.source == COMMAND_LINE:
                    continue
                if need := find_unmet(config, _section_of(config, section), name):
                    spoken = header_of(section).replace("[", "").replace("]", "")  # such as webhook #2
                    yield Sentence(
                        "{place}: {key} has no effect: it needs {needed}.",
                        place=given.place,
                        key=f"{header_of(section)} {name}",
                        needed=need.describe(spoken),
                    )

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
                reason = "; ".join([str(error), *self._remarks[section, name][1]])
                self._add_problem(section, _sentence(section, name, given, reason))
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


def _section_of(config: Config, section: str) -> Any:
    """Return the section with this name, as layers name sections."""
    listed = {GAME_SERVERS: config.servers, TEAM_CHATS: config.team_chats, WEBHOOKS: config.more_webhooks}
    kind, _dot, name = section.rpartition(".")
    if kind == DOWNLOADS:
        return config.downloads[name]
    if kind not in listed:
        return getattr(config, section)
    return listed[kind][int(name) - (2 if kind == WEBHOOKS else 1)]


def _with_absolute_path(value: object, folder: Path | None) -> object:
    """Return a path as an absolute one, any other value unchanged."""
    return (folder or Path()).absolute() / value if isinstance(value, Path) else value


def _sentence(section: str, name: str, given: SourcedValue, reason: str) -> str:
    """Return a sentence with the source, section, key, the value unless it is secret, and what to do."""
    value = "" if key_of(section, name).is_secret else f" = {_display(given.value)}"
    return f"{given.source}: {header_of(section)} {name}{value}: {reason}."


def _display(value: object) -> str:
    written = _CREDENTIALS.sub("…@", to_toml(value))
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


def _variable_hint(written: str) -> str | None:
    """Return what to write for a variable whose name has no section, too many underscores, or no place; else None."""
    name = re.sub("_+", "_", written.strip("_"))
    if name.startswith(f"{TEAM_CHATS}_"):
        return f"[[{TEAM_CHATS}]] is in the config file alone."
    known = [f"{section}_{key}" for section, declaring in SECTIONS.items() for key in keys_of(declaring)]
    meant = [variable for variable in known if variable == name or variable.partition("_")[2] == name]
    return f"write {' or '.join(f'{ENVIRONMENT_PREFIX}{variable}'.upper() for variable in meant)}." if meant else None


def _section_hint(section: str) -> str:
    if section.startswith(f"{DOWNLOADS}."):
        return "the id of a download consists of letters, digits, _ and -."
    if section in LISTED:
        return f"write [[{section}]], since there may be several."
    return _did_you_mean(section, (*SECTIONS, DOWNLOADS, TEAM_CHATS), "sections")


def _key_hint(section: str, name: str, keys: Iterable[str]) -> str:
    if (plain := name.removesuffix(_FILE_SUFFIX)) != name and plain in keys:
        return f"only secrets are read from files; write {plain}."
    if f"{section}.{name}_".startswith(f"{GAME_SERVERS}_"):
        return f"other game servers are in the config file alone, below [[{GAME_SERVERS}]]."
    if section == WEBHOOKS and re.match(r"[0-9]+_", name):
        return f"other webhooks are in the config file alone, below [[{WEBHOOKS}]]."
    if alike := difflib.get_close_matches(f"{section}.{name}", LISTED, n=1, cutoff=0.9):
        return f"did you mean [[{alike[0]}]]?"
    sections = [section for section, declaring in SECTIONS.items() if name in keys_of(declaring)]
    if sections:
        return f"it belongs to {' or '.join(f'[{section}]' for section in sections)}."
    return _did_you_mean(name, keys, "keys")


def _did_you_mean(name: str, known: Iterable[str], kind: str) -> str:
    alike = difflib.get_close_matches(name, list(known), n=1)
    return f'did you mean "{alike[0]}"?' if alike else f"the {kind} are {', '.join(known)}."
