/*
 * Where programs are not run yet (abi/program.h): the agent refuses PROGRAMS, so nobody comes here.
 * Context: probe.
 */
#include <arch.h>

uint64_t arch_program_call(const struct calltap_program_context *context, uint64_t code)
{
	(void)context;
	(void)code;
	return 1;
}
