/*
 * The inside of the remote room, shared by the files of this folder only.
 */
#ifndef HOST_REMOTE_IMPL_H
#define HOST_REMOTE_IMPL_H

#include <limits.h>
#include <pthread.h>

#include <calltap/abi/ring.h>

#include "remote.h"

#define REMOTE_REQUEST_MAX (128u << 10) /* bytes of a packet */
#define REMOTE_ANSWER_MAX  (1u << 20)
#define REMOTE_PACKET_MAX  (16u << 10) /* bytes of one packet of an answer */
#define REMOTE_WORDS_MAX   4096u       /* of a request */
#define REMOTE_NAME_MAX	   40u	       /* PID-RANDOM, and a dot before it while it is made */

/*
 * The path of the i-th folder where sockets may be, of REMOTE_FOLDERS; false: there is no such place here.  A session
 * takes the first that there is; clients look into all.
 */
#define REMOTE_FOLDERS 3u
bool folder_path(unsigned i, char path[PATH_MAX]);
/*
 * Open the folder and check that nobody else can look into it. make: create it if need be. -ENOENT: it is not there,
 * -EPERM: it is not safe, with the remedy in diag.
 */
int folder_open(int *fd, const char *path, bool make, struct calltap_diag *diag) __attribute__((warn_unused_result));
/* The path by which a socket in the folder is reached, however long the folder's own is. */
void folder_socket(char path[108], int folder, const char *name);

/* True if the other end of a connection is run by this user, or by root. */
bool remote_peer_is_ours(int socket);

/* Print a status as text, and parse such text; other lines are passed over. */
void status_print(const struct remote_status *status, FILE *stream);
void status_parse(struct remote_status *status, char *text);

struct remote_client {
	int socket;	   /* -1 = free */
	uint64_t since_ns; /* time of the client's last word, CLOCK_MONOTONIC */
	char *answer;	   /* the part of an answer that the client has not taken yet, NULL = none */
	size_t size, sent;
	bool waits;	/* the client waits for the end of the session */
	void *instance; /* the instance that the client has begun, and that ends with it; NULL = none */
};

#define REMOTE_CLIENTS (CALLTAP_INSTANCES + 8u) /* an instance has one as long as it lasts */

struct remote_name {
	char text[REMOTE_NAME_MAX];
	pid_t pid; /* 0 = its target has ended */
};

struct remote {
	const struct remote_ops *ops;
	void *context;
	int folder;
	struct remote_name *names; /* of the socket */
	size_t name_count;
	int listener, epoll;
	int wake;  /* eventfd: tells the thread to look at `stop` */
	int spare; /* given up to turn a client away when there is no other descriptor */
	bool stop; /* atomic */
	bool threaded;
	pthread_t thread;
	struct remote_client clients[REMOTE_CLIENTS];
};

/* The instance has ended: tell the client that began it, unless it is the asker. */
void server_instance_ended(struct remote *remote, void *instance, const struct remote_client *asker, const char *text);

/* Carry out a request, whose text is changed; fds: -1 = none came along. */
void request_serve(struct remote *remote, struct remote_client *client, char *text, const int fds[REMOTE_FDS]);
/* Queue an answer and send what can be sent. */
void client_answer(struct remote *remote, struct remote_client *client, int code, int column, const char *text,
		   size_t size);

#endif
