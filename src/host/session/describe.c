/*
 * What the file says about the run: at its start, and at its end.
 * Called by the server thread, and by who ends an instance.  Context: host.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <host/target/attached.h>
#include <host/values/values.h>

#include "host/counted.h"
#include "host/space.h"
#include "session.h"

#define ENDING_MS    500
#define ENDING_TRIES 4

static void cpu_model(char *model, size_t size)
{
	FILE *cpu = fopen("/proc/cpuinfo", "re");
	char line[512], *value;

	model[0] = 0;
	while (cpu && !model[0] && fgets(line, sizeof(line), cpu)) {
		value = strchr(line, ':');
		if (value && !strncmp(line, "model name", 10))
			snprintf(model, size, "%.*s", (int)strcspn(value + 2, "\n"), value + 2);
	}
	if (cpu)
		fclose(cpu);
}

static void join_words(char *const *words, char *text, size_t size)
{
	text[0] = 0;
	for (size_t i = 0; words[i]; i++) {
		size_t at = strlen(text);

		snprintf(text + at, size - at, "%s%s", i ? " " : "", words[i]);
	}
	for (char *c = text; *c; c++)
		if (*c == '\n')
			*c = ' '; /* a line of INFO is a line */
}

static void time_text(char *text, size_t size)
{
	time_t now = time(NULL);
	struct tm tm;

	gmtime_r(&now, &tm);
	strftime(text, size, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

static int describe_emulator(struct instance *instance)
{
	char *text = emulator_text(&instance->session->emulator);
	int ret = text ? trace_writer_info(instance->writer, "emulator", "%s", text) : -ENOMEM;

	free(text);
	return ret;
}

/* The file that a process executes, while it runs; the name in its command line may be anything. */
static const char *program_of(const struct session *session, char path[4096])
{
	const pid_t pid = session_pid(session);
	char link[64];
	ssize_t length = -1;

	snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
	if (pid)
		length = readlink(link, path, 4095);
	if (length <= 0)
		return session->options->command[0];
	path[length] = 0;
	space_cut_deleted(path);
	return path;
}

int describe_start(struct instance *instance)
{
	const struct record_options *options = instance->options;
	char command[2048], cwd[4096] = "", exe[4096], started[40], model[128], kernel[256], bytes[32];
	struct utsname host;
	int ret = 0;

	join_words(options->command, command, sizeof(command));
	if (!getcwd(cwd, sizeof(cwd)))
		cwd[0] = 0;
	time_text(started, sizeof(started));
	cpu_model(model, sizeof(model));
	uname(&host);
	snprintf(kernel, sizeof(kernel), "%s %s %s", host.sysname, host.release, host.machine);
	snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)instance->sub_size * instance->sub_count);

	const struct {
		const char *key, *value;
	} rows[] = {
		{"version", CALLTAP_VERSION},
		{"program", program_of(instance->session, exe)},
		{"command", command},
		{"cwd", cwd},
		{"host", host.nodename},
		{"kernel", kernel},
		{"cpu", model},
		{"tracer", options->tracer->name},
		{"mode", record_mode_name(options->mode)},
		{"buffer_bytes", bytes},
		{"options", options->options_text},
		{"started", started},
		{"machine", instance->session->machine->name},
		{"clock", instance->session->machine->clock},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && !ret; i++)
		ret = trace_writer_info(instance->writer, rows[i].key, "%s", rows[i].value);
	if (!ret && instance->session->emulated)
		ret = describe_emulator(instance);
	if (!ret)
		ret = trace_writer_formats(instance->writer);
	return ret ? ret : trace_writer_flush(instance->writer);
}

/* Does the process run on?  One that ends closes its sockets a moment before that; so wait a moment. */
static bool runs_on(const struct attachee *attachee, int patience_ms)
{
	struct pollfd ended = {.fd = attachee->fd, .events = POLLIN};

	return attachee->told->let_go || (ended.fd >= 0 && poll(&ended, 1, patience_ms) == 0);
}

/*
 * The agent has gone without being told to, and the process has not: another
 * program has taken its place.  An exec ends the agent's thread first, and on
 * a busy machine it takes its time from there to the new program's memory.
 */
static bool was_replaced(const struct attachee *attachee)
{
	struct attach_range range;

	if (!attachee->told->attached || attachee->told->let_go)
		return false;
	for (int i = 0; i < ENDING_TRIES && runs_on(attachee, ENDING_MS); i++)
		if (attached_text_of(attachee->told->pid, "libcalltap-agent", &range, 1) == 0)
			return true;
	return false;
}

void describe_replaced(struct session *session)
{
	for (uint32_t i = 0; i < session->attachees.count; i++)
		session->attachees.list[i].told->replaced = was_replaced(&session->attachees.list[i]);
}

