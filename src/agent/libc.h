/*
 * Names that the agent shares with libc and the loader: the functions that it stands in front of, and the loader's
 * symbols that it uses when they are there.
 *
 * Context: control.
 */
#ifndef AGENT_LIBC_H
#define AGENT_LIBC_H

#include <link.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#define AGENT_EXPORT __attribute__((visibility("default")))

/* Weak, for the agent links nothing: the loader defines it. */
extern struct r_debug _r_debug __attribute__((weak));
/* The agent's own dynamic section; the linker defines it. */
extern ElfW(Dyn) own_dynamic[] __asm__("_DYNAMIC") __attribute__((visibility("hidden")));
/* struct r_debug from r_version 2 on: with the name spaces of dlmopen(). */
struct agent_r_debug {
	struct r_debug first;
	struct agent_r_debug *next;
};
/* For musl, which has no _r_debug: the address of a structure that begins like it (version 1). */
extern struct r_debug *_dl_debug_addr __attribute__((weak));

/* libc's; NULL where no loader binds it. */
extern char **environ __attribute__((weak));
extern int *__errno_location(void) __attribute__((weak));

/* Defined by the agent (agent.map), with libc's types but for pthread_t, an integer on every Linux libc. */
AGENT_EXPORT int _dl_find_object(void *pc, struct dl_find_object *result);
AGENT_EXPORT int dl_iterate_phdr(int (*callback)(struct dl_phdr_info *, size_t, void *), void *data);
AGENT_EXPORT void calltap_agent_mark(const char *text); /* not of libc: libcalltap.so's way to a mark */
AGENT_EXPORT int backtrace(void **frames, int size);
/* The unwinder's, with its types but for pointers to structures of its own. */
typedef int agent_visit_fn(void *context, void *argument);
AGENT_EXPORT uint64_t _Unwind_GetCFA(void *context);
AGENT_EXPORT int _Unwind_Backtrace(agent_visit_fn *visit, void *argument);
AGENT_EXPORT int pthread_setname_np(uint64_t thread, const char *name);
AGENT_EXPORT int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);
AGENT_EXPORT void
agent_front_syscall(void) __asm__("syscall"); /* CPU/syscall.S; its arguments are passed on as they are */
AGENT_EXPORT int unshare(int flags);
AGENT_EXPORT int setns(int fd, int kind);
AGENT_EXPORT int execve(const char *path, char *const *arguments, char *const *environment);
AGENT_EXPORT int execv(const char *path, char *const *arguments);
AGENT_EXPORT int execvp(const char *file, char *const *arguments);
AGENT_EXPORT int execvpe(const char *file, char *const *arguments, char *const *environment);
AGENT_EXPORT int execl(const char *path, const char *first, ...);
AGENT_EXPORT int execlp(const char *file, const char *first, ...);
AGENT_EXPORT int execle(const char *path, const char *first, ...);
AGENT_EXPORT int posix_spawn(int *pid, const char *path, const void *actions, const void *attributes,
			     char *const *arguments, char *const *environment);
AGENT_EXPORT int posix_spawnp(int *pid, const char *file, const void *actions, const void *attributes,
			      char *const *arguments, char *const *environment);
AGENT_EXPORT int mlockall(int flags);
AGENT_EXPORT int sigaltstack(const stack_t *stack, stack_t *old);
AGENT_EXPORT void makecontext(void); /* forward.S; its arguments are passed on as they are */
AGENT_EXPORT void swapcontext(void); /* forward.S; its arguments are passed on as they are */
AGENT_EXPORT void mcount(void);	     /* x86_64/mcount.S */
AGENT_EXPORT void _mcount(void);     /* x86_64/mcount.S */
AGENT_EXPORT void longjmp(void *env, int value) __attribute__((noreturn));
AGENT_EXPORT void _longjmp(void *env, int value) __attribute__((noreturn));
AGENT_EXPORT void siglongjmp(void *env, int value) __attribute__((noreturn));
AGENT_EXPORT void __longjmp_chk(void *env, int value) __attribute__((noreturn));

/*
 * attach.c: the code that brings the agent into a running process (abi/attach.h) calls this on the thread that it
 * borrowed.
 */
struct calltap_attach;
AGENT_EXPORT int calltap_agent_attach(struct calltap_attach *attach);
/* placed.c: the code that the tool puts into a static program calls this (abi/start.h). */
struct calltap_start;
AGENT_EXPORT int calltap_agent_start(const struct calltap_start *start);
/* placed.c: the borrowed thread calls this in place of calltap_agent_attach() where no loader has mapped the agent. */
AGENT_EXPORT int calltap_agent_place(struct calltap_attach *attach);
AGENT_EXPORT extern const uint32_t calltap_agent_version, calltap_agent_start_version;

/* symbols.c: true if no object comes after the agent. */
bool agent_is_last(void);
/* The function of that name that comes after the agent's in the loader's order; NULL = none. */
void *agent_next(const char *name);
/* As agent_next(), but NULL in a static program; lo and hi: where the object that defines the function has its code. */
void *agent_next_object(const char *name, uint64_t *lo, uint64_t *hi);
/* True if address is in the function of that name which the object defines. */
bool agent_is_in(uint64_t address, const struct link_map *map, const char *name);

/* debugger.c: gdb's names; not exported, it finds them in the symbol table. */
struct jit_descriptor;
extern struct jit_descriptor __jit_debug_descriptor;
void __jit_debug_register_code(void);

#endif
