/*
 * The blocks of an object's stock functions: their places in the region, and their code (stock.h).
 *
 * A block's code depends on the region's address in its bytes, and in the forms of some instructions: a target that is
 * out of reach takes a longer one.  So the room for a block is that of each instruction's longest form.  Context: host.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "blocks_impl.h"

#define BLOCK_ALIGN 16u
/* Blocks are measured near their heads, behind the reach of RISC-V's jal, and out of everybody's reach. */
#define MIDWAY	   (UINT64_C(1) << 26)
#define FAR_AWAY   (UINT64_C(1) << 45)
#define REGION_MAX (UINT64_C(1) << 30)

static uint64_t align_up(uint64_t value, uint64_t step)
{
	return (value + step - 1) & ~(step - 1);
}

/* The section that holds an address; NULL = none with bytes does. */
static const struct stock_section *section_at(const struct stock_image *image, uint64_t address)
{
	size_t low = 0, high = image->section_count;

	while (low < high) { /* the first one that begins behind the address */
		size_t middle = low + (high - low) / 2;

		if (image->sections[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t i = low; i-- > 0;) {
		const struct stock_section *section = &image->sections[i];

		if (address - section->address < section->size)
			return section->bytes && section->code ? section : NULL;
		if (section->size) /* an empty one may lie within another */
			break;
	}
	return NULL;
}

bool blocks_is_of_plt(const struct stock_image *image, const struct stock_block *block)
{
	const struct stock_section *section = section_at(image, block->head);

	return section && section->plt;
}

static bool is_within(const struct stock_image *image, uint64_t address)
{
	return address - image->lo <= image->hi - image->lo;
}

static bool find_head(struct isa_head *head, const struct blocks_cpu *cpu, const struct stock_image *image,
		      const struct stock_block *block, uint64_t base)
{
	const struct stock_section *section = section_at(image, block->head);

	if (!section || !block->length)
		return false;
	*head = (struct isa_head){
		.code = section->bytes + (block->head - section->address),
		.size = section->size - (block->head - section->address),
		.from = base + block->head,
		.length = block->length,
	};
	if (head->size < block->length)
		return false;
	head->scratch = isa_head_scratch(cpu->block, head->code, block->length, cpu->scratch);
	return true;
}

int blocks_make_one(struct made_block *made, const struct blocks_cpu *cpu, const struct stock_image *image,
		    const struct stock_block *block, uint64_t at, uint64_t base)
{
	struct isa_out out = {made->code, sizeof(made->code), 0, at};
	struct isa_head head;
	int ret = find_head(&head, cpu, image, block, base) ? isa_block_make(cpu->block, &out, &made->block, &head)
							    : -EINVAL;

	made->length = (uint32_t)out.length;
	return ret;
}

static size_t longest(size_t a, size_t b, size_t c)
{
	size_t longer = a > b ? a : b;

	return longer > c ? longer : c;
}

/* The bytes of the longest form of an instruction; 0: it cannot be moved to every place near the object. */
static size_t longest_form(const struct blocks_cpu *cpu, const struct stock_image *image, const struct isa_head *head,
			   uint8_t at)
{
	const struct isa_source source = {head->code + at, head->size - at, head->from + at, head->scratch};
	uint8_t code[ISA_RELOCATED_MAX];
	struct isa_out near_by = {code, sizeof(code), 0, source.from + BLOCKS_NEAR_BY};
	struct isa_out midway = {code, sizeof(code), 0, source.from + MIDWAY};
	struct isa_out far_away = {code, sizeof(code), 0, source.from + FAR_AWAY};
	struct isa_instruction in;

	if (cpu->block->decode(&in, source.code, source.size, source.from) < 0 ||
	    cpu->block->move(&near_by, &source) < 0 || cpu->block->move(&midway, &source) < 0)
		return 0;
	if (cpu->block->move(&far_away, &source) < 0 && in.has_target &&
	    !is_within(image, in.target - BLOCKS_NOMINAL_BASE))
		return 0;
	return longest(near_by.length, midway.length, far_away.length);
}

static size_t longest_jump(const struct blocks_cpu *cpu, const struct isa_head *head)
{
	uint64_t target = head->from + head->length;
	uint8_t code[ISA_RELOCATED_MAX];
	struct isa_out near_by = {code, sizeof(code), 0, target + BLOCKS_NEAR_BY};
	struct isa_out midway = {code, sizeof(code), 0, target + MIDWAY};
	struct isa_out far_away = {code, sizeof(code), 0, target + FAR_AWAY};

	if (cpu->block->put_jump(&near_by, target, head->scratch) ||
	    cpu->block->put_jump(&midway, target, head->scratch))
		return 0;
	if (cpu->block->put_jump(&far_away, target, head->scratch))
		far_away.length = 0; /* the region will not lie there */
	return longest(near_by.length, midway.length, far_away.length);
}

/* Room for a block wherever it will lie; 0: none can be made. */
static uint32_t room_for(const struct blocks_cpu *cpu, const struct stock_image *image, const struct stock_block *block)
{
	struct made_block made;
	struct isa_head head;
	size_t size, more;

	if (!find_head(&head, cpu, image, block, BLOCKS_NOMINAL_BASE) ||
	    blocks_make_one(&made, cpu, image, block, blocks_nominal(block), BLOCKS_NOMINAL_BASE))
		return 0;
	more = longest_jump(cpu, &head);
	size = made.block.site + more;
	for (unsigned i = 0; more && i + 1 < made.block.count; i++) {
		more = longest_form(cpu, image, &head, made.block.places[i].from);
		size += more;
	}
	return more && size <= ISA_BLOCK_MAX ? (uint32_t)align_up(size, BLOCK_ALIGN) : 0;
}

uint8_t stock_site(const struct stock_image *image, uint8_t bytes[16])
{
	const struct blocks_cpu *cpu = blocks_cpu_find(image->machine);
	struct isa_out out = {.code = bytes, .size = 16};

	memset(bytes, 0, 16);
	if (cpu)
		cpu->block->put_site(&out);
	return (uint8_t)out.length;
}

int stock_lead(uint8_t bytes[16], const struct stock_image *image, uint64_t at, uint64_t target)
{
	const struct blocks_cpu *cpu = blocks_cpu_find(image->machine);
	struct isa_out out = {.code = bytes, .size = 16, .address = at};

	if (!cpu)
		return -ENOTSUP;
	if (cpu->block->put_jump(&out, target, cpu->scratch))
		return -ERANGE;
	return out.length == cpu->block->jump_bytes ? (int)out.length : -ERANGE;
}

const struct blocks_hub *blocks_hub_of(const struct blocks_cpu *cpu, const struct stock_block *blocks, size_t count)
{
	for (size_t i = 0; cpu->hub && i < count; i++)
		if (blocks[i].island && blocks[i].size)
			return cpu->hub;
	return NULL;
}

int stock_measure(const struct stock_image *image, struct stock_block *blocks, size_t count)
{
	const struct blocks_cpu *cpu = blocks_cpu_find(image->machine);

	if (!cpu)
		return -ENOTSUP;
	for (size_t i = 0; i < count; i++)
		blocks[i].need = (struct stock_need){
			.size = (uint16_t)room_for(cpu, image, &blocks[i]),
			.entry = STOCK_NO_ENTRY,
			.common = STOCK_NO_ENTRY,
		};
	return blocks_frames_measure(image, blocks, count);
}

int stock_find_needs(struct stock_list *list, const struct stock_image *image)
{
	struct stock_block *blocks = calloc(list->count + 1, sizeof(*blocks));
	size_t count = 0;
	int ret;

	if (!blocks)
		return -ENOMEM;
	for (size_t i = 0; i < list->count; i++)
		if (list->functions[i].verdict == STOCK_OK)
			blocks[count++] = (struct stock_block){.head = list->functions[i].head,
							       .length = list->functions[i].length};
	ret = stock_measure(image, blocks, count);
	for (size_t i = 0, k = 0; i < list->count && !ret; i++)
		if (list->functions[i].verdict == STOCK_OK)
			list->functions[i].need = blocks[k++].need;
	free(blocks);
	return ret == -ENOTSUP ? 0 : ret;
}

int stock_place(struct stock_layout *out, const struct stock_image *image, struct stock_block *blocks, size_t count)
{
	const struct blocks_cpu *cpu = blocks_cpu_find(image->machine);
	const struct blocks_hub *hub;
	uint64_t at = STOCK_BLOCKS_HEAD;

	if (!cpu)
		return -ENOTSUP;
	for (size_t i = 0; i < count; i++)
		blocks[i].size = blocks[i].need.size;
	hub = blocks_hub_of(cpu, blocks, count);
	if (hub) {
		size_t size = hub->make(NULL, blocks, count, 0, 0);

		if (!size)
			return -ENOMEM;
		at += align_up(size, BLOCK_ALIGN);
	}
	for (size_t i = 0; i < count; i++) {
		blocks[i].offset = (uint32_t)at;
		at += blocks[i].size;
		if (at > REGION_MAX)
			return -E2BIG;
	}
	*out = (struct stock_layout){.code_size = at, .header_off = at};
	out->header_size = blocks_frames_size(image, blocks, count);
	out->size = out->header_off + out->header_size;
	return out->size > REGION_MAX ? -E2BIG : 0;
}

int stock_layout(struct stock_layout *out, const struct stock_image *image, struct stock_block *blocks, size_t count)
{
	int ret = stock_measure(image, blocks, count);

	return ret ? ret : stock_place(out, image, blocks, count);
}

int stock_make(uint8_t *out, const struct stock_layout *layout, const struct stock_image *image,
	       const struct stock_block *blocks, size_t count, uint64_t at, uint64_t base)
{
	const struct blocks_cpu *cpu = blocks_cpu_find(image->machine);
	struct blocks_frames frames;
	const struct blocks_hub *hub;

	if (!cpu)
		return -ENOTSUP;
	memset(out, cpu->padding, layout->code_size);
	memset(out + layout->header_off, 0, layout->header_size);
	hub = blocks_hub_of(cpu, blocks, count);
	if (hub && !hub->make(out + STOCK_BLOCKS_HEAD, blocks, count, at + STOCK_BLOCKS_HEAD, base))
		return -ENOMEM;
	blocks_frames_begin(&frames, out, layout, image, blocks, count, at);
	for (size_t i = 0; i < count; i++) {
		const struct stock_block *block = &blocks[i];
		struct made_block made;
		int ret;

		if (!block->size)
			continue;
		ret = blocks_make_one(&made, cpu, image, block, at + block->offset, base);
		if (ret)
			return ret;
		if (made.length > block->size)
			return -ERANGE;
		memcpy(out + block->offset, made.code, made.length);
		blocks_frames_put(&frames, block, &made, at + block->offset);
	}
	return blocks_frames_end(&frames);
}

bool stock_into_block(const struct stock_region *region, const struct stock_block *block, unsigned offset, unsigned *to)
{
	const struct blocks_cpu *cpu = blocks_cpu_find(region->image->machine);
	struct made_block made;

	if (!cpu || blocks_make_one(&made, cpu, region->image, block, region->at + block->offset, region->base))
		return false;
	if (!offset) {
		*to = 0;
		return true;
	}
	for (unsigned i = 0; i + 1u < made.block.count; i++)
		if (made.block.places[i].from == offset) {
			*to = made.block.places[i].to;
			return true;
		}
	return false;
}

bool stock_out_of_block(const struct stock_region *region, const struct stock_block *block, unsigned offset,
			unsigned *to)
{
	const struct blocks_cpu *cpu = blocks_cpu_find(region->image->machine);
	struct made_block made;

	if (!cpu || blocks_make_one(&made, cpu, region->image, block, region->at + block->offset, region->base))
		return false;
	if (!offset) {
		*to = 0;
		return true;
	}
	for (unsigned i = 0; i < made.block.count; i++)
		if (made.block.places[i].to == offset) {
			*to = made.block.places[i].from;
			return true;
		}
	return false;
}
