/*
 * The target's clock (clock.h).  Context: host.
 */
#include <native.h>

#include <host/now.h>

#include "clock.h"

#define TRIES	 5
#define BASE_MIN 5000000.0 /* ns between the first and the last pair: below, the CPU's word is the better one */
/* Clocks between 1 kHz and 100 GHz are believed. */
#define RATE_MIN 1e-6
#define RATE_MAX 100.0

uint64_t clock_now_ns(void)
{
	return now_ns();
}

/* The best of a few tries: the one whose two counter reads lie closest. */
struct calltap_file_clock clock_sample(void)
{
	struct calltap_file_clock best = {0};
	uint64_t best_width = UINT64_MAX;

	for (int i = 0; i < TRIES; i++) {
		uint64_t before = native_clock(), mono = now_ns(), after = native_clock();

		if (after - before >= best_width)
			continue;
		best_width = after - before;
		best.ticks = before + best_width / 2;
		best.mono_ns = mono;
		best.real_ns = now_real_ns();
	}
	return best;
}

double clock_ticks_per_ns(unsigned calibrate_ms)
{
	struct calltap_file_clock a = clock_sample(), b;
	struct timespec pause = {0, (long)calibrate_ms * 1000000};

	nanosleep(&pause, NULL);
	b = clock_sample();
	return (double)(b.ticks - a.ticks) / (double)(b.mono_ns - a.mono_ns);
}

bool clock_line_add(struct clock_line *line, uint64_t ticks, uint64_t ns)
{
	double x, y, off;

	if (line->count && (ticks <= line->last_ticks || ns <= line->last_ns))
		return false;
	if (!line->count) {
		line->first_ticks = ticks;
		line->first_ns = ns;
	}
	line->last_ticks = ticks;
	line->last_ns = ns;
	line->count++;
	/* Welford's way: no sum gets so large that differences drown in it. */
	x = (double)(ns - line->first_ns);
	y = (double)(ticks - line->first_ticks);
	off = x - line->mean_ns;
	line->mean_ns += off / line->count;
	line->mean_ticks += (y - line->mean_ticks) / line->count;
	line->spread_ns += off * (x - line->mean_ns);
	line->spread_ticks += off * (y - line->mean_ticks);
	return true;
}

double clock_line_rate(const struct clock_line *line)
{
	double rate = (double)line->hz / 1e9;

	if (line->count > 1 && ((double)(line->last_ns - line->first_ns) >= BASE_MIN || !line->hz))
		rate = line->spread_ticks / line->spread_ns;
	return rate >= RATE_MIN && rate <= RATE_MAX ? rate : 0;
}

uint64_t clock_line_ticks(const struct clock_line *line, uint64_t ns)
{
	double rate = clock_line_rate(line), ticks;

	if (rate == 0 || !line->count)
		return line->last_ticks;
	ticks = line->mean_ticks + ((double)(int64_t)(ns - line->first_ns) - line->mean_ns) * rate;
	if (!(ticks > -0x1p63 && ticks < 0x1p63))
		return line->last_ticks; /* nonsense in, and none out */
	/* Only the difference is a double: a counter may have more digits. */
	if (ticks < 0)
		return (uint64_t)-ticks < line->first_ticks ? line->first_ticks - (uint64_t)-ticks : 0;
	return line->first_ticks + (uint64_t)ticks;
}
