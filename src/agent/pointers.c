/*
 * Words and symbols that lead the program's objects to the functions that the
 * agent stands in front of, where the loader did not (abi/control.h,
 * POINTERS).
 *
 * A word is written while all threads are stopped, a symbol while the thread
 * that loads its object is held; both get their old value back while all are
 * stopped.  Until then a word that leads to an idle agent does no harm: its
 * functions pass on to libc's.  Called by the control thread.  Context:
 * control.
 */
#include <errno.h>

#include <agent/agent.h>
#include <agent/libc.h>
#include <base/mem.h>
#include <base/sys.h>

#define POINTERS_MAX (1u << 20)

/* Write through the kernel: the page may be read-only, or gone. */
static int write_back(uint64_t address, const void *bytes, size_t size)
{
	if (agent.poker.mem_fd >= 0)
		return patch_poke(&agent.poker, address, bytes, size);
	return sys_copy_out(address, bytes, size) ? 0 : -EFAULT;
}

static bool write_word(struct agent_pointer *pointer)
{
	const struct agent_front *function = &agent.fronts[pointer->to];
	uint64_t now;

	/* Without a function behind it, the agent's would lead nowhere. */
	if (!function->next || !sys_copy_in(&now, pointer->address, sizeof(now)))
		return false;
	if (now == function->ours) /* from an earlier session, or the loader's own doing */
		return true;
	pointer->old[0] = now;
	return !write_back(pointer->address, &function->ours, sizeof(function->ours));
}

/*
 * The loader takes the value of a symbol that cannot be another object's, less
 * the base that it adds.  A symbol that the object defines is left alone.
 */
static bool write_symbol(struct agent_pointer *pointer, uint64_t base)
{
	const struct agent_front *function = &agent.fronts[pointer->to];
	ElfW(Sym) symbol;

	_Static_assert(sizeof(symbol) == sizeof(pointer->old), "ELF64");
	if (!function->next || !sys_copy_in(&symbol, pointer->address, sizeof(symbol)) || symbol.st_shndx != SHN_UNDEF)
		return false;
	memcpy(pointer->old, &symbol, sizeof(symbol));
	symbol.st_value = function->ours - base;
	symbol.st_other = STV_HIDDEN;
	return !write_back(pointer->address, &symbol, sizeof(symbol));
}

static bool is_sane(const struct calltap_pointer *asked, uint32_t flags)
{
	if (asked->to >= CALLTAP_POINTERS_TO || asked->address % sizeof(uint64_t) ||
	    asked->address >> ARCH_ADDRESS_BITS || !agent_can_read(asked->address))
		return false;
	return asked->kind == CALLTAP_POINTER_WORD ||
	       (asked->kind == CALLTAP_POINTER_SYMBOL && flags & CALLTAP_POINTERS_FRESH);
}

/* The pointer that is known for that place: an object may be loaded again where it was. */
static struct agent_pointer *find(uint64_t address)
{
	struct agent_pointer *list = agent.pointers.list;

	for (size_t i = 0; i < agent.pointers.count; i++)
		if (list[i].address == address)
			return &list[i];
	return NULL;
}

static int take(const struct calltap_pointer *asked, const struct calltap_msg_pointers *message)
{
	bool fresh = message->flags & CALLTAP_POINTERS_FRESH;
	struct agent_pointer made = {
		.address = asked->address,
		.identity = message->identity,
		.to = asked->to,
		.kind = (uint16_t)asked->kind,
	};
	struct agent_pointer *known = find(asked->address);

	if (known && known->led && known->identity == made.identity && !fresh)
		return 0;
	/* musl's loader tells of an object when it has bound it, and not before. */
	if (agent.musl && made.kind == CALLTAP_POINTER_SYMBOL)
		return 0;
	if (agent.musl && fresh)
		made.led = write_word(&made);
	else if (made.kind == CALLTAP_POINTER_SYMBOL)
		made.led = write_symbol(&made, message->base);
	else
		made.led = fresh; /* the loader leads it there, for it finds the agent's symbol */
	if (known) {
		*known = made;
		return 0;
	}
	agent.pointers.size = sizeof(made);
	return agent.pointers.count < POINTERS_MAX ? agent_store_add(&agent.pointers, &made, 1) : -ENOSPC;
}

int agent_pointers_take(const struct calltap_msg_pointers *message)
{
	int ret = 0;

	if (message->flags & CALLTAP_POINTERS_FRESH)
		agent_unwinder_look(); /* the unwinder may have come with this object */
	for (uint32_t i = 0; i < message->count && !ret; i++)
		if (is_sane(&message->pointers[i], message->flags))
			ret = take(&message->pointers[i], message);
	return ret;
}

uint32_t agent_pointers_write(const struct agent_store *maps)
{
	struct agent_pointer *list = agent.pointers.list;
	bool there = false;
	uint32_t led = 0;

	for (size_t i = 0; i < agent.pointers.count; i++) {
		/* Where an object has gone, somebody else's memory may be now.  An object's pointers come together. */
		if (!i || list[i].identity != list[i - 1].identity)
			there = agent_objects_have(maps, list[i].identity);
		if (!list[i].led && there)
			list[i].led = write_word(&list[i]);
		led += list[i].led;
	}
	return led;
}

static bool restore(const struct agent_pointer *pointer)
{
	const struct agent_front *function = &agent.fronts[pointer->to];
	uint64_t now[3], old = pointer->old[0] ? pointer->old[0] : function->next;

	if (pointer->kind == CALLTAP_POINTER_SYMBOL) {
		if (!sys_copy_in(now, pointer->address, sizeof(now)) ||
		    ((const ElfW(Sym) *)now)->st_other != STV_HIDDEN)
			return false;
		return !write_back(pointer->address, pointer->old, sizeof(pointer->old));
	}
	if (!sys_copy_in(now, pointer->address, sizeof(now[0])) || now[0] != function->ours)
		return false;
	return !write_back(pointer->address, &old, sizeof(old));
}

uint32_t agent_pointers_restore(void)
{
	const struct agent_pointer *list = agent.pointers.list;
	uint32_t restored = 0;

	for (size_t i = agent.pointers.count; i-- > 0;)
		restored += list[i].led && restore(&list[i]);
	agent_store_empty(&agent.pointers);
	return restored;
}
