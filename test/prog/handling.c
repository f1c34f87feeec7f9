/*
 * Handlers for a program that knows nothing of them: a library that is linked in front of it, preloaded, or loaded into
 * one that runs (`calltap load`). They leave nothing in the registers that they may change as it was, and errno
 * neither.
 *
 *     HANDLED_TOOL    path of `calltap`; without it nothing is done
 *     HANDLED_COUNTS  file that gets "ENTRIES EXITS" at the end
 *     HANDLED_BUSY    a thread registers and unregisters, at random, from this seed on; else once, in front of main(),
 *                     for a constructor cannot: its thread is in the loader
 */
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#include "handled.h"

static struct counted of;
static long faulted, registered, opened; /* of the busy thread */
static struct calltap_session *session;

UNTRACED __attribute__((target("avx512f"))) static void change_512(void)
{
	__asm__ volatile("vpternlogd $0xff, %%zmm0, %%zmm0, %%zmm0\n\tvmovdqa64 %%zmm0, %%zmm1\n\t"
			 "vmovdqa64 %%zmm0, %%zmm2\n\tvmovdqa64 %%zmm0, %%zmm7\n\tvmovdqa64 %%zmm0, %%zmm15\n\t"
			 "vmovdqa64 %%zmm0, %%zmm16\n\tvmovdqa64 %%zmm0, %%zmm31\n\tkxnorw %%k1, %%k1, %%k1\n\t"
			 "kmovw %%k1, %%k7"
			 :
			 :
			 : "xmm0", "xmm1", "xmm2", "xmm7", "xmm15", "xmm16", "xmm31", "k1", "k7");
}

UNTRACED __attribute__((target("avx"))) static void change_256(void)
{
	__asm__ volatile(
		"vxorps %%ymm0, %%ymm0, %%ymm0\n\tvcmpps $15, %%ymm0, %%ymm0, %%ymm0\n\tvmovaps %%ymm0, %%ymm1\n\t"
		"vmovaps %%ymm0, %%ymm2\n\tvmovaps %%ymm0, %%ymm7\n\tvmovaps %%ymm0, %%ymm15"
		:
		:
		: "xmm0", "xmm1", "xmm2", "xmm7", "xmm15");
}

/* More than a function may change: the control words, too. */
UNTRACED static void change_vectors(void)
{
	static const unsigned short x87 = 0x0c7f;
	static const unsigned mxcsr = 0x7fbf;

	__asm__ volatile(
		"pcmpeqd %%xmm0, %%xmm0\n\tmovdqa %%xmm0, %%xmm1\n\tmovdqa %%xmm0, %%xmm2\n\tmovdqa %%xmm0, %%xmm3\n\t"
		"movdqa %%xmm0, %%xmm4\n\tmovdqa %%xmm0, %%xmm5\n\tmovdqa %%xmm0, %%xmm6\n\tmovdqa %%xmm0, %%xmm7\n\t"
		"movdqa %%xmm0, %%xmm8\n\tmovdqa %%xmm0, %%xmm15\n\t"
		"fninit\n\tfldpi\n\tfldz\n\tfldl2t\n\tfldcw %0\n\tldmxcsr %1"
		:
		: "m"(x87), "m"(mxcsr)
		: "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm15");
	if (__builtin_cpu_supports("avx512f"))
		change_512();
	else if (__builtin_cpu_supports("avx"))
		change_256();
}

BY_GENERALS static void change_generals(void)
{
	__asm__ volatile(
		"mov $-1, %%rax\n\tmov %%rax, %%rcx\n\tmov %%rax, %%rdx\n\tmov %%rax, %%rsi\n\tmov %%rax, %%rdi\n\t"
		"mov %%rax, %%r8\n\tmov %%rax, %%r9\n\tmov %%rax, %%r10\n\tmov %%rax, %%r11\n\tadd %%rax, %%rax"
		:
		:
		: "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc");
}

UNTRACED static int all_entry(struct calltap_call *call, void *context)
{
	handled_add(&of.entries);
	errno = 12345;
	change_vectors();
	return ANSWERED;
}

UNTRACED static void all_exit(struct calltap_call *call, void *context)
{
	handled_add(&of.exits);
	errno = 12346;
	change_vectors();
}

BY_GENERALS static int general_entry(struct calltap_call *call, void *context)
{
	handled_add(&of.entries);
	change_generals();
	return ANSWERED;
}

