"""The newcomer's page: what its commands name is there, and the change it proposes is one of the code as it is."""

from __future__ import annotations

import re
from pathlib import Path

from cuda_kernels.registry import OPS
from teachkv.mutate.registry import Registry
from teachkv.mutate.settings import read_settings
from tools import exercise_pages, guard_pages

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "first-hour.md").read_text(encoding="utf-8")
COMMANDS = [line.strip() for line in PAGE.splitlines() if line.startswith("    ") and "(" not in line]


def test_make_targets_exist() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    asked = [line.split()[1] for line in COMMANDS if line.startswith("make ")]
    assert asked
    assert set(asked) <= set(targets)


def test_mutants_exercises_and_operations_exist() -> None:
    settings = read_settings(ROOT)
    registry, text = Registry.load(settings), "\n".join(COMMANDS)
    mutants = re.findall(r"--mutate-(?:show|with)=(\S+)", text)
    assert len(mutants) == 2
    assert set(mutants) <= set(registry.mutants)
    (exercise,) = re.findall(r"--exercise (\S+)", text)
    assert settings.exercises is not None
    assert (settings.exercises / "catalogue" / exercise).is_dir() or (settings.exercises / exercise).is_dir()
    assert set(re.findall(r"kernel_picture (\S+)", text)) <= set(OPS)
    assert all((ROOT / path).exists() for path in re.findall(r"tests/\S+", text))


def test_the_change_of_the_kernel_fits_its_code_once() -> None:
    ((old, new, path),) = re.findall(r"sed -i\.bak 's\|(.+?)\|(.+?)\|' (\S+)", "\n".join(COMMANDS))
    text = (ROOT / path).read_text(encoding="utf-8")
    assert text.count(old) == 1
    assert new not in text


def test_commands_can_be_pasted_where_no_environment_is_active() -> None:
    """Lines of code blocks on the pages, in the lessons and in CONTRIBUTING begin with the environment's own pytest."""
    registry = Registry.load(read_settings(ROOT))
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "notebooks" / "src").glob("*.py")]
    texts += [path.read_text(encoding="utf-8") for path in [ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]]
    texts += [text for _, text in guard_pages.pages(registry, {})]
    texts += [text for _, text in exercise_pages.pages(registry, read_settings(ROOT))]
    command = re.compile(r"#? *(pytest --|teachkv (bench|generate|chat|pull|trace|inspect|doctor)\b)")
    bare = [line for text in texts for line in text.splitlines() if command.match(line)]
    assert bare == []
