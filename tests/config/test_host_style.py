"""A host's own colours: which are shown, and what the host is told about them."""

import os
import re
from importlib.resources import files
from pathlib import Path

import pytest

from regsvc.config.host_sections import ServerSection
from regsvc.config.host_style import DARK, LIGHT, THEMES, Accent, accent_of
from regsvc.config.loader import load_config
from regsvc.config.sections import Config, ConfigError
from tests.support.config_text import write

TOKENS = (files("regsvc.web") / "static/styles/tokens.css").read_text(encoding="utf-8")


def load(folder: Path, style: str, keys: str = "") -> Config:
    write(folder / "own.css", style)
    return load_config(write(folder / "companion.toml", f'[server]\ncustom_css = "own.css"\n{keys}\n'), {})


def test_the_colours_compared_are_those_of_the_pages() -> None:
    light, _media, dark = TOKENS.partition("@media (prefers-color-scheme: dark)")
    for mode, text, colours in (("light", light, LIGHT), ("dark", dark.partition("\n}\n")[0], DARK)):
        [root] = re.findall(r":root \{(.*?)\}", text, re.DOTALL)
        declared = dict(re.findall(r"--([\w-]+): (#\w+);", root))
        accents = {"default": declared["accent"]}
        accents |= dict(re.findall(r'\[data-theme="(\w+)"\] \{\s*--accent: (#\w+);', text))
        assert accents == {theme: getattr(accent, mode) for theme, accent in THEMES.items()}
        shown = {
            name: declared[name].replace("#fff", "#ffffff") if len(declared[name]) == 4 else declared[name]
            for name in colours
        }
        assert shown == colours


def test_an_accent_is_readable_in_both_modes() -> None:
    assert accent_of(Config(server=ServerSection(accent="#2f6f4f"))).light == "#2f6f4f"
    yellow = accent_of(Config(server=ServerSection(accent="#ffcc00")))
    assert yellow.dark == "#ffcc00"
    assert yellow.light != "#ffcc00"
    assert accent_of(Config(server=ServerSection(theme="ocean"))) == Accent("#1f5f99", "#86bdf0")


def test_a_style_sheet_of_the_host_is_read_with_the_config(tmp_path: Path) -> None:
    config = load(tmp_path, "main { border: 1px solid }\n")
    assert config.custom_css == "main { border: 1px solid }\n"
    assert config.warnings == ()


def test_colours_that_are_hard_to_read_are_named(tmp_path: Path) -> None:
    style = """
    :root { --card: #ffffff; --text: #999999; } /* --quiet: #ffffff; */
    @media (prefers-color-scheme: dark) { :root { --card: #1e242b; --text: #eeeeee } }
    """
    assert load(tmp_path, style).warnings == (
        "server.custom_css: in light mode, --text has a contrast of 2.4:1 to --page; text needs 4.5:1.",
        "server.custom_css: in light mode, --text has a contrast of 2.8:1 to --card; text needs 4.5:1.",
        "server.custom_css: in light mode, --text has a contrast of 2.6:1 to --sunken; text needs 4.5:1.",
    )


def test_braces_that_do_not_match_are_named_with_their_line(tmp_path: Path) -> None:
    """Those in comments, strings and addresses are none."""
    fine = r"""
    main { border: 1px solid } /* { */
    a::before { content: "{ \"{" } a::after { content: '}\'}' }
    body { background: url(data:image/svg+xml,<svg><style>g{}</style></svg>) }
    .\{ { color: red }
    @media print { main { display: none } }
    """
    assert load(tmp_path, fine).warnings == ()
    for style, said in (
        (
            "main { color: red }\nh1 {\n  color: red;\n\nh2 { color: blue }\n",
            "line 2: this block, or one within it, is not",
        ),
        ("@media print {\n  h1 { color: red }\n", "line 1: this block, or one within"),
        ("h1 { color: red }\n}\nh2 { color: blue }", "line 2: a } closes nothing"),
        ("h1 { color: red }\n\n/* h2 { color: blue }\n", "line 3: the comment has no end"),
        ("/*/ h1 { color: red }", "line 1: the comment has no end"),
    ):
        [warning] = load(tmp_path, style).warnings
        assert warning.startswith(f"server.custom_css: {said}"), style


