#!/usr/bin/env python3
"""Makes the library that says what arguments the C library's functions take: prototypes.py OUTPUT COMPILER...

Programs as they are shipped have no debug information, and neither has their libc; but what `open()` takes stands in a
header.  So each function that the headers declare gets a definition without a body of meaning here, under its own symbol,
and is compiled with debug information: a shared object that nobody runs, for the reader of types (src/host/types).  The
build calls this, with the compiler that it uses for the tool.

Where a header says `int` and means one of a few names, FAMILIES has them: those become enumerations.
"""
import os
import re
import subprocess
import sys
import tempfile

HEADERS = """aio.h argp.h argz.h arpa/inet.h ctype.h dirent.h dlfcn.h envz.h err.h error.h execinfo.h fcntl.h fmtmsg.h
fnmatch.h fstab.h fts.h ftw.h getopt.h glob.h grp.h gshadow.h iconv.h ifaddrs.h inttypes.h langinfo.h libgen.h libintl.h
link.h locale.h malloc.h math.h mntent.h monetary.h mqueue.h net/if.h netdb.h netinet/ether.h nl_types.h obstack.h poll.h printf.h
pthread.h pty.h pwd.h regex.h resolv.h sched.h search.h semaphore.h setjmp.h shadow.h signal.h spawn.h stdio.h stdio_ext.h
stdlib.h string.h strings.h sys/acct.h sys/auxv.h sys/epoll.h sys/eventfd.h sys/fanotify.h sys/file.h sys/fsuid.h
sys/inotify.h sys/ioctl.h sys/ipc.h sys/klog.h sys/mman.h sys/mount.h sys/msg.h sys/personality.h sys/prctl.h sys/ptrace.h
sys/quota.h sys/random.h sys/reboot.h sys/resource.h sys/select.h sys/sem.h sys/sendfile.h sys/shm.h sys/signalfd.h
sys/socket.h sys/stat.h sys/statfs.h sys/statvfs.h sys/swap.h sys/sysinfo.h sys/syslog.h sys/time.h sys/timerfd.h
sys/times.h sys/timex.h sys/types.h sys/uio.h sys/un.h sys/utsname.h sys/wait.h sys/xattr.h syslog.h termios.h threads.h
time.h uchar.h ucontext.h unistd.h utime.h utmp.h utmpx.h wchar.h wctype.h wordexp.h""".split()

