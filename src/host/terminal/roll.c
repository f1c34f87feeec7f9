/* The newest lines of a text; see roll.h.  Context: host. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "matching.h"

#include "roll.h"

/* Both are rings: a line's place is its number, from 0, in the text. */
struct roll {
	char *lines[ROLL_LINES];
	uint64_t total;		    /* the next line's number */
	uint64_t shown[ROLL_LINES]; /* numbers of lines that pass the filter */
	uint64_t first, end;	    /* of `shown` */
	char filter[ROLL_BYTES];
};

int roll_create(struct roll **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

void roll_destroy(struct roll *roll)
{
	for (size_t i = 0; roll && i < ROLL_LINES; i++)
		free(roll->lines[i]);
	free(roll);
}

static void show_line(struct roll *roll, uint64_t number)
{
	if (matching_name(roll->filter, roll->lines[number % ROLL_LINES]))
		roll->shown[roll->end++ % ROLL_LINES] = number;
}

int roll_add(struct roll *roll, const char *text, size_t size)
{
	char *line = strndup(text, size < ROLL_BYTES ? size : ROLL_BYTES),
	     **place = &roll->lines[roll->total % ROLL_LINES];

	if (!line)
		return -ENOMEM;
	if (roll->first < roll->end && roll->total >= ROLL_LINES &&
	    roll->shown[roll->first % ROLL_LINES] == roll->total - ROLL_LINES)
		roll->first++;
	free(*place);
	*place = line;
	show_line(roll, roll->total++);
	return 0;
}

void roll_filter(struct roll *roll, const char *filter)
{
	uint64_t oldest = roll->total > ROLL_LINES ? roll->total - ROLL_LINES : 0;

	snprintf(roll->filter, sizeof(roll->filter), "%s", filter);
	roll->first = roll->end = 0;
	for (uint64_t number = oldest; number < roll->total; number++)
		show_line(roll, number);
}

size_t roll_count(const struct roll *roll)
{
	return roll->end - roll->first;
}

const char *roll_line(const struct roll *roll, size_t i)
{
	return roll->lines[roll->shown[(roll->first + i) % ROLL_LINES] % ROLL_LINES];
}

uint64_t roll_total(const struct roll *roll)
{
	return roll->total;
}
