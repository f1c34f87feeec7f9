/*
 * The encoders of all CPUs: each makes the intended bytes.  With --print the vectors are printed, for check_texts.py
 * to see whether binutils reads them as intended, too: CPU ADDRESS BYTES TEXT
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "arch/aarch64/isa/encode.h"
#include "arch/riscv64/isa/encode.h"
#include "arch/x86_64/isa/encode.h"
#include "support.h"

#define ADDRESS UINT64_C(0x401000)

struct word {
	uint32_t made, meant;
	const char *text;
};

/* Called for each vector, with the bytes that were made, the intended ones in hexadecimal, and their text. */
typedef void visitor(const char *cpu, const struct isa_out *made, const char *meant, const char *text);

static void each_word(visitor *visit, const char *cpu, const struct word *words, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint8_t code[4], meant[4];
		struct isa_out out = {code, sizeof(code), 0, ADDRESS};
		char hex[9];

		isa_put32(&out, words[i].made);
		isa_store32(meant, words[i].meant);
		snprintf(hex, sizeof(hex), "%02x%02x%02x%02x", meant[0], meant[1], meant[2], meant[3]);
		visit(cpu, &out, hex, words[i].text);
	}
}

static uint32_t bitmask(uint64_t value)
{
	uint32_t operand = 0;

	assert_true(a64_bitmask(&operand, value));
	return operand;
}

