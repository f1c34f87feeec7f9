/*
 * What there is to trace (found.h).  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <calltap/abi/movers.h>
#include <host/counted.h>
#include <host/elf/advice.h>
#include <host/elf/imports.h>
#include <host/elf/pattern.h>
#include <host/hook/triggers.h>
#include <host/values/values.h>

#include "found.h"
#include "returns.h"
#include "session.h"

#define NEAR_MAX 3

/* ThreadSanitizer and MemorySanitizer forbid the program to map anything where the mirrors of its stacks would be. */
static const char *greedy_sanitizer(const struct object *object)
{
	const struct object_symbol *symbols;
	size_t count = object_symbols(object, &symbols);

	for (size_t i = 0; i < count; i++)
		if (!strcmp(symbols[i].symbol, "__tsan_init"))
			return "ThreadSanitizer";
		else if (!strcmp(symbols[i].symbol, "__msan_init"))
			return "MemorySanitizer";
	return NULL;
}

int found_consider(struct found *found, struct session *session, int fd, const char *path, bool library)
{
	struct object **objects;
	struct image **images, *image;
	int ret;

	/* The sanitizers' shared runtimes. */
	found->asan |= strstr(path, "/libasan.so") != NULL;
	if (!found->no_returns)
		found->no_returns = calltap_mover(path);
	if (strstr(path, "/libtsan.so"))
		found->greedy = "ThreadSanitizer";
	ret = images_get(&image, &session->images, fd, path, library);
	if (ret || !image->object)
		return ret;
	images = reallocarray(found->images, found->count + 1, sizeof(*images));
	if (!images)
		return -ENOMEM;
	found->images = images;
	images[found->count] = image;
	objects = reallocarray(found->objects, found->count + 1, sizeof(*objects));
	if (!objects)
		return -ENOMEM;
	found->objects = objects;
	if (!found->greedy)
		found->greedy = greedy_sanitizer(image->object);
	if (!found->no_returns && !library)
		found->no_returns = returns_refused(image->object);
	objects[found->count++] = image->object;
	return 0;
}

int found_decide(struct found *found, struct session *session)
{
	for (size_t i = 0; i < found->count; i++) {
		struct image *image = found->images[i];
		int ret = image_decide(&session->images, image);

		if (ret)
			return ret;
		found->sites += object_traceable(image->object);
		for (uint32_t k = 0; k < image->site_count; k++)
			found->wanted += !image->off[k];
	}
	return 0;
}

/* Count the object's functions that the filter matches and that cannot be traced; *first is one of them. */
static size_t count_refused(struct filter_set *set, struct object *object, const struct object_site **first)
{
	const struct object_site *sites;
	size_t count = object_sites(object, &sites), refused = 0;

	for (size_t i = 0; i < count; i++) {
		struct filter_decision decision = {0};

		if (sites[i].verdict != SITE_OK)
			filter_set_decide(set, object, &sites[i], &decision);
		if (decision.trace && !refused++)
			*first = &sites[i];
	}
	return refused;
}

/* What speaks against the functions that the filter matches: the first one, and how many more.  "": it matches none. */
static void tell_verdict(const struct found *found, const char *text, char *out, size_t size)
{
	struct filter_set *set;
	size_t all = 0;

	out[0] = '\0';
	if (filter_set_create(&set))
		return;
	if (filter_set_add(set, FILTER_TRACE, text, NULL)) {
		filter_set_destroy(set);
		return;
	}
	for (size_t i = 0; i < found->count; i++) {
		struct object *object = found->objects[i];
		const char *path = object_path(object), *slash = strrchr(path, '/');
		const struct object_site *site = NULL;
		size_t refused = count_refused(set, object, &site);

		if (refused && !all)
			snprintf(out, size, ": %.100s (%.60s) cannot be traced: %s", object_site_name(object, site),
				 slash ? slash + 1 : path, site_verdict_text((enum site_verdict)site->verdict));
		all += refused;
	}
	filter_set_destroy(set);
	if (all > 1)
		snprintf(out + strlen(out), size - strlen(out), "; %zu more %s it, and cannot be traced either",
			 all - 1, counted(all - 1, "matches", "match"));
}

