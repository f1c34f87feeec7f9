/*
 * Calls of a function from stacks of known frames: on the initial thread's stack and on another one, over several
 * pages, in a child, deeper than what is kept, and with frame pointers that are none.
 */
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, DEEP = 100 };

static volatile int kept;

__attribute__((noinline)) void work(int number)
{
	kept += number;
}

__attribute__((noinline)) void inner(int number)
{
	work(number);
	kept++;
}

/* Each frame is larger than a page. */
__attribute__((noinline)) void wide(int number)
{
	volatile char room[PAGE + 100];

	room[number] = 1;
	if (number % 4)
		wide(number - 1);
	else
		inner(number);
	kept += room[number];
}

__attribute__((noinline)) void deep(int depth)
{
	if (depth)
		deep(depth - 1);
	else
		work(1);
	kept++;
}

static void *run(void *arg)
{
	for (int i = 0; i < 20; i++)
		wide(i);
	return arg;
}

/* Call work() with this as the frame pointer. */
__attribute__((noinline)) void lie(uint64_t frame)
{
#if defined(__x86_64__)
	__asm__ volatile("push %%rbp; mov %0, %%rbp; mov $1, %%edi; call work; pop %%rbp" ::"r"(frame)
			 : "memory", "cc", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11");
#elif defined(__aarch64__)
	__asm__ volatile(
		"stp x29, x30, [sp, #-16]!; mov x29, %0; mov w0, #1; bl work; ldp x29, x30, [sp], #16" ::"r"(frame)
		: "memory", "cc", "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12",
		  "x13", "x14", "x15", "x16", "x17", "x30");
#else
	__asm__ volatile(
		"addi sp, sp, -16; sd s0, 0(sp); mv s0, %0; li a0, 1; call work; ld s0, 0(sp); addi sp, sp, 16" ::"r"(
			frame)
		: "memory", "ra", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "a0", "a1", "a2", "a3", "a4", "a5", "a6",
		  "a7");
#endif
}

static void tell_lies(void)
{
	char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t at = (uint64_t)pages, round[2] = {(uint64_t)round, 1 << 20};
	uint64_t lies[] = {0,
			   1,
			   8,
			   16,
			   PAGE,
			   UINT64_MAX,
			   UINT64_MAX - 7,
			   (uint64_t)1 << 63,
			   at + PAGE - 8,
			   at + PAGE,
			   at + 8,
			   at + PAGE - 16,
			   (uint64_t)round,
			   at + 3,
			   (uint64_t)tell_lies & ~(uint64_t)7};

	munmap(pages + PAGE, PAGE);
	memset(pages, 0xff, PAGE);
	for (unsigned i = 0; i < sizeof(lies) / sizeof(lies[0]); i++)
		lie(lies[i]);
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc > 1 && !strcmp(argv[1], "lies")) {
		tell_lies();
		return 0;
	}
	for (int i = 0; i < 10; i++)
		(i % 2 ? inner : work)(i);
	run(NULL);
	pthread_create(&thread, NULL, run, NULL);
	pthread_join(thread, NULL);
	deep(DEEP);
	if (!fork()) {
		inner(1);
		_exit(0);
	}
	wait(NULL);
	return 0;
}
