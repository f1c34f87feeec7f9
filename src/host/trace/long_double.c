/*
 * A long double as text (long_double.h): its digits one by one, from the exact number, until those that there are read
 * back as the number.
 * Sources: Steele and White, How to Print Floating-Point Numbers Accurately (1990); IEEE 754-2019, 3.4; Intel 64 and
 * IA-32 Architectures Software Developer's Manual, volume 1, 4.2.2.
 *
 * Context: host.  Pure.
 */
#include <stdio.h>
#include <string.h>

#include "long_double.h"

#define WORDS	   540u /* of numbers up to 2^17280; the largest is below 2^16700 */
#define DIGITS_MAX 40u
#define BIAS	   16383

/* An integer. */
struct big {
	uint32_t words[WORDS]; /* the lowest first; those behind `count` are 0 */
	uint32_t count;
};

static void big_set(struct big *out, uint64_t high, uint64_t low)
{
	memset(out, 0, sizeof(*out));
	out->words[0] = (uint32_t)low;
	out->words[1] = (uint32_t)(low >> 32);
	out->words[2] = (uint32_t)high;
	out->words[3] = (uint32_t)(high >> 32);
	out->count = 4;
}

static void big_multiply(struct big *big, uint32_t by)
{
	uint64_t carry = 0;

	for (uint32_t i = 0; i < big->count; i++) {
		carry += (uint64_t)big->words[i] * by;
		big->words[i] = (uint32_t)carry;
		carry >>= 32;
	}
	if (carry && big->count < WORDS)
		big->words[big->count++] = (uint32_t)carry;
}

static void big_raise(struct big *big, uint32_t by, uint32_t power)
{
	for (; power; power--)
		big_multiply(big, by);
}

static void big_multiply_ten(struct big *big, uint32_t power)
{
	big_raise(big, 1000000000u, power / 9);
	big_raise(big, 10, power % 9);
}

static void big_shift(struct big *big, uint32_t bits)
{
	uint32_t words = bits / 32;

	big_multiply(big, 1u << bits % 32);
	if (words > WORDS - big->count)
		words = WORDS - big->count;
	memmove(big->words + words, big->words, big->count * sizeof(big->words[0]));
	memset(big->words, 0, words * sizeof(big->words[0]));
	big->count += words;
}

static int big_compare(const struct big *one, const struct big *other)
{
	uint32_t count = one->count > other->count ? one->count : other->count;

	for (uint32_t i = count; i-- > 0;)
		if (one->words[i] != other->words[i])
			return one->words[i] < other->words[i] ? -1 : 1;
	return 0;
}

static void big_add(struct big *big, const struct big *other)
{
	uint64_t carry = 0;

	if (big->count < other->count)
		big->count = other->count;
	for (uint32_t i = 0; i < big->count; i++) {
		carry += (uint64_t)big->words[i] + other->words[i];
		big->words[i] = (uint32_t)carry;
		carry >>= 32;
	}
	if (carry && big->count < WORDS)
		big->words[big->count++] = (uint32_t)carry;
}

/* The other is not larger. */
static void big_subtract(struct big *big, const struct big *other)
{
	int64_t carry = 0;

	for (uint32_t i = 0; i < big->count; i++) {
		carry += (int64_t)big->words[i] - other->words[i];
		big->words[i] = (uint32_t)carry;
		carry >>= 32;
	}
}

/* A number: significand times 2^exponent. */
struct number {
	bool negative, infinite, none;
	uint64_t high, low; /* of the significand */
	int32_t exponent;
	bool boundary; /* the next smaller one is half as far away as the next larger one */
	uint32_t sure; /* decimal digits that each number of the format keeps */
};

static struct number take_apart(const unsigned char *bytes, uint32_t size)
{
	struct number number = {.sure = size == LONG_DOUBLE_X87 ? 18 : 33};
	int32_t bits = size == LONG_DOUBLE_X87 ? 63 : 112, exponent;
	uint64_t one = size == LONG_DOUBLE_X87 ? 0 : UINT64_C(1) << 48;
	uint16_t top;

	memcpy(&number.low, bytes, sizeof(number.low));
	memcpy(&top, bytes + size - sizeof(top), sizeof(top));
	if (size == LONG_DOUBLE_QUAD) {
		memcpy(&number.high, bytes + 8, 6);
	}
	exponent = top & 0x7fff;
	number.negative = top >> 15;
	if (exponent == 0x7fff) {
		number.infinite = !number.high && !(size == LONG_DOUBLE_X87 ? number.low << 1 : number.low);
		number.none = !number.infinite;
	}
	/* x86 has bit patterns that no operation makes, nor takes. */
	if (size == LONG_DOUBLE_X87 && exponent && !(number.low >> 63))
		number.none = true;
	number.boundary = exponent > 1 && !number.high && !(size == LONG_DOUBLE_X87 ? number.low << 1 : number.low);
	if (exponent)
		number.high |= one;
	number.exponent = (exponent ? exponent : 1) - BIAS - bits;
	return number;
}

