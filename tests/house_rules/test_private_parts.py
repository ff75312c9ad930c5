"""Private parts of other packages that the program uses: each is in one list, and is there in the installed version.

Where a test fails after an upgrade: mend the code that uses the part, or narrow the bound in `setup.py`.
"""

# mypy: disable-error-code="attr-defined"

import ast
import inspect
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import peewee
import pymysql
import pytest
from passlib.totp import TOTP
from pymysql.connections import Connection
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPConnection, HTTPHeaders, HTTPServerRequest, RequestStartLine
from tornado.iostream import BaseIOStream
from tornado.template import BaseLoader
from tornado.web import Application, RequestHandler

from tests.house_rules.sources import PRODUCT, ROOT, name_of, nodes_of, text_of

DOCUMENTED = {
    *dir(type),
    *("__file__", "__traceback__", "__context__", "__cause__", "__members__", "__dataclass_fields__", "_exit"),
    *("__struct_fields__", "__struct_encode_fields__"),  # msgspec's
    *("_replace", "_make", "_asdict", "_fields"),  # of named tuples
    *("_ActionsContainer", "_typeshed"),  # in annotations, which nothing evaluates
}


@dataclass(frozen=True)
class Part:
    """A private name: the module of the product that uses it, what for, and a look whether it is as expected."""

    package: str
    name: str
    user: str
    purpose: str
    is_there: Callable[[], bool]


class Row(peewee.Model):
    """A model with a reference to itself."""

    parent = peewee.ForeignKeyField("self", null=True)

    class Meta:
        database = peewee.SqliteDatabase(":memory:")
        table_name = "a_row"


def attribute_of(owner: object, name: str, kind: type) -> bool:
    return isinstance(getattr(owner, name, None), kind)


def new_handler() -> RequestHandler:
    connection = cast(HTTPConnection, SimpleNamespace(set_close_callback=lambda _callback: None))
    start_line = RequestStartLine("GET", "/", "HTTP/1.1")
    request = HTTPServerRequest(start_line=start_line, headers=HTTPHeaders({"Host": "x"}), connection=connection)
    return RequestHandler(Application(), request)


def calls(function: Callable[..., object], name: str) -> bool:
    """Return whether the package's own code calls this method, which we have overridden."""
    return re.search(rf"\.{name}\(", inspect.getsource(function)) is not None


def loads_nothing_hidden() -> bool:
    code = "import regsvc, pymysql, jwt, passlib.totp; from regsvc import CRYPTOGRAPHY as name; import sys; "
    code += "sys.exit(sys.modules[name] is not None or any(it.startswith(name + '.') for it in sys.modules))"
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


