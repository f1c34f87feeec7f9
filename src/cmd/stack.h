/*
 * A stack of the command's own size, whatever `ulimit -s` says: libraries that read debug information take more than
 * a small one has, and the end would be a SIGSEGV.
 *
 * Caller: main.c.  Context: host.
 */
#ifndef CMD_STACK_H
#define CMD_STACK_H

/*
 * Run a verb and return its status; where the limit of the stack is small, on a thread with a larger one.  The limit
 * stays what it is, for programs that the verb starts.
 */
int stack_run(int (*run)(int argc, char **argv), int argc, char **argv);

#endif
