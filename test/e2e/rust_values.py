"""Values of Rust: programs with functions of random signatures, whose recorded arguments and results equal what was drawn, and what
the program itself says, or are told as not available."""
import os
import random
import re
import shutil
import subprocess

from harness import Skip, expect
from typed import recorded
from values import need


class Kind:
    """A type: how its values are drawn, shown by the tool, written in Rust, and said by the program (Debug)."""
    def __init__(self, name, draw, show, initial, debug, plain=False):
        self.name, self.draw, self.show, self.initial, self.debug, self.plain = name, draw, show, initial, debug, plain


def quoted(value):
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def draw_text(odd):
    return "".join(odd.choice('abc "\\\n') for _ in range(odd.choice([0, 1, 9, 20])))


def draw_numbers(odd):
    return [odd.randint(0, 99) for _ in range(odd.choice([0, 1, 3, 9]))]


def shown_list(value):
    return f"{{{len(value)}: {', '.join([*map(str, value[:8]), *(['...'] if len(value) > 8 else [])])}}}" if value else "{}"


def vector(value):
    return f"vec!{value}" if value else "Vec::new()"


def number(name, low, high):
    return Kind(name, lambda odd: odd.choice([low, high, 0, 1, odd.randint(low, high)]), str, lambda value: f"({value}{name})", str, True)


def real(name):
    return Kind(name, lambda odd: odd.choice([0.5, -2.0, 1024.25, 0.0]), str, lambda value: f"({value}{name})", str, True)


NOTHING = object()


ABSENT = re.compile(r"(Some\()*None\)*")


def option(kind):
    """What is shown of a value is itself; but one that is called as if there were none has its name around it."""
    def show(value):
        inner = "" if value is NOTHING else kind.show(value[0])
        return "None" if value is NOTHING else f"Some({inner})" if ABSENT.fullmatch(inner) else inner

    return Kind(f"Option<{kind.name}>", lambda odd: (kind.draw(odd),) if odd.random() < 0.6 else NOTHING, show,
                lambda value: f"None::<{kind.name}>" if value is NOTHING else f"Some({kind.initial(value[0])})",
                lambda value: "None" if value is NOTHING else f"Some({kind.debug(value[0])})", kind.plain)


def pair(first, second):
    return Kind(f"({first.name}, {second.name})", lambda odd: (first.draw(odd), second.draw(odd)), lambda value: "{__0=%s, __1=%s}" % (first.show(value[0]), second.show(value[1])),
                lambda value: f"({first.initial(value[0])}, {second.initial(value[1])})", lambda value: f"({first.debug(value[0])}, {second.debug(value[1])})",
                first.plain and second.plain)


class Enumeration(Kind):
    """An enumeration with data: {variant: None, or its fields, [Kind] or {name: Kind}}."""
    def __init__(self, name, variants):
        self.variants = variants
        fields = [kind for inner in variants.values() for kind in (inner.values() if isinstance(inner, dict) else inner or ())]
        super().__init__(name, self.draw_one, lambda value: self.text(value, "show", "="), lambda value: self.text(value, "initial", ": "),
                         lambda value: self.text(value, "debug", ": "), all(kind.plain for kind in fields))

    def draw_one(self, odd):
        name = odd.choice([*self.variants])
        inner = self.variants[name]
        return name, [kind.draw(odd) for kind in (inner.values() if isinstance(inner, dict) else inner or ())]

    def text(self, value, how, between):
        name, values = value
        inner, path = self.variants[name], "" if how != "initial" else self.name.replace("<", "::<") + "::"
        if not inner:
            return path + name
        if isinstance(inner, list):
            return f"{path}{name}({', '.join(getattr(kind, how)(one) for kind, one in zip(inner, values))})"
        fields = ", ".join(f"{field}{between}{getattr(kind, how)(one)}" for (field, kind), one in zip(inner.items(), values))
        return f"{path}{name}{{{fields}}}" if how == "show" else f"{path}{name} {{ {fields} }}"

    def declaration(self):
        def fields(inner):
            if isinstance(inner, dict):
                return f" {{ {', '.join(f'{name}: {kind.name}' for name, kind in inner.items())} }}"
            return f"({', '.join(kind.name for kind in inner)})" if inner else ""
        derived = "Debug, Clone, Copy" if self.plain else "Debug, Clone"
        return f"#[derive({derived})] pub enum {self.name} {{ {', '.join(name + fields(inner) for name, inner in self.variants.items())} }}\n"


