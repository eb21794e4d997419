"""The decode step in fewer, longer kernels: raw only, for few tokens. Same bits as the operations they join."""
