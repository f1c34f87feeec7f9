/*
 * The tree as the kernel asks for it, by FUSE: directories, open files, and readers that wait (doc/design/tracefs.md).
 *
 * One thread answers the kernel's requests in their order.  A read for which there is nothing yet is kept in a list,
 * and answered when there is something, when its thread is interrupted, or at the end.  Context: host.
 */
#define FUSE_USE_VERSION 35
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <host/now.h>
#include <host/proc.h>
#include <host/remote/remote.h>

#include "keeper.h"
#include "raw.h"
#include "tree.h"

#define ATTRIBUTES_S  1.0
#define IDLE_MS	      50	  /* between two looks for records */
#define BUSY_MS	      10	  /* while somebody waits for them */
#define CLOSING_NS    100000000u  /* for the kernel to tell that a file was closed */
#define CALLING_NS    2000000000u /* for the agent of a process that opens a file to call in */
#define SERVE_NS      20000000u	  /* for requests at a time: records come in meanwhile */
#define RAW_SIZE      (1ll << 40) /* of trace_pipe_raw: splice() wants a file that has more */
#define REST_NS	      2000000000u /* for files to be closed when the tree is to go */
#define SOON_MS	      1		  /* a reader's next request follows the last one */
#define NAMES_DEFAULT 128	  /* of saved_cmdlines_size, as with the kernel */
#define TRACE_WAIT_NS 1000000000u /* a reader of `trace` waits no longer for records that are under way */
/* Nor longer than this for those that came before tracing_on was 0: in all, and without any that comes. */
#define BACKLOG_NS     30000000000u
#define STALLED_NS     5000000000u
#define INTERRUPTED_NS 200000000u /* nor than this, once its thread has a signal */

/* A read that waits. */
struct waiting {
	struct waiting *next;
	struct tracefs *tracefs;
	fuse_req_t req;
	struct tree_open *open;
	size_t size;
	off_t offset;
	bool rest;		 /* it gets what has been recorded up to now, and is not to wait for more */
	uint64_t interrupted_ns; /* since then its thread has had a signal; 0 = none */
};

struct tracefs {
	struct tree tree;
	const struct tracefs_options *options;
	struct fuse_session *fuse;
	struct keeper keeper;
	bool mounted;
	struct waiting *waiting;
	struct tree_open **opens; /* all that are open */
	size_t open_count;
	time_t since;
	bool told;   /* the tree's owner was told that the session has ended */
	bool left;   /* readers had not got all of it when the tree went */
	bool counts; /* there is more for the profiler, or the stack tracer */
	bool awaits; /* await_closing() is at work */
};

static struct tracefs *tracefs_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

/* False: it has gone. */
static bool find_node(fuse_req_t req, fuse_ino_t ino, struct tree_node *node)
{
	return node_find(&tracefs_of(req)->tree, ino, node);
}

static void fill_stat(struct stat *st, const struct tracefs *tracefs, const struct tree_node *node)
{
	const struct tree_row *row = node_row(node);

	*st = (struct stat){
		.st_ino = node_number(node),
		.st_mode = node_mode(node),
		.st_nlink = node->is_file ? 1 : 2,
		.st_uid = tracefs->options->device < 0 ? geteuid() : 0,
		.st_gid = tracefs->options->device < 0 ? getegid() : 0,
		.st_atim.tv_sec = tracefs->since,
		.st_mtim.tv_sec = tracefs->since,
		.st_ctim.tv_sec = tracefs->since,
		.st_size = row && row->stream == STREAM_RAW ? RAW_SIZE : 0,
		/* No holes: cp would look for them. */
		.st_blocks = row && row->stream == STREAM_RAW ? RAW_SIZE / 512 : 0,
	};
}

static void fill_entry(struct fuse_entry_param *entry, const struct tracefs *tracefs, const struct tree_node *node)
{
	*entry = (struct fuse_entry_param){.ino = node_number(node), .attr_timeout = ATTRIBUTES_S};
	fill_stat(&entry->attr, tracefs, node);
}

static void on_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param entry;
	struct tree_node folder, node;

	if (!find_node(req, parent, &folder) || !node_named(&folder, name, &node)) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	fill_entry(&entry, tracefs_of(req), &node);
	fuse_reply_entry(req, &entry);
}

