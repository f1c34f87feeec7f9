/*
 * Object files of a session (images.h).  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <host/brief/brief.h>
#include <host/hook/handlers.h>
#include <host/hook/watch.h>
#include <host/values/values.h>

#include "images.h"

/* With more kinds than these, all of an image's sites take the handlers' way: that is one kind for all choices. */
#define VARIANTS_OF_HANDLERS 12u

static void image_destroy(struct image *image)
{
	if (!image->base)
		object_close(image->object);
	free(image->taken);
	free(image->islands);
	if (image->fd >= 0)
		close(image->fd);
	free(image->path);
	for (uint32_t i = 0; i < image->variant_count; i++)
		free(image->variants[i].sites);
	free(image->sources);
	free(image->keepers);
	free(image->blocks);
	free(image->off);
	free(image->asked);
	free(image->touched);
	free(image->slots);
	free(image->roles);
	free(image->who);
	free(image);
}

void images_destroy(struct images *images)
{
	while (images->first) {
		struct image *image = images->first;

		images->first = image->next;
		image_destroy(image);
	}
}

static struct image *find_image(struct images *images, const struct stat *st)
{
	for (struct image *image = images->first; image; image = image->next)
		if (!image->base && image->dev == st->st_dev && image->ino == st->st_ino &&
		    image->mtime.tv_sec == st->st_mtim.tv_sec && image->mtime.tv_nsec == st->st_mtim.tv_nsec)
			return image;
	return NULL;
}

struct image *images_of(const struct images *images, uint32_t id, uint32_t *site)
{
	for (struct image *image = images->first; image; image = image->next)
		if (id - image->first_id < image->site_count) {
			*site = id - image->first_id;
			return image;
		}
	return NULL;
}

/* True if a filter, of the session's or another instance's, names the object, or the file that is none yet. */
static bool names_object(const struct images *images, const struct object *object)
{
	return (images->filters && filter_set_names_object(images->filters, object)) ||
	       (images->asked && filter_set_names_object(images->asked, object)) ||
	       handlers_name_object(images->handlers, object);
}

static bool names_file(const struct images *images, const char *path, int fd)
{
	return (images->filters && filter_set_names_file(images->filters, path, fd)) ||
	       (images->asked && filter_set_names_file(images->asked, path, fd)) ||
	       handlers_name_file(images->handlers, path, fd);
}

/* Without compiled sites: own objects, or what a filter names by its object, may be traced as they are. */
static bool may_be_stock(const struct images *images, const char *path, int fd)
{
	return (images->stock != STOCK_NEVER || images->libcalls == LIBCALLS_ALWAYS) &&
	       (object_is_program_file(fd) || stock_is_own_library(path) || names_file(images, path, fd));
}

static int find_led(const struct images *images, struct object *object)
{
	bool stock = images->stock == STOCK_ALWAYS || (images->stock == STOCK_AUTO && !object_traceable(object));
	bool own = object_is_own(object), calls;
	int error = stock ? object_find_stock(object) : 0;

	/* An object of whose functions none can be traced is for the message that says so. */
	calls = images->libcalls == LIBCALLS_AUTO && stock && own && object_traceable(object);
	if (images->libcalls == LIBCALLS_ALWAYS)
		calls = own || names_object(images, object);
	return !error && calls ? object_find_libcalls(object) : error;
}