static uint32_t bits_of(const struct number *number)
{
	uint64_t word = number->high ? number->high : number->low;
	uint32_t bits = number->high ? 64 : 0;

	for (; word; word >>= 1)
		bits++;
	return bits;
}

/* The number is `rest` / `whole`; one that differs by less than `below` / `whole`, or `above` / `whole`, is this one.
 */
struct digits {
	struct big rest, whole, below, above, scratch[2];
	bool even; /* or by as much */
};

/* 10^power is the smallest power of ten that is larger than the number; returns `power`. */
static int32_t begin(struct digits *digits, const struct number *number)
{
	uint32_t up = number->exponent > 0 ? (uint32_t)number->exponent : 0;
	uint32_t down = number->exponent < 0 ? (uint32_t)-number->exponent : 0;
	/* The number is 2^twos or more, and log10(2) is a little more than 0.30102: so `power` is not too large. */
	int64_t twos = (int64_t)number->exponent + bits_of(number) - 1;
	int32_t power = (int32_t)(twos * 30102 / 100000) - 1;

	digits->even = !(number->low & 1);
	big_set(&digits->rest, number->high, number->low);
	big_shift(&digits->rest, up + 2);
	big_set(&digits->whole, 0, 1);
	big_shift(&digits->whole, down + 2);
	big_set(&digits->above, 0, 2);
	big_shift(&digits->above, up);
	big_set(&digits->below, 0, number->boundary ? 1 : 2);
	big_shift(&digits->below, up);
	if (power >= 0) {
		big_multiply_ten(&digits->whole, (uint32_t)power);
	} else {
		big_multiply_ten(&digits->rest, (uint32_t)-power);
		big_multiply_ten(&digits->above, (uint32_t)-power);
		big_multiply_ten(&digits->below, (uint32_t)-power);
	}
	while (big_compare(&digits->rest, &digits->whole) >= 0) {
		big_multiply(&digits->whole, 10);
		power++;
	}
	return power;
}

/* Take the next digit; true: with it, or with one that is larger by 1 (*up), the number is told. */
static bool next_digit(struct digits *digits, char *digit, bool *up)
{
	struct big *twice = &digits->scratch[0], *left = &digits->scratch[1];
	int order, edge;

	big_multiply(&digits->rest, 10);
	big_multiply(&digits->above, 10);
	big_multiply(&digits->below, 10);
	for (*digit = '0'; big_compare(&digits->rest, &digits->whole) >= 0; ++*digit)
		big_subtract(&digits->rest, &digits->whole);
	*twice = digits->rest;
	big_add(twice, &digits->rest);
	order = big_compare(twice, &digits->whole);
	*up = order > 0 || (!order && *digit & 1);
	*left = digits->whole;
	big_subtract(left, &digits->rest);
	edge = *up ? big_compare(left, &digits->above) : big_compare(&digits->rest, &digits->below);
	return edge < 0 || (!edge && digits->even);
}

/* All digits; returns the power of ten that the number is below. */
static int32_t take_digits(char out[DIGITS_MAX + 1], const struct number *number)
{
	struct digits digits;
	int32_t power = begin(&digits, number);
	uint32_t count = 0;
	bool up = false, last = false;

	while (!last && count < DIGITS_MAX)
		last = next_digit(&digits, &out[count++], &up);
	/* 999 and 1 more is 1 of the next power. */
	while (up && count && out[count - 1] == '9')
		count--;
	if (up && count) {
		out[count - 1]++;
	} else if (up) {
		out[count++] = '1';
		power++;
	}
	while (count > 1 && out[count - 1] == '0')
		count--;
	out[count] = 0;
	return power;
}

void long_double_text(char text[LONG_DOUBLE_TEXT], const unsigned char *bytes, uint32_t size)
{
	const struct number number = take_apart(bytes, size);
	const char *sign = number.negative ? "-" : "";
	char digits[DIGITS_MAX + 1];
	int32_t power, all;

	if (number.none || number.infinite || (!number.high && !number.low)) {
		/* The sign of what is no number says nothing. */
		snprintf(text, LONG_DOUBLE_TEXT, "%s%s", number.none ? "" : sign,
			 number.none	   ? "nan"
			 : number.infinite ? "inf"
					   : "0.0");
		return;
	}
	power = take_digits(digits, &number);
	all = (int32_t)strlen(digits);
	if (power - 1 < -4 || power > (all > (int32_t)number.sure ? all : (int32_t)number.sure))
		snprintf(text, LONG_DOUBLE_TEXT, "%s%c%s%se%+03d", sign, digits[0], all > 1 ? "." : "", digits + 1,
			 power - 1);
	else if (power <= 0)
		snprintf(text, LONG_DOUBLE_TEXT, "%s0.%.*s%s", sign, -power, "0000", digits);
	else if (all > power)
		snprintf(text, LONG_DOUBLE_TEXT, "%s%.*s.%s", sign, power, digits, digits + power);
	else
		snprintf(text, LONG_DOUBLE_TEXT, "%s%s%.*s.0", sign, digits, power - all,
			 "0000000000000000000000000000000000000000");
}