def result(good, bad):
    return Enumeration(f"Result<{good.name}, {bad.name}>", {"Ok": [good], "Err": [bad]})


def many(kind):
    """A list of what is no number, of which all is shown."""
    return Kind(f"Vec<{kind.name}>", lambda odd: [kind.draw(odd) for _ in range(odd.choice([0, 1, 3]))],
                lambda value: f"{{{len(value)}: {', '.join(map(kind.show, value))}}}" if value else "{}",
                lambda value: f"vec![{', '.join(map(kind.initial, value))}]" if value else "Vec::new()",
                lambda value: f"[{', '.join(map(kind.debug, value))}]")


COLORS = ["Red", "Green", "Blue"]
I8, I16, I32, I64 = number("i8", -128, 127), number("i16", -32768, 32767), number("i32", -1 << 31, (1 << 31) - 1), number("i64", -1 << 63, (1 << 63) - 1)
U8, U32, U64, F32, F64 = number("u8", 0, 255), number("u32", 0, (1 << 32) - 1), number("u64", 0, (1 << 64) - 1), real("f32"), real("f64")
BOOL = Kind("bool", lambda odd: odd.random() < 0.5, lambda value: str(value).lower(), lambda value: str(value).lower(), lambda value: str(value).lower(), True)
CHAR = Kind("char", lambda odd: odd.choice("az09"), lambda value: f"'{value}'", lambda value: f"'{value}'", lambda value: f"'{value}'", True)
COLOR = Kind("C", lambda odd: odd.choice(COLORS), str, lambda value: f"C::{value}", str, True)
TEXT = Kind("&'static str", draw_text, quoted, quoted, quoted, True)
STRING = Kind("String", draw_text, quoted, lambda value: f"{quoted(value)}.to_string()", quoted)
VECTOR = Kind("Vec<u64>", draw_numbers, shown_list, vector, str)
P = Kind("P", lambda odd: (I32.draw(odd), draw_text(odd)), lambda value: "{x=%d, name=%s}" % (value[0], quoted(value[1])),
         lambda value: "P { x: %d, name: %s.to_string() }" % (value[0], quoted(value[1])), lambda value: "P { x: %d, name: %s }" % (value[0], quoted(value[1])))
W = Kind("W", lambda odd: (I64.draw(odd), I64.draw(odd)), lambda value: "{a=%d, b=%d}" % value, lambda value: "W { a: %d, b: %d }" % value, lambda value: "W { a: %d, b: %d }" % value, True)
T = Kind("T", lambda odd: (U32.draw(odd), U32.draw(odd), U32.draw(odd)), lambda value: "{a=%d, b=%d, c=%d}" % value,
         lambda value: "T { a: %d, b: %d, c: %d }" % value, lambda value: "T { a: %d, b: %d, c: %d }" % value, True)
N = Kind("N", lambda odd: (F64.draw(odd), option(U32).draw(odd)), lambda value: "{r=%s, o=%s}" % (value[0], option(U32).show(value[1])),
         lambda value: "N { r: %s, o: %s }" % (value[0], option(U32).initial(value[1])), lambda value: "N { r: %s, o: %s }" % (value[0], option(U32).debug(value[1])), True)
