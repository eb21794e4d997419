"""A model's chat template: from a list of messages to the text that the model was trained on."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from teachkv.config.reading import printable
from teachkv.errors import TemplateError
from teachkv.text.continuation import cut_after_final, with_tag
from teachkv.text.sources import TextFiles
from teachkv.text.template_places import find_templates

if TYPE_CHECKING:
    from jinja2 import Template

    from teachkv.text.template_env import Clock, Environment

Message = Mapping[str, Any]
WORDS = 400  # characters of a template's own message


def load_chat_template(files: TextFiles, clock: "Clock" = datetime.now) -> "ChatTemplate | None":
    """The model's template(s), or None if it brought none. Raises TokenizerError if a file that holds one is
    damaged.
    """
    found, place = find_templates(files)
    return ChatTemplate(found, where=f"{files.where}: {place}", clock=clock) if found else None


class ChatTemplate:
    """One template, or several by name ("default", "tool_use", "rag").

    clock: what `strftime_now` asks; give a fixed one where prompts must not change from day to day (a new date also
    makes every cached prefix useless). Templates are compiled when first used, so that a broken one hurts only chats.
    """

    def __init__(
        self, templates: str | Mapping[str, str], *, where: str = "chat template", clock: "Clock" = datetime.now
    ) -> None:
        self.templates = {"default": templates} if isinstance(templates, str) else dict(templates)
        self.where, self.clock = where, clock
        self._compiled: dict[str, Template] = {}
        self._environment: Environment | None = None

    @property
    def source(self) -> str:
        """All templates, one after another."""
        return "\n".join(self.templates.values())

    @property
    def names(self) -> str:
        """The names of all templates as a message shows them: each cut, unprintable ones spelt out."""
        shown = [name[:40] if name.isprintable() else repr(name[:40]) for name in sorted(self.templates)]
        return ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "")

    def choose(self, tools: Sequence[Any] | None = None, name: str | None = None) -> str:
        """Name of the template to use: the one asked for, else "tool_use" if there are tools, else "default"."""
        if name is not None and name not in self.templates:
            raise TemplateError(f"{self.where}: no template named {name!r}; known: {self.names}")
        if name is not None:
            return name
        if tools is not None and "tool_use" in self.templates:
            return "tool_use"
        if "default" not in self.templates:
            raise TemplateError(f"{self.where}: has no template named 'default'; choose one by name: {self.names}")
        return "default"

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = False,
        continue_final_message: bool | str = False,
        tools: Sequence[Mapping[str, Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        name: str | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """The conversation as text.

        continue_final_message: leave the last message open, for the model to go on with; a string names its field if
        that is not "content". tools and documents reach the template as variables, next to `variables` (bos_token and
        so on). The messages are copied: no template can change the caller's.

        Raises TemplateError with the template's own words if it refuses, or when it runs past its limits.
        """
        if not messages:
            raise TemplateError(f"{self.where}: the conversation is empty; give at least one message")
        if continue_final_message and add_generation_prompt:
            raise TemplateError("continue_final_message and add_generation_prompt exclude each other; choose one")
        chosen = self.choose(tools, name)
        chat: list[Any] = _copy(messages)
        final = ""
        if continue_final_message:
            key = continue_final_message if isinstance(continue_final_message, str) else "content"
            final = with_tag(chat, key, self.templates[chosen], self.where)
        values = {"messages": chat, "tools": _copy(tools), "documents": _copy(documents), **(variables or {})}
        text = self._run(chosen, {**values, "add_generation_prompt": add_generation_prompt})
        return cut_after_final(text, final, self.where) if continue_final_message else text

    def _run(self, name: str, values: Mapping[str, Any]) -> str:
        from jinja2.exceptions import SecurityError
        from jinja2.exceptions import TemplateError as JinjaError

        try:
            template = self._template(name)
            assert self._environment is not None
            return self._joined(template, self._environment, values)
        except SecurityError as problem:
            raise TemplateError(f"{self.where}: does what templates may not do: {problem}") from None
        except JinjaError as problem:
            # guard[template-refusal]: a template refuses by raising; that is the user's mistake, and its words say
            # which
            # origin: EricLBuehler/mistral.rs#506
            # mutant[template-refusal/own-words-lost]:
            #   - raise TemplateError(f"{self.where}: {_first_line(problem)}") from None
            #   + raise TemplateError(f"{self.where}: failed") from None
            raise TemplateError(f"{self.where}: {_first_line(problem)}") from None
        except Exception as problem:  # whatever a template does wrong is the template's fault
            raise TemplateError(f"{self.where}: {type(problem).__name__}: {_first_line(problem)}") from None

    def _joined(self, template: "Template", environment: "Environment", values: Mapping[str, Any]) -> str:
        environment.budget.start()
        pieces, length = [], 0
        for piece in template.generate(values):
            pieces.append(piece)
            length += len(piece)
            environment.budget.check_length(length)
            environment.budget.tick()
        return "".join(pieces)

    def _template(self, name: str) -> "Template":
        if self._environment is None:
            from teachkv.text.template_env import Environment

            self._environment = Environment(self.clock)
        if name not in self._compiled:
            self._compiled[name] = self._environment.from_string(self.templates[name])
        return self._compiled[name]


def _copy(value: Any) -> Any:
    """Plain dicts and lists all the way down."""
    if isinstance(value, Mapping):
        return {key: _copy(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_copy(inner) for inner in value]
    return value


def _first_line(problem: Exception) -> str:
    """The words of a template are foreign: cut, and spelt out where they would steer a terminal."""
    return printable((str(problem).strip().splitlines() or [type(problem).__name__])[0], WORDS)
