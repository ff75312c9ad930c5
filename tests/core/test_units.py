"""Amounts as people write them."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regsvc.core.units import ChangeLimit, RateLimit, format_duration, format_roughly, parse_duration, parse_size


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("30 seconds", 30),
        ("30s", 30),
        ("1 second", 1),
        ("5 minutes", 300),
        ("5 min", 300),
        ("2m", 120),
        ("12 hours", 43_200),
        ("1.5 hours", 5400),
        ("24h", 86_400),
        ("30 days", 2_592_000),
        ("1 week", 604_800),
        ("2 years", 63_072_000),
        ("  5   Minutes ", 300),
        ("250 ms", 0.25),
        ("0 seconds", 0),
    ],
)
def test_durations_are_parsed_as_people_write_them(written: str, seconds: float) -> None:
    assert parse_duration(written) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "written",
    ["", "5", "minutes", "-5 minutes", "5 fortnights", "five minutes", "5 minutes ago", "1e9 days", "٥ days"],
)
def test_anything_else_than_a_duration_is_refused_with_an_example(written: str) -> None:
    with pytest.raises(ValueError, match='such as "30 seconds"'):
        parse_duration(written)


def test_a_duration_beyond_a_thousand_years_is_refused() -> None:
    assert parse_duration("1000 years") == timedelta(days=365_000)
    with pytest.raises(ValueError, match="more than 1000 years"):
        parse_duration("1001 years")


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (300, "5 minutes"),
        (86_400, "1 day"),
        (604_800, "1 week"),
        (90, "90 seconds"),
        (0.25, "250 milliseconds"),
        (0, "0 seconds"),
    ],
)
def test_a_duration_is_written_in_its_largest_unit(seconds: float, written: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == written


def test_how_far_a_clock_was_set_is_told_in_round_words() -> None:
    seconds = (61.2, 7178.4, 7201.3, 126151187.0)
    told = [format_roughly(timedelta(seconds=number)) for number in seconds]
    assert told == ["about 1 minute", "about 2 hours", "about 2 hours", "about 4 years"]


@given(st.integers(min_value=0, max_value=365_000 * 86_400_000))
def test_a_formatted_duration_is_parsed_again(milliseconds: int) -> None:
    duration = timedelta(milliseconds=milliseconds)
    assert parse_duration(format_duration(duration)) == duration


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("64 KiB", 65_536),
        ("64KiB", 65_536),
        ("1 MB", 1_000_000),
        ("2 mib", 2_097_152),
        ("512 bytes", 512),
        ("1.5 KiB", 1536),
    ],
)
def test_sizes_are_read_as_people_write_them(written: str, size: int) -> None:
    assert parse_size(written) == size


@pytest.mark.parametrize("written", ["", "64", "KiB", "-1 KiB", "0 KiB", "64 KiBi", "64 minutes", "2000 GiB"])
def test_anything_else_than_a_size_is_refused_with_an_example(written: str) -> None:
    with pytest.raises(ValueError, match='such as "64 KiB"'):
        parse_size(written)


@pytest.mark.parametrize(
    ("written", "hits", "period"),
    [
        ("10 per day", 10, timedelta(days=1)),
        ("1 per minute", 1, timedelta(minutes=1)),
        ("10 per 5 minutes", 10, timedelta(minutes=5)),
        ("400/day", 400, timedelta(days=1)),
        ("3 / 10s", 3, timedelta(seconds=10)),
    ],
)
def test_rate_limits_are_parsed_and_shown_as_written(written: str, hits: int, period: timedelta) -> None:
    limit = RateLimit.parse(written)
    assert limit == RateLimit(hits, period)
    assert str(limit) == written


@pytest.mark.parametrize(
    "written",
    ["", "10", "per day", "0 per day", "10 per 0 days", "-1 per day", "10 per moon", "10 per", "often"],
)
def test_anything_else_than_a_rate_limit_is_refused_with_an_example(written: str) -> None:
    with pytest.raises(ValueError, match='such as "10 per day"'):
        RateLimit.parse(written)


def test_limits_made_in_code_are_written_in_words() -> None:
    assert str(RateLimit(10, timedelta(days=1))) == "10 per day"
    assert str(RateLimit(10, timedelta(minutes=5))) == "10 per 5 minutes"
    assert str(ChangeLimit(20, 5)) == "20 and 5%"


def test_a_change_limit_is_exceeded_by_rows_and_share_together() -> None:
    limit = ChangeLimit.parse("20 and 5%")
    assert (limit.rows, limit.percent, str(limit)) == (20, 5.0, "20 and 5%")
    assert limit.is_exceeded_by(21, 100)
    assert not limit.is_exceeded_by(20, 100), "not more than 20 rows"
    assert not limit.is_exceeded_by(50, 1000), "exactly 5 %"
    assert limit.is_exceeded_by(51, 1000)
    assert not limit.is_exceeded_by(0, 0)
    assert limit.is_exceeded_by(21, 0), "any share of an empty table is too large"
    assert limit.min_rows_for(20) == 1, "so few never exceed it"
    for changes in (21, 1_000, 33_333):
        assert not limit.is_exceeded_by(changes, limit.min_rows_for(changes)), "in a table this large"
        assert limit.is_exceeded_by(changes, limit.min_rows_for(changes) - 2)


def test_a_change_limit_may_be_of_rows_alone_or_never_exceeded() -> None:
    assert ChangeLimit.parse("0 rows and 0%").is_exceeded_by(1, 1_000_000)
    assert ChangeLimit.parse("0 rows and 0%").min_rows_for(1) > 1_000_000_000, (
        "however many there are, they are counted"
    )
    assert not ChangeLimit.parse("20 and 100%").is_exceeded_by(1_000_000, 1_000_000)


@pytest.mark.parametrize("written", ["", "20", "5%", "20 and 5", "20 or 5%", "-1 and 5%", "20 and 101%"])
def test_anything_else_than_a_change_limit_is_refused_with_an_example(written: str) -> None:
    with pytest.raises(ValueError, match='such as "20 and 5%"'):
        ChangeLimit.parse(written)
