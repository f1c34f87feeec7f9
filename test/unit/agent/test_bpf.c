/* The agent's interpreter of system call filters gives the answers of the kernel's, for random programs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <agent/bpf.h>
#include <arch.h>

#define PROGRAMS 400
#define LENGTH	 24 /* random steps */
#define ANSWERS	 0xff

static const uint64_t arguments[6] = {1, 0xffffffff00000002, 3, 0x80000000, 0, ~0ul};

static uint64_t seed;

/* Not rand(), whose lock is slow on an emulated CPU. */
static int any(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (int)(seed >> 33);
}

static uint32_t random_word(void)
{
	static const uint32_t words[] = {0, 1, 2, 31, 0x80000000, 0xffffffff};
	int kind = any() % 8;

	return kind < 6 ? words[kind] : (uint32_t)any() * 2u;
}

/* Any step that the kernel takes here; jumps stay within the random part. */
static struct sock_filter random_step(int left)
{
	static const uint16_t sums[] = {BPF_ADD, BPF_SUB, BPF_MUL, BPF_AND, BPF_OR, BPF_XOR};
	static const uint16_t tests[] = {BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET};
	uint16_t from = any() % 2 ? BPF_K : BPF_X;

	switch (any() % 11) {
	case 0:
	case 1: /* a word of the call's number and arguments: what else there is differs between the two */
		return (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 16 + 4 * (uint32_t)(any() % 12));
	case 2:
		return (struct sock_filter)BPF_STMT((any() % 2 ? BPF_LD : BPF_LDX) | BPF_IMM, random_word());
	case 3:
		return (struct sock_filter)BPF_STMT((any() % 2 ? BPF_LD : BPF_LDX) | BPF_W | BPF_LEN, 0);
	case 4:
		return (struct sock_filter)BPF_STMT(BPF_MISC | (any() % 2 ? BPF_TAX : BPF_TXA), 0);
	case 5:
		return (struct sock_filter)BPF_STMT(BPF_ALU | (any() % 2 ? BPF_LSH : BPF_RSH) | BPF_K,
						    (uint32_t)any() % 32);
	case 6:
		return (struct sock_filter)BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, random_word() | 1);
	case 7:
		return (struct sock_filter)BPF_JUMP(BPF_JMP | tests[any() % 4] | from, random_word(),
						    (uint8_t)(any() % left), (uint8_t)(any() % left));
	case 8:
		return (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, (uint32_t)(any() % left));
	case 9:
		return (struct sock_filter)BPF_STMT(BPF_ALU | BPF_NEG, 0);
	default:
		return (struct sock_filter)BPF_STMT(BPF_ALU | sums[any() % 6] | from, random_word());
	}
}

/* getppid gets an error number that the random part makes; all else is allowed. */
static uint32_t random_program(struct sock_filter *steps)
{
	uint32_t n = 0, slot = (uint32_t)any() % BPF_MEMWORDS;

	steps[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	steps[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 1, 0);
	steps[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	steps[n++] = (struct sock_filter)BPF_STMT(BPF_ST, slot);
	for (int left = LENGTH; left > 0; left--)
		steps[n++] = random_step(left);
	/* Each half of A and X matters. */
	steps[n++] = (struct sock_filter)BPF_STMT(BPF_STX, slot);
	steps[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_XOR | BPF_X, 0);
	steps[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_MUL | BPF_K, 0x9e3779b1);
	steps[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 24);
	steps[n++] = (struct sock_filter)BPF_STMT(BPF_LDX | BPF_MEM, slot);
	steps[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0);
	steps[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ANSWERS);
	steps[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_OR | BPF_K, SECCOMP_RET_ERRNO);
	steps[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_A, 0);
	return n;
}

/* The kernel's answer: a child's exit status, or -1 where filters cannot be had. */
static int kernels_answer(struct sock_filter *steps, uint32_t count)
{
	struct sock_fprog program = {(unsigned short)count, steps};
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
			raise(SIGKILL);
		errno = 0;
		syscall(SYS_getppid, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
			arguments[5]);
		_exit(errno);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The kernel ends a filter that divides by 0 with the answer 0, which kills, whatever the filter says after that. */
static void a_division_by_zero_is_the_end(void **state)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 2),
		BPF_STMT(BPF_LDX | BPF_IMM, 0),
		BPF_STMT(BPF_ALU | BPF_DIV | BPF_X, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const uint32_t count = sizeof(steps) / sizeof(steps[0]);
	struct seccomp_data data = {.nr = SYS_getppid, .arch = ARCH_AUDIT};

	(void)state;
	assert_int_equal(bpf_answer(steps, count, &data), SECCOMP_RET_KILL_THREAD);
	assert_int_equal(kernels_answer(steps, count), -1); /* the child was killed, or there are no filters here */
	steps[2].k = 1;
	assert_int_equal(bpf_answer(steps, count, &data), SECCOMP_RET_ALLOW);
}

static void agrees_with_the_kernel(void **state)
{
	struct seccomp_data data = {.nr = SYS_getppid, .arch = ARCH_AUDIT};
	struct sock_filter steps[LENGTH + 16];
	int different[ANSWERS + 1] = {0}, kinds = 0;

	(void)state;
	for (int i = 0; i < 6; i++)
		data.args[i] = arguments[i];
	seed = 11;
	for (int i = 0; i < PROGRAMS; i++) {
		uint32_t count = random_program(steps), own = bpf_answer(steps, count, &data);
		int kernels = kernels_answer(steps, count);

		if (i == 0 && kernels < 0) {
			print_message("no filter of system calls can be set here\n");
			skip();
		}
		assert_true(kernels >= 0);
		assert_int_equal(own & SECCOMP_RET_ACTION_FULL, SECCOMP_RET_ERRNO);
		assert_int_equal(own & SECCOMP_RET_DATA, kernels);
		kinds += !different[kernels]++;
	}
	assert_true(kinds > ANSWERS / 4); /* or the programs would all say the same */
}

/* Programs that no kernel takes: jumps out of the program, no end, words outside the data, unknown codes. */
static void ends_on_nonsense(void **state)
{
	const struct seccomp_data data = {.nr = 1};
	struct sock_filter steps[64];

	(void)state;
	seed = 12;
	for (int i = 0; i < 100000; i++) {
		for (size_t k = 0; k < sizeof(steps) / sizeof(steps[0]); k++)
			steps[k] = (struct sock_filter){(uint16_t)any(), (uint8_t)any(), (uint8_t)any(), random_word()};
		bpf_answer(steps, 1 + (uint32_t)any() % 64, &data);
	}
	steps[0] = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 0xffffffff);
	assert_int_equal(bpf_answer(steps, 1, &data), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(bpf_answer(steps, 0, &data), SECCOMP_RET_KILL_PROCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees_with_the_kernel),
		cmocka_unit_test(a_division_by_zero_is_the_end),
		cmocka_unit_test(ends_on_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
