"""`companion config`: show one key of a config file, or change it, while everything else in the file stays as it is."""

import argparse
import getpass
import os
import re
import stat
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from regsvc.cli.given_config import find_given_config, read_as_owner
from regsvc.config.key_types import Key, keys_of, to_toml
from regsvc.config.layers import (
    LISTED,
    SECTIONS,
    WEBHOOKS,
    environment_layer,
    file_layer,
    header_of,
    read_text,
    section_class,
    section_on,
)
from regsvc.config.loader import is_confidential, load_config
from regsvc.config.places import SystemPlaces, find_credential_source, may_exist
from regsvc.config.sections import ConfigError
from regsvc.core.safe_paths import located, replace_file
from regsvc.core.text import parse_toml
from regsvc.runtime.reload import RELOADABLE

_FILE: Final = "_file"
_ODD: Final = "is written in a way that this command does not change: change it by hand; nothing was changed."
_MAY_READ_SECRETS: Final = 0o640
_PAIR: Final = re.compile(r"(?:\s*|(#))([A-Za-z0-9_-]+)\s*=")


class _Entry(NamedTuple):
    """A header (`name` is ""), a key or the sample of a key, in the lines from `first` to before `after`."""

    section: str
    name: str
    first: int
    after: int
    is_live: bool = True


def with_value(text: str, key: str, value: object | None) -> str:
    """Return the text of a config with another TOML value of "section.key"; None leaves its default.

    `key_file` takes the place of a secret `key`, and the reverse. All other lines stay as they are. Raises
    `ConfigError` where that cannot be done.
    """
    section, _dot, name = key.rpartition(".")
    declared = find_key(key)
    plain = name.removesuffix(_FILE) if declared.is_secret else name
    names = {plain, f"{plain}{_FILE}"} if declared.is_secret else {name}
    expected = parse_toml(text)
    table = _table_of(expected, section)
    if value is None and names.isdisjoint(table):
        return text
    for other in names:
        table.pop(other, None)
    if value is not None:
        table[name] = value
    line = f"#{plain} = {to_toml(declared.default)}" if value is None else f"{name} = {to_toml(value)}"
    changed = text[: text.startswith("\ufeff")] + _with_line(text.removeprefix("\ufeff"), section, names, line)
    with suppress(tomllib.TOMLDecodeError):
        if parse_toml(changed) == expected:
            return changed
    likely = re.compile(rf"[^\w\[#=]*({section}|{name})\b.*=")
    number = next((number for number, line in enumerate(text.split("\n"), 1) if likely.match(line)), 1)
    raise ConfigError(f"line {number} of the config: {key} {_ODD}")


def _table_of(document: dict[str, Any], section: str) -> dict[str, Any]:
    """Return the table of a section, which is added if it is missing. Raises `ConfigError`."""
    *outer, last = section.split(".")
    is_listed = ".".join(outer) in LISTED
    found: Any = document
    for part in outer if is_listed else [*outer, last]:
        found = found.setdefault(part, {})
        if isinstance(found, list):
            found = dict(enumerate(found, 1)).get(int(last) if is_listed else 1)
        elif is_listed and part == outer[-1]:
            found = None
        if found is None:
            raise ConfigError(f"there is no {header_of(section)} in the config: add it by hand; nothing was changed.")
        if not isinstance(found, dict):
            raise ConfigError(f"{part} is no section: change it by hand; nothing was changed.")
    table: dict[str, Any] = found
    return table


def _with_line(text: str, section: str, names: set[str], line: str) -> str:
    """Return the text with this line in place of the key with one of these names, or of its sample; else added."""
    lines = text.split("\n")
    own = [entry for entry in _entries(lines) if entry.section == section]
    present = sorted((entry for entry in own if entry.name in names), key=lambda entry: not entry.is_live)
    end = "\r" if "\r\n" in text else ""
    if present:
        first, after = present[0].first, present[0].after
        indent = lines[first][: len(lines[first]) - len(lines[first].lstrip())]
        comment = _comment_after(lines[first:after]) if present[0].is_live else end
        replaced = {first: [f"{indent}{line}{comment}"]}
        for entry in sorted(present, key=lambda entry: -entry.first):  # a secret may be there in both ways
            if entry is present[0] or entry.is_live:
                lines[entry.first : entry.after] = replaced.get(entry.first, [])
    elif own:
        lines.insert(max(entry.after for entry in own if entry.is_live), f"{line}{end}")
    else:
        lines[-1:] = [*([lines[-1] + end] if lines[-1] else []), end, f"[{section}]{end}", f"{line}{end}", ""]
    return "\n".join(lines)


