"""What a kernel may be compiled with and launched with: flags, and the limits of grid, block and shared memory."""

from __future__ import annotations

Size = tuple[int, int, int]
GRID_LIMIT = (2**31 - 1, 65535, 65535)
BLOCK_LIMIT = 1024
SHARED_LIMIT = {
    75: 64,
    80: 163,
    86: 99,
    87: 163,
    89: 99,
    90: 227,
    100: 227,
    103: 227,
    120: 99,
    121: 99,
}  # KiB per block
EARLY_ARCH = 90  # programmatic dependent launch
FLAGS = ("-std=c++17",)  # never fast math: -inf and NaN carry meaning in softmax and sampling


def check_shape(name: str, grid: Size, block: Size, shared: int, arch: int) -> None:
    """Refuse what the hardware would refuse, with the numbers. Raises ValueError."""
    # guard[grid-limit]: y and z end at 65535; some stacks then launch nothing and say nothing
    # origin: Dao-AILab/flash-attention#1786
    # mutant[grid-limit/unchecked]:
    #   - if any(g > limit for g, limit in zip(grid, GRID_LIMIT, strict=True)):
    #   + if False:
    if any(g > limit for g, limit in zip(grid, GRID_LIMIT, strict=True)):
        raise ValueError(f"{name}: grid {grid} is larger than {GRID_LIMIT}; put the long axis on x")
    threads = block[0] * block[1] * block[2]
    if not 0 < threads <= BLOCK_LIMIT:
        raise ValueError(f"{name}: {threads} threads per block, the limit is {BLOCK_LIMIT}")
    if shared > SHARED_LIMIT[arch] * 1024:
        raise ValueError(
            f"{name}: {shared} bytes of shared memory, sm_{arch} has {SHARED_LIMIT[arch] * 1024} per block"
        )
