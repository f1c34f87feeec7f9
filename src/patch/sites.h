/*
 * Applying a plan: stubs first, then the sites that jump to them.
 * Context: control (the agent's control thread, alone).
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
	uint64_t lo; /* 0 = none */
	uint64_t hi; /* end of its stubs; its unwind tables lie there, ARCH_EH_FRAME_MAX bytes each */
	bool gated;  /* some of the stubs have a gate */
};

struct patch_result {
	struct patch_region region;
	uint32_t patched;
	uint32_t failed;
	uint32_t skipped;	  /* of those: they were in skips */
	uint32_t first_failed_id; /* of the others */
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
 * Point the sites at their stubs; those with CALLTAP_SITE_OFF are written in
 * their switched-off form.  No thread may be running in the object (its
 * constructors have not run), or all are stopped, and none is within a site
 * but the skips.  A site whose bytes differ is left alone and counted.
 */
int patch_sites_apply(struct patch_result *result, struct patch_poker *poker, const struct calltap_site *sites,
		      uint32_t count, const struct patch_skips *skips) __attribute__((warn_unused_result));

#define PATCH_TRAMP_BYTES ARCH_HOOK_BYTES

/* One instruction of a site: itself, or the trampoline that a short one leads to. */
struct patch_piece {
	uint64_t address, target;
	const uint8_t *old;
	uint8_t length;
};
struct patch_piece patch_site_piece(const struct patch_region *region, const struct calltap_site *site);
struct patch_piece patch_tramp_piece(const struct patch_region *region, const struct calltap_site *site);

struct arch_write;
/* Is its code this?  Read as it is written: the object may have been unmapped. */
bool patch_piece_is(const struct patch_poker *poker, const struct patch_piece *piece, const uint8_t *code);
int patch_piece_write(struct patch_poker *poker, const struct patch_piece *piece, const struct arch_write *write)
	__attribute__((warn_unused_result));

/*
 * live.c: switch one site on or off while threads run through it; one that is
 * so already is left.  -EINVAL when the bytes there are not those of this site:
 * the object may be gone, and anything else lie there.
 */
int patch_site_switch(struct patch_poker *poker, const struct patch_region *region, const struct calltap_site *site,
		      bool on) __attribute__((warn_unused_result));

enum patch_state {
	PATCH_SITE_ALIEN, /* it does not lead to this region, and is not switched off so that it would */
	PATCH_SITE_OFF,
	PATCH_SITE_ON,
};

enum patch_state patch_site_state(const struct patch_poker *poker, const struct patch_region *region,
				  const struct calltap_site *site);

/* A site that leads to one region, or would if it were on, and is to lead to another and be on. */
struct patch_move {
	const struct patch_region *from, *to;
	const struct calltap_site *old, *site; /* the same, but for the stub */
	bool done;
};

/*
 * move.c: while threads run through them.  A move that is not done has left its
 * site where it was, or off; either is one that patch_sites_restore() brings back.
 */
void patch_sites_move(struct patch_poker *poker, struct patch_move *moves, uint32_t count);
/* Does the site's jump reach its stub in the region? */
bool patch_site_reaches(const struct patch_region *region, const struct calltap_site *site);

struct patch_pages;

struct patch_restored {
	uint32_t restored; /* sites with the bytes that the plan found */
	uint32_t left;	   /* sites without: switched off, where they were still ours; none that are unmapped */
	uint32_t leading;  /* of those left: sites that lead to their stub, or will when a breakpoint is taken away */
};

/* Give live text back the bytes that the sites replaced, and its pages to the file; pages NULL: those are another's. */
void patch_sites_restore(struct patch_restored *out, struct patch_poker *poker, const struct patch_region *region,
			 const struct calltap_site *sites, uint32_t count, const struct patch_pages *pages);
/* How many bytes at the site's start only its page brings back, and what they are once all others are restored. */
uint8_t patch_site_inert(uint8_t code[ARCH_SITE_MAX], const struct patch_region *region,
			 const struct calltap_site *site);
/* The same for a jump at a place of arch_hook_places(); no pages are involved. */
int patch_hook_restore(struct patch_poker *poker, uint64_t address, uint64_t target, const uint8_t *old)
	__attribute__((warn_unused_result));

#endif
