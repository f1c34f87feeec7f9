/*
 * Unit tests of the protocol buffer writer; the vectors are those of
 * protobuf.dev's page "Encoding".
 */
#include "support.h"

#include "host/export/protobuf.h"

static void fields_are_encoded_as_documented(void **state)
{
	uint8_t bytes[32], inner_bytes[8];
	struct protobuf to, inner;

	protobuf_begin(&to, bytes, sizeof(bytes));
	protobuf_u64(&to, 1, 150);
	protobuf_text(&to, 2, "testing");
	protobuf_begin(&inner, inner_bytes, sizeof(inner_bytes));
	protobuf_u64(&inner, 1, 150);
	protobuf_message(&to, 3, &inner);
	assert_false(to.full);
	assert_int_equal(to.used, 17);
	assert_memory_equal(bytes, "\x08\x96\x01\x12\x07testing\x1a\x03\x08\x96\x01", 17);
}

static void varints_take_seven_bits_a_byte(void **state)
{
	for (unsigned bits = 0; bits <= 64; bits++) {
		uint64_t value = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1, back = 0;
		uint8_t bytes[10];
		struct protobuf to;

		protobuf_begin(&to, bytes, sizeof(bytes));
		protobuf_varint(&to, value);
		assert_int_equal(to.used, bits ? (bits + 6) / 7 : 1);
		assert_int_equal(to.used, protobuf_varint_size(value));
		for (size_t i = 0; i < to.used; i++) {
			back |= (uint64_t)(bytes[i] & 0x7f) << (7 * i);
			assert_int_equal(bytes[i] >> 7, i + 1 < to.used);
		}
		assert_true(back == value);
	}
}

static void what_does_not_fit_is_refused(void **state)
{
	uint8_t bytes[8] = {0};
	struct protobuf to, outer;
	uint8_t outer_bytes[32];

	protobuf_begin(&to, bytes, 4);
	protobuf_text(&to, 1, "abc");
	assert_true(to.full);
	assert_true(to.used <= 4);
	assert_int_equal(bytes[4], 0);
	protobuf_begin(&outer, outer_bytes, sizeof(outer_bytes));
	protobuf_message(&outer, 1, &to);
	assert_true(outer.full);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_are_encoded_as_documented),
		cmocka_unit_test(varints_take_seven_bits_a_byte),
		cmocka_unit_test(what_does_not_fit_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