/* Say what became of processes that ran already: in one word where all fared the same. */
static void attached_text(const struct session *session, char *text, size_t size)
{
	static const char *const words[] = {"still running", "executed another program", "ended"};
	uint32_t counts[3] = {0}, kinds = 0;
	size_t at = 0;

	for (uint32_t i = 0; i < session->attachees.count; i++) {
		const struct attachee *attachee = &session->attachees.list[i];

		if (attachee->told->attached)
			counts[attachee->told->replaced ? 1 : runs_on(attachee, 0) ? 0 : 2]++;
	}
	for (uint32_t i = 0; i < 3; i++)
		kinds += counts[i] != 0;
	snprintf(text, size, "%s", words[2]);
	for (uint32_t i = 0; i < 3 && at < size; i++)
		if (counts[i] && kinds == 1)
			snprintf(text, size, "%s", words[i]);
		else if (counts[i])
			at += (size_t)snprintf(text + at, size - at, "%s%u %s", at ? ", " : "", counts[i], words[i]);
}

static void exit_text(const struct session *session, char *text, size_t size)
{
	int status = session->result->wait_status;

	if (session->options->pid_count)
		attached_text(session, text, size);
	else if (session->command)
		snprintf(text, size, "still running");
	else if (WIFSIGNALED(status))
		snprintf(text, size, "killed by SIG%s",
			 sigabbrev_np(WTERMSIG(status)) ? sigabbrev_np(WTERMSIG(status)) : "?");
	else
		snprintf(text, size, "exited %d", WEXITSTATUS(status));
}

/* With the lock: targets may come and go while one of several instances ends. */
static int write_threads(struct instance *instance)
{
	int ret = 0;

	for (uint32_t i = 0; i < instance->thread_count && !ret; i++) {
		instance->result->wait_ticks += instance->threads[i].row.wait_ticks;
		ret = trace_writer_chunk(instance->writer, CALLTAP_CHUNK_THREAD, &instance->threads[i].row,
					 sizeof(instance->threads[i].row));
	}
	for (const struct share *share = instance->shares; share && !ret; share = share->next)
		ret = target_write(share->target, instance->writer);
	return ret;
}

/* Write the clock's rate by the target's CPU, and the cost of reading it: a call takes two reads. */
static int write_clock(const struct instance *instance, struct trace_writer *writer)
{
	const struct session *session = instance->session;
	double rate = instance->result->ticks_per_ns;
	int ret = 0;

	if (session->timing.line.hz)
		ret = trace_writer_info(writer, "clock_hz", "%llu", (unsigned long long)session->timing.line.hz);
	if (!ret && session->timing.cost && rate > 0)
		ret = trace_writer_info(writer, "clock_read_ns", "%.1f",
					session->timing.cost / rate / CALLTAP_CLOCK_READS);
	return ret;
}

/* Calls for which there was no ring, or no memory beside the stack; those of processes that run, too. */
static uint64_t count_untraced(const struct instance *instance)
{
	uint64_t untraced = instance->result->untraced;

	for (const struct share *share = instance->shares; share; share = share->next)
		if (share->arena_count)
			untraced += rings_untraced(share);
	return untraced;
}

/* Processes and programs that are not in the trace, or not as a whole. */
static int write_absent(const struct record_result *result, struct trace_writer *writer)
{
	int ret = 0;

	if (result->foreign)
		ret = trace_writer_info(writer, "foreign", "%u %s for another CPU, untraced", result->foreign,
					counted(result->foreign, "program", "programs"));
	if (!ret && result->strays)
		ret = trace_writer_info(writer, "strays", "%u %s", result->strays,
					counted(result->strays, "process", "processes"));
	if (!ret && result->unreached)
		ret = trace_writer_info(writer, "unreached", "%u forked %s", result->unreached,
					counted(result->unreached, "child", "children"));
	if (!ret && result->late)
		ret = trace_writer_info(writer, "late", "%u forked %s not set up yet at the end", result->late,
					counted(result->late, "child was", "children were"));
	if (!ret && result->ended_early)
		ret = trace_writer_info(
			writer, "ended_early", "%u forked %s set up", result->ended_early,
			counted(result->ended_early, "child ended before it was", "children ended before they were"));
	if (!ret && result->unplaced)
		ret = trace_writer_info(writer, "unplaced", "%u static %s, untraced: %s", result->unplaced,
					counted(result->unplaced, "program", "programs"), result->unplaced_why);
	if (!ret && result->unheard)
		ret = trace_writer_info(writer, "unheard", "%u forked %s: %s", result->unheard,
					counted(result->unheard, "child", "children"), result->unheard_why);
	return ret;
}

