/*
 * Stubs and sites: applying a plan (stubs first, then the sites that jump to them), switching and moving sites,
 * restoring their bytes.
 *
 * Called by the agent room's control thread alone.  Context: control.
 */
#ifndef PATCH_SITES_H
#define PATCH_SITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <calltap/abi/control.h>

#include <arch.h>
#include <patch/poke.h>

struct patch_region {
	uint64_t lo; /* 0 = no region */
	uint64_t hi; /* end of the stubs; the unwind tables follow, ARCH_EH_FRAME_MAX bytes each */
	bool gated;  /* some stubs have a gate */
};

struct patch_result {
	struct patch_region region;
	uint32_t patched;
	uint32_t failed;
	uint32_t skipped;	  /* sites that the skips name; counted in `failed`, too */
	uint32_t first_failed_id; /* function id of the first site that failed without being skipped */
};

/*
 * Map a region near [plan->near_lo, near_hi) and write the stubs of the
 * plan's sites into it; or take plan->region as it is.  The region ends up
 * readable and executable.  tls_gate: see arch_stub_build(); personality: see
 * arch_eh_frame_build().
 */
int patch_region_build(struct patch_result *result, const struct calltap_msg_plan *plan,
		       const struct calltap_site *sites, int64_t tls_gate, uint64_t personality)
	__attribute__((warn_unused_result));
/* Unmap a region: no thread is in it, none will return to it, and no site leads there. */
void patch_region_unmap(const struct patch_region *region);

/* Addresses of sites, or of their trampolines, that are to be left alone. */
struct patch_skips {
	const uint64_t *addresses;
	uint32_t count;
};

/*
 * Point the sites at their stubs; sites with CALLTAP_SITE_OFF are written in their switched-off form.  No thread may be
 * running in the object (its constructors have not run); or all threads are stopped, and none is within a site but the
 * skips.  A site whose bytes differ is left alone and counted as failed.
 */
int patch_sites_apply(struct patch_result *result, struct patch_poker *poker, const struct calltap_site *sites,
		      uint32_t count, const struct patch_skips *skips) __attribute__((warn_unused_result));

#define PATCH_TRAMP_BYTES ARCH_HOOK_BYTES

/* A patched instruction: the site itself, or the trampoline that a short site leads to. */
struct patch_piece {
	uint64_t address, target;
	const uint8_t *old;
	uint8_t length;
	uint64_t island; /* of a head that leads to one; else 0 */
};
struct patch_piece patch_site_piece(const struct patch_region *region, const struct calltap_site *site);
#define PATCH_HEAD_MAX 15 /* bytes of a head (blocks.h) */
/* True if the head is long enough for its jump, and its island lies where it can. */
bool patch_head_has_room(const struct calltap_site *head);
/* The bytes of a head that leads to its block: the jump, and behind it what was there before. */
void patch_head_make(uint8_t *code, const struct patch_piece *piece);
struct patch_piece patch_tramp_piece(const struct patch_region *region, const struct calltap_site *site);

/*
 * move.c or heads.c, as the CPU has it: the site with the target that its text leads to when on, if from there the
 * calls come to the site's stub in the region.  False: they do not.
 */
bool patch_site_find(struct patch_piece *piece, const struct patch_poker *poker, const struct patch_region *region,
		     const struct calltap_site *site);

struct arch_write;
/* True if the piece's bytes are `code`.  Reads through mem_fd, for the object may have been unmapped. */
bool patch_piece_is(const struct patch_poker *poker, const struct patch_piece *piece, const uint8_t *code);
int patch_piece_write(struct patch_poker *poker, const struct patch_piece *piece, const struct arch_write *write)
	__attribute__((warn_unused_result));

/* The bytes of sites that lie close together, read by one call right before the first of them is written. */
struct patch_glance {
	uint64_t at;
	size_t size;
	uint8_t bytes[512];
};

/*
 * Read the bytes of the sites at these places of the list, as far as they lie close behind the first one, in the order
 * of their addresses.  Returns how many sites were covered, at least one; of a place past the end nothing is read.
 */
uint32_t patch_glance(struct patch_glance *glance, const struct patch_poker *poker, const struct calltap_site *sites,
		      uint32_t site_count, const uint32_t *places, uint32_t count);

/*
 * live.c: switch one site on or off while threads run through it; a site that is so already is left. -EINVAL: the bytes
 * there are not this site's; its object may be gone, and anything may lie there.
 */
int patch_site_switch(struct patch_poker *poker, const struct patch_region *region, const struct calltap_site *site,
		      bool on) __attribute__((warn_unused_result));
/* The same where the bytes were read just now; NULL: they are read.  What the glance does not hold is read, too. */
int patch_site_switch_seen(struct patch_poker *poker, const struct patch_region *region,
			   const struct calltap_site *site, bool on, const struct patch_glance *glance)
	__attribute__((warn_unused_result));

enum patch_state {
	PATCH_SITE_ALIEN, /* the site does not lead to this region, nor would it if it were on */
	PATCH_SITE_OFF,
	PATCH_SITE_ON,
};

enum patch_state patch_site_state(const struct patch_poker *poker, const struct patch_region *region,
				  const struct calltap_site *site);

/* A site to lead from one region's stub to another's, and to be on.  It may be on or off before. */
struct patch_move {
	const struct patch_region *from, *to;
	const struct calltap_site *old, *site; /* equal but for the stub */
	bool done;
};

/*
 * move.c or heads.c: lead sites to other stubs while threads run through them.  A move that is not done has left its
 * site at its old stub, or off; patch_sites_restore() restores both.
 */
void patch_sites_move(struct patch_poker *poker, struct patch_move *moves, uint32_t count);
/* True if the two plans mean one site by these. */
bool patch_site_is_same(const struct calltap_site *a, const struct calltap_site *b);
/* move.c or heads.c: complete a stub that was just built, in memory that is still writable. */
void patch_stub_finish(uint8_t *stub);
/*
 * move.c or heads.c: before a site is first written, make its stub lead to no other one: it may have, for an object
 * that was here before.
 */
int patch_stub_reset(struct patch_poker *poker, uint64_t stub) __attribute__((warn_unused_result));
/* Does the site's jump reach its stub in the region? */
bool patch_site_reaches(const struct patch_region *region, const struct calltap_site *site);

struct patch_pages;

struct patch_restored {
	uint32_t restored; /* sites that have the bytes which the plan found */
	uint32_t left;	   /* sites without these bytes: off, where they were still ours; no unmapped ones */
	uint32_t leading;  /* sites of `left` that lead to their stub, or will once a breakpoint goes */
};

/*
 * Write the bytes that the sites replaced back to live text, and give its pages back to the file. pages NULL: give no
 * page back.
 */
void patch_sites_restore(struct patch_restored *out, struct patch_poker *poker, const struct patch_region *region,
			 const struct calltap_site *sites, uint32_t count, const struct patch_pages *pages);
/*
 * Returns how many bytes at the site's start come back only with the page; code: the site's bytes once all others are
 * restored.
 */
uint8_t patch_site_inert(uint8_t code[ARCH_SITE_MAX], const struct patch_region *region,
			 const struct calltap_site *site);
/*
 * Restore a jump that was written at a place of arch_hook_places(), or what is left to do after some steps of that; no
 * pages are involved. -EINVAL: other bytes are there.
 */
int patch_hook_restore(struct patch_poker *poker, uint64_t address, uint64_t target, const uint8_t *old)
	__attribute__((warn_unused_result));

#endif
