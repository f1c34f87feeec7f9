/*
 * Stock functions: which functions of an object that no compiler prepared can be traced, and the blocks that lead them
 * to their stubs.
 *
 * Pure: everything is computed from a view of the object (struct stock_image) and plain numbers.  All of it is
 * untrusted.  doc/design/stock.md has the rules and why they are enough.  Callers: host/elf (the list of sites),
 * host/target (plans).  Context: host.
 */
#ifndef HOST_STOCK_STOCK_H
#define HOST_STOCK_STOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cfi.h"

/* A piece of the file that is mapped when the object is. */
struct stock_section {
	uint64_t address, size; /* ELF address */
	const uint8_t *bytes;
	bool code; /* executable */
	bool plt;  /* a linkage table: none of its entries is a function */
};

/* A function symbol. */
struct stock_symbol {
	uint64_t address;
	uint32_t size;
	bool leave; /* by its name it must not be traced */
	bool twice; /* by its name it returns twice or looks at its caller, so that a function that jumps to it may not
		     * be traced either */
	bool part;  /* by its name it is a part of a function */
	bool led;   /* its head is wanted whatever it does with its return address: it is led elsewhere, not traced */
};

/* What the analysis reads of an object.  All arrays are sorted by address. */
struct stock_image {
	uint16_t machine; /* e_machine */
	bool fixed;	  /* linked for one address, so that addresses lie in its data and code as they are */
	bool loader;	  /* the dynamic loader, some functions of which are called by rules of their own */
	uint64_t lo, hi;  /* what the object takes of the address space, its data without bytes as well */
	const struct stock_section *sections;
	size_t section_count;
	struct cfi_section frames; /* .eh_frame; size 0 = there is none */
	const struct stock_symbol *symbols;
	size_t symbol_count;
	const uint64_t *pointed; /* ELF addresses that relocations or the header lead to (addends, symbols' values, the
				    entry) */
	size_t pointed_count;
	const uint64_t *relocated; /* ELF addresses of the words that relocations or XRay's runtime change */
	size_t relocated_count;
	const uint64_t *
		keepers; /* words (GOT, PLT slots) that lead to a function which returns twice or looks at its caller */
	size_t keeper_count;
};

enum stock_verdict {
	STOCK_OK = 0,
	STOCK_TOO_SHORT,      /* the function and the padding behind it have less room than a jump */
	STOCK_LED_INTO,	      /* a jump leads into the bytes that would be replaced */
	STOCK_FRAGMENT,	      /* a part of a function: its rows, its name, or the jumps to it say so */
	STOCK_RETURN_ADDRESS, /* reads, changes or pops its own return address, or jumps to such a function */
	STOCK_NO_CALLER,      /* there is no return address: a thread's start, a signal trampoline */
	STOCK_NO_ROWS,	      /* by hand, without an entry of the unwind table: nothing tells how it begins */
	STOCK_LEAVE,	      /* its name says so */
	STOCK_UNKNOWN_CODE,   /* an instruction of the head is not known */
	STOCK_CANNOT_MOVE,    /* an instruction of the head cannot be moved */
	STOCK_RELOCATED,      /* the loader changes bytes of the head */
	STOCK_OWN_RULES,      /* its callers put values into registers that stubs change */
	STOCK_VERDICTS
};

#define STOCK_NO_ENTRY UINT32_MAX
/* The room that the block of a head takes, wherever it will lie. */
struct stock_need {
	uint16_t size;	/* bytes of its code; 0: none can be made, leave the function alone */
	uint16_t frame; /* bytes of its entry in the region's unwind table */
	/* Offsets in the object's .eh_frame. STOCK_NO_ENTRY: none tells of the head's instructions. */
	uint32_t entry;	 /* from where on the function's own entry is the next one */
	uint32_t common; /* the CIE of that */
};

/* A function and its head. */
struct stock_function {
	uint64_t address;	/* ELF address of its first byte */
	uint64_t head;		/* ELF address of the bytes to replace: behind a landing pad where one must stay */
	uint32_t size;		/* bytes, by its FDE or symbol */
	uint8_t length;		/* whole instructions that the jump replaces, 15 bytes at the most */
	uint8_t jump;		/* bytes of the jump itself, from head on; a short one leads to an island */
	uint8_t host;		/* length of a head that has an island behind its jump; 0: it cannot */
	uint8_t verdict;	/* enum stock_verdict */
	struct stock_need need; /* of the head without an island: stock_find_needs() */
};

/* Functions sorted by address; for free(). */
struct stock_list {
	struct stock_function *functions;
	size_t count;
};
/* True if the analysis knows the CPU; else it finds nothing. */
bool stock_has_cpu(uint16_t machine);
/*
 * True if a function's callers put values into registers that stubs change, as far as its first path shows, which is in
 * `code`.
 */
