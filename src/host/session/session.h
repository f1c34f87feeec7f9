/*
 * A session: a process tree that is traced, and the conversations with its processes.
 *
 * The session owns the targets (host/target), the instances (host/instance: what is recorded of them, and to which
 * file) and the hooks (host/hook: who else wants calls).  The four rooms use each other's headers; nobody else includes
 * this one.
 *
 * Two threads: the server thread (loop.c: sockets, plans, the command's end) and the drainer (drain.c: from rings to
 * files).  A third one answers other processes (steer.c).  session.lock guards everything here but what is marked; the
 * drainer gives it up between targets.
 *
 * Words:
 *     target    a process that is traced, and the conversation with the agent in it
 *     instance  a recording of all targets: tracer, filters, limits, buffers and file of its own
 *     set       the number of an instance, 0 for the one that the session began with; targets know instances by it
 *     share     an instance's part in one target: its rings there, and what of them is in the file
 *     image     an object file, read once for all targets that map it; a map is an image at a place in a target
 *     variant   stubs of an image for one choice of settings; sites lead to those of one variant at a time
 *     row       what the dispatcher in the targets reads of a function: who wants its calls
 *     plan      a message that tells an agent the sites of one map
 *     turn      the right to change what is recorded, and to give up the lock while agents answer (live.c)
 *     attachee  a process that is to be attached to; it becomes a target
 */
#ifndef HOST_SESSION_SESSION_H
#define HOST_SESSION_SESSION_H

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <calltap/abi/control.h>
#include <calltap/abi/file.h>
#include <host/attach/attach.h>
#include <host/remote/remote.h>
#include <host/target/clock.h>
#include <host/target/target.h>

#include "emulator.h"
#include "placing.h"
#include "record.h"

/* A process that is to be attached to (attachees.c). */
enum attachee_state {
	ATTACHEE_WAITS,	   /* its turn has not come */
	ATTACHEE_COMING,   /* the agent is being put into it */
	ATTACHEE_AWAITED,  /* the agent was put into it, and has not called in */
	ATTACHEE_MET,	   /* the agent has called in */
	ATTACHEE_LEFT_OUT, /* it is not traced, for which there is a reason */
};

struct attachee {
	uint64_t agent; /* where the agent's code is mapped, 0 = not known */
	enum attachee_state state;
	struct record_attached *told;	       /* the pid, and what the user is told of the process */
	struct attach_program program;	       /* what the process ran when the session began */
	struct target *target;		       /* what the attachee has become, NULL = no target yet */
	int fd;				       /* pidfd, -1 = there is none */
	struct attach_range jumps[FRONTS_MAX]; /* of a static program: where no thread may be when heads are led */
	size_t jump_count;
	bool idle;	/* the filters leave no function of its program */
	bool code_left; /* the code that brought the agent in is still there, as nobody has stopped all threads since */
	bool forgotten; /* the attach failed, or the process has ended: the pid is not the session's */
	pthread_t teller; /* the thread that writes the stacks that were open (attached_stacks.c) */
	bool teller_runs;
};

struct attachees {
	struct attachee *list; /* as many as the options have pids */
	uint32_t count;
	struct injector *injector; /* puts the agent into the attachee that is ATTACHEE_COMING, or NULL */
};

#define CALIBRATE_MS	5  /* time for measuring the rate of the tool's own counter */
#define SESSION_SIGNALS 65 /* signals have numbers below that */

struct remote;
struct unread;
struct family;
struct guest;
struct caller;

/* Where targets call in, and what wakes the server thread. */
struct endpoint {
	int listener, epoll;
	int drained_fd; /* eventfd: the drainer has finished a target, or the session is asked to end */
	int spare_fd;	/* a descriptor to give up when a target cannot be taken in for want of one */
	char name[64];	/* the socket's, in the abstract namespace */
	uint64_t key;	/* every HELLO must bring it */
};

#define SESSION_NAME_MAX (sizeof(((struct endpoint *)0)->name) + 24) /* of session_name() */

