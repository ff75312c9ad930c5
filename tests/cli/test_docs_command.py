"""`companion docs`: what is shipped, without the repository."""

import re

import pytest

from regsvc.cli.shipped_files import list_sections, list_shipped, read_shipped
from tests.docs.pages import PAGES, anchors_of, name_of
from tests.support.command_line import companion, companion_here


def test_the_documentation_is_there_without_the_repository() -> None:
    told = companion("docs")
    assert told.status == 0
    assert [line.split()[0] for line in told.output.splitlines()] == list_shipped()
    assert "Upgrade the companion" in told.output
    assert companion_here("docs", "upgrade").output == read_shipped("docs/upgrade.md")
    assert companion_here("docs", "conf/companion.toml").output == read_shipped("conf/companion.toml")


@pytest.mark.parametrize(
    ("words", "place", "line"),
    [
        ("discord", "docs/team-chat.md#from-nothing-to-the-first-button-discord", "**Public Key**"),
        ("SMTP", "docs/install.md#where-smtp-is-blocked", "http_provider"),
        ("forgot password", "docs/operations.md#a-player-forgot-the-password", "companion users password Alice"),
        ("operations#logs", "docs/operations.md#logs", "journalctl"),
        ("docs/security.md#A-changed-password", "docs/security.md#a-changed-password", "undoes"),
        ("conf/companion.toml#captcha", "conf/companion.toml#captcha", "#type ="),
        ("luckperms group", "docs/reference.md#commands-after-decisions", "lp user"),
    ],
)
def test_a_host_reads_the_one_section_that_there_is(words: str, place: str, line: str) -> None:
    """Words that only one heading has, else only one text; with the sections below it, and no others."""
    told = companion_here("docs", *words.split())
    assert (told.status, told.errors) == (0, "")
    assert told.output.splitlines()[0] == place
    assert line in told.output
    headings = re.findall(r"^##+(?= )", told.output, re.MULTILINE)
    assert all(len(each) > len(headings[0]) for each in headings[1:])


@pytest.mark.parametrize(
    ("words", "place", "heading"),
    [
        ("backups", "docs/operations.md#backup", "Backup"),
        ("ban", "docs/networks.md#kicks-and-bans", "Kicks and bans"),
        ("whitelist", "docs/allowlist.md#limits", "Limits"),
        ("mail", "conf/companion.toml#mail", "mail"),
        ("team roles", "docs/team.md#roles", "Roles"),
    ],
)
def test_several_places_are_listed_with_the_words_that_print_them(words: str, place: str, heading: str) -> None:
    told = companion_here("docs", words)
    places = dict(line.split(None, 1) for line in told.output.splitlines())
    assert told.status == 0
    assert places[place] == heading
    assert len(places) > 1
    assert "CHANGELOG.md" not in told.output
    assert companion_here("docs", place).output.startswith(f"{place}\n\n")


def test_a_word_that_is_everywhere_fills_no_screen() -> None:
    told = companion_here("docs", "companion", "the", "players")
    assert told.status == 0
    assert re.fullmatch(r"and \d+ more: name another word", told.output.splitlines()[-1])
    assert len(told.output.splitlines()) == 21


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("wihtelist", "nothing about wihtelist; did you mean whitelist?"),
        ("bakcup restroe", "nothing about bakcup restroe; did you mean backup restore?"),
        ("xyzzy-plugh", "nothing about xyzzy-plugh; `companion docs` lists"),
        ("operations#backups", "no section backups in docs/operations.md; did you mean docs/operations.md#backup?"),
        ("operations#xyzzy", "no section xyzzy in docs/operations.md; `companion docs` lists"),
        ("#", "nothing about #; `companion docs` lists"),
        ("..", "nothing about ..; `companion docs` lists"),
    ],
)
def test_what_is_not_there_is_refused_with_what_may_be_meant(words: str, answer: str) -> None:
    told = companion_here("docs", *words.split())
    assert (told.status, told.output) == (2, "")
    assert f"there is {answer}" in told.errors


def test_sections_are_named_as_links_name_them() -> None:
    """So that a link in a page can be given to the command."""
    shipped = {*list_shipped()}
    pages = [page for page in PAGES if name_of(page) in shipped]
    assert len(pages) > 20
    for page in pages:
        assert {section.anchor for section in list_sections(name_of(page))} >= anchors_of(page)
