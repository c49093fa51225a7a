"""Slow, obvious versions of the models, written from the papers' equations and from nothing else.

They import nothing of warplens, work on one machine at a time in plain Python,
and keep the papers' order of operations.
"""
