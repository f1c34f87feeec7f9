/*
 * host/attach by command line, for attach_test.py: each verb does one thing to a process and prints its result.
 *
 *     check PID | inject PID AGENT SESSION | load PID LIBRARY | stop PID TIMES | unwind PID
 *     kills PID AGENT SESSION TIMES | text PID | restore PID | socket PID NAME | scan PID RANGES
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <libelf.h>

#include <host/attach/impl.h>

static int say(const struct calltap_diag *diag, int ret)
{
	if (ret < 0) {
		printf("%d %s\n", ret, diag->text);
		return 1;
	}
	return 0;
}

static int check(pid_t pid)
{
	struct calltap_diag diag = {0};
	int ret = attach_check(pid, &diag);

	if (!ret)
		printf("0 can be attached to\n");
	return say(&diag, ret);
}

static int inject(pid_t pid, const char *agent, const char *session)
{
	struct attach_options options = {.size = sizeof(options), .agent_path = agent, .session = session};
	struct attach_result result;
	struct calltap_diag diag = {0};
	int ret = attach_inject(pid, &options, &result, &diag);

	if (!ret)
		printf("0 tid %d resident %d memfd %d cut short %u stop %.3f ms borrowed %.3f ms\n", (int)result.tid,
		       result.resident, result.memfd, result.cut_short, (double)result.stop_ns / 1e6,
		       (double)result.borrow_ns / 1e6);
	return say(&diag, ret);
}

static int load(pid_t pid, const char *library)
{
	struct attach_result result;
	struct calltap_diag diag = {0};
	int ret = attach_load(pid, library, 0, &result, &diag);

	if (!ret)
		printf("0 tid %d resident %d memfd %d\n", (int)result.tid, result.resident, result.memfd);
	return say(&diag, ret);
}

static int restore(pid_t pid)
{
	struct calltap_diag diag = {0};
	struct attach_stop *stop;
	int ret = attach_stop(&stop, pid, NULL, 0, &diag), restored;
	bool in_use;

	if (ret)
		return say(&diag, ret);
	restored = attach_slack_restore(stop, &in_use);
	attach_resume(stop);
	printf("%d restored\n", restored);
	return restored < 0;
}

static int count_hit(void *context, const struct attach_hit *hit)
{
	++*(size_t *)context;
	return 0;
}

static size_t scan(struct attach_stop *stop, size_t count)
{
	struct attach_range *ranges = calloc(count, sizeof(*ranges));
	size_t hits = 0;

	for (size_t i = 0; i < count; i++)
		ranges[i] = (struct attach_range){0x400000 + i * 64, 0x400000 + i * 64 + 4};
	if (attach_scan(stop, ranges, count, count_hit, &hits))
		hits = SIZE_MAX;
	free(ranges);
	return hits;
}

static int stop_times(pid_t pid, int times, size_t ranges)
{
	for (int i = 0; i < times; i++) {
		struct calltap_diag diag = {0};
		struct attach_stacks *stacks = NULL;
		struct attach_stop *stop;
		uint64_t began, stopped, scanned, copied;
		struct attach_times took;
		size_t threads, asleep = 0;
		const struct attach_thread *thread;
		int ret;

		attach_await_transfers(pid, now_ns() + ATTACH_TRANSFERS_NS);
		began = now_ns();
		ret = attach_stop(&stop, pid, NULL, 0, &diag);
		if (ret)
			return say(&diag, ret);
		stopped = now_ns() - began;
		thread = attach_threads(stop, &threads);
		for (size_t k = 0; k < threads; k++)
			asleep += thread[k].asleep;
		if (ranges && scan(stop, ranges) == SIZE_MAX)
			printf("1 scan failed\n");
		scanned = now_ns() - began - stopped;
		ret = attach_copy(stop, &stacks, &diag);
		copied = now_ns() - began - stopped - scanned;
		attach_resume_timed(stop, &took);
		attach_stacks_free(stacks);
		if (ret)
			return say(&diag, ret);
		if (i == times - 1)
			printf("0 threads %zu asleep %zu cut short %u all %.3f ms: stop %.3f scan %.3f copy %.3f\n",
			       threads, asleep, took.cut_short, (double)took.total_ns / 1e6, (double)stopped / 1e6,
			       (double)scanned / 1e6, (double)copied / 1e6);
	}
	return 0;
}

/* Each time a tool of its own, which comes in or stops all again and again, killed at some instant. */
static int kills(pid_t pid, const char *agent, const char *session, int times)
{
	struct calltap_diag diag = {0};
	int through = 0;

	srand((unsigned)getpid());
	for (int i = 0; i < times; i++) {
		struct timespec wait = {0, rand() % 15000000};
		int status = 0;
		pid_t tool = fork();

		if (!tool)
			_exit(i % 2 ? stop_times(pid, 1000, 100) : inject(pid, agent, session));
		nanosleep(&wait, NULL);
		kill(tool, SIGKILL);
		waitpid(tool, &status, 0);
		through += WIFEXITED(status);
		if (!proc_alive(pid))
			return say(&diag, calltap_diag_set(&diag, -ESRCH, "it died of kill %d", i));
	}
	printf("0 %d of %d got through\n", through, times);
	return 0;
}

