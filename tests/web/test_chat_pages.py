"""The page after the chat platform: shows the outcome in our own texts, and loads nothing from other servers."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from regsvc.accounts.chat.linking import LINKED, PATH, WAITING, page_address
from regsvc.config.host_sections import HttpSection, ServerSection
from regsvc.config.sections import Config
from regsvc.core.errors import REFUSALS
from regsvc.core.i18n import load_translations
from regsvc.http.route import Features
from regsvc.web.base import CONTENT_SECURITY_POLICY
from regsvc.web.pages import CHAT_PAGE, PAGES
from tests.support.each import assert_each
from tests.support.html_page import Page
from tests.support.live_api import LiveApi, Reply, make_features

TRANSLATIONS = load_translations()
LANGUAGES = ("en", "zh")
MARKUP = """</title><script>alert("1")</script>' onload='alert(2)' & {{ server }} {minLength}"""

HEADINGS = {LINKED: "linked", WAITING: "waiting", "invalid_state": "failed", "": "failed", "junk": "failed"}
REASONS = {
    "invalid_state": "refusal.invalid_state",
    "chat_denied": "refusal.chat_denied",
    "chat_account_taken": "refusal.chat_account_taken",
    "provider_away": "refusal.provider_away",
    "not_in_guild": "fault.chat_not_member.not_in_guild",
    "lacks_role": "fault.chat_not_member.lacks_role",
}


def live(features: Features) -> LiveApi:
    return LiveApi(features, pages=[*PAGES, *CHAT_PAGE])


@pytest.fixture(scope="module")
def api() -> Iterator[LiveApi]:
    with live(make_features(Config())) as opened:
        yield opened


def visit(api: LiveApi, outcome: str = "", language: str = "en") -> Reply:
    return api.request("GET", page_address("", outcome), headers={"Accept-Language": language})


def word(key: str, language: str) -> str:
    return TRANSLATIONS.text(f"page.chat_linked.{key}", language)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("outcome", "heading"), HEADINGS.items())
def test_it_tells_what_came_of_it(api: LiveApi, outcome: str, heading: str, language: str) -> None:
    reply = visit(api, outcome, language)
    page = Page(reply)
    assert reply.status == 200
    assert reply.headers["Content-Language"] == language
    assert page.all("html")[0]["lang"] == language
    assert page.texts["h1"] == word(heading, language)
    assert page.texts["title"].startswith(word(heading, language))


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("outcome", "key"), REASONS.items())
def test_it_tells_what_went_wrong_and_what_to_do(api: LiveApi, outcome: str, key: str, language: str) -> None:
    payload = Page(visit(api, outcome, language)).texts["p"]
    assert TRANSLATIONS.text(key, language) in payload
    assert word("advice_taken" if outcome == "chat_account_taken" else "advice_failed", language) in payload


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("outcome", [LINKED, WAITING])
def test_it_tells_how_to_go_on(api: LiveApi, outcome: str, language: str) -> None:
    assert word(f"advice_{outcome}", language) in Page(visit(api, outcome, language)).texts["p"]


def test_no_refusal_leaves_a_gap_in_its_words(api: LiveApi) -> None:
    def check(code: str) -> None:
        assert "{" not in visit(api, code).content.decode()

    assert_each(REFUSALS, check)


@pytest.mark.parametrize(
    "query",
    ["", "?outcome", "?outcome=%3Cscript%3Ealert(1)%3C/script%3E", "?outcome=linked&outcome=junk", "?other=1", "?%00"],
)
def test_the_address_only_chooses_among_our_words(api: LiveApi, query: str) -> None:
    reply = api.request("GET", PATH + query)
    assert reply.status == 200
    page = Page(reply)
    assert page.texts["h1"] == word("failed", "en")
    assert not page.all("script")
    assert b"alert" not in reply.content


def test_an_address_that_is_no_text_is_refused(api: LiveApi) -> None:
    assert api.request("GET", f"{PATH}?outcome=%ff").status == 400


def test_a_hosts_own_name_cannot_become_markup() -> None:
    config = Config(server=ServerSection(name=MARKUP))
    with live(make_features(config)) as api:
        page = Page(visit(api, LINKED))
    assert page.texts["bdi"] == MARKUP
    assert not page.all("script")


def test_it_may_be_neither_stored_nor_framed(api: LiveApi) -> None:
    headers = visit(api, LINKED).headers
    assert headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "Set-Cookie" not in headers


def test_it_needs_a_style_sheet_of_ours_and_no_script(api: LiveApi) -> None:
    reply = visit(api, LINKED)
    page = Page(reply)
    [style] = [link["href"] for link in page.all("link") if link["rel"] == "stylesheet"]
    assert api.request("GET", f"/{style}").headers["Content-Type"] == "text/css; charset=utf-8"
    assert not page.all("script")
    assert not page.all("style")
    assert not re.search(rb"""(src|href)=["'](/|https?:)""", reply.content)
    for _tag, attributes in page.tags:
        assert not [name for name in attributes if name == "style" or name.startswith("on")]


def test_where_a_front_end_is_served_the_page_leads_there(tmp_path: Path) -> None:
    with live(make_features(Config(http=HttpSection(web_root=tmp_path)))) as api:
        assert links_of(Page(visit(api, LINKED))) == ["./", "./"]
    with live(make_features(Config())) as api:
        assert links_of(Page(visit(api, LINKED))) == ["./"]  # the name of the server


def links_of(page: Page) -> list[str]:
    """Return the targets of the links, without those within the page."""
    return [link["href"] for link in page.all("a") if not link["href"].startswith("#")]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_it_can_only_be_read(api: LiveApi, method: str) -> None:
    assert api.request(method, PATH).status == 405