static void on_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info)
{
	struct tree_node node;
	struct stat st;

	(void)info;
	if (!find_node(req, ino, &node)) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	fill_stat(&st, tracefs_of(req), &node);
	fuse_reply_attr(req, &st, ATTRIBUTES_S);
}

/* Sizes and times are nobody's: truncate() and touch do nothing, as in the kernel's. */
static void on_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int what, struct fuse_file_info *info)
{
	(void)attr;
	if (what & (FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID))
		fuse_reply_err(req, EPERM);
	else
		on_getattr(req, ino, info);
}

/* A directory's names, as readdir's buffer wants them. */
struct listing {
	fuse_req_t req;
	char *bytes;
	size_t used, size;
	off_t at, offset;
	bool full;
};

static void list_name(struct listing *listing, const char *name, const struct tree_node *node)
{
	struct stat st = {.st_ino = node_number(node), .st_mode = node_mode(node)};
	size_t size;

	listing->at++;
	if (listing->at <= listing->offset || listing->full)
		return;
	size = fuse_add_direntry(listing->req, listing->bytes + listing->used, listing->size - listing->used, name, &st,
				 listing->at);
	listing->full = size > listing->size - listing->used;
	listing->used += listing->full ? 0 : size;
}

static void on_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *info)
{
	struct listing listing = {.req = req, .size = size, .offset = offset, .bytes = malloc(size ? size : 1)};
	struct tree_node folder, node;
	bool there = find_node(req, ino, &folder);
	const char *name;
	char room[NODE_NAME];

	(void)info;
	if (!listing.bytes || !there) {
		fuse_reply_err(req, there ? ENOMEM : ENOENT);
		free(listing.bytes);
		return;
	}
	list_name(&listing, ".", &folder);
	list_name(&listing, "..", &folder); // the kernel puts the right number there
	for (uint32_t i = 0; !listing.full && node_child(&folder, i, &node, &name, room); i++)
		list_name(&listing, name, &node);
	fuse_reply_buf(req, listing.bytes, listing.used);
	free(listing.bytes);
}

/* Take one request of the kernel's; false: the tree was unmounted. */
static bool take_request(struct tracefs *tracefs, struct fuse_buf *buffer)
{
	int size = fuse_session_receive_buf(tracefs->fuse, buffer);

	if (size > 0)
		fuse_session_process_buf(tracefs->fuse, buffer);
	return size > 0 || size == -EINTR || size == -EAGAIN;
}

/* Was a file of the instance closed, whose last word (RELEASE) has not come? */
static bool has_closing(const struct tracefs *tracefs, uint32_t id)
{
	bool found = false;

	for (size_t i = 0; i < tracefs->open_count; i++)
		found |= tracefs->opens[i]->flushed && tracefs->opens[i]->instance->id == id;
	return found;
}

/*
 * The kernel tells of a close() behind it.  Who closes a file and then needs it to be closed finds it so: requests are
 * taken until it is, or some time has passed, as the file was closed in one of several descriptors.
 */
static void await_closing(struct tracefs *tracefs, uint32_t id)
{
	const uint64_t until_ns = now_ns() + CLOSING_NS;
	struct fuse_buf buffer = {0};
	bool there = !tracefs->awaits;

	if (tracefs->awaits)
		return;
	tracefs->awaits = true;
	while (there && has_closing(tracefs, id) && now_ns() < until_ns) {
		struct pollfd ready = {fuse_session_fd(tracefs->fuse), POLLIN, 0};

		if (poll(&ready, 1, 1) > 0)
			there = take_request(tracefs, &buffer);
	}
	tracefs->awaits = false;
	free(buffer.mem);
}

static struct tree_open *open_of(const struct fuse_file_info *info)
{
	return (struct tree_open *)(uintptr_t)info->fh; // NOLINT(performance-no-int-to-ptr)
}

static int add_open(struct tracefs *tracefs, struct tree_open *open)
{
	struct tree_open **opens = reallocarray(tracefs->opens, tracefs->open_count + 1, sizeof(*opens));

	if (!opens)
		return -ENOMEM;
	tracefs->opens = opens;
	opens[tracefs->open_count++] = open;
	open->instance->opens++;
	return 0;
}

static void begin_open(struct tree_open *open, const struct tree_node *node, const struct fuse_file_info *info)
{
	open->instance = node->instance;
	open->row = node_row(node);
	open->option = node->folder == FOLDER_OPTIONS ? (enum tree_option)node->row : TREE_OPTIONS;
	open->which = node->which;
	open->reading.cpu = node->folder == FOLDER_CPU ? node->which : READING_ALL;
	open->flags = info->flags;
	open->since_ns = now_ns();
}

