/* Real objects for the tests of stock functions: an object as a stock_image, and blocks for its functions. */
#ifndef TEST_UNIT_STOCK_REAL_H
#define TEST_UNIT_STOCK_REAL_H

#include <libelf.h>

#include "arch/generic/isa/block.h"
#include "host/stock/stock.h"

#define REAL_DATA_MAX (64u << 20) /* bytes behind the last section that may be data without bytes */
#define REAL_SECTIONS 64

struct real {
	int fd;
	Elf *elf;
	uint64_t end; /* behind the last section, ELF address */
	struct stock_section sections[REAL_SECTIONS];
	struct stock_image image;
	const struct isa_block_cpu *cpu;
	struct stock_block *blocks; /* one for each FDE whose first instructions have room for a jump */
	size_t count;
};

/* An object for x86-64.  False: there is no such file here, or it is of another CPU. */
bool real_open(struct real *real, const char *path);
/* The same for EM_X86_64 or EM_RISCV. */
bool real_open_of(struct real *real, const char *path, uint16_t machine);
void real_close(struct real *real);

#endif
