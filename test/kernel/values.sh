# Run by init.sh for `text.py --suite`: prints what the kernel shows of calls' arguments, results and return addresses, with
# each option that it has.
echo "@@@ kernel $(uname -r)"
echo > /data

# Calls with and without arguments; results that are 0, counts, error numbers, addresses and nothing.
work() {
	[ -e /missing ]
	echo word > /data
	/bin/busybox ls -l /data > /dev/null
}
# Options that are about what is recorded, in one word with commas; each further word: more options that the text is shown with.
record() {
	tracer=$1 recorded=$(echo "$2" | tr , ' ')
	shift 2
	for option in $recorded; do
		[ -e "options/$option" ] || return
	done
	echo nop > current_tracer
	set_all 1 $recorded
	echo 1 > tracing_on
	echo "$tracer" > current_tracer
	work
	echo 0 > tracing_on
	for shown in "" "$@"; do
		shown=$(echo "$shown" | tr , ' ')
		set_all 1 $shown
		echo "@@@ $tracer $recorded $shown"
		head -n "$([ -n "$shown" ] && echo 70 || echo 160)" trace
		set_all 0 $shown
	done
	echo nop > current_tracer
	set_all 0 $recorded
}

for function in $(cat /functions); do
	echo "$function" >> set_ftrace_filter
done 2> /dev/null
record function func-args raw hex verbose latency-format sym-offset sym-addr noprint-parent record-tgid noirq-info nocontext-info latency-format,verbose sym-offset,sym-addr
record function_graph funcgraph-args funcgraph-tail latency-format sym-addr funcgraph-abstime,funcgraph-proc nofuncgraph-duration nofuncgraph-cpu nocontext-info
record function_graph funcgraph-retval funcgraph-tail funcgraph-retval-hex latency-format funcgraph-retval-hex,funcgraph-abstime,funcgraph-proc
record function_graph funcgraph-retaddr funcgraph-tail sym-offset sym-addr latency-format
record function_graph funcgraph-args,funcgraph-retval funcgraph-tail funcgraph-retval-hex
record function_graph funcgraph-args,funcgraph-retaddr funcgraph-tail sym-addr
record function_graph funcgraph-retaddr,funcgraph-retval funcgraph-tail
record function_graph funcgraph-args,funcgraph-retaddr,funcgraph-retval funcgraph-tail funcgraph-retval-hex
