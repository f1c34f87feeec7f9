/*
 * Relatives of a session's processes that the session does not follow: children
 * of a process that was attached to, which do its work, and programs that were
 * executed without the environment that brings the agent in.
 *
 * All is learned from /proc, by the server thread.  A process is looked at
 * ever more rarely, from 20 ms to 1 s after the last process has called in, and
 * more rarely where there are many; one that was there between two looks only is not seen.  Context: host.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <host/proc.h>
#include <host/space.h>

#include "session.h"

#define FIRST_LOOK_NS	20000000u
#define LAST_LOOK_NS	1000000000u
#define LOOKS_SHARE	9u /* times as long as a look there is none, but not longer than */
#define LONGEST_REST_NS 10000000000u
#define FEW_RECORDS	100u
#define ENVIRON_MAX	(256u << 10)
#define ANCESTORS_MAX	64
#define STRANGERS_MAX	4096u
#define CALLS_IN_NS	1000000000u /* until which a program's agent has called in, if it ever does */

struct relative {
	pid_t pid, parent;
	uint64_t began; /* ticks since the boot: with the pid it names a process for good */
	uint64_t cpu;	/* ticks used */
	char name[32];
	uint64_t missed_ns; /* since when its agent is waited for; 0 = it is not */
};

struct family {
	struct relative *members; /* sorted by pid */
	size_t count;
	struct family *missed;	  /* of a command: those whose agents are waited for, as of the last look */
	uint64_t look_ns, gap_ns; /* when and after what time they are looked for again */
	uint32_t seen;		  /* processes that the session had at the last look */
};

static bool read_relative(const char *pid, struct relative *out)
{
	char path[300], text[1024], *name, *end;
	unsigned long user = 0, kernel = 0;
	unsigned long long began = 0;
	int fd, parent = 0;
	ssize_t got;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[got < 0 ? 0 : got] = 0;
	name = strchr(text, '(');
	end = strrchr(text, ')'); /* its name may hold anything */
	if (!name || !end || end < name ||
	    sscanf(end + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %*d %*d %llu", &parent,
		   &user, &kernel, &began) != 4)
		return false;
	*out = (struct relative){(pid_t)strtol(pid, NULL, 10), parent, began, (uint64_t)user + kernel, "", 0};
	*end = 0;
	for (size_t i = 0; name[1 + i] && i + 1 < sizeof(out->name); i++)
		out->name[i] = name[1 + i] >= ' ' && name[1 + i] <= '~' ? name[1 + i] : '?';
	return true;
}

static int by_pid(const void *a, const void *b)
{
	const struct relative *one = a, *other = b;

	return one->pid < other->pid ? -1 : one->pid > other->pid;
}

/* All processes there are. */
static void read_all(struct family *family)
{
	DIR *folder = opendir("/proc");
	const struct dirent *entry;
	size_t room = 0;

	*family = (struct family){0};
	while (folder && (entry = readdir(folder))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		if (family->count == room) {
			struct relative *more =
				reallocarray(family->members, room = room ? room * 2 : 256, sizeof(*more));

			if (!more)
				break;
			family->members = more;
		}
		family->count += read_relative(entry->d_name, &family->members[family->count]);
	}
	if (folder)
		closedir(folder);
	if (family->count)
		qsort(family->members, family->count, sizeof(*family->members), by_pid);
}

static const struct relative *find_relative(const struct family *family, pid_t pid)
{
	const struct relative key = {.pid = pid};

	return family->count ? bsearch(&key, family->members, family->count, sizeof(key), by_pid) : NULL;
}

/* A process that has called in; its agent is there (`followed`), or was. */
struct known {
	pid_t pid;
	bool followed;	/* or has said why not */
	uint64_t since; /* ticks since the boot: when its last agent called in */
};

struct knowns {
	struct known *list; /* sorted by pid, each once */
	size_t count;
};

static int by_known_pid(const void *a, const void *b)
{
	const struct known *one = a, *other = b;

	return one->pid < other->pid ? -1 : one->pid > other->pid;
}

