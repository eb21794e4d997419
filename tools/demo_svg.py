"""The picture in the README: runs the demo and draws what the terminal showed.

python -m tools.demo_svg docs/assets/demo.svg
"""

import argparse
import re
import subprocess
import sys
import textwrap
from html import escape
from pathlib import Path

COMMAND = [
    *("generate", "--model", "smollm2", "--chat", "--temperature", "0", "--max-tokens", "48"),
    *("Hi!", "Name three primary colours.", "What is a key-value cache? Answer in one sentence."),
    *("--file", "tools/demo/review.txt", "--file", "tools/demo/keeper.txt"),
]
STATUS = re.compile(r"(path|note|engaged): |ready in |\d+ running, |\d+ answers, ")
WIDTH, LINE, LETTER = 104, 19, 8.05


def shown(command: list[str]) -> list[tuple[str, str]]:
    """(kind, line) as a terminal shows them: answers and status lines share one place and keep their order."""
    done = subprocess.run(
        [sys.executable, "-m", "teachkv", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=True,
        encoding="utf-8",
    )
    lines = [("prompt", "$ make demo")]
    for line in done.stdout.splitlines():
        lines += [(kind_of(line), part) for part in textwrap.wrap(line, WIDTH) or [""]]
    return lines


def kind_of(line: str) -> str:
    if re.match(r"\[\d+/\d+\] ", line):
        return "head"
    return "status" if STATUS.match(line) else "text"


def svg(lines: list[tuple[str, str]]) -> str:
    """A terminal window; its text is text, so it can be read aloud and searched."""
    width, height = int(WIDTH * LETTER) + 32, len(lines) * LINE + 52
    rows = [
        f'<text x="16" y="{44 + index * LINE}" class="{kind}" xml:space="preserve">{escape(line)}</text>'
        for index, (kind, line) in enumerate(lines)
    ]
    style = (
        "text{font:13.4px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#d7dde4}"
        ".prompt{fill:#7ee787}.head{fill:#79c0ff}.status{fill:#8b949e}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="make demo: five prompts of very different length answered in one batch">'
        f"<style>{style}</style>"
        f'<rect width="{width}" height="{height}" rx="8" fill="#161b22"/>'
        '<circle cx="20" cy="16" r="5" fill="#ff5f57"/><circle cx="38" cy="16" r="5" fill="#febc2e"/>'
        '<circle cx="56" cy="16" r="5" fill="#28c840"/>' + "".join(rows) + "</svg>\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(svg(shown(COMMAND)), encoding="utf-8")
    print(args.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
