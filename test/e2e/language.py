"""C++, C and calling conventions: exceptions, cancellation, tail calls, odd signatures, and what runs before and after main."""

CASES = {}
SINGLE = {}
