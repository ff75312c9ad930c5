"""Rules on the shape of classes that a program can check."""

import ast
from collections.abc import Iterator

from tests.house_rules.sources import PRODUCT, name_of, nodes_of

MAX_DEPENDENCIES = 8
SERVICE_TYPES = frozenset({"Audit", "Clock", "Database", "Worker"})
"""A dataclass with a field of one of these is a service; others are records, which may have any number of fields."""
REGISTRIES = frozenset({"regsvc/api/services.py: Services"})
"""Lists of services without behaviour of their own: handlers pick the ones they call."""


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    for file in PRODUCT:
        for node in nodes_of(file):
            if isinstance(node, ast.ClassDef):
                yield f"{name_of(file)}: {node.name}", node


def count_dependencies(definition: ast.ClassDef) -> int:
    """Return the number of constructor parameters; 0 for a record."""
    for node in definition.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            return len(node.args.posonlyargs + node.args.args + node.args.kwonlyargs) - 1
    if not any("dataclass" in ast.unparse(decorator) for decorator in definition.decorator_list):
        return 0
    fields = [node for node in definition.body if isinstance(node, ast.AnnAssign)]
    is_service = any(ast.unparse(field.annotation) in SERVICE_TYPES for field in fields)
    return len(fields) if is_service else 0


def test_no_service_has_too_many_dependencies() -> None:
    """A class that needs more is two classes: give it parts that belong together, not a bag of parameters."""
    found = {
        name: count
        for name, definition in classes()
        if name not in REGISTRIES and (count := count_dependencies(definition)) > MAX_DEPENDENCIES
    }
    assert found == {}


def test_the_rule_sees_constructors_services_and_records() -> None:
    names = [f"part_{number}" for number in range(9)]
    parameters, fields = ", ".join(names), "\n    ".join(f"{name}: int" for name in names)
    source = f"""
class Service:
    def __init__(self, {parameters}, *, last=None): ...

@dataclass(frozen=True)
class ServiceRecord:
    {fields}
    now: Clock

@dataclass
class Record:
    {fields}
"""
    definitions = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    assert [count_dependencies(definition) for definition in definitions] == [10, 10, 0]