static int print_frames(void *context, const struct attach_unwound *thread)
{
	printf("thread %d %s:", (int)thread->tid, thread->complete ? "complete" : "cut");
	for (size_t i = 0; i < thread->count; i++) {
		const char *name = attach_symbol(context, thread->pcs[i] - (i > 0));

		printf(" %s", name ? name : "?");
	}
	printf("\n");
	return 0;
}

static int unwind(pid_t pid)
{
	struct calltap_diag diag = {0};
	struct attach_stacks *stacks;
	struct attach_stop *stop;
	int ret = attach_stop(&stop, pid, NULL, 0, &diag);

	if (ret)
		return say(&diag, ret);
	ret = attach_copy(stop, &stacks, &diag);
	attach_resume(stop);
	if (ret)
		return say(&diag, ret);
	ret = attach_unwind(stacks, print_frames, stacks);
	attach_stacks_free(stacks);
	return ret != 0;
}

/* The number of pages of the mapping whose contents differ from its file's. */
static int count_changed(pid_t pid, const struct map *map)
{
	unsigned char now[PAGE], then[PAGE];
	int changed = 0;

	for (uint64_t at = map->lo; at < map->hi; at += PAGE) {
		if (slack_original(pid, map, at, then, PAGE) || memory_read(pid, at, now, PAGE))
			continue;
		if (memcmp(now, then, PAGE) && ++changed)
			printf("changed: %s at %lx\n", map->path, (unsigned long)at);
	}
	return changed;
}

/* Compare all executable mappings with their files, in a stop, so that no library is loaded or closed meanwhile. */
static int text(pid_t pid)
{
	struct calltap_diag diag = {0};
	struct attach_stop *stop;
	struct space space;
	int changed = 0, ret = -ETIMEDOUT;

	for (int tries = 20; ret == -ETIMEDOUT && tries; tries--) /* on a busy machine */
		ret = attach_stop(&stop, pid, NULL, 0, &diag);
	if (ret)
		return say(&diag, ret);
	ret = space_read(&space, pid);
	for (size_t i = 0; !ret && i < space.count; i++)
		if (space.maps[i].bits & MAP_EXEC && space.maps[i].path[0] == '/')
			changed += count_changed(pid, &space.maps[i]);
	space_free(&space);
	attach_resume(stop);
	printf("%d pages changed\n", changed);
	return ret || changed;
}

static int make_socket(pid_t pid, const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct calltap_diag diag = {0};
	int fd = attach_socket(pid, SOCK_SEQPACKET, &diag);

	if (fd < 0)
		return say(&diag, fd);
	snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "%s", name);
	if (bind(fd, (void *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))) ||
	    listen(fd, 5))
		return 1;
	printf("0 listening\n");
	fflush(stdout);
	return accept(fd, NULL, NULL) < 0;
}

int main(int argc, char **argv)
{
	pid_t pid = argc > 2 ? (pid_t)strtol(argv[2], NULL, 10) : 0;
	const char *verb = argc > 2 ? argv[1] : "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	elf_version(EV_CURRENT);
	if (!strcmp(verb, "check"))
		return check(pid);
	if (!strcmp(verb, "inject") && argc == 5)
		return inject(pid, argv[3], argv[4]);
	if (!strcmp(verb, "load") && argc == 4)
		return load(pid, argv[3]);
	if (!strcmp(verb, "kills") && argc == 6)
		return kills(pid, argv[3], argv[4], (int)strtol(argv[5], NULL, 10));
	if (!strcmp(verb, "stop") && argc == 4)
		return stop_times(pid, (int)strtol(argv[3], NULL, 10), 0);
	if (!strcmp(verb, "scan") && argc == 4)
		return stop_times(pid, 1, strtoul(argv[3], NULL, 10));
	if (!strcmp(verb, "socket") && argc == 4)
		return make_socket(pid, argv[3]);
	if (!strcmp(verb, "unwind"))
		return unwind(pid);
	if (!strcmp(verb, "restore"))
		return restore(pid);
	if (!strcmp(verb, "text"))
		return text(pid);
	return 2;
}
