/*
 * All threads of a process at once (attach.h): stop, registers, resume.
 *
 * A tracer of its own (tracer.c) holds them for as long as the stop lasts, and
 * ends with it: the kernel then lets go of what it may still hold, also of
 * threads that are in the kernel uninterruptibly and could not be let go one by
 * one.
 * Context: host.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <calltap/abi/control.h>

#include "impl.h"

#define STOP_MAX_NS  2000000000u
#define TRIES	     4
#define LIMIT_NS     5000000u /* for all threads to stop; then they are let go and the next try is made */
#define THREAD_NS    50000u   /* more for each thread, twice as much in each further try, */
#define THREAD_SHIFT 4u	      /* but no more often than this: a crowd takes its time on a slow machine */
#define SHORT_TRIES  10u      /* after these the limit is twice as long for every second try, */
#define LONG_TRIES   8u	      /* and after these there is no limit but STOP_MAX_NS */
#define ENOUGH_TRIES (SHORT_TRIES + LONG_TRIES)
#define REST_NS	     5000000u /* the program runs for so long after the first try, then for longer and longer */
#define REST_MAX_NS  50000000u
#define BUSY_NS	     100000000u
#define OWN_TRIES    (OWN_TRACER_MS * 1000000ull / BUSY_NS) /* while another calltap holds a thread */
#define ALONE_NS     50000000	 /* how often the tracer looks whether the tool is there, and runs */
#define STOPPED_MAX  2u		 /* looks that find the tool stopped, after which all threads are let go */
#define AGENT_NS     2000000000u /* for the agent of a tool that was killed to end what it is at */
#define AGENT_STEP   1000000u
#define STACK_USED   16384u /* most threads' stacks have no more live bytes */
#define READY_MAX    (16u << 20)
#define TIDS	     (1u << 22) /* one more than Linux' largest thread id */

/* The tool makes one stop at a time: two of its tracers would refuse each other. */
static pthread_mutex_t one_stop = PTHREAD_MUTEX_INITIALIZER;

static bool is_known(const struct attach_stop *stop, pid_t tid)
{
	for (size_t i = 0; i < stop->except_count; i++)
		if (stop->except[i] == tid)
			return true;
	return tid < 0 || (unsigned)tid >= TIDS || stop->seen[tid / 8] >> tid % 8 & 1;
}

static int explain_seizure(struct attach_stop *stop, pid_t tid, int error)
{
	char name[32];
	long tracer;

	if (error == -ESRCH)
		return 0; /* the thread has ended */
	if (error == -EPERM && strchr("ZX", proc_state(tid, NULL)))
		return 0;
	tracer = proc_number(tid, "TracerPid");
	if (tracer > 0) {
		process_name((pid_t)tracer, name, sizeof(name));
		return calltap_diag_set(stop->diag, -EBUSY,
					"thread %d of process %d is being traced by process %ld (%s), and the kernel "
					"allows one tracer; end that one",
					(int)tid, (int)stop->pid, tracer, name);
	}
	/* A thread that was traced when it was seized, and is not any more, can be tried again, too. */
	return calltap_diag_set(stop->diag, error == -EPERM ? -EBUSY : error,
				"thread %d of process %d cannot be stopped: %s", (int)tid, (int)stop->pid,
				strerror(-error));
}

static int hold_one(struct attach_stop *stop, pid_t tid, bool parent)
{
	int ret;

	if (stop->count == stop->room) {
		size_t room = stop->room ? stop->room * 2 : 64;
		struct held *more = reallocarray(stop->held, room, sizeof(*more));

		if (!more)
			return -ENOMEM;
		stop->held = more;
		stop->room = room;
	}
	ret = hold_seize(&stop->held[stop->count], tid);
	if (ret)
		return explain_seizure(stop, tid, ret);
	stop->held[stop->count].is_parent = parent;
	stop->seen[tid / 8] |= (unsigned char)(1u << tid % 8);
	stop->count++;
	return 0;
}

/* True if the thread had children of its own before the stop. */
static bool is_parent(const struct attach_stop *stop, pid_t tid)
{
	for (size_t i = 0; i < stop->parent_count; i++)
		if (stop->parents[i] == tid)
			return true;
	return false;
}

