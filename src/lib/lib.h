/*
 * The inside of libcalltap.so: declarations that its files share.
 *
 * The library lives in a program of somebody else's, so: no threads, no signals, no descriptor without close-on-exec,
 * no child that a wait() of the program's would see, nothing that holds a lock while the program's code runs.  Context:
 * the program's threads, but for shim.c, which the agent's dispatcher calls.
 */
#ifndef LIB_LIB_H
#define LIB_LIB_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/stat.h>

#include <calltap/abi/handlers.h>
#include <calltap/calltap.h>

#define LIB_PUBLIC __attribute__((visibility("default")))

/* ---- shim.c: around handlers that may use all of libc ---- */

/* A slot's handlers; with GENERAL_REGS they are in the slot itself. */
struct lib_handler {
	int (*entry)(struct calltap_call *call, void *context);
	void (*exit)(struct calltap_call *call, void *context);
	void *context;
	const struct calltap_handler *slot;
};

/* The dispatcher calls these; context is a struct lib_handler. */
int shim_entry(struct calltap_call *call, void *context);
void shim_exit(struct calltap_call *call, void *context);
/* True if the calling thread is in a handler that a shim has called. */
bool shim_is_running(void);

/* ---- the agent's, for mark.c; without an agent, its address is 0 ---- */

extern void calltap_agent_mark(const char *text) __attribute__((weak, visibility("default")));

/* ---- state.c ---- */

/* The slots, and what the shims need of them.  Never freed; a forked child has a copy of its own. */
struct lib_table {
	struct calltap_handlers handlers;
	struct lib_handler shims[CALLTAP_HANDLERS_MAX];
};

/* State of this process alone: a forked child finds zeros. */
struct lib_own {
	pthread_mutex_t lock;
	int cancel; /* cancelability of the thread that holds the lock */
	pid_t pid;
	struct link *link; /* the link that a new session may share, NULL = none */
	uint32_t used;	   /* slots that are taken, by bit */
	uint32_t retired;  /* slots of `used` whose tool has ended */
};

/*
 * Begin a call that may change something: `lock` is held for *own and *table, and the thread cannot be cancelled.
 * -EDEADLK: in a handler, -ECHILD: in a child that has its parent's memory, -ENOMEM.
 */
int lib_enter(struct lib_own **own, struct lib_table **table, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
void lib_leave(struct lib_own *own);

/* ---- spawn.c ---- */

/* A tool that was started. */
struct tool {
	int fd; /* stream socket: the tool speaks on it, and ends when its other end is closed */
	pid_t pid;
};

/*
 * Start the tool with words (NULL at the end), the first of which is its verb; "3" is the descriptor that it is to
 * answer on. path: NULL = look for it. tracer: the tool will use ptrace on this process.
 */
int tool_start(struct tool *tool, const char *path, const char *const *words, bool tracer, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* Wait for the tool's "ready"; any other line of it is the error. */
int tool_await(const struct tool *tool, uint32_t timeout_ms, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* Ask the tool to end, and wait until it has, timeout_ms at the most. */
void tool_end(struct tool *tool, uint32_t timeout_ms);
/* Move a descriptor to a number that a program will hardly expect to be free; on error, the old one. */
int lib_move_fd(int fd);

/* ---- find.c ---- */

/* The command that belongs to this library, or the one in PATH; the caller frees *path. */
int tool_find(char **path, const char *wanted, struct calltap_diag *diag) __attribute__((warn_unused_result));

/* ---- link.c: the connection to the tool ---- */

struct link {
	unsigned users;
	bool lost; /* the tool has ended */
	int socket;
	ino_t socket_id;
	struct tool tool; /* fd -1: another has started the tool */
	ino_t tool_id;
	uint32_t timeout_ms;
};

/* Call all of these with lib_own.lock held. */
int link_open(struct link **out, const struct calltap_session_options *options, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* True if the tool is still there. */
bool link_is_alive(struct link *link);
/* -ENOTCONN, with a sentence: the tool has ended. */
int link_check(struct link *link, struct calltap_diag *diag) __attribute__((warn_unused_result));
void link_close(struct link *link);
/* Free the link in a forked child, without a word to the tool. */
void link_forget(struct link *link);
/* Ask the tool; *functions is from its answer. -ENOTCONN: the tool has ended. */
struct remote_handlers;
int link_ask(struct link *link, const struct remote_handlers *handlers, uint64_t *functions, struct calltap_diag *diag)
	__attribute__((warn_unused_result));

/* ---- session.c, ops.c ---- */

struct calltap_session {
	pid_t pid;
	struct link *link;
	struct calltap_ops *ops; /* a list */
};

struct calltap_ops {
	struct calltap_ops *next;
	struct calltap_session *session;
	struct lib_table *table;
	pid_t pid;
	unsigned slot;
	uint32_t flags;
	bool exits;
	uint64_t functions;
};

/* Unregister with the lock held; 0 and -ENOTCONN: ops is freed. */
int ops_end(struct lib_own *own, struct calltap_ops *ops) __attribute__((warn_unused_result));

#endif