static void each_riscv64(visitor *visit)
{
	const struct word words[] = {
		{rv_lui(RV_T0, 0x12345000), 0x123452b7, "lui t0,0x12345"},
		{rv_lui(RV_T0, -4096), 0xfffff2b7, "lui t0,0xfffff"},
		{rv_auipc(RV_T0, -4096), 0xfffff297, "auipc t0,0xfffff"},
		{rv_jal(RV_RA, -4), 0xffdff0ef, "jal ra,0x400ffc"},
		{rv_jal(RV_T0, 0xffffe), 0x7ffff2ef, "jal t0,0x500ffe"},
		{rv_j(-0x100000), 0x8000006f, "jal zero,0x301000"},
		{rv_jalr(RV_T0, RV_T0, -2048), 0x800282e7, "jalr t0,-2048(t0)"},
		{rv_jr(RV_T0), 0x00028067, "jalr zero,0(t0)"},
		{rv_branch(RV_LT, RV_S11, RV_T6, 2), 0x01fdc163, "blt s11,t6,0x401002"},
		{rv_branch(RV_GE, RV_A0, RV_A1, -2), 0xfeb55fe3, "bge a0,a1,0x400ffe"},
		{rv_beq(RV_RA, RV_SP, 4094), 0x7e208fe3, "beq ra,sp,0x401ffe"},
		{rv_bne(RV_GP, RV_TP, -4096), 0x80419063, "bne gp,tp,0x400000"},
		{rv_bltu(RV_T0, RV_T1, 8), 0x0062e463, "bltu t0,t1,0x401008"},
		{rv_bgeu(RV_SP, RV_T1, 0x7e0), 0x7e617063, "bgeu sp,t1,0x4017e0"},
		{rv_lw(RV_RA, 4, RV_SP), 0x00412083, "lw ra,4(sp)"},
		{rv_ld(RV_T3, -8, RV_T3), 0xff8e3e03, "ld t3,-8(t3)"},
		{rv_sw(RV_RA, 4, RV_SP), 0x00112223, "sw ra,4(sp)"},
		{rv_sd(RV_RA, 2047, RV_SP), 0x7e113fa3, "sd ra,2047(sp)"},
		{rv_addi(RV_RA, RV_SP, -3), 0xffd10093, "addi ra,sp,-3"},
		{rv_addiw(RV_RA, RV_SP, 3), 0x0031009b, "addiw ra,sp,3"},
		{rv_mv(RV_T1, RV_RA), 0x00008313, "addi t1,ra,0"},
		{rv_slli(RV_RA, RV_SP, 63), 0x03f11093, "slli ra,sp,0x3f"},
		{rv_srli(RV_A7, RV_S1, 63), 0x03f4d893, "srli a7,s1,0x3f"},
		{rv_add(RV_RA, RV_SP, RV_GP), 0x003100b3, "add ra,sp,gp"},
		{rv_sub(RV_RA, RV_SP, RV_GP), 0x403100b3, "sub ra,sp,gp"},
		{rv_andi(RV_A0, RV_A1, -2048), 0x8005f513, "andi a0,a1,-2048"},
		{rv_ori(RV_A0, RV_A1, 2047), 0x7ff5e513, "ori a0,a1,2047"},
		{rv_xori(RV_A0, RV_A1, -1), 0xfff5c513, "xori a0,a1,-1"},
		{rv_srai(RV_A0, RV_A1, 63), 0x43f5d513, "srai a0,a1,0x3f"},
		{rv_w(rv_srai(RV_A0, RV_A1, 31)), 0x41f5d51b, "sraiw a0,a1,0x1f"},
		{rv_w(rv_slli(RV_A0, RV_A1, 31)), 0x01f5951b, "slliw a0,a1,0x1f"},
		{rv_w(rv_sub(RV_A0, RV_A1, RV_A2)), 0x40c5853b, "subw a0,a1,a2"},
		{rv_and(RV_A0, RV_A1, RV_A2), 0x00c5f533, "and a0,a1,a2"},
		{rv_or(RV_A0, RV_A1, RV_A2), 0x00c5e533, "or a0,a1,a2"},
		{rv_xor(RV_A0, RV_A1, RV_A2), 0x00c5c533, "xor a0,a1,a2"},
		{rv_sll(RV_A0, RV_A1, RV_A2), 0x00c59533, "sll a0,a1,a2"},
		{rv_w(rv_srl(RV_A0, RV_A1, RV_A2)), 0x00c5d53b, "srlw a0,a1,a2"},
		{rv_sra(RV_A0, RV_A1, RV_A2), 0x40c5d533, "sra a0,a1,a2"},
		{rv_mul(RV_A0, RV_A1, RV_A2), 0x02c58533, "mul a0,a1,a2"},
		{rv_w(rv_mul(RV_A0, RV_A1, RV_A2)), 0x02c5853b, "mulw a0,a1,a2"},
		{rv_div(RV_A0, RV_A1, RV_A2), 0x02c5c533, "div a0,a1,a2"},
		{rv_w(rv_divu(RV_A0, RV_A1, RV_A2)), 0x02c5d53b, "divuw a0,a1,a2"},
		{rv_rem(RV_A0, RV_A1, RV_A2), 0x02c5e533, "rem a0,a1,a2"},
		{rv_w(rv_remu(RV_A0, RV_A1, RV_A2)), 0x02c5f53b, "remuw a0,a1,a2"},
		{rv_load(RV_BYTE, RV_A0, -1, RV_A1), 0xfff58503, "lb a0,-1(a1)"},
		{rv_load(RV_HALF, RV_A0, 2, RV_A1), 0x00259503, "lh a0,2(a1)"},
		{rv_load(RV_BYTE + RV_UNSIGNED, RV_A0, 2, RV_A1), 0x0025c503, "lbu a0,2(a1)"},
		{rv_load(RV_HALF + RV_UNSIGNED, RV_A0, 2, RV_A1), 0x0025d503, "lhu a0,2(a1)"},
		{rv_load(RV_WORD + RV_UNSIGNED, RV_A0, 2, RV_A1), 0x0025e503, "lwu a0,2(a1)"},
		{rv_store(RV_BYTE, RV_A0, -2048, RV_A1), 0x80a58023, "sb a0,-2048(a1)"},
		{rv_store(RV_HALF, RV_A0, 33, RV_A1), 0x02a590a3, "sh a0,33(a1)"},
		{rv_amo(RV_AMOADD, RV_RELAXED, RV_WORD, RV_ZERO, RV_A2, RV_A1), 0x00c5a02f, "amoadd.w zero,a2,(a1)"},
		{rv_amo(RV_AMOSWAP, RV_ORDERED, RV_DOUBLE, RV_A0, RV_A2, RV_A1), 0x0ec5b52f,
		 "amoswap.d.aqrl a0,a2,(a1)"},
		{rv_amo(RV_AMOXOR, RV_RELEASE, RV_WORD, RV_A0, RV_A2, RV_A1), 0x22c5a52f, "amoxor.w.rl a0,a2,(a1)"},
		{rv_amo(RV_AMOOR, RV_ACQUIRE, RV_WORD, RV_A0, RV_A2, RV_A1), 0x44c5a52f, "amoor.w.aq a0,a2,(a1)"},
		{rv_amo(RV_AMOAND, RV_ORDERED, RV_DOUBLE, RV_A0, RV_A2, RV_A1), 0x66c5b52f, "amoand.d.aqrl a0,a2,(a1)"},
		{rv_lr(RV_RELAXED, RV_WORD, RV_T0, RV_T1), 0x100322af, "lr.w t0,(t1)"},
		{rv_sc(RV_RELEASE, RV_DOUBLE, RV_T3, RV_T0, RV_T1), 0x1a533e2f, "sc.d.rl t3,t0,(t1)"},
		{RV_FENCE, 0x0330000f, "fence rw,rw"},
		{RV_NOP, 0x00000013, "addi zero,zero,0"},
		{RV_EBREAK, 0x00100073, "ebreak"},
	};

	each_word(visit, "riscv64", words, sizeof(words) / sizeof(words[0]));
}

