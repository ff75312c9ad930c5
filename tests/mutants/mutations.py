"""Mutations of a module's syntax tree: small changes that a test has to notice."""

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

_SWAPS: Final[Mapping[type[ast.AST], type[ast.AST]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_OPERATORS: Final = (ast.boolop, ast.operator, ast.unaryop, ast.cmpop, ast.expr_context)
_NO_CODE: Final = {"annotation", "returns", "decorator_list", "bases", "keywords_of_class", "type_comment"}
_TEXTS_AND_TYPES: Final = {"Meta", "Sentence", "Literal", "Annotated", "Protocol", "cast", "PreparedQuery", "get_args"}
"""What is called or subscripted for people who read, or for the type checker: it decides nothing."""


@dataclass(frozen=True)
class Mutant:
    """A change of one node in a tree, in place of which another is put."""

    scope: str
    """Qualified name of the outermost function, or of the class or constant."""
    change: str
    """The change as text, by which the list of equal mutants names it, without line numbers."""
    lines: range
    """The lines of which a test must run one to notice it."""
    holder: ast.AST
    place: str
    index: int | None
    new: ast.AST | None
    """None: the node is taken out of its list."""
    is_in_function: bool
    """Whether tests run its lines, and not the import of the module."""
    condition: int | None = None
    """Number of the condition that it holds true or false; None: it does something else."""

    @property
    def name(self) -> str:
        """What identifies it in its file."""
        return f"{self.scope}: {self.change}"

    def apply(self) -> Callable[[], None]:
        """Change the tree; return what changes it back."""
        before = getattr(self.holder, self.place)
        if self.index is None:
            setattr(self.holder, self.place, self.new)
            return lambda: setattr(self.holder, self.place, before)
        after = [] if self.new is None else [self.new]
        setattr(self.holder, self.place, [*before[: self.index], *after, *before[self.index + 1 :]])
        if not isinstance(self.holder, ast.Dict) or self.new is not None:
            return lambda: setattr(self.holder, self.place, before)
        entries, keys = self.holder, self.holder.keys
        entries.keys = [*keys[: self.index], *keys[self.index + 1 :]]

        def undo() -> None:
            entries.keys, entries.values = keys, before

        return undo


def find_mutants(tree: ast.Module, scopes: Collection[str], left_out: Collection[str]) -> Iterator[Mutant]:
    """Return the mutants of a module, with names of their own: of these scopes, or of all but those left out."""
    finder, seen = _Finder(), dict[str, int]()
    for statement in tree.body:
        finder.visit_children(statement, "", statement)
    for it in finder.found:
        is_listed = any(it.scope == scope or it.scope.startswith(f"{scope}.") for scope in scopes or left_out)
        if is_listed is bool(scopes):
            seen[it.name] = number = seen.get(it.name, 0) + 1
            yield it if number == 1 else replace(it, change=f"{it.change} ({number})")


class _Finder:
    def __init__(self) -> None:
        self.found: list[Mutant] = []
        self._conditions = 0

    def visit_children(self, node: ast.AST, scope: str, statement: ast.stmt) -> None:
        if isinstance(node, (ast.Import, ast.ImportFrom, ast.Assert)) or _is_text(node):
            return
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and "()" not in scope:
            scope = f"{scope}.{node.name}".lstrip(".") + ("()" if isinstance(node, ast.FunctionDef) else "")
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and "()" not in scope:
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            scope = f"{scope}.{ast.unparse(target)}".lstrip(".")
        for place, value in ast.iter_fields(node):
            if place in _NO_CODE or (place == "keywords" and isinstance(node, ast.ClassDef)):
                continue
            for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if isinstance(child, ast.AST) and not isinstance(child, _OPERATORS) and not _is_text(child):
                    within = child if isinstance(child, ast.stmt) else statement
                    self._visit(child, node, place, index, scope, within)

    def _visit(
        self, node: ast.AST, holder: ast.AST, place: str, index: int | None, scope: str, statement: ast.stmt
    ) -> None:
        def add(new: ast.AST | None, condition: int | None = None) -> None:
            text = f"{_unparse(node)} -> {_unparse(new)}"
            name, lines = scope.replace("()", ""), _lines(statement)
            self.found.append(Mutant(name, text, lines, holder, place, index, new, "()" in scope, condition))

        if _is_condition(node, holder, place):
            self._conditions += 1
            add(ast.Constant(True), self._conditions)
            add(ast.Constant(False), self._conditions)
        for new in _alternatives(node, holder, place):
            add(new)
        self.visit_children(node, scope, statement)


def _is_condition(node: ast.AST, holder: ast.AST, place: str) -> bool:
    """Return whether this is a condition that is not composed of others."""
    if isinstance(node, (ast.BoolOp, ast.Constant)) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
        return False
    is_operand = isinstance(holder, ast.BoolOp) or (isinstance(holder, ast.UnaryOp) and isinstance(holder.op, ast.Not))
    return isinstance(node, ast.Compare) or place in ("test", "ifs") or is_operand


def _alternatives(node: ast.AST, holder: ast.AST, place: str) -> Iterable[ast.AST | None]:
    match node:
        case ast.Compare(left=left, ops=ops, comparators=others):
            for number, op in enumerate(ops):
                if type(op) in _SWAPS:
                    swapped = [*ops[:number], _SWAPS[type(op)](), *ops[number + 1 :]]
                    yield ast.Compare(left, swapped, others)  # type: ignore[arg-type]
            if len(ops) == 2:
                yield ast.Compare(left, ops[:1], others[:1])
                yield ast.Compare(others[0], ops[1:], others[1:])
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _SWAPS:
            yield ast.BinOp(left, _SWAPS[type(op)](), right)  # type: ignore[arg-type]
        case ast.UnaryOp(op=ast.Invert() | ast.USub(), operand=operand):
            yield operand
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield ast.Constant(value + 1)
        case ast.Constant(value=str() as value) if not isinstance(holder, (ast.JoinedStr, ast.FormattedValue)):
            yield ast.Constant("" if value else "other")
        case ast.Expr() | ast.Raise() | ast.AugAssign() | ast.Continue() | ast.Break():
            yield ast.Pass()
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield ast.Return(ast.Constant(None))
    is_member_of_set = isinstance(holder, ast.Set) or (isinstance(holder, (ast.Tuple, ast.List)) and place == "elts")
    if is_member_of_set and isinstance(node, (ast.Name, ast.Constant)) and len(holder.elts) > 1:  # type: ignore[attr-defined]
        if isinstance(getattr(holder, "ctx", None), ast.Store):
            return
        yield None
    if isinstance(holder, ast.Dict) and place == "values":
        yield None
    if isinstance(holder, ast.Call):
        if place == "keywords" and isinstance(node, ast.keyword) and node.arg is not None:
            yield None
        if place == "args" and not isinstance(node, (ast.Constant, ast.Starred, ast.Lambda)):
            yield ast.Constant(None)


def _is_text(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True  # a docstring, or the body of a protocol's method
    called = node.func if isinstance(node, ast.Call) else node.value if isinstance(node, ast.Subscript) else None
    return isinstance(called, ast.Name) and called.id in _TEXTS_AND_TYPES


def _lines(statement: ast.stmt) -> range:
    """Return the lines of a statement, of a compound one those before its body."""
    body = getattr(statement, "body", None)
    end = body[0].lineno - 1 if body else statement.end_lineno or statement.lineno
    return range(statement.lineno, max(end, statement.lineno) + 1)


def _unparse(node: ast.AST | None) -> str:
    return "nothing" if node is None else ast.unparse(ast.fix_missing_locations(node))
