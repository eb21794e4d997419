"""Everything about raw kernels that is Python: their text, their launch, their compilation. Loads CuPy only when asked."""
