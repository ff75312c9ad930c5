"""Scripts and style sheets of our pages: bundled and compressed when first used, and cached by browsers forever.

A host's branding is made here, too: style sheet, icon, manifest, and previews of links.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urljoin

from tornado.escape import xhtml_escape
from tornado.template import BaseLoader, Template

from regsvc.config.host_style import DARK, LIGHT, Accent, accent_of
from regsvc.config.sections import Config
from regsvc.core.errors import UnknownPath
from regsvc.core.i18n import Translations
from regsvc.http.call import NOTHING_ALLOWED, accepts_gzip
from regsvc.web.base import ReadOnlyHandler

_FOLDER: Final = files("regsvc.web") / "static"
_ASSETS_PATH: Final = "web/"
_MEDIA_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
}
_FOREVER: Final = "public, max-age=31536000, immutable"
_STYLE_COMMENT: Final = re.compile(r"/\*.*?\*/\s*", re.DOTALL)
_STYLE_SPACE: Final = re.compile(r"""("[^"]*")|\s*([{},;>])\s*|(:)\s+""")
_INDENTATION: Final = re.compile(r"\s*\n\s*")
_SHARED_STYLES: Final = ("styles/tokens.css", "styles/base.css")
_PLAYERS_STYLES: Final = (*_SHARED_STYLES, "styles/scene.css")
_ICON: Final = re.compile(r"\bi-[a-z0-9-]+")
_KEY: Final = re.compile(r"""["`](\w+(?:\.\w+)*)(["`]|\$\{)""")
_GROUP: Final = re.compile(r"""\blabelFor\("(\w+)\"""")
_SYMBOL: Final = re.compile(r'<symbol id="(i-[a-z0-9-]+)".*</symbol>')

_BLOCK: Final = r"/\*\*(?:(?!\*/).)*\*/"
_SCRIPT_COMMENT: Final = re.compile(rf"^[ \t]*(?://[^\n]*|{_BLOCK}[ \t]*)\n|{_BLOCK} ?", re.MULTILINE | re.DOTALL)
_COMMENT_BEHIND: Final = re.compile(r"""(?<=[;,{(\[]) // [^"`\n]*$""", re.MULTILINE)
"""No quote follows it, so it does not begin within a string."""
_COMMENT_LEFT: Final = re.compile(r".* // (?!if \w+$).*", re.MULTILINE)
_NEEDLESS_LINE_END: Final = re.compile(r"(?<=[\[{(,;])\n|\n(?=[\]})])")
"""A line end beside a character that ends what it would end."""
_QUOTED: Final = (
    r"""("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'"""
    r"""|`(?:[^`$\n]|\$(?!\{)|\$\{(?:[^`{}\n]|\{[^`{}\n]*\}|`[^`\n]*`)*\})*`"""
    r"""|/(?![ /*=])(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/)"""
)
"""A string, a template string, or a regular expression: unlike that, a division has a space behind its sign."""
_NEEDLESS_SPACE: Final = re.compile(rf"{_QUOTED}| ?([=?:{{}}()\[\],;<>*&|!]+) ?")
_NEEDLESS_END: Final = re.compile(rf"{_QUOTED}|,(?=[\]}})])|;(?=}})")
"""A comma or a semicolon before a bracket that ends what it would end; no loop here has an empty body."""
_IMPORT: Final = re.compile(r'^import \{([\w\s,]*)\} from "(\.\.?/[\w./-]+\.js)";(?: // if (\w+))?$', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:async function|function|class|const) (\w+))", re.MULTILINE)
_EXPORT_LIST: Final = re.compile(r"^export \{((?:\s*\w+\s*(?:,|(?=\})))*\s*)\};$", re.MULTILINE)
_DECLARATION: Final = re.compile(r"^(?:async function\*?|function\*?|class|const|let) (\w+)", re.MULTILINE)
_ANY_OTHER: Final = re.compile(r"^(?:(?:import|export)\b|(?:const|let|var) [{[]).*", re.MULTILINE)