UNIT = Kind("()", lambda odd: None, lambda value: "(empty)", lambda value: "()", lambda value: "()", True)
NOTHING_AT_ALL = Kind("()", lambda odd: None, lambda value: "()", lambda value: "()", lambda value: "()", True)
SHAPE = Enumeration("Shape", {"Circle": [F64], "Rect": {"w": F32, "h": F32}, "Named": [STRING, U8], "Empty": None})
NICHE = Enumeration("Niche", {"First": None, "Text": [STRING], "Other": None, "Last": None})
MODE = Enumeration("Mode", {"X": None, "Y": [BOOL], "Z": None})
ONLY = Enumeration("Only", {"One": [I32, U8]})
DEEP = Enumeration("Deep", {"A": [SHAPE], "B": [option(I16)], "C": None})
REFERRING = Enumeration("Refers", {"To": [TEXT], "Nothing": None, "Code": None})
FLAT = Enumeration("Flat", {"Circle": [F64], "Rect": {"w": F32, "h": F32}, "Empty": None})
ENUMERATIONS = [FLAT, SHAPE, NICHE, MODE, ONLY, DEEP, REFERRING]
DATA = [*ENUMERATIONS, option(SHAPE), option(MODE), result(U32, STRING), result(U64, U64), result(U32, U32), result(U64, U32), result(F64, U8),
        result(NOTHING_AT_ALL, U8), result(STRING, COLOR), result(U8, STRING), many(MODE), many(FLAT), many(pair(U32, BOOL)), many(STRING)]
DATA += [Kind("&Shape", SHAPE.draw, SHAPE.show, lambda value: f"&{SHAPE.initial(value)}", SHAPE.debug),
         Kind("&Deep", DEEP.draw, DEEP.show, lambda value: f"&{DEEP.initial(value)}", DEEP.debug),
         Kind("&Result<i64, String>", result(I64, STRING).draw, result(I64, STRING).show, lambda value: f"&{result(I64, STRING).initial(value)}",
              result(I64, STRING).debug)]
VALUES = [I8, I16, I32, I64, U8, U32, U64, F32, F64, BOOL, CHAR, COLOR, TEXT, STRING, VECTOR, P, W, T, N, UNIT,
          *map(option, (U32, U8, I64, F64, BOOL, CHAR, TEXT, STRING, VECTOR, COLOR, W, P, option(I16), option(option(BOOL)), option(STRING))),
          pair(U32, U8), pair(U8, I64), pair(F32, F32), pair(I16, F64), pair(U64, TEXT), option(pair(U8, U32))]
BORROWED = [Kind("&String", draw_text, quoted, lambda value: f"&{quoted(value)}.to_string()", quoted),
            Kind("&[i32]", draw_numbers, shown_list, lambda value: f"&{value}" if value else "&[0i32; 0]", str),
            Kind("&Vec<i16>", draw_numbers, shown_list, lambda value: f"&{vector(value)}", str),
            Kind("&P", P.draw, P.show, lambda value: f"&{P.initial(value)}", P.debug),
            Kind("&Option<u32>", option(U32).draw, option(U32).show, lambda value: f"&{option(U32).initial(value)}", option(U32).debug),
            Kind("Option<&P>", option(P).draw, lambda value: None, lambda value: "None::<&P>" if value is NOTHING else f"Some(&{P.initial(value[0])})", option(P).debug)]
TYPES = """#![allow(dead_code, unused_mut, unused_variables, unused_assignments)]
#[inline(never)] fn black_box<T>(v: T) -> T { unsafe { let out = std::ptr::read_volatile(&v); std::mem::forget(v); out } }
#[derive(Debug, Clone)] pub struct P { x: i32, name: String }
#[derive(Debug, Clone, Copy)] pub struct W { a: i64, b: i64 }
#[derive(Debug, Clone, Copy)] pub struct T { a: u32, b: u32, c: u32 }
#[derive(Debug, Clone, Copy)] pub struct N { r: f64, o: Option<u32> }
#[derive(Debug, Clone, Copy, PartialEq)] pub enum C { Red, Green, Blue }
"""
TYPES += "".join(kind.declaration() for kind in ENUMERATIONS)
TOLD = re.compile(r"\((dropped|moved|uncertain|place|registers|far|struct|empty|fault)\)|0x[0-9a-f]+(\(fault\))?")
TURNS = 3


