/* Registers around calls of handled functions, and faults, x86-64 (handled.h). */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include <cmocka.h>

#include "handled.h"
#include "registers_text.h"

const int fault_kinds[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
const unsigned fault_kinds_count = sizeof(fault_kinds) / sizeof(fault_kinds[0]);
const uint32_t vectors_controls[2] = {0x1f80, 0x3f80}; /* MXCSR */

__asm__(REGISTERS_MACROS "callee callee_call\n"
			 "callee callee_both\n" REGISTERS_CALL);

void check_shown(const struct calltap_registers *shown, uint64_t base)
{
	const uint64_t values[] = {shown->rax, shown->rdx, shown->rcx, shown->rbx, shown->rbp,
				   shown->rsi, shown->rdi, shown->r8,  shown->r9,  shown->r10,
				   shown->r11, shown->r12, shown->r13, shown->r14, shown->r15};

	for (uint64_t i = 0; i < REGISTERS; i++)
		assert_int_equal(values[i], base + i);
}

#define EACH_XMM(op)                                                                                                   \
	op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7) op(8) op(9) op(10) op(11) op(12) op(13) op(14) op(15)
#define LOAD(n)	 "movups 16*" #n "(%0), %%xmm" #n "\n\t"
#define STORE(n) "movups %%xmm" #n ", 16*" #n "(%1)\n\t"
#define ONES(n)	 "pcmpeqb %%xmm" #n ", %%xmm" #n "\n\t"
#define NAME(n)	 "xmm" #n,

void spoil_vectors(void)
{
	uint32_t mxcsr = 0x1f80 | 0x6000;

	__asm__ volatile(EACH_XMM(ONES) "ldmxcsr %0\n\tfldz\n\tfld1\n\t" : : "m"(mxcsr) : EACH_XMM(NAME) "memory");
}

void call_with_vectors(const struct vectors *in, struct vectors *out)
{
	uint32_t own;

	__asm__ volatile("stmxcsr %0" : "=m"(own));
	__asm__ volatile(EACH_XMM(LOAD) "ldmxcsr 256(%0)\n\t"
					"push %%rbp\n\tpush %1\n\tcall callee_both\n\tpop %%rdx\n\tpop %%rbp\n\t"
					"mov %%rdx, %1\n\t" EACH_XMM(STORE) "stmxcsr 256(%1)\n\t"
			 : "+&D"(in), "+&S"(out)
			 :
			 : EACH_XMM(NAME) "memory", "cc", "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12",
			   "r13", "r14", "r15");
	__asm__ volatile("ldmxcsr %0" : : "m"(own));
}

__attribute__((noinline)) void fault_now(int signal, bool vectors, void *hole)
{
	if (vectors)
		__asm__ volatile("pcmpeqb %%xmm0, %%xmm0\n\tpcmpeqb %%xmm15, %%xmm15" : : : "xmm0", "xmm15");
	__asm__ volatile("mov %0, %%eax\n\t"
			 ".irp reg, rbx, rcx, rdx, rdi, r8, r9, r10, r11, r12, r13, r14, r15\n\t"
			 "mov $-1, %%\\reg\n\t"
			 ".endr\n\t"
			 "std\n\t"
			 "cmp $11, %%eax\n\tjne 1f\n\tmovl $0, 0x1234\n"
			 "1: cmp $7, %%eax\n\tjne 2f\n\tmovl $0, (%%rsi)\n"
			 "2: cmp $4, %%eax\n\tjne 3f\n\tud2\n"
			 "3: xor %%eax, %%eax\n\txor %%ecx, %%ecx\n\tdiv %%ecx\n"
			 :
			 : "g"(signal), "S"(hole)
			 : "memory", "rax", "rbx", "rcx", "rdx", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
			   "r15");
}

void piece_frame(uint64_t *words, uint64_t sp)
{
	ucontext_t *left = (ucontext_t *)(words + 2); /* behind the address to return to, which is not aligned */

	left->uc_flags = 7;
	left->uc_mcontext.gregs[REG_RSP] = (greg_t)sp;
	left->uc_mcontext.gregs[REG_CSGSFS] = 0x33;
	sigaddset(&left->uc_sigmask, SIGUSR1);
}
