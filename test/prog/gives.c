/*
 * gives: functions whose arguments and results are of all kinds, each called with the same numbers again and again
 * until SIGTERM; each call's result is checked.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SHOWN __attribute__((noipa))

enum colour { RED, GREEN = 7 };

struct point {
	int x, y;
};

static volatile sig_atomic_t ended;
volatile long turns;
const char letters[] = "letters";
struct point corner = {3, -4};

SHOWN int give_error(void)
{
	turns++;
	return -2;
}

SHOWN int give_number(int number)
{
	turns++;
	return number;
}

SHOWN long give_long(long number)
{
	turns++;
	return number;
}

SHOWN short give_short(short number)
{
	turns++;
	return number;
}

SHOWN uint32_t give_word(uint32_t word, unsigned char byte)
{
	turns++;
	return word + byte;
}

SHOWN const char *give_text(const char *text)
{
	turns++;
	return text + 1;
}

SHOWN void *give_null(struct point *point)
{
	turns += point->x;
	return NULL;
}

SHOWN void give_nothing(signed char letter, bool truth)
{
	turns += letter + truth;
}

SHOWN double give_half(double number, float more)
{
	turns++;
	return number / 2 + (double)more;
}

SHOWN enum colour give_colour(enum colour colour)
{
	turns++;
	return colour;
}

SHOWN struct point give_point(struct point point)
{
	turns++;
	return point;
}

SHOWN int give_sum(int a, int b, int c, int d, int e, int f, int g, int h)
{
	turns++;
	return a + b + c + d + e + f + g + h;
}

SHOWN int give_outer(int number)
{
	return give_error() + give_number(number);
}

static void on_term(int signal)
{
	(void)signal;
	ended = 1;
}

static bool give_all(void)
{
	struct point point = give_point(corner);

	give_nothing(-5, true);
	return give_error() == -2 && give_number(-5000) == -5000 && give_long(-22) == -22 && give_short(-7) == -7 &&
	       give_word(0xfffffff0, 200) == 0xb8 && !strcmp(give_text(letters), "etters") && !give_null(&corner) &&
	       give_half(5.0, 0.25f) == 2.75 && give_colour(GREEN) == GREEN && point.y == -4 &&
	       give_sum(1, 2, 3, 4, 5, 6, 7, 8) == 36 && give_outer(12) == 10;
}

int main(void)
{
	const struct timespec pause = {.tv_nsec = 5000000};
	bool well = true;

	signal(SIGTERM, on_term);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (!ended) {
		well &= give_all();
		nanosleep(&pause, NULL);
	}
	puts(well ? "all was well" : "a result was wrong");
	return 42;
}
