/*
 * Yama, the kernel's module that may let a user trace only some of his own
 * processes.
 *
 * Callers: attach, and libcalltap.  Context: host, and the program's threads.
 */
#ifndef HOST_YAMA_H
#define HOST_YAMA_H

/*
 * kernel.yama.ptrace_scope: 0 = one's own processes, also where there is no Yama; 1 = only processes that the tracer
 * has started, or that have named it; 2 = none but root's; 3 = none. unknown: the result when the file is there and
 * cannot be read.
 */
long yama_scope(long unknown);

#endif