@dataclass(frozen=True)
class Asset:
    """A script or style sheet. `path` contains a hash of the content and has no leading slash.

    Pages link to it by this relative path, because a proxy may serve us under a path prefix.
    """

    path: str
    media_type: str
    content: bytes
    compressed: bytes
    digest: str


Features = frozenset[str]
"""What a host uses of what not all do; scripts leave out the modules for the rest."""
FEATURES: Final[Features] = frozenset({"captcha", "chat", "code", "questionnaire"})
"""All of them. `code`: an e-mail address is proven by one."""

AssetFile = tuple[Callable[[str, Features], Asset], str]
"""One of the functions `load_…`, and the name of what it loads."""
_LOADED: Final[dict[str, Asset]] = {}
"""Those that were used, by their paths."""


@cache
def load_script(name: str, features: Features = FEATURES) -> Asset:
    """Return the script of a page (`pages/set-password.js`) with all modules it imports.

    Raises OSError where one is missing.
    """
    modules = _load_modules(f"pages/{name}.js", features)
    later = [module for part in list_parts(name) for module in _load_part_modules(part, features).values()]
    shared = _list_imports(later, modules)
    exported = [f"export {{ {shared} }};"] if shared else []
    return _asset(name, "js", "\n".join([*(module.text for module in modules.values()), *exported]))


@cache
def list_parts(name: str) -> list[str]:
    """Return the names of what a page's script loads later, in order: `<name>-1-…` of `pages/<name>-1-….js`, and on."""
    files = sorted(file.name for file in (_FOLDER / "pages").iterdir() if re.match(rf"{name}-\d-", file.name))
    return [file.removesuffix(".js") for file in files]


@cache
def load_part(name: str, features: Features = FEATURES) -> Asset:
    """Return a part of a page, `pages/<name>.js`: with the modules that neither the page nor an earlier part has.

    Its default export is a function. It is given what it imports from earlier parts, and returns what later ones import
    and, as `entry`, what the file exports. So a part can be loaded again under another address.
    """
    page = _page_of(name)
    parts = list_parts(page)
    place = parts.index(name)
    main = _load_modules(f"pages/{page}.js", features)
    own = _load_part_modules(name, features)
    earlier = [module for part in parts[:place] for module in _load_part_modules(part, features)]
    later = [module for part in parts[place + 1 :] for module in _load_part_modules(part, features).values()]
    entry = ", ".join(own[f"pages/{name}.js"].exported)
    file = posixpath.basename(load_script(page, features).path)
    lines = [
        f'import {{ {_list_imports(own.values(), main)} }} from "./{file}";',
        f"export default ({{ {_list_imports(own.values(), earlier)} }}) => {{",
        *(module.text for module in own.values()),
        f"return {{ entry: {{ {entry} }}, shared: {{ {_list_imports(later, own)} }} }};",
        "};",
    ]
    return _asset(name, "js", "\n".join(lines))


def _list_imports(importers: Iterable[Module], exporters: Container[str]) -> str:
    """Return the names that modules import from some others, as in a list of imports or exports."""
    imported = [each for module in importers for each in module.imported]
    return ", ".join(dict.fromkeys(name for source, name in imported if source in exporters))


def _page_of(part: str) -> str:
    return re.sub(r"-\d-.*", "", part)


@cache
def _load_part_modules(name: str, features: Features) -> dict[str, Module]:
    page = _page_of(name)
    names = [page, *list_parts(page)]
    known = {module for other in names[: names.index(name)] for module in _load_modules(f"pages/{other}.js", features)}
    return {file: module for file, module in _load_modules(f"pages/{name}.js", features).items() if file not in known}


@cache
def _load_modules(name: str, features: Features) -> dict[str, Module]:
    return bundle_modules(name, _read, features)


@cache
def load_worker(name: str, _features: Features = FEATURES) -> Asset:
    """Return the script of a worker (`workers/captcha.js`), which pages load when they need it."""
    modules = bundle_modules(f"workers/{name}.js", _read).values()
    return _asset(f"{name}-worker", "js", "\n".join(module.text for module in modules))


