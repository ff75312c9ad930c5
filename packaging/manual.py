"""The manual page, and completion for bash, zsh and fish: `python packaging/manual.py FOLDER` (part of `make dist`).

All are made from the parser of the command line, so they cannot differ from it, and lie below the folder as below
/usr/share. `SOURCE_DATE_EPOCH` gives the date.
"""

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from regsvc import __version__
from regsvc.cli.command_line import DESCRIPTION, build_parser

BASH = """# Completion of companion for bash.
_companion() {{
    local at= word words=
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$at $word" in
            {paths}) at="${{at:+$at }}$word" ;;
        esac
    done
    case "$at ${{COMP_WORDS[COMP_CWORD-1]}}" in
        {values}
        *) case "$at" in
            {words}
        esac ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _companion companion
"""
ZSH = """#compdef companion
local at= word
local -a found
for word in ${{words[2,CURRENT-1]}}; do
    case "$at $word" in
        {paths}) at="${{at:+$at }}$word" ;;
    esac
done
case "$at ${{words[CURRENT-1]}}" in
    {values}
    *) case "$at" in
        {words}
    esac ;;
esac
(( $#found )) && _describe companion found || _files
"""
FISH = """# Completion of companion for fish.
function __companion_at
    set -l at ''
    for word in (commandline -opc)[2..-1]
        contains -- "$at $word" {paths}
        and set at (string trim -- "$at $word")
    end
    test "$at" = "$argv[1]"
end
"""


