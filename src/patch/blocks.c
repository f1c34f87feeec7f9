/*
 * Blocks and heads (blocks.h).  Context: control.
 */
#include <errno.h>
#include <sys/mman.h>

#include <arch.h>
#include <base/mem.h>
#include <base/sys.h>
#include <patch/blocks.h>

#define PAGE   4096ul
#define WINDOW 8192u /* bytes of text that are restored at a time */

int patch_blocks_map(struct patch_region *out, uint64_t address, const uint8_t *code, size_t size)
{
	size_t room = (size + PAGE - 1) & ~(PAGE - 1);
	void *made = sys_mmap((void *)address, room, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	long ret;

	*out = (struct patch_region){0};
	if (sys_failed((long)made))
		return (int)(long)made;
	if (made != (void *)address) { /* a kernel that does not know MAP_FIXED_NOREPLACE */
		sys_munmap(made, room);
		return -EEXIST;
	}
	memcpy(made, code, size);
	memcpy(made, arch_entry_table, sizeof(arch_entry_table[0]));
	arch_text_written(address, size);
	ret = SYS(mprotect, made, room, PROT_READ | PROT_EXEC, 0, 0, 0);
	if (sys_failed(ret)) {
		sys_munmap(made, room);
		return (int)ret;
	}
	*out = (struct patch_region){.lo = address, .hi = address + size};
	return 0;
}

void patch_blocks_unmap(const struct patch_region *blocks)
{
	sys_munmap((void *)blocks->lo, (blocks->hi - blocks->lo + PAGE - 1) & ~(PAGE - 1));
}

int patch_heads_lead(struct patch_result *result, struct patch_poker *poker, const struct patch_region *blocks,
		     const struct calltap_site *heads, uint32_t count, const struct patch_skips *skips)
{
	*result = (struct patch_result){.region = *blocks};
	return patch_sites_apply(result, poker, heads, count, skips);
}

/*
 * Put a head's own bytes at *at where a jump's are.  All threads are stopped, and none has another tracer: so a first
 * byte that is neither is a uprobe's breakpoint.  That stays, and has the file's byte put back some time; the bytes
 * behind it must be the file's, too, by then, and are for the kernel's single step.  Where the uprobe has gone, the
 * file's byte is there already, before the bytes of a jump.  True: the bytes have changed.
 */
static bool put_own(uint8_t *at, const struct patch_piece *piece)
{
	uint8_t code[PATCH_HEAD_MAX];
	bool differs = false;

	patch_head_make(code, piece);
	for (uint8_t i = 0; i < piece->length; i++) {
		if (at[i] != piece->old[i] && at[i] != code[i] && i)
			return false;
		differs |= at[i] != piece->old[i] && (i || at[i] == code[i]);
	}
	if (!differs || !arch_lead_is_one(piece->length)) /* else a thread may be within the jump */
		return false;
	if (at[0] == code[0])
		at[0] = piece->old[0];
	memcpy(at + 1, piece->old + 1, piece->length - 1u);
	return true;
}

static bool is_own(const uint8_t *at, const struct patch_piece *piece)
{
	return !memcmp(at, piece->old, piece->length);
}

/* True: the head has its own bytes. */
static bool restore_one(struct patch_poker *poker, const struct patch_region *blocks, const struct calltap_site *head)
{
	struct patch_piece piece = patch_site_piece(blocks, head);
	uint8_t now[PATCH_HEAD_MAX];

	if (SYS(pread64, poker->mem_fd, now, piece.length, piece.address, 0, 0) != (long)piece.length)
		return false;
	return (!put_own(now, &piece) || !patch_poke(poker, piece.address, now, piece.length)) && is_own(now, &piece);
}

/* How many bytes differ. */
static unsigned differing(const uint8_t *a, const uint8_t *b, size_t size)
{
	unsigned count = 0;

	for (size_t i = 0; i < size; i++)
		count += a[i] != b[i];
	return count;
}

/*
 * True if a head without its own bytes may lead to its block now, or later.  Where a breakpoint has taken one byte,
 * whoever set it will put that byte back: the others tell whose head it is.  A breakpoint that was there before, so
 * that the head was never led, leaves the file's.  A head that was unmapped with its object leads nowhere; a thread
 * that unloads an object may have been stopped between that and the object's end in the loader's list.
 */
static bool is_leading(const struct patch_poker *poker, const struct patch_region *blocks,
		       const struct calltap_site *head)
{
	struct patch_piece piece = patch_site_piece(blocks, head);
	uint8_t code[PATCH_HEAD_MAX], now[PATCH_HEAD_MAX];
	long got = SYS(pread64, poker->mem_fd, now, piece.length, piece.address, 0, 0);

	if (got != (long)piece.length)
		return got != -EIO;
	patch_head_make(code, &piece);
	return differing(now, piece.old, piece.length) > 1 || differing(now, code, piece.length) <= 1;
}

/* How many heads from the first on lie in one window of text: they are read and written together. */
static uint32_t heads_in_window(const struct calltap_site *heads, uint32_t count)
{
	uint32_t n = 1;

	while (n < count && heads[n].address > heads[n - 1].address &&
	       heads[n].address + heads[n].length - heads[0].address <= WINDOW)
		n++;
	return n;
}

/* Restore the heads of a window with one write.  Returns how many have their own bytes now. */
static uint32_t restore_window(struct patch_poker *poker, const struct patch_region *blocks,
			       const struct calltap_site *heads, uint32_t count)
{
	uint64_t lo = heads[0].address;
	size_t size = heads[count - 1].address + heads[count - 1].length - lo;
	uint8_t text[WINDOW];
	bool changed = false;
	uint32_t own = 0;

	if (count > 1 && SYS(pread64, poker->mem_fd, text, size, lo, 0, 0) == (long)size) {
		for (uint32_t i = 0; i < count; i++) {
			struct patch_piece piece = patch_site_piece(blocks, &heads[i]);
			uint8_t *at = text + (piece.address - lo);

			changed |= put_own(at, &piece);
			own += is_own(at, &piece);
		}
		if (!changed || !patch_poke(poker, lo, text, size))
			return own;
	}
	own = 0;
	for (uint32_t i = 0; i < count; i++)
		own += restore_one(poker, blocks, &heads[i]);
	return own;
}

void patch_heads_restore(struct patch_restored *out, struct patch_poker *poker, const struct patch_region *blocks,
			 const struct calltap_site *heads, uint32_t count)
{
	*out = (struct patch_restored){0};
	for (uint32_t i = 0, n; i < count; i += n) {
		n = heads_in_window(heads + i, count - i);
		out->restored += restore_window(poker, blocks, heads + i, n);
	}
	out->left = count - out->restored;
	for (uint32_t i = 0; i < count && out->left; i++)
		out->leading += is_leading(poker, blocks, &heads[i]);
	if (patch_sync())
		return; /* where the kernel cannot, stopping the threads has done as much */
}
