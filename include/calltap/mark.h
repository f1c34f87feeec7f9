/*
 * Marks: texts that a program writes into the trace that is made of it.
 *
 * Part of libcalltap.so.  A program may keep its marks for good: while nobody traces it, a mark costs a call and a look
 * at a pointer.  calltap_mark(3) is the reference.
 */
#ifndef CALLTAP_MARK_H
#define CALLTAP_MARK_H

#ifdef __cplusplus
extern "C" {
#endif

#define CALLTAP_MARK_MAX 255u /* bytes of a mark's text */

/*
 * Write text, in UTF-8 and NUL-terminated, into the trace, with the current time and on the calling thread.  A text
 * longer than CALLTAP_MARK_MAX bytes is cut there, at the end of a character.  Each instance that records gets the
 * mark; without one the call has no effect.
 *
 * Any thread may call this at any time, also in a signal handler.  The call takes no lock, calls nothing of libc and
 * leaves errno alone; in a recording without losses (mode block) it may wait for the tool, as a traced call may.
 */
void calltap_mark(const char *text);

#ifdef __cplusplus
}
#endif

#endif
