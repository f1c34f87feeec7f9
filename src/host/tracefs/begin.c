/*
 * The session's instance behind a directory: it lasts as long as a connection to the session, and writes its records to
 * memory that the tree reads (doc/design/instances.md).
 *
 * Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <calltap/abi/ring.h>
#include <host/now.h>
#include <host/remote/remote.h>

#include "tree.h"

/* The session writes at a position of its own. */
static int open_for_session(int memory)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", memory);
	fd = open(path, O_RDWR | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int ask_to_begin(struct tree_instance *instance, int fd, const char *const *words, size_t count,
			struct calltap_diag *diag)
{
	const char **list = calloc(count + 3, sizeof(*list));
	const struct remote_request request = {.verb = "instance",
					       .words = list,
					       .count = count + 2,
					       .fds = &fd,
					       .fd_count = 1,
					       .timeout_ms = ASK_PATIENCE_MS};
	char *answer = NULL;
	int ret;

	if (!list)
		return calltap_diag_set(diag, -ENOMEM, "not enough memory");
	list[0] = "follow=1";
	list[1] = "allow-no-match=1";
	memcpy(list + 2, words, count * sizeof(*list));
	ret = remote_ask(instance->source.connection, &request, &answer, diag);
	if (!ret)
		snprintf(instance->session_name, sizeof(instance->session_name), "%.*s", (int)strcspn(answer, "\n"),
			 answer);
	free(answer);
	free(list);
	return ret == -EPIPE ? ask_tell_gone(instance->tree, diag) : ret; /* it has ended since it was connected */
}

int begin_instance(struct tree_instance *instance, const char *const *words, size_t count, struct calltap_diag *diag)
{
	struct tree_source *source = &instance->source;
	int fd, ret = remote_connect(&source->connection, instance->tree->pid, diag);

	if (ret)
		return ret;
	source->memory = memfd_create("calltap-instance", MFD_CLOEXEC);
	fd = source->memory < 0 ? -errno : open_for_session(source->memory);
	if (fd < 0) {
		ret = calltap_diag_set(diag, fd, "cannot make memory for records: %s", strerror(-fd));
	} else {
		ret = ask_to_begin(instance, fd, words, count, diag);
		close(fd);
	}
	if (!ret && source_open(instance))
		ret = calltap_diag_set(diag, -ENOMEM, "not enough memory");
	if (ret)
		source_close(instance);
	return ret;
}

/* The instance of a tree of a process that is traced already, which may have other trees. */
static int begin_beside(struct tree_instance *first, struct calltap_diag *diag)
{
	char name[32] = "name=tracefs";
	const char *const words[] = {name, "tracer=nop"};
	int ret = begin_instance(first, words, 2, diag);

	for (unsigned i = 2; ret == -EEXIST && i <= CALLTAP_INSTANCES; i++) {
		snprintf(name, sizeof(name), "name=tracefs%u", i);
		ret = begin_instance(first, words, 2, diag);
	}
	/* Options may have been set before the tree had a process. */
	if (!ret)
		options_drop(first);
	return ret;
}

int begin_tree(struct tree *tree, pid_t pid, struct calltap_diag *diag)
{
	struct tree_instance *first = tree->instances;
	int ret;

	tree->pid = pid;
	if (tree->options->memory < 0)
		return begin_beside(first, diag);
	first->source.memory = tree->options->memory;
	ret = source_open(first);
	return ret ? calltap_diag_set(diag, ret, "not enough memory") : 0;
}

void end_instance(struct tree_instance *instance)
{
	struct calltap_diag diag;
	char *answer = NULL;

	/* A session that does not answer ends the instance when the connection closes. */
	if (instance->session_name[0] && !instance->source.ended && !instance->tree->over &&
	    (!instance->tree->leave_ns || now_ns() < instance->tree->leave_ns) &&
	    ask_session(instance, "detach", NULL, 0, -1, &answer, &diag))
		answer = NULL;
	free(answer);
	source_close(instance);
	source_forget(instance);
	store_clear(&instance->snapshot); /* its functions are known by the trace that has gone */
	instance->session_name[0] = 0;
}
