/* Sub-buffers as their readers find them (sub.h).  Context: host. */
#include <calltap/abi/record.h>

#include "sub.h"

void sub_copy_head(struct calltap_subbuf *head, const struct calltap_subbuf *sub)
{
	head->number = __atomic_load_n(&sub->number, __ATOMIC_ACQUIRE); /* pairs with D in ring_open_next() */
	head->ticks = __atomic_load_n(&sub->ticks, __ATOMIC_RELAXED);
	head->owner = __atomic_load_n(&sub->owner, __ATOMIC_RELAXED);
	head->tid = __atomic_load_n(&sub->tid, __ATOMIC_RELAXED);
	head->cpu = __atomic_load_n(&sub->cpu, __ATOMIC_RELAXED);
	head->lost_before = __atomic_load_n(&sub->lost_before, __ATOMIC_RELAXED);
	head->wait_before = __atomic_load_n(&sub->wait_before, __ATOMIC_RELAXED);
	for (size_t i = 0; i < sizeof(head->comm); i++)
		head->comm[i] = __atomic_load_n(&sub->comm[i], __ATOMIC_RELAXED);
	head->comm[sizeof(head->comm) - 1] = 0;
}

bool sub_is_whole(const struct calltap_subbuf *sub, uint64_t number)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE); /* pairs with the fence after A in ring_open_next() */
	return __atomic_load_n(&sub->number, __ATOMIC_ACQUIRE) == number + 1;
}

/* A word whose second brief record is to come has no kind, as little as an empty slot. */
uint32_t sub_whole_records(const uint64_t *words, uint32_t from, uint32_t count)
{
	uint32_t i = from;

	while (i < count) {
		/* Acquire: what is behind a record's head is written before it; pairs with ring_put(). */
		uint64_t head = __atomic_load_n(&words[i], __ATOMIC_ACQUIRE);
		unsigned kind = calltap_record_kind(head), size = calltap_record_words(head);

		if (!kind || size > count - i ||
		    (kind == CALLTAP_REC_TIME && !__atomic_load_n(&words[i + 1], __ATOMIC_RELAXED)))
			break;
		i += size;
	}
	return i;
}
