/*
 * Filling and printing struct calltap_diag.  Called by all host code.
 */
#include <stdarg.h>
#include <string.h>

#include <calltap/diag.h>
#include <host/files.h>

int calltap_diag_set(struct calltap_diag *diag, int code, const char *format, ...)
{
	va_list args;
	size_t used;

	if (!diag)
		return code;
	memset(diag, 0, sizeof(*diag));
	diag->code = code;
	diag->column = -1;
	va_start(args, format);
	vsnprintf(diag->text, sizeof(diag->text), format, args);
	va_end(args);
	used = strlen(diag->text);
	snprintf(diag->text + used, sizeof(diag->text) - used, "%s", files_remedy(code));
	return code;
}

void calltap_diag_print(const struct calltap_diag *diag, FILE *stream)
{
	fprintf(stream, "calltap: %s\n", diag->text);
	if (!diag->input[0])
		return;
	fprintf(stream, "  %s\n", diag->input);
	if (diag->column >= 0)
		fprintf(stream, "  %*s^\n", diag->column, "");
}
