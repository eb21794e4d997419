"""The rules of `--mutate-auto`: small changes of one statement, in source order."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

_COMPARE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
}  # fmt: skip
_BLOCKS = ("body", "orelse", "finalbody", "handlers")
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}

Change = Callable[[ast.AST], ast.AST | None]


def variants(statement: ast.stmt) -> Iterator[tuple[str, ast.stmt]]:
    """(rule, changed statement) for each rule at each place where it applies. The body of a block is left alone."""
    if isinstance(statement, (ast.If, ast.While)):
        for name, value in (("true", True), ("false", False)):
            yield name, _with(statement, statement.test, ast.Constant(value))
    elif isinstance(statement, (ast.Expr, ast.Assign, ast.AugAssign, ast.Raise, ast.Assert, ast.Continue, ast.Break)):
        yield "removed", ast.copy_location(ast.Pass(), statement)
    elif isinstance(statement, ast.Return) and statement.value is not None:
        yield "none", ast.copy_location(ast.Return(ast.Constant(None)), statement)
    for node in _expressions(statement):
        for name, rule in RULES.items():
            new = rule(node)
            if new is not None:
                yield name, _with(statement, node, new)


def _expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement, those of a block's body aside."""
    for name, value in ast.iter_fields(statement):
        if name in _BLOCKS:
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.AST):
                yield from (node for node in ast.walk(part) if isinstance(node, ast.expr))


def _with(tree: Any, old: ast.AST, new: ast.AST) -> Any:
    """The tree with `new` in place of `old`, as a copy that shares what did not change; blocks are always shared."""
    if tree is old:
        return ast.copy_location(new, old)
    if isinstance(tree, list):
        return [_with(part, old, new) for part in tree]
    if not isinstance(tree, ast.AST):
        return tree
    block = _BLOCKS if isinstance(tree, ast.stmt) else ()
    fields = {name: value if name in block else _with(value, old, new) for name, value in ast.iter_fields(tree)}
    return ast.copy_location(type(tree)(**fields), tree)


def _compare(node: ast.AST) -> ast.AST | None:
    if not isinstance(node, ast.Compare) or type(node.ops[0]) not in _COMPARE:
        return None
    return ast.Compare(node.left, [_COMPARE[type(node.ops[0])](), *node.ops[1:]], node.comparators)


def _logic(node: ast.AST) -> ast.AST | None:
    if not isinstance(node, ast.BoolOp):
        return None
    return ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)


def _not(node: ast.AST) -> ast.AST | None:
    return node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) else None


def _arithmetic(node: ast.AST) -> ast.AST | None:
    if not isinstance(node, ast.BinOp) or type(node.op) not in _ARITHMETIC:
        return None
    return ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right)


def _constant(node: ast.AST) -> ast.AST | None:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, (bool, int)):
        return None
    return ast.Constant(not node.value if isinstance(node.value, bool) else node.value + 1)


def _name(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Name) and node.id in _NAMES:
        return ast.Name(_NAMES[node.id], node.ctx)
    return None


RULES: dict[str, Change] = {
    "compare": _compare, "logic": _logic, "not": _not, "arithmetic": _arithmetic, "constant": _constant, "name": _name,
}  # fmt: skip
