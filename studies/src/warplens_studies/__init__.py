"""Validation against measurements and simulators, and the papers' figures and tables recomputed."""
