"""Measurements against openai-harmony and its fork: ``make bench``; see docs/benchmarks.md."""