/* The time of CLOCK_MONOTONIC in the ticks that /proc/PID/stat counts in. */
static uint64_t ticks_at(uint64_t time_ns)
{
	uint64_t now = clock_now_ns(); /* read first: what comes between makes the result later */
	struct timespec boot;

	clock_gettime(CLOCK_BOOTTIME, &boot);
	time_ns += (uint64_t)boot.tv_sec * 1000000000u + (uint64_t)boot.tv_nsec - now;
	return time_ns / (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
}

/*
 * A session may have had thousands of processes, and each that runs on the machine is looked for among them, so they
 * are sorted first.  False: there is no memory.
 */
static bool read_known(struct knowns *known, const struct session *session)
{
	size_t count = 0, kept = 0;

	for (const struct target *target = session->targets; target; target = target->next)
		count++;
	*known = (struct knowns){.list = calloc(count + 1, sizeof(*known->list))};
	if (!known->list)
		return false;
	count = 0;
	for (const struct target *target = session->targets; target; target = target->next)
		if (target->greeted)
			known->list[count++] = (struct known){target->pid, !target->ended || target->dormant,
							      ticks_at(target->since_ns)};
	qsort(known->list, count, sizeof(*known->list), by_known_pid);
	for (size_t i = 0; i < count; i++) {
		struct known *last = kept ? &known->list[kept - 1] : NULL;

		if (!last || last->pid != known->list[i].pid) {
			known->list[kept++] = known->list[i];
			continue;
		}
		last->followed |= known->list[i].followed;
		if (last->since < known->list[i].since)
			last->since = known->list[i].since;
	}
	known->count = kept;
	return true;
}

/* The session's knowledge of this process; NULL: it has none, or of one that had the pid before. */
static const struct known *find_known(const struct knowns *known, const struct relative *member)
{
	const struct known key = {.pid = member->pid};
	const struct known *found = bsearch(&key, known->list, known->count, sizeof(key), by_known_pid);

	return found && member->began <= found->since ? found : NULL;
}

/* A process of the session, or one that descends from one. */
static bool is_of_family(const struct session *session, const struct knowns *known, const struct family *family,
			 const struct relative *member)
{
	for (int i = 0; member && i < ANCESTORS_MAX; i++) {
		if (member->pid == session->command || attachee_find(session, member->pid) || find_known(known, member))
			return true;
		member = member->parent > 1 ? find_relative(family, member->parent) : NULL;
	}
	return false;
}

/*
 * ---- Of a process that was attached to ----
 */

static bool same_program(pid_t one, pid_t other)
{
	struct stat first, second;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)one);
	if (stat(path, &first))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)other);
	return !stat(path, &second) && first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

void family_begin(struct session *session)
{
	session->family = calloc(1, sizeof(*session->family));
	if (!session->family)
		return;
	if (session->options->pid_count)
		read_all(session->family);
	session->family->look_ns = clock_now_ns() + FIRST_LOOK_NS;
}

/* CPU time that the process has used since the attach. */
static bool has_worked(const struct session *session, const struct relative *member)
{
	const struct relative *then = session->family ? find_relative(session->family, member->pid) : NULL;

	return !then || then->began != member->began ? member->cpu > 0 : member->cpu > then->cpu;
}

/* A process that was attached to and runs the same program as this relative, which does its work; NULL = none. */
static const struct relative *find_idle(const struct session *session, const struct knowns *known,
					const struct family *now, const struct relative *member)
{
	const struct known *met = find_known(known, member);

	if (!is_of_family(session, known, now, member) || (met && met->followed) || attachee_find(session, member->pid))
		return NULL;
	for (uint32_t i = 0; i < session->attachees.count; i++) {
		const struct relative *self = find_relative(now, session->attachees.list[i].told->pid);

		if (self && same_program(self->pid, member->pid))
			return self;
	}
	return NULL;
}

