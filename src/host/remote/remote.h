/*
 * Talking to a session from another process: `calltap status`, `set`, `snapshot`, `detach` and others; and from its own
 * target, which registers handlers.
 *
 * The tool that owns a session listens on a Unix socket, which is called PID-RANDOM after its target (one with several
 * targets has as many names: hard links) and lies in a folder that only its user can look into:
 * $XDG_RUNTIME_DIR/calltap, else /run/user/UID/calltap, else /tmp/calltap-UID. Each end checks the other's user, and
 * speaks only to its own user and to root.
 *
 * A request is one packet, lines of text: a verb, then key=value each; a snapshot's file comes with it as a descriptor,
 * an instance's as well, and with it a socket for the deeds of its triggers where it has any (host/hook/actor.h).
 * instance=NAME names one of a session's instances.  The answer is packets, the first of which
 * begins with a line "CODE COLUMN SIZE": 0 or -errno, the place of a caret or -1, and how many bytes of text follow in
 * all.
 *
 * Context: host.
 */
#ifndef HOST_REMOTE_REMOTE_H
#define HOST_REMOTE_REMOTE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <calltap/diag.h>
#include <host/setting.h>

/* Facts that `calltap status` tells of a session or of an instance. */
struct remote_status {
	char program[256];
	char output[256];    /* path of the trace file; "" = none (flight recorder) */
	char tracer[32];     /* its name */
	char mode[16];	     /* record_mode_name() */
	char instance[32];   /* its name */
	char instances[512]; /* of a session: names of its further instances, with blanks between */
	char pids[512];	     /* of all targets that were attached to, with blanks between; "" = there is only `pid` */
	uint64_t pid;	     /* of the target */
	uint64_t tool;	     /* the owner's; filled in by the server */
	uint64_t attached;   /* 1: the target ran already */
	uint64_t tracing;    /* 1: on */
	uint64_t processes, threads;
	uint64_t sites;		  /* patched, in all processes that live */
	uint64_t sites_on;	  /* patched sites that are switched on */
	uint64_t serves;	  /* 1: the session is for handlers of the program's own alone, nothing is recorded */
	uint64_t handlers;	  /* handlers that the program has registered */
	uint64_t handled;	  /* functions that handlers are called for */
	uint64_t records, lost;	  /* records: in the file and in the buffers */
	uint64_t counted_ns;	  /* CLOCK_MONOTONIC, when `records` was counted */
	uint64_t untraced;	  /* calls that no thread's buffer or no stack's mirror could take */
	uint64_t file_bytes;	  /* written so far */
	uint64_t longest_stop_ns; /* longest stop of all threads of the process, 0 = there was none */
	uint64_t began_ns;	  /* CLOCK_REALTIME */
};

#define REMOTE_FDS 2 /* descriptors that come with a request at the most */

/* A request for a snapshot. */
struct remote_snapshot {
	int fd;		     /* a file open for writing, which the server closes */
	uint64_t history_ns; /* only records that are younger; 0 = all there is */
	const char *reason;  /* "" = none */
	const char *call;    /* the call that it is taken for, as history_call_print() has it; "" = none */
};

/* The session's answer about a thread that waits in open() of the asker's tree. */
enum remote_catch {
	REMOTE_CATCH_NOT,    /* its process is known, or is no business of the session */
	REMOTE_CATCH_CAUGHT, /* it is to be answered with EINTR, and makes the call again */
	REMOTE_CATCH_COMING, /* it was caught, and its process is about to call in */
};

/*
 * The session's side of the requests. remote_serve() calls these, one at a time: in the caller's thread, or in the
 * server's own after remote_start(), where they may lock the session and wait for its agents. 0, or -errno with a
 * sentence in diag.  FILE: text for the user, may be empty.
 */
struct remote_ops {
	int (*status)(void *context, struct remote_status *status, struct calltap_diag *diag);
	int (*settings)(void *context, FILE *answer, struct calltap_diag *diag); /* by settings_print() */
	/* Make all of the changes, or none. */
	int (*set)(void *context, const struct setting_change *changes, size_t count, struct calltap_diag *diag);
	int (*snapshot)(void *context, const struct remote_snapshot *wish, FILE *answer, struct calltap_diag *diag);
	/* Write a mark into the trace. */
	int (*mark)(void *context, const char *text, struct calltap_diag *diag);
	/* Only asks the session to end; remote_close() answers the one who wanted it. */
	int (*detach)(void *context, struct calltap_diag *diag);
	/* A process, by the kernel's number, wants its functions' calls (host/hook/handlers_ask.c). */
	int (*handlers)(void *context, pid_t asker, const struct setting_change *words, size_t count, FILE *answer,
			struct calltap_diag *diag);
	/* Write the functions that filters may choose to a file, as session/catalog.c has it. */
	int (*functions)(void *context, const struct setting_change *words, size_t count, FILE *out,
			 struct calltap_diag *diag);
	/*
	 * A thread waits in open() of the asker's tree for its answer, and is to write there (session/callers.c).
	 */
	enum remote_catch (*catches)(void *context, pid_t tid);
	/* The context of the instance of that name, for the ops above; NULL with a sentence: there is none. */
	void *(*find)(void *context, const char *name, struct calltap_diag *diag);
	/*
	 * Begin a further instance, whose trace goes to fds[0], and the deeds of its triggers to the socket fds[1] (-1:
	 * none came; the server closes both); *instance is the instance's context until `end`.  The instance lasts as
	 * long as the client's connection.
	 */
	int (*instance)(void *context, const struct setting_change *words, size_t count, const int fds[REMOTE_FDS],
			FILE *answer, void **instance, struct calltap_diag *diag);
	/* End the instance; answer says what came of it.  It is gone in any case. */
	int (*end)(void *instance, FILE *answer, struct calltap_diag *diag);
};

