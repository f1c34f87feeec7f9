"""Control that does not return the way it came: longjmp, contexts, coroutines, other stacks, signals."""

CASES = {}
SINGLE = {}