@cache
def load_style(name: str, features: Features = FEATURES) -> Asset:
    """Return a page's style sheet: what all share, what its modules need, its own `styles/<name>.css`, and its parts.

    What a module needs stands beside it: `shared/dialog.css` is in the pages whose scripts have `shared/dialog.js`.
    Parts are `styles/<name>/<part>.css`, in alphabetical order: none of them, or of the modules', depends on another.
    """
    script = f"pages/{name}.js"
    modules = _load_modules(script, features) if (_FOLDER / script).is_file() else ()
    own = _own_styles(name, modules)
    if not own:
        return load_style("base")
    shared = _SHARED_STYLES if name == "admin" else _PLAYERS_STYLES
    return _asset(name, "css", "\n".join(map(_read_style, dict.fromkeys([*shared, *own]))))


@cache
def load_part_style(name: str, features: Features = FEATURES) -> Asset:
    """Return the style sheet of a part: of its modules, and `styles/<name>/<part>.css`."""
    own = _own_styles(name, _load_part_modules(name, features))
    return _asset(name, "css", "\n".join(map(_read_style, own)))


def _own_styles(name: str, modules: Iterable[str]) -> list[str]:
    folder = _FOLDER / "styles" / name
    parts = sorted(part.name for part in folder.iterdir()) if folder.is_dir() else []
    candidates = [
        *(module.removesuffix("js") + "css" for module in modules),
        f"styles/{name}.css",
        *(f"styles/{name}/{part}" for part in parts),
    ]
    return [candidate for candidate in candidates if (_FOLDER / candidate).is_file()]


@cache
def load_icons(template: str, script: str | None, features: Features = FEATURES) -> frozenset[str]:
    """Return the icons that a page's template, its layout and its script with its parts name, such as "i-globe"."""
    texts = [_read(f"templates/{name}") for name in ("layout.html", template)]
    if script is not None:
        loaded = [load_script(script, features), *(load_part(part, features) for part in list_parts(script))]
        texts += [asset.content.decode() for asset in loaded]
    return frozenset(_load_symbols()).intersection(_ICON.findall("\n".join(texts)))


@cache
def load_words(
    load: Callable[[str, Features], Asset], name: str, features: Features = FEATURES
) -> Callable[[str], bool]:
    """Return a function that tells whether a script names a text: by its key, or by how that begins.

    The admin area's scripts name groups of texts, too: `labelFor("status", user.status)`.
    """
    text = load(name, features).content.decode()
    named = _KEY.findall(text)
    keys = {key for key, end in named if end != "${"}
    beginnings = (
        *(key for key, _end in named if key.endswith(("_", "."))),
        *(f"{group}_" for group in _GROUP.findall(text)),
    )
    return lambda key: key in keys or key.startswith(beginnings)


@cache
def _load_symbols() -> dict[str, str]:
    return {match[1]: match[0] for match in _SYMBOL.finditer(_read("icons.svg"))}


def sprite_of(names: Iterable[str]) -> str:
    """Return a hidden SVG element with these icons, to which others in the page refer."""
    return f'<svg hidden width="0" height="0">{"".join(_load_symbols()[name] for name in sorted(names))}</svg>'


def load_template(name: str) -> Template:
    """Return a template of `templates/` with the ones it extends or includes; it escapes its values. Raises OSError."""
    return _TEMPLATES.load(name)


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _read_style(name: str) -> str:
    text = _STYLE_SPACE.sub(r"\1\2\3", _STYLE_COMMENT.sub("", _read(name)))
    return _INDENTATION.sub("\n", text).replace(";}", "}")


@lru_cache(maxsize=64)
def make_texts(name: str, text: str) -> Asset:
    """Return the texts of a part, as JSON; there are some in each language."""
    return _asset(name, "json", text)


def make_style(name: str, text: str) -> Asset:
    """Return a style sheet that is not one of our files."""
    return _compress(name, "css", text)


