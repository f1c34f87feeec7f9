/*
 * Object files of a session: each is read once, whichever processes map it,
 * and its wanted functions get their ids.
 *
 * Callers: precheck.c and process.c.  Context: host, under the session's lock.
 */
#ifndef HOST_RECORD_IMAGES_H
#define HOST_RECORD_IMAGES_H

#include <stdint.h>
#include <sys/stat.h>

#include <calltap/abi/control.h>
#include <calltap/abi/record.h>
#include <host/elf/filter.h>
#include <host/elf/object.h>
#include <host/trace/writer.h>
#include <tracers/tracer.h>

struct image {
	struct image *next;
	dev_t dev;
	ino_t ino;
	struct timespec mtime;
	char *path;
	struct object *object; /* NULL: no ELF file, or not one to trace */
	uint32_t index;	       /* object index in the trace */
	bool decided;
	bool announced;			    /* OBJECT and FUNCTIONS chunks are written */
	struct calltap_site *sites;	    /* wanted ones, ELF addresses, stub_off set */
	const struct object_site **sources; /* what each comes from */
	bool *off;			    /* by site: not recorded at present (live.c); NULL = all are */
	uint32_t site_count;
	uint32_t first_id;   /* ids are first_id .. first_id + site_count - 1 */
	uint64_t stub_bytes; /* of a region for all of them */
};

struct images {
	struct image *first;
	uint32_t count;	  /* next object index */
	uint32_t next_id; /* next function id */
	uint16_t machine; /* of other ELF machines' files nothing is traced; 0 = any will do */
	const struct tracer *tracer;
	struct tracer_needs needs;
	struct filter_set *filters;
};

void images_destroy(struct images *images);
/*
 * The image of the open file fd (kept by the caller), read the first time.  A
 * library gets a quick look first: without sites it has no object.
 */
int images_get(struct image **out, struct images *images, int fd, const char *path, bool library)
	__attribute__((warn_unused_result));
/* Decide which functions of an image are wanted; lays the stubs out. */
int image_decide(struct images *images, struct image *image) __attribute__((warn_unused_result));
/* Write the image's OBJECT and FUNCTIONS chunks, once. */
int image_announce(struct image *image, struct trace_writer *writer) __attribute__((warn_unused_result));
/* Write LINES for all announced images (slow: reads DWARF). */
int images_write_lines(struct images *images, struct trace_writer *writer) __attribute__((warn_unused_result));

/* layout.c: bytes of a site's stub, as the agent for that CPU (e_machine of a readable object) writes it. */
uint32_t layout_stub_size(uint16_t machine, const struct calltap_site *site);
/* Offsets of the stubs in a region, as the patch room needs them (doc/design/stubs.md). */
int layout_stubs(uint16_t machine, struct calltap_site *sites, uint32_t count, uint64_t *bytes)
	__attribute__((warn_unused_result));

#endif