class Function:
    def __init__(self, odd, index):
        self.index = index
        self.kinds = [odd.choice([*VALUES, *VALUES, *BORROWED]) for _ in range(odd.choice([1, 2, 3, 5, 8]))]
        # A record has room for 32 values, members among them.
        for i, kind in enumerate(self.kinds[:5]):
            if i % 3 == 0 and odd.random() < 0.5:
                self.kinds[i], self.kinds[5:] = odd.choice(DATA), []
        self.result = odd.choice([*VALUES, *VALUES, *(kind for kind in DATA if kind.name[0] != "&")])
        self.is_open = odd.random() < 0.5  # others may call it
        self.ends = odd.random() < 0.3  # its result is not asked for
        self.calls = [([kind.draw(odd) for kind in self.kinds], self.result.draw(odd)) for _ in range(TURNS)]
        # Which arguments are used, and how.  What is assigned to is another's value from then on.
        self.uses = [odd.choice(["say", "say", "take", "none"]) for _ in self.kinds]
        self.assigned = {}
        for k, kind in enumerate(self.kinds):
            same = [j for j, other in enumerate(self.kinds) if j != k and other is kind and kind.plain and j not in self.assigned]
            if same and odd.random() < 0.5:
                self.assigned[k] = odd.choice(same)

    def code(self):
        parameters = ", ".join(f"mut a{k}: {kind.name}" for k, kind in enumerate(self.kinds))
        lines = [f"a{k} = a{j};" for k, j in self.assigned.items()]
        said = [k for k, use in enumerate(self.uses) if use == "say"]
        lines.append(f'println!("{self.index}{" {:?}" * len(said)}", {", ".join(f"a{k}" for k in said)});' if said else f'println!("{self.index}");')
        lines += [f"black_box(a{k});" for k, use in enumerate(self.uses) if use == "take"]
        results = ", ".join(f"{turn} => {self.result.initial(value)}" for turn, (_, value) in enumerate(self.calls[:-1]))
        lines.append(f"unsafe {{ match black_box(TURN) {{ {results}, _ => {self.result.initial(self.calls[-1][1])} }} }}")
        return f"#[inline(never)] {'#[no_mangle] pub ' if self.is_open else ''}fn call_{self.index}({parameters}) -> {self.result.name} {{ {' '.join(lines)} }}"

    def call(self, turn):
        given = ", ".join(f"black_box({kind.initial(value)})" for kind, value in zip(self.kinds, self.calls[turn][0]))
        return f"call_{self.index}({given});" if self.ends else f"black_box(call_{self.index}({given}));"

    def said(self, turn):
        values = list(self.calls[turn][0])
        for k, j in self.assigned.items():
            values[k] = values[j]
        return " ".join([str(self.index), *(kind.debug(value) for kind, value, use in zip(self.kinds, values, self.uses) if use == "say")])


def source(functions):
    turns = "".join(f"    unsafe {{ TURN = {turn}; }}\n" + "".join(f"    {function.call(turn)}\n" for function in functions) for turn in range(TURNS))
    return TYPES + "static mut TURN: u32 = 0;\n" + "\n".join(function.code() for function in functions) + f"\nfn main() {{\n{turns}}}\n"


class Shares:
    def __init__(self):
        self.values = self.told = self.results = self.results_told = 0


def check_arguments(where, function, turn, left, shares):
    for k, (kind, value) in enumerate(zip(function.kinds, function.calls[turn][0])):
        # What takes no byte has no name in DWARF.
        name = re.match(rf"a{k}=|arg{k + 1}=" if kind.name == "()" else rf"a{k}=", left)
        expect(name, f"{where}: {left!r}, not a{k}")
        left, wanted = left[name.end():], kind.show(value)
        told = TOLD.match(left)
        # Addresses within structures are numbers.
        if wanted is None:
            told = told or re.match(r"None|\{[^}]*\}", left)
        expect(told or wanted is not None and left.startswith(wanted), f"{where} a{k}: {kind.name}: {left!r}, not {wanted!r}")
        shares.values += kind.name != "()"
        shares.told += told is not None and kind.name != "()"
        left = left[told.end() if told else len(wanted):].removeprefix(", ")
    expect(not left, f"{where}: {left!r} is left")


