"""Several nodes: a node in a few kilobytes, and the comparison of many."""
