"""AuthMe's own rules for passwords and names."""

import re
import time
from dataclasses import replace
from typing import Any, cast

import pytest
import regex

from plugin_bridge.authme.rules import (
    ANYTHING,
    DEFAULT_NAMES,
    HostPattern,
    NameRule,
    PasswordRule,
    Violation,
    compile_java_pattern,
    compile_pattern,
)


def pattern_rule(text: str) -> PasswordRule:
    return PasswordRule(pattern=compile_java_pattern(text, "allowedPasswordCharacters", ANYTHING))


class TestPasswordRule:
    @pytest.mark.parametrize("password", ["five5", "A" * 30, "!~Mixed~!"])
    def test_it_has_nothing_against_a_good_password(self, password: str) -> None:
        assert PasswordRule().validate(password, "Alice") is None

    @pytest.mark.parametrize(
        ("password", "fault"),
        [
            ("with space", Violation.FORBIDDEN_CHARACTERS),
            ("пароль", Violation.FORBIDDEN_CHARACTERS),
            ("tail\n", Violation.FORBIDDEN_CHARACTERS),
            ("\ud800abcde", Violation.FORBIDDEN_CHARACTERS),
            ("aLiCe", Violation.SAME_AS_USERNAME),
            ("four", Violation.TOO_SHORT),
            ("a" * 31, Violation.TOO_LONG),
            ("PassWord", Violation.UNSAFE),
        ],
    )
    def test_it_names_the_fault(self, password: str, fault: Violation) -> None:
        assert PasswordRule().validate(password, "Alice") == fault

    def test_the_first_fault_in_authmes_order_counts(self) -> None:
        assert PasswordRule().validate("é" * 30, "alice") == Violation.FORBIDDEN_CHARACTERS
        assert PasswordRule().validate("bob", "Bob") == Violation.SAME_AS_USERNAME
        assert PasswordRule().validate("help", "alice") == Violation.TOO_SHORT

    def test_the_regex_sees_the_password_in_lower_case(self) -> None:
        assert pattern_rule("[A-Z]*").validate("ABCDEF", "alice") == Violation.FORBIDDEN_CHARACTERS
        assert pattern_rule("[a-z]*").validate("ABCDEF", "alice") is None

    def test_lengths_count_utf16_units(self) -> None:
        rule = PasswordRule(pattern=ANYTHING, min_length=5, max_length=6)
        assert rule.validate("😀😀😀", "alice") is None
        assert rule.validate("😀😀", "alice") == Violation.TOO_SHORT
        assert rule.validate("😀😀😀😀", "alice") == Violation.TOO_LONG

    def test_an_algorithm_that_knows_ascii_only_allows_nothing_else(self) -> None:
        rule = PasswordRule(pattern=ANYTHING, is_ascii_only=True)
        assert rule.validate("пароль", "alice") == Violation.FORBIDDEN_CHARACTERS
        assert rule.validate("with spaces", "alice") is None

    def test_a_huge_password_never_reaches_the_regex(self) -> None:
        assert pattern_rule("(a+)+b").validate("a" * 100_000, "alice") == Violation.TOO_LONG

    @pytest.mark.parametrize("password", ["é" * 31, "İ" * 100])
    def test_nothing_that_is_too_long_reaches_the_regex(self, password: str) -> None:
        """AuthMe would complain about the characters first; the second one gets longer in lower case."""
        rule = PasswordRule(max_length=30 if "é" in password else 200)
        assert rule.validate(password, "alice") == Violation.TOO_LONG

    def test_a_lone_surrogate_is_refused_even_where_everything_is_allowed(self) -> None:
        assert PasswordRule(pattern=ANYTHING).validate("abcde\udfff", "alice") == "forbidden_characters"


class TestNameRule:
    @pytest.mark.parametrize("name", ["Bob", "Alice_99", "a" * 16])
    def test_it_has_nothing_against_a_good_name(self, name: str) -> None:
        assert NameRule().validate(name) is None

    @pytest.mark.parametrize(
        ("name", "fault"),
        [
            ("", Violation.TOO_SHORT),
            ("Al", Violation.TOO_SHORT),
            ("a" * 17, Violation.TOO_LONG),
            ("a" * 100_000, Violation.TOO_LONG),
            ("Bob Ross", Violation.FORBIDDEN_CHARACTERS),
            ("Bob\n", Violation.FORBIDDEN_CHARACTERS),
            ("Renée", Violation.FORBIDDEN_CHARACTERS),
        ],
    )
    def test_it_names_the_fault(self, name: str, fault: Violation) -> None:
        assert NameRule().validate(name) == fault

    def test_the_regex_for_clients_says_all_of_it(self) -> None:
        regex = re.compile(NameRule().regex)
        for name in ("Bob", "Al", "a" * 16, "a" * 17, "Bob Ross"):
            assert (regex.search(name) is not None) == (NameRule().validate(name) is None)


SLOW = "^(?:a|aa)+$"


