/*
 * riscv64's instructions that depend on their address, for moved.c; s2 leads
 * to the landing, s3 to a word that does.
 */
#define TRAP ebreak
#include "snippets.h"

	.option norelax
BEGIN
	.option rvc
SNIPPET(c.addi a0, 1)
SNIPPET(auipc a0, 0)
SNIPPET(auipc a0, 0x12345)
SNIPPET(c.j landing)
SNIPPET(c.beqz a0, landing)
SNIPPET(c.bnez a0, landing)
SNIPPET(c.jr s2)
SNIPPET(c.jalr s2)
	.option norvc
SNIPPET(auipc zero, 1)
SNIPPET(j landing)
SNIPPET(jal landing)
SNIPPET(jal t0, landing)
SNIPPET(jal s3, landing)
SNIPPET(beq a0, a1, landing)
SNIPPET(bne a0, a1, landing)
SNIPPET(blt a0, a1, landing)
SNIPPET(bge a1, a0, landing)
SNIPPET(bltu a1, a0, landing)
SNIPPET(bgeu a0, a1, landing)
SNIPPET(bltu a0, s2, landing)
SNIPPET(jr s2)
SNIPPET(jalr s2)
SNIPPET(jalr t0, s2)
SNIPPET(jalr s2, s2)
END
