"""Healthy and faulty runs under the guard: python -m benchmarks.guard_runs [clean|faults|NAME...].

Healthy runs take 300 steps (STEPS) and must raise no alarm; a faulty run must raise its code. Each
run has a process of its own, so that the whole takes some minutes; it is run by hand. A theme is a
module with the tables CLEAN, functions, and FAULTS, pairs of a code and a function.
"""
