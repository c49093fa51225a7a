"""Fuzzers of every kind of input: `make fuzz HOURS=2` for long runs, a short seeded one in the tests."""
