/*
 * Bytes as gzip in base64: how the page carries its data.
 *
 * Caller: write.c.  Context: host.  A browser's DecompressionStream reads gzip; base64 has no character that means
 * anything in HTML.
 */
#ifndef HOST_HTML_PACKED_H
#define HOST_HTML_PACKED_H

#include "../view/out.h"

int packed_write(struct out *out, const unsigned char *bytes, size_t size) __attribute__((warn_unused_result));

#endif
