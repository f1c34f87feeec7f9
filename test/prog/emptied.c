/*
 * Executes programs with an environment that it has emptied, in the way that the first argument names, and tells what
 * became of it.  With the argument "shows" the program is the one that is executed: it prints the environment as it can
 * be had in each way, calls shown(), and returns 7.
 *
 *     emptied WAY [PROGRAM]	PROGRAM: other than itself
 */
#include <elf.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "truth.h"

enum { MANY = 300, STACK = 16 << 10 };

extern char **environ;
static char self[4096], name[256];
static const char *program;
static char *none[] = {NULL}, *few[] = {"A=1", "B=", "LD_LIBRARY_PATH=/nowhere", NULL};
static char *shows[] = {"emptied", "shows", NULL};

TRACED static int shown(int n)
{
	__asm__ volatile("" : "+r"(n));
	return n;
}

/* What lies behind the environment: programs find there what the kernel tells. */
UNTRACED static void show_behind(void)
{
	char **at = environ;
	const Elf64_auxv_t *entry;

	while (*at)
		at++;
	for (entry = (const Elf64_auxv_t *)(at + 1); entry->a_type != AT_NULL; entry++)
		if (entry->a_type == AT_PAGESZ || entry->a_type == AT_SECURE)
			printf("auxv %d %d\n", (int)entry->a_type, (int)entry->a_un.a_val);
}

UNTRACED static void show_signals(void)
{
	struct sigaction action;
	sigset_t blocked;

	sigprocmask(SIG_SETMASK, NULL, &blocked);
	for (int number = 1; number < SIGRTMAX; number++) {
		if (sigismember(&blocked, number) > 0)
			printf("blocked %d\n", number);
		if (!sigaction(number, NULL, &action) && action.sa_handler != SIG_DFL)
			printf("not as by default %d\n", number);
	}
}

UNTRACED static int show(void)
{
	char text[4096];
	FILE *file = fopen("/proc/self/environ", "r");
	size_t size = file ? fread(text, 1, sizeof(text), file) : 0;

	for (char **at = environ; *at; at++)
		printf("has %s\n", *at);
	printf("/proc/self/environ has %d bytes\n", (int)size);
	show_behind();
	show_signals();
	for (int i = 0; i < 3; i++)
		shown(i);
	return 7;
}

