/*
 * The CPUs whose programs can be recorded: how their agent, their emulator and
 * their clock are called.  What their code looks like is host/elf/cpu.h's.
 *
 * Callers: the session's rooms.  Context: host.
 */
#ifndef HOST_SESSION_MACHINE_H
#define HOST_SESSION_MACHINE_H

#include <stdint.h>

struct machine {
	uint16_t id;	      /* EM_* */
	const char *name;     /* the folder of its agent, and for messages */
	const char *triplet;  /* of its compiler, and of its libraries' folder in /usr */
	const char *package;  /* that has these */
	const char *emulator; /* QEMU's for one program */
	const char *clock;    /* the counter that agents read */
};

/* NULL: no program of that ELF machine can be recorded. */
const struct machine *machine_find(uint16_t id);
/* The machine that the tool itself runs on. */
const struct machine *machine_native(void);

#endif
