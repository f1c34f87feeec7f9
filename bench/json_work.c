/* A JSON parser at work: cJSON parses, prints and frees a text of some 100 KB, N times (default: 100). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cJSON.h"

#define ITEMS 1000

static char *make_text(void)
{
	char *text = malloc(ITEMS * 160 + 16);
	size_t at = 0;

	if (!text)
		exit(1);
	text[at++] = '[';
	for (int i = 0; i < ITEMS; i++)
		at += (size_t)sprintf(
			text + at,
			"%s{\"id\": %d, \"name\": \"item \\u00e9 %d\", \"price\": %d.%02d, \"tags\": [\"a\", \"b\\n\", "
			"null], \"in stock\": %s}",
			i ? ", " : "", i, i * 7919 % 1000, i % 97, i % 100, i % 3 ? "true" : "false");
	text[at++] = ']';
	text[at] = 0;
	return text;
}

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 0) : 100, size = 0;
	char *text = make_text();

	for (unsigned long i = 0; i < rounds; i++) {
		cJSON *json = cJSON_Parse(text);
		char *printed = cJSON_PrintUnformatted(json);

		size += printed ? strlen(printed) : 0;
		free(printed);
		cJSON_Delete(json);
	}
	printf("%lu bytes\n", size);
	free(text);
	return 0;
}
