"""Mails in the languages that are shipped: none is missing, and all say the same in the same form."""

import re

import pytest

from regsvc.core.i18n import load_translations
from regsvc.notifications.mail.renderer import MAILS, MailTemplate, html_of_text, load_mail_templates
from tests.support.each import assert_each

BUILT_IN = load_mail_templates(None)
EVERY_LANGUAGE = pytest.mark.parametrize("language", BUILT_IN.languages)


def test_mails_are_in_the_languages_of_the_pages() -> None:
    assert BUILT_IN.languages == load_translations().languages


@EVERY_LANGUAGE
def test_no_mail_is_missing_and_none_forgets_a_fact(language: str) -> None:
    def check(mail: str) -> None:
        english, template = BUILT_IN.get(mail, "en"), BUILT_IN.get(mail, language)
        assert template.language == language
        assert template.html is None
        assert not template.find_missing_names(english)
        assert not english.find_missing_names(template) - {"username"}  # which the letter may repeat or leave out
        assert shape_of(template) == shape_of(english)

    assert_each(MAILS, check)


def shape_of(template: MailTemplate) -> list[str]:
    """Return the tags of the HTML, with their looks: those of one mail are the same in every language."""
    return re.findall(r"<(?:p|a|blockquote|strong)\b[^>]*>", html_of_text(template.text))
