/*
 * Yama, the kernel's module that may let a user trace only some of his own
 * processes.
 *
 * Callers: attach, and libcalltap.  Context: host, and the program's threads.
 */
#ifndef HOST_YAMA_H
#define HOST_YAMA_H

/*
 * kernel.yama.ptrace_scope: 0 = one's own processes, also where there is no
 * Yama; 1 = only what the tracer has started, or was named by; 2 = none but
 * root's; 3 = none.  unknown: what it is taken for when it is there and cannot
 * be read.
 */
long yama_scope(long unknown);

#endif
