"""Code lines per file, without blank lines, comments and docstrings; the README states the total and this checks it.

python tools/size_report.py                     print the table
python tools/size_report.py --check README.md   ... and compare the README's total, to 2 %
python tools/size_report.py --write README.md   ... and correct it
"""

import argparse
import ast
import re
import sys
import tokenize
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COUNTED = ("teachkv", "cuda_kernels")
C_SUFFIXES = {".cu", ".cuh", ".cpp", ".h"}
STATED = re.compile(r"\*\*([\d,]+) lines of code\*\*")
NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def docstring_lines(source: str) -> set[int]:
    """Numbers of the lines that hold docstrings of the module, its classes and functions."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            lines.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines


def python_code_lines(source: str) -> int:
    """Lines of `source` that hold a token other than a comment or a docstring."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(StringIO(source).readline):
        if token.type not in NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstring_lines(source))


def c_code_lines(source: str) -> int:
    """Lines of C or CUDA `source` left after comments are cut out; strings that hold comment marks stay whole."""
    pattern = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
    bare = pattern.sub(lambda m: m.group(1) or "\n" * m.group(0).count("\n"), source)
    return sum(1 for line in bare.splitlines() if line.strip())


def counted_files(root: Path) -> Iterator[tuple[Path, int]]:
    """Each source file of the packages with its number of code lines, in order of path."""
    for package in COUNTED:
        for path in sorted((root / package).rglob("*")):
            if path.suffix == ".py":
                yield path, python_code_lines(path.read_text(encoding="utf-8"))
            elif path.suffix in C_SUFFIXES:
                yield path, c_code_lines(path.read_text(encoding="utf-8"))


def stated_total(readme: str) -> int | None:
    """The total that the README states, or None."""
    found = STATED.search(readme)
    return int(found.group(1).replace(",", "")) if found else None


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Code lines per file, without comments and docstrings.")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--check", type=Path, metavar="README", help="fail unless this file states the total")
    action.add_argument("--write", type=Path, metavar="README", help="put the total into this file")
    options = parser.parse_args(argv)
    total = 0
    for path, count in counted_files(ROOT):
        print(f"{count:6,}  {path.relative_to(ROOT).as_posix()}")
        total += count
    rounded = round(total, -2)
    print(f"{total:6,}  in all")
    if options.write:
        text = options.write.read_text(encoding="utf-8")
        options.write.write_text(STATED.sub(f"**{rounded:,} lines of code**", text), encoding="utf-8")
    if options.check:
        stated = stated_total(options.check.read_text(encoding="utf-8"))
        if stated is None or abs(stated - total) > 0.02 * total:  # a word in a README need not move with every commit
            print(
                f"size report: {options.check} states {stated}, counted {rounded}; "
                f"run: python tools/size_report.py --write {options.check}",
                file=sys.stderr,
            )
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
