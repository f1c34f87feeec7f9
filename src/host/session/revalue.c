/*
 * Other values and conditions while a session records: the keys args, result, if, only-if, auto-args and registers of
 * `calltap set`.
 *
 * The lists change first (host/values/change.c), then all functions are decided on anew as for any other setting
 * (apply.c).  Processes that began without values are sent the programs' memory before.
 *
 * Callers: steer.c.  Context: host, under the session's lock and with the turn.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <host/hook/handlers.h>
#include <host/instance/settings.h>
#include <host/values/values.h>
#include <tracers/tracer.h>

#include "machine.h"
#include "revalue.h"
#include "session.h"

static bool has_values(const struct tracer *tracer)
{
	return tracer && tracer->patches && !tracer->counts;
}

/* next: the tracer that comes with the change; whether values go with the one that is there then is asked later. */
static int refuse_session(const struct instance *instance, const struct tracer *next, struct calltap_diag *diag)
{
	const struct session *session = instance->session;

	if (instance->set)
		return calltap_diag_set(
			diag, -EOPNOTSUPP,
			"values are the session's own, and instance '%.60s' has none; leave --instance out",
			instance->name);
	if (session->options->serves)
		return calltap_diag_set(diag, -EOPNOTSUPP,
					"this session serves the handlers of the program itself (libcalltap) and keeps "
					"no trace; to have both start the program by `calltap record`");
	if ((!has_values(instance->settings.options.tracer) && !has_values(next)) ||
	    (session->images.values && values_counting(session->images.values)))
		return calltap_diag_set(diag, -EINVAL,
					"values (args, result, if, only-if) need the tracer function_graph");
	if (!session->machine)
		return calltap_diag_set(diag, -EAGAIN, "the program's CPU is not known yet; ask again");
	return 0;
}

/* Memory for programs, where the session began without values. */
static int make_values(struct session *session, struct calltap_diag *diag)
{
	char *agent = precheck_agent(session, session->machine);
	struct values *values = NULL;
	int ret = agent ? values_create(&values) : -ENOMEM;

	if (!ret && !session->images.handlers)
		ret = handlers_create(&session->images.handlers);
	for (struct image *image = session->images.first; image && !ret; image = image->next)
		if (image->site_count && !image->slots)
			ret = handlers_room(image, image->site_count);
	if (ret)
		(void)calltap_diag_set(diag, ret, "there is no memory for values: %s", strerror(-ret));
	else
		ret = values_begin(values, session->machine->id, agent, diag);
	free(agent);
	if (ret) {
		values_destroy(values);
		return ret;
	}
	values_come_late(values);
	session->own_values = session->images.values = values;
	return 0;
}

/* Processes that are here already get the rows and the programs, in front of all that leads to them. */
static void tell_targets(struct session *session)
{
	for (struct target *target = session->targets; target; target = target->next) {
		if (!live_can_be_told(target))
			continue;
		if (!target->handled.told && handlers_tell(session->images.handlers, target, 0))
			continue; /* its end is seen elsewhere */
		(void)!values_welcome(session->images.values, target, session->options->no_fork);
	}
	(void)!live_wait(session);
}

int revalue_begin(struct instance *instance, struct settings *now, const struct setting_change *list, size_t count,
		  const struct tracer *next, struct values_before **before, struct calltap_diag *diag)
{
	struct session *session = instance->session;
	bool late = !session->images.values;
	int ret = refuse_session(instance, next, diag);

	*before = NULL;
	if (!ret && late)
		ret = make_values(session, diag);
	if (!ret)
		ret = values_change(session->images.values, before, list, count, diag);
	if (session->images.values && late)
		tell_targets(session);
	if (ret)
		return ret;
	now->options.values = values_any(session->images.values) ? session->images.values : NULL;
	now->new_values = true;
	return 0;
}

void revalue_end(struct instance *instance, struct values_before *before, bool done)
{
	struct session *session = instance->session;

	if (!before)
		return;
	values_change_end(session->images.values, before, !done);
	/* Functions may have been decided on, with rows that have the numbers of what was refused. */
	if (!done)
		apply_judge(session);
	if (values_describe(session->images.values, session))
		instance_diagnose(instance, "what values are called could not be written to the trace");
}
