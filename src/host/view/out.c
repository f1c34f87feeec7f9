/* Buffered output; see out.h.  Context: host. */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "out.h"

#define OUT_BUFFER_SIZE (256u << 10)

int out_create(struct out **out, int fd)
{
	struct out *made = calloc(1, sizeof(*made));

	*out = NULL;
	if (!made)
		return -ENOMEM;
	made->buffer = malloc(OUT_BUFFER_SIZE);
	if (!made->buffer) {
		free(made);
		return -ENOMEM;
	}
	made->fd = fd;
	made->size = OUT_BUFFER_SIZE;
	*out = made;
	return 0;
}

int out_create_shared(struct out **out, int fd)
{
	int ret = out_create(out, fd);

	if (!ret)
		(*out)->lines = true;
	return ret;
}

int out_create_sink(struct out **out, int (*sink)(void *of, const char *bytes, size_t size), void *of)
{
	int ret = out_create_shared(out, -1);

	if (!ret) {
		(*out)->sink = sink;
		(*out)->sink_of = of;
	}
	return ret;
}

static int write_all(int fd, const char *bytes, size_t size)
{
	while (size) {
		ssize_t done = write(fd, bytes, size);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -errno;
		bytes += done;
		size -= (size_t)done;
	}
	return 0;
}

static int write_out(struct out *out, const char *bytes, size_t size)
{
	if (out->before && size)
		out->before(out->of);
	return out->sink ? out->sink(out->sink_of, bytes, size) : write_all(out->fd, bytes, size);
}

static int flush_all(struct out *out)
{
	if (!out->error)
		out->error = write_out(out, out->buffer, out->used);
	out->used = 0;
	return out->error;
}

int out_destroy(struct out *out)
{
	int err;

	if (!out)
		return 0;
	err = flush_all(out);
	free(out->buffer);
	free(out);
	return err;
}

/*
 * The number of bytes to write at a time: whole lines of at most PIPE_BUF bytes together, or one longer line; 0 = there
 * is no whole line.
 */
static size_t lines_of(const char *bytes, size_t size)
{
	size_t part = size < PIPE_BUF ? size : PIPE_BUF;
	const char *end = memrchr(bytes, '\n', part);

	if (!end)
		end = memchr(bytes + part, '\n', size - part);
	return end ? (size_t)(end + 1 - bytes) : 0;
}

static int flush_lines(struct out *out)
{
	size_t at = 0, part;

	while (!out->error && (part = lines_of(out->buffer + at, out->used - at))) {
		out->error = write_out(out, out->buffer + at, part);
		at += part;
	}
	out->used -= at;
	memmove(out->buffer, out->buffer + at, out->used);
	return out->error;
}

int out_flush(struct out *out)
{
	return out->lines ? flush_lines(out) : flush_all(out);
}

/* Flush for `size` bytes to find room; if whole lines are not enough, write the unfinished line, too. */
static void make_room(struct out *out, size_t size)
{
	out_flush(out);
	if (out->size - out->used < size)
		flush_all(out);
}

void out_discard(struct out *out)
{
	out->used = 0;
}

bool out_room(struct out *out, size_t size)
{
	if (out->size - out->used >= size)
		return true;
	make_room(out, size);
	return size <= out->size - out->used;
}

void out_bytes_slow(struct out *out, const char *bytes, size_t size)
{
	make_room(out, size);
	if (out->error)
		return;
	if (size <= out->size - out->used) {
		memcpy(out->buffer + out->used, bytes, size);
		out->used += size;
		return;
	}
	out->error = write_out(out, bytes, size);
}

const char *out_decimal(uint64_t value, char text[OUT_U64_MAX])
{
	static const char pairs[] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
				    "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
				    "8081828384858687888990919293949596979899";
	char *at = text + OUT_U64_MAX;

	while (value >= 100) {
		at -= 2;
		memcpy(at, pairs + value % 100 * 2, 2);
		value /= 100;
	}
	if (value >= 10) {
		at -= 2;
		memcpy(at, pairs + value * 2, 2);
	} else {
		*--at = (char)('0' + value);
	}
	return at;
}

void out_u64(struct out *out, uint64_t value)
{
	char text[OUT_U64_MAX];
	const char *at = out_decimal(value, text);

	out_bytes(out, at, (size_t)(text + OUT_U64_MAX - at));
}

void out_i64(struct out *out, int64_t value)
{
	if (value < 0)
		out_char(out, '-');
	out_u64(out, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void out_u64_width(struct out *out, uint64_t value, unsigned width)
{
	char text[OUT_U64_MAX];
	const char *at = out_decimal(value, text);
	size_t len = (size_t)(text + OUT_U64_MAX - at);

	if (len < width)
		out_spaces(out, width - len);
	out_bytes(out, at, len);
}

void out_digits(struct out *out, uint64_t value, unsigned digits)
{
	char text[OUT_U64_MAX];

	if (digits > OUT_U64_MAX)
		digits = OUT_U64_MAX;
	for (unsigned i = digits; i-- > 0; value /= 10)
		text[i] = (char)('0' + value % 10);
	out_bytes(out, text, digits);
}

void out_milli(struct out *out, uint64_t thousandths)
{
	out_u64(out, thousandths / 1000);
	out_char(out, '.');
	out_digits(out, thousandths % 1000, 3);
}

void out_hex(struct out *out, uint64_t value)
{
	char text[16];
	unsigned at = sizeof(text);

	do {
		text[--at] = "0123456789abcdef"[value & 15];
		value >>= 4;
	} while (value);
	out_bytes(out, text + at, sizeof(text) - at);
}

void out_format(struct out *out, const char *format, ...)
{
	char text[512];
	char *large = NULL;
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (len < 0)
		return;
	if ((size_t)len < sizeof(text)) {
		out_bytes(out, text, (size_t)len);
		return;
	}
	va_start(args, format);
	len = vasprintf(&large, format, args);
	va_end(args);
	if (len < 0)
		return;
	out_bytes(out, large, (size_t)len);
	free(large);
}

void out_column(struct out *out, const char *text, unsigned width, bool right)
{
	unsigned columns = 0;
	size_t bytes = 0;

	for (; text[bytes]; bytes++) {
		bool starts = ((unsigned char)text[bytes] & 0xc0) != 0x80;

		if (starts && columns == width)
			break;
		columns += starts;
	}
	if (right)
		out_spaces(out, width - columns);
	out_bytes(out, text, bytes);
	if (!right)
		out_spaces(out, width - columns);
}

void out_label(struct out *out, const char *label, char between, unsigned width, bool right)
{
	const char *id = strrchr(label, between);
	size_t length = strlen(label), id_length = id ? strlen(id) : 0, keep;
	char text[512];

	if (length >= sizeof(text) || length <= width || !id) {
		out_column(out, label, width, right);
		return;
	}
	keep = width > id_length + 1 ? width - id_length : 1;
	while (keep && (label[keep] & 0xc0) == 0x80)
		keep--; /* no half characters */
	snprintf(text, sizeof(text), "%.*s%s", (int)keep, label, id);
	out_column(out, text, width > id_length ? width : (unsigned)(keep + id_length), right);
}
