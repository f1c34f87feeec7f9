/*
 * Commands of set_ftrace_filter (commands.h).
 *
 * Grammar, counts, errors and listing are the kernel's.  A glob becomes a command of each function that it matches now.
 * Context: host.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <host/elf/pattern.h>
#include <host/now.h>
#include <host/text.h>

#include "commands.h"
#include "tree.h"

enum action {
	ACTION_TRACEON,
	ACTION_TRACEOFF,
	ACTION_SNAPSHOT,
	ACTION_STACKTRACE,
	ACTION_DUMP,
	ACTION_CPUDUMP,
	ACTIONS
};

static const char *const actions[ACTIONS] = {"traceon", "traceoff", "snapshot", "stacktrace", "dump", "cpudump"};

struct command {
	char *symbol, *object; /* object: name of its file */
	bool program;	       /* the object is a program */
	bool counted;
	uint64_t count;	   /* how often it is carried out yet, where that is counted */
	uint64_t since_ns; /* calls that are older have nothing to do with it */
	enum action action;
};

struct commands {
	struct command *list;
	size_t count;
};

struct tree_commands {
	struct commands commands;
	struct tree_instance *gate; /* NULL = there are no commands */
	/* Is the instance tracing, as far as the events are that were taken in? */
	bool on, before;
	uint64_t since_ns; /* `on` holds since then, and `before` until then */
	bool changed;	   /* the session has to be told of `on` */
	bool graph;	   /* the instance's tracer is function_graph */
};

static void clear(struct commands *commands)
{
	for (size_t i = 0; i < commands->count; i++) {
		free(commands->list[i].symbol);
		free(commands->list[i].object);
	}
	free(commands->list);
	*commands = (struct commands){0};
}

static int add(struct commands *commands, const struct command *command)
{
	struct command *list = reallocarray(commands->list, commands->count + 1, sizeof(*list)), *made;

	if (!list)
		return -ENOMEM;
	commands->list = list;
	made = &list[commands->count++];
	*made = *command;
	made->symbol = strdup(command->symbol);
	made->object = strdup(command->object);
	return made->symbol && made->object ? 0 : -ENOMEM;
}

static void drop(struct commands *commands, size_t at)
{
	free(commands->list[at].symbol);
	free(commands->list[at].object);
	memmove(&commands->list[at], &commands->list[at + 1], (--commands->count - at) * sizeof(commands->list[0]));
}

/* A counted command and one without a count are two, as in the kernel. */
static bool is_same(const struct command *one, const struct command *other)
{
	return one->action == other->action && one->counted == other->counted && !strcmp(one->symbol, other->symbol) &&
	       !strcmp(one->object, other->object);
}

static size_t find(const struct commands *commands, const struct command *command)
{
	size_t i = 0;

	while (i < commands->count && !is_same(&commands->list[i], command))
		i++;
	return i;
}

bool commands_is(const char *token)
{
	const char *colon = strchr(token, ':');

	return colon && strcmp(colon, ":mod") != 0 && strncmp(colon, ":mod:", 5) != 0;
}

/* "[!]GLOB:COMMAND[:COUNT]"; *glob is for free().  The rest of *command is not known yet. */
static int parse(struct command *command, char **glob, const struct tree_open *open, const char *token)
{
	const char *text = token + (token[0] == '!'), *colon = strchr(text, ':');
	size_t length = strcspn(colon + 1, ":");
	const char *param = colon[1 + length] ? colon + length + 2 : "";
	char *end = NULL;

	*glob = NULL;
	*command = (struct command){.counted = param[0] != 0, .since_ns = now_ns()};
	while (command->action < ACTIONS && (strlen(actions[command->action]) != length ||
					     strncmp(actions[command->action], colon + 1, length) != 0))
		command->action++;
	if (command->action == ACTIONS)
		return control_refuse(
			open, -EINVAL,
			"there is no such command; there are mod, traceon, traceoff, snapshot, stacktrace, "
			"dump and cpudump",
			token, (int)(colon + 1 - token));
	if (command->counted) {
		errno = 0;
		command->count = strtoull(param, &end, 0);
		if (*end || errno || strchr("-+", param[0]))
			return control_refuse(open, -EINVAL, "this is no count", token, (int)(param - token));
	}
	if (command->action == ACTION_DUMP || command->action == ACTION_CPUDUMP) { /* once, whatever was typed */
		command->counted = true;
		command->count = 1;
	}
	*glob = strndup(text, (size_t)(colon - text));
	return *glob ? 0 : -ENOMEM;
}