/*
 * A thread that opens a file to write may be that of a forked child that the session has not heard of: it is caught, by
 * -EINTR, which it does not see.  When it opens the file again its agent is about to call in, and closes its copies of
 * the child's descriptors before: what is in this tree waits for this thread's answer.  So requests are taken
 * meanwhile.
 */
static int await_caller(struct tracefs *tracefs, pid_t tid)
{
	const uint64_t until_ns = now_ns() + CALLING_NS;
	enum remote_catch catch = callers_catch_one(&tracefs->tree, tid);
	struct fuse_buf buffer = {0};
	bool there = !tracefs->awaits;

	if (catch != REMOTE_CATCH_COMING || tracefs->awaits)
		return catch == REMOTE_CATCH_CAUGHT ? -EINTR : 0;
	tracefs->awaits = true;
	while (there && catch == REMOTE_CATCH_COMING && now_ns() < until_ns) {
		struct pollfd ready = {fuse_session_fd(tracefs->fuse), POLLIN, 0};

		if (poll(&ready, 1, 1) > 0)
			there = take_request(tracefs, &buffer);
		catch = callers_catch_one(&tracefs->tree, tid);
	}
	tracefs->awaits = false;
	free(buffer.mem);
	return catch == REMOTE_CATCH_CAUGHT ? -EINTR : 0;
}

static void on_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info)
{
	struct tree_open *open = calloc(1, sizeof(*open));
	struct tree_node node;
	int ret = find_node(req, ino, &node) ? 0 : -ENODEV;

	if (!ret && node.instance->pipes && stream_is_pipe(node_row(&node))) {
		await_closing(tracefs_of(req), node.instance->id);
		ret = find_node(req, ino, &node) ? 0 : -ENODEV; /* requests have come meanwhile */
	}
	if (!open)
		ret = -ENOMEM;
	if (!ret) {
		begin_open(open, &node, info);
		if (open_changes(open)) {
			ret = await_caller(tracefs_of(req), fuse_req_ctx(req)->pid);
			if (!ret && !find_node(req, ino, &node)) /* here, too */
				ret = -ENODEV;
		}
	}
	if (!ret)
		ret = open->row && open->row->begin ? open->row->begin(open) : 0;
	if (!ret)
		ret = add_open(tracefs_of(req), open);
	if (ret) {
		free(open);
		fuse_reply_err(req, -ret);
		return;
	}
	info->fh = (uintptr_t)open;
	info->direct_io = 1;
	info->nonseekable =
		open->row && (stream_is_pipe(open->row) || !open->row->read) && open->row->stream != STREAM_TRACE;
	fuse_reply_open(req, info);
}

/* Nobody may make files here. */
static void on_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *info)
{
	(void)parent;
	(void)name;
	(void)mode;
	(void)info;
	fuse_reply_err(req, EACCES);
}

static void on_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t device)
{
	(void)device;
	on_create(req, parent, name, mode, NULL);
}

static void reply_text(fuse_req_t req, const struct tree_text *text, size_t size, off_t offset)
{
	size_t left = (size_t)offset < text->used ? text->used - (size_t)offset : 0;

	if (text->failed)
		fuse_reply_err(req, ENOMEM);
	else
		fuse_reply_buf(req, left ? text->bytes + offset : NULL, left < size ? left : size);
}

/* Answer a read of a stream for which there is something, or the end.  whole: splice() asks, for whole pages. */
static void reply_stream(fuse_req_t req, struct tree_open *open, size_t size, off_t offset, bool whole)
{
	size_t taken;

	if (open->row->stream == STREAM_RAW)
		raw_fill(open, whole);
	else
		stream_fill(open, (size_t)offset, size);
	if (open->row->stream == STREAM_TRACE) {
		reply_text(req, &open->text, size, offset);
		return;
	}
	taken = open->text.used < size ? open->text.used : size;
	reply_text(req, &open->text, size, 0);
	stream_taken(open, taken);
}

static void stop_waiting(struct waiting *waiting)
{
	struct waiting **at = &waiting->tracefs->waiting;

	while (*at != waiting)
		at = &(*at)->next;
	*at = waiting->next;
	free(waiting);
}