/* A file that cannot be read as an object is remembered as one without sites. */
static void look_at(struct images *images, struct image *image, int fd)
{
	if (object_open(&image->object, fd, image->path, NULL))
		image->object = NULL;
	if (image->object && ((images->machine && object_machine(image->object) != images->machine) ||
			      find_led(images, image->object) || keepers_note(image))) {
		object_close(image->object);
		image->object = NULL;
	}
	/* When its source lines are wanted, its name may be another file's; without a descriptor there are none. */
	if (image->object)
		image->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

int images_get(struct image **out, struct images *images, int fd, const char *path, bool library)
{
	struct image *image;
	struct stat st;

	*out = NULL;
	if (fstat(fd, &st))
		return -errno;
	image = find_image(images, &st);
	if (image) {
		*out = image;
		return 0;
	}
	image = calloc(1, sizeof(*image));
	if (!image)
		return -ENOMEM;
	image->path = strdup(path);
	image->dev = st.st_dev;
	image->ino = st.st_ino;
	image->mtime = st.st_mtim;
	image->fd = -1;
	image->index = images->count++;
	image->skipped = library && object_is_plain_library(fd) && !may_be_stock(images, path, fd);
	if (image->path && !image->skipped)
		look_at(images, image, fd);
	image->named = !image->object && values_tell(images->values) && object_identify(&image->identity, fd);
	image->next = images->first;
	images->first = image;
	*out = image;
	return image->path ? 0 : -ENOMEM;
}

/* The decision on a function, by all that was asked for. */
struct verdict {
	bool wanted; /* filters, triggers or handlers name it */
	bool on;
	uint16_t flags;
	uint64_t who; /* of its row: 0 = its stub does not look at it */
	struct values_choice values;
};

/* Flags of stubs that lead to the handlers; what else such a site is to do its row says. */
static uint16_t dispatch_flags(const struct images *images)
{
	bool recorded = images->tracer->has_exit && (images->tracing || watch_of(images->watch, 0));
	bool exits = recorded || !handlers_any(images->handlers) || handlers_any_exit(images->handlers);

	return CALLTAP_SITE_HANDLED | (exits ? 0 : CALLTAP_SITE_CALL);
}

/* Likewise where calls of the tracer function tell what they are made with, and nothing waits for their returns. */
static uint16_t call_flags(const struct images *images, uint64_t slots)
{
	bool exits = images->tracer->has_exit || slots ||
		     (handlers_any(images->handlers) && handlers_any_exit(images->handlers)) ||
		     watch_of(images->watch, 0);

	return dispatch_flags(images) | (exits ? 0 : CALLTAP_SITE_CALL);
}

static uint32_t record_bits(uint16_t flags)
{
	static const struct {
		uint16_t flag;
		uint32_t bit;
	} bits[] = {
		{CALLTAP_SITE_FULL_ENTRY, CALLTAP_HANDLED_FULL_ENTRY},
		{CALLTAP_SITE_FULL_EXIT, CALLTAP_HANDLED_FULL_EXIT},
		{CALLTAP_SITE_ROOT, CALLTAP_HANDLED_ROOT},
		{CALLTAP_SITE_NOTREE, CALLTAP_HANDLED_NOTREE},
	};
	uint32_t who = CALLTAP_HANDLED_RECORD;

	if (flags & CALLTAP_SITE_CALL)
		return CALLTAP_HANDLED_CALL;
	for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
		who |= flags & bits[i].flag ? bits[i].bit : 0;
	return who;
}

/* Is it as large as was asked for?  The size of a PLT entry says nothing of the function that it calls. */
static bool has_size(const struct images *images, const struct object_site *source)
{
	return source->kind == SITE_LIBCALL || !source->size || source->size >= images->size_min;
}

static void ask(struct filter_decision *decision, struct filter_set *filters, const struct image *image,
		const struct object_site *source)
{
	*decision = (struct filter_decision){0};
	if (!site_has_block(source) || object_is_own(image->object) || filter_set_names_object(filters, image->object))
		filter_set_decide(filters, image->object, source, decision);
}

struct filter_decision images_ask(struct filter_set *filters, const struct image *image,
				  const struct object_site *source)
{
	struct filter_decision decision;

	ask(&decision, filters, image, source);
	return decision;
}

/* Answers of the session's filters about an object's sites; a site is asked about when somebody needs its answer. */
struct image_asked {
	uint64_t key; /* of the filters */
	const struct object_site *sites;
	size_t count;
	uint8_t answers[]; /* bits of enum answer; 0 = not asked yet */
};

enum answer { ANSWER_KNOWN = 1, ANSWER_TRACE = 2, ANSWER_ROOT = 4, ANSWER_NOTREE = 8, ANSWER_SMALL = 16, ANSWERS = 32 };

static int make_asked(struct image *image)
{
	const struct object_site *sites;
	size_t count = object_sites(image->object, &sites);

	image->asked = calloc(1, sizeof(*image->asked) + count);
	if (!image->asked)
		return -ENOMEM;
	image->asked->sites = sites;
	image->asked->count = count;
	return 0;
}

/* The answers of the filters as they are now; NULL = none are kept. */
static struct image_asked *asked_of(const struct images *images, const struct image *image)
{
	struct image_asked *asked = image->base ? image->base->asked : image->asked;

	if (!asked)
		return NULL;
	if (asked->key != filter_set_key(images->filters))
		memset(asked->answers, 0, asked->count);
	asked->key = filter_set_key(images->filters);
	return asked;
}

static uint8_t ask_anew(const struct images *images, const struct image *image, const struct object_site *source)
{
	struct filter_decision decision;

	ask(&decision, images->filters, image, source);
	return (uint8_t)(ANSWER_KNOWN | (decision.trace ? ANSWER_TRACE : 0) | (decision.root ? ANSWER_ROOT : 0) |
			 (decision.notree ? ANSWER_NOTREE : 0) | (has_size(images, source) ? 0 : ANSWER_SMALL));
}

/* images_ask() of the session's filters, and is the function large enough?  A name is matched once, however often what
 * is wanted is judged. */
static inline uint8_t answer_on(const struct images *images, const struct image *image, struct image_asked *asked,
				const struct object_site *source)
{
	uint8_t *answer = &asked->answers[source - asked->sites];

	if (!*answer)
		*answer = ask_anew(images, image, source);
	return *answer;
}

static struct filter_decision decision_of(uint8_t answer)
{
	return (struct filter_decision){.trace = (answer & (ANSWER_TRACE | ANSWER_SMALL)) == ANSWER_TRACE,
					.root = answer & ANSWER_ROOT,
					.notree = answer & ANSWER_NOTREE};
}

/* Where there may be brief records, others are made in C: the fast recorders know nothing of halves of words. */
static uint16_t among_brief(const struct images *images)
{
	return images->brief ? CALLTAP_SITE_FULL_ENTRY | CALLTAP_SITE_FULL_EXIT : 0;
}

/*
 * A function may be brief if nothing needs the times of each call, or does more than record it.  Of tracer profile all
 * have the tick for their clock, and none may be without the file.
 */
static uint16_t stub_flags(const struct images *images, uint16_t flags, uint32_t id)
{
	if (!images->brief || flags & CALLTAP_SITE_HANDLED)
		return flags;
	if (flags & CALLTAP_SITE_PROFILE && id < CALLTAP_TIMES_FUNCTIONS)
		return flags | CALLTAP_SITE_BRIEF;
	if (!(flags & ~(unsigned)CALLTAP_SITE_GATED) && id < CALLTAP_TIMES_FUNCTIONS)
		return flags | CALLTAP_SITE_BRIEF;
	return flags | among_brief(images);
}

/* CALLTAP_SITE_LEAF, if the stub does nothing but record brief calls, and the function is a leaf. */
static uint16_t leaf_flag(const struct image *image, const struct object_site *source, uint16_t flags)
{
	return flags == CALLTAP_SITE_BRIEF && object_site_is_leaf(image->object, source) ? CALLTAP_SITE_LEAF : 0;
}

/* The verdict on a function of which the session's filters decide so.  slots: those that want its calls. */
static struct verdict judge_by(const struct images *images, const struct image *image, const struct object_site *source,
			       uint64_t slots, struct filter_decision decision)
{
	struct verdict verdict = {0};
	uint16_t triggered = watch_flags(images->watch, image->object, source);
	bool waits = triggered && watch_waits(images->watch, 0, image->object, source, images->tracing);
	bool recorded, tells, any = handlers_any(images->handlers);

	decision.trace = decision.trace && images->tracer->patches;
	recorded = decision.trace && images->tracing;
	verdict.wanted = decision.trace || triggered || slots;
	verdict.on = recorded || waits || slots;
	verdict.flags = images->tracer->site_flags(&images->needs, decision.root, decision.notree) | triggered |
			(images->keeps_open ? CALLTAP_SITE_TIMED : 0);
	if (recorded || waits)
		verdict.values = values_choose(images->values, image, source);
	tells = verdict.values.entry || verdict.values.exit;
	if (slots || tells || (image->dispatched && any && (recorded || waits))) {
		verdict.who = slots | (recorded || waits ? record_bits(verdict.flags | among_brief(images)) : 0) |
			      (tells ? CALLTAP_HANDLED_VALUES : 0);
		verdict.flags = tells ? call_flags(images, slots) : dispatch_flags(images);
	} else if (!verdict.on && (images->serve || any)) {
		verdict.flags = dispatch_flags(images); /* a handler may come to it */
	}
	return verdict;
}

static struct verdict judge_site(const struct images *images, const struct image *image,
				 const struct object_site *source, uint64_t slots)
{
	struct image_asked *asked = asked_of(images, image);
	uint8_t answer = asked ? answer_on(images, image, asked, source) : ask_anew(images, image, source);

	return judge_by(images, image, source, slots, decision_of(answer));
}

static void want_site(struct images *images, struct image *image, const struct object_site *source,
		      const struct verdict *verdict, uint64_t slots)
{
	uint32_t at = image->site_count++;
	struct calltap_site *site = &image->sites[at];

	image->off[at] = !verdict->on;
	image->touched[at] = verdict->on;
	image->sources[at] = source;
	*site = (struct calltap_site){
		.address = source->address,
		.id = images->next_id,
		.flags = stub_flags(images, verdict->flags, images->next_id),
		.length = source->span,
		.body_off = source->body_off,
		.tramp_off = source->tramp_off,
	};
	site->flags |= leaf_flag(image, source, site->flags);
	memcpy(site->old, source->old, source->span);
	if (source->tramp_off)
		memcpy(site->old + source->span, source->tramp_old, sizeof(source->tramp_old));
	if (site->flags & CALLTAP_SITE_BRIEF)
		brief_begin(images->brief, site->id, source->kind == SITE_LIBCALL ? 0 : source->size, source->symbol);
	images->next_id++;
	watch_add_function(images->watch, site->id, image->object, source);
	if (!slots && !verdict->values.entry && !verdict->values.exit)
		return;
	values_write(images->values, site->id, verdict->values);
	if (image->slots)
		image->slots[at] = slots;
	handlers_write_roles(images, image, at);
	handlers_write(images->handlers, image, at, verdict->who);
}

/* The island that the site's head leads to, or has. */
static struct image_island island_of(const struct image *image, const struct object_site *source)
{
	const struct image_island *islands = image->base ? image->base->islands : image->islands;
	const struct object_site *sources;

	object_sites(image->object, &sources);
	return islands ? islands[source - sources] : (struct image_island){0};
}

/* Bytes of the site's head. */
static uint8_t span_of(const struct image *image, const struct object_site *source)
{
	return island_of(image, source).host.size ? source->host_span : source->span;
}

/* What its block takes. */
static struct stock_need need_of(const struct image *image, const struct object_site *source)
{
	struct image_island island = island_of(image, source);

	return island.host.size ? island.host : source->need;
}

/* Lay the blocks out: from then on their sites have places. */
static int place_blocks(struct image *image)
{
	const struct stock_image *view = object_stock(image->object);
	uint32_t count = image_block_sites(image);
	uint8_t site[16];
	int ret;

	if (!count)
		return 0;
	image->blocks = calloc(count, sizeof(*image->blocks));
	if (!image->blocks)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		const struct object_site *source = image->sources[image->block_first + i];

		image->blocks[i] = (struct stock_block){
			.head = source->address,
			.length = span_of(image, source),
			.need = need_of(image, source),
			.island = island_of(image, source).at,
		};
	}
	ret = stock_place(&image->layout, view, image->blocks, count);
	for (uint32_t i = 0; i < count && !ret; i++) {
		struct calltap_site *at = &image->sites[image->block_first + i];

		at->address = image->blocks[i].offset;
		at->length = stock_site(view, site);
		at->body_off = at->length;
		memcpy(at->old, site, sizeof(at->old));
	}
	return ret;
}

