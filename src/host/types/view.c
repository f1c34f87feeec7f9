/*
 * Classes that stand for a text or a list: which they are, and where in them its address and its size lie (types.h).
 *
 * std::string is known by the names of its members, which are its library's alone.  Others are known by what they have:
 * nothing but a `const char *` and an integer whose name says that it is a size (std::string_view, and classes like it
 * of many libraries), or two addresses of characters, from the first to behind the last.  Lists are known by the
 * class's name and its members'.
 *
 * Callers: show.c, function.c, members.c.  Context: host.  DWARF is untrusted.
 */
#include <dwarf.h>
#include <string.h>

#include "impl.h"

#define LEAVES	   5u  /* members that are looked at: with more it is none of these classes */
#define VIEW_DEPTH 10u /* of classes within the class */
#define SEEN_MAX   64u /* members of one class */

struct leaf {
	const char *name;
	uint64_t offset;
	Dwarf_Die type; /* less its typedefs */
};

/* The data members of a class, those of its base classes and of classes within it among them. */
struct leaves {
	struct leaf list[LEAVES];
	uint32_t count; /* more than LEAVES: there are more */
};

bool type_is_class(Dwarf_Die *type)
{
	int tag = dwarf_tag(type);

	return tag == DW_TAG_structure_type || tag == DW_TAG_class_type;
}

static bool is_static(Dwarf_Die *member)
{
	return dwarf_hasattr_integrate(member, DW_AT_external) || dwarf_hasattr_integrate(member, DW_AT_declaration);
}

/* Go to the next data member or base class, or to this one at first; false: there is none. */
static bool take_member(Dwarf_Die *child, bool *first)
{
	while (*first || !dwarf_siblingof(child, child)) {
		int tag = dwarf_tag(child);

		*first = false;
		if ((tag == DW_TAG_member && !is_static(child)) || tag == DW_TAG_inheritance)
			return true;
	}
	return false;
}

bool type_place(Dwarf_Die *type, uint64_t *offset, Dwarf_Die *member)
{
	Dwarf_Die named;
	uint64_t at = 0;

	if (dwarf_hasattr_integrate(member, DW_AT_data_member_location) &&
	    !type_number(&at, member, DW_AT_data_member_location))
		return false;
	if (dwarf_hasattr_integrate(member, DW_AT_bit_size) || at > UINT32_MAX)
		return false;
	*offset += at;
	return type_of(&named, member) && type_peeled(type, &named);
}

static void gather(struct leaves *leaves, Dwarf_Die *class, uint64_t offset, uint32_t depth)
{
	bool first = true;
	Dwarf_Die child;

	if (depth == VIEW_DEPTH || dwarf_hasattr_integrate(class, DW_AT_declaration)) {
		leaves->count = LEAVES + 1;
		return;
	}
	if (dwarf_child(class, &child))
		return;
	for (uint32_t seen = 0; leaves->count <= LEAVES && take_member(&child, &first); seen++) {
		uint64_t at = offset;
		Dwarf_Die type;

		if (seen == SEEN_MAX || !type_place(&type, &at, &child)) {
			leaves->count = LEAVES + 1;
			return;
		}
		if (type_is_class(&type)) {
			gather(leaves, &type, at, depth + 1);
			continue;
		}
		if (leaves->count < LEAVES)
			leaves->list[leaves->count] = (struct leaf){type_name(&child), at, type};
		leaves->count++;
	}
}

/* The type of the class's member of that name, and where it lies. */
static bool find_member(Dwarf_Die *type, uint64_t *offset, Dwarf_Die *class, const char *name)
{
	bool first = true;
	Dwarf_Die child;

	*offset = 0;
	if (dwarf_child(class, &child))
		return false;
	for (uint32_t seen = 0; seen < SEEN_MAX && take_member(&child, &first); seen++) {
		const char *its = type_name(&child);

		if (its && !strcmp(its, name))
			return type_place(type, offset, &child);
	}
	return false;
}

static bool is_byte_address(Dwarf_Die *type, bool *constant)
{
	Dwarf_Die inner, peeled;

	if (dwarf_tag(type) != DW_TAG_pointer_type || !type_of(&inner, type) || !type_peeled(&peeled, &inner))
		return false;
	*constant = false;
	for (uint32_t depth = 0; depth < TYPE_DEPTH; depth++) {
		Dwarf_Die next;

		*constant |= dwarf_tag(&inner) == DW_TAG_const_type;
		if (!type_of(&next, &inner))
			break;
		inner = next;
	}
	return type_is_char(&peeled);
}

static bool is_text_address(Dwarf_Die *type)
{
	bool constant;

	return is_byte_address(type, &constant) && constant;
}

