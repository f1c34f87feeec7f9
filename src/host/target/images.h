/*
 * Object files of a session: each is read once, whichever processes map it,
 * and its wanted functions get their ids.
 *
 * Callers: precheck.c and conversation.c.  Context: host, under the session's lock.
 */
#ifndef HOST_TARGET_IMAGES_H
#define HOST_TARGET_IMAGES_H

#include <stdint.h>
#include <sys/stat.h>

#include <calltap/abi/control.h>
#include <calltap/abi/record.h>
#include <calltap/abi/times.h>
#include <host/elf/filter.h>
#include <host/elf/object.h>
#include <host/stock/choice.h>
#include <host/stock/stock.h>
#include <host/trace/writer.h>
#include <tracers/tracer.h>

/* Settings that change while it records may take stubs of another kind; a few kinds are kept. */
#define IMAGE_VARIANTS 16

struct handlers;
struct watch;

struct image_variant {
	struct calltap_site *sites; /* ELF addresses, flags and stub_off set */
	uint64_t stub_bytes;	    /* of a region for all of them */
};

/* The island that a site's head leads to, or has (islands.c). */
struct image_island {
	uint64_t at;		/* ELF address; 0: neither */
	struct stock_need host; /* what the block takes of a head that has the island; size 0: the head has none */
};

struct image {
	struct image *next;
	struct image *base; /* of an addition: the image that the object was read for; else NULL */
	bool *taken;	    /* by the object's sites: they are this image's, or an addition's; NULL in additions */
	/* By the object's sites, as of the last decision. NULL: there are none, and in additions. */
	struct image_island *islands;
	dev_t dev;
	ino_t ino;
	struct timespec mtime;
	char *path;
	int fd;		       /* of the file, whatever has its name now; -1 = nothing is traced in it */
	struct object *object; /* NULL: no ELF file, or not one to trace */
	uint32_t index;	       /* object index in the trace */
	bool decided;
	bool skipped;	/* a plain shared library that nothing names: not looked at */
	bool announced; /* OBJECT and FUNCTIONS chunks are written */
	/* Nothing in it is traced, but values may be addresses in it: so the first instance's file has its place. */
	bool named;
	bool named_told; /* and the OBJECT chunk is written */
	struct object_identity identity;
	uint32_t lined; /* LINES, too: bits by the number of the instance whose file has them */
	struct image_variant variants[IMAGE_VARIANTS];
	uint32_t variant_count;
	uint32_t variant;		    /* the one whose stubs sites lead to when they are on */
	struct calltap_site *sites;	    /* of the first variant: places and ids are the same in all */
	const struct object_site **sources; /* what each comes from */
	bool *off;			    /* by site: not recorded at present (live.c) */
	struct image_asked *asked;	    /* what the session's filters say; of an addition: see `base` */
	bool *touched;			    /* by site: it was patched at some time */
	/* For the dispatcher (handlers.c), by site; NULL: no handler and no further instance came so far. */
	uint64_t *slots; /* the handlers and instances that want the calls, as bits of struct calltap_handled */
	uint64_t *who;	 /* the row, but for `start` */
	uint32_t *roles; /* the lower half of struct calltap_roles */
	bool dispatched; /* while there are handlers or further instances, recorded functions are dispatched, too */
	const struct object_site **keepers; /* functions that use their return address (keepers.c) */
	size_t keeper_count;
	uint32_t site_count;
	/*
	 * Sites from block_first on are of functions that no compiler has prepared, and of PLT entries: they lie in
	 * blocks (plan_memory.c), and their address is an offset in the region of blocks.
	 */
	uint32_t block_first;
	struct stock_block *blocks;
	struct stock_layout layout;
	uint32_t first_id; /* ids are first_id .. first_id + site_count - 1 */
};

struct images {
	struct image *first;
	uint32_t count;	  /* next object index */
	uint32_t next_id; /* next function id */
	uint16_t machine; /* of other ELF machines' files nothing is traced; 0 = any will do */
	const struct tracer *tracer;
	struct tracer_needs needs;
	struct filter_set *filters;
	struct filter_set *asked;  /* objects that a list of functions is wanted of (catalog.c), or NULL */
	struct watch *watch;	   /* functions that triggers wait for, or NULL */
	struct handlers *handlers; /* of a program's own, or NULL */
	struct values *values;	   /* what calls tell besides, or NULL */
	bool serve;		   /* stubs are made for those, from the start */
	bool tracing;		   /* else only those are on */
	struct brief *brief;	   /* what chooses calls without times, or NULL */
	struct brief *times;	   /* `brief`, or what further instances have in its place, or NULL */
	bool keeps_open;	   /* a flight recorder: each frame keeps its entry's time */
	uint32_t generation;	   /* counts changes of what is on */
	enum stock_choice stock;
	enum libcalls_choice libcalls;
	uint32_t size_min; /* bytes: smaller functions are not recorded */
	bool all;	   /* sites that are not chosen are there, too, switched off: they can be chosen later */
};

