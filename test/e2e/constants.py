"""Constants in conditions: names of enumerations, letters, true and false, nan and infinity, and NULL of what points to a
text.  What is recorded is what the program does."""
import os

from choosing import replayed_calls
from harness import expect
from typed import compiled
from values import need

ENUMS = r'''#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <unistd.h>
enum mode { MODE_SLOW, MODE_FAST = 7, MODE_NONE = -1 };
enum bits { BIT_A = 1, BIT_B = 2, BIT_C = 4 };
struct job { enum mode mode; char letter; double weight; };
__attribute__((noinline)) enum mode work(enum mode mode, enum bits bits, char letter, bool on, double weight, const struct job *job)
{
	__asm__ volatile("" ::"r"(job), "r"(letter), "r"(on) : "memory");
	return bits == BIT_C || weight > 1e9 ? MODE_NONE : mode;
}
int main(void)
{
	static const char letters[] = "a\n'z";
	int fd = open("/dev/null", O_RDWR | O_CREAT | O_CLOEXEC, 0600), other = open("/dev/null", O_RDONLY);
	for (int i = 0; i < 12; i++) {
		struct job job = {i % 2 ? MODE_SLOW : MODE_NONE, letters[i / 3], i};
		work(i % 3 == 0 ? MODE_FAST : i % 3 == 1 ? MODE_SLOW : MODE_NONE, i % 8, letters[i % 4], i < 5, i == 3 ? NAN : i == 4 ? INFINITY : i, &job);
	}
	close(fd);
	close(other);
	return 0;
}
'''
MODES = (7, 0, -1)


def result_of(i):
    return -1 if i % 8 == 4 or i == 4 else MODES[i % 3]


OF_WORK = {
    "mode == MODE_FAST": lambda i: i % 3 == 0,
    "mode != MODE_FAST && mode < MODE_SLOW": lambda i: i % 3 == 2,
    "bits & (BIT_B | BIT_C)": lambda i: i % 8 & 6,
    "letter == 'a' || letter == '\\n'": lambda i: i % 4 < 2,
    "letter == '\\'' && on == true": lambda i: i % 4 == 2 and i < 5,
    "on == false": lambda i: i >= 5,
    "weight == nan": lambda i: i == 3,
    "weight != nan && weight == inf || weight < 2": lambda i: i == 4 or i < 2,
    "job->mode == MODE_NONE": lambda i: i % 2 == 0,
    "job->letter == 'z' && job->weight != inf": lambda i: i >= 9,
    "ret == MODE_NONE": lambda i: result_of(i) == -1,
    "ret == MODE_FAST && mode == MODE_FAST && bits != BIT_A": lambda i: result_of(i) == 7 and i % 3 == 0 and i % 8 != 1,
}
CXX = r'''#include <string>
namespace space { enum class Mode { FAST = 3, SLOW = 4 }; enum Plain { FAST = 9, OTHER = 10 }; }
__attribute__((noinline)) int take(const std::string *name, space::Mode mode, space::Plain plain)
{
	__asm__ volatile("" ::"r"(name) : "memory");
	return name ? (int)name->size() : (int)mode + (int)plain;
}
int main()
{
	std::string name("abc");
	for (int i = 0; i < 8; i++)
		take(i & 1 ? &name : nullptr, i & 2 ? space::Mode::FAST : space::Mode::SLOW, i & 4 ? space::FAST : space::OTHER);
	return 0;
}
'''
OF_TAKE = {
    "name == NULL": lambda i: not i & 1,
    "NULL != name && name == \"abc\"": lambda i: i & 1,
    "name": lambda i: i & 1,
    "!name || mode == SLOW": lambda i: not i & 1 or not i & 2,
    "mode == Mode::FAST && plain == OTHER": lambda i: i & 2 and not i & 4,
    "plain == space::Plain::FAST": lambda i: i & 4,
}


def chosen_by(case, program, function, conditions, count):
    """Each condition's calls are those that the program makes."""
    for condition, check in conditions.items():
        done = case.record([program], ["--no-libcalls", "-l", function, "-a", "--if", f"{function}: {condition}"], log=False)
        expect(done.status == 0, f"{condition}: {done.status} {done.stderr}")
        found = sum(call[0].split("(")[0] == function for call in replayed_calls(case))
        wanted = sum(bool(check(i)) for i in range(count))
        expect(found == wanted and 0 < wanted < count, f"{condition}: {found} calls, not {wanted}")


def in_c(case):
    """Enumerations, letters, bool, double, by arguments, members and the result; a flag of libc's by its name."""
    need(case)
    case.as_it_is = True
    program = compiled(case, "enums", ENUMS, "cc", "-O0", "-g")
    chosen_by(case, program, "work", OF_WORK, 12)
    done = case.record([program], ["-l", "open", "-a", "--if", "open: oflag & O_CREAT && (oflag & O_CLOEXEC)"], log=False)
    found = [call[2] for call in replayed_calls(case) if call[0] == "open"]
    expect(done.status == 0 and len(found) == 1 and "O_CREAT" in found[0], f"{found} {done.stderr}")
    for condition, why in (("work: mode == MODE_QUICK", "this is no value"), ("work: weight < nan", "== nan and != nan"),
                           ("work: ret == MODE_NONE && mode == MODE_FASTER", "this is no value")):
        done = case.run([case.tool, "record", "-o", case.trace_path, "--if", condition, "--", program])
        expect(done.status != 0 and why in done.stderr, f"{condition}: {done.status} {done.stderr}")
    # A name of an enumeration beside a result is no argument.
    note = os.path.join(case.folder, "note")
    done = case.record([program], ["--no-libcalls", "-l", "work", "--trigger-gap", "0", "--run-when", f"work: ret == MODE_NONE => echo >> {note}"], log=False)
    with open(note, encoding="utf-8") as file:
        times = len(file.readlines())
    expect(done.status == 0 and times == sum(result_of(i) == -1 for i in range(12)), f"{times} {done.stderr}")


def beside_triggers(case):
    """A trigger sees the calls that a condition keeps, and no other."""
    need(case)
    case.as_it_is = True
    program = compiled(case, "enums", ENUMS, "cc", "-O0", "-g")
    note = os.path.join(case.folder, "note")
    for condition, kept in (((), range(12)), (("--if", "work: mode == MODE_FAST"), range(0, 12, 3)), (("--only-if", "work: mode == MODE_FAST"), range(0, 12, 3))):
        done = case.record([program], ["--no-libcalls", "-l", "work", "--trigger-gap", "0", *condition, "--run-when", f"work: on == false => echo >> {note}"], log=False)
        with open(note, encoding="utf-8") as file:
            times = len(file.readlines())
        os.unlink(note)
        expect(done.status == 0 and times == sum(i >= 5 for i in kept), f"{condition}: {times} {done.stderr}")


def in_cxx(case):
    """Scoped names, and the address of a std::string."""
    need(case)
    case.as_it_is = True
    program = compiled(case, "scoped", CXX, "c++", "-O0", "-g")
    chosen_by(case, program, "take", OF_TAKE, 8)
    done = case.run([case.tool, "record", "-o", case.trace_path, "--if", "take: plain == FAST", "--", program])
    expect(done.status != 0 and "two types" in done.stderr, f"{done.status} {done.stderr}")


SINGLE = {
    "choosing-constants": in_c,
    "choosing-beside-triggers": beside_triggers,
    "choosing-constants-of-c++": in_cxx,
}
