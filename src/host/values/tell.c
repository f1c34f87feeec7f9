/*
 * What users are told of values and conditions: why they cannot be had, and what is left out; and the formats in the
 * trace, for its readers (values.h).
 *
 * Callers: the session, under its lock.  Context: host.
 */
#include <errno.h>

#include <host/session/session.h>

#include "formats.h"
#include "values.h"
#include "values_impl.h"

static bool is_unknown(const struct entry *entry)
{
	return !entry->number && !entry->known && entry->unknown[0];
}

static int refuse_split(const struct entry *entry, const char *option, struct calltap_diag *diag)
{
	return calltap_diag_set(
		diag, -ENODATA,
		"%sdebug information of %s in %s is in files of its own (-gsplit-dwarf), as %s, which are not "
		"read; build without that, or say what to show by --args; --allow-no-match goes on without",
		option, entry->unknown, entry->object, entry->split);
}

int values_check(const struct values *values, struct calltap_diag *diag)
{
	for (uint16_t i = 0; values && i < values->count; i++) {
		const struct entry *entry = &values->list[i];

		if (values->refused[0] && values->counts)
			return calltap_diag_set(diag, -EINVAL, "%s", values->refused);
		if (entry->why[0] && !entry->led)
			return calltap_diag_set(diag, -ENODATA,
						"'%s': %s; `calltap record %s '%s'` shows what there is; "
						"--allow-no-match goes on without",
						entry->function, entry->why, entry->result ? "-R" : "-A",
						entry->function);
		if (is_unknown(entry) && entry->split[0])
			return refuse_split(entry, "", diag);
		if (is_unknown(entry))
			return calltap_diag_set(diag, -ENODATA,
						"%s has no debug information of '%s', so it says not what to show; "
						"build with -g, or say it, as in '%s:%s'; --allow-no-match goes on "
						"without",
						entry->object, entry->unknown, entry->function,
						entry->result ? "ret" : "arg1");
	}
	for (uint16_t i = 0; values && i < values->choice_count; i++)
		if (values->choices[i].why[0] && !values->choices[i].known)
			return calltap_diag_set(diag, -ENODATA, "%s", values->choices[i].why);
	for (uint32_t i = 0; values && i < values->ask_count; i++)
		if (values->asks[i].why[0] && !values->asks[i].known)
			return calltap_diag_set(diag, -ENODATA, "%s", values->asks[i].why);
	if (values && is_unknown(&values->all[0]) && values->all[0].split[0])
		return refuse_split(&values->all[0], "--auto-args: ", diag);
	if (values && is_unknown(&values->all[0]))
		return calltap_diag_set(diag, -ENODATA,
					"--auto-args: none of the functions that are traced has debug information, "
					"as %s of %s; build with -g, or say what to show by --args; --allow-no-match "
					"goes on without",
					values->all[0].unknown, values->all[0].object);
	return 0;
}

/* Calls are counted of some functions that the text names, and of others nobody knows by what. */
static void tell_uncounted(struct values *values, struct session *session)
{
	const struct entry *entry = &values->list[0];

	if (!values->counts || values->told_uncounted || !entry->known || !entry->unknown[0])
		return;
	values->told_uncounted = true;
	session_diagnose(session, "calls of '%s' in %s are not counted: no debug information tells '%s' there",
			 entry->unknown, entry->object,
			 spec_has_path(&entry->spec) ? entry->spec.fields[0].path : values->sum.fields[0].path);
}

/* Paths that lead somewhere in some functions. */
static void tell_unfollowed(struct entry *entry, bool counts, struct session *session)
{
	if (!entry->why[0] || !entry->led || entry->told_why)
		return;
	entry->told_why = true;
	session_diagnose(session, "'%s': calls of some functions are %s: %s", entry->function,
			 counts ? "not counted" : "shown without values", entry->why);
}

/* A condition that some functions' types tell, and others' do not. */
static void tell_unread(struct choice *choice, const char *what, struct session *session)
{
	if (!choice->why[0] || !choice->known || choice->told)
		return;
	choice->told = true;
	session_diagnose(session, "calls of some functions are %s: %s", what, choice->why);
}

int values_describe(struct values *values, struct session *session)
{
	struct instance *first = session_first(session);
	int ret;

	if (!values || !first)
		return 0;
	if (values->full && !values->told_full) {
		values->told_full = true;
		session_diagnose(session, "there are more kinds of values than programs have room for: some functions "
					  "show none");
	}
	for (uint16_t i = 0; i < values->count; i++)
		tell_unfollowed(&values->list[i], values->counts != NULL, session);
	for (uint16_t i = 0; i < values->choice_count; i++)
		tell_unread(&values->choices[i], "left out", session);
	for (uint32_t i = 0; i < values->ask_count; i++)
		tell_unread(&values->asks[i], "not waited for", session);
	for (uint16_t i = 0; i < values->choice_count && !values->judged; i++) {
		values->judged = values_decides(&values->choices[i].condition, true);
		ret = values->judged ? formats_write_verdict(first->writer) : 0;
		if (ret)
			return ret;
	}
	tell_uncounted(values, session);
	if (values->described == values->program_count)
		return 0;
	ret = formats_write(first->writer, values->programs + values->described,
			    values->program_count - values->described);
	if (!ret)
		values->described = values->program_count;
	return ret;
}
