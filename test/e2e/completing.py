"""Completion: what `calltap --complete` offers agrees with what the verbs take, and bash, zsh and fish insert it."""
import os
import pty
import re
import select
import shutil
import signal
import time

from harness import Skip, expect

PATIENCE = 20


def recorded(case):
    done = case.record([case.program("compared.c"), "20", "100", "0", "0"], ["-l", "compared_*"], log=False)
    expect(done.status == 0, done.stderr)


def complete(case, *words):
    done = case.run([case.tool, "--complete", *words])
    expect(done.status == 0 and not done.stderr, f"--complete {words}: {done.status} {done.stderr}")
    return [line.split("\t")[0] for line in done.stdout.splitlines()]


def verbs(case):
    found = complete(case, "")
    help_text = case.run([case.tool, "--help"]).stdout
    expect(found == re.findall(r"^  ([a-z]+) ", help_text, re.M), found)
    return found


def options(case):
    """Each verb's options are those of its help."""
    for verb in verbs(case):
        offered = set(complete(case, verb, "-"))
        # A row of the help begins with its option; a text may name other verbs' options.
        told = set(re.findall(r"^ +(?:-\w, *)?(--[a-z][a-z-]+)", case.run([case.tool, verb, "--help"]).stdout, re.M))
        expect("--help" in offered and told <= offered, f"{verb}: {told - offered} of the help are not offered")


def values(case):
    case.as_it_is = True
    recorded(case)
    trace = case.trace_path
    for verb, option in (("replay", "--color"), ("replay", "--column"), ("report", "--sort"), ("report", "--by"), ("diff", "--sort"),
                         ("export", "--weight"), ("export", "--format")):
        offered = complete(case, verb, option, "")
        expect(len(offered) > 1 and complete(case, verb, f"{option}=") == [f"{option}={value}" for value in offered], f"{option}: {offered}")
        for value in offered:
            more = ["--format", "folded"] if option == "--weight" else []
            names = [trace, trace] if verb == "diff" else ["-i", trace]
            done = case.run([case.tool, verb, option, value, *more, *names, *(["-o", "x." + value] if verb == "export" else [])])
            expect(done.status == 0, f"{verb} {option} {value}: {done.stderr}")
    for option in ("--stock", "--time", "--tracer"):
        offered = complete(case, "record", option, "")
        for value in offered:
            done = case.run([case.tool, "record", "-o", "y", option, value, "--allow-no-match", "true"])
            expect(done.status != 1, f"record {option} {value}: {done.stderr}")  # 1 is a wrong option
    expect(complete(case, "replay", "--column", "time,de") == ["time,delta", "time,depth"], "lists with commas")
    for words in (["graph", "-i", trace, ""], ["report", "-i", trace, "-l", ""], ["report", trace, "--notrace", ""], ["slow", "-i", trace, ""]):
        offered = complete(case, *words)
        expect("compared_find" in offered, f"{words}: {offered}")
    for words, wanted in ((["record", ""], [":commands"]), (["record", "ls", "-"], [":files"]), (["shell", "1", ""], [":commands"]),
                          (["shell", "-t", "1us", "--", ""], [":commands"]), (["shell", "1", "ls", "-"], [":files"]), (["live", "--", ""], [":commands"]),
                           (["replay", ""], [":files"]), (["replay", "-i", ""], [":files"]),
                          (["replay", "--buffers", ""], [":dirs"]), (["nothing", ""], []), (["--completion", "b"], ["bash"])):
        expect(complete(case, *words) == wanted, f"{words}: {complete(case, *words)}")
    expect(str(os.getpid()) in complete(case, "attach", ""), "this process cannot be attached to")
    done = case.run([case.tool, "--completion", "csh"])
    expect(done.status == 1 and "bash, zsh or fish" in done.stderr, done.stderr)


class Shell:
    """An interactive shell on a terminal of its own, in the case's folder."""

    def __init__(self, case, *command):
        if not shutil.which(command[0]):
            raise Skip(f"{command[0]} is not installed")
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(case.folder)
            environment = dict(os.environ, TERM="dumb", PS1="ready> ", HOME=case.folder, ZDOTDIR=case.folder,
                               PATH=os.path.dirname(os.path.abspath(case.tool)) + ":" + os.environ["PATH"])
            os.execvpe(command[0], command, environment)
        self.seen = ""

    def type(self, text):
        os.write(self.terminal, text.encode())

    def wait_for(self, text):
        """All that came, up to the text."""
        end = time.monotonic() + PATIENCE
        while text not in self.seen:
            left = end - time.monotonic()
            expect(left > 0 and select.select([self.terminal], [], [], left)[0], f"{text!r} does not come: {self.seen[-2000:]!r}")
            self.seen += os.read(self.terminal, 65536).decode(errors="replace")
        before, _, self.seen = self.seen.partition(text)
        return before

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.terminal)


def typed(case, command, script):
    """Tabs in a shell that runs: a verb, an option, its value, a function, a file."""
    case.as_it_is = True
    case.need_native("a shell")
    recorded(case)
    shutil.copy(case.trace_path, os.path.join(case.folder, "calltap.data.one"))
    shell = Shell(case, *command)
    try:
        shell.type(script + "\recho set-\"\"up\r")
        shell.wait_for("set-up")
        for line, wanted in (("calltap repl\t", "replay"), ("calltap report --no-p\t", "--no-pager"), ("calltap report --color alw\t", "--color always"),
                             ("calltap report -l compared_fi\t", "compared_find"), ("calltap report --sort=p9\t", "--sort=p99"),
                             ("calltap info calltap.da\t", "calltap.data.one")):
            shell.type(line)
            shell.type("\x01echo is-\"\" \x05\r")  # the shell prints what it has made of the line
            shell.wait_for("is- calltap")
            made = shell.wait_for("\r\n")
            expect(made.strip().endswith(wanted), f"{line!r}: {made!r}")
    finally:
        shell.end()


def bash(case):
    typed(case, ["bash", "--norc", "--noprofile", "-i"], 'source <(calltap --completion bash)')


def zsh(case):
    typed(case, ["zsh", "-f", "-i"], "autoload -Uz compinit; compinit -u; source <(calltap --completion zsh)")


def fish(case):
    if not shutil.which("fish"):
        raise Skip("fish is not installed")
    case.as_it_is = True
    recorded(case)
    tool = os.path.abspath(case.tool)
    for line, wanted in (("repl", "replay\t"), ("report --no-p", "--no-pager"), ("report --color alw", "always"),
                         (f"report -i {case.trace_path} -l compared_fi", "compared_find"), ("report --sort=p9", "--sort=p99"), ("info tr", "trace")):
        done = case.run(["env", f"PATH={os.path.dirname(tool)}:{os.environ['PATH']}", f"HOME={case.folder}", "fish", "-c",
                         f"calltap --completion fish | source; complete -C 'calltap {line}'"])
        expect(done.stdout.startswith(wanted), f"{line}: {done.stdout!r} {done.stderr}")


SINGLE = {"completing-options": options, "completing-values": values, "completing-bash": bash, "completing-zsh": zsh, "completing-fish": fish}
ALIKE = dict.fromkeys(SINGLE)