typedef bool (*stock_takes_more)(const uint8_t *code, size_t size, uint64_t address);
/* NULL: no such functions are known of the CPU. */
stock_takes_more stock_takes_more_of(uint16_t machine);
int stock_find(struct stock_list *out, const struct stock_image *image) __attribute__((warn_unused_result));
/* Measure the blocks of all functions that have a head. */
int stock_find_needs(struct stock_list *list, const struct stock_image *image) __attribute__((warn_unused_result));

#define STOCK_BLOCKS_HEAD 16 /* CALLTAP_BLOCKS_HEAD (abi/control.h) */

/*
 * Islands: where a CPU's jump does not fit, a short one leads to an island in the text, which leads to the region of
 * blocks (doc/design/stock.md, "Islands").  The island lies in a longer head, its host, behind a short jump of its own.
 */
struct stock_islands {
	uint8_t jump;	/* bytes of the short jump; 0: the CPU has no islands */
	uint8_t host;	/* bytes of a short jump and an island */
	uint64_t reach; /* of the short jump, bytes to either side */
};
struct stock_islands stock_islands_of(uint16_t machine);

/* A chosen function, and where its block lies. */
struct stock_block {
	uint64_t head; /* as in struct stock_function */
	uint8_t length;
	struct stock_need need; /* set by stock_measure() */
	uint32_t offset;	/* of the block in the region, set by stock_place() */
	uint32_t size;		/* room for the block, set by stock_place(); 0: there is none */
	uint64_t island; /* ELF address of the one that the head leads to, may be its own; 0: it leads to the block */
};

/* Where in the region of blocks what lies. */
struct stock_layout {
	uint64_t code_size;   /* of all blocks, and of what islands lead to */
	uint64_t header_off;  /* of the .eh_frame_hdr behind them */
	uint64_t header_size; /* of .eh_frame_hdr and .eh_frame together */
	uint64_t size;	      /* of the region */
};
/*
 * The no-ops that each block begins with, which are its site: how many bytes.  0: the CPU has no blocks.
 */
uint8_t stock_site(const struct stock_image *image, uint8_t bytes[16]);
/*
 * Write the jump at a head, or at a block's start, that leads from `at` to `target`: how many bytes. -ENOTSUP: the CPU
 * has no blocks. -ERANGE: no jump reaches that far.
 */
int stock_lead(uint8_t bytes[16], const struct stock_image *image, uint64_t at, uint64_t target)
	__attribute__((warn_unused_result));

/*
 * Find out what each block takes.  It needs one if all of its head's instructions can be moved to wherever the region
 * may lie.  -ENOTSUP: the CPU has no blocks. -ENOMEM.
 */
int stock_measure(const struct stock_image *image, struct stock_block *blocks, size_t count)
	__attribute__((warn_unused_result));
/*
 * Give each measured block its place, from STOCK_BLOCKS_HEAD on: the bytes before are the agent's.  If heads lead to
 * islands, what these lead to lies there, in front of the blocks.  The blocks are sorted by address.  Sizes do not
 * depend on the region's address.
 * -ENOTSUP: the CPU has no blocks. -E2BIG: the region would be larger than a jump reaches. -ENOMEM.
 */
int stock_place(struct stock_layout *out, const struct stock_image *image, struct stock_block *blocks, size_t count)
	__attribute__((warn_unused_result));
/* Both. */
int stock_layout(struct stock_layout *out, const struct stock_image *image, struct stock_block *blocks, size_t count)
	__attribute__((warn_unused_result));
/*
 * Write the region's bytes (layout->size of them) for a region at `at`, a multiple of 16, of an object whose ELF
 * address 0 lies at `base`.  The other arguments are those of stock_place().  -ERANGE: the region is too far from the
 * object.
 */
int stock_make(uint8_t *out, const struct stock_layout *layout, const struct stock_image *image,
	       const struct stock_block *blocks, size_t count, uint64_t at, uint64_t base)
	__attribute__((warn_unused_result));

/* A region of blocks, as it was made. */
struct stock_region {
	const struct stock_image *image;
	uint64_t at, base; /* as of stock_make() */
};
/*
 * Where a thread that stands at `offset` bytes behind a head's start has to go on in the block, as an offset there: at
 * the head's start at the block's site, else at the instruction's moved form.  False: no instruction begins there.
 */
bool stock_into_block(const struct stock_region *region, const struct stock_block *block, unsigned offset,
		      unsigned *to);
/*
 * The other way round; the jump behind the moved instructions stands for the head's end.  False: the address lies
 * within the site, or within the moved form of one instruction, where part of it is done.
 */
bool stock_out_of_block(const struct stock_region *region, const struct stock_block *block, unsigned offset,
			unsigned *to);

#endif
