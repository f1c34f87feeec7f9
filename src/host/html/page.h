/*
 * The page around the data, which scripts/embed.py makes of page.html, page.css and the scripts beside them.
 *
 * Caller: write.c.  Context: host.
 */
#ifndef HOST_HTML_PAGE_H
#define HOST_HTML_PAGE_H

#include <stddef.h>

extern const char html_page_head[]; /* up to the data */
extern const size_t html_page_head_size;
extern const char html_page_tail[]; /* from the end of the data on */
extern const size_t html_page_tail_size;

#endif
