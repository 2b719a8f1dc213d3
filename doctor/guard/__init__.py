"""Watches a training from inside its process: standard library and the torch already imported."""
