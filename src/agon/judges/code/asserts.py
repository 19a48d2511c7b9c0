"""Asserts taken apart, so that a program never sees the value it is tested against.

`assert f(1) == 2` becomes the call `f(1)`, made in the program's sandbox, and the check `_0 == 2`,
made elsewhere with the call's value in place of `_0`. Every form of assert works the same way:
`assert not f(x)`, `assert math.isclose(f(x), 0.5)`, `assert sorted(f(x)) == [1, 2] and f(y)`.

A name belongs to the program if it is no builtin, no standard module, not defined by the setup, and
not bound inside the assert. Calls of such names are made by the program. If there is none, the call on the
left of `==` is: some problems want a function named like a builtin.

Methods of what a function returned are not called by the program: in `f(x).startswith("a")` it only computes
`f(x)`, and a plain string decides. Methods of the program's own classes (`Point(1, 2).norm()`) are, but one
that is there to compare (`f(x).equals(y)`) may not decide an assert by its own truth.

What cannot be taken apart (a call inside a loop over its arguments, a statement that is no assert) raises
`NotSeparableError`: such a problem is not judged rather than judged unsafely.
"""

import ast
import builtins
import re
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

# What plain data can do by itself. `Stack().pop()` is a method of a class of the program all the same.
_PLAIN_METHODS = frozenset(
    name
    for kind in (str, bytes, list, tuple, dict, set, frozenset, int, float, complex, range)
    for name in dir(kind)
)
_COMPARING = re.compile(
    r"_*(?:is_?)?(?:eq|equals?|equal_to|same|same_as|match|matches|ne|contains)_*", re.IGNORECASE
)
# Modules that execute what they are given.
EXECUTING = {
    "code",
    "codeop",
    "ctypes",
    "doctest",
    "importlib",
    "marshal",
    "pdb",
    "pickle",
    "_pickle",
    "profile",
}
EXECUTING |= {"cProfile", "runpy", "shelve", "subprocess", "timeit", "trace"}
_EXECUTING_METHODS = re.compile(r"\.(?:system|popen|exec\w*|spawn\w*|posix_spawn\w*)\(")


class NotSeparableError(ValueError):
    """An assert whose expected value cannot be kept from the program."""


@dataclass(frozen=True)
class Check:
    """`calls` are expressions for the program; `test` uses their values as `_0`, `_1`, ….

    `expected` is set where the test is `_0 == literal`, which can be decided without a run."""

    calls: tuple[str, ...]
    test: str
    modules: tuple[str, ...] = ()
    literal: bool = False
    expected: Any = None


@lru_cache(maxsize=256)
def take_apart(setup: str, assertion: str) -> Check:
    """One assert as the calls that the program makes and the check of what they return.

    >>> take_apart("", "assert math.isclose(area(2), 12.57, rel_tol=1e-3)").calls
    ('area(2)',)
    """
    try:
        statements = ast.parse(assertion.strip()).body
        known = bound_by(ast.parse(setup)) | set(dir(builtins))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as fault:
        raise NotSeparableError(f"it is no Python: {fault}") from None
    if len(statements) != 1 or not isinstance(statements[0], ast.Assert):
        raise NotSeparableError("it is not one assert statement")
    splitter = _Splitter(known)
    test = splitter.visit(statements[0].test)
    if not splitter.calls and not splitter.call_left_of_equals(test):
        raise NotSeparableError("it calls nothing of the program")
    if splitter.deciding and not _compares_with_a_value(test):
        raise NotSeparableError("a method of what the program returned would decide it")
    if splitter.modules & EXECUTING:
        raise NotSeparableError(f"it uses {', '.join(sorted(splitter.modules & EXECUTING))}")
    source = ast.unparse(ast.fix_missing_locations(ast.Expression(test)))
    if _EXECUTING_METHODS.search(source):
        raise NotSeparableError("it executes what the program returned")
    literal, expected = _literal(test)
    return Check(tuple(splitter.calls), source, tuple(sorted(splitter.modules)), literal, expected)