/* When the session ends. */
struct ending {
	int fd;			  /* pidfd of the command, or of the process whose agent was put in last; or -1 */
	uint32_t asked;		  /* atomic: how often the session was asked to end, */
	uint32_t asked_before;	  /* and how often before the command had ended: with it, by signals and requests */
	bool letting_go;	  /* the session ends, whatever goes on */
	bool left_told;		  /* that processes run which the command has left */
	bool held_told;		  /* that a process is waited for which cannot answer */
	uint64_t left_ns;	  /* since when they do */
	uint64_t shown_ns;	  /* when progress was shown last */
	bool line_shown;	  /* a line of progress may be the last on the terminal */
	uint64_t began_ns;	  /* CLOCK_MONOTONIC of when that began */
	uint64_t awaited_ns;	  /* CLOCK_MONOTONIC until which an injected agent may call in, 0 = none is awaited */
	uint64_t strays_since_ns; /* CLOCK_MONOTONIC since when strays (strays.c) alone are waited for, 0 = they are not
				   */
	/* CLOCK_MONOTONIC until which the release of a forked child may be tried once more, 0 = there was none yet */
	uint64_t children_until_ns;
};

/* The targets' clock (timing.c). */
struct timing {
	struct clock_line line; /* counter and time of targets under an emulator */
	uint32_t cost;		/* struct calltap_msg_hello.clock_cost of the first target */
	uint64_t next_sample_ns, sample_step_ns;
};

#define SESSION_DEAF 32u

/* A forked child that has not called in (strays_call()). */
struct session_deaf {
	pid_t pid;
	bool again; /* it is asked again at the next change */
};

/* A change of what is recorded (live.c). */
struct steering {
	bool busy;		   /* a thread has the turn */
	uint32_t waiting;	   /* threads that wait for the turn */
	uint64_t switched, failed; /* sites, as the agents have answered */
	bool unpatched;		   /* functions that the last change added are not patched in some target */
	struct session_deaf deaf[SESSION_DEAF]; /* the last ones */
	uint32_t deaf_count;
};

/* The thread that takes records out of rings (drain.c). */
struct drainer_thread {
	pthread_t thread;
	bool runs;
	bool stop;	     /* atomic: the drainer ends after one more round */
	struct instance *at; /* the instance whose rings the drainer reads just now, or NULL */
};

/* The file of the first instance. */
struct output {
	bool taken;	 /* the session has opened the file */
	bool older_kept; /* an older trace was renamed to make room for the file */
};

/* Attributes of the tool's own that it changes, and gives the command as they were. */
struct inherited {
	struct rlimit files, file_size;
	struct sigaction actions[SESSION_SIGNALS]; /* by number, those that the tool takes (signals.c) */
};

struct session {
	const struct record_options *options;
	struct record_result *result;
	pthread_mutex_t lock;	 /* taken by session_lock() */
	pthread_mutex_t next;	 /* held by the thread that gets `lock` next */
	pthread_cond_t answered; /* signalled when an agent has answered, or a target has ended */
	const char *no_returns;	 /* why the returns of one of its processes cannot be recorded, NULL = they can */
	char diagnosis[480];	 /* the first thing to tell the user at the end, "" = none */
	struct endpoint endpoint;
	struct ending ending;
	struct timing timing;
	struct steering steering;
	struct drainer_thread drainer;
	struct attachees attachees; /* empty where the session runs a command */
	struct inherited inherited;
	struct family *family; /* relatives of the targets that are not followed (family.c) */
	struct unread *unread; /* objects whose files cannot be read */
	struct remote *remote; /* the server for other processes' requests, or NULL */
	struct images images;
	struct values *own_values; /* images.values where the options have none; else NULL */
	struct target *targets;	   /* all there were, also those that have ended */
	uint32_t process_count;
	struct instance *instances[CALLTAP_INSTANCES];
	uint32_t last_set;	     /* set of the instance that began last */
	uint32_t instances_ended;    /* instances that the session's end has ended */
	struct calltap_board *board; /* shared with the targets */
	int board_fd;
	const struct machine *machine; /* the CPU of the programs that are recorded */
	char *program;		       /* path of the command's file */
	char *agent; /* path of the agent for that CPU; NULL: the command is no program that the tool can read */
	struct emulator emulator;
	struct guest *guests;	 /* processes that execute static programs (guests.c) */
	struct caller *callers;	 /* forked children that were caught in open() of the tool's tree (callers.c) */
	struct placing *placing; /* the command is a static program: how the agent gets into it; else NULL */
	bool emulated;		 /* the tool cannot read the targets' counter */
	pid_t command;		 /* the command's pid, 0 = reaped */
	uint64_t began_ns;	 /* CLOCK_MONOTONIC */
	/* CLOCK_MONOTONIC of the first target's GO, or of when the last attachee's threads went on with their sites; 0
	 * = not yet */
	uint64_t traced_ns;
	uint64_t patch_ticks; /* time that agents took to write their plans */
	bool cleaned;	      /* environments of some targets do not show the session's name */
	bool dlopen_missed;   /* some target cannot tell of objects that dlopen brings in */
	struct output output;
};

