"""The parts of ``benchmarks/kernels.py``."""
