"""Directories of several files: shards, DCP, DeepSpeed, and the files beside the weights."""
