#!/usr/bin/env python3
"""Gate: calls that a room may not make, and shapes of source that the whole tree may not have."""
import re

import lint

# What runs in the target may neither use the application's allocator and locks nor end the process.
TARGET = set("""malloc calloc realloc free aligned_alloc posix_memalign strdup strndup asprintf vasprintf
    printf fprintf dprintf vprintf vfprintf puts fputs fopen fclose fread fwrite fflush perror snprintf vsnprintf sprintf
    exit _Exit _exit quick_exit abort assert atexit on_exit strerror strsignal getenv setenv putenv
    pthread_create pthread_mutex_lock pthread_mutex_unlock pthread_rwlock_rdlock pthread_cond_wait pthread_cond_signal
    pthread_key_create pthread_setspecific pthread_getspecific pthread_once pthread_atfork pthread_join""".split())
HOST = set("gets strcpy strcat sprintf vsprintf strtok atoi atol atof system alloca mktemp tmpnam".split())
BANNED = {room: TARGET | HOST for room in ("base", "arch", "ring", "probe", "patch", "tracers", "agent")}
BANNED.update({"host": HOST, "cmd": HOST})
# base is also built into the host, but what it calls still runs in the target.
# A public header has no build of ours to choose a file: what a CPU's registers are is in one that asks the compiler.
OF_EACH_CPU = "include/calltap/registers.h"
CPU_MACRO = re.compile(r"^[ \t]*#[ \t]*(?:el)?if.*\b(__x86_64__|__i386__|__aarch64__|__riscv\w*|__arm__)", re.M)
C_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<][^">]*\.(?:c|cc)[">]', re.M)


def calls(path, tokens, banned):
    for index, (line, token) in enumerate(tokens[:-1]):
        if token in banned and tokens[index + 1][1] == "(" and tokens[index - 1][1] not in (".", "->"):
            yield f"{path}:{line}: {token}() is banned in this room"


def declarations(path, tokens):
    """Prototypes and extern declarations at file level: they belong in a header."""
    statement, depth = [], 0
    for line, token in tokens:
        depth += (token == "{") - (token == "}")
        if depth:
            statement = []
            continue
        if token not in (";", "}"):
            statement.append((line, token))
            continue
        words = [word for _, word in statement]
        if "extern" in words and not any(word.startswith('"') for word in words):
            yield f"{path}:{statement[0][0]}: extern declaration in a .c file; put it in a header"
        elif is_prototype(words):
            yield f"{path}:{statement[0][0]}: prototype in a .c file; put it in a header or the function above its use"
        statement = []


def is_prototype(words):
    if not words or words[0] in ("typedef", "static", "_Static_assert", "asm", "__asm__") or "(" not in words:
        return False
    at = words.index("(")
    if "=" in words or at < 2 or words[at - 1] == "__attribute__":
        return False
    return bool(re.match(r"[A-Za-z_]", words[at - 1])) and (words[at - 2] == "*" or words[at - 2].isidentifier())


def check(root):
    findings = []
    for path in lint.files(root, ".c", ".h", ".cc"):
        text = lint.strip_comments(lint.read(root, path))
        room = lint.room(path)
        tokens = lint.code_tokens(root, path)
        findings += calls(path, tokens, BANNED.get(room, set()))
        if path.startswith("src/") and path.endswith(".c"):
            findings += declarations(path, tokens)
        for match in C_INCLUDE.finditer(text):
            findings.append(f"{path}:{text.count(chr(10), 0, match.start()) + 1}: a source file is included")
        if path.startswith(("src/", "include/")) and room != "arch" and path != OF_EACH_CPU:
            for match in CPU_MACRO.finditer(text):
                findings.append(f"{path}:{text.count(chr(10), 0, match.start()) + 1}: "
                                f"{match.group(1)} outside src/arch; let Meson choose a file")
    return findings


BAD = {
    "malloc in the agent": {"src/agent/a.c": "static void f(void)\n{\n\tg(malloc(3));\n}\n"},
    "assert in a probe": {"src/probe/a.c": "static void f(int x)\n{\n\tassert(x);\n}\n"},
    "sprintf in the host": {"src/host/a.c": "static void f(char *x)\n{\n\tsprintf(x, \"y\");\n}\n"},
    "included source": {"test/a.c": '#include "x.c"\n'},
    "prototype": {"src/host/a.c": "int other(int x);\n"},
    "pointer prototype": {"src/host/a.c": "const char *other(void) __attribute__((pure));\n"},
    "extern": {"src/agent/a.c": "extern char symbol[];\n"},
    "cpu macro": {"src/host/a.c": "#if defined(__x86_64__)\n#endif\n"},
    "cpu macro in a public header": {"include/calltap/a.h": "#if defined(__x86_64__)\n#endif\n"},
}
GOOD = {"clean": {"src/host/a.c": "static int f(int x);\n_Static_assert(sizeof(int) == 4, \"x\");\n"
                  "static int (*hook)(void);\nint g(void)\n{\n\treturn ops->free(1) + f(2); /* malloc(1) */\n}\n"}}

if __name__ == "__main__":
    lint.main(check, BAD, GOOD)
