"""Probes that run under the training interpreter: standard library and torch, Python 3.9 syntax."""
