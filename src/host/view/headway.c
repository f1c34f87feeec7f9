/*
 * The line that says how far a reading is (headway.h).  Context: host.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../now.h"
#include "headway.h"

#define DELAY_NS 1000000000u
#define GAP_NS	 200000000u /* between two texts */
#define WIDTH	 60
#define STEP	 4096u /* steps between two looks at the clock */

void headway_start(struct headway *headway)
{
	const char *delay = getenv("CALLTAP_PROGRESS_DELAY");
	char *end = NULL;
	double seconds = delay ? strtod(delay, &end) : 0;

	memset(headway, 0, sizeof(*headway));
	headway->on = isatty(STDERR_FILENO);
	headway->passes = 1;
	headway->start_ns = now_ns();
	headway->delay_ns = end && end != delay && seconds >= 0 && seconds < 1e6 ? (uint64_t)(seconds * 1e9) : DELAY_NS;
}

/* Write over what the line has. */
static void write_line(struct headway *headway, const char *text)
{
	fprintf(stderr, "\r%-*s%s", WIDTH, text, *text ? "" : "\r");
	fflush(stderr);
	headway->shown = *text != '\0';
}

static double part_of(const struct headway *headway)
{
	double part = headway->total ? (double)headway->done / (double)headway->total : 0;

	part = part < 1 ? part : 1;
	return (headway->pass + part) / headway->passes;
}

static void tell(struct headway *headway, uint64_t now)
{
	const double part = part_of(headway);
	const double left = part > 0 ? (double)(now - headway->begun_ns) / 1e9 * (1 - part) / part : 0;
	char text[WIDTH + 1];

	if (!headway->total)
		snprintf(text, sizeof(text), "calltap: %s", headway->what);
	else if (part < 0.02 || left < 1)
		snprintf(text, sizeof(text), "calltap: %s: %.0f %%", headway->what, part * 100);
	else
		snprintf(text, sizeof(text), "calltap: %s: %.0f %%, %.0f s to go", headway->what, part * 100, left);
	write_line(headway, text);
	headway->told_ns = now;
}

void headway_begin_pass(struct headway *headway, const char *what, uint64_t total, unsigned pass, unsigned passes)
{
	const uint64_t now = headway && headway->on ? now_ns() : 0;

	if (!headway || !headway->on || headway->held)
		return;
	headway->what = what;
	headway->total = total;
	headway->done = headway->look_at = 0;
	headway->pass = pass;
	headway->passes = passes;
	if (!pass)
		headway->begun_ns = now;
	if (now - headway->start_ns >= headway->delay_ns)
		tell(headway, now);
}

void headway_begin(struct headway *headway, const char *what, uint64_t total)
{
	headway_begin_pass(headway, what, total, 0, 1);
}

void headway_look(struct headway *headway)
{
	uint64_t now;

	headway->look_at = headway->done + STEP;
	now = now_ns();
	if (now - headway->start_ns >= headway->delay_ns && now - headway->told_ns >= GAP_NS)
		tell(headway, now);
}

void headway_hold(struct headway *headway)
{
	if (headway)
		headway->held++;
}

void headway_release(struct headway *headway)
{
	if (headway)
		headway->held--;
}

void headway_end(struct headway *headway)
{
	if (!headway)
		return;
	if (headway->shown)
		write_line(headway, "");
	headway->on = false;
}
