"""Curves of metrics: from text, from JSON, CSV and TensorBoard files."""