def _asset(name: str, suffix: str, text: str) -> Asset:
    asset = _compress(name, suffix, text)
    return _LOADED.setdefault(asset.path, asset)


def _compress(name: str, suffix: str, text: str) -> Asset:
    content = text.encode()
    digest = hashlib.sha256(content).hexdigest()[:16]
    compressed = gzip.compress(content, mtime=0)
    return Asset(f"{_ASSETS_PATH}{name}.{digest}.{suffix}", _MEDIA_TYPES[suffix], content, compressed, digest)


class UnsupportedModule(ValueError):
    """A script uses an unsupported form of `import`, `export` or a string, or modules import each other in a cycle."""


class Module(NamedTuple):
    """A module as a piece of a script.

    `declared` are the names of its own scope, `exported` those that it gives others, and `imported` what it needs: the
    file and the name there.
    """

    text: str
    declared: list[str]
    exported: list[str]
    imported: list[tuple[str, str]]

    @property
    def own_exports(self) -> list[str]:
        """The names that it exports and has not imported itself."""
        return [name for name in self.exported if name in self.declared]

    def bundled(self, shared: Container[str]) -> Module:
        """Return it without needless characters, and in a scope of its own if one of its names is in `shared`."""
        text, own = self.text, ", ".join(self.own_exports)
        if any(name in shared for name in self.declared):
            text = f"const {{ {own} }} = (() => {{\n{text}\nreturn {{ {own} }};\n}})();" if own else f"{{\n{text}\n}}"
        text = _NEEDLESS_LINE_END.sub("", _INDENTATION.sub("\n", text.strip()))
        return self._replace(text=_NEEDLESS_END.sub(r"\1", _NEEDLESS_SPACE.sub(r"\1\2", text)))


def bundle_modules(name: str, read: Callable[[str], str], features: Features = FEATURES) -> dict[str, Module]:
    """Return `name` and everything it imports, in order, as parts of one script, which saves round trips.

    `read` returns the text of a file by its name. There is no build step: the files in `static/` are ordinary ES
    modules, which share one scope in the script. A module becomes a function if another one declares a name that it
    declares, too. Comments, indentation and needless line ends, a third of what a phone would load, are left out.
    Template strings must not span lines, so that none is taken for a comment, and no comment behind code may have
    quotes. Three forms of `import` and `export` are supported, each at the beginning of a line; all others are refused,
    and so is a name that two modules export:

        import { one, other as another } from "./file.js";
        export function name(…          (or async function, class, const)
        export { one, other };

    An import with the comment `// if chat` behind it gives names that are undefined where `features` lacks that one.

    Raises `UnsupportedModule`, and whatever `read` raises.
    """
    modules: dict[str, Module] = {}

    def add(name: str, importers: tuple[str, ...]) -> None:
        """Add a module after the modules it imports."""
        if name in importers:
            raise UnsupportedModule(f"modules import each other: {' → '.join((*importers, name))}")
        if name in modules:
            return
        module = _parse(name, read(name), features)
        for file, _name in module.imported:
            add(file, (*importers, name))
        modules[name] = module

    add(name, ())
    exported = Counter(each for module in modules.values() for each in module.own_exports)
    if twice := [each for each, count in exported.items() if count > 1]:
        raise UnsupportedModule(f"{name}: two modules export {twice[0]}")
    declared = Counter(each for module in modules.values() for each in module.declared)
    shared = {each for each, count in declared.items() if count > 1}
    return {file: module.bundled(shared) for file, module in modules.items()}


