"""The plugin on somebody else's package, as its users would have it: installed by entry point, run from its folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOREIGN = Path(__file__).parent / "foreign"


def test_a_ten_line_package_with_cards_works_from_its_own_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "--mutate", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'b'}"]
    done = subprocess.run(command, cwd=FOREIGN, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 mutants of 1 guard: 1 killed, 1 survived (1 decoy); all cards hold" in done.stdout