/* A file that does not wait with the kernel knows no EINTR: then the thread waits on for a moment. */
static void on_interrupt(fuse_req_t req, void *data)
{
	struct waiting *waiting = data;

	if (waiting->rest || waiting->open->row->stream == STREAM_TRACE) {
		waiting->interrupted_ns = now_ns();
		return;
	}
	stop_waiting(waiting);
	fuse_reply_err(req, EINTR);
}

/* Is that moment over? */
static bool is_called_away(const struct waiting *waiting)
{
	return waiting->interrupted_ns && now_ns() - waiting->interrupted_ns > INTERRUPTED_NS;
}

/*
 * Is a reader of `trace` to get what there is?  It waits a while, whatever the session does.  While tracing_on is 0 the
 * reader expects all that came before, and no more is recorded: it waits on as long as records come.
 */
static bool has_waited(struct tree_open *open)
{
	const uint64_t now = now_ns(), known = source_known_ns(open->instance);

	if (known > open->known_ns) {
		open->known_ns = known;
		open->known_since_ns = now;
	}
	if (now - open->since_ns <= TRACE_WAIT_NS)
		return false;
	return now - open->known_since_ns > STALLED_NS || now - open->since_ns > BACKLOG_NS ||
	       (ask_is_tracing(open->instance) && !open->instance->tree->over);
}

static bool is_ready(struct tree_open *open)
{
	if (open->row->stream == STREAM_RAW)
		return raw_is_ready(open, false);
	return stream_is_ready(open) || (open->row->stream == STREAM_TRACE && has_waited(open));
}

static void wait_for_records(fuse_req_t req, struct tree_open *open, size_t size, off_t offset, bool rest)
{
	struct tracefs *tracefs = tracefs_of(req);
	struct waiting *waiting = calloc(1, sizeof(*waiting)), **end = &tracefs->waiting;

	if (!waiting) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	*waiting = (struct waiting){NULL, tracefs, req, open, size, offset, rest, 0};
	while (*end)
		end = &(*end)->next;
	*end = waiting;
	fuse_req_interrupt_func(req, on_interrupt, waiting);
}

/*
 * A read through the page cache, that of splice(): for one page, which has to be whole.  It never waits: it would wait
 * with the pages that the same call has already.
 */
static void read_page(fuse_req_t req, struct tree_open *open, size_t size)
{
	raw_fill(open, true);
	if (!open->text.used) {
		source_pump(open->instance);
		raw_fill(open, true);
	}
	if (open->text.used || open->instance->source.ended)
		reply_stream(req, open, size, 0, true);
	else
		fuse_reply_err(req, EAGAIN);
}

/*
 * With O_NONBLOCK nobody waits for events.  But who has switched tracing off, and reads until there is nothing, wants
 * all that came before: that gets the time to come here.
 */
static void read_stream(fuse_req_t req, struct tree_open *open, size_t size, off_t offset, int flags)
{
	bool nonblocking = stream_is_pipe(open->row) && flags & O_NONBLOCK;

	if (stream_is_pipe(open->row))
		open->since_ns = now_ns();
	if (!is_ready(open))
		source_pump(open->instance);
	if (is_ready(open))
		reply_stream(req, open, size, offset, false);
	else if (nonblocking && ask_is_tracing(open->instance))
		fuse_reply_err(req, EAGAIN);
	else
		wait_for_records(req, open, size, offset, nonblocking);
}

static void on_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *info)
{
	struct tree_open *open = open_of(info);
	int ret = 0;

	(void)ino;
	open->flushed = false;
	stream_note_reader(open);
	if (open->row && open->row->stream == STREAM_RAW && !info->lock_owner) {
		read_page(req, open, size);
		return;
	}
	if (open->row && open->row->stream != STREAM_NONE) {
		read_stream(req, open, size, offset, info->flags);
		return;
	}
	if (open->row && !open->row->read) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	if (!offset) {
		tree_text_clear(&open->text);
		ret = open->row ? open->row->read(open, &open->text) : control_read_option(open, &open->text);
	}
	if (ret)
		fuse_reply_err(req, -ret);
	else
		reply_text(req, &open->text, size, offset);
}

static void on_write(fuse_req_t req, fuse_ino_t ino, const char *bytes, size_t size, off_t offset,
		     struct fuse_file_info *info)
{
	struct tree_open *open = open_of(info);
	char *text = NULL;
	int ret = -EINVAL;

