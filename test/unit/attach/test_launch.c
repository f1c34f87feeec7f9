/*
 * Where libc will note its first thread's id, by the instruction behind set_tid_address()
 * (arch/generic/native/launch.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/user.h>

#include <cmocka.h>

#include <arch/generic/native/launch.h>

#define BASE 0x7f0000001000ull

static uint64_t stores(const char *bytes, size_t size)
{
	unsigned char code[NATIVE_STORE_MAX];
	struct user_regs_struct user;
	struct native_regs regs;

	memset(&user, 0, sizeof(user));
	memset(code, 0xcc, sizeof(code));
	memcpy(code, bytes, size);
	user.rbx = BASE;
	user.r13 = BASE + 0x10000;
	user.fs_base = BASE + 0x20000;
	memcpy(&regs, &user, sizeof(regs));
	return native_call_stores(&regs, code);
}
#define STORES(bytes) stores(bytes, sizeof(bytes) - 1)

static void knows_stores(void **state)
{
	(void)state;
	assert_int_equal(STORES("\x89\x83\xd0\x02\x00\x00"), BASE + 0x2d0); /* mov %eax,0x2d0(%rbx): glibc */
	assert_int_equal(STORES("\x89\x43\x30"), BASE + 0x30);		    /* mov %eax,0x30(%rbx): musl */
	assert_int_equal(STORES("\x89\x43\xf0"), BASE - 0x10);
	assert_int_equal(STORES("\x41\x89\x45\x38"), BASE + 0x10038);		      /* mov %eax,0x38(%r13) */
	assert_int_equal(STORES("\x64\x89\x04\x25\xd0\x02\x00\x00"), BASE + 0x202d0); /* mov %eax,%fs:0x2d0 */
}

static void refuses_others(void **state)
{
	(void)state;
	assert_int_equal(STORES("\x48\x89\x43\x30"), 0);	 /* 8 bytes */
	assert_int_equal(STORES("\x89\x4b\x30"), 0);		 /* another register */
	assert_int_equal(STORES("\x89\xc3"), 0);		 /* to a register */
	assert_int_equal(STORES("\x89\x05\x10\x00\x00\x00"), 0); /* behind the pc */
	assert_int_equal(STORES("\x89\x44\x24\x30"), 0);	 /* with an index byte */
	assert_int_equal(STORES("\x8b\x43\x30"), 0);		 /* a load */
	assert_int_equal(STORES("\x64\x89\x43\x30"), 0);
	assert_int_equal(STORES("\xc3"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(knows_stores),
		cmocka_unit_test(refuses_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
