"""What of raw kernels is Python: their text, launch and compilation. Loads CuPy only when asked."""