	(void)ino;
	(void)offset;
	open->flushed = false;
	if (open->instance->pipes && open->row && open->row->write == control_write_tracer)
		await_closing(tracefs_of(req), open->instance->id);
	if (!open->row || open->row->write) {
		text = malloc(size + 1);
		ret = !text ? -ENOMEM : 0;
	}
	if (text) { /* it may have zeros in it */
		memcpy(text, bytes, size);
		text[size] = 0;
	}
	if (!ret) {
		open->writer = fuse_req_ctx(req)->pid;
		tracefs_of(req)->tree.written = text;
		ret = open->row ? open->row->write(open, text, size) : control_write_option(open, text, size);
		tracefs_of(req)->tree.written = NULL;
	}
	free(text);
	if (ret < 0)
		fuse_reply_err(req, -ret);
	else
		fuse_reply_write(req, (size_t)ret);
}

static void on_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info)
{
	struct tree_open *open = open_of(info);

	(void)ino;
	open->flushed = true;
	fuse_reply_err(req, open->row && open->row->flush ? -open->row->flush(open) : 0);
}

static void close_open(struct tracefs *tracefs, struct tree_open *open)
{
	size_t at = 0;

	for (struct waiting *waiting = tracefs->waiting, *next; waiting; waiting = next) {
		next = waiting->next;
		if (waiting->open == open) {
			fuse_reply_err(waiting->req, EINTR);
			stop_waiting(waiting);
		}
	}
	if (open->row && open->row->end)
		open->row->end(open);
	if (open->poll)
		fuse_pollhandle_destroy(open->poll);
	tree_text_clear(&open->text);
	open->instance->opens--;
	while (tracefs->opens[at] != open)
		at++;
	tracefs->opens[at] = tracefs->opens[--tracefs->open_count];
	free(open);
}

static void on_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info)
{
	(void)ino;
	close_open(tracefs_of(req), open_of(info));
	fuse_reply_err(req, 0);
}

static bool has_more(struct tree_open *open)
{
	if (options_has(open->instance, OPTION_BLOCK))
		return true; /* its reader waits in read() */
	if (open->row && open->row->stream == STREAM_RAW)
		return raw_is_ready(open, true);
	return !stream_is_pipe(open->row) || stream_is_ready(open);
}

static void on_poll(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info, struct fuse_pollhandle *handle)
{
	struct tree_open *open = open_of(info);
	unsigned events = POLLOUT | POLLWRNORM;

	(void)ino;
	open->flushed = false;
	if (open->poll)
		fuse_pollhandle_destroy(open->poll);
	open->poll = handle;
	source_pump(open->instance);
	if (has_more(open))
		events |= POLLIN | POLLRDNORM;
	fuse_reply_poll(req, events);
}

static int make_instance(fuse_req_t req, const char *name, struct tree_node *made)
{
	struct tree *tree = &tracefs_of(req)->tree;
	struct calltap_diag diag = {.column = -1};
	char word[sizeof("name=") + 64];
	const char *const words[] = {word, "tracer=nop"};
	struct tree_instance *instance;
	int ret;

	if (parts_named(tree, name))
		return -EEXIST;
	if (tree->over)
		return -ENODEV;
	if (strlen(name) >= sizeof(instance->name))
		return -ENAMETOOLONG;
	snprintf(word, sizeof(word), "name=%s", name);
	instance = parts_add(tree, name);
	ret = instance ? begin_instance(instance, words, 2, &diag) : -ENOMEM;
	*made = (struct tree_node){.instance = instance, .folder = FOLDER_TOP};
	if (!ret)
		return 0;
	errors_note(tree, "instances", ret, diag.text, name, 0);
	if (instance)
		parts_remove(tree, instance);
	return ret;
}

static void on_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct fuse_entry_param entry;
	struct tree_node folder, made;
	int ret = -EPERM;

	(void)mode;
	if (find_node(req, parent, &folder) && folder.folder == FOLDER_INSTANCES)
		ret = make_instance(req, name, &made);
	if (ret) {
		fuse_reply_err(req, -ret);
		return;
	}
	fill_entry(&entry, tracefs_of(req), &made);
	fuse_reply_entry(req, &entry);
}

