/*
 * Candidates for a word that is being typed (complete.h).  Context: host.
 *
 * Options come from the verbs' own tables, which `calltap VERB --list-options` writes; their values from the tables of
 * formats, tracers and columns, and from the lists below; functions from the trace that the words name, or the newest.
 */
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <calltap/diag.h>
#include <tracers/tracer.h>

#include "complete.h"
#include "host/export/export.h"
#include "host/proc.h"
#include "host/trace/trace.h"
#include "host/view/newest.h"
#include "host/view/replay_columns.h"
#include "options.h"

#define FUNCTIONS_MAX 20000u /* a shell is slow with more */

/* Values of options: `verbs` has the names of the verbs that have these, NULL = all; a value ":x" asks the shell. */
static const struct {
	const char *verbs, *option;
	const char *values; /* with spaces in between */
} values[] = {
	{NULL, "color", "auto always never"},
	{NULL, "mode", "block drop overwrite"},
	{"record attach live top", "time", "exact adaptive"},
	{NULL, "stock", "auto always never"},
	{NULL, "by", "function object thread"},
	{"report", "sort", "calls total self min avg p50 p99 max name"},
	{"diff", "sort", "self total calls avg name"},
	{NULL, "weight", "self calls"},
	{NULL, "keep", "first newest"},
	{NULL, "hist", "log2 linear:"},
	{NULL, "input", ":files"},
	{NULL, "output", ":files"},
	{NULL, "core", ":files"},
	{NULL, "time-profile", ":files"},
	{NULL, "buffers", ":dirs"},
	{NULL, "buffer-dir", ":dirs"},
};

/* The verbs whose words beside options are files, process ids, a command, or a function. */
static const struct {
	const char *verbs;
	enum word_kind { WORD_FILE, WORD_PID, WORD_COMMAND, WORD_FUNCTION } kind;
} word_kinds[] = {
	{"record", WORD_COMMAND},
	{"attach serve top count live mount shell status set mark snapshot detach load", WORD_PID},
	{"replay report diff info export html functions tui", WORD_FILE},
	{"graph slow", WORD_FUNCTION},
};

struct option_row {
	char letter; /* '-' = none */
	bool takes;
	char name[62];
};

struct completion {
	const char *verb;
	char **words; /* behind the verb; the last one is being typed */
	int count;
	struct option_row *options;
	size_t option_count;
	const char *typed;  /* the part of the last word that candidates continue */
	const char *before; /* the part before it, which candidates repeat, of this length */
	size_t before_length;
};

static bool has_word(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = list; (at = strstr(at, word)); at++)
		if ((at == list || at[-1] == ' ') && (!at[length] || at[length] == ' '))
			return true;
	return false;
}

static void offer(const struct completion *completion, const char *text, size_t length, const char *about)
{
	size_t typed = strlen(completion->typed);

	if (length < typed || strncmp(text, completion->typed, typed) != 0)
		return;
	printf("%.*s%.*s", (int)completion->before_length, completion->before, (int)length, text);
	printf(about ? "\t%s\n" : "\n", about);
}

static void offer_text(const struct completion *completion, const char *text, const char *about)
{
	offer(completion, text, strlen(text), about);
}

