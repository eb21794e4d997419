"""`python boot.py SPEC ARGS...`: pytest in a fresh interpreter under an import overlay.

Run as a script, never imported: so not even this package's own modules are loaded before the overlay stands.
SPEC is a JSON file: {"texts": {path: source}, "sys_path": [...], "mutant": id}.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from typing import Any

NAME = "_teachkv_mutate_overlay"


def load_overlay(spec: dict[str, Any]) -> Any:
    """The sibling overlay.py as a module of its own name, with the installed finder in `FINDER`."""
    place = os.path.join(os.path.dirname(os.path.abspath(__file__)), "overlay.py")
    found = importlib.util.spec_from_file_location(NAME, place)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[NAME] = module
    found.loader.exec_module(module)
    finder = module.OverlayFinder(spec["texts"])
    finder.install()
    module.__dict__.update(FINDER=finder, SPEC=spec)
    return finder


def guard_rewriting(finder: Any) -> None:
    """pytest puts its assertion rewriting in front of the finder; it must leave the overlaid files alone."""
    from _pytest.assertion.rewrite import AssertionRewritingHook

    ask = AssertionRewritingHook.find_spec

    def find_spec(self: Any, name: str, path: Any = None, target: Any = None) -> Any:
        return finder.find_spec(name, path, target) or ask(self, name, path, target)

    AssertionRewritingHook.find_spec = find_spec  # type: ignore[method-assign]


def main() -> int:
    with open(sys.argv[1], encoding="utf-8") as file:
        spec = json.load(file)
    if spec.get("once"):  # whoever wrote the file has become this process and cannot clear it away
        os.unlink(sys.argv[1])
        os.rmdir(os.path.dirname(sys.argv[1]))
    sys.path[:] = spec["sys_path"]
    guard_rewriting(load_overlay(spec))
    import pytest

    sys.argv[:] = ["pytest", *sys.argv[2:]]
    try:
        return int(pytest.main(sys.argv[1:]))
    finally:
        if "pipe" in spec:
            tell_not_collected(spec)


def tell_not_collected(spec: dict[str, Any]) -> None:
    """A child with a task leaves from inside pytest; coming back here means that its tests could not be collected."""
    task = spec["task"]
    answer = {"id": task["id"], "nonce": task["nonce"], "stage": "collect", "applied": True, "tests": []}
    body = json.dumps(answer).encode()
    os.write(spec["pipe"], b"%d\n" % len(body) + body)


if __name__ == "__main__":
    sys.exit(main())
