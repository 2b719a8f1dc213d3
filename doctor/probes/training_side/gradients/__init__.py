"""Where the path from a parameter to the loss ends, or its gradient becomes 0, and why."""
