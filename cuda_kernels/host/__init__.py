"""Runs raw_kernel.cu on a CPU: for tiny shapes, tests, mutants and stepping. Never a silent fallback for speed."""
