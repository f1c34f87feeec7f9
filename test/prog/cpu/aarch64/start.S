/*
 * How a program starts, in place of the C library's own start files: those have no landing pads, and a program is held to
 * them (BTI) when all of it has them.
 */
	.text
	.globl	_start
	.type	_start, %function
_start:
	hint	34			/* bti c */
	mov	x29, 0
	mov	x30, 0
	mov	x5, x0
	ldr	x1, [sp]
	add	x2, sp, 8
	mov	x6, sp
	adrp	x0, main
	add	x0, x0, :lo12:main
	mov	x3, 0
	mov	x4, 0
	bl	__libc_start_main
	udf	0
	.size	_start, . - _start

	.data
	.globl	__dso_handle
	.hidden	__dso_handle
	.balign	8
__dso_handle:
	.8byte	0

	.section .note.gnu.property, "a"
	.balign	8
	.word	4, 16, 5
	.asciz	"GNU"
	.word	0xc0000000, 4, 1, 0	/* GNU_PROPERTY_AARCH64_FEATURE_1_AND: BTI */
	.section .note.GNU-stack, "", %progbits
