"""What surrounds a program: forks, sandboxes, closed descriptors, tight limits, many threads and libraries."""

CASES = {}
SINGLE = {}
