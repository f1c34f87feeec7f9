/*
 * Handlers of a program's own (libcalltap.so): tables that the library, the agent in the same process and the tool
 * share.
 *
 * The library keeps a struct calltap_handlers in its memory, writable, for the life of the process.  The tool keeps a
 * table with a struct calltap_handled for each function id in a memfd (MSG_HANDLERS, control.h): it says who wants the
 * calls of the function.  A site whose stub has CALLTAP_SITE_HANDLED goes to the agent's dispatcher, which reads both.
 * The tool writes a function's row before a site leads to such a stub.
 */
#ifndef CALLTAP_ABI_HANDLERS_H
#define CALLTAP_ABI_HANDLERS_H

#include <stdint.h>

#define CALLTAP_HANDLERS_MAGIC 0x6c646e6843u /* "Chndl" */
#define CALLTAP_HANDLERS_MAX   24u	     /* handlers that can be registered at once */
/* Functions that the tool's table has rows for at the most; those with higher ids have no handlers. */
#define CALLTAP_HANDLED_MAX (1u << 22)

/* Bits for the receivers of the function's calls: bit CALLTAP_HANDLED_FIRST + i stands for handlers->slots[i]. */
#define CALLTAP_HANDLED_RECORD	   1u /* the first instance; the next bits are those of its own stub */
#define CALLTAP_HANDLED_FULL_ENTRY 2u
#define CALLTAP_HANDLED_FULL_EXIT  4u
#define CALLTAP_HANDLED_ROOT	   8u
#define CALLTAP_HANDLED_NOTREE	   16u
#define CALLTAP_HANDLED_VALUES	   32u /* the first instance runs programs at the call and its return (program.h) */
#define CALLTAP_HANDLED_INSTANCES  64u /* instances with the rings of set 1 and on, as `instances` says */
#define CALLTAP_HANDLED_CALL                                                                                           \
	128u /* the first instance has the tracer `function`: an entry with its caller, no exit                        \
	      */
#define CALLTAP_HANDLED_FIRST 8u

/* The tool writes a row as one word of 64 bits, little-endian. */
struct calltap_handled {
	uint32_t who;	    /* CALLTAP_HANDLED_* */
	uint16_t start;	    /* bytes from the function's first to where its body goes on behind the site */
	uint16_t instances; /* bit N - 1: that with the rings of set N (INSTANCE, control.h) */
};
/*
 * Roles of a function in further instances that name it, by bits as calltap_handled.instances.  A table of
 * these, in the rows' order, lies behind the rows in the same memory.  The tool writes each as one word.
 */
struct calltap_roles {
	uint16_t roots; /* -g: a tree begins here, where there is none */
	uint16_t hides; /* --no-graph: neither the function is recorded, nor what it calls */
	uint32_t reserved;
};
#define CALLTAP_ROLES_HIDES_AT	     16
#define CALLTAP_HANDLED_START_AT     32
#define CALLTAP_HANDLED_INSTANCES_AT 48

#define CALLTAP_HANDLER_GENERAL_REGS 1u /* the handlers use no vector or x87 registers, which are not saved */
#define CALLTAP_HANDLER_DATA	     2u /* struct calltap_call.data is kept from the entry to the exit */

/* A registered pair of handlers; the library writes it before it tells the tool. */
struct calltap_handler {
	uint64_t entry;	  /* int (*)(struct calltap_call *, void *context), 0 = none; atomic */
	uint64_t exit;	  /* void (*)(struct calltap_call *, void *context), 0 = none; atomic */
	uint64_t context; /* argument of entry and exit */
	uint32_t flags;	  /* CALLTAP_HANDLER_* */
	uint32_t
		fault; /* from the agent: the signal that disabled the handlers (entry and exit are 0 then); 0 = none */
	uint64_t fault_pc, fault_address;
	uint64_t missed; /* from the agent: calls that came while a handler ran on the thread */
	uint64_t born;	 /* calltap_handlers.generation at the registration; not for exits of older frames */
	uint64_t reserved;
};

struct calltap_handlers {
	uint64_t magic;	     /* CALLTAP_HANDLERS_MAGIC */
	uint32_t size;	     /* bytes of the structure */
	uint32_t generation; /* counts registrations; written by the library, atomic */
	struct calltap_handler slots[CALLTAP_HANDLERS_MAX];
};

_Static_assert(sizeof(struct calltap_handled) == 8, "ABI");
_Static_assert(sizeof(struct calltap_roles) == 8, "ABI");
_Static_assert(sizeof(struct calltap_handler) == 72, "ABI");
_Static_assert(CALLTAP_HANDLED_FIRST + CALLTAP_HANDLERS_MAX == 32, "ABI");

#endif