static int make_room(const struct images *images, struct image *image, size_t count)
{
	if (images->handlers && handlers_room(image, count))
		return -ENOMEM;
	image->sites = calloc(count ? count : 1, sizeof(*image->sites));
	image->sources = calloc(count ? count : 1, sizeof(*image->sources));
	image->off = calloc(count ? count : 1, sizeof(*image->off));
	image->touched = calloc(count ? count : 1, sizeof(*image->touched));
	image->variants[0].sites = image->sites;
	image->variant_count = 1;
	return image->sites && image->sources && image->off && image->touched ? 0 : -ENOMEM;
}

/*
 * True if the function is to be in the image.  One in a block is there only if it is wanted, or its head has the island
 * of one that is: else its head would be led for nothing.
 */
static bool is_to_be_in(const struct images *images, const struct image *image, const struct object_site *source,
			const struct verdict *verdict)
{
	struct image_island island;

	if (!site_has_block(source))
		return verdict->wanted || images->all;
	island = island_of(image, source);
	return (verdict->wanted || island.host.size) && (island.at || !islands_need(image->object, source)) &&
	       need_of(image, source).size;
}

/* Take the object's sites that are wanted, and not taken, into the image; those in blocks come last. */
static void take_sites(struct images *images, struct image *image, bool *taken)
{
	const struct object_site *sources;
	size_t count = object_sites(image->object, &sources);

	image->first_id = images->next_id;
	for (unsigned stock = 0; stock < 2; stock++) {
		if (stock)
			image->block_first = image->site_count;
		for (size_t i = 0; i < count; i++) {
			uint64_t slots;
			struct verdict verdict;

			if (taken[i] || sources[i].verdict != SITE_OK || site_has_block(&sources[i]) != stock)
				continue;
			slots = handlers_choose(images, image, &sources[i], images->next_id);
			verdict = judge_site(images, image, &sources[i], slots);
			taken[i] = is_to_be_in(images, image, &sources[i], &verdict);
			if (taken[i])
				want_site(images, image, &sources[i], &verdict, slots);
		}
	}
}

