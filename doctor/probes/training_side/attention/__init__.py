"""The trials of attention: torch's backends and transformers' implementations."""
