/*
 * Clearing a process of the remains of a killed calltap; see clearing.h.
 *
 * The agent gives compiled sites their bytes back by itself.  Heads of functions that nobody had prepared take a stop
 * of all threads, which only a tool can make: so a session comes into the process for that alone (doc/design/stock.md,
 * "Why a killed tool leaves heads led").  Context: host.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <host/attach/attach.h>
#include <host/compare.h>
#include <host/counted.h>
#include <host/now.h>
#include <host/proc.h>
#include <host/remote/remote.h>
#include <host/space.h>
#include <host/text.h>
#include <tracers/tracer.h>

#include "clearing.h"
#include "recording.h"

#define ANCESTORS_MAX 64
#define BUFFER_BYTES  (64u << 10) /* nothing is recorded */
#define CHILDREN_MS   10000	  /* longest time for which the children of a recording are cleared, but for the last */

/*
 * Another session has the process: one that attaches to it just now, which looks like a child that was forked in the
 * midst of an attach; or the one that goes on without the process that was named, which it had given up.
 */
static bool is_traced(pid_t pid)
{
	struct calltap_diag diag = {.column = -1};
	int socket;

	if (remote_connect(&socket, pid, &diag))
		return false;
	close(socket);
	return true;
}

/*
 * The process that a session follows and from which this one was forked, which has made no traced call yet, and so is
 * not the session's by name; 0 = there is none.
 */
static pid_t traced_parent(pid_t pid)
{
	const unsigned long board = space_inode_of(pid, SPACE_BOARD);
	pid_t parent = pid;

	for (int i = 0; board && i < ANCESTORS_MAX && (parent = proc_parent(parent)) > 1; i++)
		if (space_inode_of(parent, SPACE_BOARD) == board && is_traced(parent))
			return parent;
	return 0;
}

static int refuse_child(pid_t pid, pid_t parent, struct calltap_diag *diag)
{
	return calltap_diag_set(
		diag, -ESRCH,
		"process %d was forked from process %d, which is traced, and has made no traced call so "
		"far; name that one",
		(int)pid, (int)parent);
}

int clearing_refuse(pid_t pid, struct calltap_diag *diag)
{
	const pid_t parent = traced_parent(pid);
	struct compare_result text = {0};

	if (parent)
		return refuse_child(pid, parent, diag);
	if (attach_has_agent(pid))
		text = compare_text(pid, NULL, NULL);
	if (!text.differing)
		return calltap_diag_set(diag, -ESRCH, "process %d is not traced by you; `calltap status` lists what is",
					(int)pid);
	return calltap_diag_set(diag, -ESRCH,
				"process %d is not traced by you; %llu %s from its files: if a calltap that was killed "
				"has left that, `calltap detach %d` takes it away, with what a flight recorder holds: "
				"`calltap snapshot %d` writes that before",
				(int)pid, (unsigned long long)text.differing,
				counted(text.differing, "byte of its text differs", "bytes of its text differ"),
				(int)pid, (int)pid);
}

/* Print what was done.  whose: what has left that. */
static void tell(const struct record_attached *told, const char *whose)
{
	char size[TIMETEXT_MAX];

	printf("what %s had left in process %d is taken away", whose, (int)told->pid);
	if (told->detach_stop_ns)
		printf(", its threads were stopped for %.2f ms", (double)told->detach_stop_ns / 1e6);
	if (told->text.differing)
		printf("; %llu %s from its files (the first at offset 0x%llx of %s), which is somebody else's\n",
		       (unsigned long long)told->text.differing,
		       counted(told->text.differing, "byte of its text differs", "bytes of its text differ"),
		       (unsigned long long)told->text.first, told->text.first_in);
	else
		printf("; all %s of its text are as in its files\n", sizetext(told->text.verified, size));
}

