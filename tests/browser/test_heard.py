"""Every page as screen readers get it, compared with `heard/`: whoever changes a page reads there how it sounds.

`make heard` writes the files anew.
"""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser.admin_pictures import ADMIN_SCENES, admin_stack
from tests.browser.conftest import DESKTOP
from tests.browser.heard import Listener
from tests.browser.operators_pictures import OPERATORS_SCENES, operators_stack
from tests.browser.pictures import SCENES, captcha_only, captcha_stack, mails, stack

FOLDER = Path(__file__).parent / "heard"
IS_WRITTEN = "COMPANION_TEST_WRITE_HEARD" in os.environ
LEFT_OUT = {"docs", "admin-doctor"}  # 5,000 lines of tables; what is found differs from machine to machine

PLAYERS_SCENES = tuple(scene for scene in SCENES if scene is not mails)
GROUPS: dict[str, tuple[Callable[[], AbstractContextManager[Any]], tuple[Callable[..., None], ...]]] = {
    "players": (stack, PLAYERS_SCENES),
    "captcha": (captcha_stack, (captcha_only,)),
    "queue": (operators_stack, OPERATORS_SCENES),
    "admin": (admin_stack, ADMIN_SCENES),
}


@pytest.mark.parametrize("group", GROUPS)
def test_what_screen_readers_are_told(browser: Browser, group: str) -> None:
    make_stack, scenes = GROUPS[group]
    told: dict[str, str] = {}
    with make_stack() as opened:
        for scene in scenes:
            told[scene.__name__] = listen_to(browser, scene, opened)
    for name, text in told.items():
        file = FOLDER / f"{name}.txt"
        if IS_WRITTEN:
            file.write_text(text, encoding="utf-8")
        assert text == file.read_text(encoding="utf-8")


def listen_to(browser: Browser, scene: Callable[..., None], opened: object) -> str:
    """Play a scene and return what a screen reader gets of its pages."""
    file = FOLDER / f"{scene.__name__}.txt"
    known = "" if IS_WRITTEN else file.read_text(encoding="utf-8")
    with browser.new_context(locale="en", reduced_motion="reduce", viewport=DESKTOP) as context:  # type: ignore[arg-type]
        page = context.new_page()
        listener = Listener(page, known)

        def take(name: str, **_options: object) -> None:
            if name not in LEFT_OUT:
                listener.describe(name)

        scene(page, opened, take)
    return listener.text
