"""Regular expressions from a host: useful ones are accepted, those that may never end are refused."""

import pytest

from plugin_bridge.authme.patterns import compile_pattern


@pytest.mark.parametrize(
    "written",
    [
        "^[a-zA-Z0-9_]{3,16}$",
        "^[.]?[a-zA-Z0-9_]{3,16}$",
        "^(?=.*[A-Z])(?=.*[0-9])[!-~]{8,30}$",
        "^(?!.*__)[a-z_]+$",
        "^(?:Alice|Bob)[0-9]*$",
        "^([0-9]{1,3}[.]){3}[0-9]{1,3}$",
        "^(?:a|b|[0-9])+$",
        "^(ab){2,20}$",
        "^(?:[A-Za-z0-9]_?){3,16}$",
        "^(?:(?:a|ab)x?)*$",
        "^[a-zA-Z0-9]+([ _-][a-zA-Z0-9]+)*$",
        ".*[A-Z].*[0-9].*",
        ".*[a-z].*[0-9].*[!?]",
        "^(?=.*[a-z])(?=.*[A-Z])(?=.*[0-9])(?=.*[!?&])[A-Za-z0-9!?&]{8,30}$",
        r"(?i)(?!.*(.)\1\1)\w++",
    ],
)
def test_usual_patterns_pass(written: str) -> None:
    assert compile_pattern(written).pattern == written


@pytest.mark.parametrize(
    "written",
    [
        "^(a+)+$",
        "^(a*)*$",
        "^([a-z]+[0-9]?)*$",
        "^(?:a|aa)+$",
        "(.*[A-Z]){2,}",
        "^((a+){2})*$",
        "^(?:[a-z]?){28}[a-z]{28}!?[0-9]$",
        "^(a?){30}a{30}$",
        "(a{1,9}){9}b",
        ".*.*.*.*.*.*x",
        "a*a*a*a*a*a*a*a*b",
        ".*[a-z].*[a-z].*[0-9].*[0-9].*[!].*",
        "(?:[^a]|b)*!",
        "(?:(?=a)a|a)*!",
        "(?:a|b*)*!",
        "(a*)(?(1)a*|b)(?:a*){2}a*a*!",
    ],
)
def test_patterns_that_can_take_for_ever_are_refused(written: str) -> None:
    with pytest.raises(ValueError, match="can take for ever"):
        compile_pattern(written)


@pytest.mark.parametrize("written", ["[", "(", "a{2,1}", r"\p{L}", "*", "(?P<x>a)(?P<x>b)"])
def test_what_is_no_pattern_is_refused_with_an_example(written: str) -> None:
    with pytest.raises(ValueError, match=r"for example"):
        compile_pattern(written)


def test_a_pattern_has_a_bounded_length() -> None:
    with pytest.raises(ValueError, match="at most 256 characters"):
        compile_pattern("a" * 257)
