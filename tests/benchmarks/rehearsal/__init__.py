"""The parts of `tests/benchmarks/rehearse.py`: made-up inputs, random models, and figures."""
