"""The check modules, each with its CHECKS in the order they are judged."""
