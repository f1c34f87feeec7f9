/*
 * Putting the agent into a program at its start on x86-64 (arch/generic/native/launch.h): registers as ptrace has them,
 * and launch.S prepared for one thread.  Context: host.
 */
#include <string.h>
#include <sys/user.h>

#include "../../generic/native/launch.h"
#include "arch/x86_64/isa/layout.h"

#define RED_ZONE      128u
#define STACK_ALIGN   16u
#define FLAG_TRAP     0x100u
#define NO_CALL	      (~(uint64_t)0) /* in orig_rax: the thread is in no system call */
#define REG(regs, at) ((regs)->set[offsetof(struct user_regs_struct, at) / sizeof((regs)->set[0])])

extern const unsigned char launch_begin[], launch_code[], launch_end[] __attribute__((visibility("hidden")));

/* The words at the head of launch.S, in this order. */
struct launch_words {
	uint64_t argument, entry, pc, flags, rsp;
	uint64_t rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15;
};

_Static_assert(sizeof(struct native_regs) == sizeof(struct user_regs_struct), "NT_PRSTATUS");

const char *native_launch_refusal(void)
{
	return NULL;
}

long native_call_number(const struct native_regs *regs)
{
	return (long)REG(regs, orig_rax);
}

uint64_t native_call_argument(const struct native_regs *regs)
{
	return REG(regs, rdi);
}

long native_call_result(const struct native_regs *regs)
{
	return (long)REG(regs, rax);
}

/* A general register by its number in an instruction. */
static uint64_t register_of(const struct native_regs *regs, unsigned number)
{
	const uint64_t values[16] = {
		REG(regs, rax), REG(regs, rcx), REG(regs, rdx), REG(regs, rbx), REG(regs, rsp), REG(regs, rbp),
		REG(regs, rsi), REG(regs, rdi), REG(regs, r8),	REG(regs, r9),	REG(regs, r10), REG(regs, r11),
		REG(regs, r12), REG(regs, r13), REG(regs, r14), REG(regs, r15),
	};

	return values[number];
}

/* mov %eax,disp(%base) and mov %eax,%fs:disp: the forms that compilers make for a member of libc's block. */
uint64_t native_call_stores(const struct native_regs *regs, const unsigned char bytes[NATIVE_STORE_MAX])
{
	bool fs = bytes[0] == 0x64;
	struct x86_layout in;
	unsigned mode, low;
	int32_t far = 0;

	if (x86_parse(&in, bytes, NATIVE_STORE_MAX) < 0 || in.map != X86_MAP_ONE || in.opcode != 0x89 ||
	    in.prefixes != fs || (in.rex && (fs || in.rex != 0x41)) || x86_reg_field(&in) || x86_is_register(&in))
		return 0;
	mode = in.modrm >> 6;
	low = in.modrm & 7;
	memcpy(&far, bytes + in.displacement_at, in.displacement_size);
	if (fs) /* no base, no index */
		return !mode && low == 4 && bytes[in.modrm_at + 1] == 0x25 ? REG(regs, fs_base) + (uint64_t)(int64_t)far
									   : 0;
	if (low == 4 || !mode)
		return 0;
	return register_of(regs, (in.rex ? 8 : 0) + low) + (uint64_t)(int64_t)(mode == 1 ? (int8_t)far : far);
}

void native_call_make(struct native_regs *regs, uint64_t pc, long number, const uint64_t arguments[6])
{
	REG(regs, orig_rax) = NO_CALL;
	REG(regs, rip) = pc;
	REG(regs, rax) = (uint64_t)number;
	REG(regs, rdi) = arguments[0];
	REG(regs, rsi) = arguments[1];
	REG(regs, rdx) = arguments[2];
	REG(regs, r10) = arguments[3];
	REG(regs, r8) = arguments[4];
	REG(regs, r9) = arguments[5];
}

size_t native_launch_code(unsigned char *out, size_t size, const struct native_regs *regs, uint64_t entry,
			  uint64_t argument, size_t *start)
{
	const struct launch_words words = {
		.argument = argument,
		.entry = entry,
		.pc = REG(regs, rip),
		.flags = REG(regs, eflags) & ~(uint64_t)FLAG_TRAP,
		.rsp = REG(regs, rsp),
		.rax = REG(regs, rax),
		.rbx = REG(regs, rbx),
		.rcx = REG(regs, rcx),
		.rdx = REG(regs, rdx),
		.rsi = REG(regs, rsi),
		.rdi = REG(regs, rdi),
		.rbp = REG(regs, rbp),
		.r8 = REG(regs, r8),
		.r9 = REG(regs, r9),
		.r10 = REG(regs, r10),
		.r11 = REG(regs, r11),
		.r12 = REG(regs, r12),
		.r13 = REG(regs, r13),
		.r14 = REG(regs, r14),
		.r15 = REG(regs, r15),
	};
	size_t length = (size_t)(launch_end - launch_begin);

	*start = (size_t)(launch_code - launch_begin);
	if (length > size || *start != sizeof(words))
		return 0;
	memcpy(out, launch_begin, length);
	memcpy(out, &words, sizeof(words));
	return length;
}

void native_launch_go(struct native_regs *regs, uint64_t pc)
{
	REG(regs, orig_rax) = NO_CALL;
	REG(regs, rip) = pc;
	REG(regs, rsp) = (REG(regs, rsp) - RED_ZONE) & ~(uint64_t)(STACK_ALIGN - 1);
}
