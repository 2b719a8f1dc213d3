"""`doctor explain`: a code, a section, a form or a text, to what is known about it."""