_META = "regsvc/database/bulk.py"  # and many others
PARTS = [
    Part(
        "pymysql",
        "_auth",
        "regsvc/database/engine.py",
        "to load cryptography only for a login by SHA-256 without TLS",
        lambda: (
            "sha2_rsa_encrypt(" in inspect.getsource(pymysql._auth.caching_sha2_password_auth)
            and callable(pymysql._auth.sha2_rsa_encrypt)
        ),
    ),
    Part(
        "pymysql",
        "_have_cryptography",
        "regsvc/database/engine.py",
        "to know whether it has been loaded",
        lambda: attribute_of(pymysql._auth, "_have_cryptography", bool),
    ),
    Part(
        "pymysql",
        "_create_ssl_ctx",
        "regsvc/database/engine.py",
        "overridden, since it reads the system's certificates for each connection",
        lambda: calls(Connection.__init__, "_create_ssl_ctx"),
    ),
    Part(
        "peewee",
        "_connect",
        "regsvc/database/engine.py",
        "overridden, to open connections in our way",
        lambda: calls(peewee.Database.connect, "_connect") and calls(peewee.SqliteDatabase._connect, "_add_conn_hooks"),
    ),
    Part(
        "peewee",
        "_add_conn_hooks",
        "regsvc/database/engine.py",
        "sets the pragmas of a connection that we opened",
        lambda: callable(peewee.SqliteDatabase._add_conn_hooks),
    ),
    Part(
        "peewee",
        "__exception_wrapper__",
        "regsvc/database/bulk.py",
        "translates the drivers' exceptions of statements that bypass it",
        lambda: callable(peewee.__exception_wrapper__.__exit__),
    ),
    Part(
        "peewee",
        "_returning",
        "regsvc/database/bulk.py",
        "the fields that a query selects",
        lambda: [*Row.select(Row.id)._returning] == [Row.id],
    ),
    Part(
        "peewee",
        "__no_default__",
        "regsvc/database/bulk.py",
        "makes a row without the defaults of its fields",
        lambda: Row(__no_default__=True).__data__ == {},
    ),
    Part(
        "peewee",
        "__data__",
        "regsvc/database/bulk.py",
        "the values of a row",
        lambda: Row(id=7).__data__ == {"id": 7},
    ),
    Part(
        "peewee",
        "__rel__",
        "regsvc/database/bulk.py",
        "the rows that a row refers to",
        lambda: Row(parent=Row(id=7)).__rel__ == {"parent": Row(id=7)},
    ),
    Part(
        "peewee",
        "_meta",
        _META,
        "tables, columns and the database of a model",
        lambda: (
            {"columns", "database", "fields", "model_refs", "primary_key", "sorted_fields", "table_name"}
            <= {*vars(Row._meta)}
            and Row._meta.model_refs[Row][0] is Row.parent
        ),
    ),
    Part(
        "tornado",
        "_headers",
        "regsvc/http/call.py",
        "replaced, without the headers that Tornado has by default",
        lambda: attribute_of(new_handler(), "_headers", object) and calls(RequestHandler.clear, "set_default_headers"),
    ),
    Part(
        "tornado",
        "_write_buffer",
        "regsvc/http/call.py",
        "made by `clear`, which is overridden",
        lambda: attribute_of(new_handler(), "_write_buffer", list),
    ),
    Part(
        "tornado",
        "_sockets",
        "regsvc/http/server.py",
        "the listening sockets, which it closes",
        lambda: attribute_of(HTTPServer(Application()), "_sockets", dict),
    ),
    Part(
        "tornado",
        "_handlers",
        "regsvc/http/server.py",
        "what ends accepting, by socket",
        lambda: attribute_of(HTTPServer(Application()), "_handlers", dict),
    ),
    Part(
        "tornado",
        "_handle_connection",
        "regsvc/http/server.py",
        "serves an accepted connection",
        lambda: callable(HTTPServer._handle_connection),
    ),
    Part(
        "tornado",
        "_total_write_done_index",
        "regsvc/http/connections.py",
        "the bytes written, to find clients that take none",
        lambda: attribute_of(BaseIOStream(), "_total_write_done_index", int),
    ),
    Part(
        "tornado",
        "_create_template",
        "regsvc/web/assets.py",
        "overridden, as each loader does",
        lambda: calls(BaseLoader.load, "_create_template"),
    ),
    Part(
        "libpass",
        "_min_key_size",
        "regsvc/auth/second_factor.py",
        "overridden, since AuthMe and hosts may choose a shorter secret",
        lambda: "< self._min_key_size" in inspect.getsource(TOTP.__init__),
    ),
    Part(
        "pyjwt libpass",
        "",
        "regsvc/__init__.py",
        "do without cryptography, which is hidden from them in `sys.modules`",
        loads_nothing_hidden,
    ),
]
"""Every private part in use."""


@pytest.mark.parametrize("part", PARTS, ids=lambda part: f"{part.package.replace(' ', '-')}-{part.name.strip('_')}")
def test_what_is_private_is_still_there(part: Part) -> None:
    assert part.is_there(), f"{part.user} uses {part.name} of {part.package}: {part.purpose}"