static void on_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct tracefs *tracefs = tracefs_of(req);
	struct tree_instance *instance = parts_named(&tracefs->tree, name);
	struct tree_node folder;

	if (instance && instance->opens) {
		await_closing(tracefs, instance->id);
		instance = parts_named(&tracefs->tree, name);
	}
	if (!find_node(req, parent, &folder) || folder.folder != FOLDER_INSTANCES) {
		fuse_reply_err(req, EPERM);
	} else if (!instance) {
		fuse_reply_err(req, ENOENT);
	} else if (instance->opens) {
		fuse_reply_err(req, EBUSY);
	} else {
		end_instance(instance);
		parts_remove(&tracefs->tree, instance);
		fuse_reply_err(req, 0);
	}
}

static void on_init(void *userdata, struct fuse_conn_info *connection)
{
	(void)userdata;
	/* Opening a file with O_TRUNC means something else than cutting it. */
	connection->want |= connection->capable & FUSE_CAP_ATOMIC_O_TRUNC;
	/* splice() of trace_pipe_raw goes through the page cache: page by page, and no page before its time. */
	connection->max_readahead = 0;
	connection->want &= ~(unsigned)(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE);
}

static const struct fuse_lowlevel_ops operations = {
	.init = on_init,
	.lookup = on_lookup,
	.getattr = on_getattr,
	.setattr = on_setattr,
	.readdir = on_readdir,
	.open = on_open,
	.create = on_create,
	.mknod = on_mknod,
	.read = on_read,
	.write = on_write,
	.flush = on_flush,
	.release = on_release,
	.poll = on_poll,
	.mkdir = on_mkdir,
	.rmdir = on_rmdir,
};

static bool is_readable(int fd)
{
	struct pollfd ready = {fd, POLLIN, 0};

	return fd >= 0 && poll(&ready, 1, 0) > 0;
}

/* Has the session's instance ended? */
static bool has_ended(const struct tracefs *tracefs, const struct tree_instance *instance)
{
	return is_readable(instance->source.connection < 0 ? tracefs->options->done : instance->source.connection);
}

/* Take in what has come for an instance, and see whether it has ended; true: there is more, and no reader holds it up.
 */
static bool pump(struct tracefs *tracefs, struct tree_instance *instance)
{
	if (instance->source.ended)
		return false;
	if (has_ended(tracefs, instance))
		source_end(instance);
	else
		source_pump(instance);
	return instance->source.behind && !instance->source.held;
}

/* Take in what has come for all instances.  The session's end is told before that: signals are the tree's from then on.
 */
static void pump_all(struct tracefs *tracefs)
{
	bool hurries = false;

	if (!tracefs->tree.over && has_ended(tracefs, tracefs->tree.instances)) {
		tracefs->tree.over = true;
		tracefs->tree.over_ns = now_ns();
		return;
	}
	for (struct waiting *waiting = tracefs->waiting; waiting; waiting = waiting->next)
		stream_note_reader(waiting->open);
	for (size_t i = 0; i < tracefs->open_count; i++)
		if (tracefs->opens[i]->poll)
			stream_note_reader(tracefs->opens[i]);
	for (struct tree_instance *instance = tracefs->tree.instances; instance; instance = instance->next)
		hurries |= (!tracefs->tree.over || instance->opens) && pump(tracefs, instance);
	/* After the end others wait for those whose files somebody has open. */
	if (tracefs->tree.over && hurries)
		return;
	for (struct tree_instance *instance = tracefs->tree.instances; instance && tracefs->tree.over;
	     instance = instance->next)
		if (!instance->opens)
			pump(tracefs, instance);
	tracefs->counts = !profiler_pump(&tracefs->tree) | !stacks_pump(&tracefs->tree);
}

/* Has all come that was recorded when the read began, or is it not going to? */
static bool has_rest(const struct tree_open *open)
{
	const uint64_t patience_ns = open->instance->tree->over ? BACKLOG_NS : TRACE_WAIT_NS;

	return source_known_ns(open->instance) >= open->since_ns || now_ns() - open->since_ns > patience_ns;
}

static void answer_waiting(struct tracefs *tracefs)
{
	for (struct waiting *waiting = tracefs->waiting, *next; waiting; waiting = next) {
		next = waiting->next;
		if (is_ready(waiting->open) || (!waiting->rest && is_called_away(waiting)))
			reply_stream(waiting->req, waiting->open, waiting->size, waiting->offset, false);
		else if (waiting->rest && (has_rest(waiting->open) || is_called_away(waiting)))
			fuse_reply_err(waiting->req, EAGAIN);
		else
			continue;
		stop_waiting(waiting);
	}
	for (size_t i = 0; i < tracefs->open_count; i++) {
		struct tree_open *open = tracefs->opens[i];

		if (!open->poll || !has_more(open))
			continue;
		fuse_lowlevel_notify_poll(open->poll);
		fuse_pollhandle_destroy(open->poll);
		open->poll = NULL;
	}
}