/* Choose islands for the object's sites that are wanted, and not taken. */
static int choose_islands(const struct images *images, struct image *image)
{
	const struct object_site *sources;
	size_t count = object_sites(image->object, &sources), needed = 0;
	bool *wanted;
	int ret;

	free(image->islands);
	image->islands = NULL;
	if (!stock_islands_of(object_machine(image->object)).jump)
		return 0;
	for (size_t i = 0; i < count; i++)
		needed += !image->taken[i] && islands_need(image->object, &sources[i]);
	wanted = needed ? calloc(count, sizeof(*wanted)) : NULL;
	if (!wanted)
		return needed ? -ENOMEM : 0;
	for (size_t i = 0; i < count; i++)
		if (!image->taken[i] && sources[i].verdict == SITE_OK && site_has_block(&sources[i]))
			wanted[i] = judge_site(images, image, &sources[i],
					       handlers_choose(images, image, &sources[i], images->next_id))
					    .wanted;
	ret = islands_choose(&image->islands, image, wanted);
	free(wanted);
	return ret;
}

static int lay_out(struct image *image)
{
	int ret = place_blocks(image);

	return ret ? ret
		   : layout_stubs(object_machine(image->object), image->sites, image->site_count,
				  &image->variants[0].stub_bytes);
}

int image_decide(struct images *images, struct image *image)
{
	const struct object_site *sources;
	size_t count;

	if (image->decided || !image->object)
		return 0;
	image->decided = true;
	keepers_refuse(images, image);
	copiers_refuse(images, image);
	count = object_sites(image->object, &sources);
	if (count > CALLTAP_RECORD_ID_MAX - images->next_id)
		return -EOVERFLOW;
	image->taken = calloc(count ? count : 1, sizeof(*image->taken));
	if (!image->taken || make_asked(image) || make_room(images, image, count) || choose_islands(images, image))
		return -ENOMEM;
	take_sites(images, image, image->taken);
	return lay_out(image);
}