/*
 * Seize threads of the process that are not held yet; *added counts them.  All are seized before the first stops: the
 * kernel keeps a SIGCHLD that the program ignores if the thread that forked is traced, and may wake another thread by
 * it; that one is to be held by then.  So threads with children come last, and are let go of first: the others stay
 * held until no parent is.
 */
static int hold_new(struct attach_stop *stop, pid_t pid, size_t *added)
{
	size_t count, before = stop->count;
	pid_t *tids;
	int ret = proc_threads(pid, &tids, &count);

	if (ret)
		return pid == stop->pid ? ret : 0;
	for (unsigned parents = 0; parents < 2; parents++)
		for (size_t i = 0; !ret && i < count; i++)
			if (!is_known(stop, tids[i]) && is_parent(stop, tids[i]) == (parents == 1))
				ret = hold_one(stop, tids[i], parents == 1);
	free(tids);
	if (!stop->began_ns)
		stop->began_ns = now_ns();
	for (size_t i = before; i < stop->count; i++)
		hold_interrupt(&stop->held[i]);
	*added += stop->count - before;
	return ret;
}

/* Hold children that run in the memory of a parent which sleeps until they let go of it: vfork, posix_spawn. */
static int hold_lodgers(struct attach_stop *stop, pid_t sleeper, size_t *added)
{
	char name[32], text[512], *rest = NULL;
	int ret = 0;

	snprintf(name, sizeof(name), "task/%d/children", (int)sleeper);
	if (proc_text(stop->pid, name, text, sizeof(text)))
		return 0;
	for (char *word = strtok_r(text, " ", &rest); word && !ret; word = strtok_r(NULL, " ", &rest)) {
		pid_t child = (pid_t)strtol(word, NULL, 10);

		if (proc_share_memory(sleeper, child))
			ret = hold_new(stop, child, added);
	}
	return ret;
}

/* The first thread that has not stopped; NULL = all have. */
static const struct held *look_at_all(struct attach_stop *stop)
{
	const struct held *runs = NULL;

	for (size_t i = 0; i < stop->count; i++)
		if (!hold_look(&stop->held[i]) && !runs)
			runs = &stop->held[i];
	return runs;
}

static int wait_for_all(struct attach_stop *stop)
{
	const struct held *runs;

	for (;;) {
		uint64_t began = now_ns();
		char state;

		runs = look_at_all(stop);
		if (!runs)
			return 0;
		if (now_ns() - stop->began_ns > stop->limit_ns && stop->limit_ns < STOP_MAX_NS)
			return -ETIME; /* for stop_once() and its callers alone */
		if (now_ns() - stop->began_ns > STOP_MAX_NS) {
			state = proc_state(runs->tid, NULL);
			return calltap_diag_set(
				stop->diag, -ETIMEDOUT,
				"thread %d of process %d (in state %c) did not stop within 2 s; try again "
				"when the system is less busy",
				(int)runs->tid, (int)stop->pid, state ? state : '?');
		}
		hold_rest(began);
	}
}

/*
 * Hold children that run in a sleeper's memory.  A sleeper that has woken meanwhile, as its child was ending, is one
 * more thread that is to stop: it does before it gets to user code.
 */
static int hold_all_lodgers(struct attach_stop *stop, size_t *added)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < stop->count; i++) {
		if (stop->held[i].state != HELD_ASLEEP)
			continue;
		ret = hold_lodgers(stop, stop->held[i].tid, added);
		*added += !hold_sleeps(&stop->held[i]);
	}
	return ret;
}

/* Hold threads until a look at the list brings no new one. */
static int hold_all(struct attach_stop *stop)
{
	size_t added;
	int ret;

	do {
		added = 0;
		ret = hold_new(stop, stop->pid, &added);
		if (!ret)
			ret = wait_for_all(stop);
		if (!ret)
			ret = hold_all_lodgers(stop, &added);
	} while (!ret && added);
	return ret;
}