static void each_aarch64(visitor *visit)
{
	const struct word words[] = {
		{a64_b(-4), 0x17ffffff, "b 0x400ffc"},
		{a64_bl(0x7fffffc), 0x95ffffff, "bl 0x8400ffc"},
		{a64_b_cond(A64_HS, 8), 0x54000042, "b.cs 0x401008"},
		{a64_b_cond(A64_LE, -0x100000), 0x5480000d, "b.le 0x301000"},
		{a64_cbz_x(3, -8), 0xb4ffffc3, "cbz x3, 0x400ff8"},
		{a64_cbnz_x(3, 8), 0xb5000043, "cbnz x3, 0x401008"},
		{a64_adr(17, -1), 0x70fffff1, "adr x17, 0x400fff"},
		{a64_adrp(A64_X16, -0x1000), 0xf0fffff0, "adrp x16, 0x400000"},
		{a64_adrp(A64_X16, 0x12345000), 0xb0091a30, "adrp x16, 0x12746000"},
		{a64_ldr_x(A64_X16, A64_X16, 32760), 0xf97ffe10, "ldr x16, [x16, #32760]"},
		{a64_str_x(1, A64_SP, 8), 0xf90007e1, "str x1, [sp, #8]"},
		{a64_ldr_x_at(A64_X16, A64_X17, 3), 0xf8636a30, "ldr x16, [x17, x3]"},
		{a64_ldr_literal_w(3, -16), 0x18ffff83, "ldr w3, 0x400ff0"},
		{a64_ldr_literal_x(3, 16), 0x58000083, "ldr x3, 0x401010"},
		{a64_mov_x(A64_X17, A64_X30), 0xaa1e03f1, "mov x17, x30"},
		{a64_add_imm_x(0, A64_SP, 17), 0x910047e0, "add x0, sp, #0x11"},
		{a64_sub_imm_x(A64_SP, A64_SP, 16), 0xd10043ff, "sub sp, sp, #0x10"},
		{a64_add_page_x(1, 2, 0x5000), 0x91401441, "add x1, x2, #0x5, lsl #12"},
		{a64_movz_x(1, 0xffff, 16), 0xd2bfffe1, "mov x1, #0xffff0000"},
		{a64_movk_x(1, 0xabcd, 48), 0xf2f579a1, "movk x1, #0xabcd, lsl #48"},
		{a64_cmp_sp_x(A64_SP, A64_X16), 0xeb3063ff, "cmp sp, x16"},
		{a64_cmp_x(1, 2), 0xeb02003f, "cmp x1, x2"},
		{a64_br(A64_X16), 0xd61f0200, "br x16"},
		{a64_blr(A64_X16), 0xd63f0200, "blr x16"},
		{a64_ret(A64_X16), 0xd65f0200, "ret x16"},
		{a64_mrs_tpidr_el0(A64_X16), 0xd53bd050, "mrs x16, tpidr_el0"},
		{a64_movn_x(1, 0xffff, 16), 0x92bfffe1, "mov x1, #0xffffffff0000ffff"},
		{a64_w(a64_movn_x(1, 7, 0)), 0x128000e1, "mov w1, #0xfffffff8"},
		{a64_add_x(1, 2, 30), 0x8b1e0041, "add x1, x2, x30"},
		{a64_w(a64_add_x(1, 2, 30)), 0x0b1e0041, "add w1, w2, w30"},
		{a64_sub_x(1, A64_XZR, 2), 0xcb0203e1, "neg x1, x2"},
		{a64_and_x(1, 2, 3), 0x8a030041, "and x1, x2, x3"},
		{a64_orr_x(1, 2, 3), 0xaa030041, "orr x1, x2, x3"},
		{a64_w(a64_eor_x(1, 2, 3)), 0x4a030041, "eor w1, w2, w3"},
		{a64_tst_x(1, 2), 0xea02003f, "tst x1, x2"},
		{a64_mul_x(1, 2, 3), 0x9b037c41, "mul x1, x2, x3"},
		{a64_msub_x(1, 2, 3, 4), 0x9b039041, "msub x1, x2, x3, x4"},
		{a64_udiv_x(1, 2, 3), 0x9ac30841, "udiv x1, x2, x3"},
		{a64_w(a64_sdiv_x(1, 2, 3)), 0x1ac30c41, "sdiv w1, w2, w3"},
		{a64_lslv_x(1, 2, 3), 0x9ac32041, "lsl x1, x2, x3"},
		{a64_lsrv_x(1, 2, 3), 0x9ac32441, "lsr x1, x2, x3"},
		{a64_w(a64_asrv_x(1, 2, 3)), 0x1ac32841, "asr w1, w2, w3"},
		{a64_cmp_imm_x(1, 4095), 0xf13ffc3f, "cmp x1, #0xfff"},
		{a64_w(a64_cmn_imm_x(1, 1)), 0x3100043f, "cmn w1, #0x1"},
		{a64_and_imm_x(1, 2, bitmask(0xff)), 0x92401c41, "and x1, x2, #0xff"},
		{a64_orr_imm_x(1, 2, bitmask(0x8000000000000001)), 0xb2410441, "orr x1, x2, #0x8000000000000001"},
		{a64_eor_imm_x(1, 2, bitmask(0x5555555555555555)), 0xd200f041, "eor x1, x2, #0x5555555555555555"},
		{a64_w(a64_and_imm_x(1, 2, bitmask(0xfffffff0fffffff0))), 0x121c6c41, "and w1, w2, #0xfffffff0"},
		{a64_tst_imm_x(3, bitmask(0x3c003c003c003c00)), 0xf2068c7f, "tst x3, #0x3c003c003c003c00"},
		{a64_ubfm_x(1, 2, 61, 60), 0xd37df041, "lsl x1, x2, #3"},
		{a64_ubfm_x(1, 2, 3, 63), 0xd343fc41, "lsr x1, x2, #3"},
		{a64_bfm_w(a64_ubfm_x(1, 2, 0, 15)), 0x53003c41, "uxth w1, w2"},
		{a64_sbfm_x(1, 2, 0, 31), 0x93407c41, "sxtw x1, w2"},
		{a64_bfm_w(a64_sbfm_x(1, 2, 31, 31)), 0x131f7c41, "asr w1, w2, #31"},
		{a64_rev_x(1, 2), 0xdac00c41, "rev x1, x2"},
		{a64_rev_w(1, 2), 0x5ac00841, "rev w1, w2"},
		{a64_rev16_w(1, 2), 0x5ac00441, "rev16 w1, w2"},
		{A64_NOP, 0xd503201f, "nop"},
		{A64_BTI_C, 0xd503245f, "bti c"},
		{A64_BRK, 0xd4200000, "brk #0x0"},
	};

	each_word(visit, "aarch64", words, sizeof(words) / sizeof(words[0]));
}