/* The caller prints nothing of this process: text that still differs from its files is an error then. */
static int refuse_differing(const struct compare_result *text, struct calltap_diag *diag)
{
	if (!text->differing)
		return 0;
	return calltap_diag_set(diag, -ETXTBSY, "%llu %s from its files, the first at offset 0x%llx of %s",
				(unsigned long long)text->differing,
				counted(text->differing, "byte of its text differs", "bytes of its text differ"),
				(unsigned long long)text->first, text->first_in);
}

/* whose: as of tell(); NULL: nothing is printed. */

static int clear(pid_t pid, char **argv, const char *whose, struct calltap_diag *diag)
{
	char *command[] = {(char *)"?", NULL};
	struct record_result result = {0};
	struct recording recording;
	struct record_options *options = &recording.settings.options;
	int ret;

	ret = recording_init(&recording, argv);
	options->command = command;
	options->pids = &pid;
	options->pid_count = 1;
	options->output = NULL;
	options->tracer = tracer_find("nop");
	options->mode = CALLTAP_MODE_DROP;
	options->buffer_bytes = BUFFER_BYTES;
	options->stock = STOCK_NEVER;
	options->libcalls = LIBCALLS_NEVER;
	options->clears = true;
	options->allow_no_sites = true;
	options->allow_no_match = true;
	recording.quiet = true;
	if (!ret)
		ret = recording_check(&recording, 0, argv, 0);
	if (ret)
		ret = calltap_diag_set(diag, -EIO, "process %d is left as it is", (int)pid);
	else
		ret = record_run(options, &result, diag);
	if (!ret && (!result.attached || !result.attached->had_leftovers))
		ret = calltap_diag_set(diag, -ESRCH,
				       "process %d is not traced by you, and no calltap has left anything in it",
				       (int)pid);
	else if (!ret && whose)
		tell(result.attached, whose);
	else if (!ret)
		ret = refuse_differing(&result.attached->text, diag);
	options->command = NULL;
	record_result_clear(&result);
	recording_clear(&recording);
	return ret;
}

/* How processes are cleared that looks find. */
struct clearer {
	char **argv;
	const char *whose; /* as of tell(); NULL: nothing is printed */
	bool text_alone;   /* a process whose text is its own keeps the agent, with which it was started */
};

/* The processes that could not be cleared. */
struct left {
	uint32_t count;
	char pids[128]; /* of the first ones */
	struct calltap_diag why;
};

/* A process that has ended, or executed another program, has nothing any more. */
static int clear_other(const struct clearer *clearer, pid_t pid, struct calltap_diag *diag)
{
	int ret;

	if (clearer->text_alone && !compare_text(pid, NULL, NULL).differing)
		return 0;
	if (attach_slack_has(pid))
		attach_slack_clean(pid);
	ret = attach_has_agent(pid) ? clear(pid, clearer->argv, clearer->whose, diag) : 0;
	if (ret == -ESRCH || !attach_has_agent(pid))
		ret = 0;
	if (!ret && attach_slack_has(pid))
		ret = calltap_diag_set(diag, -EAGAIN, "a thread may come back to the code that a borrowed thread ran");
	return ret;
}

static void note_left(struct left *left, pid_t pid, const struct calltap_diag *why)
{
	size_t at = strlen(left->pids);

	if (!left->count++)
		left->why = *why;
	if (at + sizeof(" 2147483647 ...") < sizeof(left->pids))
		snprintf(left->pids + at, sizeof(left->pids) - at, " %d", (int)pid);
	else if (at && left->pids[at - 1] != '.')
		snprintf(left->pids + at, sizeof(left->pids) - at, " ...");
}

/* Returns how many were cleared of those that the last look has found. */
static uint32_t clear_found(const struct clearer *clearer, const struct record_silent *silent, int64_t until,
			    struct left *left)
{
	uint32_t cleared = 0;