def _entries(lines: list[str]) -> Iterator[_Entry]:
    """Yield headers, keys and samples of keys; not what only looks like one in a text of several lines."""
    section, number, listed = "", 0, Counter[str]()
    while number < len(lines):
        after, header, pair = number + 1, section_on(lines[number]), _PAIR.match(lines[number])
        if lines[number].lstrip().startswith("[") and header is not None:
            listed[header] += 1
            is_alone = header not in LISTED or (header, listed[header]) == (WEBHOOKS, 1)
            section = header if is_alone else f"{header}.{listed[header]}"
            yield _Entry(section, "", number, after)
        elif pair is not None:
            while not pair[1] and not _is_toml("\n".join(lines[number:after])) and after < len(lines):
                after += 1
            yield _Entry(section, pair[2], number, after, is_live=not pair[1])
        number = after


def _comment_after(lines: list[str]) -> str:
    """Return the comment that follows a value on its last line, with the space before it."""
    *before, last = lines
    for found in re.finditer(r"\s*#", last):
        if _is_toml("\n".join([*before, last[: found.start()]])):
            return last[found.start() :]
    return "\r" * last.endswith("\r")


def _is_toml(text: str) -> bool:
    try:
        parse_toml(f"{text}\n")
    except tomllib.TOMLDecodeError:
        return False
    return True


def find_key(key: str) -> Key[Any]:
    """Return the declaration of "section.key", or of the secret that "section.key_file" has. Raises `ConfigError`."""
    section, _dot, name = key.rpartition(".")
    declaring = section_class(section)
    keys = keys_of(declaring) if declaring is not None else {}
    secret = keys.get(name.removesuffix(_FILE))
    found = keys.get(name, secret if secret is not None and secret.is_secret else None)
    if found is not None:
        return found
    owners = [owner for owner, declaring in SECTIONS.items() if not section and name in keys_of(declaring)]
    if owners:
        raise ConfigError(f"a key is written with its section: {' or '.join(f'{owner}.{name}' for owner in owners)}.")
    if not section:
        raise ConfigError(f'a key is written with its section, such as server.name; no section has "{name}".')
    load_config(None, {}, {key: ""})  # says what there is
    raise AssertionError(key)


def load_changed(file: Path, text: str, changed: str) -> list[str]:
    """Return what the loader says about a changed config: warnings, and mistakes that were there before.

    Raises `ConfigError` for mistakes that the change makes.
    """
    problems, warnings = _examine(file, changed)
    before, known = _examine(file, text)
    if new := [problem for problem in problems if problem not in before]:
        raise ConfigError(*new, "nothing was changed.")
    line = re.compile(r", line \d+:")  # which a change moves
    said = {line.sub(":", warning) for warning in known}
    return [*problems, *(warning for warning in warnings if line.sub(":", warning) not in said)]