static void each_aarch64_access(visitor *visit)
{
	const struct word words[] = {
		{a64_access_scaled(A64_STRB, 1, A64_SP, 4095), 0x393fffe1, "strb w1, [sp, #4095]"},
		{a64_access_scaled(A64_LDRB, 1, 2, 0), 0x39400041, "ldrb w1, [x2]"},
		{a64_access_scaled(A64_LDRSB, 1, 2, 3), 0x39800c41, "ldrsb x1, [x2, #3]"},
		{a64_access_scaled(A64_STRH, 1, 2, 3), 0x79000c41, "strh w1, [x2, #6]"},
		{a64_access_scaled(A64_LDRH, 1, 2, 3), 0x79400c41, "ldrh w1, [x2, #6]"},
		{a64_access_near(A64_LDRSH, 1, 2, -256), 0x78900041, "ldursh x1, [x2, #-256]"},
		{a64_access_near(A64_STR_W, 1, 2, 255), 0xb80ff041, "stur w1, [x2, #255]"},
		{a64_access_near(A64_LDR_W, 1, 2, -1), 0xb85ff041, "ldur w1, [x2, #-1]"},
		{a64_access_scaled(A64_LDRSW, 1, 2, 1), 0xb9800441, "ldrsw x1, [x2, #4]"},
		{a64_access_scaled(A64_STR_X, 1, 2, 4095), 0xf93ffc41, "str x1, [x2, #32760]"},
		{a64_access_near(A64_LDR_X, 1, 2, -8), 0xf85f8041, "ldur x1, [x2, #-8]"},
		{a64_stp_x(19, 20, A64_SP, 504), 0xa91fd3f3, "stp x19, x20, [sp, #504]"},
		{a64_ldp_x(19, 20, A64_SP, -512), 0xa96053f3, "ldp x19, x20, [sp, #-512]"},
		{a64_stp_pre_x(A64_X29, A64_X30, A64_SP, -16), 0xa9bf7bfd, "stp x29, x30, [sp, #-16]!"},
		{a64_ldp_post_x(A64_X29, A64_X30, A64_SP, 16), 0xa8c17bfd, "ldp x29, x30, [sp], #16"},
		{a64_ldxr(false, 1, 2), 0x885f7c41, "ldxr w1, [x2]"},
		{a64_ldxr(true, 1, A64_SP), 0xc85f7fe1, "ldxr x1, [sp]"},
		{a64_stxr(true, 3, 1, 2), 0xc8037c41, "stxr w3, x1, [x2]"},
		{a64_stlxr(false, 3, 1, 2), 0x8803fc41, "stlxr w3, w1, [x2]"},
		{A64_DMB_ISH, 0xd5033bbf, "dmb ish"},
	};

	each_word(visit, "aarch64", words, sizeof(words) / sizeof(words[0]));
}

