/*
 * Coming into a running process: the answer of CPUs that have no code for it
 * (attach.h).  Nothing but the check is ever called.  Context: host.
 */
#include "attach.h"

const char *native_attach_refusal(void)
{
	return "attaching is not supported on this CPU; start the program under 'calltap record'";
}

uint64_t native_pc(const struct native_regs *regs)
{
	return 0;
}

uint64_t native_sp(const struct native_regs *regs)
{
	return 0;
}

uint64_t native_thread_pointer(const struct native_regs *regs)
{
	return 0;
}

void native_dwarf(const struct native_regs *regs, uint64_t values[NATIVE_DWARF_REGISTERS])
{
	for (unsigned i = 0; i < NATIVE_DWARF_REGISTERS; i++)
		values[i] = 0;
}

bool native_may_borrow(const struct native_regs *regs)
{
	return false;
}

bool native_waits(const struct native_regs *regs)
{
	return false;
}

bool native_sleeps(const struct native_regs *regs)
{
	return false;
}

bool native_call_waits(long number)
{
	return false;
}

bool native_call_transfers(long number, const uint64_t arguments[NATIVE_CALL_ARGUMENTS])
{
	return false;
}

bool native_call_cut_short(const struct native_regs *regs)
{
	return false;
}

bool native_call_mend(struct native_regs *regs)
{
	return false;
}

bool native_call_anew(struct native_regs *regs)
{
	return false;
}

unsigned native_call_size(void)
{
	return 0;
}

bool native_call_opens(long number)
{
	return false;
}

bool native_call_reopen(struct native_regs *regs)
{
	return false;
}

bool native_call_again(const struct native_regs *regs)
{
	return false;
}

void native_set_pc(struct native_regs *regs, uint64_t pc)
{
}

size_t native_find_saved(const uint64_t *words, size_t from, size_t to)
{
	return to;
}

uint64_t native_saved_sp(const uint64_t *pc)
{
	return 0;
}

uint64_t native_saved_mark(const uint64_t *pc)
{
	return 0;
}

uint64_t native_second_mark(uint64_t first, const unsigned char bytes[NATIVE_MARK_BYTES])
{
	return 0;
}

bool native_is_second_mark(uint32_t word)
{
	return false;
}

void native_saved_dwarf(const uint64_t *pc, uint64_t values[NATIVE_DWARF_REGISTERS])
{
	for (unsigned i = 0; i < NATIVE_DWARF_REGISTERS; i++)
		values[i] = 0;
}

bool native_saved_on_other_stack(const uint64_t *pc, uint64_t address)
{
	return false;
}

uint64_t native_saved_pc_of_frame(uint64_t frame)
{
	return frame;
}

bool native_is_restorer(const unsigned char bytes[NATIVE_RESTORER_MAX])
{
	return false;
}

uint64_t native_passes_result(const unsigned char bytes[NATIVE_PASSES_MAX], uint64_t pc)
{
	return 0;
}

uint64_t native_mirror_of(uint64_t slot)
{
	return slot;
}

bool native_may_be_leaf_back(uint64_t back)
{
	return false;
}

uint64_t native_leaf_exit(uint64_t back, const unsigned char code[NATIVE_LEAF_CODE])
{
	return 0;
}

size_t native_code_size(void)
{
	return NATIVE_CODE_MAX;
}

void native_code_make(unsigned char code[NATIVE_CODE_MAX], uint64_t at, const struct native_errand *errand,
		      struct native_regs *regs)
{
	for (unsigned i = 0; i < NATIVE_CODE_MAX; i++)
		code[i] = 0;
}

bool native_code_is(const unsigned char *bytes)
{
	return false;
}