static bool is_integer(Dwarf_Die *type, uint64_t *size)
{
	uint64_t encoding = 0;

	return dwarf_tag(type) == DW_TAG_base_type && type_number(size, type, DW_AT_byte_size) &&
	       (*size == 4 || *size == 8) && type_number(&encoding, type, DW_AT_encoding) &&
	       (encoding == DW_ATE_unsigned || encoding == DW_ATE_signed);
}

/* Is the name one of these, but for what libraries put around their members' names, and capitals? */
static bool is_called(const char *name, const char *const *words)
{
	static const char *const fronts[] = {"_M_", "m_", "__", "_"};
	size_t length;

	for (unsigned i = 0; name && i < sizeof(fronts) / sizeof(fronts[0]); i++)
		if (!strncmp(name, fronts[i], strlen(fronts[i]))) {
			name += strlen(fronts[i]);
			break;
		}
	if (!name)
		return false;
	length = strlen(name);
	while (length && name[length - 1] == '_')
		length--;
	for (; *words; words++)
		if (strlen(*words) == length && !strncasecmp(name, *words, length))
			return true;
	return false;
}

static bool fits(const struct type_view *view, uint64_t address_at, uint64_t size_at)
{
	return address_at % 8 == 0 && size_at % view->size_bytes == 0 && address_at + 8 <= view->size &&
	       size_at + view->size_bytes <= view->size;
}

static bool put(struct type_view *out, enum type_view_how how, uint64_t address_at, uint64_t size_at, uint64_t bytes)
{
	uint64_t size = address_at + 8 > size_at + bytes ? address_at + 8 : size_at + bytes;

	if (address_at > TYPES_VIEW || size_at > TYPES_VIEW || size > TYPES_VIEW)
		return false;
	*out = (struct type_view){.how = (uint8_t)how,
				  .size = (uint8_t)((size + 7) / 8 * 8),
				  .address_at = (uint8_t)address_at,
				  .size_at = (uint8_t)size_at,
				  .size_bytes = (uint8_t)bytes};
	return fits(out, address_at, size_at);
}

/* A class of two members, whatever its name is. */
static bool find_pair(struct type_view *out, Dwarf_Die *class)
{
	static const char *const sizes[] = {"size", "len", "length", "sz", "string_length", "str_len", "strlen", NULL};
	static const char *const begins[] = {"b", "begin", "first", "start", NULL};
	static const char *const ends[] = {"e", "end", "last", "finish", NULL};
	struct leaves leaves = {.count = 0};
	struct leaf *address = &leaves.list[0], *size = &leaves.list[1];
	uint64_t bytes = 0;

	gather(&leaves, class, 0, 0);
	if (leaves.count != 2)
		return false;
	if (!is_text_address(&address->type)) {
		address = size;
		size = &leaves.list[0];
	}
	if (!is_text_address(&address->type))
		return false;
	if (is_integer(&size->type, &bytes) && is_called(size->name, sizes))
		return put(out, TYPE_VIEW_SIZE, address->offset, size->offset, bytes);
	if (is_text_address(&size->type) && is_called(address->name, begins) && is_called(size->name, ends))
		return put(out, TYPE_VIEW_END, address->offset, size->offset, 8);
	return false;
}

/* std::string of GCC's library. */
static bool find_gnu(struct type_view *out, Dwarf_Die *class)
{
	Dwarf_Die type, inner;
	uint64_t at, inner_at, size_at, bytes;
	bool constant;

	if (!find_member(&type, &at, class, "_M_dataplus") || !type_is_class(&type))
		return false;
	/* Clang leaves out what is in classes that no code of the unit makes. */
	if (dwarf_hasattr_integrate(&type, DW_AT_declaration))
		return find_member(&type, &size_at, class, "_M_string_length") && size_at == at + 8 &&
		       is_integer(&type, &bytes) && put(out, TYPE_VIEW_SIZE, at, size_at, bytes);
	if (!find_member(&inner, &inner_at, &type, "_M_p") || !is_byte_address(&inner, &constant))
		return false;
	at += inner_at;
	if (!find_member(&type, &size_at, class, "_M_string_length"))
		return put(out, TYPE_VIEW_FRONT, at, at, 8);
	return is_integer(&type, &bytes) && put(out, TYPE_VIEW_SIZE, at, size_at, bytes);
}

/* The class that std::string of LLVM's library keeps its bytes in; libraries differ in what lies around it. */
static bool is_on_the_way(Dwarf_Die *member)
{
	const char *name = type_name(member);

	return dwarf_tag(member) == DW_TAG_inheritance ||
	       (name && (!strcmp(name, "__rep_") || !strcmp(name, "__r_") || !strcmp(name, "__value_")));
}

