/*
 * Marks: texts that a program writes into the trace that is made of it.
 *
 * libcalltap.so.  A program may keep its marks in for good: while nothing
 * traces it, one costs a call and a look at a pointer.  calltap_mark(3) is the
 * reference.
 */
#ifndef CALLTAP_MARK_H
#define CALLTAP_MARK_H

#ifdef __cplusplus
extern "C" {
#endif

#define CALLTAP_MARK_MAX 255u /* bytes of a mark's text */

/*
 * Write text, in UTF-8 and NUL-terminated, into the trace, at this time and on
 * the calling thread; of a longer one the first CALLTAP_MARK_MAX bytes, less
 * what is left of a character.  Each instance that records gets it.  It has no
 * effect while there is none.
 *
 * Any thread may call this at any time, also in a signal handler.  It takes no
 * lock, calls nothing of libc and leaves errno alone; in a recording without
 * losses (mode block) it may wait for the tool, as a traced call may.
 */
void calltap_mark(const char *text);

#ifdef __cplusplus
}
#endif

#endif