static void describe_thread(const struct held *held, struct attach_thread *thread)
{
	uint64_t values[NATIVE_DWARF_REGISTERS];

	memset(thread, 0, sizeof(*thread));
	thread->tid = held->tid;
	thread->asleep = held->state == HELD_ASLEEP;
	if (thread->asleep) {
		thread->pc = held->asleep_pc;
		thread->sp = held->asleep_sp;
		thread->back = (uint8_t)native_call_size(); /* nobody knows yet whether the call is made again */
		return;
	}
	thread->back = native_call_again(&held->regs) ? (uint8_t)native_call_size() : 0;
	native_dwarf(&held->regs, values);
	memcpy(thread->registers, values, sizeof(thread->registers));
	thread->pc = native_pc(&held->regs);
	thread->sp = native_sp(&held->regs);
	thread->thread_pointer = native_thread_pointer(&held->regs);
	thread->dispatches = held->dispatches;
}

static int describe_all(struct attach_stop *stop)
{
	stop->threads = calloc(stop->count + 1, sizeof(*stop->threads));
	if (!stop->threads)
		return -ENOMEM;
	for (size_t i = 0; i < stop->count; i++) {
		const struct held *held = &stop->held[i];

		if (held->state != HELD_STOPPED && held->state != HELD_ASLEEP)
			continue;
		describe_thread(held, &stop->threads[stop->thread_count++]);
		if (held->state == HELD_STOPPED)
			stop->alive = held->tid;
	}
	if (!stop->alive)
		stop->alive = proc_alive(stop->pid);
	return space_read(&stop->space, stop->alive);
}

static bool wait_a_little(sem_t *sem)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += ALONE_NS;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	return !sem_timedwait(sem, &until);
}

static void rest_for(uint64_t ns)
{
	const struct timespec pause = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

	nanosleep(&pause, NULL);
}

static bool agent_runs(const struct attach_stop *stop)
{
	for (size_t i = 0; i < stop->except_count; i++)
		if (stop->except[i] > 0 && !proc_has_ended(stop->except[i]))
			return true;
	return false;
}

/*
 * The tool was killed.  Its agent may write to text, or to stacks, and ends when it has done that, and when nobody has
 * the other end of its connection any more.
 */
static void await_agent(const struct attach_stop *stop)
{
	uint64_t until = now_ns() + AGENT_NS;

	tracer_close_all(); /* its end of the agent's connection is among them */
	while (agent_runs(stop) && now_ns() < until)
		rest_for(AGENT_STEP);
}

