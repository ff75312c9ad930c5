"""Translations: complete in every language, which is negotiated with the client."""

import re
import string
import time
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from regsvc.core.errors import REFUSALS, Banned, InvalidEmail, InvalidPassword, RateLimited, WrongStatus
from regsvc.core.i18n import OPERATORS_SECTIONS, Translations, load_translations, negotiate_language
from regsvc.notifications.mail import renderer
from regsvc.users.transitions import BUILT_IN_REASONS, OWN_REASONS
from tests.support.each import assert_each

BUILT_IN = load_translations()
MAILS = Path(renderer.__file__).with_name("texts")
MOST_COMMON_WORDS = 2  # "Minecraft Server" may be the same in another language
AFTER_A_NUMBER = re.compile(
    r"\{(?:count|score|seconds|minutes|remainingSeconds|digits|typed|points|online|(?:min|max|pass_?|open_?)\w*)\}"
    r"[ \u00a0]([^\W\d_]+)"
)
AFTER_NUMBERS = {
    "en": {"so", "to", "of", "needed", "more"}
    | {"bytes", "characters", "digits", "letters", "minutes", "options", "players", "points", "seconds"},
    "de": {"bis", "von", "Bytes", "Zeichen", "Minuten", "Punkte", "Sekunden"}
    | {"Antworten", "Buchstaben", "Spielern", "Ziffern"},
    "fr": {"min", "s", "pour", "sur", "à", "octets", "minutes", "réponses"} | {"caractères", "chiffres", "lettres"},
}


def placeholders(text: str) -> set[str]:
    return {name for _text, name, _spec, _conversion in string.Formatter().parse(text) if name}


def is_for_operators(key: str) -> bool:
    return key.startswith(OPERATORS_SECTIONS)


@pytest.mark.parametrize(
    ("language", "in_november", "in_may", "next_year"),
    [
        ("en", "24 November, 05:37 (UTC+1)", "1 May, 06:00 (UTC+2)", "2 January 2027, 05:30 (UTC+1)"),
        ("de", "24. November, 05:37 Uhr (UTC+1)", "1. Mai, 06:00 Uhr (UTC+2)", "2. Januar 2027, 05:30 Uhr (UTC+1)"),
        ("fr", "24 novembre, 05:37 (UTC+1)", "1er mai, 06:00 (UTC+2)", "2 janvier 2027, 05:30 (UTC+1)"),
        ("zh-CN", "11月24日 05:37（UTC+1）", "5月1日 06:00（UTC+2）", "2027年1月2日 05:30（UTC+1）"),
    ],
)
def test_times_are_written_as_people_do_in_the_time_zone_of_the_host(
    language: str, in_november: str, in_may: str, next_year: str
) -> None:
    paris = load_translations(zone=ZoneInfo("Europe/Paris"))
    now = datetime(2026, 11, 23, tzinfo=UTC)
    written = [
        paris.moment(datetime(*at, tzinfo=UTC), language, now)
        for at in ((2026, 11, 24, 4, 37), (2026, 5, 1, 4, 0), (2027, 1, 2, 4, 30))
    ]
    assert written == [in_november, in_may, next_year]
    newfoundland = load_translations(zone=ZoneInfo("America/St_Johns"))
    assert newfoundland.moment(now, "en", now).endswith("(UTC−3:30)")


@pytest.mark.parametrize("language", ["en", "de", "fr", "zh"])
def test_who_is_told_to_ask_a_moderator_is_told_where(language: str) -> None:
    """Without `server.contact`, the sentence stands alone."""
    told = load_translations(contact=lambda: "https://discord.gg/example")
    for contact, translations in (("https://discord.gg/example", told), ("", BUILT_IN)):
        message = translations.refusal(Banned("Griefing"), language)
        lines = [message, translations.section("page.account", language)["advice_banned"]]
        for line in lines:
            assert "{" not in line
            assert line.partition("\n")[2].endswith(contact)
            assert ("\n" in line) == bool(contact)


def test_english_and_chinese_are_built_in() -> None:
    assert {"en", "zh"} <= set(BUILT_IN.languages)


