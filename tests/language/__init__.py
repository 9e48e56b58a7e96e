"""Tests of the language package; each file is about the module it is named for."""
