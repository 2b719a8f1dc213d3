"""Expressions that raise whenever they are evaluated: names and calls of one file."""
