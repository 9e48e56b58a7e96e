"""Brokers that die and links that break under `fdr`, at any moment: what is counted is what is missed, not speed."""

from benchmarks.deadsets.command import main

__all__ = ["main"]
