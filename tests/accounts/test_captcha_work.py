"""Puzzles for a client's computer."""

from hashlib import sha256

from regsvc.accounts.captcha.captcha import MAX_NUMBER, Work, make_work


def test_the_hash_is_of_the_salt_and_four_bytes() -> None:
    work = Work(bytes(range(16)), 258)
    assert work.hash == sha256(bytes([*range(16), 0, 0, 1, 2])).hexdigest()


def test_no_two_are_alike_and_none_tells_its_number() -> None:
    puzzles = [make_work() for _puzzle in range(200)]
    assert len({work.salt for work in puzzles}) == len({work.hash for work in puzzles}) == 200
    assert all(0 <= work.number <= MAX_NUMBER for work in puzzles)
    assert len({work.number for work in puzzles}) > 150
    assert "number" not in repr(puzzles[0])
