"""Names for arrays, so that signatures stay short."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]  # activations and caches: float32, float16 or bfloat16, C-contiguous
IntArray: TypeAlias = npt.NDArray[np.int32]  # tokens, rows, columns, cumulative lengths
F32: TypeAlias = npt.NDArray[np.float32]
F64: TypeAlias = npt.NDArray[np.float64]