/* How many of the object's sites are wanted and not taken. */
static size_t count_wanted(const struct images *images, const struct image *image)
{
	const struct object_site *sources;
	size_t count = object_sites(image->object, &sources), wanted = 0;

	for (size_t i = 0; i < count; i++) {
		struct verdict verdict;

		if (image->taken[i] || sources[i].verdict != SITE_OK)
			continue;
		verdict = judge_site(images, image, &sources[i],
				     handlers_choose(images, image, &sources[i], images->next_id));
		wanted += is_to_be_in(images, image, &sources[i], &verdict);
	}
	return wanted;
}

static int add_addition(struct images *images, struct image *image, size_t wanted)
{
	struct image *addition = calloc(1, sizeof(*addition));
	int ret = -ENOMEM;

	if (!addition)
		return ret;
	addition->base = image;
	addition->object = image->object;
	addition->index = image->index;
	addition->mtime = image->mtime;
	addition->fd = image->fd < 0 ? -1 : fcntl(image->fd, F_DUPFD_CLOEXEC, 0);
	addition->decided = true;
	addition->path = strdup(image->path);
	if (addition->path)
		ret = make_room(images, addition, wanted);
	if (ret) {
		image_destroy(addition);
		return ret;
	}
	addition->next = image->next;
	image->next = addition;
	take_sites(images, addition, image->taken);
	return lay_out(addition);
}

