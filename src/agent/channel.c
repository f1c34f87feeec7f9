/*
 * The agent's end of the control socket (abi/control.h).
 * Called by the control thread only.  Context: control.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <agent/agent.h>
#include <base/mem.h>
#include <base/sys.h>

#define FDS_MAX	    4
#define LOOK_MIN_NS 5000000
#define LOOK_MAX_NS 999999999

int agent_send(const void *message, uint32_t size)
{
	long done = SYS(sendto, agent.socket, message, size, MSG_NOSIGNAL, 0, 0);

	if (sys_failed(done))
		return (int)done;
	return done == (long)size ? 0 : -EIO;
}

void agent_complain(int error, const char *what)
{
	struct calltap_msg_fault fault = {.head = {CALLTAP_MSG_FAULT, sizeof(fault)}, .error = error};

	base_copy_text(fault.text, sizeof(fault.text), what);
	if (agent_send(&fault, sizeof(fault)))
		return; /* the tool is gone, and nobody is left to complain to */
}

/* Take the descriptors out of a control message; returns how many. */
static unsigned take_fds(struct msghdr *header, int *fds, unsigned max)
{
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(header);
	unsigned n = 0, total;

	if (!cmsg || cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
		return 0;
	total = (unsigned)((cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	for (unsigned i = 0; i < total; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(fd));
		if (n < max)
			fds[n++] = fd;
		else
			sys_close(fd);
	}
	return n;
}

int agent_receive(void *message, uint32_t size, int *fds, unsigned max)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(FDS_MAX * sizeof(int))] = {0};
	struct iovec vec = {message, size};
	struct msghdr header = {
		.msg_iov = &vec,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	const struct calltap_msg *head = message;
	long got;

	for (unsigned i = 0; i < max; i++)
		fds[i] = -1;
	got = SYS(recvmsg, agent.socket, &header, MSG_CMSG_CLOEXEC, 0, 0, 0);
	if (sys_failed(got))
		return (int)got;
	take_fds(&header, fds, max);
	if (got == 0)
		return -EPIPE;
	if (header.msg_flags & MSG_CTRUNC)
		return -EMFILE; /* the limit left no descriptor for what came along */
	if (got < (long)sizeof(*head) || head->size != (uint32_t)got || header.msg_flags & MSG_TRUNC)
		return -EPROTO;
	return 0;
}

#define HIGH_FD	    1000 /* of the 1024 that a process has by default */
#define SEND_WAIT_S 2	 /* bounds a send to a tool that is stopped, or that takes nobody in */

/* Where the session's name ends and ":KEY" begins. */
static size_t name_length(void)
{
	size_t length = 0;

	while (agent.session[length] && agent.session[length] != ':')
		length++;
	return length;
}

uint64_t agent_session_key(void)
{
	const char *digit = agent.session + name_length();
	uint64_t key = 0;

	while (*digit && *++digit)
		key = key << 4 | (uint64_t)(*digit <= '9' ? *digit - '0' : *digit - 'a' + 10);
	return key;
}

/* The tool must be of the target's user or root: anybody may listen on an abstract name. */
static int check_peer(int fd)
{
	struct ucred peer = {0};
	socklen_t size = sizeof(peer);
	long ret = SYS(getsockopt, fd, SOL_SOCKET, SO_PEERCRED, &peer, &size, 0);

	if (sys_failed(ret))
		return (int)ret;
	if (peer.uid != 0 && peer.uid != (uid_t)SYS(geteuid, 0, 0, 0, 0, 0, 0))
		return -EPERM;
	agent.tool = peer.pid;
	return 0;
}

bool agent_tool_is_stopped(void)
{
	char path[32] = "/proc/", digits[12], text[256];
	size_t count = 0, at = sizeof("/proc/") - 1;
	const char *behind;

	for (uint32_t pid = (uint32_t)agent.tool; pid && count < sizeof(digits); pid /= 10)
		digits[count++] = (char)('0' + pid % 10);
	if (!count) /* it is of another PID namespace */
		return false;
	while (count)
		path[at++] = digits[--count];
	memcpy(path + at, "/stat", sizeof("/stat"));
	if (!agent_read_text(path, text, sizeof(text)))
		return false;
	behind = agent_behind_name(text);
	return behind && behind[0] == ' ' && behind[1] == 'T';
}

/*
 * QEMU changes what is read from a number under which the program has a descriptor of signals, and knows of no other
 * table than the program's: the agent's socket gets a number that the program hardly uses.
 */
static long move_up(long fd)
{
	long high = agent.own_numbers ? SYS(fcntl, fd, F_DUPFD_CLOEXEC, HIGH_FD, 0, 0, 0) : -EINVAL;

	if (sys_failed(high))
		return fd;
	sys_close((int)fd);
	return high;
}

int agent_connect(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const int64_t patience[2] = {SEND_WAIT_S, 0}; /* struct timeval */
	size_t length = name_length();
	long fd, ret;

	fd = SYS(socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, 0, 0, 0);
	if (sys_failed(fd))
		return (int)fd;
	SYS(setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, patience, sizeof(patience), 0);
	memcpy(address.sun_path + 1, agent.session, length);
	ret = SYS(connect, fd, &address, offsetof(struct sockaddr_un, sun_path) + 1 + length, 0, 0, 0);
	if (!sys_failed(ret))
		ret = check_peer((int)fd);
	if (ret) {
		sys_close((int)fd);
		return (int)ret;
	}
	agent.socket = (int)move_up(fd);
	return 0;
}

/*
 * Whether somebody is left to serve is looked at after 5 ms, then ever more rarely: a process that lived for a moment
 * is not kept for much longer, and a process that stays is looked at each second.
 */
int agent_wait_message(uint64_t wait_ms)
{
	struct pollfd poll = {.fd = agent.socket, .events = POLLIN};
	uint64_t until = wait_ms ? sys_monotonic_ns() + wait_ms * 1000000 : ~(uint64_t)0;
	int64_t step = LOOK_MIN_NS;
	/* ppoll() itself counts this down to nothing. */
	struct sys_timespec left = {0, step};

	while (SYS(ppoll, &poll, 1, &left, NULL, 0, 0) == 0 && !__atomic_load_n(&agent.leave, __ATOMIC_SEQ_CST)) {
		if (agent_threads_last(&agent.exit_status))
			return -EPIPE;
		if (wait_ms && sys_monotonic_ns() >= until)
			return -ETIMEDOUT;
		step = step < LOOK_MAX_NS / 2 ? step * 2 : LOOK_MAX_NS;
		left = (struct sys_timespec){0, step};
	}
	return agent.leave ? -ECANCELED : 0;
}
