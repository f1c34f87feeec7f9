/*
 * A session's clock: our own counter, or that of targets under an emulator,
 * which is asked for now and then.
 * Called by both threads with the session's lock held.  Context: host.
 */
#include <errno.h>

#include <host/session/session.h>

#define FIRST_STEP_NS 10000000u	  /* a short run is to have some pairs, too */
#define LAST_STEP_NS  1000000000u /* a sample a second */
#define BASE_NS	      5000000u	  /* to know the rate by, before anything is recorded */
#define PATIENCE_NS   2000000000u /* for that: the word of one in a time namespace is never taken */

struct calltap_file_clock timing_now(const struct session *session)
{
	struct calltap_file_clock sample = clock_sample();

	if (session->emulated)
		sample.ticks = clock_line_ticks(&session->timing.line, sample.mono_ns);
	return sample;
}

double timing_rate(const struct session *session)
{
	return session->emulated ? clock_line_rate(&session->timing.line) : clock_ticks_per_ns(BASE_NS / 1000000);
}

uint64_t timing_ticks(const struct session *session, uint64_t ns)
{
	double rate = ns ? timing_rate(session) : 0;

	if (ns && rate <= 0)
		rate = clock_ticks_per_ns(CALIBRATE_MS);
	return (uint64_t)((double)ns * rate);
}

static void write_sample(struct session *session, const struct calltap_file_clock *sample)
{
	for (uint32_t i = 0; i < CALLTAP_INSTANCES; i++)
		if (session->instances[i] &&
		    trace_writer_chunk(session->instances[i]->writer, CALLTAP_CHUNK_CLOCK, sample, sizeof(*sample)))
			continue; /* errors are kept by the writer */
}

/* A pair that an agent has told, if it can be: of a time between from_ns and now. */
static void take_pair(struct session *session, uint64_t ticks, uint64_t ns, uint64_t from_ns)
{
	struct calltap_file_clock sample = clock_sample();

	if (!session->emulated || ns < from_ns || ns > sample.mono_ns ||
	    !clock_line_add(&session->timing.line, ticks, ns))
		return;
	sample.real_ns -= sample.mono_ns - ns;
	sample.mono_ns = ns;
	sample.ticks = ticks;
	write_sample(session, &sample);
}

void timing_greet(struct session *session, const struct calltap_msg_hello *hello)
{
	if (!session->timing.cost) {
		session->timing.line.hz = hello->clock_hz;
		session->timing.cost = hello->clock_cost;
	}
	take_pair(session, hello->ticks, hello->monotonic_ns, session->began_ns);
}

int timing_ask(struct target *target)
{
	const struct calltap_msg clock = {CALLTAP_MSG_CLOCK, sizeof(clock)};

	if (target->asked_ns)
		return 0;
	target->asked_ns = clock_now_ns();
	return channel_send(target->socket, &clock, sizeof(clock), NULL, 0);
}

int timing_told(struct session *session, struct target *target, const struct calltap_msg_clock_told *told)
{
	uint64_t asked_ns = target->asked_ns;

	if (!asked_ns)
		return -EPROTO;
	target->asked_ns = 0;
	take_pair(session, told->ticks, told->monotonic_ns, asked_ns);
	return 0;
}

bool timing_is_vague(const struct session *session, const struct target *target)
{
	return session->emulated && session->options->threshold_ns && !session->timing.line.hz &&
	       session->timing.line.last_ns - session->timing.line.first_ns < BASE_NS &&
	       clock_now_ns() - target->since_ns < PATIENCE_NS;
}

/* Does the target answer, outside of a sandbox that might forbid it to read the clock? */
static bool can_be_asked(const struct target *target)
{
	return target->began && !target->ended && !target->alone && !target->asked_ns && target_head(target) &&
	       !__atomic_load_n(&target_head(target)->notes, __ATOMIC_RELAXED);
}

void timing_tick(struct session *session, uint64_t now_ns)
{
	struct target *target = session->targets;
	struct calltap_file_clock sample;

	if (now_ns < session->timing.next_sample_ns)
		return;
	if (session->timing.sample_step_ns < LAST_STEP_NS)
		session->timing.sample_step_ns =
			session->timing.sample_step_ns ? session->timing.sample_step_ns * 2 : FIRST_STEP_NS;
	session->timing.next_sample_ns = now_ns + (session->emulated ? session->timing.sample_step_ns : LAST_STEP_NS);
	if (!session->emulated) {
		sample = clock_sample();
		write_sample(session, &sample);
		return;
	}
	while (target && !can_be_asked(target))
		target = target->next;
	if (target && timing_ask(target))
		target->asked_ns = 0; /* it has gone; its end is seen elsewhere */
}
