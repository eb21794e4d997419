"""The command line: one verb per file in teachkv/commands, errors as one line, exit codes as shells expect them.

0 = done; 2 = bad input, and stderr says what, where and what to do; 130 = Ctrl-C; 141 = nobody reads the pipe.
"""

import io
import os
import sys
from collections.abc import Sequence

from teachkv.commands import build_parser
from teachkv.errors import TeachKVError


def main(argv: Sequence[str] | None = None) -> int:
    prepare_streams()
    args = build_parser().parse_args(argv)
    try:
        status: int = args.run(args)
        sys.stdout.flush()
    except TeachKVError as error:
        return complain(args.verb, str(error))
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            return silence_stdout()
        return complain(args.verb, f"{error.filename or 'system'}: {error.strerror or error}")
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    return status


def prepare_streams() -> None:
    """A stream that was closed from outside reads as empty and writes to nowhere; a character that a terminal cannot
    show is shown by its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 (open until the end)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def complain(verb: str, text: str) -> int:
    print(f"teachkv {verb}: {' '.join(text.split())}", file=sys.stderr)
    return 2


def silence_stdout() -> int:
    """The reader has gone: point stdout at nothing, so that the interpreter's own last flush does not complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141


if __name__ == "__main__":
    sys.exit(main())
