#!/bin/sh
# Makes sure that the Debian packages of a purpose are installed: packages.sh check|demo|bench
#
# Called by ./check, ./demo and bench/run before anything else.  As root (or with sudo that asks nothing) it installs
# what is missing and says so; otherwise it names what is missing and fails.  On another system than Debian it only
# says what it would have installed and goes on.
set -eu

build="gcc g++ libc6-dev meson ninja-build pkg-config libelf-dev libdw-dev libzstd-dev liblzma-dev zlib1g-dev libiberty-dev libncurses-dev libfuse3-dev libcmocka-dev"
sources="ca-certificates make tcl xz-utils"
tools="gdb valgrind strace linux-perf libunwind-dev babeltrace2 graphviz protobuf-compiler trace-cmd fuse3" # that the tests use beside the tracer
# Programs for other CPUs are built and emulated; the libraries of the whole tool for them: scripts/cross.py.
others="qemu-user-static"
for cpu in aarch64 riscv64; do
	[ "$cpu" = "$(uname -m)" ] || others="$others gcc-$cpu-linux-gnu g++-$cpu-linux-gnu"
done
case ${1:-} in
check) list="$build python3 clang clang-format clang-tidy binutils mandoc tmux libc++1 libc++abi1 rustc musl-tools python3-greenlet luajit zsh fish $tools $others" ;;
demo) list="$build $sources python3" ;;
bench) list="$build $sources python3 clang libclang-rt-14-dev uftrace lttng-tools liblttng-ust-dev bpftrace linux-perf gdb sqlite3 redis-server time $others" ;;
*)
	echo "usage: packages.sh check|demo|bench" >&2
	exit 2
	;;
esac

if ! command -v dpkg-query >/dev/null; then
	echo "This is no Debian system; what the $1 needs is, by Debian's names: $list"
	exit 0
fi

missing=
for package in $list; do
	# A compiler or interpreter that came another way is as good.
	case $package in
	python3 | tcl | meson | rustc) program=$package ;;
	ninja-build) program=ninja ;;
	*) program= ;;
	esac
	[ "$program" = tcl ] && program=tclsh
	if [ -n "$program" ] && command -v "$program" >/dev/null; then
		continue
	fi
	dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

sudo=
if [ "$(id -u)" != 0 ]; then
	if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
		sudo=sudo
	else
		echo "Some Debian packages are missing. Install them as root, then run this again:" >&2
		echo "    apt-get install --no-install-recommends$missing" >&2
		exit 1
	fi
fi

echo "Installing Debian packages:$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
	# shellcheck disable=SC2086  # the list is meant to be split
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing >"$log" 2>&1 </dev/null
}
# The lists of a machine that was never updated are empty; those of an old one name files that are gone.
if ! install; then
	$sudo apt-get update -q >"$log" 2>&1 </dev/null || { cat "$log" >&2; exit 1; }
	install || { cat "$log" >&2; exit 1; }
fi