int images_extend(struct images *images)
{
	int ret = 0;

	for (struct image *image = images->first; image && !ret; image = image->next) {
		size_t wanted;

		if (image->base || !image->decided)
			continue;
		ret = choose_islands(images, image);
		if (ret)
			return ret;
		wanted = count_wanted(images, image);
		if (wanted > CALLTAP_RECORD_ID_MAX - images->next_id)
			return -EOVERFLOW;
		if (wanted)
			ret = add_addition(images, image, wanted);
	}
	return ret;
}

int images_look_again(struct images *images, struct image *image, int fd)
{
	if (!image->skipped || images->stock == STOCK_NEVER || !names_file(images, image->path, fd))
		return 0;
	image->skipped = false;
	look_at(images, image, fd);
	return image_decide(images, image);
}

bool image_function_before(const struct image *image, uint64_t address, uint32_t *place)
{
	const struct {
		uint32_t lo, hi;
	} parts[] = {{0, image->block_first}, {image->block_first, image->site_count}};
	bool found = false;

	for (size_t i = 0; i < 2; i++) {
		uint32_t lo = parts[i].lo, hi = parts[i].hi;

		while (lo < hi) {
			uint32_t middle = lo + (hi - lo) / 2;

			if (image->sources[middle]->function <= address)
				lo = middle + 1;
			else
				hi = middle;
		}
		if (lo == parts[i].lo || (found && image->sources[lo - 1]->function < image->sources[*place]->function))
			continue;
		*place = lo - 1;
		found = true;
	}
	return found;
}

/* Does the variant have these flags wherever they matter? */
static bool serves_sites(const struct image_variant *variant, const uint16_t *flags, const bool *chosen, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (chosen[i] && variant->sites[i].flags != flags[i])
			return false;
	return true;
}

static int add_variant(struct image *image, const uint16_t *flags)
{
	struct image_variant *variant = &image->variants[image->variant_count];

	if (image->variant_count == IMAGE_VARIANTS)
		return -ENOSPC;
	variant->sites = malloc(image->site_count * sizeof(*variant->sites));
	if (!variant->sites)
		return -ENOMEM;
	memcpy(variant->sites, image->sites, image->site_count * sizeof(*variant->sites));
	for (uint32_t i = 0; i < image->site_count; i++)
		variant->sites[i].flags = flags[i];
	image->variant_count++;
	return layout_stubs(object_machine(image->object), variant->sites, image->site_count, &variant->stub_bytes);
}

/* The verdicts on functions that the filters alone decide about, by what they have answered. */
struct common {
	bool known[ANSWERS];
	struct verdict verdicts[ANSWERS];
};

static const struct verdict *judge_like(struct common *common, const struct images *images, const struct image *image,
					const struct object_site *source, uint8_t answer)
{
	struct verdict *verdict = &common->verdicts[answer];

	if (!common->known[answer])
		*verdict = judge_by(images, image, source, 0, decision_of(answer));
	common->known[answer] = true;
	return verdict;
}

