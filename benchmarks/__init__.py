"""Benchmarks of the engine: development tools that are not part of the installed pack. See README.md in this folder."""
