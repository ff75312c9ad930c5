"""Look-ups of many callers, answered by few calls."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

import pytest

from regsvc.core.errors import DatabaseUnavailable, Overloaded
from regsvc.core.shared_lookup import SharedLookup


class Library:
    """Answers with the books' shelves. A call reads the shelves, and then is held until the test lets it go."""

    def __init__(self, **shelves: int) -> None:
        self.shelves = shelves
        self.calls: list[list[str]] = []
        self.error: Exception | None = None
        self.is_held = True
        self._gates: list[asyncio.Event] = []
        self._has_begun = asyncio.Condition()

    async def find_all(self, titles: Sequence[str]) -> Mapping[str, int]:
        self.calls.append(list(titles))
        found, error = {title: self.shelves[title] for title in titles if title in self.shelves}, self.error
        if self.is_held:
            gate = asyncio.Event()
            self._gates.append(gate)
            async with self._has_begun:
                self._has_begun.notify_all()
            await gate.wait()
        if error is not None:
            raise error
        return found

    async def until_held(self) -> None:
        """Wait until a call is held."""
        async with asyncio.timeout(10), self._has_begun:
            await self._has_begun.wait_for(lambda: self._gates)

    def release(self) -> None:
        """Let the held call return, and hold no other."""
        self.is_held = False
        self._gates.pop().set()


async def begin(*questions: Coroutine[Any, Any, int | None]) -> list["asyncio.Task[int | None]"]:
    """Start the look-ups; return when each has run as far as it can."""
    tasks = [asyncio.create_task(question) for question in questions]
    await asyncio.sleep(0)
    return tasks


async def test_look_ups_of_one_moment_and_those_during_a_call_share_calls() -> None:
    library = Library(emma=1, ulysses=2)
    lookup = SharedLookup(library.find_all)
    first = await begin(lookup.find("emma"), lookup.find("emma"), lookup.find("lost"))
    await library.until_held()
    later = await begin(*[lookup.find(f"book {number}") for number in range(50)], lookup.find("ulysses"))
    library.release()
    assert await asyncio.gather(*first) == [1, 1, None]
    assert await asyncio.gather(*later) == [None] * 50 + [2]
    assert [len(titles) for titles in library.calls] == [2, 51]


async def test_who_comes_after_the_answers_of_a_call_but_in_the_same_moment_shares_the_next() -> None:
    """Like a proxy that asks again as soon as it has an answer, and others whose requests are read just then."""
    library = Library(emma=1)
    lookup = SharedLookup(library.find_all)

    async def ask_twice(title: str) -> None:
        await lookup.find(title)
        await lookup.find(title)

    first = [asyncio.create_task(ask_twice(title)) for title in ("emma", "ulysses")]
    await library.until_held()
    [later] = await begin(lookup.find("lost"))
    library.release()
    await asyncio.gather(*first, later)
    assert [sorted(titles) for titles in library.calls] == [["emma", "ulysses"], ["emma", "lost", "ulysses"]]


async def test_a_look_up_sees_what_changed_before_it_even_while_another_is_under_way() -> None:
    library = Library(emma=1)
    lookup = SharedLookup(library.find_all)
    before = await begin(lookup.find("emma"))
    await library.until_held()  # and has read shelf 1
    library.shelves["emma"] = 7
    after = await begin(lookup.find("emma"))
    library.release()
    assert await asyncio.gather(*before, *after) == [1, 7]
    library.shelves["emma"] = 8
    assert await lookup.find("emma") == 8


async def test_an_error_reaches_the_callers_of_its_call_and_no_other() -> None:
    library = Library(emma=1)
    library.error = DatabaseUnavailable(retry_after=2)
    lookup = SharedLookup(library.find_all)
    failing = await begin(lookup.find("emma"), lookup.find("lost"))
    await library.until_held()
    library.error = None
    later = await begin(lookup.find("emma"))
    library.release()
    errors = await asyncio.gather(*failing, return_exceptions=True)
    assert [type(error) for error in errors] == [DatabaseUnavailable] * 2
    assert await asyncio.gather(*later) == [1]


async def test_a_cancelled_caller_harms_nobody_and_costs_nothing() -> None:
    library = Library(emma=1, ulysses=2)
    lookup = SharedLookup(library.find_all)
    answered, given_up = await begin(lookup.find("emma"), lookup.find("ulysses"))
    await library.until_held()
    waiting, gone = await begin(lookup.find("ulysses"), lookup.find("lost"))
    given_up.cancel()
    gone.cancel()
    await asyncio.wait([given_up, gone])
    library.release()
    assert (await answered, await waiting) == (1, 2)
    assert library.calls == [["emma", "ulysses"], ["ulysses"]]


async def test_too_many_are_refused_at_once_and_the_others_answered_in_batches() -> None:
    library = Library(emma=1)
    lookup = SharedLookup(library.find_all, max_batch=2, max_waiting=5)
    first = await begin(lookup.find("emma"))
    await library.until_held()
    waiting = await begin(*[lookup.find(f"book {number}") for number in range(5)])
    with pytest.raises(Overloaded):
        await lookup.find("emma")
    library.release()
    assert await asyncio.gather(*first, *waiting) == [1] + [None] * 5
    assert [len(titles) for titles in library.calls] == [1, 2, 2, 1]
    assert await lookup.find("emma") == 1


def test_the_end_of_the_process_ends_what_waits() -> None:
    async def story() -> list["asyncio.Task[int | None]"]:
        library = Library()
        lookup = SharedLookup(library.find_all)
        tasks = await begin(lookup.find("emma"))
        await library.until_held()
        return tasks

    tasks = asyncio.run(story())
    assert [task.cancelled() for task in tasks] == [True]
