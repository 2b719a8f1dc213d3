"""Readers of logs: text, metrics and flight-recorder dumps -> facts. Nothing read is executed."""
