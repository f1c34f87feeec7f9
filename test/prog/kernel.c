/*
 * A program whose functions have names of the kernel's: those that the kernel's tests of ftrace filter by and wait for
 * (test/ftracetest/run.py).  Two threads call them all the time.
 */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define PAUSE_US 500

#define KERNEL(name)                                                                                                   \
	__attribute__((noinline)) void name(void);                                                                     \
	void name(void)                                                                                                \
	{                                                                                                              \
		__asm__ volatile("");                                                                                  \
	}

KERNEL(scheduler_tick)
KERNEL(raw_spin_lock)
KERNEL(mutex_lock)
KERNEL(mutex_trylock)
KERNEL(mutex_unlock)
KERNEL(console_unlock)
KERNEL(vfs_read)
KERNEL(vfs_open)
KERNEL(vfs_symlink)
KERNEL(sys_openat)
KERNEL(sys_read)
KERNEL(do_sys_open)
KERNEL(do_sys_openat2)
KERNEL(do_execve)
KERNEL(do_exit)
KERNEL(kernel_clone)
KERNEL(wake_up_process)
KERNEL(inet_csk_accept)
KERNEL(tracefs_create_dir)
KERNEL(timer_schedule)

__attribute__((noinline)) void schedule(void);

void schedule(void)
{
	raw_spin_lock();
	scheduler_tick();
	__asm__ volatile("");
}

__attribute__((noinline)) static void call_system(void)
{
	sys_openat();
	do_sys_open();
	do_sys_openat2();
	vfs_open();
	mutex_lock();
	mutex_unlock();
	sys_read();
	vfs_read();
	vfs_symlink();
	inet_csk_accept();
	tracefs_create_dir();
	__asm__ volatile("");
}

__attribute__((noinline)) static void live(void)
{
	kernel_clone();
	do_execve();
	wake_up_process();
	mutex_trylock();
	console_unlock();
	timer_schedule();
	do_exit();
	__asm__ volatile("");
}

static void *run(void *arg)
{
	for (;;) {
		schedule();
		call_system();
		live();
		usleep(PAUSE_US);
	}
	return arg;
}

int main(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, NULL))
		return 1;
	puts("ready");
	fflush(stdout);
	return run(NULL) != NULL;
}
