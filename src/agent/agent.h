/*
 * The agent's one context struct, and what its files offer each other.
 *
 * The agent is the shared object that lives in a target: it reports what is
 * mapped, writes what it is handed, and keeps the probes' memory.  Context:
 * control, but for the few functions that say otherwise.  It links nothing,
 * calls no libc function but dlsym() in its constructor, and never ends,
 * aborts or signals the program.
 */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

#include <calltap/abi/control.h>
#include <patch/poke.h>
#include <patch/sites.h>
#include <probe/thread.h>

#define AGENT_NAME_MAX	100   /* of the session's socket */
#define AGENT_READY_MS	20000 /* longest that the program waits for the tool at its start or in dlopen */
#define AGENT_CHILD_MS	1000  /* the same in a forked child, which has nothing to be patched */
#define AGENT_OWN_STACK (64ul << 10)

/* Sites that were switched on, to switch them off: an address, bit 63 set for one of length 2. */
struct agent_sites {
	uint64_t lo, hi; /* the stubs that they lead to */
	uint64_t *packed;
	uint32_t count;
};

/*
 * Patching fresh text and walking the link map are safe only while the thread
 * that asked for it is held in the constructor or in dlopen.  It lets go by
 * itself after AGENT_READY_MS; what comes later is refused.
 */
enum agent_hold {
	AGENT_FREE, /* nobody is held */
	AGENT_HELD,
	AGENT_BUSY, /* held, and the control thread is at it: it will not be long */
};

struct agent {
	char session[AGENT_NAME_MAX]; /* abstract socket name without its leading NUL; "" = not under a tool */
	uint64_t image_id;
	void *stack; /* the control thread's */
	int socket;  /* in the control thread's own descriptor table */
	struct patch_poker poker;
	uint32_t forked;    /* this process is a fork of a traced one */
	uint32_t ready;	    /* futex word, counted up: whoever waits for the tool may go on */
	uint32_t hold;	    /* futex word, enum agent_hold */
	uint32_t live;	    /* 1 while a control thread serves this process */
	uint32_t no_dlhook; /* dlopen cannot be followed */
	uint32_t dlhook_tried;
	int exit_status;       /* of the control thread: counts when it is the process' last */
	uint64_t objects_seen; /* digest of the link map at the last report */
	struct agent_sites sites[PROBE_REGIONS];
	uint32_t sites_count;
	int (*next_find_object)(void *pc, void *result);
	int (*next_iterate)(int (*callback)(struct dl_phdr_info *, size_t, void *), void *data);
	int (*next_setname)(uint64_t thread, const char *name);
	int (*next_prctl)(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);
};
extern struct agent agent __attribute__((visibility("hidden")));

/* control.c: start the control thread and wait for it, bounded; the program's thread, signals blocked. */
void agent_control_start(void);
/* Hold the calling thread until `ready` is no longer `seen`, or bound_ms are over. */
void agent_wait_ready(uint32_t seen, uint32_t bound_ms);
/* True while somebody is held, who stays held until agent_hold_end(). */
bool agent_hold_begin(void) __attribute__((warn_unused_result));
void agent_hold_end(void);

/* control_plan.c: the answer to a PLAN that is not carried out. */
void agent_plan_refuse(const struct calltap_msg_plan *plan, int error, struct calltap_msg_plan_done *done);
/* Apply a PLAN whose sites are in fd; done is the answer. */
void agent_plan_apply(const struct calltap_msg_plan *plan, int fd, struct calltap_msg_plan_done *done);
/* Switch every site off; the text goes on as if untraced. */
void agent_sites_off(void);

/* memory.c */
int agent_memory_init(void) __attribute__((warn_unused_result)); /* once per image */
int agent_arena_add(int fd, uint64_t size) __attribute__((warn_unused_result));
/* Wake every writer that waits for a reader that is gone. */
void agent_wake_writers(void);

/* objects.c */
int agent_objects_send(void) __attribute__((warn_unused_result)); /* OBJECT ... OBJECTS_END */
void agent_dlhook_install(void);

/* unwind.c: find the functions that it stands in front of. */
void agent_unwind_init(void);
/* names.c: likewise. */
void agent_names_init(void);

/* channel.c: one message; 0 or -errno.  fds: up to `max` descriptors that came along, -1 for none. */
int agent_send(const void *message, uint32_t size) __attribute__((warn_unused_result));
int agent_receive(void *message, uint32_t size, int *fds, unsigned max) __attribute__((warn_unused_result));
int agent_connect(void) __attribute__((warn_unused_result));

#endif
