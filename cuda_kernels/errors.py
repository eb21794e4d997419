"""Errors of the kernel package; the engine turns them into its own."""


class KernelUnavailable(RuntimeError):
    """A telling does not exist, or cannot run on this machine. Nothing is replaced in silence."""


class NotInvariant(RuntimeError):
    """Batch invariance is required, and this machine's BLAS does not give it for a shape of the model."""