/* How long to wait for requests. */
static int pause_ms(const struct tracefs *tracefs)
{
	bool waits = tracefs->waiting != NULL;
	int least = IDLE_MS;

	if (tracefs->counts)
		return 0;
	for (const struct tree_instance *instance = tracefs->tree.instances; instance; instance = instance->next)
		if (instance->source.held)
			least = SOON_MS;
		else if (instance->source.behind)
			return 0;
	for (size_t i = 0; i < tracefs->open_count; i++)
		waits |= tracefs->opens[i]->poll != NULL;
	if (waits && least > BUSY_MS)
		least = BUSY_MS;
	return least;
}

/* The session has ended, and the tree is to go: is it time?  Readers get the rest, all together in TREE_END_NS. */
static bool is_rest_over(struct tracefs *tracefs, uint64_t for_others_ns)
{
	const uint64_t since_end_ns = now_ns() - tracefs->tree.over_ns;
	bool reads = false;

	for (size_t i = 0; i < tracefs->open_count; i++)
		reads |= stream_is_being_read(tracefs->opens[i]);
	tracefs->left = reads && since_end_ns > TREE_END_NS;
	return !tracefs->open_count || tracefs->left || (!reads && since_end_ns > for_others_ns);
}

/* The session has ended: readers get the rest, and when nobody has a file open any more, the tree goes. */
static bool is_over(struct tracefs *tracefs)
{
	if (!tracefs->tree.over)
		return false;
	if (!tracefs->told) {
		tracefs->told = true;
		if (tracefs->options->ended)
			tracefs->options->ended(tracefs->options->ctx);
	}
	/* A process that lives on was let go of, which somebody wanted, or executes another program. */
	if (!tracefs->options->keep && tracefs->tree.pid > 0 && proc_alive(tracefs->tree.pid))
		return is_rest_over(tracefs, REST_NS);
	return !tracefs->options->keep && !tracefs->open_count;
}

/* Is the tree to go, whatever the session does? */
static bool is_stopped(struct tracefs *tracefs)
{
	if (is_readable(tracefs->options->owner))
		return true;
	return is_readable(tracefs->options->stop) && (!tracefs->tree.over || is_rest_over(tracefs, 0));
}

/* Take requests for a while, as long as one comes soon after the other; false: the tree was unmounted. */
static bool take_requests(struct tracefs *tracefs, struct fuse_buf *buffer)
{
	const uint64_t until_ns = now_ns() + SERVE_NS;
	struct pollfd ready = {fuse_session_fd(tracefs->fuse), POLLIN, 0};

	do
		if (!take_request(tracefs, buffer))
			return false;
	while (now_ns() < until_ns && poll(&ready, 1, SOON_MS) > 0);
	return true;
}

static void serve_requests(struct tracefs *tracefs)
{
	struct fuse_buf buffer = {0};

	while (!fuse_session_exited(tracefs->fuse) && !is_over(tracefs) && !is_stopped(tracefs)) {
		struct pollfd ready[3] = {{fuse_session_fd(tracefs->fuse), POLLIN, 0},
					  {tracefs->tree.over ? -1 : tracefs->options->stop, POLLIN, 0},
					  {tracefs->options->owner, POLLIN, 0}};
		int got = poll(ready, 3, pause_ms(tracefs));

		if (got > 0 && ready[0].revents && !take_requests(tracefs, &buffer))
			break;
		pump_all(tracefs);
		answer_waiting(tracefs);
	}
	free(buffer.mem);
}

