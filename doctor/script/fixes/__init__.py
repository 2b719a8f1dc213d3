"""Fixes: edits by position in a file's own bytes; nothing is printed anew from the tree."""