/* Change the list for each function that the glob matches; returns how many, or an error. */
static int change(struct commands *commands, struct command *command, const char *glob, bool removes,
		  const struct tree_functions *functions)
{
	struct pattern_fault fault;
	struct pattern pattern;
	int count = 0, ret = pattern_compile(&pattern, glob, &fault);

	if (ret)
		return ret;
	for (size_t i = 0; i < functions->count && !ret; i++) {
		const struct tree_function *function = &functions->list[i];
		size_t at;

		if (!pattern_matches(&pattern, function->name))
			continue;
		command->symbol = (char *)function->name;
		command->object = (char *)function->object;
		command->program = function->program;
		at = find(commands, command);
		count += !removes || at < commands->count;
		if (!removes && at == commands->count)
			ret = add(commands, command);
		else if (removes && at < commands->count)
			drop(commands, at);
	}
	pattern_free(&pattern);
	return ret ? ret : count;
}

static int copy(struct commands *out, const struct commands *from)
{
	int ret = 0;

	*out = (struct commands){0};
	for (size_t i = 0; i < from->count && !ret; i++)
		ret = add(out, &from->list[i]);
	return ret;
}

/* The filters by which the gate records the functions of these commands. */
static int filters_of(struct tree_words *out, const struct commands *commands)
{
	int ret = 0;

	*out = (struct tree_words){0};
	for (size_t i = 0; i < commands->count && !ret; i++) {
		const struct tree_function function = {.name = commands->list[i].symbol,
						       .object = commands->list[i].object};

		ret = functions_add_filter(out, &function);
	}
	return ret;
}

static const struct gate_kind gate_kind = {.name = "commands", .settings = {"tracer=function", "buffer=1M"}};

static int begin_gate(struct tree_instance *instance, const struct tree_words *functions, struct calltap_diag *diag)
{
	struct tree_words filters = {0};
	int ret = ask_add_values(&filters, "trace", functions);

	if (ret)
		ret = calltap_diag_set(diag, ret, "not enough memory");
	else
		ret = gate_begin(&instance->commands->gate, instance, &gate_kind, &filters, diag);
	tree_words_clear(&filters);
	return ret;
}

/* The gate records the functions of these commands from now on. */
static int steer_gate(struct tree_instance *instance, const struct commands *commands, struct tree_open *open,
		      const char *token)
{
	struct calltap_diag diag = {.column = -1};
	struct tree_words filters, changes = {0};
	int ret = filters_of(&filters, commands);

	if (instance->commands->gate && instance->commands->gate->source.ended)
		gate_end(&instance->commands->gate); /* somebody else has ended it */
	if (!ret && !filters.count) {
		gate_end(&instance->commands->gate);
	} else if (!ret && instance->commands->gate) {
		ret = ask_add_values(&changes, "trace", &filters);
		if (!ret)
			ret = ask_change(instance->commands->gate, open->row->name, &changes);
	} else if (!ret) {
		ret = begin_gate(instance, &filters, &diag);
		if (ret)
			(void)control_refuse(open, ret, diag.text, token, 0);
	}
	tree_words_clear(&filters);
	tree_words_clear(&changes);
	return ret == -EAGAIN ? -EBUSY : ret;
}

static const struct tree_beside beside;

static int make_room(struct tree_instance *instance)
{
	if (instance->commands)
		return 0;
	instance->commands = calloc(1, sizeof(*instance->commands));
	if (!instance->commands)
		return -ENOMEM;
	instance->commands->on = instance->commands->before = ask_is_tracing(instance);
	instance->besides[BESIDE_COMMANDS] = &beside;
	return 0;
}

/* The instance's commands as they are to be. */
static int decide(struct commands *next, struct tree_open *open, struct command *command, const char *glob,
		  const char *token)
{
	const bool removes = token[0] == '!';
	const struct tree_asked nothing = {0};
	struct calltap_diag diag = {.column = -1};
	struct tree_functions functions;
	int ret = functions_read(&functions, open->instance, &nothing, &diag);

	*next = (struct commands){0};
	if (ret)
		return control_refuse(open, ret, diag.text, token, 0);
	ret = copy(next, &open->instance->commands->commands);
	if (!ret)
		ret = change(next, command, glob, removes, &functions);
	functions_clear(&functions);
	if (ret > 0)
		return 0;
	if (ret && ret != -EINVAL)
		return ret;
	return control_refuse(open, -EINVAL,
			      removes ? "there is no such command of a function that matches; a counted one is taken "
					"away by !FUNCTION:COMMAND:0"
				      : "no function that can be traced matches; available_filter_functions lists them",
			      token, removes);
}

