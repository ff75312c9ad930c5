"""The first step of a registration as `pages/register.js` will draw it: it is seen while that loads, on a slow phone.

Only what most hosts ask for is drawn here, and no captcha; `templates/register.html` makes it HTML.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from regsvc.api.config import PublicConfigFields

_LENGTHS: Final = re.compile(r"\{(\d+),(\d+)\}")
_USUAL_CHARACTERS: Final = "[a-zA-Z0-9_]"
_VISIBLE_ASCII: Final = "^[!-~]*$"


class DrawnField(NamedTuple):
    """A field. `kind` is the type of its input."""

    kind: str
    label: str
    hint: str
    is_optional: bool = False


class FirstStep(NamedTuple):
    """The step: the titles of it and of all others, its fields, and whether nothing comes between them and the button.

    Its words are those of the page.
    """

    titles: list[str]
    fields: list[DrawnField]
    is_whole: bool


def first_step(config: PublicConfigFields, texts: Mapping[str, str]) -> FirstStep | None:
    """Return the step in words of `texts`, the page's; None where it is left to the script."""
    fields = _email_field(config, texts) if config.captcha.email_enabled else _name_fields(config, texts)
    if not fields or not config.registration.open:
        return None
    titles = [
        *(["step_email", "step_code"] if config.captcha.email_enabled else []),
        "step_name" if _asks_password(config) else "name",
        *(["step_questionnaire"] if config.questionnaire.enabled else []),
        *(["step_chat"] if config.chat.enabled else []),
    ]
    is_whole = config.captcha.email_enabled and "verify_send" not in config.captcha.required_for
    return FirstStep([texts[title] for title in titles], fields, is_whole)


def _asks_password(config: PublicConfigFields) -> bool:
    rule = config.registration.password
    return rule == "required" or (rule == "optional" and config.authme.enabled)


def _email_field(config: PublicConfigFields, texts: Mapping[str, str]) -> list[DrawnField]:
    domains = ", ".join(config.email_domain_whitelist or ())
    accepted = "\n" + _fill(texts["email_domains"], domains=domains) if domains else ""
    return [DrawnField("email", texts["email"], texts["email_hint"] + accepted)]


def _name_fields(config: PublicConfigFields, texts: Mapping[str, str]) -> list[DrawnField]:
    rules, rule, lengths = config.registration, config.registration.password, _LENGTHS.search(config.username_regex)
    if config.bedrock.enabled or lengths is None or _USUAL_CHARACTERS not in config.username_regex:
        return []
    hint = _fill(texts["name_usual"], minLength=lengths[1], maxLength=lengths[2])
    fields = [DrawnField("text", texts["name"], hint)]
    if _asks_password(config):
        if rules.password_regex != _VISIBLE_ASCII:
            return []
        is_optional = rule == "optional"
        hint = _fill(texts["password_usual"], minLength=rules.password_min_length, maxLength=rules.password_max_length)
        note = f"{texts['password_later']}\n" if is_optional else ""
        fields.append(DrawnField("password", texts["password"], note + hint, is_optional))
    if rules.email == "optional":
        fields.append(DrawnField("email", texts["email"], texts["email_about"], is_optional=True))
    return fields


def _fill(text: str, **values: object) -> str:
    """Put values into a text, as the scripts do."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text