def test_reasons_of_our_own_are_worded_and_operators_words_stay() -> None:
    codes = {*OWN_REASONS, *BUILT_IN_REASONS}
    assert {f"reason.{code}" for code in codes} == {key for key in BUILT_IN.keys("en") if key.startswith("reason.")}
    for code in codes:
        assert len({BUILT_IN.reason(code, language) for language in ("en", "zh-CN")} - {code}) == 2
    assert BUILT_IN.reason("the ban has ended", "zh") == "封禁已到期。"  # as earlier versions stored it
    assert [BUILT_IN.reason(words, "zh") for words in ("griefing", "", None)] == ["griefing", "", None]


@pytest.mark.parametrize("language", BUILT_IN.languages)
def test_no_language_lacks_a_text(language: str) -> None:
    """A language of a host's own may lack what only operators read; a built-in one may not."""
    missing = sorted(BUILT_IN.keys("en") - BUILT_IN.keys(language))
    assert not missing, (
        f"every text, those of /admin too, has to be in all of {BUILT_IN.languages}; {language} lacks it"
    )
    assert BUILT_IN.keys(language) <= BUILT_IN.keys("en")


def test_pages_of_operators_are_in_the_languages_that_have_their_texts() -> None:
    assert BUILT_IN.languages_of("page.admin") == BUILT_IN.languages
    assert BUILT_IN.languages_of("page.register") == BUILT_IN.languages


@pytest.mark.parametrize("language", sorted({*BUILT_IN.languages} - {"en"}))
def test_every_language_says_the_same(language: str) -> None:
    def check(key: str) -> None:
        english, text = BUILT_IN.text(key, "en"), BUILT_IN.text(key, language)
        assert text != ""
        assert text.strip() == text or text.strip() == english.strip() == ","
        assert placeholders(text) == placeholders(english)
        has_words = re.search(r"[A-Za-z]", re.sub(r"\{\w+\}|\bIP\b", "", english))
        if has_words and (language == "zh" or len(english.split()) > MOST_COMMON_WORDS):
            assert text != english, "not translated"

    assert_each(sorted(BUILT_IN.keys(language)), check)


@pytest.mark.parametrize("language", BUILT_IN.languages)
def test_apostrophes_and_quotes_are_typographic(language: str) -> None:
    """In all that people read, mails included."""
    texts = {key: BUILT_IN.text(key, language) for key in BUILT_IN.keys(language)}
    texts |= {str(file): file.read_text(encoding="utf-8") for file in (MAILS / language).glob("*.txt")}
    assert len(texts) > len(BUILT_IN.keys(language))
    assert [key for key, text in texts.items() if re.search("['\"]", text)] == []


@pytest.mark.parametrize("language", AFTER_NUMBERS)
def test_a_number_is_followed_by_a_word_that_fits_every_number(language: str) -> None:
    """There are no plural forms: a word that has one stands where the number is hardly ever 1."""
    texts = (BUILT_IN.text(key, language) for key in BUILT_IN.keys(language) if not is_for_operators(key))
    assert {word for text in texts for word in AFTER_A_NUMBER.findall(text)} == AFTER_NUMBERS[language]


def test_every_refusal_has_a_text_and_no_text_is_unused() -> None:
    worded = {key.removeprefix("refusal.") for key in BUILT_IN.keys("en") if key.startswith("refusal.")}
    assert worded == set(REFUSALS)


def test_every_fault_belongs_to_a_refusal() -> None:
    codes = {key.split(".")[1] for key in BUILT_IN.keys("en") if key.startswith("fault.")}
    assert codes <= set(REFUSALS)


def test_facts_are_filled_into_the_text() -> None:
    assert BUILT_IN.refusal(RateLimited(42), "en") == "Too many attempts. Please try again in 42 seconds."
    assert BUILT_IN.refusal(RateLimited(42), "zh") == "尝试次数过多，请在 42 秒后重试。"


def test_a_status_is_translated() -> None:
    assert BUILT_IN.refusal(WrongStatus("banned"), "en") == "This cannot be done while the user’s status is banned."
    assert BUILT_IN.refusal(WrongStatus("banned"), "zh") == "用户当前状态为“已封禁”，无法执行此操作。"


