"""Either side dies, stops or talks nonsense, at random moments."""

CASES = {}
SINGLE = {}