class TestHostPatterns:
    @pytest.mark.parametrize(
        ("java", "good", "bad"),
        [
            (r"[a-zA-Z0-9_]*", "Bob_1", "Bob-1"),
            (r"^[a-z]+$", "bob", "Bob"),
            (r"[а-яА-ЯёЁa-z]*", "Алёна", "Алёна1"),
            (r"[\u4e00-\u9fa5]+", "日本", "nihon"),
            (r"\w++", "bob", "боб"),
            (r"\d{3}", "123", "١٢٣"),
            (r"[\p{Alnum}_.]*", "Bob.1", "Bob-1"),
            (r"\p{Upper}\p{Lower}*\z", "Bob", "bob"),
            (r"\Qa.b\E[0-9]", "a.b1", "axb1"),
            (r"(?i)bob|alice", "ALICE", "olivia"),
            (r"[!-~&&x]", None, None),
        ],
    )
    def test_the_usual_ones_mean_the_same(self, java: str, good: str | None, bad: str | None) -> None:
        pattern = compile_java_pattern(java, "key", ANYTHING)
        if good is None or bad is None:
            assert pattern is ANYTHING
            return
        assert pattern.matches(good)
        assert not pattern.matches(bad)

    @pytest.mark.parametrize("text", ["a" * 127 + "-", "a" * 100 + "\n"])
    @pytest.mark.parametrize("java", [SLOW, "(?:a|a?b?a)*!?", "(?:a|aa)*b?!", "(?:(?:a|aa)c?)*", "([a-z]+)+"])
    def test_none_holds_up_the_event_loop(self, java: str, text: str) -> None:
        for pattern in (compile_java_pattern(java, "allowedNicknameCharacters", DEFAULT_NAMES), compile_pattern(java)):
            began = time.thread_time()
            assert not pattern.matches(text)
            assert time.thread_time() - began < 0.05

    def test_other_threads_may_use_up_the_time_once(self) -> None:
        class Interrupted:
            attempts = 0

            def fullmatch(self, text: str, timeout: float) -> object:
                self.attempts += 1
                if self.attempts == 1:
                    raise TimeoutError
                return regex.fullmatch("[a-z]*", text)

        assert HostPattern("[a-z]*", cast(Any, Interrupted())).matches("alice")

    def test_a_text_that_keeps_one_busy_is_refused_and_others_are_not(self, caplog: pytest.LogCaptureFixture) -> None:
        rule = replace(pattern_rule(SLOW), max_length=100)
        assert rule.validate("a" * 20, "alice") is None
        assert caplog.records == []
        assert rule.validate("a" * 80 + "-", "alice") == Violation.FORBIDDEN_CHARACTERS
        [record] = caplog.records
        assert "takes too long" in record.getMessage()
        assert "aaa" not in record.getMessage(), "it may be a password"

    @pytest.mark.parametrize("java", ["(", "[a", "*", r"[a-z[A-Z]]*", r"[a-z&&[^b]]*", r"\p{L}*", "[!--a]*", "a" * 201])
    def test_an_unusable_one_allows_everything_with_a_warning(
        self, java: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        pattern = compile_java_pattern(java, "settings.restrictions.allowedPasswordCharacters", ANYTHING)
        assert pattern.matches("any thing\nат all")
        assert len(caplog.records) == 1
        assert "allowedPasswordCharacters" in caplog.text

    @pytest.mark.parametrize("java", ["[a-zA-Z0-9_&&[^z]]*", "(", "((a{99}){99}){99}", r"\p{L}*"])
    @pytest.mark.parametrize("name", ["Оlivia", "<b>x</b>", "§4Admin", "x;stop", "../../x", "'--", "@e[]"])
    def test_an_unusable_one_never_opens_the_web_to_any_name(self, java: str, name: str) -> None:
        rule = NameRule(pattern=compile_java_pattern(java, "allowedNicknameCharacters", DEFAULT_NAMES))
        assert rule.validate(name) == Violation.FORBIDDEN_CHARACTERS
        assert rule.validate("Alice_99") is None

    @pytest.mark.parametrize(
        ("java", "anchored"),
        [("[!-~]*", "^[!-~]*$"), ("^[a-z]+$", "^[a-z]+$"), ("a|b", "^(?:a|b)$"), (r"a\$", r"^(?:a\$)$")],
    )
    def test_clients_get_it_anchored(self, java: str, anchored: str) -> None:
        assert pattern_rule(java).regex == anchored

    @pytest.mark.parametrize(
        "written",
        [
            "^[.]?[a-zA-Z0-9_]{3,16}$",
            "^(?!.*__)[a-z_]+$",
            "^([0-9]{1,3}[.]){3}[0-9]{1,3}$",
            "^(?:[A-Za-z0-9]_?){3,16}$",
            "^[a-zA-Z0-9]+([ _-][a-zA-Z0-9]+)*$",
            "^(?=.*[a-z])(?=.*[A-Z])(?=.*[0-9])(?=.*[!?&])[A-Za-z0-9!?&]{8,30}$",
            "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
            r"(?i)(?!.*(.)\1\1)\w++",
        ],
    )
    def test_usual_ones_of_our_config_pass(self, written: str) -> None:
        assert compile_pattern(written).text == written

    @pytest.mark.parametrize("written", ["[", "(", "a{2,1}", r"\p{L}", "*", "(?P<x>a)(?P<x>b)"])
    def test_what_is_none_is_refused_with_an_example(self, written: str) -> None:
        with pytest.raises(ValueError, match=r"for example"):
            compile_pattern(written)

    @pytest.mark.parametrize(
        "written",
        [
            "((a{999}){999}){999}",
            "(" * 60 + "a" + ")+" * 60,
            "(?:a|" * 30 + "b" + ")*" * 30,
            "(?:" * 20 + "a" + "){1,3}" * 20,
        ],
    )
    def test_one_that_would_be_compiled_for_ever_is_refused(self, written: str) -> None:
        with pytest.raises(ValueError, match="repeats too much"):
            compile_pattern(written)

    def test_one_of_our_config_has_a_bounded_length(self) -> None:
        with pytest.raises(ValueError, match="at most 256 characters"):
            compile_pattern("a" * 257)
