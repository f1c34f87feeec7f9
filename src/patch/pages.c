/*
 * Giving copies of text pages back (pages.h).  Why no thread trips over it:
 * doc/design/patching.md.
 *
 * Called by the agent room's control thread.  Context: control.
 */
#include <fcntl.h>
#include <sys/mman.h>

#include <arch.h>
#include <base/mem.h>
#include <base/sys.h>
#include <patch/pages.h>

#define PAGE	  4096ul
#define LANES	  4
#define MULTIPLY  0x9e3779b97f4a7c15u
#define PRESENT	  ((uint64_t)1 << 63) /* in an entry of /proc/PID/pagemap */
#define SWAPPED	  ((uint64_t)1 << 62)
#define FILE_PAGE ((uint64_t)1 << 61)
#define FETCH	  16 /* a core fetches its instructions in aligned blocks of no fewer bytes */

static uint64_t page_of(uint64_t address)
{
	return address & ~(PAGE - 1);
}

static uint64_t digest_of(const void *page)
{
	const uint64_t *words = page;
	uint64_t lanes[LANES] = {1, 2, 3, 4}, digest = 0;

	for (size_t i = 0; i < PAGE / sizeof(*words); i += LANES)
		for (size_t k = 0; k < LANES; k++)
			lanes[k] = (lanes[k] ^ words[i + k]) * MULTIPLY;
	for (size_t k = 0; k < LANES; k++)
		digest = (digest ^ lanes[k] >> 32 ^ lanes[k]) * MULTIPLY;
	return digest;
}

static int open_own(const char *path)
{
	long fd = SYS(openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0, 0, 0);

	return sys_failed(fd) ? -1 : (int)fd;
}

/* True if the page is still the file's own: neither the loader's relocations nor a debugger have made a copy. */
static bool is_files_own(int pagemap, uint64_t page)
{
	uint64_t entry = 0;

	if (SYS(pread64, pagemap, &entry, sizeof(entry), page / PAGE * sizeof(entry), 0, 0) != sizeof(entry))
		return false;
	return !(entry & SWAPPED) && (!(entry & PRESENT) || entry & FILE_PAGE);
}

/*
 * How patch_pages_note() reads pages: directly if the object stays (fresh), else through mem_fd, which fails where a
 * load would fault.
 */
struct reading {
	int pagemap, mem_fd;
	bool fresh;
	uint64_t last;
};

static void note(struct patch_pages *pages, struct reading *reading, uint64_t address)
{
	uint64_t page = page_of(address), digest;
	uint64_t copy[PAGE / sizeof(uint64_t)];
	bool fresh = reading->fresh;

	if (page == reading->last)
		return;
	reading->last = page;
	if (!fresh && SYS(pread64, reading->mem_fd, copy, PAGE, page, 0, 0) != PAGE)
		return;
	digest = digest_of(fresh ? (const void *)page : copy); /* reading also makes the page present */
	if (is_files_own(reading->pagemap, page))
		pages->list[pages->count++] = (struct patch_page){page, digest};
}

void patch_pages_note(struct patch_pages *pages, const struct patch_poker *poker, const struct calltap_site *sites,
		      uint32_t count, bool fresh)
{
	size_t room = 3 * (size_t)count * sizeof(*pages->list); /* at most three pages a site */
	struct reading reading = {
		.pagemap = open_own("/proc/thread-self/pagemap"), .mem_fd = poker->mem_fd, .fresh = fresh};
	void *list;

	*pages = (struct patch_pages){0};
	if (reading.pagemap < 0)
		return;
	list = sys_mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!sys_failed((long)list))
		*pages = (struct patch_pages){.list = list, .room = room};
	for (uint32_t i = 0; i < count && pages->room; i++) {
		if (arch_site_is_short(sites[i].length))
			note(pages, &reading, sites[i].address + (uint64_t)(int64_t)sites[i].tramp_off);
		note(pages, &reading, sites[i].address);
		note(pages, &reading, sites[i].address + sites[i].length - 1);
	}
	sys_close(reading.pagemap);
}

