"""A traced program under other tools: debuggers, profilers, unwinders, sanitizers."""

CASES = {}
SINGLE = {}
