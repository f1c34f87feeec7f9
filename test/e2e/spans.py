"""`calltap count --until`: each time lies between those that the program has measured itself, and what has no end, or no beginning, is told."""
import contextlib
import json
import subprocess

from harness import Process, expect, stop, until
from typed import compiled
from values import need

SOURCE = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
enum { THREADS = 4, EACH = 500, LAG = 7 };
struct request { long id; uint64_t before, after; struct request *self; };
struct span { uint64_t inner, outer, least, most; long count; };
static struct span *all;
static volatile int sink;
static uint64_t now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}
__attribute__((noinline)) long submit(struct request *request, long id) { sink += id; return request->id; }
__attribute__((noinline)) long complete(struct request *request, long id) { sink -= id; return request->id; }
/* What a traced call begins at its return, and ends at its return. */
__attribute__((noinline)) struct request *take(struct request *request) { sink++; return request->self; }
__attribute__((noinline)) long give(long id, struct request *request) { sink--; return (long)(intptr_t)request; }
static void begin(struct request *request, long id)
{
	request->id = id;
	request->self = request;
	request->before = now();
	submit(request, id);
	take(request);
	request->after = now();
}
static void end(struct request *request)
{
	uint64_t inner = now() - request->after, outer;
	complete(request, request->id);
	give(request->id, request);
	outer = now() - request->before;
	__atomic_fetch_add(&all->inner, inner, __ATOMIC_RELAXED);
	__atomic_fetch_add(&all->outer, outer, __ATOMIC_RELAXED);
	__atomic_fetch_add(&all->count, 1, __ATOMIC_RELAXED);
}
static void on_signal(int number)
{
	static __thread struct request own;
	begin(&own, -(long)gettid()); /* a number that no other thread has */
	end(&own);
}
static void *work(void *arg)
{
	struct request requests[EACH];
	long first = (long)(intptr_t)arg * EACH;
	for (int i = 0; i < EACH; i++) {
		begin(&requests[i], first + i);
		if (i % 50 == 0)
			raise(SIGUSR1);
		if (i >= LAG)
			end(&requests[i - LAG]);
		if (i % 100 == 0)
			usleep(3000);
	}
	for (int i = EACH - LAG; i < EACH; i++)
		end(&requests[i]);
	return NULL;
}
static void run(void)
{
	pthread_t threads[THREADS];
	for (intptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}
int main(int argc, char **argv)
{
	static struct request left[3];
	int fd = argc > 2 ? 1 : -1;
	all = mmap_shared();
	signal(SIGUSR1, on_signal);
	if (fd == 1) {
		char letter;
		printf("ready\n");
		fflush(stdout);
		if (read(0, &letter, 1) < 0)
			return 1;
	}
	for (int i = 1; i < 3; i++)
		if (!fork()) {
			run();
			_exit(0);
		}
	run();
	while (wait(NULL) > 0)
		;
	begin(&left[0], 1000000);           /* never ended */
	begin(&left[1], 1000001);
	begin(&left[1], 1000001);           /* begun again */
	end(&left[1]);
	complete(&left[2], 1000002);        /* never begun */
	left[2].self = &left[2];
	give(1000002, &left[2]);
	printf("%ld\t%llu\t%llu\n", all->count, (unsigned long long)all->inner, (unsigned long long)all->outer);
	return 0;
}
""".replace("static volatile int sink;", """static volatile int sink;
#include <sys/mman.h>
static void *mmap_shared(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}""")


def program(case, *flags):
    case.as_it_is = True
    return compiled(case, "spans", SOURCE, "gcc", "-O1", "-pthread", *flags)


def check(said, found):
    """What the program has said, and what was counted."""
    count, inner, outer = map(int, said.split("\t"))
    got = [found[key] for key in ("count", "open", "not_begun", "begun_again", "without_room", "without_number")]
    expect(got == [count, 1, 1, 1, 0, 0], f"{found}, not {count}")
    # The clocks' rates differ by what the kernel steers.
    expect(inner * 0.999 <= found["sum_ns"] <= outer * 1.001, f"{found['sum_ns']}, not from {inner} to {outer}")
    expect(sum(row["count"] for row in found["histogram"]) == count, found)
    expect(found["min_ns"] <= found["avg_ns"] <= found["max_ns"], found)
    first, last = (next(row for row in rows if row["count"]) for rows in (found["histogram"], found["histogram"][::-1]))
    expect(first["from_ns"] <= found["min_ns"] + 1 and found["min_ns"] <= first["to_ns"], f"{first}: {found['min_ns']}")
    expect(last["from_ns"] <= found["max_ns"] + 1 and found["max_ns"] <= last["to_ns"], f"{last}: {found['max_ns']}")


def measure(case, begin, until, command, *options):
    done = case.run([case.tool, "count", *options, "--json", begin, "--until", until, "--", *command])
    expect(done.status == 0 and not done.stderr, f"'{begin}' to '{until}': {done.status} {done.stderr}")
    said, found = done.stdout.splitlines()
    check(said, json.loads(found))


def exact(case):
    """By address, by a member, by a number, from and to calls and returns, in threads, handlers, and forked processes that use the same numbers."""
    need(case)
    command = [program(case, "-g")]
    for begin, until in (("submit: request", "complete: request"), ("submit: request->id", "complete: id"), ("take: ret", "complete: request"),
                         ("submit: request", "give: ret:x64"), ("take: ret->id", "give: request->id"), ("submit: request", "give:arg2"), ("submit: ret", "give: id")):
        measure(case, begin, until, command)


def placed(case):
    """By places alone, on each CPU."""
    command = [program(case)]
    for begin, until in (("submit:arg1", "complete:arg1:x64"), ("submit:arg2:s64", "give:arg1:s32"), ("take:ret:x64", "give:ret:x64")):
        measure(case, begin, until, command)


def chosen(case):
    """With conditions, of arguments at calls and at returns, and of results."""
    need(case)
    command = [program(case, "-g")]
    for options, count in ((["--if", "submit: id < 1000"], 3 * 2 * 500 + 3 * 4 * 10),
                           (["--if", "submit: id < 1000", "--if", "complete: id >= 0 && id < 1000"], 3 * 2 * 500),
                           (["--if", "take: request->id == 77"], 3)):
        begin = "take: ret" if "take" in options[1] else "submit: request"
        done = case.run([case.tool, "count", *options, "--json", begin, "--until", "complete: request", "--", *command])
        expect(done.status == 0 and not done.stderr, done.stderr)
        found = json.loads(done.stdout.splitlines()[-1])
        expect(found["count"] == count, f"{options}: {found}, not {count}")
    done = case.run([case.tool, "count", "--json", "take: ret", "--until", "give: ret:x64", "--if", "give: ret:s64 == 0", "--", *command])
    found = json.loads(done.stdout.splitlines()[-1])
    expect(found["count"] == 0 and found["open"] > 1000 and found["not_begun"] == 0, found)


def attached(case):
    """In a process that runs already; text as people read it."""
    need(case)
    with Process([program(case, "-g"), "wait", "more"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as running, contextlib.ExitStack() as left:
        left.callback(stop, running)
        running.stdout.readline()
        with Process([case.tool, "count", "submit: request", "--until", "complete: request", str(running.pid)], env=case.environment(False), stdout=subprocess.PIPE) as tool:
            until("a session", lambda: case.run([case.tool, "status", str(running.pid)]).status == 0)
            running.communicate(b"x", 60)
            text = tool.communicate(timeout=60)[0].decode()
    expect("times from 'submit: request' to 'complete: request': average" in text and "begun and not ended" in text, text)


LEAVING = r"""
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int sink;
__attribute__((noinline)) void begin(long id) { sink += id; }
__attribute__((noinline)) void end(long id) { sink -= id; }
int main(int argc, char **argv)
{
	if (argc > 1) { /* another image of the process that has begun 7 */
		end(7);
		return 0;
	}
	for (int child = 0; child < 90; child++) {
		if (!fork()) {
			for (int i = 0; i < 4000; i++)
				begin(i);
			for (int i = 0; i < 50; i++)
				end(i);
			child % 2 ? _exit(0) : abort();
		}
		wait(NULL);
	}
	begin(7);
	execl(argv[0], argv[0], "again", NULL);
	return 1;
}
"""


def leaving(case):
    """What processes leave open when they end takes no room from others, is told, and is not ended by the next image or process."""
    need(case)
    case.as_it_is = True
    command = [compiled(case, "leaving", LEAVING, "gcc", "-O1", "-g")]
    done = case.run([case.tool, "count", "--json", "begin: id", "--until", "end: id", "--", *command])
    expect(done.status == 0 and not done.stderr, f"{done.status} {done.stderr}")
    found = json.loads(done.stdout)
    got = [found[key] for key in ("count", "open", "not_begun", "begun_again", "without_room")]
    expect(got == [90 * 50, 90 * 3950 + 1, 1, 0, 0], found)


def refused(case):
    need(case)
    command = [program(case, "-g")]
    for begin, until, options, status, word in (
            ("submit: request", "complete", (), 1, "names no number"), ("submit", "complete: request", (), 1, "names no number"),
            ("submit: request", "complete: nothing", (), 2, "has no argument 'nothing'"), ("submit: request", "nobody: request", (), 2, "matches 'nobody'"),
            ("submit: request", "complete: request", ("--sum", "id"), 1, "leave out --sum"), ("submit: id", "complete: id", ("--hist", "log2"), 1, "leave out --hist"),
            ("submit: id", "complete: id", ("--keep", "newest"), 1, "leave out --keep"), ("submit:$comm", "complete: id", (), 1, "a beginning finds its end by a number"),
            ("submit:arg1 arg2", "complete: id", (), 1, "or several"), ("submit: id", "complete: id", ("--if", "submit: ret == 0"), 1, "nobody knows the result then")):
        done = case.run([case.tool, "count", *options, begin, "--until", until, "--", *command])
        expect(done.status == status and word in done.stderr and "COUNT" not in done.stdout, f"'{begin}' '{until}' {options}: {done.status} {done.stderr}")


SINGLE = {"count-spans": exact, "count-spans-placed": placed, "count-spans-chosen": chosen, "count-spans-attached": attached, "count-spans-leaving": leaving, "count-spans-refused": refused}
