/*
 * What the file says about the run: at its start, and at its end.
 * Called by the session, server thread.  Context: host.
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

#include "host/counted.h"
#include "host/space.h"
#include "attached.h"
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

static void join(char *const *words, char *text, size_t size)
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

static int describe_emulator(struct session *session)
{
	char *text = emulator_text(&session->emulator);
	int ret = text ? trace_writer_info(session->writer, "emulator", "%s", text) : -ENOMEM;

	free(text);
	return ret;
}

/* The file that a process executes, while it runs; the name in its command line may be anything. */
static const char *program_of(const struct record_options *options, char path[4096])
{
	char link[64];
	ssize_t length = -1;

	snprintf(link, sizeof(link), "/proc/%d/exe", (int)options->pid);
	if (options->pid)
		length = readlink(link, path, 4095);
	if (length <= 0)
		return options->command[0];
	path[length] = 0;
	space_cut_deleted(path);
	return path;
}

int describe_start(struct session *session)
{
	const struct record_options *options = session->options;
	char command[2048], cwd[4096] = "", exe[4096], started[40], model[128], kernel[256], bytes[32];
	struct utsname host;
	int ret = 0;

	join(options->command, command, sizeof(command));
	if (!getcwd(cwd, sizeof(cwd)))
		cwd[0] = 0;
	time_text(started, sizeof(started));
	cpu_model(model, sizeof(model));
	uname(&host);
	snprintf(kernel, sizeof(kernel), "%s %s %s", host.sysname, host.release, host.machine);
	snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)session->sub_size * session->sub_count);

	const struct {
		const char *key, *value;
	} rows[] = {
		{"version", CALLTAP_VERSION},
		{"program", program_of(options, exe)},
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
		{"machine", session->machine->name},
		{"clock", session->machine->clock},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && !ret; i++)
		ret = trace_writer_info(session->writer, rows[i].key, "%s", rows[i].value);
	if (!ret && session->emulated)
		ret = describe_emulator(session);
	return ret ? ret : trace_writer_flush(session->writer);
}

/* Of a process that is no child of ours; its sockets are closed a moment before it has ended. */
static bool runs_on(const struct session *root, int patience_ms)
{
	struct pollfd ended = {.events = POLLIN};
	bool runs;

	if (root->result->let_go)
		return true;
	ended.fd = (int)syscall(SYS_pidfd_open, root->options->pid, 0);
	runs = ended.fd >= 0 && poll(&ended, 1, patience_ms) == 0;
	if (ended.fd >= 0)
		close(ended.fd);
	return runs;
}

/*
 * The agent has gone without being told to, and the process has not: another
 * program has taken its place.  An exec ends the agent's thread first, and on
 * a busy machine it takes its time from there to the new program's memory.
 */
static bool was_replaced(const struct session *session)
{
	const struct record_result *result = session->result;
	struct attach_range range;

	if (!session->options->pid || !result->attached || result->let_go)
		return false;
	for (int i = 0; i < ENDING_TRIES && runs_on(session, ENDING_MS); i++)
		if (attached_text_of(session->options->pid, "libcalltap-agent", &range, 1) == 0)
			return true;
	return false;
}

static void exit_text(struct session *session, char *text, size_t size)
{
	const struct session *root = session_root(session);
	int status = session->result->wait_status;

	if (root->options->pid)
		snprintf(text, size, "%s",
			 session->result->replaced ? "executed another program"
			 : runs_on(root, 0)	   ? "still running"
						   : "ended");
	else if (session->command)
		snprintf(text, size, "still running");
	else if (WIFSIGNALED(status))
		snprintf(text, size, "killed by SIG%s",
			 sigabbrev_np(WTERMSIG(status)) ? sigabbrev_np(WTERMSIG(status)) : "?");
	else
		snprintf(text, size, "exited %d", WEXITSTATUS(status));
}

static int write_threads(struct session *session)
{
	int ret = 0;

	for (uint32_t i = 0; i < session->thread_count && !ret; i++) {
		session->result->wait_ticks += session->threads[i].row.wait_ticks;
		ret = trace_writer_chunk(session->writer, CALLTAP_CHUNK_THREAD, &session->threads[i].row,
					 sizeof(session->threads[i].row));
	}
	for (struct process *process = session->processes; process && !ret; process = process->next)
		if (process->greeted && !process->dormant)
			ret = process_write(session, process);
	return ret;
}

/* What the target's CPU says of its clock, and what a read of it costs: a call takes two. */
static int write_clock(struct session *session, struct trace_writer *writer)
{
	double rate = session->result->ticks_per_ns;
	int ret = 0;

	if (session->line.hz)
		ret = trace_writer_info(writer, "clock_hz", "%llu", (unsigned long long)session->line.hz);
	if (!ret && session->clock_cost && rate > 0)
		ret = trace_writer_info(writer, "clock_read_ns", "%.1f",
					session->clock_cost / rate / CALLTAP_CLOCK_READS);
	return ret;
}

