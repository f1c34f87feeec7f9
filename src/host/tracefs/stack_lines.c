/*
 * Stacks below the lines of calls, as the kernel prints them: by names, or by the files that are mapped in the process
 * (tree.h).
 *
 * As in the kernel, files are looked up when the line is printed: of a process that has ended there are none.
 * Context: host.
 */
#include <string.h>

#include <host/now.h>
#include <host/proc.h>

#include "tree.h"

#define MAPPED_NS 100000000u /* the mappings are read anew when they are older */

/* The file that is mapped there in the process of the slot, or the number alone. */
static void put_user_place(struct tree_instance *instance, uint32_t slot, uint64_t address, struct tree_text *out)
{
	struct tree *tree = instance->tree;
	uint32_t pid = tree->slots[slot].pid;
	const struct map *map = NULL;

	if (options_has(instance, OPTION_SYM_USEROBJ) && pid) {
		if (tree->mapped.pid != pid || now_ns() - tree->mapped.read_ns > MAPPED_NS) {
			space_free(&tree->mapped.space);
			if (space_read(&tree->mapped.space, proc_alive((pid_t)pid)))
				tree->mapped.space = (struct space){0};
			tree->mapped.pid = pid;
			tree->mapped.read_ns = now_ns();
		}
		map = space_find(&tree->mapped.space, address);
	}
	map = map && map->path[0] == '/' ? map : NULL;
	if (map)
		tree_text_format(out, "%s[+0x%llx]", map->path, (unsigned long long)(address - map->lo));
	if (!map || options_has(instance, OPTION_SYM_ADDR))
		tree_text_format(out, " <%016llx>", (unsigned long long)address);
}

void lines_stack(struct tree_instance *instance, const struct tree_event *event, struct tree_text *out)
{
	bool user = event->kind == TREE_USER_STACK;

	tree_text_string(out, user ? "<user stack trace>" : "<stack trace>");
	for (uint64_t i = 0; i < event->extra; i++) {
		uint64_t address;

		memcpy(&address, event->text + i * sizeof(address), sizeof(address));
		tree_text_string(out, "\n => ");
		if (user)
			put_user_place(instance, event->slot, address, out);
		else
			lines_place(instance, event, address, out);
	}
}
