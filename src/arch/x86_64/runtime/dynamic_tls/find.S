/*
 * Where libc has noted which of a thread's modules the agent is (thread_block.h).  Called by the constructor.  Context:
 * control.
 */
#include "../function.inc"

	.text
	function arch_block_index
	endbr64
	lea	probe_thread@tlsgd(%rip), %rdi	/* as compilers write it before they call __tls_get_addr() */
	mov	%rdi, %rax
	ret
	function_end arch_block_index

	.globl	arch_block_slot
	.hidden	arch_block_slot
	.type	arch_block_slot, @object
	.comm	arch_block_slot, 8, 8

	.section .note.GNU-stack, "", @progbits
