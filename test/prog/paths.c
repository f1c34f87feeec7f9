/*
 * Values that are some steps away from the argument, for paths (test/e2e/paths.py): what is on the way is another one
 * at each call, and is logged as the reader shows it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "truth.h"

struct command {
	const char *fullname;
	char kind[8];
	int flags : 5, level : 7;
	double weight;
};

struct item {
	unsigned type : 4;
	void *text;
	struct item *next;
};

typedef struct {
	int x;
	struct {
		short low, high;
	};
	long grid[4];
} shape;

struct client {
	char room[200]; /* farther than a structure is shown */
	const struct command *command;
	struct item **items;
	shape shapes[3], *others;
	int numbers[];
};

TRACED int handle(struct client *c, int number)
{
	return number + (c->command != NULL);
}

TRACED struct client *find(struct client *c)
{
	return c->items ? c : NULL;
}

int main(void)
{
	static const struct command commands[] = {{"get", "reads", 3, -5, 0.5}, {"set", "writes", -1, 40, 2.25}, {0}};
	struct client *c = calloc(1, sizeof(*c) + 4 * sizeof(c->numbers[0]));
	struct item list[3] = {{1, "one", NULL}, {2, "two", &list[0]}, {3, "three", &list[1]}};
	struct item *items[3] = {&list[0], &list[1], &list[2]};
	shape others[2] = {{7, {1, 2}, {1, 2, 3, 4}}, {8, {3, 4}, {5, 6, 7, 8}}};

	c->items = items;
	c->others = others;
	for (int i = 0; i < 6; i++) {
		c->command = i % 3 < 2 ? &commands[i % 3] : NULL;
		c->shapes[1].high = (short)(i - 3);
		c->shapes[2].grid[3] = 1000l * i;
		others[1].x = 100 + i;
		c->numbers[2] = 5 * i;
		c->items = i == 5 ? NULL : items;
		printf("%d %s %s %.17g %d %d %d %ld %d %d %s\n", i, c->command ? c->command->fullname : "-",
		       c->command ? c->command->kind : "-", c->command ? c->command->weight : 0,
		       c->command ? c->command->flags : 0, c->command ? c->command->level : 0, c->shapes[1].high,
		       c->shapes[2].grid[3], c->others[1].x, c->numbers[2],
		       c->items ? (char *)c->items[2]->next->text : "-");
		if (handle(c, i) != i + (i % 3 < 2) || find(c) != (i == 5 ? NULL : c))
			return 1;
	}
	free(c);
	return 0;
}
