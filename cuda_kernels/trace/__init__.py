"""Who reads and writes what: one kernel call, block by block and thread by thread, without a GPU.

trace = trace_kernel("attention_decode_ragged", arguments, telling="numba")
print(as_text(trace))                 which columns each group of threads touched
print(order_text(trace))              how far apart neighbouring threads touch memory
as_svg(trace, "k_cache")              the same as a picture; the dead prefix is grey
trace.to_dict()                       plain data, ready for JSON
"""

from cuda_kernels.trace.order import Order, order_of, order_text
from cuda_kernels.trace.picture import as_svg
from cuda_kernels.trace.record import ArrayTrace, KernelTrace, LaunchTrace, LiveRun, Touch
from cuda_kernels.trace.text import as_text
from cuda_kernels.trace.tracing import trace_kernel

__all__ = [
    "ArrayTrace",
    "KernelTrace",
    "LaunchTrace",
    "LiveRun",
    "Order",
    "Touch",
    "as_svg",
    "as_text",
    "order_of",
    "order_text",
    "trace_kernel",
]