/* An image may have a hundred thousand sites: most share their verdict with others, and each is looked at shortly. */
static void judge_all(struct images *images, struct image *image, bool *chosen, uint64_t *who, uint16_t *flags)
{
	struct image_asked *asked = asked_of(images, image);
	bool plain = asked && !images->values && !watch_of(images->watch, 0);
	struct common common = {0};
	struct verdict made;

	for (uint32_t i = 0; i < image->site_count; i++) {
		const struct object_site *source = image->sources[i];
		uint64_t slots = image->slots ? image->slots[i] : 0;
		const struct verdict *verdict = &made;

		if (plain && !slots)
			verdict = judge_like(&common, images, image, source, answer_on(images, image, asked, source));
		else
			made = judge_site(images, image, source, slots);
		chosen[i] = verdict->on;
		who[i] = verdict->who;
		flags[i] = images->brief ? stub_flags(images, verdict->flags, image->sites[i].id) : verdict->flags;
		/* A function that is left keeps its programs: calls come until its site is switched off. */
		if (verdict->on && images->values)
			values_write(images->values, image->sites[i].id, verdict->values);
	}
}

/* The variant in use by preference; variant_count = there is none. */
static uint32_t find_variant(const struct image *image, const uint16_t *flags, const bool *chosen)
{
	uint32_t i = image->variant;

	if (serves_sites(&image->variants[i], flags, chosen, image->site_count))
		return i;
	for (i = 0; i < image->variant_count; i++)
		if (serves_sites(&image->variants[i], flags, chosen, image->site_count))
			break;
	return i;
}

int image_decide_again(struct images *images, struct image *image, bool *chosen, uint64_t *who, uint32_t *variant)
{
	uint16_t *flags = calloc(image->site_count ? image->site_count : 1, sizeof(*flags));
	int ret = 0;

	if (!flags)
		return -ENOMEM;
	judge_all(images, image, chosen, who, flags);
	*variant = find_variant(image, flags, chosen);
	if (*variant == image->variant_count && *variant >= VARIANTS_OF_HANDLERS && handlers_any(images->handlers)) {
		image->dispatched = true;
		judge_all(images, image, chosen, who, flags);
		*variant = find_variant(image, flags, chosen);
	}
	if (*variant == image->variant_count)
		ret = add_variant(image, flags);
	free(flags);
	return ret;
}

/* A chunk of a fixed head, an array and strings: put together in one buffer. */
struct packed {
	char *bytes;
	size_t head, array, strings; /* sizes */
};

static int packed_create(struct packed *packed, size_t head, size_t array, size_t strings_max)
{
	packed->bytes = calloc(1, head + array + strings_max + 1);
	packed->head = head;
	packed->array = array;
	packed->strings = 0;
	return packed->bytes ? 0 : -ENOMEM;
}

static uint32_t packed_text(struct packed *packed, const char *text)
{
	uint32_t at = (uint32_t)packed->strings;
	size_t size = strlen(text) + 1;

	memcpy(packed->bytes + packed->head + packed->array + at, text, size);
	packed->strings += size;
	return at;
}

/* A function without a symbol is called by its object and its place there. */
static const char *name_of(const struct image *image, uint32_t place)
{
	const struct object_site *source = image->sources[place];

	return source->symbol[0] ? source->symbol : object_site_name(image->object, source);
}

static int write_functions(const struct image *image, struct trace_writer *writer)
{
	size_t text = 0, array = image->site_count * sizeof(struct calltap_file_function);
	struct calltap_file_functions *head;
	struct calltap_file_function *functions;
	struct packed packed;
	int ret;

	for (uint32_t i = 0; i < image->site_count; i++)
		text += strlen(name_of(image, i)) + 1;
	ret = packed_create(&packed, sizeof(*head), array, text);
	if (ret)
		return ret;
	functions = (void *)(packed.bytes + sizeof(*head));
	for (uint32_t i = 0; i < image->site_count; i++)
		functions[i] = (struct calltap_file_function){
			.function = image->sites[i].id,
			.object = image->index,
			.address = image->sources[i]->function,
			.size = image->sources[i]->size,
			.name = packed_text(&packed, name_of(image, i)),
		};
	head = (void *)packed.bytes;
	*head = (struct calltap_file_functions){image->site_count, (uint32_t)packed.strings};
	ret = trace_writer_chunk(writer, CALLTAP_CHUNK_FUNCTIONS, packed.bytes, sizeof(*head) + array + packed.strings);
	free(packed.bytes);
	return ret;
}