/* Does the program call a function of this name that is another object's? */
static bool is_imported(const char *program, const char *text)
{
	int fd = open(program, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct import_pointer *list = NULL;
	size_t count = 0;

	if (fd < 0)
		return false;
	if (imports_read(&list, &count, fd, &text, 1))
		count = 0;
	free(list);
	close(fd);
	return count != 0;
}

/* True if the filter matches a function of the program, or of a library that it calls. */
static bool is_function(const struct found *found, const char *text, const char *program)
{
	struct filter_set *set = NULL;
	bool is = is_imported(program, text);

	if (!is && !filter_set_create(&set) && !filter_set_add(set, FILTER_TRACE, text, NULL))
		for (size_t i = 0; !is && i < found->count; i++) {
			const struct object_site *sites;
			size_t count = object_sites(found->objects[i], &sites);

			for (size_t k = 0; !is && k < count; k++)
				is = filter_set_names_site(set, found->objects[i], &sites[k]);
		}
	filter_set_destroy(set);
	return is;
}

/* An object's name in front of the colon that is a function's: a blank is missing.  "": it is none. */
static void tell_missing_blank(const struct found *found, const char *text, const char *program, char *out, size_t size)
{
	size_t length = pattern_object_length(text);
	const char *value = text + length + 1;
	char name[100];

	out[0] = '\0';
	if (!length || length >= sizeof(name))
		return;
	snprintf(name, sizeof(name), "%.*s", (int)length, text);
	if (is_function(found, name, program))
		snprintf(out, size, "; '%s' is a function: --args, --if and calltap count take '%s: %s', with a blank",
			 name, name, value + strspn(value, " "));
}

static int refuse_unmatched(const struct found *found, const struct session *session, const char *text,
			    const char *program, struct calltap_diag *diag)
{
	bool attaches = session->options->pid_count != 0;
	const char *names[NEAR_MAX];
	size_t n, at;
	char near[600];
	bool refused;

	tell_verdict(found, text, near, sizeof(near));
	refused = near[0];
	if (!refused)
		tell_missing_blank(found, text, program, near, sizeof(near));
	n = near[0] ? 0 : filter_near_misses(text, found->objects, found->count, names, NEAR_MAX);
	for (size_t i = 0; i < n; i++) {
		at = strlen(near);
		snprintf(near + at, sizeof(near) - at, "%s%s", i ? ", " : "; near: ", names[i]);
	}
	if (!near[0] && is_imported(program, text)) {
		snprintf(near, sizeof(near), "; it is a library's: --libcalls records the program's calls of it");
	} else if (!refused && !pattern_object_length(text)) {
		at = strlen(near);
		snprintf(near + at, sizeof(near) - at, "; a library's function is named with it: 'libc*:%.100s'", text);
	}
	if (session->result->unread) {
		at = strlen(near);
		snprintf(near + at, sizeof(near) - at, "; %s was deleted or replaced, and only root may read it",
			 session->result->unread_path);
	}
	return calltap_diag_set(diag, -ENODATA,
				"no function that can be traced matches '%s'%s (see `calltap functions %s`; "
				"--allow-no-match %s all the same)",
				text, near, program, attaches ? "attaches" : "runs the program");
}

int found_check(const struct found *found, const struct session *session, const char *program, pid_t pid,
		struct calltap_diag *diag)
{
	/* AddressSanitizer's runtime refuses to start when LD_PRELOAD puts anything before it. */
	if (found->asan)
		return calltap_diag_set(
			diag, -ENODATA,
			"%s uses AddressSanitizer's shared runtime, which wants to be the first library; link it "
			"with -static-libasan to trace it",
			program);
	if (!session->options->tracer->patches && !session->options->serves)
		return 0;
	if (found->no_returns && session->options->tracer->has_exit)
		return calltap_diag_set(diag, -ENODATA,
					"%s uses %s; its calls can be recorded with -p function, their returns cannot",
					program, found->no_returns);
	if (found->greedy)
		return calltap_diag_set(diag, -ENODATA,
					"%s is built with %s, which leaves no memory for the tracer to keep return "
					"addresses in; trace a build without it",
					program, found->greedy);
	if (!found->sites && !session->options->allow_no_sites) {
		if (found->unread[0])
			return calltap_diag_set(diag, -ENODATA,
						"%s of process %d was deleted or replaced, and only root may read what "
						"is mapped; attach "
						"as root, or start the process anew",
						found->unread, (int)pid);
		if (!found->count) /* as of a process that has just ended */
			return calltap_diag_set(diag, -ENODATA,
						"no file that the process runs can be read; attach to it as root");
		object_no_sites_diag(found->objects[0], diag);
		return -ENODATA;
	}
	return 0;
}

/* Is there anything that filters have to match? */
static bool is_filtered(const struct found *found, const struct session *session)
{
	return (session->options->tracer->patches || session->options->serves) && found->sites &&
	       !session->options->allow_no_match;
}

static bool has_filter(const struct filter_set *filters)
{
	bool has = false;

	for (enum filter_kind kind = 0; kind < FILTER_KINDS; kind++)
		has |= filter_set_has(filters, kind);
	return has;
}

bool found_is_idle(const struct found *found, const struct session *session)
{
	return is_filtered(found, session) && !found->wanted;
}

int found_match(const struct found *found, const struct session *session, const char *program,
		struct calltap_diag *diag)
{
	const char *text;

	if (!is_filtered(found, session))
		return 0;
	text = filter_set_unmatched(session->options->filters);
	if (!text)
		text = triggers_unmatched(session->options->triggers);
	if (text)
		return refuse_unmatched(found, session, text, program, diag);
	text = values_unmatched(session->options->values);
	if (text)
		return calltap_diag_set(
			diag, -ENODATA,
			"no function that is recorded matches '%s', of which values or a condition are "
			"asked for: -l and -n choose what is recorded, `calltap functions %s` lists all; "
			"--allow-no-match runs the program all the same",
			text, program);
	if (!found->wanted && !has_filter(session->options->filters))
		return calltap_diag_set(diag, -ENODATA,
					"no function of %s is traced unless -l names it (is the program only loaded by "
					"it? then name that alone); --allow-no-match runs it all the same",
					program);
	if (!found->wanted)
		return calltap_diag_set(diag, -ENODATA,
					"the filters together leave no function to trace; loosen -l, -n or -g");
	return values_check(session->options->values, diag);
}

int found_add(struct found *all, const struct found *found)
{
	struct object **objects;

	if (!found->count)
		return 0;
	objects = reallocarray(all->objects, all->count + found->count, sizeof(*objects));
	if (!objects)
		return -ENOMEM;
	all->objects = objects;
	memcpy(objects + all->count, found->objects, found->count * sizeof(*objects));
	all->count += found->count;
	all->sites += found->sites;
	all->wanted += found->wanted;
	return 0;
}

void found_clear(struct found *found)
{
	free(found->objects);
	free(found->images);
	*found = (struct found){0};
}
