"""A simulated installation: one seed decides the time, the order of threads, faults, and what everybody does."""
