"""Benchmarks: one operation each, a baseline in the same run. `make bench` runs them all."""