int commands_take(struct tree_open *open, const char *token)
{
	struct tree_instance *instance = open->instance;
	struct commands next;
	struct command command;
	char *glob;
	int ret;

	if (strcmp(open->row->name, "set_ftrace_filter") != 0)
		return control_refuse(open, -EINVAL, "commands are for set_ftrace_filter", token, 0);
	ret = parse(&command, &glob, open, token);
	if (!ret)
		ret = make_room(instance);
	if (ret) {
		free(glob);
		return ret;
	}
	ret = decide(&next, open, &command, glob, token);
	free(glob);
	if (!ret)
		ret = steer_gate(instance, &next, open, token);
	if (ret) {
		clear(&next);
		return ret;
	}
	clear(&instance->commands->commands);
	instance->commands->commands = next;
	instance->snapshot_there |= command.action == ACTION_SNAPSHOT && token[0] != '!';
	return 0;
}

void commands_print(const struct tree_instance *instance, struct tree_text *out)
{
	for (size_t i = 0; instance->commands && i < instance->commands->commands.count; i++) {
		const struct command *command = &instance->commands->commands.list[i];
		const struct tree_function function = {
			.name = command->symbol, .object = command->object, .program = command->program};

		functions_line(out, &function);
		tree_text_format(out, ":%s:", actions[command->action]);
		if (command->counted)
			tree_text_format(out, "count=%" PRIu64 "\n", command->count);
		else
			tree_text_string(out, "unlimited\n");
	}
}

static void destroy(struct tree_instance *instance)
{
	gate_end(&instance->commands->gate);
	clear(&instance->commands->commands);
	free(instance->commands);
	instance->commands = NULL;
}

/* Tracing is on, or off, from that time on. */
static void turn(struct tree_instance *instance, bool on, uint64_t ns)
{
	struct tree_commands *commands = instance->commands;

	commands->before = commands->on;
	commands->on = on;
	commands->since_ns = ns;
	if (on && instance->on_ns > ns)
		instance->on_ns = ns;
}

/*
 * When the session has switched tracing on within a span is not known, and with it which calls in that span commands
 * are about.  So events of the span are left out: the text begins where commands do.
 */
static void traced(struct tree_instance *instance, bool on, uint64_t since_ns)
{
	uint64_t now = now_ns();

	if (on && instance->on_ns != UINT64_MAX) /* else a command has switched it off, and they are left out since */
		instance->off_ns = since_ns;
	if (on)
		instance->on_ns = now;
	turn(instance, on, now);
}

/* The functions that the thread of the call had open, innermost first: the recorded ones, and the caller. */
static void put_stack(struct tree_instance *instance, const struct tree_event *call)
{
	const struct tree_instance *gate = instance->commands->gate;
	struct tree_source *source = &instance->source;
	const char *symbol = lines_symbol(gate, call->function);
	struct tree_text text = {0}, caller = {0};
	size_t thread = source->slot_count;
	uint32_t depth = 0;

	lines_caller(gate, call, &caller);
	tree_text_add(&caller, "", 1);
	while (thread && source->slots[thread - 1] != call->slot + 1)
		thread--;
	if (thread && source->stack && instance->commands->graph)
		depth = callstack_depth(source->stack, (uint32_t)thread - 1);
	tree_text_format(&text, "<stack trace>\n => %s\n => %s", symbol, caller.failed ? "?" : caller.bytes);
	for (uint32_t i = depth; i--;) {
		const struct call_frame *frame = callstack_frame(source->stack, (uint32_t)thread - 1, i);
		const char *name = lines_symbol(instance, frame->function);

		if (i + 1 == depth && !strcmp(name, symbol)) {
			symbol = ""; /* its own entry was taken in just before */
			continue;
		}
		if (i + 2 >= depth && !caller.failed && !strcmp(name, caller.bytes))
			continue;
		tree_text_format(&text, "\n => %s", name);
	}
	tree_text_add(&text, "", 1);
	tree_text_clear(&caller);
	if (text.failed)
		tree_text_clear(&text);
	else
		source_put_stack(instance, call, text.bytes);
}