/* Is there nothing in the folder?  -ENOTEMPTY: there is. */
static int look_into(const char *folder)
{
	const struct dirent *entry;
	DIR *dir = opendir(folder);
	int ret = 0;

	if (!dir)
		return -errno;
	while (!ret && (entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			ret = -ENOTEMPTY;
	closedir(dir);
	return ret;
}

static int mount_on(struct tracefs *tracefs, const char *directory, struct calltap_diag *diag)
{
	char *folder = realpath(directory, NULL);
	int ret = folder ? look_into(folder) : -errno;

	if (ret) {
		free(folder);
		return calltap_diag_set(diag, ret,
					ret == -ENOTEMPTY ? "cannot mount on %.200s: there is something in it, which "
							    "would be hidden; make a new folder"
							  : "cannot mount on %.200s: %s; make a new folder",
					directory, strerror(-ret));
	}
	tracefs->mounted = !fuse_session_mount(tracefs->fuse, folder);
	if (!tracefs->mounted)
		ret = calltap_diag_set(diag, -EPERM,
				       "cannot mount on %.200s; FUSE needs /dev/fuse, and fusermount3 (package fuse3)",
				       folder);
	else if (keeper_start(&tracefs->keeper, folder))
		ret = calltap_diag_set(diag, -EAGAIN, "cannot start a process that unmounts when the tool is killed");
	free(folder);
	return ret;
}

/* Take a device that is mounted already. */
static int take_device(struct tracefs *tracefs, struct calltap_diag *diag)
{
	char path[sizeof("/dev/fd/") + 12];

	snprintf(path, sizeof(path), "/dev/fd/%d", tracefs->options->device);
	if (!fuse_session_mount(tracefs->fuse, path))
		return 0;
	return calltap_diag_set(diag, -EOPNOTSUPP, "libfuse does not take an open /dev/fuse; it needs version 3.3");
}

int tracefs_mount(struct tracefs **out, const struct tracefs_options *options, struct calltap_diag *diag)
{
	char name[] = "calltap", wishes[] = "-ofsname=calltap,subtype=tracefs,default_permissions";
	char *words[] = {name, wishes, NULL};
	struct fuse_args args = FUSE_ARGS_INIT(2, words);
	struct tracefs *tracefs = calloc(1, sizeof(*tracefs));
	int ret;

	*out = NULL;
	if (!tracefs || !parts_add(&tracefs->tree, "")) {
		free(tracefs);
		return calltap_diag_set(diag, -ENOMEM, "not enough memory");
	}
	tracefs->tree.options = tracefs->options = options;
	tracefs->tree.connection = tracefs->keeper.pipe = -1;
	tracefs->tree.names_asked = NAMES_DEFAULT;
	tracefs->since = time(NULL);
	tracefs->fuse = fuse_session_new(&args, &operations, sizeof(operations), tracefs);
	fuse_opt_free_args(&args);
	if (!tracefs->fuse)
		ret = calltap_diag_set(diag, -ENOMEM, "not enough memory");
	else
		ret = options->device < 0 ? mount_on(tracefs, options->directory, diag) : take_device(tracefs, diag);
	if (ret)
		tracefs_unmount(tracefs);
	else
		*out = tracefs;
	return ret;
}

int tracefs_serve(struct tracefs *tracefs, pid_t pid, struct calltap_diag *diag)
{
	int ret = pid || !tracefs->options->attach ? begin_tree(&tracefs->tree, pid, diag)
						   : attach_await(&tracefs->tree, diag);

	if (ret)
		return ret;
	buffer_limit(tracefs->tree.instances);
	if (tracefs->options->owner >= 0)
		(void)send(tracefs->options->owner, "", 1, MSG_NOSIGNAL);
	serve_requests(tracefs);
	return 0;
}

bool tracefs_left_readers(const struct tracefs *tracefs)
{
	return tracefs->left;
}

void tracefs_unmount(struct tracefs *tracefs)
{
	if (!tracefs)
		return;
	tracefs->tree.leave_ns = now_ns() + TREE_END_NS;
	for (struct waiting *waiting = tracefs->waiting, *next; waiting; waiting = next) {
		next = waiting->next;
		fuse_reply_err(waiting->req, ENODEV);
		free(waiting);
	}
	tracefs->waiting = NULL;
	for (size_t i = tracefs->open_count; i--;)
		close_open(tracefs, tracefs->opens[i]);
	if (tracefs->mounted)
		fuse_session_unmount(tracefs->fuse);
	keeper_end(&tracefs->keeper);
	if (tracefs->fuse)
		fuse_session_destroy(tracefs->fuse);
	for (struct tree_instance *instance = tracefs->tree.instances; instance; instance = instance->next)
		if (instance->id || tracefs->options->memory < 0)
			end_instance(instance);
	profiler_destroy(&tracefs->tree);
	stacks_destroy(&tracefs->tree);
	parts_clear(&tracefs->tree);
	free(tracefs->opens);
	free(tracefs);
}
