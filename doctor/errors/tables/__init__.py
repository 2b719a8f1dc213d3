"""The rows, one module per subject. Importing one imports no other: `doctor.errors.causes` has all
of them, `doctor.errors.match` imports those that a text may be in."""
