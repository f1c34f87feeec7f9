/*
 * aarch64's instructions that depend on their address, for moved.c; x19 leads
 * to the landing, x20 to a word that does.
 */
#define TRAP brk 0
#include "snippets.h"

BEGIN
	.balign 16
cell:	.quad 0x123456789abcdef0, 0x0fedcba987654321

SNIPPET(add x0, x1, x2)
SNIPPET(adr x0, cell)
SNIPPET(adr x30, .)
SNIPPET(adrp x0, cell)
SNIPPET(adrp x3, cell + 0x12345000)
SNIPPET(ldr x0, cell)
SNIPPET(ldr w0, cell)
SNIPPET(ldrsw x0, cell)
SNIPPET(ldr s0, cell; fmov x0, d0)
SNIPPET(ldr d0, cell; fmov x0, d0)
SNIPPET(ldr q0, cell; umov x0, v0.d[1])
SNIPPET(ldr xzr, cell)
SNIPPET(prfm pldl1keep, cell)
SNIPPET(b landing)
SNIPPET(bl landing)
SNIPPET(b.eq landing)
SNIPPET(b.ne landing)
SNIPPET(b.hi landing)
SNIPPET(b.lt landing)
SNIPPET(b.al landing)
SNIPPET(cbz w0, landing)
SNIPPET(cbz x1, landing)
SNIPPET(cbnz x1, landing)
SNIPPET(tbz x1, 0, landing)
SNIPPET(tbnz w1, 0, landing)
SNIPPET(tbnz x2, 33, landing)
SNIPPET(br x19)
SNIPPET(blr x19)
SNIPPET(ret x19)
END
