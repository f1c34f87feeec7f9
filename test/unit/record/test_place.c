/*
 * Where blocks are placed: within reach, in nobody's memory, and clear of what comes next to an object by itself, the
 * stubs of blocks that were sent and what the kernel maps.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <unistd.h>

#include <host/space.h>
#include <host/target/target.h>

#define PAGE 4096ull
#define LIBS 0x7f0000000000ull /* where the lowest library lies, below a wide gap */
#define SIZE (100 * PAGE + 1)  /* of blocks */
#define STUB (50 * PAGE + 1)   /* of their stubs */

static struct object *object;
static struct image image;
static struct target_map maps[3];
static struct target target = {.maps = maps};

static int begin(void **state)
{
	struct calltap_diag diag;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	if (object_open(&object, fd, "self", &diag))
		return -1;
	close(fd);
	image = (struct image){.object = object, .layout = {.size = SIZE}, .variants = {{.stub_bytes = STUB}}};
	return 0;
}

static int end(void **state)
{
	object_close(object);
	return 0;
}

static void clear(uint64_t base)
{
	for (size_t i = 0; i < 3; i++)
		maps[i] = (struct target_map){.base = base, .image = &image};
	target.map_count = 3;
}

static struct space space_of(const char *text)
{
	struct space space;

	assert_int_equal(space_parse(&space, strdup(text), strlen(text) + 1), 0);
	return space;
}

static bool overlaps(uint64_t lo, uint64_t hi, uint64_t other_lo, uint64_t other_hi)
{
	return lo < other_hi && other_lo < hi;
}

/* Libraries as the loader maps them, and the heap far below. */
static void wide_gap(void **state)
{
	struct space space = space_of("550000000000-550000100000 rw-p 00000000 00:00 0 [heap]\n"
				      "7f0000000000-7f0000200000 r-xp 00000000 00:00 0 /lib/one.so\n"
				      "7f0000210000-7f0000400000 r-xp 00000000 00:00 0 /lib/two.so\n"
				      "7ffff0000000-7ffff0100000 rw-p 00000000 00:00 0 [stack]\n");
	uint64_t reach = object_reach(object), place;

	clear(LIBS);
	for (size_t i = 0; i < 3; i++) {
		place = place_blocks_near(&target, &maps[i], &space);
		assert_true(place && place % PAGE == 0);
		assert_true(place + SIZE <= LIBS - reach / 32); /* the kernel's, from the top of the gap down */
		assert_true(LIBS - place < reach / 2);
		for (size_t k = 0; k < i; k++) /* stubs end a page below their blocks */
			assert_false(
				overlaps(place, place + SIZE, maps[k].blocks - PAGE - STUB, maps[k].blocks + SIZE));
		maps[i].blocks = place;
	}
	/* Something had come there all the same. */
	maps[2].moves = 1;
	assert_true(place_blocks_near(&target, &maps[2], &space) + SIZE < place);
	space_free(&space);
}

/* Memory is full but for a gap that is no wider than what is needed. */
static void narrow_gap(void **state)
{
	struct space space = space_of("10000-7eff00000000 rw-p 00000000 00:00 0\n"
				      "7eff00100000-7f0000400000 r-xp 00000000 00:00 0 /lib/one.so\n"
				      "7f0000400000-7ffff0100000 rw-p 00000000 00:00 0 [stack]\n");
	uint64_t place;

	clear(0x7eff40000000ull);
	place = place_blocks_near(&target, &maps[0], &space);
	if (object_reach(object) < 1ull << 31) { /* the gap is out of this CPU's reach */
		assert_false(place);
	} else {
		assert_true(place >= 0x7eff00000000ull && place + SIZE <= 0x7eff00100000ull);
		maps[0].blocks = place;
		place = place_blocks_near(&target, &maps[1], &space);
		assert_false(overlaps(place, place + SIZE, maps[0].blocks, maps[0].blocks + SIZE));
		maps[1].blocks = 0x7eff00000000ull; /* all of it is taken */
		image.layout.size = 0x100000;
		assert_false(place_blocks_near(&target, &maps[2], &space));
		image.layout.size = SIZE;
	}
	space_free(&space);
}

/* Of a program at a low address, whose heap may begin up to a gigabyte above it, blocks lie where they always did. */
static void low_program(void **state)
{
	struct space space = space_of("400000-500000 r-xp 00000000 00:00 0 /bin/low\n"
				      "20000000-20100000 rw-p 00000000 00:00 0 [heap]\n"
				      "7f0000000000-7f0000200000 r-xp 00000000 00:00 0 /lib/one.so\n");
	uint64_t lo, hi, place;

	object_extent(object, &lo, &hi);
	clear(0x400000 - lo);
	place = place_blocks_near(&target, &maps[0], &space);
	if (object_reach(object) >= 1ull << 31)
		assert_true(place + SIZE <= 0x60000000 && 0x60000000 - place < SIZE + PAGE);
	space_free(&space);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wide_gap),
		cmocka_unit_test(narrow_gap),
		cmocka_unit_test(low_program),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
