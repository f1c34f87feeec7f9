/*
 * How calltap's functions report what went wrong in their input.
 *
 * Functions return 0 or -errno; those that read input a person wrote or a
 * file also fill a struct calltap_diag, which the command prints as one
 * sentence and, where `input` is set, the input with a caret under `column`.
 */
#ifndef CALLTAP_DIAG_H
#define CALLTAP_DIAG_H

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct calltap_diag {
	int code;	 /* -errno, 0 = nothing to report */
	char text[480];	 /* one sentence, with the remedy; no newline */
	char input[160]; /* the text that has the fault, "" = none */
	int column;	 /* byte offset in input of the fault, -1 = none */
};

/*
 * Fill diag (may be NULL) and return code, so that a caller writes
 * `return calltap_diag_set(diag, -EINVAL, "...", ...)`.
 */
int calltap_diag_set(struct calltap_diag *diag, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Print diag to stream as `calltap: text`, then input and caret if there are any. */
void calltap_diag_print(const struct calltap_diag *diag, FILE *stream);

#ifdef __cplusplus
}
#endif

#endif
