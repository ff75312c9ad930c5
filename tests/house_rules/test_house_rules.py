"""What reviewers need not look for: the rules of this house that a program can check."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = [
    ROOT / "companion.py",
    *sorted((ROOT / "regsvc").rglob("*.py")),
    *sorted(ROOT.glob("plugin_bridge/**/*.py")),
]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
LANGUAGES = ("en", "zh")

LONGEST_FUNCTION = 60
LONGEST_FILE = 450
# A declaration with an entry for each key; nobody needs to see a list whole.
LISTS = {"regsvc/config/sections.py", "regsvc/core/errors.py"}

# Who may not import what. A rule holds for the package and everything below it.
FORBIDDEN = [
    ("plugin_bridge", {"regsvc", "tornado", "companion", "tests"}),
    ("regsvc", {"companion", "tests"}),
    (
        "regsvc/api",
        {"peewee", "playhouse", "pymysql", "regsvc.database.models", "regsvc.database.engine", "regsvc.app.app"},
    ),
]
# the process and its command line
MAY_IMPORT_THE_WIRING = {"companion.py", "regsvc/cli/commands.py", "regsvc/cli/users.py", "regsvc/cli/serve.py"}
MAY_IMPORT_THE_WIRING |= {"regsvc/cli/data.py"}
MAY_IMPORT_HTTP = {"companion.py", "regsvc/app/app.py", "regsvc/cli/serve.py"}


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def imports_of(file: Path) -> Iterator[str]:
    """Every module that `file` imports, wherever in it the import stands."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
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


@pytest.mark.parametrize(("package", "forbidden"), FORBIDDEN, ids=[package for package, names in FORBIDDEN])
def test_imports_point_down(package: str, forbidden: set[str]) -> None:
    broken = [
        f"{name_of(file)} imports {module}"
        for file in PRODUCT
        if name_of(file).startswith(f"{package}/")
        for module in imports_of(file)
        if touches(module, forbidden)
    ]
    assert not broken


def test_only_the_process_imports_the_wiring() -> None:
    importers = {
        name_of(file) for file in PRODUCT for module in imports_of(file) if touches(module, {"regsvc.app.app"})
    }
    assert importers <= MAY_IMPORT_THE_WIRING


def test_the_rules_know_nothing_of_http() -> None:
    importers = {
        name_of(file)
        for file in PRODUCT
        if not name_of(file).startswith("regsvc/api/")
        for module in imports_of(file)
        if touches(module, {"regsvc.api"})
    }
    assert importers <= MAY_IMPORT_HTTP


def test_no_file_is_a_drawer() -> None:
    """A file named for "what was left over" has no reason of its own."""
    drawers = {"helpers", "helper", "utils", "util", "misc", "common", "tools"}
    assert not [name_of(file) for file in [*PRODUCT, *TESTS] if file.stem in drawers]


def test_no_mark_says_later() -> None:
    mark = re.compile("|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK", "NotImplemented" + "Error")))
    marked = [
        f"{name_of(file)}:{number}"
        for file in [*PRODUCT, *TESTS]
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if mark.search(line)
    ]
    assert not marked


def test_every_room_can_be_seen_whole() -> None:
    too_large = []
    for file in [*PRODUCT, *TESTS]:
        text = file.read_text(encoding="utf-8")
        if text.count("\n") > LONGEST_FILE and name_of(file) not in LISTS:
            too_large.append(f"{name_of(file)}: {text.count(chr(10))} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > LONGEST_FUNCTION:
                    too_large.append(f"{name_of(file)}:{node.lineno} {node.name}: {length} lines")
    assert not too_large


def test_no_tuple_is_unpacked_into_underscores() -> None:
    """Two values thrown away at once: the function should have given back something with names."""
    careless = [
        f"{name_of(file)}:{node.lineno}"
        for file in [*PRODUCT, *TESTS]
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Store)
        if sum(isinstance(item, ast.Name) and item.id == "_" for item in node.elts) > 1
    ]
    assert not careless


def test_the_sample_config_is_current() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "regsvc.cli.docs.sample_config", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"run `make sample`:\n{done.stdout}{done.stderr}"


def test_every_route_has_a_test() -> None:
    """`/api/admin/user/ban` has `tests/api/test_admin_user_ban.py`, `/metrics` has `test_metrics.py`."""
    routes = import_module("regsvc.api.routes").ROUTES
    assert routes
    untested = {
        route.path for route in routes if not (ROOT / "tests" / "api" / expected_test_file(route.path)).exists()
    }
    assert not untested


def expected_test_file(path: str) -> str:
    words = re.findall(r"[a-z0-9]+", path.removeprefix("/api").lower())
    return f"test_{'_'.join(words)}.py"


def test_every_dependency_says_what_it_is_for() -> None:
    packages = re.findall(r'^    "([\w-]+)[\[>]', (ROOT / "setup.py").read_text(encoding="utf-8"), re.MULTILINE)
    assert "tornado" in packages
    explained = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    assert not [package for package in packages if f"| `{package}` |" not in explained]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_refusal_has_words(language: str) -> None:
    import_module("regsvc.core.errors")  # lists them
    refusals = set(import_module("regsvc.core.refusal").REFUSALS)
    assert refusals
    assert {f"refusal.{code}" for code in refusals} <= set(translation(language))


def test_every_language_says_the_same_things() -> None:
    english = translation("en")
    for language in LANGUAGES:
        words = translation(language)
        assert set(words) == set(english)
        for key, text in words.items():
            assert placeholders(text) == placeholders(english[key]), f"{language}: {key}"


def translation(language: str) -> dict[str, str]:
    """Dotted key → text, however the file is nested."""
    file = ROOT / "regsvc" / "core" / "translations" / f"{language}.toml"

    def flatten(table: dict[str, object], prefix: str) -> Iterator[tuple[str, str]]:
        for key, value in table.items():
            if isinstance(value, dict):
                yield from flatten(value, f"{prefix}{key}.")
            else:
                yield f"{prefix}{key}", str(value)

    return dict(flatten(tomllib.loads(file.read_text(encoding="utf-8")), ""))


def placeholders(text: str) -> set[str]:
    return set(re.findall(r"\{(\w+)", text))


def test_no_migration_names_authmes_table() -> None:
    """Its schema is AuthMe's alone."""
    migrations = [file for file in PRODUCT if name_of(file).startswith("regsvc/database/migrations/")]
    assert len(migrations) > 1
    for file in migrations:
        assert "plugin_bridge" not in " ".join(imports_of(file)), name_of(file)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and is_sql(node.value):
                statements = re.sub(r"--.*", "", node.value)
                assert "authme" not in statements.lower(), f"{name_of(file)}:{node.lineno}"


def is_sql(text: str) -> bool:
    return bool(re.match(r"\s*(CREATE|ALTER|DROP|INSERT|UPDATE|DELETE|RENAME|REPLACE)\b", text, re.IGNORECASE))


def test_every_promise_names_tests_that_exist() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs/faults.md").read_text(encoding="utf-8"))
    missing = [
        f"{file}::{test}"
        for file, test in named
        if not (ROOT / file).exists()
        or not re.search(rf"^(async )?def {test}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert named
    assert not missing