static void each_x86_64(visitor *visit)
{
	enum { COUNT = 11 };
	const uint64_t to = 0x402000;
	struct isa_out out[COUNT];
	uint8_t code[COUNT][16];

	for (size_t i = 0; i < COUNT; i++)
		out[i] = (struct isa_out){code[i], sizeof(code[i]), 0, ADDRESS};
	x86_put_jmp(&out[0], to);
	x86_put_jmp_short(&out[1], ADDRESS);
	x86_put_call(&out[2], to);
	x86_put_jcc(&out[3], X86_B, to);
	x86_put_jcc(&out[4], X86_NE, ADDRESS);
	x86_put_call_slot(&out[5], to);
	x86_put_jmp_slot(&out[6], to);
	x86_put_push(&out[7], 0x1234567);
	x86_put_push(&out[8], 0x80000000);
	x86_put_store_stack(&out[9], 4, 0x7f12);
	x86_put_cmp_fs_sp(&out[10], -8);
	visit("x86_64", &out[0], "e9fb0f0000", "jmp 0x402000");
	visit("x86_64", &out[1], "ebfe", "jmp 0x401000");
	visit("x86_64", &out[2], "e8fb0f0000", "call 0x402000");
	visit("x86_64", &out[3], "0f82fa0f0000", "jb 0x402000");
	visit("x86_64", &out[4], "0f85faffffff", "jne 0x401000");
	visit("x86_64", &out[5], "ff15fa0f0000", "call *0xffa(%rip)");
	visit("x86_64", &out[6], "ff25fa0f0000", "jmp *0xffa(%rip)");
	visit("x86_64", &out[7], "6867452301", "push $0x1234567");
	visit("x86_64", &out[8], "6800000080", "push $0xffffffff80000000");
	visit("x86_64", &out[9], "c7442404127f0000", "movl $0x7f12,0x4(%rsp)");
	visit("x86_64", &out[10], "64483b2425f8ffffff", "cmp %fs:0xfffffffffffffff8,%rsp");
}

