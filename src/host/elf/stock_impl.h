/*
 * The view of an object that the analysis of stock functions reads, shared by the files that make it.  Context: host.
 */
#ifndef HOST_ELF_STOCK_IMPL_H
#define HOST_ELF_STOCK_IMPL_H

#include "host/stock/stock.h"
#include "object_impl.h"

struct object_view {
	struct stock_image image; /* its arrays are those below */
	struct stock_section *sections;
	struct stock_symbol *symbols;
	struct address_list pointed, relocated, keepers;
	/* Why no function of it may be traced as it is, and no call of another object's: a part of a sentence, or NULL.
	 */
	const char *refusal;
	bool own;    /* the tracer's own library */
	bool walked; /* its language's runtime looks for return addresses of all its functions */
	bool named;  /* the same of some, which are known by their names (verdicts.c) */
};

/* Read the relocations: what they lead to, the code that they change, and pointers to functions that keep returns. */
int object_view_relocs(const struct object *object, struct object_view *view) __attribute__((warn_unused_result));

#endif