def test_what_browsers_do_not_load_is_named(tmp_path: Path) -> None:
    """The pages' content security policy allows pictures of the host, but neither fonts nor other style sheets."""
    banner = tmp_path / "banner.jpg"
    banner.touch()
    style = """
    @import "more.css"; /* @import, as in url(https://elsewhere.example/not.png) */
    @font-face { font-family: Own; src: url(own.woff2); }
    body { background: url("https://elsewhere.example/sky.png"), url(data:image/png;base64,AA==) }
    main { background: url(https://cdn.willow.example/grass.png) }
    aside { background: url(https://[mistyped) }
    """
    keys = f'logo_url = "https://cdn.willow.example/logo.png"\nbanner_url = "{banner}"'
    assert load(tmp_path, style, keys).warnings == (
        "server.banner_url is a file on this machine, which visitors do not get: the companion serves no pictures; "
        "put it on a web server, and write its web address.",
        "server.custom_css: @import has no effect; copy the rules into the file.",
        "server.custom_css: @font-face has no effect, as pages load no fonts; name fonts that devices have.",
        "server.custom_css: https://elsewhere.example/sky.png is not loaded: pictures have to be data: addresses, or "
        "from where server.logo_url, banner_url or favicon is.",
        "server.custom_css: https://[mistyped is not loaded: pictures have to be data: addresses, or from where "
        "server.logo_url, banner_url or favicon is.",
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"\xff\xfe", "own.css is not UTF-8 text"), (b" " * 70_000, "own.css is larger than 64 KiB")],
)
def test_a_style_sheet_that_cannot_be_used_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "own.css").write_bytes(content)
    file = write(tmp_path / "companion.toml", '[server]\ncustom_css = "own.css"\n')
    with pytest.raises(ConfigError, match=reason):
        load_config(file, {})


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "own.css")
    file = write(tmp_path / "companion.toml", '[server]\ncustom_css = "own.css"\n')
    with pytest.raises(ConfigError, match="make it a regular file"):
        load_config(file, {})


def test_links_come_from_a_table_or_from_the_environment(tmp_path: Path) -> None:
    file = write(tmp_path / "companion.toml", '[server.links]\nDiscord = "https://discord.gg/x"\n"Our map" = "/map"\n')
    assert load_config(file, {}).server.links.by_language[""] == {"Discord": "https://discord.gg/x", "Our map": "/map"}
    environ = {"COMPANION_SERVER_LINKS": "Map=https://map.example.org, Rules=/rules"}
    assert load_config(None, environ).server.links.by_language == {
        "": {"Map": "https://map.example.org", "Rules": "/rules"}
    }


def test_the_hosts_texts_may_be_by_language(tmp_path: Path) -> None:
    written = """
        [server]
        language = "de"
        announcement.en = "We move."
        announcement.pt_BR = "Mudamos."
        announcement.de = "Wir ziehen um."
        description = "Quiet."
        [server.links]
        Discord = "https://discord.gg/x"
        de.Regeln = "/regeln"
        en.Rules = "/rules"
    """
    server = load_config(write(tmp_path / "companion.toml", written), {}).server
    told = {tag: server.in_language(server.announcement, tag) for tag in ("en-GB", "pt-BR", "fr")}
    assert told == {"en-GB": "We move.", "pt-BR": "Mudamos.", "fr": "Wir ziehen um."}
    assert server.in_language(server.description, "fr") == "Quiet."
    assert server.in_language(server.links, "en") == {"Discord": "https://discord.gg/x", "Rules": "/rules"}
    assert server.in_language(server.links, "fr") == {"Discord": "https://discord.gg/x", "Regeln": "/regeln"}
    for broken in ("announcement = {}", "announcement.english1 = 'x'", "description.en = 1", "links.de.Regeln = 'no'"):
        with pytest.raises(ConfigError, match="server"):
            load_config(write(tmp_path / "companion.toml", f"[server]\n{broken}\n"), {})


def test_a_front_end_of_ones_own_may_have_other_themes(tmp_path: Path) -> None:
    text = '[server]\ntheme = "glass"\n[http]\nallowed_origins = ["https://play.example.org"]\n'
    assert load_config(write(tmp_path / "companion.toml", text), {}).server.theme == "glass"
