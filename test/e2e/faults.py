"""System calls of the agent that fail, one by one."""

CASES = {}
SINGLE = {}