def test_a_fault_has_its_own_text() -> None:
    refusal = InvalidPassword("too_short", min_length=5)
    assert BUILT_IN.refusal(refusal, "en") == "The password is too short; it needs at least 5 characters."


def test_a_fault_without_a_text_gets_that_of_its_refusal() -> None:
    assert BUILT_IN.refusal(InvalidEmail("new"), "en") == "This is not a valid e-mail address."


def test_a_missing_fact_does_not_fail_the_reply() -> None:
    assert BUILT_IN.text("message.approved", "en") == "{username} was approved."


def test_facts_may_have_any_name() -> None:
    assert BUILT_IN.text("message.approved", "en", key=1, language=2, self=3, username="Al{ice}") == (
        "Al{ice} was approved."
    )


def test_an_unknown_key_is_a_bug() -> None:
    with pytest.raises(KeyError):
        BUILT_IN.text("message.nothing", "en")


@pytest.mark.parametrize(
    ("requested", "accept_language", "language"),
    [
        (None, None, "en"),
        ("zh", None, "zh"),
        ("zh", "en", "zh"),
        ("ZH_hans_CN", None, "zh"),
        ("tlh", "zh", "en"),
        ("", "zh", "zh"),
        (None, "zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        (None, "en;q=0.5, zh;q=0.7", "zh"),
        (None, "tlh, nl;q=0.9, zh;q=0.1", "zh"),
        (None, "zh;q=0, en", "en"),
        (None, "zh;q=often, tlh", "en"),
        (None, "*", "en"),
        (None, ";;,,q=1;\xff", "en"),
        (None, "x," * 5000 + "zh", "en"),
    ],
)
def test_the_language_is_the_requested_else_the_browsers(
    requested: str | None, accept_language: str | None, language: str
) -> None:
    assert negotiate_language(BUILT_IN.available, requested, accept_language, "en") == language


@pytest.mark.parametrize("piece", ["-", "_", "a-", "zh-"])
def test_a_long_tag_costs_no_more_than_a_short_one(piece: str) -> None:
    tag = piece * 500_000
    begin = time.perf_counter()
    negotiate_language(BUILT_IN.available, tag, tag, tag)
    assert time.perf_counter() - begin < 5  # a quadratic one takes minutes


@pytest.mark.parametrize(("default", "language"), [("zh", "zh"), ("zh-CN", "zh"), ("tlh", "en")])
def test_the_hosts_language_is_the_default(default: str, language: str) -> None:
    assert negotiate_language(BUILT_IN.available, None, "tlh", default) == language


def test_a_host_offers_some_of_the_languages(tmp_path: Path) -> None:
    """What was stored when there were more is written in English, or in the host's own language."""
    (tmp_path / "pt-BR.toml").write_text("", encoding="utf-8")
    some = load_translations(tmp_path, offered=["pt-BR", "de", "en"], default="de")
    assert some.languages == ["de", "en", "pt-br"]
    assert some.languages_of("page.admin") == ["de", "en"]
    assert negotiate_language(some.available, None, "fr, pt-BR;q=0.5", "de") == "pt-br"
    assert negotiate_language(some.available, None, "fr", "de") == "de"
    assert negotiate_language(some.available, "fr", "pt-BR", "de") == "en"
    assert [some.offered_for(stored) for stored in ("fr", "de", "de-AT", "pt-br")] == ["en", "de", "de-AT", "pt-br"]
    german = load_translations(offered=["de"], default="de")
    assert german.languages_of("page.admin") == ["de"]
    assert german.text("page.admin.title", "en") == BUILT_IN.text("page.admin.title", "en")
    assert [german.offered_for(stored) for stored in ("fr", "en")] == ["de", "de"]
    assert [BUILT_IN.offered_for(stored) for stored in ("fr", "nl")] == ["fr", "nl"]


def test_english_is_required() -> None:
    with pytest.raises(ValueError, match="without 'en'"):
        Translations({"zh": {}})
