"""Whatever the pages name is there: commands and options, targets of make, config keys, files, addresses, links."""

import re
import shlex
import tomllib
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from typing import Any

import pytest

from regsvc import __version__
from regsvc.app.routes import ROUTES
from regsvc.cli.command_line import build_parser, parse
from regsvc.config.key_types import keys_of
from regsvc.config.layers import LISTED, SECTIONS
from regsvc.config.sections import Download
from regsvc.doctor.checkup import CHECKS
from regsvc.legacy.routes import legacy_routes
from regsvc.web.pages import PAGE_TABLE
from tests.compatibility.names import list_names
from tests.docs.pages import (
    HISTORY,
    PAGES,
    ROOT,
    anchors_of,
    list_blocks,
    list_links,
    list_spans,
    name_of,
    split_commands,
    text_of,
)

FOLDERS = r"(?:\.ci|regsvc|plugin_bridge|tests|docs|conf|systemd|packaging)"
ALL_KEYS = {**SECTIONS, "downloads.NAME": Download, **LISTED}
OPTIONS_OF_OTHERS = {"--read-only", "--tmpfs", "--cap-drop"}  # of podman
KEYS_OF_OTHERS = {
    *("server.properties", "authme.db", "questionnaire.yml"),  # files
    *("auth.must_auth_methods", "authme.password_regex", "authme.require_password"),  # VerifyMC's
    *("registration.reg_only", "registration.register_request"),  # AuthMe's messages
    "captcha.enabled",  # a field of GET /api/config
}
ROUTES_OF_OTHERS = {"/api/reload-config"}  # VerifyMC's, which we do not have
SPANS = [(place, span) for page in PAGES for place, span in list_spans(page)]


def parser_of(words: list[str]) -> tuple[ArgumentParser, list[str]] | None:
    """The parser of the command that the words begin with, and the words after it; None if there is no such command."""
    parser, parsers = build_parser()
    for lazy in parsers.values():
        lazy.declare()
    current: ArgumentParser = parser
    rest = list(words)
    while rest:
        groups = [action for action in current._actions if isinstance(action, _SubParsersAction)]
        if not groups or rest[0].startswith("-"):
            if groups and rest[0] in ("-i", "--config", "--instance"):
                del rest[:2]
                continue
            break
        if rest[0] not in groups[0].choices:
            return None if rest[0].islower() else (current, rest)
        current = groups[0].choices[rest.pop(0)]
    return current, rest


def options_of(parser: ArgumentParser) -> set[str]:
    return {flag for action in parser._actions for flag in action.option_strings}


# --- blocks ---


COMMANDS = [
    (block.place, words[1:])
    for block in list_blocks()
    if block.language == "sh"
    for command in split_commands(block.text)
    if (words := shlex.split(re.sub(r"^podman exec \w+ |^\S*/bin/(?=companion)|^\S+ -I -m ", "", command)))
    if words and words[0] == "companion"
]


def test_every_command_line_is_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(COMMANDS) > 40
    refused = []
    for place, words in COMMANDS:
        try:
            parse(words)
        except SystemExit:
            refused.append(f"{place}: companion {shlex.join(words)}\n{capsys.readouterr().err}")
    assert not refused, "\n".join(refused)


def test_shell_blocks_are_shell() -> None:
    """What a shell cannot split, a reader cannot paste."""
    for block in list_blocks():
        if block.language == "sh":
            shlex.split(re.sub(r"^\s*#.*$|\s#\s.*$", "", block.text, flags=re.MULTILINE))