	for (size_t i = 0; i < silent->count; i++) {
		struct calltap_diag diag = {.column = -1};
		int ret;

		if (is_traced(silent->pids[i]))
			continue;
		ret = now_ms() < until ? clear_other(clearer, silent->pids[i], &diag)
				       : calltap_diag_set(&diag, -ETIMEDOUT, "there was no time for it");

		if (ret)
			note_left(left, silent->pids[i], &diag);
		cleared += !ret;
	}
	return cleared;
}

/*
 * Clear all that looks find.  Some may fork meanwhile, so there is another look after each that was of use; what one
 * finds that comes too late is told.  One that cannot be cleared may go on forking.  Returns how many were cleared.
 */
static uint32_t clear_all(const struct clearer *clearer, struct record_silent *silent, struct left *left)
{
	int64_t until =
		clearer->whose ? INT64_MAX : now_ms() + CHILDREN_MS; /* the user waits for all of the first look */
	uint32_t cleared, sum = 0;

	do {
		record_silent_look(silent);
		cleared = clear_found(clearer, silent, until, left);
		if (until == INT64_MAX)
			until = now_ms() + CHILDREN_MS;
		sum += cleared;
	} while (cleared);
	return sum;
}

void clearing_children(struct record_result *result, char **argv)
{
	const struct clearer clearer = {.argv = argv};
	struct left left = {0};

	result->freed += clear_all(&clearer, &result->silent, &left);
	if (left.count)
		fprintf(stderr,
			"calltap: %u %s what was brought in before the fork, and nothing is recorded there (%s); "
			"'calltap detach PID' tries again:%s\n",
			left.count, counted(left.count, "forked process keeps", "forked processes keep"), left.why.text,
			left.pids);
}

/* Take away what a killed calltap has left in this process; the others of its session stay as they are. */
static int clear_one(pid_t pid, char **argv, const char *whose, struct calltap_diag *diag)
{
	const bool code = attach_slack_has(pid);
	struct record_attached told = {.pid = pid};
	int ret;

	/* A child that was forked in the midst of an attach may have nothing else. */
	if (code)
		attach_slack_clean(pid);
	ret = attach_has_agent(pid) ? clear(pid, argv, whose, diag) : clearing_refuse(pid, diag);
	if (ret != -ESRCH || !code || attach_slack_has(pid))
		return ret;
	told.text = compare_text(pid, NULL, NULL);
	tell(&told, whose);
	return 0;
}

/* Clear the other processes of the session that has left that. */
static int clear_others(const struct clearer *clearer, struct record_silent *others, struct calltap_diag *diag)
{
	struct left left = {0};

	clear_all(clearer, others, &left);
	if (!left.count)
		return 0;
	return calltap_diag_set(diag, -EIO,
				"of %u %s nothing is taken away (%s%s); 'calltap detach PID' tries again:%s",
				left.count, counted(left.count, "other process", "other processes"),
				left.count > 1 ? "the first: " : "", left.why.text, left.pids);
}

int clearing_run(pid_t pid, char **argv, struct calltap_diag *diag)
{
	const struct clearer clearer = {.argv = argv, .whose = "an earlier calltap"};
	const pid_t parent = traced_parent(pid);
	struct record_silent others = {0};
	int ret;

	if (parent)
		return refuse_child(pid, parent, diag);
	record_silent_of(&others, pid, 0);
	ret = clear_one(pid, argv, clearer.whose, diag);
	if (!ret)
		ret = clear_others(&clearer, &others, diag);
	record_silent_clear(&others);
	return ret;
}

int clearing_finish(pid_t pid, unsigned long long since, char **argv, struct calltap_diag *diag)
{
	const struct clearer clearer = {.argv = argv, .whose = "the recording", .text_alone = true};
	struct record_silent others = {0};
	int ret, later;

	record_silent_of(&others, pid, since);
	ret = clear_other(&clearer, pid, diag);
	later = clear_others(&clearer, &others, diag);
	record_silent_clear(&others);
	return ret ? ret : later;
}