/* Write what few traces have, each only where it applies. */
static int write_oddities(struct instance *instance, struct trace_writer *writer)
{
	const struct record_result *result = instance->session->result;
	uint64_t untraced = count_untraced(instance);
	int ret = 0;

	if (instance->overwritten)
		ret = trace_writer_info(
			writer, "overwritten", "%llu %s of %u bytes", (unsigned long long)instance->overwritten,
			counted(instance->overwritten, "sub-buffer", "sub-buffers"), instance->sub_size);
	if (!ret && instance->holes)
		ret = trace_writer_info(writer, "holes", "%llu %s", (unsigned long long)instance->holes,
					counted(instance->holes, "record", "records"));
	if (!ret && untraced)
		ret = trace_writer_info(writer, "untraced", "%llu %s", (unsigned long long)untraced,
					counted(untraced, "call", "calls"));
	if (!ret && result->moves)
		ret = trace_writer_info(writer, "moves",
					"%u %s parts of stacks (as greenlet does), and %s recorded up to there",
					result->moves, counted(result->moves, "process copies", "processes copy"),
					counted(result->moves, "is", "are"));
	if (!ret && result->shut_in)
		ret = trace_writer_info(writer, "sandbox", "%u %s in", result->shut_in,
					counted(result->shut_in, "process shut itself", "processes shut themselves"));
	if (!ret && result->stopped)
		ret = trace_writer_info(
			writer, "stopped", "%u %s, and %s recorded up to there", result->stopped,
			counted(result->stopped,
				"process may not read the clock any more (seccomp's strict mode, or PR_SET_TSC)",
				"processes may not read the clock any more (seccomp's strict mode, or PR_SET_TSC)"),
			counted(result->stopped, "is", "are"));
	if (!ret && result->executed)
		ret = trace_writer_info(writer, "executed", "%u %s in a sandbox, untraced", result->executed,
					counted(result->executed, "program", "programs"));
	if (!ret && result->spaces)
		ret = trace_writer_info(writer, "dlmopen", "not followed in %u %s", result->spaces,
					counted(result->spaces, "process", "processes"));
	if (!ret)
		ret = write_absent(result, writer);
	if (!ret && instance->session->dlopen_missed)
		ret = trace_writer_info(writer, "dlopen", "not followed");
	return ret;
}

static int write_totals(struct instance *instance, struct trace_writer *writer)
{
	const struct session *session = instance->session;
	const struct record_result *result = session->result;
	char text[64];
	int ret;

	exit_text(session, text, sizeof(text));
	ret = trace_writer_info(writer, "exit", "%s", text);
	if (!ret)
		ret = trace_writer_info(writer, "sites", "%u", session->images.next_id);
	if (!ret)
		ret = trace_writer_info(writer, "patched", "%llu", (unsigned long long)result->patched);
	if (!ret)
		ret = trace_writer_info(writer, "failed", "%llu", (unsigned long long)result->failed);
	if (!ret)
		ret = trace_writer_info(writer, "patch_ticks", "%llu", (unsigned long long)session->patch_ticks);
	/* Of an attach the file is begun long before, and ended long after. */
	if (!ret && session->options->pid_count && session->traced_ns && session->ending.began_ns > session->traced_ns)
		ret = trace_writer_info(writer, "recorded_ns", "%llu",
					(unsigned long long)(session->ending.began_ns - session->traced_ns));
	if (!ret)
		ret = write_clock(instance, writer);
	if (!ret)
		ret = write_oddities(instance, writer);
	return ret ? ret : trace_writer_flush(writer);
}

struct image *describe_next_without_lines(struct instance *instance)
{
	struct session *session = instance->session;
	uint32_t bit = 1u << instance->set;
	struct image *image;

	session_lock(session);
	image = session->images.first;
	while (image && (!image->announced || image->lined & bit))
		image = image->next;
	if (image)
		image->lined |= bit;
	session_unlock(session);
	return image;
}

static int write_lines(struct instance *instance)
{
	struct image *image;
	int ret = 0;

	while (!ret && (image = describe_next_without_lines(instance)))
		ret = image_write_lines(image, instance->writer);
	return ret;
}

int describe_end(struct instance *instance)
{
	struct session *session = instance->session;
	struct calltap_file_clock sample;
	struct calltap_file_end end = {
		.lost = instance->result->lost,
		.status = -1,
	};
	int ret;

	session_lock(session);
	ret = marks_write_kept(instance);
	if (!ret && instance == session_first(session))
		ret = values_describe(session->images.values, session);
	if (!ret)
		ret = write_threads(instance);
	sample = timing_now(session);
	session_unlock(session);
	if (!ret)
		ret = write_lines(instance);
	session_lock(session);
	end.ticks = sample.ticks;
	end.records = instance->result->records;
	if (!session->command && !session->options->pid_count)
		end.status = session->result->wait_status;
	if (!ret)
		ret = write_totals(instance, instance->writer);
	/* An emulated clock whose rate is not known shows what was told last. */
	if (!ret && sample.ticks > session->timing.line.last_ticks)
		ret = trace_writer_chunk(instance->writer, CALLTAP_CHUNK_CLOCK, &sample, sizeof(sample));
	session_unlock(session);
	return ret ? ret : trace_writer_chunk(instance->writer, CALLTAP_CHUNK_END, &end, sizeof(end));
}

int describe_snapshot(struct instance *instance, struct trace_writer *writer)
{
	int ret;

	session_lock(instance->session);
	ret = write_totals(instance, writer);
	session_unlock(instance->session);
	return ret;
}