/* Print the buffer where the tool's messages go, as the kernel does on its console. */
static void dump(struct tree_instance *instance, uint32_t cpu)
{
	struct tree_reading reading = {.cpu = cpu, .graph = instance->commands->graph};
	struct tree_text text = {0};

	text.failed = store_copy(&reading.store, &instance->store) != 0;
	reading.next = reading.store.first;
	reading.end = reading.store.end;
	while (!text.failed && lines_next(&reading, instance, &text))
		;
	lines_clear(&reading);
	fprintf(stderr,
		"Dumping ftrace buffer:\n---------------------------------\n%.*s---------------------------------\n",
		text.failed ? 0 : (int)text.used, text.used ? text.bytes : "");
	if (text.failed)
		fputs("calltap: there was not enough memory for the buffer's text\n", stderr);
	else if (!text.used)
		fputs("   (ftrace buffer empty)\n", stderr);
	tree_text_clear(&text);
}

/* Tracing is to be on, or off, from that call on. */
static void switch_tracing(struct tree_instance *instance, bool on, const struct tree_event *call)
{
	struct tree_commands *commands = instance->commands;

	turn(instance, on, call->ns);
	if (!on) {
		instance->off_ns = call->ns;
		instance->on_ns = UINT64_MAX;
	}
	commands->changed = true;
}

static void carry_out(struct tree_instance *instance, struct command *command, const struct tree_event *call)
{
	struct tree_commands *commands = instance->commands;
	bool on = call->ns >= commands->since_ns ? commands->on : commands->before;

	if ((command->counted && !command->count) || call->ns <= command->since_ns)
		return;
	source_put_marks(instance, call->ns);
	switch (command->action) {
	case ACTION_TRACEON:
	case ACTION_TRACEOFF:
		if (on == (command->action == ACTION_TRACEON))
			return;
		switch_tracing(instance, !on, call);
		break;
	case ACTION_SNAPSHOT:
		stream_take_snapshot(instance);
		break;
	case ACTION_STACKTRACE:
		if (!on)
			return;
		put_stack(instance, call);
		break;
	case ACTION_DUMP:
	case ACTION_CPUDUMP:
		dump(instance, command->action == ACTION_DUMP ? READING_ALL : call->cpu);
		if (on) /* the kernel leaves it off, so that the text is what was seen last */
			switch_tracing(instance, false, call);
		break;
	case ACTIONS:
		break;
	}
	command->count -= command->counted;
}

static void reach(struct tree_instance *instance, uint64_t until_ticks)
{
	struct tree_commands *commands = instance->commands;
	struct tree_store *store = commands->gate ? &commands->gate->store : NULL;
	const struct trace *trace = store ? trace_follow_trace(commands->gate->source.follow) : NULL;

	for (const struct tree_event *call;
	     trace && (call = store_at(store, store->first)) && call->ticks <= until_ticks;) {
		const struct trace_function *function =
			call->kind == TREE_CALL ? trace_function(trace, call->function) : NULL;
		const struct trace_object *object = function ? trace_object(trace, function->object) : NULL;

		for (size_t i = 0; object && i < commands->commands.count; i++) {
			struct command *command = &commands->commands.list[i];

			if (!strcmp(command->symbol, function->symbol) &&
			    !strcmp(command->object, text_base(object->path)))
				carry_out(instance, command, call);
		}
		store_take(store, store->first);
	}
}

static void pump(struct tree_instance *instance)
{
	struct tree_commands *commands = instance->commands;

	if (!commands->gate || instance->source.ended)
		return;
	gate_pump_held(commands->gate);
	if (commands->gate->store.first < commands->gate->store.end) {
		bool on = ask_is_tracing(instance);

		commands->graph = ask_is_graph(instance);
		if (on != commands->on) /* somebody else has changed it */
			turn(instance, on, now_ns());
	}
}

static uint64_t known(const struct tree_instance *instance)
{
	return instance->commands->gate ? gate_known_ticks(instance->commands->gate) : UINT64_MAX;
}

static void settle(struct tree_instance *instance)
{
	struct tree_commands *commands = instance->commands;
	struct tree_words changes = {0};
	int ret;

	if (!commands->changed)
		return;
	commands->changed = false;
	ret = tree_words_add(&changes, commands->on ? "tracing=on" : "tracing=off");
	if (!ret)
		ret = ask_change(instance, "set_ftrace_filter", &changes);
	(void)ret; /* an error is in error_log, and nobody waits for it */
	tree_words_clear(&changes);
}

static void end(struct tree_instance *instance)
{
	struct tree_commands *commands = instance->commands;

	if (commands->gate)
		gate_end_held(commands->gate, instance);
}

static const struct tree_beside beside = {
	.pump = pump,
	.known = known,
	.reach = reach,
	.settle = settle,
	.traced = traced,
	.end = end,
	.destroy = destroy,
};
