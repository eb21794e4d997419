"""`teachkv chat`: a conversation with a model. Ctrl-C stops an answer and keeps the session; Ctrl-D ends it.

Commands: /retry answers the last message again, /undo takes the last exchange back, /clear forgets the conversation,
/history prints it. Lines can be edited and recalled where the terminal allows.
"""

import argparse
import contextlib
from dataclasses import dataclass, field
from typing import Any

from teachkv.commands.parsing import Verbs, add_fields, picked, say
from teachkv.commands.status import StatusLines
from teachkv.errors import TeachKVError

EXAMPLES = """examples:
  teachkv chat
  teachkv chat --model smollm2 --system "Answer in one sentence." --temperature 0.7 --seed 1"""


def add(verbs: Verbs) -> None:
    from teachkv.options import EngineOptions
    from teachkv.sample import SamplingParams

    parser = verbs.add_parser("chat", help="talk with a model", description=__doc__, epilog=EXAMPLES)
    parser.add_argument("--model", default="smollm2", help="directory, .gguf file, smollm2 or tiny (%(default)s)")
    parser.add_argument("--system", metavar="TEXT", help="a first message that sets the model's role")
    parser.add_argument("--template", metavar="NAME", help="one of the chat templates that the model brought, by name")
    parser.add_argument("--quiet", action="store_true", help="no status lines on stderr")
    fields = tuple(name for name in SamplingParams.__dataclass_fields__ if name not in ("n", "prompt_logprobs"))
    add_fields(parser.add_argument_group("sampling"), SamplingParams, fields)
    add_fields(parser.add_argument_group("engine"), EngineOptions)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from teachkv.llm import LLM
    from teachkv.options import EngineOptions
    from teachkv.sample import SamplingParams

    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 (gives input() editing and recall)
    params = SamplingParams(**{"max_tokens": 512, **picked(args, SamplingParams)})
    tell = StatusLines(quiet=args.quiet)
    with LLM(args.model, log=tell, **picked(args, EngineOptions)) as llm:
        Session(llm, params, system=args.system, template=args.template, tell=tell).run()
    return 0


@dataclass
class Session:
    """The conversation so far. What fails or is stopped leaves it as it was before, but for the part that was said."""

    llm: Any
    params: Any
    system: str | None = None
    template: str | None = None
    turns: list[dict[str, str]] = field(default_factory=list)
    tell: StatusLines = field(default_factory=StatusLines)

    def run(self) -> None:
        """Read lines until the end of input."""
        say("Ctrl-C stops an answer, Ctrl-D ends; /retry /undo /clear /history")
        while True:
            try:
                line = input("> ")
            except EOFError:
                print()
                return
            except KeyboardInterrupt:
                print("\n(Ctrl-D ends the session)")
                continue
            self.take(line.strip())

    def take(self, line: str) -> None:
        commands = {"/retry": self.retry, "/undo": self.undo, "/clear": self.turns.clear, "/history": self.history}
        if not line:
            return
        if line.startswith("/"):
            commands.get(line, lambda: say(f"no command {line!r}; known: {' '.join(commands)}"))()
            return
        self.turns.append({"role": "user", "content": line})
        self.answer()

    def messages(self) -> list[dict[str, str]]:
        first = [] if self.system is None else [{"role": "system", "content": self.system}]
        return first + self.turns

    def answer(self) -> None:
        """Stream an answer. An error is one line and takes the message back; Ctrl-C keeps what was said so far."""
        said: list[str] = []
        try:
            with self.tell.answers():
                self.print_answer(said)
        except TeachKVError as error:
            say(f"teachkv chat: {error}")
            self.turns.pop()
            return
        self.turns.append({"role": "assistant", "content": "".join(said)})

    def print_answer(self, said: list[str]) -> None:
        """`said` gets the pieces. The line is ended however the answer ends."""
        stream = self.llm.stream(self.llm.chat_prompt(self.messages(), template_name=self.template), self.params)
        try:
            with contextlib.closing(stream):
                for chunk in stream:
                    said.append(chunk.text)
                    print(chunk.text, end="", flush=True)
                    if chunk.output is not None and chunk.output.error is not None:
                        raise chunk.output.error
        except KeyboardInterrupt:
            print(" (stopped)", end="")
        finally:
            print(flush=True)

    def retry(self) -> None:
        if len(self.turns) >= 2:
            self.turns.pop()
            self.answer()

    def undo(self) -> None:
        del self.turns[-2:]

    def history(self) -> None:
        for turn in self.messages():
            print(f"{turn['role']}: {turn['content']}")