BY_GENERALS static void general_exit(struct calltap_call *call, void *context)
{
	handled_add(&of.exits);
	change_generals();
}

BY_GENERALS static int fault_entry(struct calltap_call *call, void *context)
{
	handled_add(&faulted);
	*(volatile int *)16 = 1;
	return ANSWERED;
}

BY_GENERALS static void fault_exit(struct calltap_call *call, void *context)
{
	handled_add(&faulted);
	__asm__ volatile("ud2");
}

static const struct calltap_ops_options kinds[] = {
	{.entry = all_entry, .exit = all_exit},	    {.entry = general_entry, .exit = general_exit, .flags = GENERAL},
	{.entry = general_entry, .flags = GENERAL}, {.exit = all_exit},
	{.entry = fault_entry, .flags = GENERAL},   {.exit = fault_exit},
};

/* What the tool may answer while it is killed, or has just been. */
UNTRACED static int is_of_tool(int code)
{
	return code == -ENOTCONN || code == -ECONNRESET || code == -EPIPE || code == -ENOENT || code == -ETIMEDOUT ||
	       code == -EBUSY || code == -EOPNOTSUPP || code == -EPERM || code == -ENOSPC || code == -EAGAIN ||
	       code == -ENOTSUP;
}

UNTRACED static int try_open(void)
{
	struct calltap_session_options options = {.size = sizeof(options), .tool = getenv("HANDLED_TOOL")};
	struct calltap_diag diag = {0};
	int code = calltap_session_open(&session, &options, &diag);

	if (code && (!diag.text[0] || code > 0))
		handled_wrong("open without a sentence", code, 0);
	if (code && !getenv("HANDLED_BUSY"))
		fprintf(stderr, "calltap: open: %d: %s\n", code, diag.text);
	return code;
}

UNTRACED static void pause_us(long us)
{
	const struct timespec time = {0, us * 1000};

	nanosleep(&time, NULL);
}

UNTRACED static unsigned draw(unsigned *seed)
{
	*seed = *seed * 1103515245u + 12345;
	return *seed >> 16;
}

/* Some that are registered at random, until the tool is gone or it is enough. */
UNTRACED static void register_some(unsigned *seed)
{
	struct calltap_ops *ops[4] = {0};
	struct calltap_diag diag;

	for (unsigned turn = draw(seed) % 40; turn < 40; turn++) {
		unsigned which = draw(seed) % 4;
		int code = 0;

		if (ops[which]) {
			code = calltap_ops_unregister(ops[which]);
			if (code != -ETIMEDOUT)
				ops[which] = NULL;
		} else {
			code = handled_try(&ops[which], session, &kinds[draw(seed) % 6], &diag);
			registered += !code;
		}
		if (code && !is_of_tool(code))
			handled_wrong(diag.text, code, 0);
		if (code == -ENOTCONN || code == -ECONNRESET)
			break;
		pause_us(draw(seed) % 4 ? 300 : 5000);
	}
}

UNTRACED static void *busy(void *arg)
{
	unsigned seed = (unsigned)atoi(getenv("HANDLED_BUSY"));

	for (;;) {
		if (!try_open()) {
			opened++;
			register_some(&seed);
			calltap_session_close(session);
		}
		pause_us(1000 + draw(&seed) % 8 * 5000);
	}
	return arg;
}

UNTRACED static void write_counts(void)
{
	const char *path = getenv("HANDLED_COUNTS");
	FILE *file = path ? fopen(path, "w") : NULL;

	if (!file)
		return;
	fprintf(file, "%ld %ld %ld %ld %ld\n", of.entries, of.exits, faulted, registered, opened);
	fclose(file);
}

__attribute__((constructor)) UNTRACED static void begin(void)
{
	sigset_t all, before;
	pthread_t thread;

	if (!getenv("HANDLED_TOOL") || !getenv("HANDLED_BUSY"))
		return;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	always("a thread", pthread_create(&thread, NULL, busy, NULL), 0);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Linked with --wrap=main: in its place. */
UNTRACED int __wrap_main(int argc, char **argv, char **environment)
{
	int (*program)(int, char **, char **) = (__typeof__(program))dlsym(RTLD_DEFAULT, "main");

	if (getenv("HANDLED_TOOL")) {
		if (try_open())
			_exit(97);
		handled_register(session, &kinds[0]);
		handled_register(session, &kinds[1]);
	}
	return program(argc, argv, environment);
}

__attribute__((destructor)) UNTRACED static void end(void)
{
	write_counts();
}
