"""The Jinja environment of chat templates: the reference's, in a sandbox, with limits.

As in `transformers`: immutable sandbox, trim_blocks and lstrip_blocks, loop controls, a generation tag, `tojson`
without HTML or ASCII escaping, `raise_exception`, `strftime_now`. Ours: the clock is an argument, and time and size
are bounded.
"""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import TemplateError as JinjaError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from teachkv.text.template_limits import Budget, check_method, refuse_growth, watched_filter

Clock = Callable[[], datetime]


class Environment(ImmutableSandboxedEnvironment):
    """`budget` is what the running template has left; `render` in chat_template.py renews it."""

    intercepted_binops = frozenset(["*", "**", "%", "+"])

    def __init__(self, clock: Clock) -> None:
        # guard[template-whitespace]: templates are written for trimmed blocks; without it every tag leaves its line
        # break
        # origin: smg-project/smg#685
        # mutant[template-whitespace/no-lstrip]:
        #   - super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
        #   + super().__init__(trim_blocks=True, lstrip_blocks=False, extensions=[Generation, loopcontrols])
        # mutant[template-whitespace/no-trim]:
        #   - super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
        #   + super().__init__(trim_blocks=False, lstrip_blocks=True, extensions=[Generation, loopcontrols])
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
        self.budget = Budget()
        self.clock = clock
        self.filters["tojson"] = to_json
        self.globals["raise_exception"] = raise_exception
        self.globals["strftime_now"] = self._strftime_now
        del self.globals["lipsum"]
        for name, plain in list(self.filters.items()):
            self.filters[name] = watched_filter(name, plain)

    def _strftime_now(self, format: str) -> str:
        return self.clock().strftime(format)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        # guard[template-limits]: a loop without output would hang the engine, a doubling string would eat its memory
        # mutant[template-limits/no-ticks]:
        #   - return Watched(self).visit(tree)  # type: ignore[no-any-return]
        #   + return tree
        return Watched(self).visit(tree)  # type: ignore[no-any-return]

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        refuse_growth(operator, left, right)
        return self.budget.sized(super().call_binop(context, operator, left, right))

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805 (as in Jinja)
        __self.budget.tick()
        check_method(__obj, args, kwargs)
        return __self.budget.sized(super().call(__context, __obj, *args, **kwargs))


class Generation(Extension):
    """`{% generation %} ... {% endgeneration %}` marks what an assistant wrote, for training; here it is its
    content.
    """

    tags = {"generation"}  # noqa: RUF012 (Jinja's own declaration)

    def parse(self, parser: Any) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("content"), [], [], body).set_lineno(line)

    def content(self, caller: Callable[[], str]) -> str:
        return caller()

    def tick(self) -> str:
        self.environment.budget.tick()  # type: ignore[attr-defined]
        return ""

    def sized(self, value: Any) -> Any:
        return self.environment.budget.sized(value)  # type: ignore[attr-defined]


class Watched(NodeTransformer):
    """Puts a look at the clock into every loop and macro, and a look at the size around every `~`, list and dict."""

    def __init__(self, environment: Environment) -> None:
        self.watch = environment.extensions[Generation.identifier]

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 (Jinja calls it by this name)
        node.body.insert(0, self._statement("tick"))
        return self.generic_visit(node)

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:  # noqa: N802
        node.body.insert(0, self._statement("tick"))
        return self.generic_visit(node)

    def visit_Concat(self, node: nodes.Expr) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return self.watch.call_method("sized", [node], lineno=node.lineno)

    visit_List = visit_Dict = visit_Concat  # noqa: N815

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return node if node.ctx != "load" else self.watch.call_method("sized", [node], lineno=node.lineno)

    def _statement(self, method: str) -> nodes.Node:
        return nodes.ExprStmt(self.watch.call_method(method))


def to_json(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    """JSON as the reference writes it: no HTML escapes, no ASCII escapes, keys in their order."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message: str) -> None:
    """What a template calls to refuse a conversation."""
    raise JinjaError(message)
