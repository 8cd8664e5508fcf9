"""Measurements against openai-harmony and its fork, by ``make bench``.

docs/understand/benchmarks.md has the results.
"""