struct remote;

/* Listen for the session of a target; context is for the ops. */
int remote_open(struct remote **out, pid_t pid, const struct remote_ops *ops, void *context, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/*
 * Give the session a further name, after another target of its own, unless it has that name.  By the thread that has
 * opened it, as is remote_unname().
 */
int remote_name(struct remote *remote, pid_t pid, struct calltap_diag *diag) __attribute__((warn_unused_result));
/* The target has ended, and its PID may become another process': its name goes, but for the last that there is. */
void remote_unname(struct remote *remote, pid_t pid);
/* Serve in a thread of its own, until remote_close(). */
int remote_start(struct remote *remote) __attribute__((warn_unused_result));
/*
 * Serve in the caller's thread instead: this descriptor is readable when remote_serve() has something to do, which
 * never waits.
 */
int remote_fd(const struct remote *remote);
void remote_serve(struct remote *remote);
/* The session ends: no client is served any more, and no op runs once this has returned. remote: may be NULL. */
void remote_stop(struct remote *remote);
/*
 * The session is over.  Clients that wait for that are told code and text (what became of the target); the socket goes.
 * remote: may be NULL.  Not called from an op.
 */
void remote_close(struct remote *remote, int code, const char *text);

/* The client's side. */

struct remote_session {
	pid_t pid;  /* of a target */
	int socket; /* connected */
	dev_t device;
	ino_t inode; /* of the socket, which may have several names */
};

/*
 * All sessions of this user that can be reached, each once, or those of one target (pid, 0 = all).  Sockets that nobody
 * listens on any more are removed.  An unsafe folder is an error only when nothing was found.
 */
int remote_list(struct remote_session **out, size_t *count, pid_t pid, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
void remote_list_free(struct remote_session *sessions, size_t count);
/* The session of a target; *socket is for close().  -ESRCH with a sentence: there is none. */
int remote_connect(int *socket, pid_t pid, struct calltap_diag *diag) __attribute__((warn_unused_result));

/*
 * Send a request and wait for its answer: verb, then count words key=value (key+=value), without newlines.
 * Descriptors go along, up to REMOTE_FDS; fds may be NULL. *answer is text for free(). 0, or the session's error with
 * its diag; -ETIMEDOUT: no answer, -EPIPE: the session ended.
 */
struct remote_request {
	const char *verb;
	const char *const *words;
	size_t count;
	const int *fds;
	unsigned fd_count;
	int timeout_ms;
	bool patient; /* the time begins again, 12 times at the most, while the session's tool waits for a CPU */
};
int remote_ask(int socket, const struct remote_request *request, char **answer, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* instance: the name of one; NULL = the session itself. */
int remote_ask_status(int socket, const char *instance, struct remote_status *status, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* The session's tool if it is stopped, by a signal or a debugger, so that it will not answer; 0 = it is not. */
pid_t remote_stopped_tool(int socket);
/* Receive an answer that nothing was asked for: the instance that was begun on this connection has ended. */
int remote_receive(int socket, int timeout_ms, char **answer, struct calltap_diag *diag)
	__attribute__((warn_unused_result));

/* Handlers of the caller's own process, which the session traces (abi/handlers.h). */
struct remote_handlers {
	uint64_t table; /* address of the struct calltap_handlers */
	uint32_t slot;
	bool remove;		    /* no more calls; only table, slot and timeout_ms are looked at then */
	bool exit, data, general;   /* as the slot's flags and pointers say */
	bool pending;		    /* functions may be loaded later: none now is no error */
	const char *const *filter;  /* NULL-terminated, NULL = all functions; see host/elf/filter.h */
	const char *const *notrace; /* NULL-terminated, NULL = no exceptions */
	const uint64_t *addresses;  /* addresses within functions; without filters, these functions alone */
	size_t address_count;
	int timeout_ms;
};
/*
 * *functions: for how many functions the slot is called now; a slot that is asked for again gets others.  After a
 * removal no handler of the slot runs. -ENOENT: no such function; -EAGAIN, of a removal: handlers still run.
 */
int remote_ask_handlers(int socket, const struct remote_handlers *handlers, uint64_t *functions,
			struct calltap_diag *diag) __attribute__((warn_unused_result));

#endif