UNTRACED static int result_of(pid_t pid)
{
	int status = 0;

	if (waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

UNTRACED static char **many(void)
{
	static char *list[MANY + 1], texts[MANY][16];

	for (int i = 0; i < MANY; i++) {
		snprintf(texts[i], sizeof(texts[i]), "V%d=%d", i, i);
		list[i] = texts[i];
	}
	return list;
}

/* Execute with an argument list as long as the kernel takes with an empty environment. */
UNTRACED static void with_longest(void)
{
	enum { PIECES = 16, PIECE = 128 << 10, STEP = 48 }; /* a quarter of the stack in all, and 128 KiB for one */
	const struct rlimit stack = {4 * PIECES * PIECE, 4 * PIECES * PIECE};
	char *list[PIECES + 3] = {"emptied", "shows"};

	setrlimit(RLIMIT_STACK, &stack);
	for (int i = 0; i < PIECES; i++) {
		list[i + 2] = calloc(PIECE, 1);
		memset(list[i + 2], 'x', PIECE - 1);
	}
	for (int size = PIECE - 1; size > 0; size -= STEP) {
		printf("up to %d\n", size);
		list[PIECES + 1][size] = 0;
		execve(program, list, none);
	}
}

UNTRACED static void on_signal(int number)
{
	(void)number;
	execve(program, shows, none);
	_exit(90);
}

UNTRACED static void in_handler(void)
{
	static char memory[STACK];
	stack_t stack = {.ss_sp = memory, .ss_size = sizeof(memory)};
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};

	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
}

/* Under a filter that ends who asks for its effective user. */
UNTRACED static void in_sandbox(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_geteuid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {sizeof(code) / sizeof(code[0]), code};

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
	execve(program, shows, none);
}

/* In a child: become the program, or come back. */
UNTRACED static void become(const char *way)
{
	if (!strcmp(way, "execve") || !strcmp(way, "vfork"))
		execve(program, shows, none);
	if (!strcmp(way, "null"))
		execve(program, shows, NULL);
	if (!strcmp(way, "few"))
		execve(program, shows, few);
	if (!strcmp(way, "many"))
		execve(program, shows, many());
	if (!strcmp(way, "longest"))
		with_longest();
	if (!strcmp(way, "execle"))
		execle(program, "emptied", "shows", (char *)NULL, few);
	if (!strcmp(way, "execvpe"))
		execvpe(program, shows, few);
	if (!strcmp(way, "handler"))
		in_handler();
	if (!strcmp(way, "sandbox"))
		in_sandbox();
	clearenv();
	if (!strcmp(way, "execv"))
		execv(program, shows);
	if (!strcmp(way, "execl"))
		execl(program, "emptied", "shows", (char *)NULL);
	if (!strcmp(way, "execlp"))
		execlp(program, "emptied", "shows", (char *)NULL);
	setenv("PATH", "/nowhere:.:/bin", 1);
	if (!strcmp(way, "execvp"))
		execvp(name, shows);
}

/* What cannot be executed: the program goes on, and sees the same error. */
UNTRACED static void fail(void)
{
	static char *bad[] = {(char *)8, NULL};

	printf("none: %d, %d\n", execve("/nowhere/at-all", shows, none), errno);
	printf("folder: %d, %d\n", execve("/", shows, none), errno);
	printf("no path: %d, %d\n", execve(NULL, shows, none), errno);
	printf("empty path: %d, %d\n", execvpe("", shows, none), errno);
	printf("bad environment: %d, %d\n", execve(self, shows, (char **)8), errno);
	printf("bad variable: %d, %d\n", execve(self, shows, bad), errno);
	printf("bad arguments: %d, %d\n", execve(self, (char **)8, none), errno);
	printf("not in the path: %d, %d\n", execvpe("no-such-program", shows, none), errno);
	printf("no program: %d, %d\n", execve(program, shows, none), errno);
	printf("spawned: %d\n", posix_spawn(NULL, "/nowhere/at-all", NULL, NULL, shows, none));
	printf("spawned: %d\n", posix_spawnp(NULL, "no-such-program", NULL, NULL, shows, none));
}

UNTRACED static pid_t start(const char *way)
{
	int with_path = !strcmp(way, "posix_spawnp");
	pid_t pid = -1;
	int error;

	if (strncmp(way, "posix_spawn", 11)) {
		pid = strcmp(way, "vfork") ? fork() : vfork();
		if (!pid) {
			become(way);
			_exit(91);
		}
		return pid;
	}
	if (with_path)
		setenv("PATH", "/nowhere:.", 1);
	error = with_path ? posix_spawnp(&pid, name, NULL, NULL, shows, few)
			  : posix_spawn(&pid, program, NULL, NULL, shows, none);
	return error ? -error : pid;
}

/* A child that calls something when its parent has ended. */
UNTRACED static int leave_child(void)
{
	if (fork())
		return 0;
	usleep(120000);
	for (int i = 0; i < 3; i++)
		shown(i);
	_exit(0);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "shows"))
		return show();
	if (argc > 1 && !strcmp(argv[1], "daemon"))
		return leave_child();
	if (argc < 2 || readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return 1;
	program = argc > 2 ? argv[2] : self;
	snprintf(name, sizeof(name), "%.255s", strrchr(program, '/') + 1);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(argv[1], "fails"))
		fail();
	else if (!strcmp(argv[1], "itself"))
		become("execve");
	else
		for (int i = 0; i < 3; i++)
			printf("%s: %d\n", argv[1], result_of(start(argv[1])));
	return 0;
}