def sections_of(written: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The sections of a sample, as `ALL_KEYS` names them; "" for keys above the first header."""
    top = {key: value for key, value in written.items() if not isinstance(value, dict | list) or key not in ALL_KEYS}
    for name, value in written.items():
        if name == "downloads":
            yield from (("downloads.NAME", download) for download in value.values())
        elif isinstance(value, list) and name in ALL_KEYS:
            yield from ((name, section) for section in value)
        elif isinstance(value, dict) and name in ALL_KEYS:
            listed = {key: servers for key, servers in value.items() if f"{name}.{key}" in LISTED}
            yield name, {key: part for key, part in value.items() if key not in listed}
            yield from ((f"{name}.{key}", server) for key, servers in listed.items() for server in servers)
    if top:
        yield "", top


def test_every_sample_config_is_accepted() -> None:
    samples = [block for block in list_blocks() if block.language == "toml"]
    assert samples
    for block in samples:
        for section, keys in sections_of(tomllib.loads(block.text)):
            kinds = [ALL_KEYS[section]] if section else [*ALL_KEYS.values()]
            assert any(accepts(kind, keys) for kind in kinds), f"{block.place}: [{section}] {keys}"


def accepts(kind: type, written: dict[str, Any]) -> bool:
    """Whether the section has these keys, or `KEY_file` for a secret, and takes their values."""
    keys = keys_of(kind)
    secrets = {f"{name}_file" for name, key in keys.items() if key.is_secret}
    if not written.keys() <= keys.keys() | secrets:
        return False
    try:
        for name in written.keys() & keys.keys():
            if "…" not in str(written[name]):
                keys[name].parse(written[name])
    except ValueError:
        return False
    return True


# --- words in backquotes ---


def test_every_command_in_a_sentence_exists() -> None:
    wrong = []
    for place, span in SPANS:
        if not re.match(r"companion [a-z-]", span):
            continue
        command = span.removeprefix("companion ").partition(" < ")[0]
        words = [word for word in re.split(r"[\s\[\]|…]+", command) if word]
        found = parser_of(words)
        if found is None or not {word for word in found[1] if len(word) > 1 and word[0] == "-"} <= options_of(found[0]):
            wrong.append(f"{place}: {span}")
    assert not wrong


def test_every_option_in_a_sentence_exists() -> None:
    """Of a command that the sentence names, so only whether any command has it."""
    known = {word for name in list_names()["commands"] for word in name.split() if word.startswith("--")}
    known |= {*list_names()["variables of the style sheet"], *OPTIONS_OF_OTHERS}
    named = {
        (place, word) for place, span in SPANS if span.startswith("--") for word in span.split() if word[:2] == "--"
    }
    assert len(named) > 20
    assert sorted((place, word) for place, word in named if word not in known) == []


def test_every_target_of_make_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {(place, match[1]) for place, span in SPANS if (match := re.match(r"make ([a-z-]+)", span))}
    named |= {
        (block.place, target)
        for block in list_blocks()
        if block.language == "sh"
        for target in re.findall(r"^make ([a-z-]+)", block.text, re.MULTILINE)
    }
    assert len(named) > 5
    assert sorted((place, target) for place, target in named if target not in targets) == []


def test_every_config_key_exists() -> None:
    known = {f"{section}.{key}" for section, kind in ALL_KEYS.items() for key in keys_of(kind)}
    secrets = {f"{name}_file" for name in known if key_is_secret(name)}
    sections = "|".join(map(re.escape, [*SECTIONS, *LISTED]))
    known |= secrets | {check.id for check in CHECKS} | {*list_names()["actions of the audit log"]} | KEYS_OF_OTHERS
    wrong = []
    for place, span in SPANS:
        match = re.match(rf"((?:{sections})\.[a-z_]+)(?=$| = )", span)
        if match is not None and match[1] not in known:
            wrong.append(f"{place}: {span}")
    assert not wrong


def key_is_secret(name: str) -> bool:
    section, _dot, key = name.rpartition(".")
    return keys_of(ALL_KEYS[section])[key].is_secret


def test_every_variable_of_the_environment_exists() -> None:
    known = {f"COMPANION_{section}_{key}".upper() for section, kind in SECTIONS.items() for key in keys_of(kind)}
    known |= {f"{name}_FILE" for name in known} | {"COMPANION_CONFIG"}
    wrong = [
        f"{name_of(page)}: {name}"
        for page in PAGES
        for name in re.findall(r"\bCOMPANION_[A-Z_]+\b(?!\*|<|_<)", text_of(page))
        if name not in known and not name.startswith(("COMPANION_TEST_", "COMPANION_FUZZ_")) and not name.endswith("_")
    ]
    assert not wrong


def test_every_file_of_the_repository_exists() -> None:
    pattern = re.compile(rf"^({FOLDERS}/[\w./@*-]*)$")
    named = {(place, match[1]) for place, span in SPANS if (match := pattern.match(span.partition("::")[0]))}
    assert len(named) > 60
    made = ("tests/js/node_modules", "conf/companion.toml")
    assert sorted((place, name) for place, name in named if name not in made and not [*ROOT.glob(name)]) == []


def test_every_address_exists() -> None:
    routes = {(route.method, route.path) for route in (*ROUTES, *legacy_routes(ROUTES))}
    paths = {path for _method, path in routes} | {page.path for page in PAGE_TABLE}
    paths |= {"/chat-linked", "/docs", "/metrics", "/events", "/health/alive", "/health/ready", "//api/"}
    wrong = []
    for place, span in SPANS:
        match = re.fullmatch(r"(?:(GET|POST) )?(/[a-z][\w/.-]*)(…?)(?:[?#].*)?", span)
        if match is None:
            continue
        method, path, is_cut = match[1], match[2], match[3]
        if path.startswith(("/api/", "/account", "/admin", "/register", "/application", "/health/")) or method:
            is_there = (method, path) in routes if method and path.startswith("/api") else path in paths
            if (
                not is_there
                and path not in ROUTES_OF_OTHERS
                and not (is_cut and any(known.startswith(path) for known in paths))
            ):
                wrong.append(f"{place}: {span}")
    assert not wrong


def test_every_address_of_a_curl_exists() -> None:
    routes = {route.path for route in ROUTES}
    asked = [
        (block.place, path)
        for block in list_blocks()
        if block.language == "sh"
        for path in re.findall(r"curl (?:-s )?\"?\$API(/[\w/]+)", block.text)
    ]
    assert len(asked) > 5
    assert [(place, path) for place, path in asked if f"/api{path}" not in routes] == []


def test_every_metric_exists() -> None:
    known = {*list_names()["metrics"]}
    ours = {*re.findall(r"\"(companion_[a-z_]+)\"", "".join(map(text_of_program, ("runtime", "http", "app"))))} | known
    named = {
        (place, match[1])
        for place, span in SPANS
        if (match := re.match(r"(companion_[a-z_]+)(?=$|\{)", span)) and match[1] not in ("companion_link",)
    }
    assert len(named) > 20
    assert sorted((place, name) for place, name in named if not {name, name.removesuffix("_total")} & ours) == []


def text_of_program(package: str) -> str:
    return "".join(file.read_text(encoding="utf-8") for file in (ROOT / "regsvc" / package).glob("*.py"))


# --- links ---


def test_every_link_leads_somewhere() -> None:
    wrong = []
    for page in (*PAGES, HISTORY):
        for link in list_links(page):
            if re.match(r"[a-z]+:", link):
                continue
            path, _hash, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (anchor and anchor not in anchors_of(target)):
                wrong.append(f"{name_of(page)}: {link}")
    assert not wrong


def test_a_version_has_its_changes() -> None:
    headings = re.findall(r"^## (\S+), \d{4}-\d\d-\d\d$", text_of(HISTORY), re.MULTILINE)
    assert __version__ in headings or __version__.startswith("0.")


def test_every_page_is_in_the_index() -> None:
    linked = {link.partition("#")[0] for link in list_links(ROOT / "README.md")}
    assert [name_of(page) for page in PAGES[1:] if name_of(page) not in linked | {"SECURITY.md"}] == []