def _examine(file: Path, text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the mistakes and the warnings of a config with this text."""
    try:
        return (), load_config(file, os.environ, text=text).warnings
    except ConfigError as error:
        return error.problems, ()


def add_config_options(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("action", choices=("get", "set", "unset"), help="unset: back to the default")
    parser.add_argument("key", metavar="KEY", help="with its section, such as server.port")
    parser.add_argument(
        "value",
        metavar="VALUE",
        nargs="?",
        help="lists with commas, or as in TOML; - reads standard input; left out, it is asked for",
    )


def run_config_command(args: argparse.Namespace) -> int:
    """Show or change a key; return the exit status. Raises `ConfigError`."""
    declared, file = find_key(args.key), find_given_config(args)
    if file is None:
        raise ConfigError("there is no config file; name one with --config, or set variables in the environment.")
    read_as_owner(file)
    text = read_text(file)
    section, _dot, name = args.key.rpartition(".")
    table = file_layer(file, text).tables.get(section, {})
    is_shown = not declared.is_secret or name.endswith(_FILE)
    written = "" if is_shown else table.get(f"{name}{_FILE}")
    secret_file = file.parent / written if isinstance(written, str) and written else None
    if args.action == "get":
        found = table.get(name, "" if name.endswith(_FILE) else declared.default)
        place = f", in {secret_file}" if secret_file is not None else ""
        print((found if isinstance(found, str) else to_toml(found)) if is_shown else f"(a secret{place})")
        return 0
    return _change(args, file, text, declared, secret_file, is_shown=is_shown)


def _change(
    args: argparse.Namespace, file: Path, text: str, declared: Key[Any], secret_file: Path | None, *, is_shown: bool
) -> int:
    """Set or unset the key; `secret_file` is the file that the config names for it, and has the secret."""
    value, remarks = None, list[str]()
    if args.action == "set":
        written = _read_value(args, is_shown=is_shown)
        if written is None:
            return 2
        if any("\ud800" <= letter <= "\udfff" for letter in written):  # bytes that are no text
            raise ConfigError(f"the value of {args.key} is not UTF-8 text; nothing was changed.")
        value, remarks = (written, []) if args.key.endswith(_FILE) else declared.read(written, is_typed=True)
        if declared.read(value, is_typed=False)[0] != value:  # quoted twice, since quotes belong to it
            value = declared.from_text(written)
        if not is_shown and args.value not in (None, "-") and is_confidential(value, declared):
            print(
                f"companion: {args.key} is a secret, and a command line is seen by others and kept by shells: leave it "
                f"out and type it, or: companion config set {args.key} - < FILE",
                file=sys.stderr,
            )
            return 2
    changed = with_value(text, args.key, value)
    if changed == text:
        print(f"{file}: {args.key} is so already")
        return 0
    remarks += load_changed(file, text, changed)
    place = file
    if args.key.endswith(_FILE) and value and not may_exist(_source_of(file.parent / str(value))):
        remarks.append(f"there is no {_source_of(file.parent / str(value))} yet: write the secret into it")
    if secret_file is not None and value is not None:
        changed, place = _write_secret(args.key, value, file, text, secret_file)
    elif secret_file is not None:
        remarks.append(f"{_source_of(secret_file)} still has the secret: remove it, unless something else reads it")
    if changed != text:
        _write(file, changed)
    shown = "the default again" if value is None else to_toml(value) if is_shown else "…"
    print(f"{place}: {args.key} = {shown}")
    next_step = _next_step(args.key, file, is_credential=place not in (file, secret_file))
    print("\n".join([*(f"warning: {remark}" for remark in (*remarks, *_find_variables(args.key))), next_step]))
    return 0


def _source_of(secret_file: Path) -> Path:
    """Return the file that has a secret: this one, or the one of which systemd makes it for our unit."""
    return find_credential_source(secret_file) or secret_file


def _write_secret(key: str, value: object, file: Path, text: str, secret_file: Path) -> tuple[str, Path]:
    """Write a secret where it is; return the text of the config, and the file written. Raises `ConfigError`.

    The config changes only where it has the secret, too.
    """
    path = _source_of(secret_file)
    secret = "\n".join(value) if isinstance(value, list) else str(value)
    if not secret:
        raise ConfigError(f"{path} cannot be empty; to go without the secret: companion config unset {key}")
    _write(path, f"{secret}\n", like=file if path == secret_file else path.parent)
    section, _dot, name = key.rpartition(".")
    table = file_layer(file, text).tables[section]
    return with_value(text, f"{key}{_FILE}", table[f"{name}{_FILE}"]) if name in table else text, path


def _find_variables(key: str) -> list[str]:
    """Return a sentence for each variable of the environment that hides this key of the file."""
    layer, (section, _dot, name) = environment_layer(os.environ), key.removesuffix(_FILE).rpartition(".")
    names = {name, f"{name}{_FILE}"} & layer.tables.get(section, {}).keys()
    return [f"the {layer.source_of(section, name)} is set here, and counts instead" for name in sorted(names)]


def _read_value(args: argparse.Namespace, *, is_shown: bool) -> str | None:
    """Return the value that was given, or is typed now; None after an error message."""
    if args.value == "-":
        return sys.stdin.read().removesuffix("\n").removesuffix("\r")
    if args.value is not None:
        quoted = f"value = {args.value}"
        is_text = args.value[:1] in ('"', "'") and _is_toml(quoted)
        return str(parse_toml(quoted)["value"]) if is_text else str(args.value)
    with suppress(EOFError):
        if sys.stdin.isatty():
            return input(f"{args.key}: ") if is_shown else getpass.getpass(f"{args.key} (not shown): ")
    print("companion: VALUE is missing; - reads it from standard input", file=sys.stderr)
    return None


def _write(file: Path, text: str, like: Path | None = None) -> None:
    """Replace the file, or what a link of its name leads to. Raises `ConfigError`.

    With `like` it is a secret, which others may not read, and which need not be there: it then gets the owner of that
    file or folder.
    """
    path = file if os.geteuid() == 0 else file.resolve()
    try:
        with located(path) as (folder, name):
            try:
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                if like is None:
                    raise
                found = like.stat()
            mode = stat.S_IMODE(found.st_mode) if like is None else found.st_mode & _MAY_READ_SECRETS
            replace_file(folder, name, text, mode=mode, owner=(found.st_uid, found.st_gid))
    except OSError as error:
        advice = ": run this command with sudo" if isinstance(error, PermissionError) else ""
        raise ConfigError(f"{file} cannot be written ({error.strerror}){advice}; nothing was changed.") from error


_OF_UNIT: Final = ("server.state_dir", "game.directory", "database.url")
"""Keys by which the unit's lines say where it may write."""


def _next_step(key: str, file: Path, *, is_credential: bool) -> str:
    """Return what to do now, for the key to take effect. systemd reads what it makes a credential of at the start."""
    places = SystemPlaces.of_config(file)
    if places is not None and key in _OF_UNIT:
        instance = places.name.partition("@")[2]
        command = f"companion -i {instance} install" if instance else "companion install"
        return f"now run: {command}   (it lets the unit write there, and restarts it)"
    is_reloaded = key.removesuffix(_FILE) in RELOADABLE and not is_credential
    if places is not None:
        return f"it takes effect with: systemctl {'reload' if is_reloaded else 'restart'} {places.name}"
    return f"it takes effect {'on SIGHUP' if is_reloaded else 'at the next start'}"
