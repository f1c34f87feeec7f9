/*
 * The results of stock_find() and stock_find_needs() for large objects, kept in files from run to run
 * (doc/design/stock.md, "What is kept").
 *
 * Caller: stock.c.  Context: host.
 */
#ifndef HOST_ELF_STOCK_CACHE_H
#define HOST_ELF_STOCK_CACHE_H

#include "host/stock/stock.h"

/*
 * stock_find() and stock_find_needs(), or what they said of the same image before.  `id` is the object's build id,
 * which names the file; without one the image does.  That a file cannot be used or written is no error.
 */
int stock_cache_find(struct stock_list *out, const struct stock_image *image, const uint8_t *id, size_t id_size)
	__attribute__((warn_unused_result));

#endif