static bool change_lease(struct attach_stop *stop, int from, int to)
{
	return __atomic_compare_exchange_n(&stop->lease, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

bool attach_pin(struct attach_stop *stop)
{
	return change_lease(stop, LEASE_OPEN, LEASE_PINNED + stop->pins);
}

void attach_asked(struct attach_stop *stop, int socket, uint32_t answer_type)
{
	stop->answer_type = answer_type;
	__atomic_store_n(&stop->asked_at, socket, __ATOMIC_RELEASE); /* pairs with is_answered() */
}

void attach_unpin(struct attach_stop *stop)
{
	__atomic_store_n(&stop->asked_at, -1, __ATOMIC_RELEASE);
	(void)change_lease(stop, LEASE_PINNED + stop->pins, LEASE_OPEN);
	stop->pins++;
}

bool attach_is_lost(const struct attach_stop *stop)
{
	return __atomic_load_n(&stop->lease, __ATOMIC_ACQUIRE) == LEASE_LOST;
}

/* Tracer: has the agent done what the stop is pinned for?  Its answer is the next message then, and stays there. */
static bool is_answered(const struct attach_stop *stop)
{
	int socket = __atomic_load_n(&stop->asked_at, __ATOMIC_ACQUIRE);
	struct calltap_msg head = {0};
	ssize_t got = socket < 0 ? -1 : recv(socket, &head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);

	return !got || (got == (ssize_t)sizeof(head) && head.type == stop->answer_type);
}

/*
 * Tracer: let the threads go, as the tool is stopped, unless the agent is at work.  The pin's number is read first: if
 * the tool goes on meanwhile, and pins the stop for something else, this changes nothing.
 */
static bool lose(struct attach_stop *stop)
{
	int lease = __atomic_load_n(&stop->lease, __ATOMIC_ACQUIRE);

	if (lease >= LEASE_PINNED && !is_answered(stop))
		return false;
	return change_lease(stop, lease, LEASE_LOST);
}

/* Tracer: wait for the tool's next request.  False: nobody is left to ask for anything, or nobody who can. */
static bool await_request(struct attach_stop *stop)
{
	unsigned stopped = 0;

	while (!tracer_is_alone()) {
		if (wait_a_little(&stop->asked))
			return true;
		stopped = tracer_tool_is_stopped() ? stopped + 1 : 0;
		if (stopped >= STOPPED_MAX && lose(stop))
			return false;
	}
	await_agent(stop);
	return false;
}

/* Tool: wait for the tracer's answer, or until somebody has killed the tracer. */
static int await_done(struct attach_stop *stop)
{
	while (!wait_a_little(&stop->done))
		if (__atomic_load_n(&stop->tracer.over, __ATOMIC_ACQUIRE))
			return -EIO;
	return stop->result;
}

/* Hurry the agent's own threads, which are threads of the process itself, whatever the agent says. */
static void hurry_agent(struct attach_stop *stop)
{
	for (size_t i = 0; i < stop->except_count; i++) {
		char path[64];

		snprintf(path, sizeof(path), "/proc/%d/task/%d", (int)stop->pid, (int)stop->except[i]);
		if (stop->except[i] > 0 && !access(path, F_OK))
			hurry_begin(&stop->hurried[i], stop->except[i]);
	}
}

/* The tracer outlives a tool that is killed: so the tracer gives the agent's threads their turns back. */
static void calm_agent(const struct attach_stop *stop)
{
	for (size_t i = 0; i < stop->except_count; i++)
		hurry_end(&stop->hurried[i]);
}

/* Runs in the tracer. */
static int tracer_main(void *context)
{
	struct attach_stop *stop = context;

	hurry_agent(stop);
	stop->result = hold_all(stop);
	if (!stop->result)
		stop->result = describe_all(stop);
	for (;;) {
		sem_post(&stop->done);
		if (!await_request(stop) || !stop->job)
			break;
		stop->result = stop->job(stop, stop->context);
	}
	stop->ended_ns = hold_end(stop->held, stop->count);
	calm_agent(stop);
	return 0;
}

int stop_run(struct attach_stop *stop, int (*job)(struct attach_stop *stop, void *context), void *context)
{
	stop->job = job;
	stop->context = context;
	sem_post(&stop->asked);
	return await_done(stop);
}

/* Translate thread ids from those that the process sees into those that the tool sees. */
static int translate_ids(pid_t pid, pid_t *ids, size_t count)
{
	char value[256];
	pid_t *tids;
	size_t all;
	int ret;

	if (!count || proc_status(proc_alive(pid), "NSpid", value, sizeof(value)) || !strchr(value, '\t'))
		return 0;
	ret = proc_threads(pid, &tids, &all);
	if (ret)
		return ret;
	for (size_t k = 0; k < count; k++) {
		size_t i = 0;

		while (i < all && proc_inner_id(tids[i]) != ids[k])
			i++;
		ids[k] = i < all ? tids[i] : -1;
	}
	free(tids);
	return 0;
}

static void free_stop(struct attach_stop *stop)
{
	sem_destroy(&stop->asked);
	sem_destroy(&stop->done);
	space_free(&stop->space);
	spare_free(&stop->to_scan);
	spare_free(&stop->to_copy);
	free(stop->threads);
	free(stop->contexts);
	free(stop->held);
	free(stop->parents);
	free(stop->seen);
	free((void *)stop->except);
	free(stop->hurried);
	free(stop);
}

/* Make memory ready for what will be read, as much as so many threads mostly need. */
static int make_ready(struct attach_stop *stop)
{
	size_t count, ready;
	pid_t *tids;
	int ret = proc_threads(stop->pid, &tids, &count);

	if (ret)
		return ret;
	stop->parents = calloc(count, sizeof(*stop->parents));
	for (size_t i = 0; stop->parents && i < count; i++)
		if (proc_has_children(tids[i]))
			stop->parents[stop->parent_count++] = tids[i];
	free(tids);
	ready = count * STACK_USED < READY_MAX ? count * STACK_USED : READY_MAX;
	stop->held = calloc(count, sizeof(*stop->held));
	stop->room = stop->held ? count : 0;
	stop->limit_ns += (count * THREAD_NS) << (stop->tries < THREAD_SHIFT ? stop->tries : THREAD_SHIFT);
	ret = spare_get(&stop->to_scan, SCAN_BATCH, ready);
	return ret ? ret : spare_get(&stop->to_copy, ready, ready);
}

static int start_tracer(struct attach_stop *stop)
{
	int ret = make_ready(stop);

	if (ret)
		return ret;
	hurry_begin(&stop->tool, gettid());
	ret = tracer_start(&stop->tracer, tracer_main, stop);
	if (ret)
		hurry_end(&stop->tool);
	return ret;
}

static struct attach_stop *make_stop(pid_t pid, const pid_t *except, size_t except_count)
{
	struct attach_stop *stop = calloc(1, sizeof(*stop));
	pid_t *ids = calloc(except_count + 1, sizeof(*ids));

	if (!stop || !ids) {
		free(stop);
		free(ids);
		return NULL;
	}
	if (except_count)
		memcpy(ids, except, except_count * sizeof(*ids));
	sem_init(&stop->asked, 0, 0);
	sem_init(&stop->done, 0, 0);
	stop->pid = pid;
	stop->late = true;
	stop->except = ids;
	stop->except_count = except_count;
	stop->asked_at = -1;
	stop->hurried = calloc(except_count + 1, sizeof(*stop->hurried));
	stop->seen = calloc(1, TIDS / 8);
	if (stop->hurried && stop->seen)
		return stop;
	free_stop(stop);
	return NULL;
}

static uint64_t limit_of(unsigned tries)
{
	if (tries >= ENOUGH_TRIES)
		return STOP_MAX_NS;
	return (uint64_t)LIMIT_NS << (tries < SHORT_TRIES ? 0 : (tries - SHORT_TRIES) / 2 + 1);
}

/* Try to stop all threads once. -ETIME: the try took longer than its limit and was given up: see *given_up. */
static int stop_once(struct attach_stop **out, pid_t pid, const pid_t *except, size_t except_count, unsigned tries,
		     struct attach_times *given_up, struct calltap_diag *diag)
{
	struct attach_stop *stop = make_stop(pid, except, except_count);
	int ret;

	*out = NULL;
	if (!stop)
		return calltap_diag_set(diag, -ENOMEM, "there is no memory left");
	stop->tries = tries;
	stop->limit_ns = limit_of(tries);
	stop->given_up = *given_up;
	stop->diag = diag;
	if (diag)
		diag->code = 0;
	ret = translate_ids(pid, (pid_t *)stop->except, except_count);
	if (!ret)
		ret = start_tracer(stop);
	if (ret) {
		free_stop(stop);
		return calltap_diag_set(diag, ret, "process %d cannot be stopped: %s", (int)pid, strerror(-ret));
	}
	ret = await_done(stop);
	stop->diag = NULL;
	if (!ret) {
		stop->is_the_one = true;
		*out = stop;
		return 0;
	}
	attach_resume_timed(stop, given_up);
	given_up->given_up += ret == -ETIME || ret == -ETIMEDOUT;
	if (!diag || diag->code == ret || ret == -ETIME)
		return ret;
	return calltap_diag_set(diag, ret, "process %d cannot be stopped: %s", (int)pid,
				ret == -ESRCH ? "it has ended" : strerror(-ret));
}

static uint64_t rest_of(unsigned tries)
{
	uint64_t ns = tries < 4 ? (uint64_t)REST_NS << tries : REST_MAX_NS;

	return ns > limit_of(tries) ? ns : limit_of(tries);
}

/*
 * Where CPUs are few and busy, a thread that is ready to run may wait for one
 * for many ms, and all that have stopped would wait with it.  In another try it
 * may be on a CPU, or asleep, from which it is woken at once.
 */
static int stop_briefly(struct attach_stop **out, pid_t pid, const pid_t *except, size_t except_count, unsigned tries,
			struct attach_times *given_up, struct calltap_diag *diag)
{
	for (;; tries++) {
		uint64_t before = given_up->total_ns, took;
		int ret = stop_once(out, pid, except, except_count, tries, given_up, diag);

		if (ret != -ETIME)
			return ret;
		took = given_up->total_ns - before;
		rest_for(took > rest_of(tries) ? took : rest_of(tries));
	}
}

int attach_stop(struct attach_stop **out, pid_t pid, const pid_t *except, size_t except_count,
		struct calltap_diag *diag)
{
	return attach_stop_again(out, pid, except, except_count, 0, diag);
}

/* True if a thread has a tracer that is not a calltap's, and so may stay for long. */
static bool has_foreign_tracer(pid_t pid)
{
	bool foreign = false;
	size_t count;
	pid_t *tids;

	if (proc_threads(pid, &tids, &count))
		return false;
	for (size_t i = 0; !foreign && i < count; i++) {
		long tracer = proc_number(tids[i], "TracerPid");

		foreign = tracer > 0 && !tracer_is_calltap((pid_t)tracer);
	}
	free(tids);
	return foreign;
}

/* A system is not busy for ever, nor does the tracer of another calltap last: try again. */
static int stop_patiently(struct attach_stop **out, pid_t pid, const pid_t *except, size_t except_count,
			  unsigned given_up, struct calltap_diag *diag)
{
	struct attach_times times = {0};
	int ret = stop_briefly(out, pid, except, except_count, given_up, &times, diag);

	for (unsigned i = 0; ret == -ETIMEDOUT || ret == -EBUSY; i++) {
		if (i >= (ret == -EBUSY && !has_foreign_tracer(pid) ? OWN_TRIES : TRIES))
			break;
		rest_for(BUSY_NS);
		ret = stop_once(out, pid, except, except_count, ENOUGH_TRIES, &times, diag);
	}
	return ret;
}

int attach_stop_again(struct attach_stop **out, pid_t pid, const pid_t *except, size_t except_count, unsigned given_up,
		      struct calltap_diag *diag)
{
	int ret;

	pthread_mutex_lock(&one_stop);
	ret = stop_patiently(out, pid, except, except_count, given_up, diag);
	if (ret)
		pthread_mutex_unlock(&one_stop);
	return ret;
}

uint64_t attach_resume(struct attach_stop *stop)
{
	struct attach_times times = {0};
	uint64_t before = stop ? stop->given_up.total_ns : 0;

	attach_resume_timed(stop, &times);
	return times.total_ns - before;
}

void attach_resume_timed(struct attach_stop *stop, struct attach_times *times)
{
	uint64_t elapsed = 0;
	uint32_t cut_short = 0;

	memset(times, 0, sizeof(*times));
	if (!stop)
		return;
	stop->job = NULL;
	sem_post(&stop->asked);
	tracer_join(&stop->tracer);
	hurry_end(&stop->tool);
	if (stop->began_ns)
		elapsed = (stop->ended_ns ? stop->ended_ns : now_ns()) - stop->began_ns;
	if (stop->is_the_one)
		pthread_mutex_unlock(&one_stop);
	for (size_t i = 0; i < stop->count; i++)
		cut_short += stop->held[i].cut_short;
	*times = stop->given_up;
	times->cut_short += cut_short;
	times->total_ns += elapsed;
	if (elapsed > times->longest_ns)
		times->longest_ns = elapsed;
	free_stop(stop);
}

const struct attach_thread *attach_threads(const struct attach_stop *stop, size_t *count)
{
	*count = stop->thread_count;
	return stop->threads;
}

uint64_t attach_main_thread(const struct attach_stop *stop)
{
	for (size_t i = 0; i < stop->thread_count; i++)
		if (stop->threads[i].tid == stop->pid)
			return stop->threads[i].thread_pointer;
	return 0;
}