/* One class nearer to it. */
static bool step_in(Dwarf_Die *class, uint64_t *offset)
{
	bool first = true;
	Dwarf_Die child;

	if (dwarf_child(class, &child))
		return false;
	for (uint32_t seen = 0; seen < SEEN_MAX && take_member(&child, &first); seen++) {
		uint64_t at = *offset;
		Dwarf_Die type;

		if (!is_on_the_way(&child) || !type_place(&type, &at, &child) || !type_is_class(&type))
			continue;
		*class = type;
		*offset = at;
		return true;
	}
	return false;
}

static bool find_bytes(Dwarf_Die *out, uint64_t *offset, Dwarf_Die *class)
{
	*out = *class;
	*offset = 0;
	for (uint32_t depth = 0; depth < VIEW_DEPTH; depth++) {
		const char *name = type_name(out);

		if (name && !strcmp(name, "__rep"))
			return true;
		if (!step_in(out, offset))
			return false;
	}
	return false;
}

static bool find_llvm(struct type_view *out, Dwarf_Die *class)
{
	Dwarf_Die bytes, large, small, type, child;
	uint64_t at, either_at = 0, address_at, size_at, text_at, small_at, large_at, size;
	bool constant, first = true;

	if (!find_bytes(&bytes, &at, class) || at || dwarf_child(&bytes, &child) || !take_member(&child, &first) ||
	    !type_place(&type, &either_at, &child) || dwarf_tag(&type) != DW_TAG_union_type || either_at)
		return false;
	if (!find_member(&large, &large_at, &type, "__l") || !find_member(&small, &small_at, &type, "__s") ||
	    large_at || small_at)
		return false;
	return find_member(&type, &address_at, &large, "__data_") && is_byte_address(&type, &constant) &&
	       find_member(&type, &size_at, &large, "__size_") && is_integer(&type, &size) &&
	       find_member(&type, &text_at, &small, "__data_") && text_at == 1 &&
	       put(out, TYPE_VIEW_SHORT, address_at, size_at, size);
}

/* The place of the class's member that has one of these names, and is an address or an integer; -1: there is none. */
static int find_leaf(const struct leaves *leaves, const char *const *names, bool address)
{
	uint64_t size;

	for (uint32_t i = 0; i < leaves->count && i < LEAVES; i++) {
		Dwarf_Die type = leaves->list[i].type;

		if (address ? dwarf_tag(&type) != DW_TAG_pointer_type : !is_integer(&type, &size))
			continue;
		for (const char *const *name = names; *name; name++)
			if (leaves->list[i].name && !strcmp(leaves->list[i].name, *name))
				return (int)i;
	}
	return -1;
}

static bool begins_with_one_of(const char *text, const char *const *words)
{
	for (; text && *words; words++)
		if (!strncmp(text, *words, strlen(*words)))
			return true;
	return false;
}

/* The first type that a template was made with. */
static bool made_with(Dwarf_Die *out, Dwarf_Die *class)
{
	Dwarf_Die child;

	if (dwarf_child(class, &child))
		return false;
	do {
		if (dwarf_tag(&child) == DW_TAG_template_type_parameter)
			return type_of(out, &child);
	} while (!dwarf_siblingof(&child, &child));
	return false;
}

/* Classes of C++ that have a list elsewhere: the first element, and the end or a number. */
static bool find_list(struct type_view *out, Dwarf_Die *class, Dwarf_Die *element, const char *name)
{
	static const char *const vectors[] = {"vector<", NULL}, *const starts[] = {"_M_start", "__begin_", NULL};
	static const char *const ends[] = {"_M_finish", "__end_", NULL};
	static const char *const spans[] = {"span<",	 "initializer_list<", "Span<",
					    "ArrayRef<", "MutableArrayRef<",  NULL};
	static const char *const firsts[] = {"_M_ptr",	 "_M_array", "__data_", "__data",
					     "__begin_", "ptr_",     "Data",	NULL};
	static const char *const counts[] = {"_M_extent_value", "_M_len", "__size_", "__size", "len_", "Length", NULL};
	bool vector = begins_with_one_of(name, vectors);
	struct leaves leaves = {.count = 0};
	Dwarf_Die pointer;
	int first, last;
	uint64_t bytes = 8;

	if (!vector && !begins_with_one_of(name, spans))
		return false;
	gather(&leaves, class, 0, 0);
	if (leaves.count < 2 || leaves.count > LEAVES)
		return false;
	first = find_leaf(&leaves, vector ? starts : firsts, true);
	last = find_leaf(&leaves, vector ? ends : counts, vector);
	if (first < 0 || last < 0)
		return false;
	pointer = leaves.list[first].type;
	if (!type_of(element, &pointer) || (!vector && !is_integer(&leaves.list[last].type, &bytes)))
		return false;
	return put(out, vector ? TYPE_VIEW_END : TYPE_VIEW_SIZE, leaves.list[first].offset, leaves.list[last].offset,
		   bytes);
}

