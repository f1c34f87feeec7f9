/*
 * eBPF programs as text, in the form in which the kernel and LLVM write them:
 *
 *     r2 = 7                            w3 += w2          r4 s/= -3          r5 = (s8)r4      r1 = be16 r1
 *     r6 = 0x123456789 ll               r7 = map 2        r8 = -r8
 *     r1 = *(u32 *)(r1 + 8)             r1 = *(s16 *)(r10 - 2)
 *     *(u8 *)(r10 - 1) = r2             *(u64 *)(r10 - 16) = 5
 *     lock *(u64 *)(r1 + 0) += r2       r2 = atomic_fetch_or((u32 *)(r1 + 4), r2)
 *     r2 = xchg_64(r1 + 0, r2)          r0 = cmpxchg_32(r1 + 0, r0, r2)
 *     if r1 s> -1 goto done             if w2 & 4 goto +3                   goto done
 *     done: call 5                      exit
 *
 * One instruction a line; `;` ends one, too, `#` begins a comment.
 *
 * Callers: the verifier's messages, tests.  Context: host.
 */
#ifndef BPF_TEXT_H
#define BPF_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include <calltap/diag.h>

struct bpf_insn;

#define BPF_TEXT_MAX 80u /* bytes of an instruction's text, with a NUL */

/*
 * Write a valid instruction (see bpf_insn_fault()) as text, and jumps as `goto +N`.  The instruction that loads a
 * 64-bit constant has two parts; the function reads in[1], too, then.
 */
void bpf_disassemble(char text[BPF_TEXT_MAX], const struct bpf_insn *in);
/*
 * Read a program; *count becomes the number of its instructions, and `insns` has room for `room`.  -EINVAL: the
 * diagnosis names the line; -E2BIG: there is no room.
 */
int bpf_assemble(struct bpf_insn *insns, uint32_t *count, uint32_t room, const char *text, struct calltap_diag *diag)
	__attribute__((warn_unused_result));

#endif