/* Calls for which there was no ring, or no memory beside the stack; those of processes that run, too. */
static uint64_t count_untraced(const struct session *session)
{
	uint64_t untraced = session->result->untraced;

	for (const struct process *process = session->processes; process; process = process->next)
		if (process->arena_count)
			untraced += rings_untraced(session, process);
	return untraced;
}

/* What most traces have none of; each is there only when it is. */
static int write_oddities(struct session *session, struct trace_writer *writer)
{
	uint64_t untraced = count_untraced(session);
	int ret = 0;

	if (session->overwritten)
		ret = trace_writer_info(writer, "overwritten", "%llu %s of %u bytes",
					(unsigned long long)session->overwritten,
					counted(session->overwritten, "sub-buffer", "sub-buffers"), session->sub_size);
	if (!ret && session->holes)
		ret = trace_writer_info(writer, "holes", "%llu %s", (unsigned long long)session->holes,
					counted(session->holes, "record", "records"));
	if (!ret && untraced)
		ret = trace_writer_info(writer, "untraced", "%llu %s", (unsigned long long)untraced,
					counted(untraced, "call", "calls"));
	if (!ret && session->result->shut_in)
		ret = trace_writer_info(
			writer, "sandbox", "%u %s in", session->result->shut_in,
			counted(session->result->shut_in, "process shut itself", "processes shut themselves"));
	if (!ret && session->result->executed)
		ret = trace_writer_info(writer, "executed", "%u %s in a sandbox, untraced", session->result->executed,
					counted(session->result->executed, "program", "programs"));
	if (!ret && session->result->spaces)
		ret = trace_writer_info(writer, "dlmopen", "not followed in %u %s", session->result->spaces,
					counted(session->result->spaces, "process", "processes"));
	if (!ret && session->result->foreign)
		ret = trace_writer_info(writer, "foreign", "%u %s for another CPU, untraced", session->result->foreign,
					counted(session->result->foreign, "program", "programs"));
	if (!ret && session->result->strays)
		ret = trace_writer_info(writer, "strays", "%u %s", session->result->strays,
					counted(session->result->strays, "process", "processes"));
	if (!ret && session->result->unreached)
		ret = trace_writer_info(writer, "unreached", "%u forked %s", session->result->unreached,
					counted(session->result->unreached, "child", "children"));
	if (!ret && session->dlopen_missed)
		ret = trace_writer_info(writer, "dlopen", "not followed");
	return ret;
}

static int write_totals(struct session *session, struct trace_writer *writer)
{
	const struct record_result *result = session->result;
	char text[64];
	int ret;

	exit_text(session, text, sizeof(text));
	ret = trace_writer_info(writer, "exit", "%s", text);
	if (!ret)
		ret = trace_writer_info(writer, "sites", "%u", session_root(session)->images.next_id);
	if (!ret)
		ret = trace_writer_info(writer, "patched", "%llu", (unsigned long long)result->patched);
	if (!ret)
		ret = trace_writer_info(writer, "failed", "%llu", (unsigned long long)result->failed);
	if (!ret)
		ret = trace_writer_info(writer, "patch_ticks", "%llu", (unsigned long long)session->patch_ticks);
	if (!ret)
		ret = write_clock(session, writer);
	if (!ret)
		ret = write_oddities(session, writer);
	return ret ? ret : trace_writer_flush(writer);
}

struct image *describe_next_without_lines(struct session *session)
{
	uint32_t bit = 1u << session->set;
	struct image *image;

	session_lock(session);
	image = session_root(session)->images.first;
	while (image && (!image->announced || image->lined & bit))
		image = image->next;
	if (image)
		image->lined |= bit;
	session_unlock(session);
	return image;
}

static int write_lines(struct session *session)
{
	struct image *image;
	int ret = 0;

	while (!ret && (image = describe_next_without_lines(session)))
		ret = image_write_lines(image, session->writer);
	return ret;
}

int describe_end(struct session *session)
{
	struct calltap_file_clock sample = timing_now(session);
	struct calltap_file_end end = {
		.records = session->result->records,
		.lost = session->result->lost,
		.ticks = sample.ticks,
		.status = session->command || session_root(session)->options->pid ? -1 : session->result->wait_status,
	};
	int ret = write_threads(session);

	session->result->replaced = was_replaced(session);
	if (!ret)
		ret = write_lines(session);
	if (!ret)
		ret = write_totals(session, session->writer);
	/* An emulated clock whose rate is not known shows what was told last. */
	if (!ret && sample.ticks > session->line.last_ticks)
		ret = trace_writer_chunk(session->writer, CALLTAP_CHUNK_CLOCK, &sample, sizeof(sample));
	return ret ? ret : trace_writer_chunk(session->writer, CALLTAP_CHUNK_END, &end, sizeof(end));
}

int describe_snapshot(struct session *session, struct trace_writer *writer)
{
	int ret;

	session_lock(session);
	ret = write_totals(session, writer);
	session_unlock(session);
	return ret;
}
