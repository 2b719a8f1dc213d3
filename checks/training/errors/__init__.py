"""Errors that the user's code raises: what was observed at the call, in words, and the remedies.

`explain` computes a remedy from the arguments of the call or from what else was observed; where
nothing was, the rows of `doctor.errors` that have the message speak.
"""