void family_hint(struct session *session)
{
	struct record_result *result = session->result;
	struct knowns known;
	struct family now;

	/* Counters are no records, and a flight recorder's are not counted before they are wanted. */
	if (!session->options->pid_count || result->records >= FEW_RECORDS || !session->options->tracer->patches ||
	    session->options->tracer->counts || session->options->mode == CALLTAP_MODE_OVERWRITE)
		return;
	if (!read_known(&known, session))
		return;
	read_all(&now);
	for (size_t i = 0; i < now.count; i++) {
		const struct relative *member = &now.members[i], *self = find_idle(session, &known, &now, member);

		if (!self || (result->records && !has_worked(session, member)))
			continue;
		if (!result->children++) {
			result->parent = self->pid;
			result->child = member->pid;
		}
		snprintf(result->child_name, sizeof(result->child_name), "%s", self->name);
	}
	free(now.members);
	free(known.list);
}

/*
 * ---- Of a command ----
 */

#define ENVIRONMENT_FIELD 51 /* of /proc/PID/stat: where the environment ends */

bool family_has_environment(pid_t pid)
{
	char path[64], text[1024];
	const char *at;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[got < 0 ? 0 : got] = 0;
	at = strrchr(text, ')'); /* the second field; it may hold anything */
	for (int field = 2; at && field < ENVIRONMENT_FIELD; field++)
		at = strchr(at + 1, ' ');
	return at && strtoull(at, NULL, 10);
}

/* It works for another user than we do, who are not root: by a set-uid program. */
static bool has_other_rights(pid_t pid)
{
	unsigned real, effective;
	char value[96];

	return geteuid() && !proc_status(pid, "Uid", value, sizeof(value)) &&
	       sscanf(value, "%u %u", &real, &effective) == 2 && effective != geteuid();
}

enum kinship {
	KIN,	  /* has us, or had, or cannot be looked at */
	STRANGER, /* the environment that it was started with is without us, and so is its memory */
	MISSED,	  /* the environment asks for us, and the memory is without the session's board */
};

static enum kinship kinship_of(const struct session *session, pid_t pid, char *environment)
{
	char path[64], wanted[sizeof(session->endpoint.name) + 32];
	bool asks, stack = false, agent = false, board = false;
	struct space space;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == EACCES && has_other_rights(pid) ? MISSED : KIN;
	got = read(fd, environment, ENVIRON_MAX);
	close(fd);
	snprintf(wanted, sizeof(wanted), "%s=%s", CALLTAP_ENV_SESSION, session->endpoint.name);
	asks = got > 0 && memmem(environment, (size_t)got, wanted, strlen(wanted)) &&
	       memmem(environment, (size_t)got, "calltap-agent", strlen("calltap-agent"));
	/* A forked child may have written over it; one that is about to end, or to begin, has no memory. */
	if (got < 0 || space_read(&space, pid))
		return KIN;
	for (size_t i = 0; i < space.count; i++) {
		stack |= !strcmp(space.maps[i].path, "[stack]");
		agent |= strstr(space.maps[i].path, "libcalltap-agent") != NULL;
		board |= strstr(space.maps[i].path, SPACE_BOARD) != NULL;
	}
	space_free(&space);
	if (!stack || board || (agent && !asks))
		return KIN;
	return asks ? MISSED : STRANGER;
}

static bool is_noted(const struct family *strangers, const struct relative *member)
{
	for (size_t i = 0; i < strangers->count; i++)
		if (strangers->members[i].pid == member->pid && strangers->members[i].began == member->began)
			return true;
	return false;
}

static void append(struct family *family, const struct relative *member)
{
	struct relative *more =
		family->count == STRANGERS_MAX ? NULL : reallocarray(family->members, family->count + 1, sizeof(*more));

	if (!more)
		return;
	family->members = more;
	more[family->count++] = *member;
}

static void note_member(struct session *session, const struct relative *member, struct record_missing *missing)
{
	uint32_t before = (uint32_t)session->family->count;

	append(session->family, member);
	if (session->family->count == before)
		return;
	if (!missing->count++) {
		missing->pid = member->pid;
		snprintf(missing->name, sizeof(missing->name), "%s", member->name);
	}
}

/* Since when the process' agent is waited for, if it was at the last look, else now. */
static uint64_t missed_since(const struct family *missed, const struct relative *member, uint64_t now)
{
	for (size_t i = 0; missed && i < missed->count; i++)
		if (missed->members[i].pid == member->pid && missed->members[i].began == member->began)
			return missed->members[i].missed_ns;
	return now;
}

