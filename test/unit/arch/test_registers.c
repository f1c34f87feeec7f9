/*
 * The registers that RISC-V's instructions name, one instruction of each form, as binutils' assembler writes it; and
 * what is made of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "arch/riscv64/isa/decode.h"
#include "arch/riscv64/isa/encode.h"
#include "arch/riscv64/isa/registers.h"

#define BIT(number) (1u << (number))

static const struct {
	uint8_t length;
	uint32_t word, reads, writes;
} vectors[] = {
	{2, 0x0808, BIT(RV_SP), BIT(RV_A0)},		      /* c.addi4spn a0, sp, 16 */
	{2, 0x2588, BIT(RV_A1), 0},			      /* c.fld fa0, 8(a1) */
	{2, 0x42d0, BIT(RV_A3), BIT(RV_A2)},		      /* c.lw a2, 4(a3) */
	{2, 0x6498, BIT(RV_S1), BIT(RV_A4)},		      /* c.ld a4, 8(s1) */
	{2, 0xa588, BIT(RV_A1), 0},			      /* c.fsd fa0, 8(a1) */
	{2, 0xc2d0, BIT(RV_A2) | BIT(RV_A3), 0},	      /* c.sw a2, 4(a3) */
	{2, 0xe498, BIT(RV_A4) | BIT(RV_S1), 0},	      /* c.sd a4, 8(s1) */
	{2, 0x0001, 0, 0},				      /* c.nop */
	{2, 0x030d, BIT(RV_T1), BIT(RV_T1)},		      /* c.addi t1, 3 */
	{2, 0x2e0d, BIT(RV_T3), BIT(RV_T3)},		      /* c.addiw t3, 3 */
	{2, 0x4f8d, 0, BIT(RV_T6)},			      /* c.li t6, 3 */
	{2, 0x6f0d, 0, BIT(RV_T5)},			      /* c.lui t5, 3 */
	{2, 0x6105, BIT(RV_SP), BIT(RV_SP)},		      /* c.addi16sp sp, 32 */
	{2, 0x810d, BIT(RV_A0), BIT(RV_A0)},		      /* c.srli a0, 3 */
	{2, 0x858d, BIT(RV_A1), BIT(RV_A1)},		      /* c.srai a1, 3 */
	{2, 0x8a0d, BIT(RV_A2), BIT(RV_A2)},		      /* c.andi a2, 3 */
	{2, 0x8d0d, BIT(RV_A0) | BIT(RV_A1), BIT(RV_A0)},     /* c.sub a0, a1 */
	{2, 0x8c65, BIT(RV_S0) | BIT(RV_S1), BIT(RV_S0)},     /* c.and s0, s1 */
	{2, 0x9f3d, BIT(RV_A4) | BIT(RV_A5), BIT(RV_A4)},     /* c.addw a4, a5 */
	{2, 0xa011, 0, 0},				      /* c.j . */
	{2, 0xc291, BIT(RV_A3), 0},			      /* c.beqz a3, .+4 */
	{2, 0xe091, BIT(RV_S1), 0},			      /* c.bnez s1, .+4 */
	{2, 0x0e92, BIT(RV_T4), BIT(RV_T4)},		      /* c.slli t4, 4 */
	{2, 0x2522, BIT(RV_SP), 0},			      /* c.fldsp fa0, 8(sp) */
	{2, 0x42a2, BIT(RV_SP), BIT(RV_T0)},		      /* c.lwsp t0, 8(sp) */
	{2, 0x60a2, BIT(RV_SP), BIT(RV_RA)},		      /* c.ldsp ra, 8(sp) */
	{2, 0x8302, BIT(RV_T1), 0},			      /* c.jr t1 */
	{2, 0x8286, BIT(RV_RA), BIT(RV_T0)},		      /* c.mv t0, ra */
	{2, 0x9002, 0, 0},				      /* c.ebreak */
	{2, 0x9e02, BIT(RV_T3), BIT(RV_RA)},		      /* c.jalr t3 */
	{2, 0x9376, BIT(RV_T1) | BIT(RV_T4), BIT(RV_T1)},     /* c.add t1, t4 */
	{2, 0xa42a, BIT(RV_SP), 0},			      /* c.fsdsp fa0, 8(sp) */
	{2, 0xc41e, BIT(RV_SP) | BIT(RV_T2), 0},	      /* c.swsp t2, 8(sp) */
	{2, 0xe406, BIT(RV_SP) | BIT(RV_RA), 0},	      /* c.sdsp ra, 8(sp) */
	{4, 0x005e0303, BIT(RV_T3), BIT(RV_T1)},	      /* lb t1, 5(t3) */
	{4, 0xff843503, BIT(RV_S0), BIT(RV_A0)},	      /* ld a0, -8(s0) */
	{4, 0x004ea507, BIT(RV_T4), 0},			      /* flw fa0, 4(t4) */
	{4, 0x00af3227, BIT(RV_T5), 0},			      /* fsd fa0, 4(t5) */
	{4, 0x0ff0000f, 0, 0},				      /* fence */
	{4, 0x0000100f, 0, 0},				      /* fence.i */
	{4, 0xfe6fbc23, BIT(RV_T1) | BIT(RV_T6), 0},	      /* sd t1, -8(t6) */
	{4, 0x00530293, BIT(RV_T1), BIT(RV_T0)},	      /* addi t0, t1, 5 */
	{4, 0x005e8e1b, BIT(RV_T4), BIT(RV_T3)},	      /* addiw t3, t4, 5 */
	{4, 0x00005f17, 0, BIT(RV_T5)},			      /* auipc t5, 5 */
	{2, 0x6f95, 0, BIT(RV_T6)},			      /* lui t6, 5 */
	{4, 0x01c302b3, BIT(RV_T1) | BIT(RV_T3), BIT(RV_T0)}, /* add t0, t1, t3 */
	{4, 0x02c5853b, BIT(RV_A1) | BIT(RV_A2), BIT(RV_A0)}, /* mulw a0, a1, a2 */
	{4, 0x100332af, BIT(RV_T1), BIT(RV_T0)},	      /* lr.d t0, (t1) */
	{4, 0x19df2e2f, BIT(RV_T4) | BIT(RV_T5), BIT(RV_T3)}, /* sc.w t3, t4, (t5) */
	{4, 0x00b6302f, BIT(RV_A1) | BIT(RV_A2), 0},	      /* amoadd.d zero, a1, (a2) */
	{4, 0x01c36263, BIT(RV_T1) | BIT(RV_T3), 0},	      /* bltu t1, t3, .+4 */
	{4, 0x004002ef, 0, BIT(RV_T0)},			      /* jal t0, .+4 */
	{4, 0x008e0367, BIT(RV_T3), BIT(RV_T1)},	      /* jalr t1, 8(t3) */
	{4, 0x00000073, 0, 0},				      /* ecall */
	{4, 0x003312f3, BIT(RV_T1), BIT(RV_T0)},	      /* csrrw t0, 3, t1 */
	{4, 0x0033d2f3, 0, BIT(RV_T0)},			      /* csrrwi t0, 3, 7 */
	{4, 0x6ac5f543, 0, 0},				      /* fmadd.d fa0, fa1, fa2, fa3 */
	{4, 0x00c5f553, 0, 0},				      /* fadd.s fa0, fa1, fa2 */
	{4, 0xd2030553, BIT(RV_T1), 0},			      /* fcvt.d.w fa0, t1 */
	{4, 0xc2057e53, 0, BIT(RV_T3)},			      /* fcvt.w.d t3, fa0 */
	{4, 0xe2050ed3, 0, BIT(RV_T4)},			      /* fmv.x.d t4, fa0 */
	{4, 0xf00f0553, BIT(RV_T5), 0},			      /* fmv.w.x fa0, t5 */
	{4, 0xa0b522d3, 0, BIT(RV_T0)},			      /* feq.s t0, fa0, fa1 */
	{4, 0xe2059fd3, 0, BIT(RV_T6)},			      /* fclass.d t6, fa1 */
	{4, 0x000372d7, BIT(RV_T1), BIT(RV_T0)},	      /* vsetvli t0, t1, e8 */
	{4, 0xc003f2d7, 0, BIT(RV_T0)},			      /* vsetivli t0, 7, e8 */
	{4, 0x81c372d7, BIT(RV_T1) | BIT(RV_T3), BIT(RV_T0)}, /* vsetvl t0, t1, t3 */
	{4, 0x020e8007, BIT(RV_T4), 0},			      /* vle8.v v0, (t4) */
	{4, 0x0beef007, BIT(RV_T4) | BIT(RV_T5), 0},	      /* vlse64.v v0, (t4), t5 */
	{4, 0x020fe027, BIT(RV_T6), 0},			      /* vse32.v v0, (t6) */
	{4, 0x06830007, BIT(RV_T1), 0},			      /* vluxei8.v v0, (t1), v8 */
	{4, 0x0212c057, BIT(RV_T0), 0},			      /* vadd.vx v0, v1, t0 */
	{4, 0x02110057, 0, 0},				      /* vadd.vv v0, v1, v2 */
	{4, 0x0212b057, 0, 0},				      /* vadd.vi v0, v1, 5 */
	{4, 0x42402e57, 0, BIT(RV_T3)},			      /* vmv.x.s t3, v4 */
	{4, 0x420f6057, BIT(RV_T5), 0},			      /* vmv.s.x v0, t5 */
	{4, 0x42082357, 0, BIT(RV_T1)},			      /* vcpop.m t1, v0 */
	{4, 0x02112057, 0, 0},				      /* vredsum.vs v0, v1, v2 */
	{4, 0x42301557, 0, 0},				      /* vfmv.f.s fa0, v3 */
	{4, 0x02155057, 0, 0},				      /* vfadd.vf v0, v1, fa0 */
	{2, 0x6081, 0, 0},				      /* c.sspush ra: a shadow stack's, and a no-op elsewhere */
	{4, 0xce104073, 0, 0},				      /* sspush ra */
	{2, 0x9c75, BIT(RV_S0), BIT(RV_S0)},		      /* c.not s0 */
	{2, 0x9c45, BIT(RV_S0) | BIT(RV_S1), BIT(RV_S0)},     /* c.mul s0, s1 */
	{2, 0x8080, BIT(RV_S1), BIT(RV_S0)},		      /* c.lbu s0, 0(s1) */
	{2, 0x8880, BIT(RV_S0) | BIT(RV_S1), 0},	      /* c.sb s0, 0(s1) */
};

