"""Rules about names that a program can check."""

import ast
from collections import defaultdict
from importlib import import_module

from tests.house_rules.sources import PRODUCT, name_of, tree_of


def test_no_class_name_is_used_twice() -> None:
    """Classes nested in another class are exempt: peewee requires every model to have a `Meta`."""
    places = defaultdict(list)
    for file in PRODUCT:
        for node in tree_of(file).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{name_of(file)}:{node.lineno}")
    assert not {name: found for name, found in places.items() if len(found) > 1}


def test_request_and_reply_types_are_named_for_what_they_are() -> None:
    """`…Query` for GET, `…Request` for POST, `…Reply` for replies."""
    misnamed = []
    for route in import_module("regsvc.api.routes").ROUTES:
        suffix = "Query" if route.method == "GET" else "Request"
        if route.request_type is not None and not route.request_type.__name__.endswith(suffix):
            misnamed.append(route.request_type.__name__)
        misnamed += [kind.__name__ for kind in route.reply_types if not kind.__name__.endswith("Reply")]
    assert not misnamed
