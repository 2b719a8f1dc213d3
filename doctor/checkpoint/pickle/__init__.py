"""Reading pickles as inert nodes: nothing is imported, called or compared."""