/* Rust's &str, String, &[T], Vec<T>: what is called so differs by version in order, and in what is around it. */
static bool find_rust(struct type_view *out, Dwarf_Die *class, Dwarf_Die *element, const char *name, bool *is_list)
{
	static const char *const addresses[] = {"data_ptr", "pointer", NULL}, *const counts[] = {"length", "len", NULL};
	static const char *const texts[] = {"&str", "&mut str", "Box<str", "String", NULL}, *const vectors[] = {"Vec<",
														NULL};
	static const char *const slices[] = {"&[", "&mut [", "Box<[", NULL};
	bool vector = begins_with_one_of(name, vectors), text = begins_with_one_of(name, texts);
	struct leaves leaves = {.count = 0};
	uint64_t bytes;
	Dwarf_Die pointer;
	int first, last;

	if (!text && !vector && !begins_with_one_of(name, slices))
		return false;
	gather(&leaves, class, 0, 0);
	if (leaves.count < 2 || leaves.count > LEAVES)
		return false;
	first = find_leaf(&leaves, addresses, true);
	last = find_leaf(&leaves, counts, false);
	if (first < 0 || last < 0 || !is_integer(&leaves.list[last].type, &bytes))
		return false;
	pointer = leaves.list[first].type;
	*is_list = !text;
	return (vector ? made_with(element, class) : type_of(element, &pointer)) &&
	       put(out, TYPE_VIEW_SIZE, leaves.list[first].offset, leaves.list[last].offset, bytes);
}

bool type_view_find(struct type_view *out, Dwarf_Die *type, Dwarf_Die *element, bool *is_list)
{
	const char *name = type_name(type);
	Dwarf_Die unused, peeled;
	bool unasked = false;

	*out = (struct type_view){0};
	element = element ? element : &unused;
	is_list = is_list ? is_list : &unasked;
	*is_list = false;
	if (!type_is_class(type))
		return false;
	if (name && !strncmp(name, "basic_string<char,", sizeof("basic_string<char,") - 1))
		return find_gnu(out, type) || find_llvm(out, type);
	if (find_pair(out, type) || find_rust(out, type, element, name, is_list))
		return true;
	*is_list = find_list(out, type, element, name);
	if (!*is_list)
		return false;
	*is_list = !type_peeled(&peeled, element) || !type_is_char(&peeled);
	return true;
}

bool type_is_owner(Dwarf_Die *type, Dwarf_Die *pointer)
{
	static const char *const names[] = {"unique_ptr<",    "shared_ptr<",	"weak_ptr<", "scoped_ptr<",
					    "intrusive_ptr<", "scoped_refptr<", NULL};
	struct leaves leaves = {.count = 0};

	if (!type_is_class(type) || !begins_with_one_of(type_name(type), names))
		return false;
	gather(&leaves, type, 0, 0);
	for (uint32_t i = 0; i < leaves.count && leaves.count <= LEAVES; i++)
		if (!leaves.list[i].offset && dwarf_tag(&leaves.list[i].type) == DW_TAG_pointer_type) {
			if (pointer)
				*pointer = leaves.list[i].type;
			return true;
		}
	return false;
}

/* Is it the name of a std::string, of a library that calls its traits so? */
static bool is_string(const char *name, const char *traits)
{
	static const char front[] = "basic_string<char, ";

	return name && !strncmp(name, front, sizeof(front) - 1) &&
	       !strncmp(name + sizeof(front) - 1, traits, strlen(traits));
}

/*
 * Clang leaves out classes that another object has.  Both libraries keep to what lies where in these; the old
 * std::string of GCC's has the same name, and its functions' symbols have not this one.
 */
bool type_view_declared(struct type_view *out, Dwarf_Die *type, const char *symbol)
{
	const char *name = type_name(type);

	if (!type_is_class(type) || !dwarf_hasattr_integrate(type, DW_AT_declaration))
		return false;
	if (is_string(name, "std::char_traits<char>"))
		return strstr(symbol, "cxx11") && put(out, TYPE_VIEW_SIZE, 0, 8, 8);
	return is_string(name, "std::__1::char_traits<char>") && put(out, TYPE_VIEW_SHORT, 16, 8, 8);
}