OPEN = """O_RDONLY O_WRONLY O_RDWR O_CREAT O_EXCL O_NOCTTY O_TRUNC O_APPEND O_NONBLOCK O_DSYNC O_ASYNC O_DIRECT O_LARGEFILE
O_DIRECTORY O_NOFOLLOW O_NOATIME O_CLOEXEC O_PATH"""
SIGNALS = """SIGHUP SIGINT SIGQUIT SIGILL SIGTRAP SIGABRT SIGBUS SIGFPE SIGKILL SIGUSR1 SIGSEGV SIGUSR2 SIGPIPE SIGALRM SIGTERM
SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGXCPU SIGXFSZ SIGVTALRM SIGPROF SIGWINCH SIGIO SIGPWR SIGSYS"""
PROTECTION = "PROT_NONE PROT_READ PROT_WRITE PROT_EXEC"
MESSAGE = """MSG_OOB MSG_PEEK MSG_DONTROUTE MSG_TRUNC MSG_DONTWAIT MSG_EOR MSG_WAITALL MSG_CONFIRM MSG_ERRQUEUE MSG_NOSIGNAL
MSG_MORE MSG_CMSG_CLOEXEC"""
ADDRESSES = "AF_UNSPEC AF_UNIX AF_INET AF_INET6 AF_NETLINK AF_PACKET AF_VSOCK AF_ALG"
# By name: the functions, the parameter as the header calls it (without underscores in front), its values. A set of which
# each is one bit, or none, is shown as flags; so a value of several bits must not be among those.
FAMILIES = {
    "open_flags": ("open open64 openat openat64 __open_2 __open64_2 __openat_2 __openat64_2", "oflag", OPEN),
    "folder": ("""openat openat64 __openat_2 __openat64_2 fstatat fstatat64 statx unlinkat mkdirat faccessat readlinkat renameat
        renameat2 linkat symlinkat fchownat fchmodat utimensat execveat name_to_handle_at""", "fd dirfd fromfd tofd oldfd newfd dfd",
               "AT_FDCWD"),
    "access_mode": ("access faccessat eaccess euidaccess", "type", "F_OK R_OK W_OK X_OK"),
    "protection": ("mmap mmap64 mprotect pkey_mprotect", "prot", PROTECTION),
    "map_flags": ("mmap mmap64", "flags", """MAP_SHARED MAP_PRIVATE MAP_FIXED MAP_ANONYMOUS MAP_GROWSDOWN MAP_DENYWRITE
        MAP_EXECUTABLE MAP_LOCKED MAP_NORESERVE MAP_POPULATE MAP_NONBLOCK MAP_STACK MAP_HUGETLB MAP_SYNC MAP_FIXED_NOREPLACE"""),
    "advice": ("madvise", "advice", """MADV_NORMAL MADV_RANDOM MADV_SEQUENTIAL MADV_WILLNEED MADV_DONTNEED MADV_FREE MADV_REMOVE
        MADV_DONTFORK MADV_DOFORK MADV_MERGEABLE MADV_HUGEPAGE MADV_NOHUGEPAGE MADV_DONTDUMP MADV_DODUMP MADV_WIPEONFORK
        MADV_KEEPONFORK MADV_COLD MADV_PAGEOUT MADV_POPULATE_READ MADV_POPULATE_WRITE"""),
    "sync_flags": ("msync", "flags", "MS_ASYNC MS_INVALIDATE MS_SYNC"),
    "whence": ("lseek lseek64 fseek fseeko fseeko64", "whence", "SEEK_SET SEEK_CUR SEEK_END SEEK_DATA SEEK_HOLE"),
    "fcntl_command": ("fcntl fcntl64", "cmd", """F_DUPFD F_DUPFD_CLOEXEC F_GETFD F_SETFD F_GETFL F_SETFL F_GETLK F_SETLK F_SETLKW
        F_OFD_GETLK F_OFD_SETLK F_OFD_SETLKW F_GETOWN F_SETOWN F_GETSIG F_SETSIG F_SETLEASE F_GETLEASE F_NOTIFY F_SETPIPE_SZ
        F_GETPIPE_SZ F_ADD_SEALS F_GET_SEALS"""),
    "lock": ("flock", "operation", "LOCK_SH LOCK_EX LOCK_NB LOCK_UN"),
    "signal_number": ("kill killpg raise signal sigaction pthread_kill tgkill sigqueue sigaddset sigdelset sigismember strsignal",
                      "sig signo signum signal", SIGNALS),
    "signal_how": ("sigprocmask pthread_sigmask", "how", "SIG_BLOCK SIG_UNBLOCK SIG_SETMASK"),
    "clock": ("clock_gettime clock_settime clock_getres clock_nanosleep timer_create timerfd_create", "clock_id", """CLOCK_REALTIME
        CLOCK_MONOTONIC CLOCK_PROCESS_CPUTIME_ID CLOCK_THREAD_CPUTIME_ID CLOCK_MONOTONIC_RAW CLOCK_REALTIME_COARSE
        CLOCK_MONOTONIC_COARSE CLOCK_BOOTTIME CLOCK_REALTIME_ALARM CLOCK_BOOTTIME_ALARM CLOCK_TAI"""),
    "address_family": ("socket socketpair inet_ntop inet_pton", "domain af", ADDRESSES),
    "message_flags": ("send recv sendto recvfrom sendmsg recvmsg __recv_chk __recvfrom_chk", "flags", MESSAGE),
    "shutdown_how": ("shutdown", "how", "SHUT_RD SHUT_WR SHUT_RDWR"),
    "socket_level": ("getsockopt setsockopt", "level", "SOL_SOCKET IPPROTO_IP IPPROTO_TCP IPPROTO_UDP IPPROTO_IPV6"),
    "epoll_operation": ("epoll_ctl", "op", "EPOLL_CTL_ADD EPOLL_CTL_MOD EPOLL_CTL_DEL"),
    "epoll_flags": ("epoll_create1", "flags", "EPOLL_CLOEXEC"),
    "load_mode": ("dlopen dlmopen", "mode", "RTLD_LAZY RTLD_NOW RTLD_NOLOAD RTLD_DEEPBIND RTLD_GLOBAL RTLD_NODELETE"),
    "wait_options": ("waitpid wait4 wait3", "options", "WNOHANG WUNTRACED WCONTINUED"),
    "locale_category": ("setlocale newlocale", "category", """LC_CTYPE LC_NUMERIC LC_TIME LC_COLLATE LC_MONETARY LC_MESSAGES LC_ALL
        LC_PAPER LC_NAME LC_ADDRESS LC_TELEPHONE LC_MEASUREMENT LC_IDENTIFICATION"""),
    "at_flags": ("fstatat fstatat64 linkat fchownat fchmodat utimensat", "flag flags", """AT_SYMLINK_NOFOLLOW AT_SYMLINK_FOLLOW
        AT_NO_AUTOMOUNT AT_EMPTY_PATH"""),
    "unlink_flags": ("unlinkat", "flag", "AT_REMOVEDIR"),
}
VALUE = "calltap_value"
LOCAL = re.compile(r"\bcalltap_(\d+)\b")  # what a definition is called in C