int image_describe(const struct image *image, struct trace_writer *writer)
{
	size_t path_size = strlen(image->path) + 1;
	struct calltap_file_object *object;
	int ret;

	if (image->base) /* its object is described already */
		return image->site_count ? write_functions(image, writer) : 0;
	object = calloc(1, sizeof(*object) + path_size);
	if (!object)
		return -ENOMEM;
	object->object = image->index;
	if (image->object)
		object->build_id_size = (uint32_t)object_build_id(image->object, object->build_id);
	else if (image->named) {
		object->build_id_size = image->identity.build_id_size;
		memcpy(object->build_id, image->identity.build_id, sizeof(object->build_id));
	}
	memcpy(object + 1, image->path, path_size);
	ret = trace_writer_chunk(writer, CALLTAP_CHUNK_OBJECT, object, sizeof(*object) + path_size);
	free(object);
	if (!ret && image->site_count)
		ret = write_functions(image, writer);
	return ret;
}

struct source_line {
	const char *file; /* NULL = not known */
	uint32_t line;
};

/* Look each function's line up; returns the bytes that the files' names take at the most. */
static size_t find_lines(const struct image *image, struct object_lines *lines, struct source_line *found)
{
	size_t text = 0;

	for (uint32_t i = 0; i < image->site_count; i++) {
		const struct object_site *source = image->sources[i];

		if (source->kind != SITE_LIBCALL &&
		    object_lines_find(lines, source->function, source->address + source->code_off, &found[i].file,
				      &found[i].line))
			text += strlen(found[i].file) + 1;
		else
			found[i].file = NULL;
	}
	return text;
}

static int write_found(const struct image *image, struct trace_writer *writer, const struct source_line *found,
		       size_t text)
{
	size_t array = image->site_count * sizeof(struct calltap_file_line);
	struct calltap_file_lines *head;
	struct calltap_file_line *out;
	struct packed packed;
	const char *last = NULL;
	uint32_t count = 0, at = 0;
	int ret = packed_create(&packed, sizeof(*head), array, text);

	if (ret)
		return ret;
	out = (void *)(packed.bytes + sizeof(*head));
	for (uint32_t i = 0; i < image->site_count; i++) {
		if (!found[i].file)
			continue;
		if (!last || strcmp(last, found[i].file) != 0)
			at = packed_text(&packed, found[i].file);
		last = found[i].file;
		out[count++] = (struct calltap_file_line){image->sites[i].id, found[i].line, at};
	}
	/* Fewer rows than room was made for: the strings move down. */
	memmove(packed.bytes + sizeof(*head) + count * sizeof(*out), packed.bytes + sizeof(*head) + array,
		packed.strings);
	head = (void *)packed.bytes;
	*head = (struct calltap_file_lines){count, (uint32_t)packed.strings};
	ret = trace_writer_chunk(writer, CALLTAP_CHUNK_LINES, packed.bytes,
				 sizeof(*head) + count * sizeof(*out) + packed.strings);
	free(packed.bytes);
	return ret;
}

static int write_lines(const struct image *image, struct trace_writer *writer, struct object_lines *lines)
{
	struct source_line *found = calloc(image->site_count, sizeof(*found));
	size_t text;
	int ret;

	if (!found)
		return -ENOMEM;
	text = find_lines(image, lines, found);
	ret = text ? write_found(image, writer, found, text) : 0;
	free(found);
	return ret;
}

int image_write_lines(const struct image *image, struct trace_writer *writer)
{
	struct object_lines *lines;
	struct stat st;
	int ret;

	if (!image->site_count || image->fd < 0 || fstat(image->fd, &st))
		return 0;
	if (st.st_mtim.tv_sec != image->mtime.tv_sec || st.st_mtim.tv_nsec != image->mtime.tv_nsec)
		return 0; /* written over: what is in it now may be another program's */
	if (object_lines_open(&lines, image->path, image->fd))
		return 0;
	ret = write_lines(image, writer, lines);
	object_lines_close(lines);
	return ret;
}
