"""`doctor fleet`: one doctor on each node, and one report at rank 0."""
