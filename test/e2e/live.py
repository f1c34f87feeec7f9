"""Functions traced and untraced while the program runs."""

CASES = {}
SINGLE = {}