void images_destroy(struct images *images);
/*
 * The image of the open file fd (kept by the caller), read the first time.  A
 * library gets a quick look first: without sites it has no object.
 */
int images_get(struct image **out, struct images *images, int fd, const char *path, bool library)
	__attribute__((warn_unused_result));
/* keepers.c: note the functions of an object that was read that use their return address. */
int keepers_note(struct image *image) __attribute__((warn_unused_result));
/* Calls of such functions of other images are left alone; before the image is decided on, for it has no sites yet. */
void keepers_refuse(const struct images *images, const struct image *image);
/* Functions of a library that copies stacks are left alone by a tracer that records returns; likewise before. */
void copiers_refuse(const struct images *images, const struct image *image);
/* The one that has the function, and its place there; NULL = there is no function of that id. */
struct image *images_of(const struct images *images, uint32_t id, uint32_t *site);
/*
 * What the filters decide on a function.  Stock functions of a library that is not the program's own are chosen by
 * filters alone that name it: those of another instance may have had it looked at.
 */
struct filter_decision images_ask(struct filter_set *filters, const struct image *image,
				  const struct object_site *source);
/* Decide which functions of an image are wanted; lays the stubs out. */
int image_decide(struct images *images, struct image *image) __attribute__((warn_unused_result));
/*
 * An addition: functions of an object that are chosen when its image has been decided on.  It is an image of its own,
 * which follows that of the object in the list and shares its object and its index in the trace: so its functions have
 * ids, stubs and blocks of their own, and are planned beside the others.  Makes one for each image with functions that
 * are wanted and not taken.
 */
int images_extend(struct images *images) __attribute__((warn_unused_result));
/* Look at the file of an image that was skipped, if something names it now. */
int images_look_again(struct images *images, struct image *image, int fd) __attribute__((warn_unused_result));
/*
 * The last of the image's functions that begins at this ELF address or before: its place.  False: none does.  It may
 * end before the address.
 */
bool image_function_before(const struct image *image, uint64_t address, uint32_t *place);
/*
 * Decide anew, after tracer, needs, filters or handlers have changed: which
 * sites are chosen and what their rows are to say (struct calltap_handled.who),
 * by site, and the variant that has the stubs for them, made if need be.
 * -ENOSPC: there were too many kinds already.
 */
int image_decide_again(struct images *images, struct image *image, bool *chosen, uint64_t *who, uint32_t *variant)
	__attribute__((warn_unused_result));
/* Write the image's OBJECT and FUNCTIONS chunks. */
int image_describe(const struct image *image, struct trace_writer *writer) __attribute__((warn_unused_result));
/*
 * Write an announced image's LINES (slow: reads DWARF).  Uses nothing of it
 * that changes after it was announced: no lock is needed.
 */
int image_write_lines(const struct image *image, struct trace_writer *writer) __attribute__((warn_unused_result));

/*
 * islands.c: choose a host for each site that is wanted and whose head has room for a short jump alone (stock.h,
 * "Islands").  An array by site for free(), NULL: no site needs an island.  wanted: by site.  A site that needs one and
 * has none is not to be led.
 */
int islands_choose(struct image_island **out, const struct image *image, const bool *wanted)
	__attribute__((warn_unused_result));
/* True if the site's head has room for a jump to an island alone. */
bool islands_need(const struct object *object, const struct object_site *site);

/* plan_memory.c: how many of an image's sites lie in blocks. */
static inline uint32_t image_block_sites(const struct image *image)
{
	return image->site_count - image->block_first;
}
/*
 * The memory of a plan, sealed, for an object at `base` with its blocks at `blocks`; whole: with heads and the blocks'
 * bytes.  Returns its descriptor.
 */
int plan_memory(const struct image *image, uint32_t variant, uint64_t base, uint64_t blocks, bool whole)
	__attribute__((warn_unused_result));
/* layout.c: bytes of a site's stub, as the agent for that CPU (e_machine of a readable object) writes it. */
uint32_t layout_stub_size(uint16_t machine, const struct calltap_site *site);
/* Offsets of the stubs in a region, as the patch room needs them (doc/design/stubs.md). */
int layout_stubs(uint16_t machine, struct calltap_site *sites, uint32_t count, uint64_t *bytes)
	__attribute__((warn_unused_result));

#endif