def one_build(case, path, functions, level, toolchain=()):
    program = os.path.join(case.folder, f"rust-{level}")
    built = subprocess.run(["rustc", *toolchain, "-g", "-C", f"opt-level={level}", "-o", program, path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           text=True, check=False, timeout=300)
    expect(built.returncode == 0, built.stdout[-1500:])
    done = case.record([program], ["--no-libcalls", "-l", "*call_*", "-A", "*call_*", "-R", "*call_*"], log=False)
    expect(done.status == 0, f"{done.status}: {done.stderr}")
    said = [function.said(turn) for turn in range(TURNS) for function in functions]
    expect(done.stdout.splitlines() == said, f"-O{level}: the program says otherwise than drawn")
    shares, values = Shares(), recorded(case)
    for name, (arguments, results, _) in values.items():
        match = re.search(r"\bcall_(\d+)$", name.split("(")[0])
        if not match:
            continue
        function = functions[int(match.group(1))]
        expect(not arguments or len(arguments) == TURNS, f"{name}: {arguments}")
        for turn, text in enumerate(arguments):
            check_arguments(f"-O{level} {name} {turn} of {case.trace_path}", function, turn, text, shares)
        for turn, text in enumerate(results):
            wanted, told = function.result.show(function.calls[turn][1]), TOLD.fullmatch(text)
            expect(told or text == wanted, f"-O{level} {name}: {function.result.name}: {text!r}, not {wanted!r}")
            shares.results += 1
            shares.results_told += told is not None
    return shares


def random_rust(seed, levels, count=60, toolchain=()):
    def test(case):
        need(case)
        case.as_it_is = True
        if not shutil.which("rustc"):
            raise Skip("rustc is not installed")
        odd = random.Random(seed)
        functions = [Function(odd, i) for i in range(count)]
        path = os.path.join(case.folder, "typed.rs")
        with open(path, "w") as file:
            file.write(source(functions))
        for level in levels:
            shares = one_build(case, path, functions, level, toolchain)
            if os.environ.get("TYPED_SHARES"):
                print(f"rustc -O{level}: {shares.values - shares.told} of {shares.values} arguments, {shares.results - shares.results_told} of {shares.results} results")
            expect(shares.values >= 3 * count and (level != 0 or (shares.told < shares.values / 4 and shares.results_told < shares.results / 3)),
                   f"-O{level}: {shares.told} of {shares.values} values are not available, {shares.results_told} of {shares.results} results")
    return test


WILD = r"""use std::mem::transmute;
#[inline(never)] fn black_box<T>(v: T) -> T { unsafe { let out = std::ptr::read_volatile(&v); std::mem::forget(v); out } }
pub struct P { x: i32, name: String, o: Option<u16>, next: Option<Box<P>> }
#[inline(never)] fn hit(id: u32, p: &P, t: String, q: &Option<Option<Option<u8>>>) -> Option<i64> {
    println!("{} {} {} {:?} {}", id, p.x, p.o.map_or(-1, |n| n as i32), q, t.len());
    if id % 2 == 0 { Some(p.x as i64 - 1) } else { None }
}
#[inline(never)] fn wild(s: &str, v: &[u32], t: Option<&str>, o: &Option<u32>) -> usize {
    black_box(s.as_ptr() as usize + v.as_ptr() as usize + o as *const _ as usize + t.is_some() as usize)
}
fn main() {
    for i in 0..12u32 {
        let p = P { x: i as i32 * 10, name: format!("n{}", i), o: if i > 5 { Some(i as u16) } else { None }, next: None };
        black_box(hit(i, &p, "t".repeat(i as usize * 10), &[None, Some(None), Some(Some(None)), Some(Some(Some(7)))][i as usize % 4]));
    }
    unsafe {
        let far: &str = transmute::<(usize, usize), &str>((0x1000, 5));
        let many: &[u32] = transmute::<(usize, usize), &[u32]>((0x7fff_ffff_0000, 1usize << 61));
        black_box(wild(far, many, Some(far), transmute::<usize, &Option<u32>>(8)));
        let empty: &str = transmute::<(usize, usize), &str>((1, 0));
        let none: &[u32] = transmute::<(usize, usize), &[u32]>((4, 0));
        black_box(wild(empty, none, Some(empty), &None));
        let text = "abc";
        let long: &str = transmute::<(usize, usize), &str>((text.as_ptr() as usize, usize::MAX));
        black_box(wild(long, none, None, &Some(9)));
    }
}
"""
WILD_CONDITIONS = {
    "p->x > 60": lambda i, x, o, q, t: x > 60,
    "p->o == 7 || p->o.value > 9": lambda i, x, o, q, t: o == 7 or o > 9,
    "!p->o.has_value": lambda i, x, o, q, t: o < 0,
    't == "tttttttttt"': lambda i, x, o, q, t: t == 10,
    "q == 7": lambda i, x, o, q, t: q == "Some(Some(Some(7)))",
    "ret > 40": lambda i, x, o, q, t: i % 2 == 0 and x > 41,
    "!ret.has_value": lambda i, x, o, q, t: i % 2 == 1,
}


def unoptimized(case, name, source):
    """A program of the source, as rustc builds it with -g alone."""
    need(case)
    case.as_it_is = True
    if not shutil.which("rustc"):
        raise Skip("rustc is not installed")
    program, path = os.path.join(case.folder, f"rust-{name}"), os.path.join(case.folder, f"{name}.rs")
    with open(path, "w") as file:
        file.write(source)
    built = subprocess.run(["rustc", "-g", "-A", "warnings", "-o", program, path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=300)
    expect(built.returncode == 0, built.stdout[-1500:])
    return program


def wild(case):
    """Texts and lists that lead nowhere or are endless end in a word; --if with values of Rust."""
    program = unoptimized(case, "wild", WILD)
    options = ["--no-libcalls", "-l", "*::hit", "-l", "*::wild", "-a"]
    expect(case.record([program], options, log=False).status == 0, "record")
    shown = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
    for line in ("wild(s=(fault), v=(fault), t=(fault), o=0x8(fault))", 'wild(s="", v={}, t="", o=None)', "wild(s=(fault), v={}, t=None, o=9)",
                 'hit(id=0, p={x=0, name="n0", o=None, next=None}, t="", q=None)', 'hit(id=7, p={x=70, name="n7", o=7, next=None}, t="' + 64 * "t" + '"...(70 bytes), q=7)',
                 "= 59", "= None"):
        expect(line in shown, f"no {line} in {shown}")
    for name in ("q", "q.value.value.value"):
        by = case.run([case.tool, "report", "--by", f"*::hit({name})", "-i", case.trace_path]).stdout
        expect(sorted(re.findall(r"^ +3 .*::hit\([a-z.]+=(.*)\)$", by, re.M)) == ["7", "None", "Some(None)", "Some(Some(None))"], by)
    done = case.record([program], [*options[:3], "-A", "*::hit:p->x"], log=False)
    expect(done.status != 0 and "paths are followed in C and C++ alone" in done.stderr, done.stderr)
    for condition, check in WILD_CONDITIONS.items():
        done = case.record([program], [*options[:5], "-a", "--if", f"*::hit: {condition}"], log=False)
        expect(done.status == 0, f"{condition}: {done.status}: {done.stderr}")
        rows = [line.split(" ") for line in done.stdout.splitlines()]
        wanted = sum(check(int(row[0]), int(row[1]), int(row[2]), row[3], int(row[4])) for row in rows)
        shown = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
        expect(0 < wanted < 12 and len(re.findall(r"::hit\(", shown)) == wanted, f"{condition}: {shown}, not {wanted}")


CHOSEN = r"""#![allow(dead_code)]
#[inline(never)] fn black_box<T>(v: T) -> T { unsafe { let out = std::ptr::read_volatile(&v); std::mem::forget(v); out } }
#[derive(Debug)] pub enum Shape { Circle(f64), Rect { w: i32, h: i32 }, Named(String, u8), Empty }
#[inline(never)] fn draw(i: u32, s: &Shape, r: Result<u32, String>) -> Result<u64, u64> {
    println!("{} {:?} {:?}", i, s, r);
    if i % 3 == 0 { Ok(i as u64 * 2) } else { Err(i as u64) }
}
#[inline(never)] fn wild(s: &Shape, n: u32) { println!("{} {}", n, s as *const Shape as usize & 1) }
fn main() {
    for i in 0..12u32 {
        let s = match i % 4 { 0 => Shape::Circle(i as f64 / 2.0), 1 => Shape::Rect { w: i as i32, h: -(i as i32) }, 2 => Shape::Named(format!("n{}", i), i as u8), _ => Shape::Empty };
        let _ = black_box(draw(i, &s, if i % 2 == 0 { Ok(i) } else { Err("odd".to_string()) }));
    }
    unsafe {
        wild(std::mem::transmute::<usize, &Shape>(8), 1);
        let odd = [0x8000_0000_0000_0007u64, 0, 0, 0];
        wild(&*(odd.as_ptr() as *const Shape), 2);
    }
}
"""
# CONDITION: the calls that it is true of.
OF_VARIANTS = {
    "s.variant == Rect": [1, 5, 9], "s.variant == Empty && i > 5": [7, 11], "s.Circle.__0 > 1.5": [4, 8], "!(s.Circle.__0 > 1.5)": [0],
    "s.Rect.h == -5 || s.Named.__1 == 10": [5], "s.variant == Rect && s.Rect.h == -5 || s.Named.__1 == 10": [5, 10], 's.Named.__0 == "n6"': [6], 'r.Err.__0 == "odd" && s.variant == Rect': [1, 5, 9],
    "r.variant == Ok && i > 5": [6, 8, 10], "ret.variant == Ok": [0, 3, 6, 9], "s.variant == Shape::Rect": [1, 5, 9],
    "r.Ok.__0 > 9": [10], "ret.Ok.__0 == 12": [6], "ret.Err.__0 > 8": [10, 11], "s.variant != Circle && s.variant != Rect && s.variant != Empty": [2, 6, 10],
}
# What is refused, and why.
NOT_OF_VARIANTS = {
    "s.variant == Named": "no number of its own", "s == Rect": "as in 's.variant == Ok'", "r == Ok": "as in 's.variant == Ok'", "i > 5 && s != 0": "as in 's.variant == Ok'",
    "s.variant == 0": "compared with a name of its type", "2 != r.variant": "compared with a name of its type", "s.variant < Rect": "compared with a name of its type",
    "r.variant == Err": "no number of its own", "r.variant == Circle": "compared with a name of its type", "s.variant == r.variant": "compared with a name of its type",
}


def chosen_by_variants(case):
    """--if and JSON with enumerations that have data; broken ones end in a word."""
    program = unoptimized(case, "chosen", CHOSEN)
    options = ["--no-libcalls", "-l", "*::draw", "-l", "*::wild", "-a"]
    expect(case.record([program], options, log=False).status == 0, "record")
    shown = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
    for line in ("draw(i=4, s=Circle(2.0), r=Ok(4)) = Err(4);", 'draw(i=5, s=Rect{w=5, h=-5}, r=Err("odd")) = Err(5);', 's=Named("n6", 6), r=Ok(6)) = Ok(12);',
                 "s=Empty, ", "wild(s=0x8(fault), n=1)"):
        expect(line in shown, f"no {line} in {shown}")
    expect(len(re.findall(r"::wild\(s=\w+.*, n=\d\)", shown)) == 2, shown)
    whole = case.run([case.tool, "export", "--format", "json", "-i", case.trace_path, "-o", "-"]).stdout
    expect('"s.variant":"Rect","s.Circle.__0":null,"s.Rect.w":5,"s.Rect.h":-5,"s.Named.__0":null' in whole, whole[-3000:])
    by = case.run([case.tool, "report", "--by", "*::draw(s.variant)", "-i", case.trace_path]).stdout
    expect(len(re.findall(r"^ +3 .*=(?:Circle|Rect|Named|Empty)\)$", by, re.M)) == 4, by)
    for condition, wanted in OF_VARIANTS.items():
        done = case.record([program], [*options[:3], "-a", "--if", f"*::draw: {condition}"], log=False)
        expect(done.status == 0, f"{condition}: {done.status}: {done.stderr}")
        shown = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
        expect([int(i) for i in re.findall(r"::draw\(i=(\d+)", shown)] == wanted, f"{condition}: {shown}, not {wanted}")
    for condition, why in NOT_OF_VARIANTS.items():
        done = case.run([case.tool, "record", "-o", case.trace_path, "--if", f"*::draw: {condition}", "--", program])
        expect(done.status and why in done.stderr, f"{condition}: {done.stderr}")


WORDS = r"""use std::hint::black_box;
#[inline(never)] fn of_8(n: u64) { black_box(n); }
#[inline(never)] fn of_1(n: u8) { black_box(n); }
#[inline(never)] fn of_real(n: f32) { black_box(n); }
#[inline(never)] fn of_two(n: u32, m: u32) { black_box(n); black_box(m); }
#[inline(never)] fn of_later(n: u32) { let m = n; black_box(m); }
fn main() { of_8(1 << 40); of_1(7); of_real(1.5); of_two(2, 3); of_later(4); }
"""


def words(case):
    """An argument that lies in the one word of its function's frame, for which a push of rax makes room."""
    program = unoptimized(case, "words", WORDS)
    expect(case.record([program], ["--no-libcalls", "-l", "*::of_*", "-a"], log=False).status == 0, "record")
    shown = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
    expect(re.findall(r"::(of_\w+\(.*\))", shown) == ["of_8(n=1099511627776)", "of_1(n=7)", "of_real(n=1.5)", "of_two(n=2, m=3)", "of_later(n=4)"], shown)


TINY = """extern "C" { fn extend(p: *const u32) -> u32; }
#[inline(never)] fn inner(a: u32) -> u32 { unsafe { extend(&a); } 7 }
#[no_mangle] pub extern "C" fn outer() { inner(1); inner(unsafe { extend(std::ptr::null()) }); }
"""


def tiny(case):
    """An optimized crate whose only parameter is in memory, for its address is taken: a result that nobody needs is not there."""
    need(case)
    case.as_it_is = True
    if not shutil.which("rustc"):
        raise Skip("rustc is not installed")
    program, archive = os.path.join(case.folder, "rust-tiny"), os.path.join(case.folder, "libtiny.a")
    for name, text in (("tiny.rs", TINY), ("main.c", "void outer(void);\nunsigned extend(const unsigned *p) { return p ? *p + 41 : 5; }\nint main(void) { outer(); return 0; }\n")):
        with open(os.path.join(case.folder, name), "w") as file:
            file.write(text)
    for command in (["rustc", "-g", "-C", "opt-level=2", "--crate-type=staticlib", "-o", archive, os.path.join(case.folder, "tiny.rs")],
                    ["gcc", "-g", "-o", program, os.path.join(case.folder, "main.c"), archive, "-lpthread", "-ldl", "-lm"]):
        built = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=300)
        expect(built.returncode == 0, built.stdout[-1500:])
    expect(case.record([program], ["--no-libcalls", "-l", "*::inner", "-a"], log=False).status == 0, "record")
    shown = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
    expect(len(re.findall(r"::inner\(a=\((moved|uncertain)\)\) = \(uncertain\)", shown)) == 2, shown)


SINGLE = {"rust-values": random_rust(1, (0, 2)), "rust-wild": wild, "rust-chosen": chosen_by_variants, "rust-tiny": tiny, "rust-words": words}
LONG = {f"rust-values-{seed}": random_rust(seed, (0, 1, 2, 3, "s")) for seed in (10, 11)}
