"""`doctor lint`: what is asked for, to files, hits, fixes and a report."""
