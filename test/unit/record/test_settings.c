/*
 * Settings as words: the values that options take, the changes of a session's settings, and that printed settings can
 * be set again.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <calltap/abi/profile.h>
#include <host/elf/filter.h>
#include <host/hook/triggers.h>
#include <host/instance/settings.h>
#include <tracers/tracer.h>

static void start(struct settings *settings)
{
	*settings = (struct settings){
		.options = {.size = sizeof(settings->options), .tracer = tracer_at(0), .buffer_bytes = 4u << 20},
		.tracing = true,
	};
	assert_int_equal(filter_set_create(&settings->options.filters), 0);
}

static void stop(struct settings *settings)
{
	filter_set_destroy(settings->options.filters);
}

static char *print(const struct settings *settings)
{
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	settings_print(settings, stream);
	fclose(stream);
	return text;
}

/* Change by words as they are typed, "a=b c+=d"; *settings gets the new ones when that goes well. */
static int change(struct settings *settings, const char *words, struct calltap_diag *diag)
{
	struct setting_change changes[16];
	struct settings next;
	char *copy = strdup(words), *rest = copy, *word;
	size_t count = 0;
	int ret;

	while ((word = strsep(&rest, " ")))
		assert_int_equal(setting_parse(&changes[count++], word), 0);
	ret = settings_change(&next, settings, changes, count, diag);
	if (!ret) {
		filter_set_destroy(settings->options.filters);
		*settings = next;
	}
	free(copy);
	return ret;
}

static void options(void **state)
{
	struct settings settings;
	struct calltap_diag diag = {0};

	(void)state;
	start(&settings);
	assert_int_equal(setting_take(&settings, "tracer", "function", &diag), 0);
	assert_int_equal(setting_take(&settings, "buffer", "64K", &diag), 0);
	assert_int_equal(setting_take(&settings, "mode", "drop", &diag), 0);
	assert_int_equal(setting_take(&settings, "max-depth", "3", &diag), 0);
	assert_int_equal(setting_take(&settings, "threshold", "1.5ms", &diag), 0);
	assert_int_equal(setting_take(&settings, "trace", "a*", &diag), 0);
	assert_int_equal(setting_take(&settings, "trace", "b", &diag), 0);
	assert_string_equal(settings.options.tracer->name, "function");
	assert_int_equal(settings.options.buffer_bytes, 64 << 10);
	assert_int_equal(settings.options.mode, CALLTAP_MODE_DROP);
	assert_int_equal(settings.options.depth_max, 3);
	assert_int_equal(settings.options.threshold_ns, 1500000);
	assert_int_equal(settings_refuse(&settings.options, false, &diag), -EINVAL);
	assert_int_equal(setting_take(&settings, "tracer", "function_graph", &diag), 0);
	assert_int_equal(settings_refuse(&settings.options, false, &diag), 0);
	stop(&settings);
}

