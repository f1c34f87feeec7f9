/*
 * The agent's file as it is to lie in memory: what a loader does for a library that links nothing.
 *
 * Pure: from the file's bytes and an address to bytes.  Caller: the session, for programs without a loader.
 * Context: host; the file is the tool's own, and checked all the same.
 */
#ifndef HOST_ATTACH_IMAGE_H
#define HOST_ATTACH_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#define IMAGE_PARTS_MAX 8u

/* Pages of one protection. */
struct image_part {
	uint64_t offset, size; /* whole pages, from the image's start */
	int protection;	       /* PROT_* */
};

struct agent_image {
	unsigned char *file; /* the file's bytes */
	size_t file_size;
	unsigned char *bytes; /* of the image, whole pages */
	size_t size;
	struct image_part parts[IMAGE_PARTS_MAX];
	unsigned part_count;
};

/* Read an agent's file. -ENOEXEC: it is none, or takes something that only a loader gives; -errno. */
int agent_image_read(struct agent_image *out, const char *path) __attribute__((warn_unused_result));
/* The same of a file's bytes, which are the image's from then on, after an error, too. */
int agent_image_parse(struct agent_image *out, unsigned char *file, size_t size) __attribute__((warn_unused_result));
/* Make the bytes for an image that lies at `base`.  Symbols that the agent does not define are 0. */
int agent_image_relocate(struct agent_image *image, uint64_t base) __attribute__((warn_unused_result));
/* The place in the image of what the agent exports under that name; 0 = nothing. */
uint64_t agent_image_symbol(const struct agent_image *image, const char *name);
void agent_image_free(struct agent_image *image);

#endif
