"""Run by gdb at the first instruction of outer() in callers.c: goes on by single instructions until middle() and leaf()
were called and returned once, and looks at the stack at each.  Prints "N instructions, M wrong".

Every caller must be there, in order.  In code that is not the program's, the function just entered or left may be there
or not, as it may between a function's stub and its body."""
import gdb

OWN = ("leaf", "middle", "outer", "main")


def walk():
    """The program's functions on the stack, innermost first, and whether the innermost frame is one."""
    names, frame = [], gdb.newest_frame()
    while frame is not None and len(names) < 64:
        names.append(frame.name())
        frame = frame.older()
    return [name for name in names if name in OWN], names[0] in OWN


def follow(frames, function):
    """The open frames, outermost first, after an instruction in that function."""
    if len(frames) > 1 and frames[-2] == function:
        frames.pop()
    elif not frames or frames[-1] != function:
        frames.append(function)


def main():
    frames, looked_at, wrong, deepest = ["main", "outer"], 0, 0, 2
    while looked_at < 5000 and not (deepest == 4 and frames == ["main", "outer"]):
        seen, in_own = walk()
        if in_own:
            follow(frames, seen[0])
        deepest = max(deepest, len(frames))
        allowed = [frames[::-1]] + ([] if in_own else [frames[-2::-1]])
        looked_at += 1
        if seen not in allowed:
            wrong += 1
            print(f"at {gdb.selected_frame().pc():#x} in {gdb.selected_frame().name()}: {seen}, open {frames[::-1]}")
        # Functions that leaf() calls are not looked at.
        gdb.execute("nexti" if frames[-1] == "leaf" and in_own else "stepi", to_string=True)
    print(f"{looked_at} instructions, {wrong} wrong")


main()
