"""Readers of what a training wrote: logs, metrics and dumps, as facts."""