def _parse(name: str, source: str, features: Features) -> Module:
    source = _SCRIPT_COMMENT.sub("", source)
    for line in source.splitlines():
        if "`" in _NEEDLESS_SPACE.sub("", line):
            raise UnsupportedModule(f"{name}: {line}")
    imported: list[tuple[str, str]] = []

    def bind(match: re.Match[str]) -> str:
        if match[3] and match[3] not in FEATURES:
            raise UnsupportedModule(f"{name}: {match[0]}")
        is_used = not match[3] or match[3] in features
        bound = []
        for other, alias in re.findall(r"(\w+)(?:\s+as\s+(\w+))?", match[1]):
            if not is_used:
                bound.append(f"let {alias or other};")
                continue
            imported.append((_resolve(name, match[2]), other))
            if alias:
                bound.append(f"const {alias} = {other};")
        return "\n".join(bound)

    body = _COMMENT_BEHIND.sub("", _IMPORT.sub(bind, source))
    if comment := _COMMENT_LEFT.search(body):
        raise UnsupportedModule(f"{name}: {comment[0]}")
    exported = [match[1] for match in _EXPORT.finditer(body)]
    exported += [other for match in _EXPORT_LIST.finditer(body) for other in re.findall(r"[^\s,]+", match[1])]
    body = _EXPORT_LIST.sub("", _EXPORT.sub("", body))
    if other := _ANY_OTHER.search(body):
        raise UnsupportedModule(f"{name}: {other[0]}")
    return Module(body, _DECLARATION.findall(body), exported, imported)


def _resolve(importer: str, specifier: str) -> str:
    """Resolve a specifier relative to the importer: `./x.js` in `admin/y.js` is `admin/x.js`."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(importer), specifier))


def _identifier(name: str) -> str:
    return "$" + re.sub(r"\W", "_", name.removesuffix(".js"))


class _WebTemplates(BaseLoader):
    """Template loader that reads from the installed package."""

    def resolve_path(self, name: str, parent_path: str | None = None) -> str:
        return name

    def _create_template(self, name: str) -> Template:
        return Template(_read(f"templates/{name}"), name=name, loader=self)


_TEMPLATES: Final = _WebTemplates()


class AssetHandler(ReadOnlyHandler):
    """Handler for a file whose URL changes with its content."""

    content_security_policy = NOTHING_ALLOWED
    """Scripts and style sheets need nothing of their own: the page's counts. Short, for phones."""

    def initialize(self, load_all: Callable[[Translations, Features], object] = lambda *_: None) -> None:
        self._load_all = load_all

    async def get(self) -> None:
        path = self.request.path.removeprefix("/")
        if path not in _LOADED:  # its page was sent before this process started
            await asyncio.to_thread(self._load_all, self.translations, features_of(self.config))
        if path not in _LOADED:
            raise UnknownPath
        self.send_asset(_LOADED[path])

    def send_asset(self, asset: Asset) -> None:
        is_compressed = accepts_gzip(self.request)
        # a host's style sheet may have changed since the page with its URL was sent
        is_current = self.request.path == f"/{asset.path}"
        self.set_header("Cache-Control", _FOREVER if is_current else "no-cache")
        self.set_header("Vary", "Accept-Encoding")
        self.set_header("Etag", f'"{asset.digest}{"-gzip" if is_compressed else ""}"')
        if self.check_etag_header():
            self.set_status(HTTPStatus.NOT_MODIFIED)
            return
        self.set_header("Content-Type", asset.media_type)
        if is_compressed:
            self.set_header("Content-Encoding", "gzip")
        self.finish_with(asset.compressed if is_compressed else asset.content)


def load_files(files: Sequence[AssetFile], features: Features = FEATURES) -> list[Asset]:
    """Return the assets. Blocking, unless they were used before."""
    return [load(name, features) for load, name in files]


def features_of(config: Config) -> Features:
    """Return the features that a host uses now."""
    used = {
        "captcha": "captcha" in config.registration.methods or config.captcha.also_for,
        "chat": config.chat.platform,
        "code": config.registration.requires_code,
        "questionnaire": config.questionnaire.file is not None,
    }
    return frozenset(feature for feature, is_used in used.items() if is_used)


