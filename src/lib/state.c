/*
 * The library's memory, and the lock on it.
 *
 * The slots stay as they are in a forked child, where the agent goes on calling handlers.  Lock, session and the list
 * of free slots do not: they lie in a page that the kernel clears for the child.  A child that has its parent's memory
 * (vfork) sees the page as it is, with another's pid in it.  Context: the program's threads.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib.h"

static void *the_table; /* struct lib_table; atomic: set once */
static void *the_own;	/* struct lib_own; atomic: set once */

/* The memory that *place points to; the first thread that comes makes it. */
static void *memory_of(void **place, size_t size, int advice)
{
	void *there = __atomic_load_n(place, __ATOMIC_ACQUIRE), *made; /* acquire: with the exchange below */

	if (there)
		return there;
	made = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (made == MAP_FAILED)
		return NULL;
	madvise(made, size, advice);
	if (__atomic_compare_exchange_n(place, &there, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return made;
	munmap(made, size);
	return there;
}

static struct lib_table *table_of(void)
{
	return memory_of(&the_table, sizeof(struct lib_table), MADV_NORMAL);
}

static struct lib_own *own_of(void)
{
	struct lib_own *own = memory_of(&the_own, sizeof(*own), MADV_WIPEONFORK);
	pid_t nobody = 0;

	/* An unlocked mutex is all zeros. */
	if (own)
		__atomic_compare_exchange_n(&own->pid, &nobody, getpid(), false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
	return own;
}

int lib_enter(struct lib_own **own, struct lib_table **table, struct calltap_diag *diag)
{
	int before;

	if (shim_is_running())
		return calltap_diag_set(
			diag, -EDEADLK,
			"a handler cannot open, close, register or unregister; let another thread do it");
	*own = own_of();
	*table = table_of();
	if (!*own || !*table)
		return calltap_diag_set(diag, -ENOMEM, "there is no memory left");
	if (__atomic_load_n(&(*own)->pid, __ATOMIC_RELAXED) != getpid()) /* set once in a process */
		return calltap_diag_set(diag, -ECHILD,
					"this process has the memory of its parent, whose session it is; execute a "
					"program, or leave it alone");
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	pthread_mutex_lock(&(*own)->lock);
	(*own)->cancel = before;
	(*table)->handlers.size = sizeof((*table)->handlers);
	(*table)->handlers.magic = CALLTAP_HANDLERS_MAGIC;
	return 0;
}

void lib_leave(struct lib_own *own)
{
	int before = own->cancel;

	pthread_mutex_unlock(&own->lock);
	pthread_setcancelstate(before, NULL);
}
