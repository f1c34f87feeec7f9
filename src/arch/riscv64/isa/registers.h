/*
 * riscv64: which general registers an instruction reads and writes, and its accesses to memory by one of them.
 *
 * Pure; callers: the blocks' maker, the analysis of stock functions.
 */
#ifndef ARCH_RISCV64_ISA_REGISTERS_H
#define ARCH_RISCV64_ISA_REGISTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One bit for each register; the zero register's is never set. */
struct rv_registers {
	uint32_t reads, writes;
};
/* Of an instruction that rv_decode() knows; ecall, and what pushes to a shadow stack, count as if they named none. */
struct rv_registers rv_registers(const uint8_t *code, size_t length);

/* A load or store of a general register, at a distance from another register. */
struct rv_access {
	unsigned base, moved, bytes;
	int64_t offset;
	bool stores;
};
/* False: it is none, or a 16-bit one whose base is not the stack pointer. */
bool rv_access(struct rv_access *access, const uint8_t *code, size_t length);

/*
 * A register whose value means nothing from a function's entry on, for as long as these instructions run: of the
 * temporaries one that no instruction names.  t0 is left out, which predictors take for a return address, and t2, which
 * nested functions take an argument in.  RV_ZERO: there is none.
 */
unsigned rv_free_register(const uint8_t *code, size_t length);

#endif