def asset_rules(*files: AssetFile) -> list[tuple[Any, ...]]:
    """Return Tornado's rule for assets. Which contents their paths name is found out when one is requested."""

    def load_all(_translations: Translations, features: Features) -> None:
        load_files(files, features)

    names = "|".join(dict.fromkeys(re.escape(name) for _load, name in files))
    pattern = rf"/web/(?:base|(?:{names})(?:-worker)?)\.[0-9a-f]{{16}}\.(?:css|js)"
    return [(pattern, AssetHandler, {"load_all": load_all})]


_STYLE_NAME: Final = "host"
_BRAND_ICON: Final = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'><rect width='32' height='32' rx='7' fill='{colour}'/>"
    "<text x='16' y='23' font-family='sans-serif' font-size='20' font-weight='bold' text-anchor='middle' fill='#fff'>"
    "{letter}</text></svg>"
)


class Preview(NamedTuple):
    """Preview of a link to a page, as chats show it. Addresses are absolute; "" leaves a part out."""

    url: str
    image: str
    is_large: bool


def host_style(config: Config) -> Asset | None:
    """Return the style sheet of a host, to be linked after ours; None if they have neither colour nor style sheet."""
    if not config.server.accent and not config.custom_css:
        return None
    return _make_style(accent_of(config) if config.server.accent else None, config.custom_css)


@lru_cache(maxsize=2)
def _make_style(accent: Accent | None, custom_css: str) -> Asset:
    if accent is None:
        return make_style(_STYLE_NAME, custom_css)
    light = f":root {{ --accent: {accent.light}; --on-accent: {LIGHT['on-accent']}; }}"
    dark = f":root {{ --accent: {accent.dark}; --on-accent: {DARK['on-accent']}; }}"
    return make_style(_STYLE_NAME, f"{light}\n@media (prefers-color-scheme: dark) {{ {dark} }}\n{custom_css}")


def initial_of(config: Config) -> str:
    """Return the first letter of the host's name, in place of a logo."""
    return config.server.name.strip()[:1].upper()


def icon_of(config: Config) -> str:
    """Return the address of the host's icon, or logo; without, a data URL with the first letter of the host's name."""
    if own := config.server.favicon or config.server.logo_url:
        return own
    letter = xhtml_escape(initial_of(config))
    return f"data:image/svg+xml,{quote(_BRAND_ICON.format(colour=accent_of(config).light, letter=letter), safe=' =:/')}"


def preview_of(config: Config, path: str) -> Preview:
    """Return the preview of a page, without what needs `server.base_url` where that is not set."""
    server = config.server
    image = server.banner_url or server.logo_url
    if image.startswith("data:"):  # chats fetch pictures
        image = ""
    if image.startswith("/"):
        image = server.base_url and urljoin(server.base_url, image)
    return Preview(server.base_url and server.base_url + path, image, is_large=bool(image and server.banner_url))


def _manifest(config: Config, language: str) -> dict[str, object]:
    server = config.server
    description = server.in_language(server.description, language)
    return {
        "name": server.name,
        "short_name": server.name,
        **({"description": description} if description else {}),
        "start_url": "./",
        "scope": "./",
        "display": "minimal-ui",
        "theme_color": accent_of(config).light,
        "background_color": LIGHT["page"],
        "icons": [{"src": icon_of(config), "sizes": "any"}],
    }


class HostStyleHandler(AssetHandler):
    """Handler for the style sheet of a host, which a reload of the config may change."""

    async def get(self) -> None:
        self.send_asset(host_style(self.config) or make_style(_STYLE_NAME, ""))


class ManifestHandler(ReadOnlyHandler):
    """Handler for the manifest, from which browsers install the pages as an app."""

    def get(self) -> None:
        self.set_header("Content-Type", "application/manifest+json; charset=utf-8")
        self.finish(json.dumps(_manifest(self.config, self.language), ensure_ascii=False))


BRANDING: Final[list[tuple[Any, ...]]] = [
    (rf"/web/{_STYLE_NAME}\.[0-9a-f]{{16}}\.css", HostStyleHandler),
    (r"/manifest\.webmanifest", ManifestHandler),
]
"""Tornado's rules for a host's style sheet and the manifest."""
