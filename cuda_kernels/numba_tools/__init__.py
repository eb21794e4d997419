"""What Numba kernels share: how they are launched, how they run without a GPU, and the pieces that two ops need.

launch    one way to start a kernel: CuPy arrays on the device, NumPy arrays in the stepper
stepper   runs a kernel as plain Python, thread by thread, and checks every access
memory    the arrays of the stepper: bounds, races, poison, a record of who read and wrote what
words     the few words that mean one thing in Python and on the device: widen, narrow, exp32, bits_of
"""