@dataclass(frozen=True)
class Command:
    """A command such as `users ban` ("": the program itself), with its options, arguments and subcommands."""

    path: str
    description: str
    options: list[argparse.Action]
    arguments: list[argparse.Action]
    commands: dict[str, str]

    def words(self) -> dict[str, str]:
        """Return what may follow, and what it means."""
        flags = {flag: action.help or "" for action in self.options for flag in action.option_strings}
        choices = {str(choice): "" for action in self.arguments for choice in action.choices or ()}
        return {**self.commands, **choices, **{flag: _plain(text) for flag, text in flags.items()}}

    def values(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the flags that take a value, each with the values that there are (none: files, or any text)."""
        for action in self.options:
            if action.nargs != 0:
                yield from ((flag, [str(choice) for choice in action.choices or ()]) for flag in action.option_strings)


def main() -> None:
    """Write the files."""
    target = Path(sys.argv[1])
    parser, parsers = build_parser()
    for lazy in parsers.values():
        lazy.declare()
    commands = [*_walk(parser, "")]
    for name, text in {
        "man/man1/companion.1": manual_page(commands),
        "bash-completion/completions/companion": bash(commands),
        "zsh/site-functions/_companion": zsh(commands),
        "fish/vendor_completions.d/companion.fish": fish(commands),
    }.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_text(text, encoding="utf-8")


def _walk(parser: argparse.ArgumentParser, path: str) -> Iterator[Command]:
    actions = [action for action in parser._actions if action.help != argparse.SUPPRESS]
    groups = [action for action in actions if isinstance(action, argparse._SubParsersAction)]
    yield Command(
        path,
        parser.description or "",
        [action for action in actions if action.option_strings],
        [action for action in actions if not action.option_strings and action not in groups],
        {choice.dest: _plain(choice.help or "") for group in groups for choice in group._choices_actions},
    )
    for group in groups:
        for choice in group._choices_actions:
            yield from _walk(group.choices[choice.dest], f"{path} {choice.dest}".strip())


def _plain(text: str) -> str:
    return text.replace("%%", "%")


def manual_page(commands: list[Command]) -> str:
    """Return the page in the macros of man(7)."""
    day = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC).date()
    program, *others = commands
    lines = [
        f'.TH COMPANION 1 {day} "companion {__version__}" "System administration"',
        *(".SH NAME", rf"companion \- {_roff(DESCRIPTION[0].lower() + DESCRIPTION[1:].rstrip('.'))}"),
        *(".SH SYNOPSIS", ".B companion", r"[\fIOPTION\fR]... [\fICOMMAND\fR [\fIOPTION\fR]...]"),
        *(".SH DESCRIPTION", _roff(DESCRIPTION)),
        "Without a command it is the server, until stopped. Run as root, a command works as the owner of the state.",
        *(".SH OPTIONS", "Each command takes these, too.", *_roff_options(program.options)),
        ".SH COMMANDS",
    ]
    common = {tuple(action.option_strings) for action in program.options}
    for command in others:
        own = [action for action in command.options if tuple(action.option_strings) not in common]
        words = [command.path, *(["[OPTION]..."] if own else []), *map(_metavar, command.arguments)]
        words += ["ACTION"] if command.commands else []
        lines += [f'.SS "{_roff(" ".join(words))}"', _roff(_plain(command.description))]
        lines += _roff_options([*(action for action in command.arguments if action.help), *own])
    lines += [
        *(".SH FILES", ".I /etc/companion/companion.toml", ".br", ".I /etc/companion@NAME/companion.toml"),
        *(".SH SEE ALSO", ".B companion docs", "lists the documentation, and prints its pages:"),
        *(".B companion docs reference", "has the exit statuses."),
    ]
    return "\n".join(lines) + "\n"


def _metavar(action: argparse.Action) -> str:
    if action.choices and action.metavar is None:
        return "|".join(map(str, action.choices))
    name = action.metavar or action.dest.upper()
    return f"[{name}]" if action.nargs == "?" else str(name)


def _roff_options(actions: list[argparse.Action]) -> Iterator[str]:
    for action in actions:
        flags = ", ".join(rf"\fB{_roff(flag)}\fR" for flag in action.option_strings)
        value = rf"\fI{_roff(_metavar(action))}\fR" if action.nargs != 0 else ""
        yield from (".TP", f"{flags} {value}".strip(), _roff(_plain(action.help or "")) or r"\&")


def _roff(text: str) -> str:
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace('"', r"\(dq")
    escaped = "".join(letter if letter.isascii() else rf"\[u{ord(letter):04X}]" for letter in escaped)
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped


def _paths(commands: list[Command]) -> list[str]:
    """Return what a shell's `"$at $word"` is where a word leads to a further command."""
    return [command.path if " " in command.path else f" {command.path}" for command in commands if command.path]


def bash(commands: list[Command]) -> str:
    """Return the completion for bash: of words, without what they mean."""
    return BASH.format(
        paths=_alternatives(_paths(commands)),
        values=_values(commands, lambda values: f"words={shlex.quote(' '.join(values))}").replace("\n", "\n        "),
        words="\n            ".join(
            f"{shlex.quote(command.path)}) words={shlex.quote(' '.join(command.words()))} ;;" for command in commands
        ),
    )


def zsh(commands: list[Command]) -> str:
    """Return the completion for zsh."""

    def described(words: dict[str, str]) -> str:
        return " ".join(shlex.quote(f"{word}:{text}" if text else word) for word, text in words.items())

    return ZSH.format(
        paths=_alternatives(_paths(commands)),
        values=_values(commands, lambda values: f"found=({shlex.join(values)})").replace("\n", "\n    "),
        words="\n        ".join(
            f"{shlex.quote(command.path)}) found=({described(command.words())}) ;;" for command in commands
        ),
    )


def fish(commands: list[Command]) -> str:
    """Return the completion for fish."""
    lines = []
    for command in commands:
        condition = _fish(f'__companion_at "{command.path}"')
        start = f"complete -c companion -n {condition}"
        lines += [f"{start} -f -a {word} -d {_fish(text)}" for word, text in command.commands.items()]
        for action in command.arguments:
            if action.choices:
                lines.append(f"{start} -f -a {_fish(' '.join(map(str, action.choices)))}")
        for action in command.options:
            names = " ".join(
                f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in action.option_strings
            )
            value = f" -x -a {_fish(' '.join(map(str, action.choices)))}" if action.choices else " -r"
            lines.append(f"{start} {names}{value if action.nargs != 0 else ''} -d {_fish(_plain(action.help or ''))}")
    paths = " ".join(_fish(path) for path in _paths(commands))
    return FISH.format(paths=paths) + "\n".join(lines) + "\n"


def _alternatives(words: list[str]) -> str:
    return "|".join(shlex.quote(word) for word in words)


def _values(commands: list[Command], assign: Callable[[list[str]], str]) -> str:
    """Return the lines of a `case` over a command and the flag before the cursor; without values, files are offered."""
    lines = [
        f"{shlex.quote(f'{command.path} {flag}')}) {assign(values)} ;;"
        for command in commands
        for flag, values in command.values()
        if values
    ]
    others = {flag for command in commands for flag, values in command.values() if not values}
    lines.append("|".join(f"*' {flag}'" for flag in sorted(others)) + ") ;;")
    return "\n".join(lines)


def _fish(text: str) -> str:
    """Return the text as one word of fish, whose quotes know two escapes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


if __name__ == "__main__":
    main()