static void registers(void **state)
{
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		struct isa_instruction in;
		struct rv_registers named;
		uint8_t code[4];

		memcpy(code, &vectors[i].word, sizeof(code));
		assert_int_equal(rv_decode(&in, code, vectors[i].length, 0), vectors[i].length);
		named = rv_registers(code, vectors[i].length);
		if (named.reads != vectors[i].reads || named.writes != vectors[i].writes)
			fail_msg("%#x: %#x, %#x", vectors[i].word, named.reads, named.writes);
	}
}

static void expect_access(uint32_t word, unsigned base, unsigned moved, unsigned bytes, int64_t offset, bool stores)
{
	struct rv_access access;
	uint8_t code[4];

	memcpy(code, &word, sizeof(code));
	assert_true(rv_access(&access, code, (word & 3) == 3 ? 4 : 2));
	assert_int_equal(access.base, base);
	assert_int_equal(access.moved, moved);
	assert_int_equal(access.bytes, bytes);
	assert_int_equal(access.offset, offset);
	assert_int_equal(access.stores, stores);
}

static void accesses(void **state)
{
	static const uint8_t add[] = {0xb3, 0x02, 0xc3, 0x01}, by_a1[] = {0x88, 0x61};
	struct rv_access access;

	expect_access(0xff843583, RV_S0, RV_A1, 8, -8, false);	/* ld a1, -8(s0) */
	expect_access(0xfe112c23, RV_SP, RV_RA, 4, -8, true);	/* sw ra, -8(sp) */
	expect_access(0x7f8110a3, RV_SP, RV_S8, 2, 2017, true); /* sh s8, 2017(sp) */
	expect_access(0x60a2, RV_SP, RV_RA, 8, 8, false);	/* ld ra, 8(sp) */
	expect_access(0x70fe, RV_SP, RV_RA, 8, 504, false);
	expect_access(0x50fe, RV_SP, RV_RA, 4, 252, false); /* lw */
	expect_access(0xff86, RV_SP, RV_RA, 8, 504, true);
	expect_access(0xdf86, RV_SP, RV_RA, 4, 252, true);
	assert_false(rv_access(&access, add, 4));
	assert_false(rv_access(&access, by_a1, 2));
}

static unsigned free_of(const uint16_t *code, size_t halves)
{
	return rv_free_register((const uint8_t *)code, halves * 2);
}

/* The first one that no instruction of the head names. */
static void free_registers(void **state)
{
	static const uint16_t none[] = {0x1141, 0xe406, 0x4505, 0x4505}, t1[] = {0x4309, 0x4505, 0x4505, 0x4505},
			      read[] = {0x951a, 0x4505, 0x8e2a /* mv t3, a0 */, 0x4505},
			      all[] = {0x4309, 0x4e09, 0x4e89, 0x4f09, 0x4f89},
			      but_one[] = {0x4309, 0x4e09, 0x4f09, 0x4f89};

	assert_int_equal(free_of(none, 4), RV_T1);
	assert_int_equal(free_of(t1, 4), RV_T3);
	assert_int_equal(free_of(read, 4), RV_T4);
	assert_int_equal(free_of(but_one, 4), RV_T4);
	assert_int_equal(free_of(all, 5), RV_ZERO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(registers),
		cmocka_unit_test(accesses),
		cmocka_unit_test(free_registers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