/* Reads /proc/self/maps a line at a time. */
struct maps {
	int fd;
	size_t at, size;
	char text[1024];
	uint64_t lo, hi;
	bool is_copied; /* the line is a private mapping of a file */
};

static int next_char(struct maps *maps)
{
	if (maps->at == maps->size) {
		long got = SYS(read, maps->fd, maps->text, sizeof(maps->text), 0, 0, 0);

		if (sys_failed(got) || !got)
			return -1;
		maps->size = (size_t)got;
		maps->at = 0;
	}
	return (unsigned char)maps->text[maps->at++];
}

/* A hexadecimal number and the character behind it. */
static uint64_t next_number(struct maps *maps)
{
	uint64_t value = 0;
	int c;

	while ((c = next_char(maps)) > ' ' && c != '-' && c != ':')
		value = value << 4 | (uint64_t)((c | ' ') - (c <= '9' ? '0' | ' ' : 'a' - 10));
	return value;
}

/* LO-HI PERMISSIONS OFFSET MAJOR:MINOR INODE PATH */
static bool next_line(struct maps *maps)
{
	int c, before = 0;

	maps->lo = next_number(maps);
	maps->hi = next_number(maps);
	while ((c = next_char(maps)) > ' ')
		before = c;
	next_number(maps);
	next_number(maps);
	next_number(maps);
	maps->is_copied = before == 'p' && next_number(maps) != 0; /* the inode is decimal; only 0 is 0 */
	while (c >= 0 && c != '\n')
		c = next_char(maps);
	return maps->hi != 0;
}

/* True if the page is in a private mapping of a file.  Callers ask in the order of the addresses. */
static bool is_copied(struct maps *maps, uint64_t page)
{
	while (maps->hi <= page)
		if (!next_line(maps))
			return false;
	return page >= maps->lo && maps->is_copied;
}

/*
 * The inert bytes at some sites' starts come back only with the page, all at once.  In the copy that is compared they
 * get their own values; but only where one aligned block of a core's fetch holds them, so that no core can have fetched
 * a part of them before the page changed and a part after.
 */
static void put_starts(uint8_t *copy, uint64_t page, const struct patch_region *region, const struct calltap_site *site)
{
	uint64_t offset = site->address - page;
	uint8_t code[ARCH_SITE_MAX], inert;

	if (offset >= PAGE)
		return;
	inert = patch_site_inert(code, region, site);
	if (offset / FETCH == (offset + inert - 1) / FETCH && inert && !memcmp(copy + offset, code, inert))
		memcpy(copy + offset, site->old, inert);
}

void patch_pages_give_back(const struct patch_pages *pages, const struct patch_poker *poker,
			   const struct patch_region *region, const struct calltap_site *sites, uint32_t count)
{
	struct maps maps = {.fd = open_own("/proc/self/maps")};
	uint32_t first = 0;
	_Alignas(8) uint8_t copy[PAGE] = {0};

	for (uint32_t i = 0; maps.fd >= 0 && i < pages->count; i++) {
		uint64_t page = pages->list[i].address;

		if (!is_copied(&maps, page) || SYS(pread64, poker->mem_fd, copy, PAGE, page, 0, 0) != PAGE)
			continue;
		while (first < count && sites[first].address < page)
			first++;
		for (uint32_t k = first; k < count && sites[k].address < page + PAGE; k++)
			put_starts(copy, page, region, &sites[k]);
		/* For locked memory madvise() fails with -EINVAL: the copy stays. */
		if (digest_of(copy) == pages->list[i].digest)
			SYS(madvise, page, PAGE, MADV_DONTNEED, 0, 0, 0);
	}
	if (maps.fd >= 0)
		sys_close(maps.fd);
}
