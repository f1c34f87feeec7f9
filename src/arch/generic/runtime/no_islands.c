/*
 * Islands (contract.h), for CPUs that have none.  Context: control.
 */
#include <arch.h>

/* Every head has room for a jump to its block. */
uint8_t arch_island_lead_bytes(int64_t distance)
{
	(void)distance;
	return 0;
}

void arch_lead_to_island(uint8_t *code, uint64_t address, uint64_t island, uint64_t target)
{
	(void)code;
	(void)address;
	(void)island;
	(void)target;
}

uint8_t arch_island_make(uint8_t *code, uint64_t address, uint64_t target)
{
	(void)code;
	(void)address;
	(void)target;
	return 0;
}