static void check(const char *cpu, const struct isa_out *made, const char *meant, const char *text)
{
	uint8_t bytes[16];

	if (made->length != isa_bytes(meant, bytes, sizeof(bytes)) || memcmp(made->code, bytes, made->length) != 0)
		fail_msg("%s: %s", cpu, text);
}

static void print(const char *cpu, const struct isa_out *made, const char *meant, const char *text)
{
	printf("%s %llx %s %s\n", cpu, (unsigned long long)made->address, meant, text);
}

static void riscv64(void **state)
{
	each_riscv64(check);
}

static void aarch64(void **state)
{
	each_aarch64(check);
	each_aarch64_access(check);
}

static void x86_64(void **state)
{
	each_x86_64(check);
}

/* The ends of what reaches. */
static void reaches(void **state)
{
	uint8_t code[8];
	struct isa_out out = {code, sizeof(code), 0, ADDRESS};

	assert_true(rv_jal_reaches(0xffffe) && rv_jal_reaches(-0x100000));
	assert_false(rv_jal_reaches(0x100000) || rv_jal_reaches(-0x100002) || rv_jal_reaches(1));
	assert_true(rv_branch_reaches(0xffe) && rv_branch_reaches(-0x1000));
	assert_false(rv_branch_reaches(0x1000) || rv_branch_reaches(-0x1002) || rv_branch_reaches(3));
	assert_true(a64_b_reaches(0x7fffffc) && a64_b_reaches(-0x8000000));
	assert_false(a64_b_reaches(0x8000000) || a64_b_reaches(-0x8000004) || a64_b_reaches(2));
	assert_true(a64_b_cond_reaches(0xffffc) && a64_b_cond_reaches(-0x100000));
	assert_false(a64_b_cond_reaches(0x100000) || a64_b_cond_reaches(-0x100004));
	assert_true(a64_adr_reaches(0xfffff) && a64_adr_reaches(-0x100000));
	assert_false(a64_adr_reaches(0x100000) || a64_adr_reaches(-0x100001));
	assert_true(a64_adrp_reaches(0xfffff000) && a64_adrp_reaches(-INT64_C(0x100000000)));
	assert_false(a64_adrp_reaches(0x100000000) || a64_adrp_reaches(-INT64_C(0x100001000)));
	assert_true(x86_reaches(&out, 5, ADDRESS + 5 + 0x7fffffff) && x86_reaches(&out, 5, ADDRESS + 5 - 0x80000000));
	assert_false(x86_reaches(&out, 5, ADDRESS + 6 + 0x7fffffff) || x86_reaches(&out, 5, ADDRESS + 4 - 0x80000000));
}

