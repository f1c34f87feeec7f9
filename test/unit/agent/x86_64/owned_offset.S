/* The address that the recorders take for the calling thread's block: thread_offset of by_id/. */
#include <thread_offset.inc>

	.text
	.globl	owned_by_offset
	.type	owned_by_offset, @function
owned_by_offset:
	thread_offset %rax, %rdx
	add	%fs:0, %rax
	ret
	.size	owned_by_offset, . - owned_by_offset

	.section .note.GNU-stack, "", @progbits
