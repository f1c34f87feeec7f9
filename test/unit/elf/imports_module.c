/* A library that points to functions of libc's in every known way; test_imports.c loads it and knows its contents. */
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>

struct unaligned {
	char first;
	int (*function)(stack_t const *, stack_t *);
} __attribute__((packed));

/* Words of data: ABS64.  The last two are none that could be changed in one go, or a function's address. */
int (*imports_data)(int, ...) = prctl;
struct unaligned imports_unaligned = {1, sigaltstack};
const char *imports_inside = (const char *)prctl + 4;

long syscall(long number, ...); /* the library's own function, which the loader may be told to find elsewhere */
long syscall(long number, ...)
{
	return number;
}

__attribute__((visibility("hidden"))) int unshare(int flags);
int unshare(int flags)
{
	return flags;
}

void *imports_address(void);
void *imports_address(void)
{
	return (void *)dl_iterate_phdr; /* GLOB_DAT */
}

long imports_call(jmp_buf buffer, int value);
long imports_call(jmp_buf buffer, int value)
{
	if (value)
		longjmp(buffer, value); /* JUMP_SLOT, or GLOB_DAT with -fno-plt */
	return syscall(value) + unshare(value);
}
