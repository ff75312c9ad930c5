"""Rules of this repository that a program can check, so that reviewers need not."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import get_args

import msgspec
import pytest

from regsvc.app import routes
from regsvc.app.routes import ROUTES
from regsvc.cli import serve
from regsvc.core.shapes import Output
from regsvc.http.route import Access
from regsvc.legacy.routes import ALIASES
from tests.house_rules.sources import PRODUCT, ROOT, TESTS, name_of, nodes_of, text_of, tree_of

LONGEST_FUNCTION = 60
LONGEST_FILE = 760  # a reader opens few files; the wiring of all features is one of them

# A module imports from its own package or from one of a later entry; packages of one entry do not know each other.
LAYERS = [
    "companion",
    "cli",
    "app",
    "web legacy",
    "doctor",
    "registration team_chat",
    "accounts runtime",
    "sync",
    "allowlist",
    "users",
    "notifications",
    "http",
    "auth",
    "database",
    "config",
    "core",
    "plugin_bridge",
]
LAYER_OF = {package: number for number, layer in enumerate(LAYERS) for package in layer.split()}
# Classes whose constructor only stores, and why they are no dataclasses.
STORING = {
    "Facts": "its property `config` raises what the constructor may get in place of a config",
    "MailService": "its `title` belongs to the class in all services but one",
}
# Modules with side effects of their own that a layer below may not touch either.
FORBIDDEN = [
    ("plugin_bridge", {"regsvc", "tornado", "companion", "tests"}),
    ("regsvc", {"companion", "tests"}),
    ("regsvc/http", {"peewee", "playhouse", "pymysql", "regsvc.database.models"}),
    ("regsvc/web", {"peewee", "playhouse", "pymysql", "regsvc.database.models", "regsvc.database.engine"}),
]


def imports_of(file: Path) -> Iterator[str]:
    """Every module that `file` imports, wherever in it the import stands."""
    for node in nodes_of(file):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(file)}:{node.lineno}: a relative import"
            assert node.module is not None
            # `from regsvc import models` names a module, too.
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def touches(module: str, forbidden: set[str]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in forbidden)


def package_of(module: str) -> str | None:
    """The package that `LAYERS` knows `module` by; None for `regsvc` itself, and for modules that are not ours."""
    first, _, rest = module.partition(".")
    if first == "regsvc":
        return rest.partition(".")[0] or None
    return first if first in ("companion", "plugin_bridge") else None


def test_imports_point_down() -> None:
    """Imports under `TYPE_CHECKING` count: they state which package stands on which just the same."""
    broken = []
    for file in PRODUCT:
        own = package_of(name_of(file).removesuffix(".py").removesuffix("/__init__").replace("/", "."))
        if own is None:
            continue
        for module in imports_of(file):
            other = package_of(module)
            if other in LAYER_OF and other != own and LAYER_OF[other] <= LAYER_OF[own]:
                broken.append(f"{name_of(file)} imports {module}")
    assert not broken


def test_functions_of_routes_touch_no_row() -> None:
    """They run on the event loop, beside operations that do."""
    broken = []
    for file in PRODUCT:
        tree = nodes_of(file)
        rows = {
            alias.asname or alias.name
            for node in nodes_of(file)
            if isinstance(node, ast.ImportFrom) and node.module in ("regsvc.database.models", "peewee")
            for alias in node.names
            if (alias.asname or alias.name)[:1].isupper() and not alias.name.isupper()
        }
        for node in tree:
            if isinstance(node, ast.AsyncFunctionDef) and "ROUTES.add" in "".join(
                map(ast.unparse, node.decorator_list)
            ):
                broken += [
                    f"{name_of(file)}:{name.lineno}: {name.id}"
                    for name in ast.walk(node)
                    if isinstance(name, ast.Name) and name.id in rows
                ]
    assert not broken


def test_players_are_sent_no_struct_of_the_team() -> None:
    """Where audiences see different fields, each has a struct: one for both would show the team's to players."""
    team: set[type[Output]] = set()
    others: set[type[Output]] = set()
    for route in ROUTES:
        (team if route.access is Access.ADMIN else others).update(structs_of(*route.reply_types))
    assert {struct.__name__ for struct in team & others} <= SHARED


SHARED = {
    *("Reply", "MessageReply"),
    *("GameAddressFields", "ClientFields", "PlayerFields", "SessionFields", "ListedFields"),
    "ValidTokenReply",
}
"""Structs that both are sent: all that is in them is meant for their user, too, or for the one who shows a token."""


def structs_of(*kinds: object) -> set[type[Output]]:
    """Return the structs in these annotations, and those in their fields."""
    found: set[type[Output]] = set()
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, Output) and kind not in found:
            found |= {kind, *structs_of(*(field.type for field in msgspec.structs.fields(kind)))}
        found |= structs_of(*get_args(kind))
    return found


def test_every_package_has_a_layer() -> None:
    packages = {folder.name for folder in (ROOT / "regsvc").iterdir() if (folder / "__init__.py").exists()}
    assert packages | {"companion", "plugin_bridge"} == set(LAYER_OF)
    assert [file.name for file in (ROOT / "regsvc").glob("*.py")] == ["__init__.py"]


