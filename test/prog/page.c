/* Calls of all lengths, for the page of `calltap html`: threads, recursion, and names that a test makes hostile.
   Arguments: rounds of each thread. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#define KEEP	__attribute__((noinline, noclone))
#define THREADS 3
#define NAMES	3

static volatile long sink;

KEEP void page_leaf(int turns)
{
	for (int i = 0; i < turns; i++)
		sink += i;
}

KEEP int page_descend(int depth)
{
	if (depth)
		page_descend(depth - 1);
	page_leaf(depth);
	return depth;
}

/* The test writes other names of this length over these two. */
KEEP void page_hostile_name_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa(void)
{
	sink++;
}

KEEP void page_hostile_name_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb(void)
{
	sink++;
}

/* A name of ten thousand letters. */
#define TEN(text) text text text text text text text text text text
KEEP void page_long(void) __asm__("page_long_" TEN(TEN(TEN("abcdefghij"))));
void page_long(void)
{
	sink++;
}

KEEP void page_told(const char *text, int number)
{
	sink += text[0] + number;
}

KEEP void page_round(int round)
{
	for (int i = 0; i < 6; i++)
		page_leaf(i * 5);
	page_descend(4);
	if (round % 100 == 0)
		page_descend(round / 100 % 40);
	if (round % 1000 == 0)
		page_leaf(20000);
}

static void *work(void *argument)
{
	prctl(PR_SET_NAME, "</script><b>");
	for (long i = 0; i < (long)argument; i++)
		page_round((int)i);
	return NULL;
}

int main(int argc, char **argv)
{
	static const char *const texts[NAMES] = {"</script><script>document.title='broken'</script>",
						 "\xff\xfe\x1b[31m\xe2\x80\xae\n<img src=x onerror=alert(1)>",
						 "&lt;\"'`${1}]]>-->"};
	long rounds = argc > 1 ? atol(argv[1]) : 100;
	pthread_t threads[THREADS];

	for (int i = 0; i < NAMES; i++)
		page_told(texts[i], i);
	page_hostile_name_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa();
	page_hostile_name_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb();
	page_long();
	for (int i = 0; i < THREADS; i++) {
		if (pthread_create(&threads[i], NULL, work, (void *)(rounds * (i + 1))))
			return 1;
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	puts("done");
	return 0;
}
