/*
 * Prints the functions and sites that the reader finds in one ELF file, one per line, for the scripts of this folder:
 *
 *     site_dump FILE [FILTER...]
 *
 * name, kind, verdict, length, body_off, tramp_off, site address, function address, 1 if the filters want it; the last
 * line has the time that all of it took.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "host/elf/filter.h"
#include "host/elf/object.h"

static double now_ms(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static void print_sites(struct object *object, struct filter_set *filters)
{
	const struct object_site *sites;
	size_t count = object_sites(object, &sites);

	for (size_t i = 0; i < count; i++) {
		const struct object_site *site = &sites[i];
		struct filter_decision decision;

		filter_set_decide(filters, object, site, &decision);
		printf("%s\t%s\t%s\t%d\t%d\t%d\t%" PRIx64 "\t%" PRIx64 "\t%d\n", object_site_name(object, site),
		       site_kind_text(site->kind), site_verdict_text(site->verdict), site->length, site->body_off,
		       site->tramp_off, site->address, site->function, decision.trace);
	}
}

static size_t decide_all(struct object *object, struct filter_set *filters)
{
	const struct object_site *sites;
	size_t count = object_sites(object, &sites), wanted = 0;

	for (size_t i = 0; i < count; i++) {
		struct filter_decision decision;

		filter_set_decide(filters, object, &sites[i], &decision);
		wanted += decision.trace;
	}
	return wanted;
}

int main(int argc, char **argv)
{
	struct calltap_diag diag = {0};
	struct filter_set *filters;
	struct object *object;
	double start, opened, decided;
	size_t wanted;
	int fd, error;

	if (argc < 2 || filter_set_create(&filters))
		return 2;
	fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	for (int i = 2; i < argc; i++) {
		if (filter_set_add(filters, FILTER_TRACE, argv[i], &diag)) {
			calltap_diag_print(&diag, stderr);
			return 2;
		}
	}
	start = now_ms();
	error = object_open(&object, fd, argv[1], &diag);
	if (fd >= 0)
		close(fd);
	if (error) {
		calltap_diag_print(&diag, stderr);
		filter_set_destroy(filters);
		return 1;
	}
	opened = now_ms();
	wanted = decide_all(object, filters);
	decided = now_ms();
	print_sites(object, filters);
	printf("wanted %zu, open %.2f ms, decide %.2f ms\n", wanted, opened - start, decided - opened);
	object_close(object);
	filter_set_destroy(filters);
	return 0;
}