@pytest.mark.parametrize(("package", "forbidden"), FORBIDDEN, ids=[package for package, names in FORBIDDEN])
def test_forbidden_imports(package: str, forbidden: set[str]) -> None:
    broken = [
        f"{name_of(file)} imports {module}"
        for file in PRODUCT
        if name_of(file).startswith(f"{package}/")
        for module in imports_of(file)
        if touches(module, forbidden)
    ]
    assert not broken


def test_no_import_circles_between_modules() -> None:
    """Strongly connected modules would be one lump to every reader, whatever the run-time order."""
    modules = {name_of(file).removesuffix(".py").removesuffix("/__init__").replace("/", "."): file for file in PRODUCT}
    imports = {name: {other for other in imports_of(file) if other in modules} for name, file in modules.items()}
    done: set[str] = set()
    circles = []

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            circles.append(" -> ".join([*path[path.index(name) :], name]))
        elif name not in done:
            for other in sorted(imports[name] - {name}):
                visit(other, (*path, name))
            done.add(name)

    for name in modules:
        visit(name, ())
    assert not circles


def test_every_module_can_be_imported() -> None:
    """Also what is imported when it is used, and so would fail only then."""
    modules = [name_of(file).removesuffix(".py").removesuffix("/__init__").replace("/", ".") for file in PRODUCT]
    assert len(modules) > 200
    for module in modules:
        import_module(module)


def test_the_event_loop_imports_nothing() -> None:
    """Importing reads files: what a coroutine uses first was imported by a thread."""
    imports: set[str | None] = set()
    for node in (node for file in PRODUCT for node in nodes_of(file) if isinstance(node, ast.AsyncFunctionDef)):
        imports |= {line.module for line in node.body if isinstance(line, ast.ImportFrom)}
    assert imports <= {*serve.PRELOADED}


def test_nothing_is_marked_for_later() -> None:
    mark = re.compile("|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK", "NotImplemented" + "Error")))
    marked = [
        f"{name_of(file)}:{number}"
        for file in [*PRODUCT, *TESTS]
        for number, line in enumerate(text_of(file).splitlines(), 1)
        if mark.search(line)
    ]
    assert not marked


def test_files_and_functions_are_short() -> None:
    too_large = []
    for file in [*PRODUCT, *TESTS]:
        text = text_of(file)
        if text.count("\n") > LONGEST_FILE:
            too_large.append(f"{name_of(file)}: {text.count(chr(10))} lines")
        for node in nodes_of(file):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > LONGEST_FUNCTION:
                    too_large.append(f"{name_of(file)}:{node.lineno} {node.name}: {length} lines")
    assert not too_large


def test_no_class_name_is_used_twice() -> None:
    places = defaultdict(list)
    for file in PRODUCT:
        for node in tree_of(file).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{name_of(file)}:{node.lineno}")
    assert not {name: found for name, found in places.items() if len(found) > 1}


def only_stores(constructor: ast.FunctionDef) -> bool:
    """Whether all that it does is `self.name = name`, whatever the attribute's name."""
    given = constructor.args
    names = {argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
    statements = constructor.body[ast.get_docstring(constructor) is not None :]
    for statement in statements:
        if not isinstance(statement, ast.Assign | ast.AnnAssign):
            return False
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        pairs = [(target, statement.value)]
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            pairs = list(zip(target.elts, statement.value.elts, strict=True))
        if not all(isinstance(to, ast.Attribute) and isinstance(it, ast.Name) and it.id in names for to, it in pairs):
            return False
    return bool(statements)


def test_what_only_stores_is_a_dataclass() -> None:
    storing = {
        node.name
        for file in PRODUCT
        for node in nodes_of(file)
        if isinstance(node, ast.ClassDef)
        for part in node.body
        if isinstance(part, ast.FunctionDef) and part.name == "__init__" and only_stores(part)
    }
    assert storing == {*STORING}


def test_the_sample_config_is_current() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.generators.sample_config", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"run `make sample`:\n{done.stdout}{done.stderr}"


def test_every_route_has_a_test() -> None:
    """A test file of its feature names its path: for the routes of `users/notes.py` that is `tests/api/test_notes.py`.

    Further files of a feature begin with that name. Second names of routes have `test_aliases.py`.
    """
    modules = [
        module for module in vars(routes).values() if isinstance(module, ModuleType) and hasattr(module, "ROUTES")
    ]
    features = {route.path: feature_of(module.__name__) for module in modules for route in module.ROUTES}
    assert features.keys() == {route.path for route in ROUTES} - ALIASES.keys()
    named: dict[str, set[str]] = defaultdict(set)
    for file in (ROOT / "tests" / "api").rglob("test_*.py"):
        name = file.stem.removeprefix("test_")
        of_it = [feature for feature in features.values() if f"{name}_".startswith(f"{feature}_")]
        if of_it:
            named[max(of_it, key=len)] |= texts_in(file)
    assert not {path: feature for path, feature in features.items() if path not in named[feature]}
    tested = text_of(ROOT / "tests" / "api" / "test_aliases.py")
    assert not [alias for alias in ALIASES if f'{alias}"' not in tested]


def feature_of(module: str) -> str:
    """Return the last word of the name that says which feature it is; a folder below a layer's is one feature."""
    layer, *inner = module.split(".")[1:]
    return inner[-2] if len(inner) > 1 else layer if inner[-1] == "service" else inner[-1]


def texts_in(file: Path) -> set[str]:
    """Return the texts in a test file, and in what it imports from `tests/support` by name."""
    nodes = [*nodes_of(file)]
    for node in nodes_of(file):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("tests.support."):
            names = {alias.name for alias in node.names}
            for line in tree_of(ROOT / f"{str(node.module).replace('.', '/')}.py").body:
                if isinstance(line, ast.Assign) and names & {
                    it.id for it in ast.walk(line) if isinstance(it, ast.Name)
                }:
                    nodes += ast.walk(line)
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def test_patterns_match_whole_texts() -> None:
    """msgspec searches for a pattern, and `$` matches before a line feed at the end: `whole` says what is meant."""
    given = [
        (file, keyword.value)
        for file in PRODUCT
        for node in nodes_of(file)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute)
        if "Meta" in (getattr(node.func, "id", None), getattr(node.func, "attr", None))
        for keyword in node.keywords
        if keyword.arg == "pattern"
    ]
    wrong = [f"{name_of(file)}:{it.lineno}" for file, it in given if not ast.unparse(it).startswith("whole(")]
    assert given
    assert wrong == []
    anchored = [
        f"{name_of(file)}:{node.lineno}: {ast.unparse(node)}"
        for file in PRODUCT
        for node in nodes_of(file)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("re.compile", "re.match", "re.search")
        if isinstance(node.args[0], ast.Constant) and str(node.args[0].value).endswith("$")
        if "re.MULTILINE" not in ast.unparse(node)
    ]
    assert anchored == [], "re.fullmatch, or \\Z"


