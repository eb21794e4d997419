"""Parts of tools/device_kernels.py."""
