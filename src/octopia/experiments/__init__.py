"""Experiments of the paper, one file each."""
