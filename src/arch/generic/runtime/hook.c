/*
 * Where jumps meet the loader's empty function for debuggers, on CPUs where that function has room for one.
 *
 * Called by the agent room in the control thread; other CPUs have a hook.c of their own.
 */
#include <arch.h>

unsigned arch_hook_places(uint64_t *places, unsigned max, uint64_t function, uint64_t lo, uint64_t hi)
{
	(void)lo;
	(void)hi;
	if (!max || !arch_is_empty_function((const uint8_t *)function))
		return 0;
	places[0] = function;
	return 1;
}
