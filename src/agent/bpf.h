/* The prediction of a seccomp filter's answer to a system call.  Called by sandbox.c.  Context: control. */
#ifndef AGENT_BPF_H
#define AGENT_BPF_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>

/*
 * The filter's answer, SECCOMP_RET_* and data.  A filter that the kernel would refuse to install may get any answer, in
 * bounded time.
 */
uint32_t bpf_answer(const struct sock_filter *steps, uint32_t count, const struct seccomp_data *data);

#endif