static void free_family(struct family *family)
{
	if (!family)
		return;
	free_family(family->missed);
	free(family->members);
	free(family);
}

static bool is_watched(const struct session *session)
{
	return session->family && !session->options->pid_count && !session->emulated && !session->options->no_fork &&
	       !session->options->no_exec;
}

int family_due_ms(const struct session *session, int at_most)
{
	uint64_t now = clock_now_ns(), due;

	if (!is_watched(session))
		return at_most;
	due = session->family->look_ns;
	if (due <= now)
		return 0;
	return due - now < (uint64_t)at_most * 1000000 ? (int)((due - now) / 1000000) + 1 : at_most;
}

/*
 * A look at hundreds of forked children that are about to call in takes longer than the shortest gap, and those wait
 * for this very thread: looks have a tenth of its time.
 */
static void put_off(struct family *family, uint64_t began)
{
	uint64_t now = clock_now_ns(), rest = (now - began) * LOOKS_SHARE, earliest;

	earliest = now + (rest < LONGEST_REST_NS ? rest : LONGEST_REST_NS);
	if (family->look_ns < earliest)
		family->look_ns = earliest;
}

/* Somebody new is a reason to look again soon. */
static void set_next_look(struct family *family, uint32_t targets, uint64_t now)
{
	uint64_t gap = family->gap_ns * 2;

	if (family->seen != targets || gap < FIRST_LOOK_NS)
		gap = FIRST_LOOK_NS;
	family->seen = targets;
	family->gap_ns = gap > LAST_LOOK_NS ? LAST_LOOK_NS : gap;
	family->look_ns = now + family->gap_ns;
}

/* The program has not run yet: it waits until its functions are patched, and has no relatives. */
static bool is_held(const struct session *session, uint64_t now)
{
	return session->targets && !session->traced_ns && now - session->began_ns < LAST_LOOK_NS;
}

/* What was seen of a program that was just being executed says nothing. */
static enum kinship kinship_now(const struct session *session, pid_t pid, char *environment)
{
	enum kinship first = kinship_of(session, pid, environment);

	if (first == KIN || has_other_rights(pid)) /* of whom nothing more can be seen */
		return first;
	return family_has_environment(pid) && kinship_of(session, pid, environment) == first &&
			       family_has_environment(pid)
		       ? first
		       : KIN;
}

static void look_at(struct session *session, const struct relative *member, char *environment, struct family *missed,
		    uint64_t now)
{
	struct relative late = *member;

	switch (kinship_now(session, member->pid, environment)) {
	case STRANGER:
		note_member(session, member, &session->result->strangers);
		return;
	case MISSED:
		late.missed_ns = missed_since(session->family->missed, member, now);
		if (now - late.missed_ns > CALLS_IN_NS)
			note_member(session, member, &session->result->missed);
		else
			append(missed, &late);
		return;
	default:
		return;
	}
}

void family_look(struct session *session)
{
	struct family all, *missed = NULL;
	uint64_t now = clock_now_ns();
	struct knowns known;
	char *environment;

	if (!is_watched(session) || now < session->family->look_ns)
		return;
	if (is_held(session, now)) {
		session->family->look_ns = now + FIRST_LOOK_NS;
		return;
	}
	set_next_look(session->family, session->process_count, now);
	environment = malloc(ENVIRON_MAX);
	missed = calloc(1, sizeof(*missed));
	read_all(&all);
	session_lock(session);
	if (!read_known(&known, session))
		all.count = 0;
	for (size_t i = 0; environment && missed && i < all.count; i++) {
		const struct relative *member = &all.members[i];
		const struct known *met = find_known(&known, member);

		if ((met || member->pid != session->command) && !(met && met->followed) &&
		    !guests_has(session, member->pid) && is_of_family(session, &known, &all, member) &&
		    !is_noted(session->family, member))
			look_at(session, member, environment, missed, now);
	}
	free_family(session->family->missed);
	session->family->missed = missed;
	put_off(session->family, now);
	session_unlock(session);
	free(all.members);
	free(known.list);
	free(environment);
}

void family_end(struct session *session)
{
	free_family(session->family);
	session->family = NULL;
}
