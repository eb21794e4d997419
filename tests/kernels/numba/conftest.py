"""Kernels run in the stepper unless TEACHKV_NUMBA_RUNNER says otherwise; poison stays on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

pytest.importorskip("numba.cuda", reason="the Numba telling needs numba and numba-cuda (extra 'simulator')")