static void splits(void **state)
{
	static const int64_t offsets[] = {0,	  1,	    0x7ff,	0x800,	   0xfff,
					  0x1000, -1,	    -0x800,	-0x801,	   0x12345678,
					  -4096,  -2048001, 0x7ffff7ff, INT32_MIN, INT32_MIN - INT64_C(0x800)};
	int32_t hi, lo;

	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		assert_true(rv_pcrel_split(offsets[i], &hi, &lo));
		assert_int_equal(hi & 0xfff, 0);
		assert_true(lo >= -2048 && lo <= 2047);
		assert_int_equal((int64_t)hi + lo, offsets[i]);
	}
	assert_false(rv_pcrel_split(0x7ffff800, &hi, &lo));
	assert_false(rv_pcrel_split(INT32_MIN - INT64_C(0x801), &hi, &lo));
	assert_int_equal(a64_page_offset(0x1fff, 0x2000), 0x1000);
	assert_int_equal(a64_page_offset(0x2000, 0x1fff), -0x1000);
}

/* What an operand of a64_and_imm_x() means: the manual's DecodeBitMasks(). */
static uint64_t meaning_of(uint32_t operand)
{
	uint32_t n = isa_field(operand, 22, 1), turn = isa_field(operand, 16, 6), s = isa_field(operand, 10, 6);
	unsigned size = 32u << n, ones;
	uint64_t value;

	while (!n && size > 2 && s & size)
		size /= 2;
	ones = (s & (size - 1)) + 1;
	assert_true(ones < size && turn < size);
	value = UINT64_MAX >> (64 - ones);
	if (turn)
		value = (value >> turn | value << (size - turn)) & (UINT64_MAX >> (64 - size));
	for (; size < 64; size *= 2)
		value |= value << size;
	return value;
}

/* All values that are operands, and their neighbours, few of which are. */
static void bitmasks(void **state)
{
	uint32_t operand, found = 0;

	for (uint32_t field = 0; field < 1u << 13; field++) {
		uint32_t n = field >> 12, turn = isa_field(field, 6, 6), s = isa_field(field, 0, 6);
		unsigned size = n ? 64 : 32;

		while (!n && size > 1 && s & size)
			size /= 2;
		if (size < 2 || (s & (size - 1)) == size - 1 || turn >= size)
			continue; /* reserved, or another way to write an operand */
		found++;
		assert_true(a64_bitmask(&operand, meaning_of(field << 10)));
		assert_int_equal(operand, field << 10);
		for (unsigned bit = 0; bit < 64; bit++) {
			uint64_t value = meaning_of(field << 10) ^ UINT64_C(1) << bit;

			if (a64_bitmask(&operand, value))
				assert_true(meaning_of(operand) == value);
		}
	}
	assert_int_equal(found, 5334);
	assert_false(a64_bitmask(&operand, 0));
	assert_false(a64_bitmask(&operand, UINT64_MAX));
	assert_false(a64_bitmask(&operand, 5));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(riscv64), cmocka_unit_test(aarch64), cmocka_unit_test(x86_64),
		cmocka_unit_test(reaches), cmocka_unit_test(splits),  cmocka_unit_test(bitmasks),
	};

	if (argc == 1)
		return cmocka_run_group_tests(tests, NULL, NULL);
	each_riscv64(print);
	each_aarch64(print);
	each_aarch64_access(print);
	each_x86_64(print);
	return 0;
}
