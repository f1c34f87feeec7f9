/*
 * A personality routine that asks for the CFA, as LuaJIT's does: of a frame in assembly that calls traced functions,
 * which throw.
 *
 * personality [ROUNDS]: prints how many exceptions have come to the frame, and how often it was told another CFA than
 * its stack pointer at the call; ends with 0 if none.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unwind.h>

#define ROUNDS	    2000
#define DEPTHS	    5
#define BY_ASSEMBLY __attribute__((used, externally_visible)) /* the second word for link-time optimisation */
#define TRACED	    __attribute__((noinline))

BY_ASSEMBLY uint64_t sp_at_call; /* of frame() */
static struct _Unwind_Exception exception;
static unsigned caught, wrong;
int frame(int depth); /* 1: an exception has come */
extern const char landing[];

#if defined(__x86_64__)
__asm__(".pushsection .text\n.globl frame\n.type frame, %function\nframe:\n"
	".cfi_startproc\n.cfi_personality 0x9b, reference\n"
	"push %rbx\n.cfi_adjust_cfa_offset 8\n"
	"mov sp_at_call@GOTPCREL(%rip), %rax\nmov %rsp, (%rax)\n"
	"call throws@PLT\n"
	"xor %eax, %eax\njmp 1f\n"
	".globl landing\nlanding: mov $1, %eax\n"
	"1: pop %rbx\n.cfi_adjust_cfa_offset -8\nret\n"
	".cfi_endproc\n.size frame, . - frame\n.popsection\n");
#elif defined(__aarch64__)
__asm__(".pushsection .text\n.globl frame\n.type frame, %function\nframe:\n"
	".cfi_startproc\n.cfi_personality 0x9b, reference\n"
	"stp x29, x30, [sp, #-16]!\n.cfi_adjust_cfa_offset 16\n.cfi_offset x29, -16\n.cfi_offset x30, -8\n"
	"adrp x9, sp_at_call\nadd x9, x9, :lo12:sp_at_call\nmov x10, sp\nstr x10, [x9]\n"
	"bl throws\n"
	"mov w0, #0\nb 1f\n"
	".globl landing\nlanding: mov w0, #1\n"
	"1: ldp x29, x30, [sp], #16\n.cfi_adjust_cfa_offset -16\nret\n"
	".cfi_endproc\n.size frame, . - frame\n.popsection\n");
#else
__asm__(".pushsection .text\n.globl frame\n.type frame, %function\nframe:\n"
	".cfi_startproc\n.cfi_personality 0x9b, reference\n"
	"addi sp, sp, -16\n.cfi_adjust_cfa_offset 16\nsd ra, 8(sp)\n.cfi_offset ra, -8\n"
	"lla t0, sp_at_call\nsd sp, (t0)\n"
	"call throws\n"
	"li a0, 0\nj 1f\n"
	".globl landing\nlanding: li a0, 1\n"
	"1: ld ra, 8(sp)\naddi sp, sp, 16\n.cfi_adjust_cfa_offset -16\nret\n"
	".cfi_endproc\n.size frame, . - frame\n.popsection\n");
#endif

BY_ASSEMBLY _Unwind_Reason_Code personality_of_frame(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
						     struct _Unwind_Exception *thrown, struct _Unwind_Context *context)
{
	(void)version;
	(void)class;
	(void)thrown;
	if (_Unwind_GetCFA(context) != sp_at_call) {
		if (!wrong++)
			fprintf(stderr, "the CFA is %#lx, not %#lx\n", (unsigned long)_Unwind_GetCFA(context),
				(unsigned long)sp_at_call);
	}
	if (actions & _UA_SEARCH_PHASE)
		return _URC_HANDLER_FOUND;
	if (!(actions & _UA_HANDLER_FRAME))
		return _URC_CONTINUE_UNWIND;
	_Unwind_SetIP(context, (uintptr_t)landing);
	return _URC_INSTALL_CONTEXT;
}

__asm__(".pushsection .data\n.p2align 3\n.hidden reference\nreference: .dc.a personality_of_frame\n.popsection\n");

/* throws_within() and throws() return if nobody takes the exception. */
TRACED void throws_within(int depth)
{
	if (depth > 0)
		throws_within(depth - 1);
	else
		_Unwind_RaiseException(&exception);
	__asm__ volatile(""); /* no tail call */
}

BY_ASSEMBLY TRACED void throws(int depth)
{
	throws_within(depth % DEPTHS);
	__asm__ volatile("");
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : ROUNDS;

	for (int i = 0; i < rounds; i++)
		caught += (unsigned)frame(i);
	printf("%u caught, %u wrong\n", caught, wrong);
	return caught != (unsigned)rounds || wrong != 0;
}
