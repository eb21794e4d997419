"""The nvrtc lane: no device and no test. It finds mutants that do not compile, and those that are the same kernel.

`[tool.teachkv-mutate] kernel_check` names a function `package.module:name` that takes a file's name in its package and
another text, and yields for each way of compiling it whether the compiled form differs.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterable, Iterator

from teachkv.mutate.cards import Mutant
from teachkv.mutate.errors import MutateError
from teachkv.mutate.listing import diff_lines
from teachkv.mutate.registry import Registry, relative
from teachkv.mutate.report import Report
from teachkv.mutate.settings import Settings
from teachkv.mutate.standins import name_in_package
from teachkv.mutate.verdicts import Controls, MutantResult, Verdict

Check = Callable[[str, str], Iterable[bool]]


def run_ptx_lane(registry: Registry, settings: Settings, mutants: list[Mutant]) -> Report:
    """A report with `compiles`, `no-change` or `compile-error` for each mutant."""
    check = _find(settings.kernel_check)
    controls = Controls()
    _hold_controls(registry, settings, mutants, check, controls)
    begun = time.monotonic()
    results = [] if controls.failed else [_judge(registry, settings, mutant, check) for mutant in mutants]
    return Report(results, controls, mutant_seconds=time.monotonic() - begun)


def _find(name: str) -> Check:
    module, _, function = name.partition(":")
    if not function:
        raise MutateError("--mutate-lane=nvrtc: set [tool.teachkv-mutate] kernel_check = 'package.module:function'")
    found: Check = getattr(importlib.import_module(module), function)
    return found


def _hold_controls(
    registry: Registry, settings: Settings, mutants: list[Mutant], check: Check, controls: Controls
) -> None:
    """The text as it is must not differ from itself, and one that is no C++ must not compile."""
    path = mutants[0].path
    name, text = name_in_package(path, settings), registry.file(path).text
    try:
        if next(iter(check(name, text)), True):
            controls.failed.append(f"{name} as it is compiles to something else, or no build holds it")
        controls.noop = 1
    except RuntimeError as error:
        raise MutateError(f"--mutate-lane=nvrtc: {str(error).splitlines()[0]}") from error
    try:
        next(iter(check(name, text + "\n#error canary\n")), None)
        controls.failed.append("the nvrtc canary, an #error, compiled")
    except RuntimeError:
        controls.canary = "nvrtc"


def _judge(registry: Registry, settings: Settings, mutant: Mutant, check: Check) -> MutantResult:
    span, begun = registry.span(mutant), time.monotonic()
    result = MutantResult(
        mutant.id, Verdict.NO_CHANGE, relative(registry.root, mutant.path), span.first, span.last,
        "\n".join(mutant.new), lane="nvrtc", decoy=mutant.words.decoy, unpaired=mutant.words.unpaired,
        diff="\n".join(diff_lines(registry, mutant)),
    )  # fmt: skip
    builds = 0
    try:
        for differs in _differences(registry, settings, mutant, check):
            builds += 1
            if differs:
                result.verdict = Verdict.COMPILES
                break
        result.text = f"{builds} builds tried" if builds else "no build holds this file"
        if not builds:
            result.verdict = Verdict.UNEXERCISED
    except RuntimeError as error:
        result.verdict, result.text = Verdict.COMPILE_ERROR, str(error)[:500]
    result.seconds = time.monotonic() - begun
    return result


def _differences(registry: Registry, settings: Settings, mutant: Mutant, check: Check) -> Iterator[bool]:
    for path, text in registry.rewrite(registry.with_partner(mutant)).items():
        yield from check(name_in_package(path, settings), text)
