"""AuthMe's own rules for passwords and names."""

import re

import pytest

from plugin_bridge.authme.rules import (
    ANYTHING,
    DEFAULT_NAMES,
    NameRule,
    NameViolation,
    PasswordRule,
    PasswordViolation,
    compile_java_pattern,
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
            ("with space", PasswordViolation.FORBIDDEN_CHARACTERS),
            ("пароль", PasswordViolation.FORBIDDEN_CHARACTERS),
            ("tail\n", PasswordViolation.FORBIDDEN_CHARACTERS),
            ("\ud800abcde", PasswordViolation.FORBIDDEN_CHARACTERS),
            ("aLiCe", PasswordViolation.SAME_AS_USERNAME),
            ("four", PasswordViolation.TOO_SHORT),
            ("a" * 31, PasswordViolation.TOO_LONG),
            ("PassWord", PasswordViolation.UNSAFE),
        ],
    )
    def test_it_names_the_fault(self, password: str, fault: PasswordViolation) -> None:
        assert PasswordRule().validate(password, "Alice") == fault

    def test_the_first_fault_in_authmes_order_counts(self) -> None:
        assert PasswordRule().validate("é" * 30, "alice") == PasswordViolation.FORBIDDEN_CHARACTERS
        assert PasswordRule().validate("bob", "Bob") == PasswordViolation.SAME_AS_USERNAME
        assert PasswordRule().validate("help", "alice") == PasswordViolation.TOO_SHORT

    def test_the_regex_sees_the_password_in_lower_case(self) -> None:
        assert pattern_rule("[A-Z]*").validate("ABCDEF", "alice") == PasswordViolation.FORBIDDEN_CHARACTERS
        assert pattern_rule("[a-z]*").validate("ABCDEF", "alice") is None

    def test_lengths_count_utf16_units(self) -> None:
        rule = PasswordRule(pattern=ANYTHING, min_length=5, max_length=6)
        assert rule.validate("😀😀😀", "alice") is None
        assert rule.validate("😀😀", "alice") == PasswordViolation.TOO_SHORT
        assert rule.validate("😀😀😀😀", "alice") == PasswordViolation.TOO_LONG

    def test_an_algorithm_that_knows_ascii_only_allows_nothing_else(self) -> None:
        rule = PasswordRule(pattern=ANYTHING, is_ascii_only=True)
        assert rule.validate("пароль", "alice") == PasswordViolation.FORBIDDEN_CHARACTERS
        assert rule.validate("with spaces", "alice") is None

    def test_a_huge_password_never_reaches_the_regex(self) -> None:
        assert pattern_rule("(a+)+b").validate("a" * 100_000, "alice") == PasswordViolation.TOO_LONG

    @pytest.mark.parametrize("password", ["é" * 31, "İ" * 100])
    def test_nothing_that_is_too_long_reaches_the_regex(self, password: str) -> None:
        """AuthMe would complain about the characters first; the second one gets longer in lower case."""
        rule = PasswordRule(max_length=30 if "é" in password else 200)
        assert rule.validate(password, "alice") == PasswordViolation.TOO_LONG

    def test_a_lone_surrogate_is_refused_even_where_everything_is_allowed(self) -> None:
        assert PasswordRule(pattern=ANYTHING).validate("abcde\udfff", "alice") == "forbidden_characters"


class TestNameRule:
    @pytest.mark.parametrize("name", ["Bob", "Alice_99", "a" * 16])
    def test_it_has_nothing_against_a_good_name(self, name: str) -> None:
        assert NameRule().validate(name) is None

    @pytest.mark.parametrize(
        ("name", "fault"),
        [
            ("", NameViolation.TOO_SHORT),
            ("Al", NameViolation.TOO_SHORT),
            ("a" * 17, NameViolation.TOO_LONG),
            ("a" * 100_000, NameViolation.TOO_LONG),
            ("Bob Ross", NameViolation.FORBIDDEN_CHARACTERS),
            ("Bob\n", NameViolation.FORBIDDEN_CHARACTERS),
            ("Renée", NameViolation.FORBIDDEN_CHARACTERS),
        ],
    )
    def test_it_names_the_fault(self, name: str, fault: NameViolation) -> None:
        assert NameRule().validate(name) == fault

    def test_the_regex_for_clients_says_all_of_it(self) -> None:
        regex = re.compile(NameRule().regex)
        for name in ("Bob", "Al", "a" * 16, "a" * 17, "Bob Ross"):
            assert (regex.search(name) is not None) == (NameRule().validate(name) is None)


class TestJavaPatterns:
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

    @pytest.mark.parametrize("java", ["([a-z]+)+", "(?:a|aa)*", r"(\p{Lower}*[0-9]?)*"])
    def test_one_that_could_take_for_ever_is_never_tried(self, java: str, caplog: pytest.LogCaptureFixture) -> None:
        assert pattern_rule(java).validate(f"{'a' * 29}!", "Alice") is None
        assert "can take for ever" in caplog.text

    @pytest.mark.parametrize("java", ["(", "[a", "*", r"[a-z[A-Z]]*", r"[a-z&&[^b]]*", r"\p{L}*", "[!--a]*", "a" * 201])
    def test_an_unusable_one_allows_everything_with_a_warning(
        self, java: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        pattern = compile_java_pattern(java, "settings.restrictions.allowedPasswordCharacters", ANYTHING)
        assert pattern.matches("any thing\nат all")
        assert len(caplog.records) == 1
        assert "allowedPasswordCharacters" in caplog.text

    @pytest.mark.parametrize("java", ["[a-zA-Z0-9_&&[^z]]*", "(", "(a*)*", r"\p{L}*"])
    @pytest.mark.parametrize("name", ["Оlivia", "<b>x</b>", "§4Admin", "x;stop", "../../x", "'--", "@e[]"])
    def test_an_unusable_one_never_opens_the_web_to_any_name(self, java: str, name: str) -> None:
        rule = NameRule(pattern=compile_java_pattern(java, "allowedNicknameCharacters", DEFAULT_NAMES))
        assert rule.validate(name) == NameViolation.FORBIDDEN_CHARACTERS
        assert rule.validate("Alice_99") is None

    @pytest.mark.parametrize(
        ("java", "anchored"),
        [("[!-~]*", "^[!-~]*$"), ("^[a-z]+$", "^[a-z]+$"), ("a|b", "^(?:a|b)$"), (r"a\$", r"^(?:a\$)$")],
    )
    def test_clients_get_it_anchored(self, java: str, anchored: str) -> None:
        assert pattern_rule(java).regex == anchored