def test_packages_with_private_parts_in_use_have_an_upper_bound() -> None:
    setup = text_of(ROOT / "setup.py")
    runtime = setup.partition("RUNTIME = [\n")[2].partition("\n]\n")[0]
    bounded = set(re.findall(r'^    "([\w-]+)(?:\[.*\])?>=[\d.]+,<[\d.]+",$', runtime, re.MULTILINE))
    assert {package for part in PARTS for package in part.package.split()} == bounded


def test_each_private_part_in_use_is_listed() -> None:
    found = names_that_nobody_of_ours_defines() | names_of_base_classes()
    assert found == {part.name for part in PARTS if part.name}
    for part in PARTS:
        assert part.name in text_of(ROOT / part.user), part


def names_that_nobody_of_ours_defines() -> set[str]:
    """Return private names that the program reads or imports, and no module of it defines."""
    used: set[str] = set()
    imported: set[str] = set()
    defined: set[str] = set()
    for node in (node for file in PRODUCT for node in nodes_of(file)):
        match node:
            case ast.Attribute(ctx=ast.Load()):
                used.add(node.attr)
            case ast.Attribute() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                defined.add(node.attr if isinstance(node, ast.Attribute) else node.name)
            case ast.Name(ctx=ast.Store()):
                defined.add(node.id)
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] not in ("regsvc", "plugin_bridge"):
                imported |= {*module.split("."), *(alias.name for alias in node.names)} - {"__future__"}
            case ast.keyword(arg=str(name)):
                used.add(name)
            case ast.Call(func=ast.Name("getattr"), args=[_, ast.Constant(value=str(name)), *_]):
                used.add(name)
            case ast.Subscript(value=ast.Call(func=ast.Name("vars")), slice=ast.Constant(value=str(name))):
                used.add(name)
    return {name for name in (used - defined) | imported if is_private(name)} - DOCUMENTED


def names_of_base_classes() -> set[str]:
    """Return private names that a class of ours defines or uses, and that a base class in another package has."""
    return {
        name
        for own in classes_of_ours()
        for name in set(re.findall(r"\b_[a-z]\w+", source_of(own)))
        for base in own.__mro__
        if base.__module__.split(".")[0] in packages() and name in own_private_names(base)
    }


def classes_of_ours() -> list[type]:
    modules = [import_module(name_of(file).removesuffix(".py").replace("/", ".")) for file in PRODUCT]
    found = [it for module in modules for it in vars(module).values() if isinstance(it, type)]
    ours = [it for it in found if it.__module__.startswith(("regsvc.", "plugin_bridge."))]
    return [it for it in ours if any(base.__module__.split(".")[0] in packages() for base in it.__mro__[1:])]


@cache
def packages() -> frozenset[str]:
    """Return the import names of the packages whose classes ours derive from."""
    return frozenset({"tornado", "peewee", "pymysql", "prometheus_client", "aiosmtplib", "yaml", "jwt", "passlib"})


def source_of(kind: type) -> str:
    """Return the source of a class, with that of its namesakes in the module."""
    return classes_in(kind.__module__)[kind.__name__]


@cache
def classes_in(module: str) -> dict[str, str]:
    """Return the source of each class by its name: `inspect` would parse the module again for each."""
    file = Path(inspect.getfile(sys.modules[module]))
    lines, found = text_of(file).splitlines(), defaultdict[str, str](str)
    for node in nodes_of(file):
        if isinstance(node, ast.ClassDef):
            found[node.name] += "\n".join(lines[node.lineno - 1 : node.end_lineno]) + "\n"
    return found


@cache
def own_private_names(kind: type) -> frozenset[str]:
    """Return the private methods and attributes that this very class has."""
    attributes = re.findall(r"self\.(_[a-z]\w+)", source_of(kind))
    return frozenset(name for name in {*vars(kind), *attributes} if is_private(name) and not name.startswith("__"))


def is_private(name: str) -> bool:
    return name.startswith("_") and name.strip("_") != ""
