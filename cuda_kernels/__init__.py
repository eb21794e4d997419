"""Handwritten kernels: each operation in a folder of its own, told three times with one signature.

`spec.py` is the meaning in NumPy, `numba_kernel.py` the readable kernel, `raw_kernel.cu` the fast one.
`registry` is the only way in. Nothing here imports teachkv.
"""
