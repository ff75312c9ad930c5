"""The doctor in the operator's language: every English sentence has its words, with the same facts in them."""

import ast
import re
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Final, get_args, get_type_hints

import pytest

import regsvc
from regsvc.doctor.checkup import CHECKS, as_text, in_language, read_words
from regsvc.doctor.facts.facts import Source
from regsvc.doctor.finding import Severity
from tests.support.doctor_case import DoctorCase

ROOT: Final = Path(regsvc.__file__).parent
TEMPLATES: Final = {"Sentence": (0,), "plural": (1, 2), "join": (1,), "FactUnavailable": (0,)}
"""Positions of the templates among the arguments of a call."""
PLACES: Final = {"config", "state directory", "database"}
LANGUAGES: Final = sorted(set(read_words()) - {"en"})


def sentences() -> set[str]:
    """Every English template that a report may contain."""
    declared = {text for check in CHECKS for text in (check.why, check.do)}
    quoting = {check.means for check in CHECKS if quotes_other_parts(check.examine)}
    written = {text for file in sorted(ROOT.rglob("*.py")) for text in templates_in(file)}
    sources = {str(source) for source in Source if " " in source}
    return declared | quoting | written | sources | {*Severity, "fine"} | PLACES


def test_apostrophes_are_typographic() -> None:
    """As in all that people read (`tests/core/test_i18n.py`); quotes may be those of the config."""
    texts = sentences() | {check.means for check in CHECKS}
    assert [text for text in texts if re.search(r"\w'\w|s' ", text)] == []


def quotes_other_parts(function: object) -> bool:
    """Whether the check yields messages of other parts, which exist in English only: it is annotated with `str`."""
    [yielded] = get_args(get_type_hints(function)["return"])
    return str in (yielded, *get_args(yielded))


def templates_in(file: Path) -> Iterator[str]:
    text = file.read_text(encoding="utf-8")
    if not any(f"{name}(" in text for name in TEMPLATES):
        return
    tree = ast.parse(text)
    constants = {
        node.target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            for position in TEMPLATES.get(node.func.id, ()):
                for argument in node.args[position : position + 1]:
                    found = constants.get(argument.id) if isinstance(argument, ast.Name) else None
                    found = argument.value if isinstance(argument, ast.Constant) else found
                    if isinstance(found, str):
                        yield found


def names_in(text: str) -> set[tuple[str, str, str]]:
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError:  # braces of a regular expression
        return set()
    return {(name, spec or "", conversion or "") for _text, name, spec, conversion in parts if name is not None}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_sentence_has_its_words(language: str) -> None:
    words = read_words()[language]
    known = sentences()
    assert sorted(known - set(words)) == []
    assert sorted(set(words) - known) == [], "English that no check has"
    assert [text for text in known if names_in(words[text]) != names_in(text)] == []


def test_a_report_in_the_hosts_language(doctor_case: DoctorCase) -> None:
    doctor_case.game.change_authme({"DataSource.caching": True})
    doctor_case.change("mail", security="none", host="mail.example.org", sender="")
    english = doctor_case.examine()
    chinese = in_language(english, "zh-CN")
    assert chinese.language == "zh"
    [caching] = [finding for finding in chinese.findings if finding.id == "authme.caching"]
    assert caching.title == "DataSource.caching 为 true。"
    assert caching.where == f"{doctor_case.game.authme_config}: DataSource.caching: false"
    report = as_text(chinese, {"state directory": "/srv"}, has_colours=False)
    assert "有风险  authme.caching" in report
    assert "处理：关闭缓存并重启游戏服务器" in report
    assert "状态目录: /srv\n" in report
    assert report.endswith("。")
    assert in_language(english, "fr").language == "en"


def test_messages_of_other_parts_stay_english_after_what_they_mean(doctor_case: DoctorCase) -> None:
    doctor_case.change("server", port="many")
    [english], [chinese] = doctor_case.findings(), in_language(doctor_case.examine(), "zh").findings
    assert "port" in english.title
    assert chinese.title == f"配置有错误：未知的段或键、无效的值，或互相冲突的键。原文：{english.title}"
