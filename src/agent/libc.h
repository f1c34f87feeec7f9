/*
 * What the agent shares names with: the libc functions that it stands in
 * front of, and the loader's symbols that it uses when they are there.
 * Context: control.
 */
#ifndef AGENT_LIBC_H
#define AGENT_LIBC_H

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>

#define AGENT_EXPORT __attribute__((visibility("default")))

/* Defined by the loader and libc; weak, for the agent links neither. */
extern struct r_debug _r_debug __attribute__((weak));
extern __typeof__(dlsym) dlsym __attribute__((weak));

/* Defined by the agent (agent.map), with libc's types but for pthread_t, an integer on every Linux libc. */
AGENT_EXPORT int _dl_find_object(void *pc, struct dl_find_object *result);
AGENT_EXPORT int dl_iterate_phdr(int (*callback)(struct dl_phdr_info *, size_t, void *), void *data);
AGENT_EXPORT int pthread_setname_np(uint64_t thread, const char *name);
AGENT_EXPORT int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);

#endif
