"""What of a problem's setup the program may have: all but what its answers are checked with.

A setup may define what the program needs (a class of nodes, a constant), what the calls need (their
arguments), and what only the checks need: the reference solution, the expected values. The last stays out of
the program's process. Names that a check uses count as its own, and so does all that they are made of. A
single number or string with a harmless name (`PI = 3`) is given to the program, because problems say "use PI".

Where an argument of a call is made from such names (`f(cases[0][0])`), it is evaluated beforehand, in a
sandbox without the program, and only its value goes in.
"""

import ast
import re
from dataclasses import dataclass
from functools import lru_cache

from agon.judges.code.asserts import bound_by

_EXPECTED = re.compile(
    r"expect|answer|gold|want|correct|solution|result|ref|truth|target|oracle|output|secret", re.IGNORECASE
)


@dataclass(frozen=True)
class ProgramSide:
    """The setup for the program, its calls, and the arguments that are evaluated without it. A call uses
    those as `_given_0`, `_given_1`, …."""

    setup: str
    calls: tuple[str, ...]
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class _Statement:
    node: ast.stmt
    binds: frozenset[str]
    uses: frozenset[str]


@lru_cache(maxsize=256)
def program_side(setup: str, calls: tuple[str, ...], tests: tuple[str, ...]) -> ProgramSide:
    """The part of setup and calls that the program may see; `tests` are the checks of what calls return."""
    if not setup.strip():
        return ProgramSide(setup, calls, ())
    statements = [_statement(node) for node in ast.parse(setup).body]
    secret = _closure({name for test in tests for name in _names(ast.parse(test))}, statements)
    kept = [ast.parse(call, mode="eval") for call in calls]
    taker = _ArgumentTaker(secret)
    kept = [ast.fix_missing_locations(taker.visit(call)) for call in kept]
    needed = _closure({name for call in kept for name in _names(call)}, statements)
    secret -= needed
    shown = [each.node for each in statements if not (each.binds | each.uses) & secret]
    source = "\n".join(ast.unparse(node) for node in shown)
    return ProgramSide(source, tuple(ast.unparse(call) for call in kept), tuple(taker.arguments))


class _ArgumentTaker(ast.NodeTransformer):
    """Replaces arguments that are made from secret names."""

    def __init__(self, secret: set[str]) -> None:
        self._secret = secret
        self.arguments: list[str] = []

    def visit_Call(self, node: ast.Call) -> ast.AST:
        node.args = [self._taken(argument) for argument in node.args]
        for keyword in node.keywords:
            keyword.value = self._taken(keyword.value)
        node.func = self.visit(node.func)
        return node

    def _taken(self, argument: ast.expr) -> ast.expr:
        if isinstance(argument, ast.Starred) or not _names(argument) & self._secret:
            return argument
        self.arguments.append(ast.unparse(argument))
        return ast.Name(f"_given_{len(self.arguments) - 1}", ast.Load())


def _statement(node: ast.stmt) -> _Statement:
    """What a statement binds or changes (`root.left = x` changes root), and which names it uses."""
    binds = bound_by(node)
    for part in ast.walk(node):
        if isinstance(part, (ast.Attribute, ast.Subscript)) and isinstance(part.ctx, ast.Store):
            binds |= _names(part.value)
    return _Statement(node, frozenset(binds), frozenset(_names(node) - binds))


def _closure(names: set[str], statements: list[_Statement]) -> set[str]:
    """The names of the setup among these, and all names of the setup that those are made of."""
    bound = {name for each in statements for name in each.binds if not _is_harmless(each)}
    found: set[str] = set()
    waiting = names & bound
    while waiting:
        found |= waiting
        used = {name for each in statements if each.binds & waiting for name in each.uses}
        waiting = (used & bound) - found
    return found


def _is_harmless(statement: _Statement) -> bool:
    match statement.node:
        case ast.Import() | ast.ImportFrom():
            return True
        case ast.Assign(value=ast.Constant()):
            return not any(_EXPECTED.search(name) for name in statement.binds)
    return False


def _names(tree: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(tree) if isinstance(part, ast.Name)}