static void what_cannot_be_together(void **state)
{
	static const struct {
		const char *tracer;
		unsigned mode;
		const char *filter, *dir;
		uint32_t depth;
		bool triggers, snapshot, emulated;
		const char *text; /* begin of the sentence; NULL = all fits */
	} pairs[] = {
		{"function_graph", CALLTAP_MODE_DROP, "graph", NULL, 3, true, false, false, NULL},
		{"function_graph", CALLTAP_MODE_OVERWRITE, "graph", "/dev/shm", 3, true, true, false, NULL},
		{"function", CALLTAP_MODE_OVERWRITE, "trace", "/dev/shm", 0, false, false, true, NULL},
		{"profile", CALLTAP_MODE_PROFILE, "no-graph", NULL, 3, false, false, true, NULL},
		{"nop", CALLTAP_MODE_DROP, "notrace", NULL, 0, false, false, true, NULL},
		{"function", CALLTAP_MODE_DROP, "graph", NULL, 0, false, false, false, "graph, no-graph"},
		{"function", CALLTAP_MODE_DROP, "no-graph", NULL, 0, false, false, false, "graph, no-graph"},
		{"nop", CALLTAP_MODE_DROP, "trace", NULL, 1, false, false, false, "graph, no-graph"},
		{"profile", CALLTAP_MODE_DROP, "trace", NULL, 0, false, false, false, "the tracer profile"},
		{"function", CALLTAP_MODE_DROP, "trace", NULL, 0, true, false, false, "triggers need"},
		{"profile", CALLTAP_MODE_PROFILE, "trace", NULL, 0, true, false, false, "triggers need"},
		{"function_graph", CALLTAP_MODE_BLOCK, "trace", NULL, 0, true, true, false, "a snapshot is"},
		{"function_graph", CALLTAP_MODE_DROP, "trace", "/dev/shm", 0, false, false, false, "--buffer-dir"},
		{"function_graph", CALLTAP_MODE_DROP, "trace", NULL, 0, true, false, true, "triggers are for"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		struct calltap_diag diag = {0};
		struct settings settings;
		int ret;

		start(&settings);
		settings.options.tracer = tracer_find(pairs[i].tracer);
		settings.options.mode = pairs[i].mode;
		settings.options.buffer_dir = pairs[i].dir;
		settings.options.depth_max = pairs[i].depth;
		assert_int_equal(setting_take(&settings, pairs[i].filter, "f", &diag), 0);
		if (pairs[i].triggers) {
			assert_int_equal(triggers_create(&settings.options.triggers), 0);
			assert_int_equal(triggers_add(settings.options.triggers,
						      pairs[i].snapshot ? TRIGGER_SNAPSHOT : TRIGGER_STACK, "f left",
						      &diag),
					 0);
		}
		ret = settings_refuse(&settings.options, pairs[i].emulated, &diag);
		assert_int_equal(ret != 0, pairs[i].text != NULL);
		if (pairs[i].text && strncmp(diag.text, pairs[i].text, strlen(pairs[i].text)) != 0)
			fail_msg("%zu: %s", i, diag.text);
		triggers_destroy(settings.options.triggers);
		stop(&settings);
	}
}

static void wrong_options(void **state)
{
	static const char *const wrong[][3] = {
		{"buffer", "1K", "buffer size '1K' is not valid; give 8K to 1G, such as 4M"},
		{"buffer", "2G", "buffer size '2G' is not valid; give 8K to 1G, such as 4M"},
		{"buffer", "4X", "buffer size '4X' is not valid; give 8K to 1G, such as 4M"},
		{"buffer", "nan", "buffer size 'nan' is not valid; give 8K to 1G, such as 4M"},
		{"max-depth", "0", "depth '0' is not valid; give a number from 1"},
		{"max-depth", "-1", "depth '-1' is not valid; give a number from 1"},
		{"threshold", "-1us", "threshold '-1us' is not valid; give a time such as 10us or 1ms"},
		{"threshold", "2h", "threshold '2h' is not valid; give a time such as 10us or 1ms"},
		{"mode", "fast", "mode 'fast' is not valid; it is block, drop or overwrite"},
		{"tracing", "yes", "tracing 'yes' is not valid; it is on or off"},
		{"time", "rough", "time 'rough' is not valid; it is exact or adaptive"},
		{"time-short", "0", "time-short '0' is not valid; give a time such as 1us or 500ns"},
		{"time-sample", "65536", "time-sample '65536' is not valid; give a number from 1 to 65535"},
	};
	struct settings settings;

	(void)state;
	start(&settings);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct calltap_diag diag = {0};

		assert_int_equal(setting_take(&settings, wrong[i][0], wrong[i][1], &diag), -EINVAL);
		assert_string_equal(diag.text, wrong[i][2]);
		assert_int_equal(diag.input[0], 0);
	}
	stop(&settings);
}

static void changes(void **state)
{
	static const char first[] = "tracing=on\ntracer=function_graph\nmode=block\nbuffer=4M\nmax-depth=\nthreshold=\n"
				    "time=exact\ntime-short=\ntime-sample=\ntrace=\nnotrace=\ngraph=\nno-graph=\n";
	static const char second[] = "tracing=off\ntracer=function_graph\nmode=block\nbuffer=96K\nmax-depth=2\n"
				     "threshold=10us\ntime=exact\ntime-short=\ntime-sample=\ntrace=a\ntrace+="
				     "b\nnotrace=\ngraph=lib:c\nno-graph=\n";
	struct settings settings;
	struct calltap_diag diag = {0};
	char *text;

	(void)state;
	start(&settings);
	text = print(&settings);
	assert_string_equal(text, first);
	free(text);
	assert_int_equal(change(&settings,
				"tracing=off trace+=a trace+=b graph=x graph=lib:c max-depth=2 threshold=10us "
				"buffer=96K notrace=z notrace=",
				&diag),
			 0);
	text = print(&settings);
	assert_string_equal(text, second);
	free(text);
	assert_int_equal(change(&settings, "trace= graph= max-depth= threshold=0 tracing=on buffer=4M", &diag), 0);
	text = print(&settings);
	assert_string_equal(text, first);
	free(text);
	stop(&settings);
}

/* Printed settings, parsed again, give the same settings. */
static void round_trip(void **state)
{
	struct settings settings, other;
	struct calltap_diag diag = {0};
	char *text, *again;

	(void)state;
	start(&settings);
	start(&other);
	assert_int_equal(change(&settings,
				"trace=a trace+=b max-depth=7 threshold=1500ns buffer=97K no-graph=/x=y/ mode=drop",
				&diag),
			 0);
	text = print(&settings);
	for (char *rest = text, *line; (line = strsep(&rest, "\n")) && *line; line[strlen(line)] = rest ? '\n' : 0) {
		if (change(&other, line, &diag))
			fail_msg("%s: %s", line, diag.text);
	}
	again = print(&other);
	assert_string_equal(again, text);
	/* Nor has what is printed less than what was set. */
	assert_int_equal(other.options.threshold_ns, settings.options.threshold_ns);
	assert_int_equal(other.options.buffer_bytes, settings.options.buffer_bytes);
	assert_int_equal(other.options.depth_max, settings.options.depth_max);
	assert_int_equal(other.options.mode, settings.options.mode);
	free(again);
	free(text);
	stop(&settings);
	stop(&other);
}

