"""Devices in the list of sessions: which browser on which system, in words of ours."""

import pytest

from regsvc.auth.sessions import name_device
from tests.support.stack import Stack

MOZILLA, KHTML = "Mozilla/5.0", "AppleWebKit/537.36 (KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("user_agent", "device"),
    [
        (f"{MOZILLA} (Windows NT 10.0; Win64; x64; rv:128.0) Gecko/20100101 Firefox/128.0", "Firefox/Windows"),
        (f"{MOZILLA} (Windows NT 10.0; Win64; x64) {KHTML} Chrome/126.0.0.0 Safari/537.36 Edg/126.0", "Edge/Windows"),
        (f"{MOZILLA} (Linux; Android 14; SM-S911B) {KHTML} Chrome/126.0 Mobile Safari/537.36", "Chrome/Android"),
        (f"{MOZILLA} (iPhone; CPU iPhone OS 17_5 like Mac OS X) {KHTML} Version/17.5 Safari/604.1", "Safari/iPhone"),
        (f"{MOZILLA} (iPad; CPU OS 17_5 like Mac OS X) {KHTML} CriOS/126.0 Safari/604.1", "Chrome/iPad"),
        (f"{MOZILLA} (Macintosh; Intel Mac OS X 10_15_7) {KHTML} Version/17.5 Safari/605.1", "Safari/macOS"),
        (f"{MOZILLA} (X11; CrOS x86_64 14541.0.0) {KHTML} Chrome/126.0 Safari/537.36", "Chrome/ChromeOS"),
        ("curl/8.5.0", None),
        ("", None),
        ("Linux", "/Linux"),
        ("Firefox/", "Firefox/"),
        ("<script>" * 9_000, None),
        ("Vivaldi\r\nWindows\0", "Vivaldi/Windows"),
    ],
)
def test_a_browser_is_named_in_words_of_ours(user_agent: str, device: str | None) -> None:
    assert name_device(user_agent) == device


def test_alice_tells_her_devices_apart(stack: Stack) -> None:
    alice = stack.approved("alice")
    login = {"username": alice.name, "password": alice.password}
    firefox = {"User-Agent": f"{MOZILLA} (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"}
    stack.post("/api/login", login, headers=firefox)
    token = stack.post("/api/login", login, headers={"User-Agent": "a bot"}).json["token"]
    sessions = stack.get("/api/user/sessions", token=token).json["sessions"]
    assert [(it["browser"], it["system"]) for it in sessions] == [(None, None), ("Firefox", "Linux")]