def fail(text):
    print(f"prototypes.py: {text}", file=sys.stderr)
    sys.exit(1)


def preprocessed(compiler):
    """The headers' text without macros, and {NAME: number or constant} of the families'."""
    names = sorted({name for _, _, values in FAMILIES.values() for name in values.split()})
    source = "#define _GNU_SOURCE\n" + "".join(f"#if __has_include(<{header}>)\n#include <{header}>\n#endif\n" for header in HEADERS)
    source += "".join(f'#ifdef {name}\n{VALUE} "{name}" {name}\n#endif\n' for name in names)
    # The checked functions, such as __read_chk(), are declared for a build that optimizes.
    done = subprocess.run([*compiler, "-E", "-P", "-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-x", "c", "-"], input=source,
                          stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        fail("the C library's headers could not be read")
    values = dict(re.findall(rf'{VALUE} "(\w+)" (.+)', done.stdout))
    return re.sub(rf"{VALUE} .*\n", "", done.stdout), values


def without(text, word):
    """The text without each `word ((...))`."""
    while True:
        found = re.search(rf"\b{word}\s*\(", text)
        if not found:
            return text
        depth, at = 1, found.end()
        while depth and at < len(text):
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        text = text[:found.start()] + " " + text[at:]


def statements(text):
    """Declarations of the outermost level."""
    depth, begin = 0, 0
    for at, letter in enumerate(text):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if not depth and letter in ";}":
            yield " ".join(text[begin:at + (letter == "}")].split())
            begin = at + 1


def parameters_of(text):
    """A list of parameters, taken apart."""
    depth, begin, found = 0, 0, []
    for at, letter in enumerate(text + ","):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if not depth and letter == ",":
            found.append(text[begin:at].strip())
            begin = at + 1
    return found


def with_name(parameter, names):
    """The parameter under its name without the reserved underscores; names: those that are taken."""
    parameter = re.sub(r"\[[^]]*\]", "[]", parameter)  # bounds may name other parameters
    found = re.search(r"\(\s*\*\s*(__\w+)\s*\)|[\s*](__\w+)\s*(?:\[\])?$", parameter)
    if not found:
        return parameter, ""
    at = 1 if found.group(1) else 2
    name = found.group(at).strip("_")
    # A keyword, a type's name, or another parameter's cannot be taken.
    if not name or name in names or re.search(rf"\b{name}\b", parameter[:found.start(at)]):
        return parameter, found.group(at)
    return parameter[:found.start(at)] + name + parameter[found.end(at):], name


def enumerated(function, parameter, name, values, before):
    """The parameter with an enumeration in place of int, if it is one of a family's; before: the text of those before it."""
    for family, (functions, parameters, members) in FAMILIES.items():
        there = [member for member in members.split() if member in values]
        if function in functions.split() and name in parameters.split() and there:
            named = f"{{ {', '.join(f'{member} = {values[member]}' for member in there)} }} "
            return f"enum {family} {'' if f'enum {family} ' in before else named}{name}"
    return parameter


def definition(statement, values, reserved, number):
    """(symbol, a definition of the function that is declared), or None."""
    statement = re.sub(r"\b__asm\b", "__asm__", statement)
    label = re.search(r"__asm__\s*\(([^)]*)\)", statement)
    bare = re.sub(r"\b(extern|__extension__|__inline|_Noreturn|__restrict|restrict)\b", " ", statement)
    bare = without(without(bare, "__attribute__"), "__asm__").strip()
    found = re.match(r"([\w\s*]+?[\s*])(\w+)\s*\((.*)\)$", bare)
    if not found or "{" in bare or re.match(r"typedef|static|return", bare):
        return None
    result, name, inner = found.groups()
    symbol = "".join(re.findall(r'"([^"]*)"', label.group(1))) if label else name
    names, parameters = set(reserved), []
    for parameter in parameters_of(inner):
        # The union stands for the address of one of many types, in a register.
        parameter = parameter.replace("__CONST_SOCKADDR_ARG", "const struct sockaddr *").replace("__SOCKADDR_ARG", "struct sockaddr *")
        # Room that the function is to fill says nothing when it is called, nor does a FILE.
        if not re.search(r"\bconst\b", parameter):
            parameter = re.sub(r"^[\w\s]+\*\s*(?=\w*$)", "void *", parameter)
        parameter, called = with_name(parameter, names)
        names.add(called)
        parameters.append(enumerated(symbol, parameter, called, values, ", ".join(parameters)))
    local = f"calltap_{number}"
    alias = f'__asm__ (".globl {symbol}\\n.type {symbol}, %function\\n.set {symbol}, {local}");'
    return symbol, f"{result} {local} ({', '.join(parameters)}) {{ __builtin_trap (); }}\n{alias}\n"


def definitions(text, values):
    reserved = "int long short char float double void signed unsigned const register static auto inline switch default".split()
    known = {}
    for number, statement in enumerate(statements(text)):
        made = definition(statement, values, reserved, number)
        if made:
            known.setdefault(*made)
    return known


def compiled(compiler, text, known, output):
    """Compile all definitions; the names of those that the compiler refuses, or None where it names none."""
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "prototypes.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text + "".join(known.values()))
        done = subprocess.run([*compiler, "-w", "-std=gnu2x", "-g", "-gz", "-O0", "-fno-builtin", "-fno-lto", "-fPIC", "-shared", "-nostdlib",
                               "-fdebug-prefix-map=" + folder + "=.", "-Wl,--build-id=none", "-o", output, source],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    if not done.returncode:
        return set()
    refused = {int(number) for number in re.findall(r"\bcalltap_(\d+)\b", done.stdout)}
    if not refused:
        print(done.stdout[:2000], file=sys.stderr)
    return {symbol for symbol, definition_of in known.items() if int(LOCAL.search(definition_of).group(1)) in refused} or None


def main():
    output, compiler = sys.argv[1], sys.argv[2:]
    text, values = preprocessed(compiler)
    known = definitions(text, values)
    # A header may have a declaration that is not taken apart right: its function is left out, and no other.
    for _ in range(5):
        refused = compiled(compiler, text, known, output)
        if not refused:
            break
        known = {symbol: known[symbol] for symbol in known if symbol not in refused}
    if refused or refused is None:
        fail("what the headers declare could not be compiled")


if __name__ == "__main__":
    main()
