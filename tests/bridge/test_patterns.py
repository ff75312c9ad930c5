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
        "^(?:(?:a|ab)x?)*$",
        "(.*[A-Z]){2,}",
        "^((a+){2})*$",
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