/* What says how to be adaptive stays while a recording is exact, and what makes adaptive vain is refused. */
static void times(void **state)
{
	static const char adaptive[] =
		"tracing=on\ntracer=function_graph\nmode=block\nbuffer=4M\nmax-depth=\nthreshold=\n"
		"time=adaptive\ntime-short=2us\ntime-sample=256\ntrace=\nnotrace=\ngraph=\n"
		"no-graph=\n";
	static const char *const vain[] = {"threshold=1us", "max-depth=3", "time=adaptive threshold=1us"};
	struct settings settings;
	struct calltap_diag diag = {0};
	char *text;

	(void)state;
	start(&settings);
	assert_int_equal(change(&settings, "time=adaptive time-short=2us time-sample=7", &diag), 0);
	assert_int_equal(change(&settings, "time=exact time-sample=", &diag), 0);
	assert_false(settings.options.adaptive);
	assert_int_equal(settings.options.short_ns, 2000);
	assert_int_equal(change(&settings, "time=adaptive", &diag), 0);
	text = print(&settings);
	assert_string_equal(text, adaptive);
	free(text);
	for (size_t i = 0; i < sizeof(vain) / sizeof(vain[0]); i++) {
		assert_int_equal(change(&settings, vain[i], &diag), -EINVAL);
		assert_non_null(strstr(diag.text, "would have no effect"));
	}
	assert_int_equal(change(&settings, "time=exact threshold=1us max-depth=3", &diag), 0);
	/* The sums of profile know of a depth, but not how long a short call takes. */
	settings.options.tracer = tracer_find("profile");
	settings.options.mode = CALLTAP_MODE_PROFILE;
	assert_int_equal(change(&settings, "time=adaptive threshold=", &diag), 0);
	assert_int_equal(change(&settings, "threshold=1us", &diag), -EINVAL);
	stop(&settings);
}

static void wrong_changes(void **state)
{
	static const struct {
		const char *words, *text, *input;
		int column;
	} wrong[] = {
		{"tracing=on threshold=10xs", "threshold '10xs' is not valid; give a time such as 10us or 1ms",
		 "threshold=10xs", 10},
		{"max-depth+=3", "max-depth has one value; write max-depth=3", "max-depth+=3", 11},
		{"trace+=ab[c", NULL, "trace+=ab[c", 9},
		{"colour=red",
		 "'colour' is no setting; there are tracing, tracer, mode, buffer, max-depth, threshold, time, "
		 "time-short, time-sample, trace, notrace, graph and no-graph, and of a session "
		 "that runs args, result, if, only-if, auto-args and registers",
		 "colour=red", 0},
		{"tracer=function max-depth=3",
		 "graph, no-graph, max-depth and threshold need the tracer function_graph; leave them out (`calltap "
		 "set` "
		 "takes away one that is set: max-depth=)",
		 "", -1},
	};
	struct settings settings;
	char *before, *after;

	(void)state;
	start(&settings);
	before = print(&settings);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct calltap_diag diag = {0};

		assert_int_equal(change(&settings, wrong[i].words, &diag), -EINVAL);
		if (wrong[i].text)
			assert_string_equal(diag.text, wrong[i].text);
		assert_string_equal(diag.input, wrong[i].input);
		assert_int_equal(diag.column, wrong[i].column);
	}
	after = print(&settings);
	assert_string_equal(after, before);
	free(before);
	free(after);
	stop(&settings);
}

static void words(void **state)
{
	static const char *const wrong[] = {"", "tracing", "=on", "+=on", "+"};
	struct setting_change change;
	char text[32];

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(text, sizeof(text), "%s", wrong[i]);
		assert_int_equal(setting_parse(&change, text), -EINVAL);
	}
	snprintf(text, sizeof(text), "trace+=/a+=b/");
	assert_int_equal(setting_parse(&change, text), 0);
	assert_string_equal(change.key, "trace");
	assert_string_equal(change.value, "/a+=b/");
	assert_true(change.append);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options),	 cmocka_unit_test(what_cannot_be_together),
		cmocka_unit_test(wrong_options), cmocka_unit_test(changes),
		cmocka_unit_test(round_trip),	 cmocka_unit_test(wrong_changes),
		cmocka_unit_test(words),	 cmocka_unit_test(times),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