class _Splitter(ast.NodeTransformer):
    """Replaces what depends on the program's names by numbered names."""

    def __init__(self, known: set[str]) -> None:
        self._known = known
        self._bound: list[set[str]] = []
        self.calls: list[str] = []
        self.modules: set[str] = set()
        self.deciding = False

    def call_left_of_equals(self, test: ast.AST) -> bool:
        """`assert sum(10, 15) == 6`: the program defines a builtin's name. Only the left side is called."""
        match test:
            case ast.Compare(left=ast.Call(func=ast.Name()) as call, ops=[ast.Eq()]):
                test.left = ast.Name("_0", ast.Load())
                self.calls.append(ast.unparse(call))
        return bool(self.calls)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        # A module cannot be called, so `select(x)` is the program's and `math.isclose(x, y)` is not.
        called = isinstance(node.func, ast.Name) and node.func.id not in self._known
        if called and not self._is_bound(_root(node.func)):
            return self._call(node)
        if not self._belongs_to_program(_root(node.func)):
            return self.generic_visit(node)
        if isinstance(node.func, ast.Attribute):
            returned = _returned_by_function(node.func.value)
            if returned and node.func.attr in _PLAIN_METHODS:
                return self.generic_visit(node)
            self.deciding |= returned or bool(_COMPARING.fullmatch(node.func.attr))
        return self._call(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """`Point(1, 2).x` is read where the point is; of what a function returned only data comes out."""
        is_objects = self._belongs_to_program(_root(node)) and not _returned_by_function(node.value)
        return self._call(node) if is_objects else self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if self._belongs_to_program(node.id):
            return self._call(node)
        if node.id in sys.stdlib_module_names and node.id not in self._known:
            self.modules.add(node.id)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return self._visit_binding(
            node, {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
        )

    def _visit_comprehension(self, node: ast.AST) -> ast.AST:
        names = (part for part in ast.walk(node) if isinstance(part, ast.Name))
        return self._visit_binding(node, {name.id for name in names if isinstance(name.ctx, ast.Store)})

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_comprehension  # noqa: N815

    def _visit_binding(self, node: ast.AST, names: set[str]) -> ast.AST:
        self._bound.append(names)
        try:
            return self.generic_visit(node)
        finally:
            self._bound.pop()

    def _belongs_to_program(self, name: str | None) -> bool:
        if name is None or name in self._known or name in sys.stdlib_module_names:
            return False
        return not self._is_bound(name)

    def _is_bound(self, name: str | None) -> bool:
        return any(name in names for names in self._bound)

    def _call(self, node: ast.expr) -> ast.AST:
        used = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        if any(used & names for names in self._bound):
            raise NotSeparableError("it calls the program inside a loop or a lambda")
        self.calls.append(ast.unparse(node))
        return ast.Name(f"_{len(self.calls) - 1}", ast.Load())


def _root(node: ast.expr) -> str | None:
    """The name that a chain of calls, attributes and subscripts starts from."""
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Call):
            node = node.func
        elif isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        else:
            return None
    return node.id


def _returned_by_function(node: ast.expr) -> bool:
    """Whether a chain starts with a call of a function. By its name: classes are written in capitals."""
    first: ast.expr | None = None
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Call):
            first, node = node, node.func
        elif isinstance(node, (ast.Attribute, ast.Subscript)):
            first, node = None, node.value
        else:
            return False
    return first is not None and not node.id.lstrip("_")[:1].isupper()


def _compares_with_a_value(test: ast.AST) -> bool:
    """`_0 == value`, where the value is more than true or false."""
    match test:
        case ast.Compare(ops=[ast.Eq()], comparators=[value]):
            return not (isinstance(value, ast.Constant) and isinstance(value.value, bool))
    return False


def _literal(test: ast.AST) -> tuple[bool, Any]:
    match test:
        case ast.Compare(left=ast.Name(id="_0"), ops=[ast.Eq()], comparators=[expected]):
            try:
                return True, ast.literal_eval(expected)
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                return False, None
    return False, None


def bound_by(tree: ast.AST) -> set[str]:
    """The names that a piece of code defines anywhere. One too many leads to a check that fails with an
    error, never to a program that sees what it is checked against."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names
