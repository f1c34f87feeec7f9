#!/usr/bin/env python3
"""Makes the page of `calltap html` a C file: embed.py OUTPUT PAGE.html STYLE.css SCRIPT.js...

The page's @STYLE@, @SCRIPT@ and @POLICY@ are filled in, and what is before and behind its @DATA@ becomes an array each.
The policy names the style and the script by their hash: a browser runs no other script, whatever a trace contains, and
opens no connection.
"""
import base64
import hashlib
import sys


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def hashed(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def array(name, text):
    data = text.encode()
    lines = [",".join(map(str, data[at:at + 32])) for at in range(0, len(data), 32)]
    return (f"const char {name}[] = {{\n" + ",\n".join(lines) + "};\n"
            f"const size_t {name}_size = sizeof({name});\n")


def main():
    output, page, style, *scripts = sys.argv[1:]
    page, style = read(page), read(style)
    script = '"use strict";\n(() => {\n' + "\n".join(map(read, scripts)) + "})();\n"
    if "</" in script or "<!--" in script:
        sys.exit("embed.py: a script has '</' or '<!--' in it, which would end it within the page")
    policy = f"default-src 'none'; style-src {hashed(style)}; script-src {hashed(script)}"
    for word, text in (("@POLICY@", policy), ("@STYLE@", style), ("@SCRIPT@", script)):
        if page.count(word) != 1:
            sys.exit(f"embed.py: the page has {word} {page.count(word)} times, not once")
        page = page.replace(word, text)
    head, data, tail = page.partition("@DATA@")
    if not data:
        sys.exit("embed.py: the page has no @DATA@")
    with open(output, "w", encoding="ascii") as file:
        file.write("/* Made by scripts/embed.py. */\n#include \"host/html/page.h\"\n\n" + array("html_page_head", head) +
                   array("html_page_tail", tail))


if __name__ == "__main__":
    main()