/* Read the verb's table of options from this command itself. */
static void read_options(struct completion *completion)
{
	char self[PATH_MAX], *line = NULL;
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	size_t size = 0;
	int ends[2];
	pid_t pid;
	FILE *file;

	if (length <= 0 || pipe(ends))
		return;
	self[length] = '\0';
	pid = fork();
	if (pid == 0) {
		dup2(ends[1], STDOUT_FILENO);
		close(ends[0]);
		execl(self, "calltap", completion->verb, OPTIONS_LIST, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	file = fdopen(ends[0], "r");
	while (pid > 0 && file && getline(&line, &size, file) > 0) {
		struct option_row row = {0}, *grown;
		int takes;

		if (sscanf(line, "%c %d %61s", &row.letter, &takes, row.name) != 3)
			continue;
		row.takes = takes != 0;
		grown = reallocarray(completion->options, completion->option_count + 1, sizeof(*grown));
		if (!grown)
			break;
		completion->options = grown;
		grown[completion->option_count++] = row;
	}
	free(line);
	if (file)
		fclose(file);
}

/* The option that the word is, up to its "="; NULL = it is none. */
static const struct option_row *find_option(const struct completion *completion, const char *word)
{
	size_t length = strcspn(word, "=");

	for (size_t i = 0; i < completion->option_count; i++) {
		const struct option_row *row = &completion->options[i];

		if (word[0] == '-' && word[1] == '-' && strlen(row->name) + 2 == length &&
		    strncmp(word + 2, row->name, length - 2) == 0)
			return row;
		if (word[0] == '-' && word[1] == row->letter && row->letter != '-' && !word[2])
			return row;
	}
	return NULL;
}

/* The index of the first word that is no option and no option's value; -1 = there is none. */
static int first_argument(const struct completion *completion)
{
	for (int at = 0; at < completion->count - 1; at++) {
		const char *word = completion->words[at];
		const struct option_row *row = find_option(completion, word);

		if (row && row->takes && !strchr(word, '='))
			at++;
		else if (word[0] != '-' || !word[1])
			return at;
		else if (strcmp(word, "--") == 0)
			return at + 1 < completion->count - 1 ? at + 1 : -1;
	}
	return -1;
}

static void offer_options(const struct completion *completion)
{
	char text[80];

	for (size_t i = 0; i < completion->option_count; i++) {
		snprintf(text, sizeof(text), "--%s", completion->options[i].name);
		offer_text(completion, text, NULL);
	}
}

/* The trace that -i names, or the only word, or the newest one here. */
static const char *find_trace(const struct completion *completion, char path[PATH_MAX])
{
	struct calltap_diag diag;

	for (int i = 0; i + 2 < completion->count; i++)
		if (strcmp(completion->words[i], "-i") == 0 || strcmp(completion->words[i], "--input") == 0)
			return completion->words[i + 1];
	if (has_word("replay report export html diff tui", completion->verb)) {
		int at = first_argument(completion);

		if (at >= 0)
			return completion->words[at];
	}
	return newest_trace(path, PATH_MAX, ".", &diag) ? NULL : path;
}

static void offer_functions(const struct completion *completion)
{
	char path[PATH_MAX];
	const char *file = find_trace(completion, path);
	struct calltap_diag diag;
	struct trace *trace;

	if (!file || trace_open(&trace, file, &diag))
		return;
	for (uint32_t i = 0; i < trace_function_count(trace) && i < FUNCTIONS_MAX; i++) {
		const char *name = trace_function(trace, i) ? trace_function_brief(trace, i) : NULL;

		if (name && !strpbrk(name, "\t\n"))
			offer_text(completion, name, NULL);
	}
	trace_close(trace);
}

/* True if the process is this user's. */
static bool is_own(const char *pid)
{
	char path[300];
	struct stat about;

	snprintf(path, sizeof(path), "/proc/%s", pid);
	return !stat(path, &about) && about.st_uid == geteuid();
}

static void offer_pids(const struct completion *completion)
{
	DIR *folder = opendir("/proc");
	struct dirent *entry;

	while (folder && (entry = readdir(folder))) {
		char name[64] = "", path[300];
		size_t length;

		/* A thread of the kernel has no program. */
		snprintf(path, sizeof(path), "/proc/%s/exe", entry->d_name);
		if (!isdigit((unsigned char)entry->d_name[0]) || readlink(path, name, sizeof(name)) < 0 ||
		    !is_own(entry->d_name) ||
		    proc_text((pid_t)strtol(entry->d_name, NULL, 10), "comm", name, sizeof(name)) < 0)
			continue;
		length = strcspn(name, "\n");
		for (size_t i = 0; i < length; i++)
			if (!isprint((unsigned char)name[i]))
				name[i] = '?';
		name[length] = '\0';
		offer_text(completion, entry->d_name, name);
	}
	if (folder)
		closedir(folder);
}

static void offer_tracers(const struct completion *completion)
{
	for (size_t i = 0; tracer_at(i); i++)
		if (!tracer_at(i)->counts)
			offer_text(completion, tracer_at(i)->name, tracer_at(i)->summary);
}

static void offer_formats(const struct completion *completion)
{
	for (size_t i = 0; export_at(i); i++)
		offer_text(completion, export_at(i)->name, export_at(i)->summary);
}

/* A list with commas: candidates continue its last item. */
static void offer_columns(struct completion *completion)
{
	const char *comma = strrchr(completion->typed, ','), *start = comma ? comma + 1 : completion->typed;

	start += !comma && *start == '+';
	completion->before_length += (size_t)(start - completion->typed);
	completion->typed = start;
	for (unsigned i = 0; replay_columns_name(i); i++)
		offer_text(completion, replay_columns_name(i), NULL);
	if (!comma && (start == completion->before || start[-1] != '+'))
		offer_text(completion, "none", NULL);
}

/* Offer each word of a list; a word ":x" is for the shell. */
static void offer_list(const struct completion *completion, const char *list)
{
	for (size_t length; *list; list += length + (list[length] == ' ')) {
		length = strcspn(list, " ");
		if (*list == ':')
			printf("%.*s\n", (int)length, list);
		else
			offer(completion, list, length, NULL);
	}
}

/* Candidates for the value of an option. */
static void offer_values(struct completion *completion, const struct option_row *row)
{
	bool reads = has_word("replay report graph export html slow diff tui", completion->verb);

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		if (strcmp(values[i].option, row->name) == 0 &&
		    (!values[i].verbs || has_word(values[i].verbs, completion->verb))) {
			offer_list(completion, values[i].values);
			return;
		}
	}
	if (strcmp(row->name, "format") == 0)
		offer_formats(completion);
	else if (strcmp(row->name, "tracer") == 0)
		offer_tracers(completion);
	else if (strcmp(row->name, "column") == 0)
		offer_columns(completion);
	else if (reads && has_word("trace notrace graph no-graph function per", row->name))
		offer_functions(completion);
}

/* The word that is being typed is behind "--", or for `shell` behind the PID. */
static bool is_command(const struct completion *completion)
{
	const char *before = completion->count > 1 ? completion->words[completion->count - 2] : "";

	return (strcmp(before, "--") == 0 && has_word("top count live mount shell", completion->verb)) ||
	       (strcmp(completion->verb, "shell") == 0 && first_argument(completion) == completion->count - 2);
}

static void offer_arguments(const struct completion *completion)
{
	bool first = first_argument(completion) < 0;

	for (size_t i = 0; i < sizeof(word_kinds) / sizeof(word_kinds[0]); i++) {
		if (!has_word(word_kinds[i].verbs, completion->verb))
			continue;
		if (word_kinds[i].kind == WORD_FUNCTION && first)
			offer_functions(completion);
		else if (word_kinds[i].kind == WORD_PID && is_command(completion))
			puts(":commands");
		else if (word_kinds[i].kind == WORD_PID &&
			 (first || has_word("attach top live count", completion->verb)))
			offer_pids(completion);
		else if (word_kinds[i].kind == WORD_COMMAND && first)
			puts(":commands");
		else
			puts(":files");
	}
}

static void offer_verbs(const struct completion *completion, const struct complete_verb *verbs, size_t count)
{
	for (size_t i = 0; i < count; i++)
		offer_text(completion, verbs[i].name, verbs[i].summary);
	offer_list(completion, completion->typed[0] == '-' ? "--help --version --completion" : "");
}

/* True if the words before the last one have a "--", or those of a command to record. */
static bool is_behind_options(const struct completion *completion)
{
	if (has_word("record shell", completion->verb) && first_argument(completion) >= 0)
		return true;
	for (int i = 0; i < completion->count - 1; i++)
		if (strcmp(completion->words[i], "--") == 0)
			return true;
	return false;
}

int complete_words(const struct complete_verb *verbs, size_t verb_count, int count, char **words)
{
	const char *last = count ? words[count - 1] : "", *before = count > 2 ? words[count - 2] : "";
	struct completion completion = {.words = words + 1, .count = count - 1, .typed = last, .before = last};
	const struct option_row *row;

	if (count < 2) {
		offer_verbs(&completion, verbs, verb_count);
		return 0;
	}
	if (strcmp(words[0], "--completion") == 0) {
		offer_list(&completion, "bash zsh fish");
		return 0;
	}
	for (size_t i = 0; i < verb_count && !completion.verb; i++)
		completion.verb = strcmp(verbs[i].name, words[0]) == 0 ? words[0] : NULL;
	if (!completion.verb)
		return 0;
	read_options(&completion);
	row = !strchr(before, '=') && !is_behind_options(&completion) ? find_option(&completion, before) : NULL;
	if (row && row->takes) {
		offer_values(&completion, row);
	} else if (last[0] == '-' && !is_behind_options(&completion)) {
		row = strchr(last, '=') ? find_option(&completion, last) : NULL;
		completion.before_length = row ? strcspn(last, "=") + 1 : 0;
		completion.typed = last + completion.before_length;
		if (row)
			offer_values(&completion, row);
		else
			offer_options(&completion);
	} else {
		offer_arguments(&completion);
	}
	free(completion.options);
	return 0;
}

static const char bash_script[] =
	"# Completion of calltap for bash, as `calltap --completion bash` writes it.\n"
	"_calltap()\n"
	"{\n"
	"\tlocal typed=${COMP_LINE:0:COMP_POINT} words lines line last cut\n"
	"\tread -ra words <<<\"$typed\"\n"
	"\t[[ $typed == *[[:space:]] ]] && words+=('')\n"
	"\tlast=${words[${#words[@]}-1]}\n"
	"\t# bash takes = and : for the ends of words\n"
	"\tcut=${last%\"${last##*[=:]}\"}\n"
	"\tCOMPREPLY=()\n"
	"\tmapfile -t lines < <(\"${words[0]}\" --complete \"${words[@]:1}\" 2>/dev/null)\n"
	"\tfor line in \"${lines[@]}\"; do\n"
	"\t\tcase $line in\n"
	"\t\t:files) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"${last#\"$cut\"}\") ;;\n"
	"\t\t:dirs) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- \"${last#\"$cut\"}\") ;;\n"
	"\t\t:commands) mapfile -t COMPREPLY < <(compgen -c -- \"$last\") ;;\n"
	"\t\t*) line=${line%%$'\\t'*}; printf -v line %q \"${line#\"$cut\"}\"; COMPREPLY+=(\"$line\") ;;\n"
	"\t\tesac\n"
	"\tdone\n"
	"}\n"
	"complete -F _calltap calltap\n";

static const char zsh_script[] =
	"#compdef calltap\n"
	"# Completion of calltap for zsh, as `calltap --completion zsh` writes it.\n"
	"_calltap()\n"
	"{\n"
	"\tlocal -a names shown\n"
	"\tlocal line\n"
	"\tfor line in \"${(@f)$(\"${words[1]}\" --complete \"${(@Q)words[2,CURRENT]}\" 2>/dev/null)}\"; do\n"
	"\t\tcase $line in\n"
	"\t\t'') ;;\n"
	"\t\t:files) _files ;;\n"
	"\t\t:dirs) _files -/ ;;\n"
	"\t\t:commands) _command_names -e ;;\n"
	"\t\t*) names+=(\"${line%%$'\\t'*}\"); shown+=(\"${line/$'\\t'/  -- }\") ;;\n"
	"\t\tesac\n"
	"\tdone\n"
	"\t(( $#names )) && compadd -l -d shown -a names\n"
	"}\n"
	"if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _calltap \"$@\"; else compdef _calltap calltap; fi\n";

static const char fish_script[] = "# Completion of calltap for fish, as `calltap --completion fish` writes it.\n"
				  "function __calltap_complete\n"
				  "\tset -l words (commandline -opc) (commandline -ct)\n"
				  "\tfor line in ($words[1] --complete $words[2..-1] 2>/dev/null)\n"
				  "\t\tswitch $line\n"
				  "\t\t\tcase :files\n"
				  "\t\t\t\t__fish_complete_path (commandline -ct)\n"
				  "\t\t\tcase :dirs\n"
				  "\t\t\t\t__fish_complete_directories (commandline -ct)\n"
				  "\t\t\tcase :commands\n"
				  "\t\t\t\t__fish_complete_command\n"
				  "\t\t\tcase '*'\n"
				  "\t\t\t\techo $line\n"
				  "\t\tend\n"
				  "\tend\n"
				  "end\n"
				  "complete -c calltap -f -a '(__calltap_complete)'\n";

int complete_script(const char *shell)
{
	const char *script = !shell			  ? NULL
			     : strcmp(shell, "bash") == 0 ? bash_script
			     : strcmp(shell, "zsh") == 0  ? zsh_script
			     : strcmp(shell, "fish") == 0 ? fish_script
							  : NULL;

	if (!script) {
		fprintf(stderr, "calltap: --completion needs the name of a shell: give bash, zsh or fish\n");
		return 1;
	}
	return fputs(script, stdout) < 0 || fflush(stdout);
}
