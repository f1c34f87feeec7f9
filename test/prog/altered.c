/* Changes the first byte of one of its functions, says that it is ready, and waits for SIGTERM. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

__attribute__((noinline)) int altered(int n)
{
	__asm__ volatile("");
	return n + 1;
}

__attribute__((noinline)) int left_as_it_was(int n)
{
	__asm__ volatile("");
	return n + 2;
}

int main(void)
{
	uintptr_t address = (uintptr_t)altered, page = address & ~(uintptr_t)4095;
	sigset_t signals;
	int number;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	if (mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC))
		return 1;
	for (int i = 0; i < 8; i++)
		((volatile unsigned char *)address)[i] = 0xc3; /* ret */
	if (mprotect((void *)page, 8192, PROT_READ | PROT_EXEC))
		return 1;
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	sigwait(&signals, &number);
	return left_as_it_was(0) != 2;
}
