"""Units, errors, base records and atomic writes, used by every package."""