def test_every_dependency_says_what_it_is_for() -> None:
    packages = re.findall(r'^    "([\w-]+)[\[>]', (ROOT / "setup.py").read_text(encoding="utf-8"), re.MULTILINE)
    assert "tornado" in packages
    explained = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    assert not [package for package in packages if f"`{package}`" not in explained]


def test_no_migration_names_authmes_table() -> None:
    """Its schema is AuthMe's alone."""
    migrations = [file for file in PRODUCT if name_of(file).startswith("regsvc/database/migrations/")]
    assert len(migrations) > 1
    for file in migrations:
        assert "plugin_bridge" not in " ".join(imports_of(file)), name_of(file)
        for node in nodes_of(file):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and is_sql(node.value):
                statements = re.sub(r"--.*", "", node.value)
                assert "authme" not in statements.lower(), f"{name_of(file)}:{node.lineno}"


def is_sql(text: str) -> bool:
    return bool(re.match(r"\s*(CREATE|ALTER|DROP|INSERT|UPDATE|DELETE|RENAME|REPLACE)\b", text, re.IGNORECASE))


@pytest.mark.parametrize("page", ["docs/faults.md", "docs/security.md"])
def test_every_promise_names_tests_that_exist(page: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(?:(\w+)::)?(\w+)`", (ROOT / page).read_text(encoding="utf-8"))
    missing = ["::".join(filter(None, place)) for place in named if not is_test(*place)]
    assert len(named) == (ROOT / page).read_text(encoding="utf-8").count(".py::")
    assert not missing


def is_test(file: str, class_name: str, test: str) -> bool:
    """Return whether the file has this test, in a class if one is named."""
    if not (ROOT / file).exists():
        return False
    holders: list[ast.AST] = [tree_of(ROOT / file)]
    if class_name:
        holders = [node for node in nodes_of(ROOT / file) if isinstance(node, ast.ClassDef) and node.name == class_name]
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return any(
        isinstance(node, functions) and node.name == test for holder in holders for node in ast.iter_child_nodes(holder)
    )


def test_no_guarantee_is_left_out() -> None:
    """Each has a number, in their order, and tests in the list below."""
    promises, tests = (ROOT / "docs/faults.md").read_text(encoding="utf-8").split("\n## Tests\n")
    numbers = [int(number) for number in re.findall(r"^\* R(\d+): \S", promises, re.MULTILINE)]
    assert numbers == [*range(1, len(numbers) + 1)]
    assert [int(number) for number in re.findall(r"^\* R(\d+): `tests/", tests, re.MULTILINE)] == numbers
    files = tomllib.loads((ROOT / "tests/mutants/files.toml").read_text(encoding="utf-8"))["file"]
    (mutated,) = re.findall(r"`make mutants` changes the rules of ([^.]*)\.", promises)
    assert set(re.findall(r"R\d+", mutated)) == {guarantee for file in files for guarantee in file["holds"]}


@pytest.mark.parametrize("file", sorted((ROOT / "regsvc").glob("**/translations/*.toml")), ids=name_of)
def test_translations_can_be_read_and_have_no_key_twice(file: Path) -> None:
    """As two branches may have added it."""
    assert tomllib.loads(file.read_text(encoding="utf-8"))