/* The instance that `calltap record` or `attach` begins with. */
static inline struct instance *session_first(const struct session *session)
{
	return session->instances[0];
}

/*
 * A mutex alone goes to whoever asks first once it is free, and that is the drainer, which has just let go of it:
 * steering and the server's turn would wait as long as there are records.  Who waits for it holds `next`, so the
 * drainer comes behind.
 */
static inline void session_lock(struct session *session)
{
	pthread_mutex_lock(&session->next);
	pthread_mutex_lock(&session->lock);
	pthread_mutex_unlock(&session->next);
}

static inline void session_unlock(struct session *session)
{
	pthread_mutex_unlock(&session->lock);
}

/* session_base.c: memory that all targets have mapped. */
int session_make_board(struct session *session) __attribute__((warn_unused_result));
/* NAME:KEY, by which agents find the session (abi/control.h). */
void session_name(const struct session *session, char *name, size_t size);
/* End the recording soon; for any thread, without the lock. */
void session_end(struct session *session);
/* End the recording soon, and let a command run on that the session has started: session_end() sends it SIGTERM. */
void session_let_go(struct session *session);
/*
 * session.c: have all processes know the file that says which calls have no times (brief/brief.h), for further
 * instances; with the turn.  -errno: there is no memory, or no thread.
 */
