/*
 * The macros of snippets_<cpu>.S: SNIPPET(instruction; code that shows its effect).  The CPU's file defines TRAP. (Not
 * C: it is not formatted as such.)
 */
/* clang-format off */
#define SNIPPET(...) 9: __VA_ARGS__; TRAP; 8: .pushsection .data.rel.ro, "aw"; .quad 9b, 8b; .popsection

#define NAME(name) .pushsection .data.rel.ro, "aw"; .balign 8; .globl name; name: .popsection

#define BEGIN NAME(snippets); .text; .globl landing; .balign 8; landing: TRAP

#define END NAME(snippets_end); .section .note.GNU-stack, "", %progbits