int session_begin_times(struct session *session) __attribute__((warn_unused_result));
/* Have the server thread see when there is something to read; what: what session_handle() knows it by. */
int session_watch(struct session *session, int fd, void *what) __attribute__((warn_unused_result));
/* The sentence that the user is to be told at the end, about the session or its first instance; "" = none. */
const char *session_diagnosis(const struct session *session);
/* Note the first thing that the user is to be told at the end. */
void session_diagnose(struct session *session, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* There is something for the drainer to do now. */
void session_wake_drainer(struct session *session);

/* target.c: the attach of a process has begun and is not complete. */
bool attachees_are_open(const struct session *session);
/* The attach of a process has begun and is not complete, or some have not begun. */
bool attachees_are_due(const struct session *session);
/* The process that the session is called by: the command, or the first that was attached to and lives; 0 = none. */
pid_t session_pid(const struct session *session);
/* The attachee of that pid, NULL = none. */
struct attachee *attachee_find(const struct session *session, pid_t pid);
/* The attachee's process is traced, or its agent may call in yet. */
bool attachee_is_in(const struct session *session, const struct attachee *attachee);
/* loop.c: serve until the command and everything traced have ended, or the user insists (a second ^C). */
void session_serve(struct session *session);
/* Something is to be read at what session_watch() was told. */
void session_handle(struct session *session, void *what);
/* Do not watch the end of the command, or of the process, any more. */
void session_forget_ending(struct session *session);

/* attachees.c: the processes that are to be attached to, one after the other. */
int attachees_create(struct session *session) __attribute__((warn_unused_result));
void attachees_destroy(struct session *session);
/*
 * Leave out processes that have nothing to trace, or that let nobody in.  An error: all are left out, or a filter
 * matches nothing in any.
 */
int attachees_check(struct session *session, struct calltap_diag *diag) __attribute__((warn_unused_result));
/* A socket where they all can call in, by attach_socket(); those that cannot are left out. */
int attachees_socket(struct session *session, int type, struct calltap_diag *diag) __attribute__((warn_unused_result));
/* See what has become of the one whose turn it is, and begin with the next when it is over.  With the lock. */
void attachees_go_on(struct session *session);
/* The session ends: those that are not traced will not be.  Without the lock. */
void attachees_end(struct session *session);
/* After an error that is not one process's: if the only one has ended meanwhile, that was the cause. */
int attachees_explain(const struct session *session, int error, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* Tell that none could be traced; returns the error. */
int attachees_tell_none(const struct session *session, struct calltap_diag *diag) __attribute__((warn_unused_result));

/* steer.c: what other processes ask of the session (host/remote); without it there is none of that. */
int steer_begin(struct session *session, pid_t pid, struct calltap_diag *diag) __attribute__((warn_unused_result));
/* steer_begin() for a session that can do without: an error is told with --verbose alone. */
void steer_try(struct session *session, pid_t pid);
/* Name the session after a process that it follows, too: `status`, `detach` and all other verbs find it by that PID. */
void steer_follow(struct session *session, pid_t pid);
/* The process is not the session's any more: by its pid the session is not found, as long as there is another. */
void steer_forget(struct session *session, pid_t pid);
void steer_end(struct session *session);
/* Tracing on or off, as `calltap set` has it; by a thread that holds no lock. */
int steer_tracing(struct session *session, bool on, struct calltap_diag *diag) __attribute__((warn_unused_result));

/* catalog.c: a line for each function that filters may choose; words: filters in place of the instance's. */
int catalog_write(struct instance *instance, const struct setting_change *words, size_t count, FILE *out,
		  struct calltap_diag *diag) __attribute__((warn_unused_result));

/* family.c: relatives of the session's processes that it does not follow; the result's `children`, `strangers` tell. */
void family_begin(struct session *session);
void family_end(struct session *session);
/* Little was recorded of the process that was attached to: others may do its work. */
void family_hint(struct session *session);
/* Now and then, without the lock; for how long to wait for other things meanwhile. */
void family_look(struct session *session);
/* family.c: false while the process is just executing a program: it has no environment yet. */
bool family_has_environment(pid_t pid) __attribute__((warn_unused_result));
int family_due_ms(const struct session *session, int at_most) __attribute__((warn_unused_result));

/* live.c: let others change this session, until live_detach(). */
void live_attach(struct session *session);
void live_detach(struct session *session);
/* Switch the chosen sites of one image in all processes that have it; -ETIMEDOUT: somebody did not answer. */
int live_switch_image(struct session *session, struct image *image, bool on, const bool *chosen)
	__attribute__((warn_unused_result));
/*
 * Between these one thread changes what is recorded, and may give up the lock
 * to wait for answers.  -EAGAIN: a process is being attached to, and that takes
 * long.  Not for the server thread.
 */
int live_turn_begin(struct session *session) __attribute__((warn_unused_result));
void live_turn_end(struct session *session);
/* Wait until all targets have answered what was sent; not for the server thread. */
int live_wait(struct session *session) __attribute__((warn_unused_result));
/* Do not wait for the answers that the target owes: they will not come, or by another connection. */
void live_forgive(struct session *session, struct target *target);
/* For other threads: the session, locked, until live_leave(); NULL = nothing is being recorded, and nothing is held. */
struct session *live_enter(struct record_live *live);
void live_leave(struct record_live *live, struct session *session);
/* Make an object's sites what they are to be now; nothing where other stubs than the map's are in use. */
int live_catch_up(struct target *target, const struct target_map *map) __attribute__((warn_unused_result));
/* Switch in an object that was just patched what has been switched in the session since its plan was sent. */
int live_apply(const struct session *session, struct target *target, const struct target_map *map)
	__attribute__((warn_unused_result));
int live_answer(struct session *session, struct target *target, const struct calltap_msg_switch_done *done)
	__attribute__((warn_unused_result));

/* drain.c */
int drain_start(struct session *session) __attribute__((warn_unused_result));
/* Wait until all is written of the processes that have ended, with progress; who asks the session is answered. */
void drain_finish(struct session *session);
void drain_stop(struct session *session);

/* precheck.c: the command's CPU by its file's head, the tool's own where that says nothing; and the path of the agent
 * for a CPU, for free(). */
const struct machine *precheck_machine(const struct session *session);
char *precheck_agent(const struct session *session, const struct machine *machine);
/* Is there anything to trace, does every filter match?  Before the command runs. */
int precheck_command(struct session *session, struct calltap_diag *diag) __attribute__((warn_unused_result));

/* strays.c: count the processes whose agents are gone and that run another program now, which is not traced. */
void strays_note_all(struct session *session);
/* True while a process of the session may still call in, for the first time. */
bool strays_may_come(struct session *session) __attribute__((warn_unused_result));

/* signals.c */
void signals_take(struct session *session);
void signals_give_back(const struct session *session); /* in the command, before exec */
bool signals_ask_end(void);			       /* the command is to end */
bool signals_hung_up(void);			       /* the terminal is gone */
bool signals_any(void);				       /* there was a signal that ends a recording of no command's */
bool signals_insist(void);			       /* so is the recording, whatever goes on */
unsigned signals_count(void);			       /* how many of these have come */

/* guests.c: processes that ask to be held while they execute static programs. */
void guests_begin(struct session *session);
/* Take in who asks; by the drainer, without the lock. */
void guests_look(struct session *session);
/* The agent is being put into some; with the lock. */
bool guests_any(const struct session *session) __attribute__((warn_unused_result));
/* The agent is or was just being put into this process' program; with the lock. */
bool guests_has(const struct session *session, pid_t pid) __attribute__((warn_unused_result));
/* Wait until all are let go of.  The drainer has ended, and nobody can call in any more. */
void guests_end(struct session *session);
/*
 * strays.c: have forked children call in that have made no traced call, since what is recorded has changed; the lock is
 * released meanwhile.
 */
void strays_call(struct session *session);
/* With the lock: the process has not called in, and may be asked to. */
bool strays_may_call(struct session *session, pid_t pid) __attribute__((warn_unused_result));
/*
 * Have a forked child call in, without the lock.  caught: NULL, or its initial thread waits for the tool's own answer.
 * -ESRCH: it has ended, or executes.
 */
int strays_bring_in(struct session *session, pid_t pid, const struct attach_caught *caught, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* silent.c: what is to be known for record_silent_look(); when all targets have let go. */
void silent_note(struct session *session);
/* strays.c: the process has the session's board, from the process that it was forked from. */
bool strays_has_board(const struct session *session, pid_t pid) __attribute__((warn_unused_result));

/*
 * callers.c: a thread waits in open() of the tool's own tree, and will write there.  If it is that of a forked child
 * that has not called in, it is interrupted, and is to be answered with EINTR.  The program does not see that: the
 * child calls in, and opens the file anew.
 */
enum remote_catch callers_catch(struct session *session, pid_t tid) __attribute__((warn_unused_result));
/* True if the child was caught, and has not called in yet.  Without the lock. */
bool callers_is_coming(struct session *session, pid_t pid) __attribute__((warn_unused_result));
/* Wait for the end of all that; nobody catches any more. */
void callers_end(struct session *session);

/* spawn.c */
uint64_t spawn_filters(void); /* seccomp filters that the tool itself is under */
int spawn_command(struct session *session, struct calltap_diag *diag) __attribute__((warn_unused_result));

/* progress.c */
void progress_show(struct session *session, bool last);
/* At the end: left is how many processes still have what was brought in.  For one of them nothing is shown. */
void progress_leaving(struct session *session, uint32_t left);
void progress_held(struct session *session, pid_t pid, const char *why);
/* The command has ended, and so many processes that it has left are traced still: that is told once. */
void progress_tell_left(struct session *session, uint32_t left);

#endif
